use super::*;
use std::fmt::Write;

fn screen(rows: u16, cols: u16) -> Screen {
    Screen::new(rows, cols, Colours::default())
}

fn feed(screen: &mut Screen, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    screen.feed(bytes.as_ref(), Instant::now(), &mut out);
    out
}

fn texts(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|r| r.text.as_str()).collect()
}

#[test]
fn a_view_shows_rows_cursor_title_and_modes() {
    let mut s = screen(4, 20);
    feed(&mut s, "\x1b]2;the title\x07\x1b[?2004h\x1b[?25lone\r\n\ttwo\r\n");
    let view = s.take_view(Instant::now());
    assert_eq!(texts(&view.rows), ["one", "        two", "", ""]);
    assert_eq!(view.cursor, (2, 0));
    assert_eq!(view.cols, 20);
    assert!(view.bracketed_paste && !view.cursor_visible && !view.alt_screen);
    assert_eq!(view.title, "the title");
    assert_eq!(s.take_signals(), [Signal::Title("the title".into())]);
}

#[test]
fn a_wrapped_row_keeps_the_blanks_at_the_edge() {
    let mut s = screen(3, 5);
    feed(&mut s, "abcd efgh");
    let view = s.look();
    assert_eq!(texts(&view.rows), ["abcd ", "efgh", ""]);
    assert!(view.rows[0].wrapped && !view.rows[1].wrapped);
}

#[test]
fn faint_ranges_count_characters_and_leave_out_spacers() {
    let mut s = screen(2, 20);
    feed(&mut s, "日本 \x1b[2mTry\u{301} \"x\"\x1b[22m!\x1b[2m   ");
    let row = &s.look().rows[0];
    assert_eq!(row.text, "日本 Try\u{301} \"x\"!");
    assert_eq!(row.faint, [(3, 11)]);
}

#[test]
fn wide_characters_take_two_cells_and_one_place_in_the_text() {
    let mut s = screen(3, 5);
    feed(&mut s, "abcd日x");
    let view = s.look();
    assert_eq!(texts(&view.rows), ["abcd", "日x", ""]);
    assert!(view.rows[0].wrapped);
    assert_eq!(view.cursor, (1, 3));
}

#[test]
fn rows_that_leave_the_top_are_handed_out_once_and_counted() {
    let mut s = screen(3, 10);
    feed(&mut s, "1\r\n2\r\n3\r\n4\r\n5");
    let view = s.take_view(Instant::now());
    assert_eq!(texts(&view.scrolled_rows), ["1", "2"]);
    assert_eq!(view.scrolled, 2);
    assert_eq!(s.take_view(Instant::now()).scrolled_rows, []);
    feed(&mut s, "\r\n6");
    let view = s.take_view(Instant::now());
    assert_eq!(texts(&view.scrolled_rows), ["3"]);
    assert_eq!(view.scrolled, 3);
}

#[test]
fn the_count_goes_on_when_the_scrollback_is_full() {
    let mut s = screen(3, 10);
    let mut text = String::new();
    for i in 0..10_000 {
        let _ = write!(text, "{i}\r\n");
    }
    feed(&mut s, &text);
    let view = s.take_view(Instant::now());
    assert_eq!(view.scrolled, 10_000 - 2);
    assert_eq!(view.scrolled_rows.len(), ScreenView::MAX_SCROLLED);
    assert_eq!(view.scrolled_rows.last().map(|r| r.text.as_str()), Some("9997"));
    assert_eq!(view.scrolled_rows[0].text, "7998");
    feed(&mut s, "x\r\n");
    assert_eq!(texts(&s.take_view(Instant::now()).scrolled_rows), ["9998"]);
}

#[test]
fn rows_are_handed_out_although_the_scrollback_was_cleared_or_the_screen_swapped() {
    for after in ["\x1b[3J", "\x1b[?1049h", "\x1bc", "\x1b[?1047h"] {
        let mut s = screen(2, 10);
        feed(&mut s, format!("1\r\n2\r\n3{after}"));
        let view = s.take_view(Instant::now());
        assert_eq!(texts(&view.scrolled_rows), ["1"], "{after:?}");
        assert_eq!(view.scrolled, 1, "{after:?}");
        feed(&mut s, "\x1b[?1049l\x1b[?1047l\x1b[2;1H\r\n4");
        assert_eq!(s.take_view(Instant::now()).scrolled, 2, "{after:?}");
    }
}

#[test]
fn a_row_keeps_its_number_when_the_height_changes() {
    let mut s = screen(4, 10);
    feed(&mut s, "1\r\n2\r\n3\r\n4\r\n5");
    assert_eq!(s.take_view(Instant::now()).scrolled, 1);
    s.resize(2, 10);
    let view = s.take_view(Instant::now());
    assert_eq!((view.scrolled, texts(&view.rows)), (3, vec!["4", "5"]));
    s.resize(4, 10);
    let view = s.take_view(Instant::now());
    assert_eq!((view.scrolled, texts(&view.rows)), (1, vec!["2", "3", "4", "5"]));
}

#[test]
fn every_query_is_answered_once_and_in_order() {
    let mut s = Screen::new(24, 80, Colours::parse("#112233", "#ffeedd").expect("colours"));
    let out = feed(
        &mut s,
        "ab\x1b[c\x1b[>c\x1b[6n\x1b[?6n\x1b[?2026$p\x1b[?2004$p\x1b]10;?\x07\x1b]11;?\x1b\\\x1b[>q\
         \x1b[?u\x1b[18t\x1b[19t\x1b[?996n\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b]4;196;?\x07\x1b[5n",
    );
    assert_eq!(out, b"ab", "the viewers get none of them");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        String::from_utf8(s.take_replies()).expect("text"),
        format!(
            "\x1b[?6c\x1b[>0;2600;1c\x1b[1;3R\x1b[?1;3R\x1b[?2026;2$y\x1b[?2004;2$y\
             \x1b]10;rgb:1111/2222/3333\x07\x1b]11;rgb:ffff/eeee/dddd\x1b\\\
             \x1bP>|mado({version})\x1b\\\x1b[?0u\x1b[8;24;80t\x1b[9;24;80t\x1b[?997;2n\
             \x1bP0$r\x1b\\\x1bP0+r\x1b\\\x1b]4;196;rgb:ffff/0000/0000\x07\x1b[0n"
        )
    );
    assert_eq!(s.take_replies(), b"");
}

#[test]
fn the_view_waits_for_the_end_of_a_synchronised_update() {
    let mut s = screen(2, 10);
    let start = Instant::now();
    let mut out = Vec::new();
    s.feed(b"old", start, &mut out);
    s.feed(b"\x1b[?2026h\x1b[2J\x1b[Hnew", start, &mut out);
    assert!(s.mid_frame(start));
    assert_eq!(s.take_view(start).text(), "old");
    s.feed(b" one\x1b[?2026l", start, &mut out);
    assert!(!s.mid_frame(start));
    assert_eq!(s.take_view(start).text(), "new one");
}

#[test]
fn an_update_that_is_never_ended_ends_at_its_deadline() {
    let mut s = screen(2, 10);
    let start = Instant::now();
    s.feed(b"\x1b[?2026hnew", start, &mut Vec::new());
    assert_eq!(s.deadline(), Some(start + SYNC_LIMIT));
    assert_eq!(s.take_view(start).text(), "");
    assert!(!s.expire(start + SYNC_LIMIT / 2));
    // Beginning it again does not put it off.
    s.feed(b"\x1b[?2026h!", start + SYNC_LIMIT / 2, &mut Vec::new());
    assert!(s.expire(start + SYNC_LIMIT));
    assert_eq!(s.take_view(start + SYNC_LIMIT).text(), "new!");
    assert_eq!(s.deadline(), None);
}

#[test]
fn state_reports_prompt_marks_and_bells_are_signals() {
    let mut s = screen(2, 10);
    feed(&mut s, "\x1b]7501;state=working\x07\x1b]133;C\x07\x07\x07");
    assert_eq!(
        s.take_signals(),
        [Signal::State("state=working".into()), Signal::Mark("C".into()), Signal::Bell]
    );
}

#[test]
fn a_string_without_end_does_not_grow_the_model_and_its_end_is_found() {
    let mut s = screen(2, 20);
    feed(&mut s, "\x1b]2;");
    for _ in 0..200 {
        feed(&mut s, "x".repeat(1000));
    }
    assert!(s.skipping);
    feed(&mut s, "\x07after");
    assert_eq!(s.look().text(), "after");
    assert!(!s.take_signals().contains(&Signal::Bell));
}

#[test]
fn pushing_keyboard_flags_without_end_is_bounded() {
    let mut s = screen(2, 20);
    for _ in 0..10_000 {
        feed(&mut s, "\x1b[>1u");
    }
    feed(&mut s, "\x1b[>3u\x1b[?u\x1b[<2u\x1b[?u");
    assert_eq!(s.take_replies(), b"\x1b[?3u\x1b[?1u");
    assert!(s.kitty[0].len() <= KITTY_DEPTH);
}

#[test]
fn a_reset_clears_what_was_set() {
    let mut s = screen(5, 20);
    feed(&mut s, "\x1b[2;4r\x1b[?2031h\x1b[>4;2m\x1b[>1u\x1b]2;t\x07\x1b[?2026h");
    assert_eq!(s.region, Some((2, 4)));
    assert_eq!(s.modes.get(&2031), Some(&true));
    assert_eq!(s.modify_keys, 2);
    feed(&mut s, "\x1bc");
    assert_eq!((s.region, s.modes.len(), s.modify_keys), (None, 0, 0));
    assert!(s.kitty[0].is_empty() && s.title.is_empty() && s.sync.is_none());
}

#[test]
fn a_character_cut_between_two_reads_is_whole_in_the_view() {
    let mut s = screen(2, 20);
    for byte in "日e\u{301}👩".as_bytes() {
        feed(&mut s, [*byte]);
    }
    assert_eq!(s.look().rows[0].text, "日e\u{301}👩");
}

proptest::proptest! {
    #[test]
    fn no_bytes_at_all_upset_the_model(
        pieces in proptest::collection::vec(
            proptest::prelude::prop_oneof![
                proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
                proptest::prelude::Strategy::prop_map(
                    "\x1b\\[[?>=<]?[0-9;]{0,7}[ $!]?[@-~]", String::into_bytes),
                proptest::prelude::Strategy::prop_map("(日|x|\u{301}|\t|\r\n){0,30}", String::into_bytes),
            ],
            0..60,
        ),
        sizes in proptest::collection::vec((0u16..40, 0u16..40), 1..4),
    ) {
        let mut s = screen(5, 12);
        let each = pieces.len() / sizes.len() + 1;
        for (pieces, size) in pieces.chunks(each).zip(&sizes) {
            s.resize(size.0, size.1);
            for piece in pieces {
                feed(&mut s, piece);
                let (rows, cols) = s.size();
                let view = s.take_view(Instant::now());
                proptest::prop_assert_eq!(view.rows.len(), rows);
                proptest::prop_assert!(view.cursor.0 < rows && view.cursor.1 < cols);
            }
        }
    }
}

#[test]
fn rows_that_come_back_onto_a_taller_screen_have_not_left_it() {
    let mut s = screen(4, 20);
    feed(&mut s, "1\r\n2\r\n3\r\n4\r\n5\r\n6");
    s.resize(6, 20);
    let view = s.take_view(Instant::now());
    assert_eq!((view.scrolled, texts(&view.scrolled_rows)), (0, vec![]));
    assert_eq!(texts(&view.rows), ["1", "2", "3", "4", "5", "6"]);
    let mut s = screen(4, 20);
    feed(&mut s, "1\r\n2\r\n3\r\n4\r\n5\r\n6");
    s.resize(5, 20);
    let view = s.take_view(Instant::now());
    assert_eq!((view.scrolled, texts(&view.scrolled_rows)), (1, vec!["1"]));
}

#[test]
fn no_view_is_older_than_the_one_before_it() {
    let mut s = screen(2, 20);
    let start = Instant::now();
    let say = |s: &mut Screen, ms: u64, text: &str| {
        let now = start + Duration::from_millis(ms);
        s.feed(text.as_bytes(), now, &mut Vec::new());
        now
    };
    let now = say(&mut s, 0, "\x1b[?2026hone\x1b[?2026l");
    assert_eq!(s.take_view(now).rows[0].text, "one");
    say(&mut s, 5, " two");
    assert_eq!(s.take_view(now + Duration::from_millis(6)).rows[0].text, "one two");
    // The next frame has begun within the time in which no new picture is made.
    let now = say(&mut s, 10, "\x1b[?2026h three");
    assert_eq!(s.take_view(now + Duration::from_millis(1)).rows[0].text, "one two");
}
