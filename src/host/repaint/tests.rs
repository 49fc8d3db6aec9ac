use super::*;
use crate::host::screen::Colours;
use proptest::prelude::*;
use std::fmt::Write;
use std::time::Instant;

fn feed(screen: &mut Screen, bytes: &[u8]) {
    screen.feed(bytes, Instant::now(), &mut Vec::new());
}

fn fed(rows: u16, cols: u16, bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(rows, cols, Colours::default());
    feed(&mut screen, bytes);
    screen
}

const HALF: Flags =
    Flags::WIDE_CHAR.union(Flags::WIDE_CHAR_SPACER).union(Flags::LEADING_WIDE_CHAR_SPACER);

/// Half of a wide character whose other half is gone: shown as a blank by a repaint.
fn torn(grid: &Grid<Cell>, line: i32, column: usize) -> bool {
    let row = &grid[Line(line)];
    let flags = row[Column(column)].flags;
    if flags.contains(Flags::LEADING_WIDE_CHAR_SPACER) {
        let next = line + 1 < grid.screen_lines() as i32 && cells::whole(&grid[Line(line + 1)], 0);
        return !(column + 1 == grid.columns() && flags.contains(Flags::WRAPLINE) && next);
    }
    flags.contains(Flags::WIDE_CHAR) && !cells::whole(row, column)
        || flags.contains(Flags::WIDE_CHAR_SPACER) && !(column > 0 && cells::whole(row, column - 1))
}

fn any_torn(screen: &Screen) -> bool {
    let grid = screen.term.grid();
    (0..grid.screen_lines())
        .any(|line| (0..grid.columns()).any(|column| torn(grid, line as i32, column)))
}

/// Every cell of the active screen with its attributes, scrollback too. Tabs are blanks: a
/// repaint cannot know where they went.
fn cells(screen: &Screen) -> Vec<Vec<Cell>> {
    let grid = screen.term.grid();
    let history = grid.history_size().min(SCROLLBACK) as i32;
    let rows = grid.screen_lines() as i32;
    (-history..rows)
        .map(|line| {
            (0..grid.columns())
                .map(|column| {
                    let mut cell = grid[Line(line)][Column(column)].clone();
                    if cell.c == '\t' {
                        cell.c = ' ';
                    }
                    if torn(grid, line, column) {
                        cell.clear_wide();
                        cell.flags.remove(HALF);
                    }
                    // Drawn by the wide character that did not fit, in its pen.
                    if cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER) {
                        let flags = cell.flags & (HALF | Flags::WRAPLINE);
                        cell = Cell { flags, ..Cell::default() };
                    }
                    let has_marks = cell.zerowidth().is_some_and(|marks| !marks.is_empty());
                    if !has_marks && cell.underline_color().is_none() && cell.hyperlink().is_none()
                    {
                        cell.extra = None;
                    }
                    // The last row of a screen has no next row to wrap into, and the mark means
                    // nothing in another column, where deleting cells may move it.
                    if line == rows - 1 || column + 1 < grid.columns() {
                        cell.flags.remove(Flags::WRAPLINE);
                    }
                    cell
                })
                .collect()
        })
        .collect()
}

fn assert_same(original: &mut Screen, copy: &mut Screen, what: &str) {
    let torn = any_torn(original);
    if !torn {
        assert_eq!(original.look().text(), copy.look().text(), "{what}");
    }
    let (a, b) = (cells(original), cells(copy));
    assert_eq!(a.len(), b.len(), "{what}: number of lines");
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        for (column, (a, b)) in a.iter().zip(b).enumerate() {
            assert_eq!(a, b, "{what}: column {column} of line {i}");
        }
    }
    let (x, y) = (original.term.grid(), copy.term.grid());
    if !wrapped_since(original) {
        assert_eq!(x.cursor, y.cursor, "{what}: cursor");
        assert_eq!(x.saved_cursor, y.saved_cursor, "{what}: saved cursor");
    }
    assert_eq!(original.term.mode(), copy.term.mode(), "{what}: modes");
    assert_eq!(original.term.cursor_style(), copy.term.cursor_style(), "{what}: cursor style");
    assert_eq!(original.title, copy.title, "{what}: title");
    assert_eq!(original.region, copy.region, "{what}: region");
    assert_eq!(original.modes, copy.modes, "{what}: other modes");
    assert_eq!(original.modify_keys, copy.modify_keys, "{what}: modifyOtherKeys");
    let active = usize::from(original.alt_screen());
    assert_eq!(original.kitty[active], copy.kitty[active], "{what}: keyboard stack");
    let rows = |s: &Screen| s.look().rows;
    let wrapped = |s: &Screen| {
        let mut rows = rows(s);
        if let Some(last) = rows.last_mut() {
            last.wrapped = false;
            last.text.truncate(last.text.trim_end_matches(' ').len());
        }
        rows
    };
    if !torn {
        assert_eq!(wrapped(original), wrapped(copy), "{what}: rows");
    }
}

/// What is knowingly lost: a cursor that waits to wrap at the end of a row that has wrapped since. It
/// comes back as one that does not wait.
fn wrapped_since(screen: &Screen) -> bool {
    let grid = screen.term.grid();
    [&grid.cursor, &grid.saved_cursor]
        .into_iter()
        .any(|cursor| cursor.input_needs_wrap && grid[cursor.point].flags.contains(Flags::WRAPLINE))
}

/// Likewise: the cell that a wide character left when it did not fit, with other attributes.
fn odd_spacer(screen: &Screen) -> bool {
    let grid = screen.term.grid();
    (-(grid.history_size() as i32)..grid.screen_lines() as i32 - 1).any(|line| {
        let cell = &grid[Line(line)][grid.last_column()];
        cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER)
            && Pen::of(cell) != Pen::of(&grid[Line(line + 1)][Column(0)])
    })
}

/// Repaints onto a terminal that shows something else, then lets both go on.
fn round_trip(rows: u16, cols: u16, before: &[u8], after: &[u8], what: &str) {
    let mut original = fed(rows, cols, before);
    let painted = full(&mut original);
    let dirt =
        b"dirt\x1b[31m\r\n\x1b[?1049h\x1b[2;3r\x1b[?2004h\x1b[>1u\x1b]2;old\x07\x1b[4h\x1b]2;cut";
    let mut copy = fed(rows, cols, dirt);
    feed(&mut copy, &painted);
    assert_same(&mut original, &mut copy, what);
    let last = Point::new(original.term.bottommost_line(), original.term.last_column());
    let last_row_wraps = original.term.grid()[last].flags.contains(Flags::WRAPLINE);
    let lossy = wrapped_since(&original) || any_torn(&original) || odd_spacer(&original);
    if lossy || last_row_wraps {
        return;
    }
    feed(&mut original, after);
    feed(&mut copy, after);
    assert_same(&mut original, &mut copy, &format!("{what}, later"));
}

#[test]
fn attributes_colours_and_characters_come_back() {
    let text = "\x1b[1;31mbold red\x1b[0m \x1b[2mfaint\x1b[22m \x1b[3;4mit ul\x1b[0m\r\n\
        \x1b[4:3;58:2::1:2:3mcurl\x1b[0m \x1b[7mrev\x1b[27m \x1b[9;8mstrike\x1b[0m\r\n\
        \x1b[38;5;200;48;5;17mindexed\x1b[38;2;1;2;3;48;2;250;251;252mtrue\x1b[0m\r\n\
        \x1b[97;104mbright\x1b[0m 日本 e\u{301} 👩 \x1b]8;;http://x/;y\x07link\x1b]8;;\x07 z\r\n\
        \x1b[44mblue to the edge\x1b[K\x1b[0m\r\n\ttab";
    round_trip(10, 40, text.as_bytes(), b"more\r\n", "attributes");
}

#[test]
fn wrapped_lines_stay_wrapped_and_reflow_alike() {
    let text = "0123456789abcdefghijKLMN\r\nabcdefghi日x\r\n1234567890\r\nend   blank   at edge";
    let mut original = fed(12, 10, text.as_bytes());
    let painted = full(&mut original);
    let mut copy = fed(12, 10, &painted);
    assert_same(&mut original, &mut copy, "before");
    for cols in [25, 7, 10] {
        original.resize(12, cols);
        copy.resize(12, cols);
        assert_eq!(original.look().rows, copy.look().rows, "{cols} columns");
    }
}

#[test]
fn two_thousand_lines_of_scrollback_come_back() {
    let mut text = String::new();
    for i in 0..3000 {
        let _ = write!(text, "\x1b[3{}mline {i}\x1b[0m\r\n", i % 8);
    }
    let mut original = fed(24, 80, text.as_bytes());
    let mut copy = fed(24, 80, &full(&mut original));
    assert_same(&mut original, &mut copy, "scrollback");
    let rows = copy.snapshot().scrolled_rows;
    assert_eq!(rows.len(), 2000);
    assert_eq!(rows[0].text, "line 977");
}

#[test]
fn modes_cursor_and_title_come_back() {
    let text = "\x1b]2;a title\x07\x1b[?1h\x1b=\x1b[?2004h\x1b[?1003h\x1b[?1006h\x1b[?1004h\x1b[?2031h\
        \x1b[>4;2m\x1b[>1u\x1b[>5u\x1b[5 q\x1b[?25l\x1b]11;#102030\x07\x1b]4;3;#010203\x07hello\x1b[3;4H\x1b[35m";
    round_trip(10, 40, text.as_bytes(), b"x\x1b[<u\r\ny", "modes");
}

#[test]
fn scroll_region_origin_and_saved_cursor_come_back() {
    let text = "1\r\n2\r\n3\r\n4\r\n5\r\n6\x1b[3;3H\x1b[32m\x1b7\x1b[2;5r\x1b[?6h\x1b[2;2H\x1b[1m";
    round_trip(8, 20, text.as_bytes(), b"\n\n\n\n\nx\x1b8y", "region");
}

#[test]
fn the_alternate_screen_and_the_primary_below_it_come_back() {
    let text = "one\r\ntwo\x1b[>1u\x1b[33m\x1b[?1049h\x1b[>3u\x1b[44m\x1b[2Jfull screen wraps here\x1b[5;5H\x1b[?1000h";
    round_trip(6, 12, text.as_bytes(), b"\x1b[<u\x1b[?1049lback\r\n", "alternate");
}

#[test]
fn a_cursor_that_waits_to_wrap_comes_back() {
    round_trip(4, 5, b"abcde", b"f", "narrow");
    round_trip(4, 6, "abcd日".as_bytes(), b"f", "wide");
    round_trip(4, 5, b"\x1b[?7labcdef", b"g", "no wrap");
}

#[test]
fn insert_mode_comes_back() {
    round_trip(4, 10, b"abc\x1b[1;2H\x1b[4h", b"xx\x1b[4ly", "insert");
}

#[test]
fn line_drawing_comes_back() {
    round_trip(4, 10, b"\x1b(0lqk", b"x\x1b(Bx", "line drawing");
}

#[test]
fn a_viewer_joins_in_the_middle_of_a_character_or_a_string() {
    let text = "ab日cd\x1b]2;title\x07ef\x1b[31mgh";
    for cut in 0..text.len() {
        let (before, after) = text.as_bytes().split_at(cut);
        let mut original = fed(3, 20, before);
        let mut copy = fed(3, 20, &full(&mut original));
        let mut out = Vec::new();
        original.feed(after, Instant::now(), &mut out);
        // The viewer gets what the filter passes, which is not always the same piece.
        feed(&mut copy, &out);
        assert_eq!(original.look().rows, copy.look().rows, "cut at {cut}");
        assert_eq!(original.term.grid().cursor, copy.term.grid().cursor, "cut at {cut}");
    }
}

#[test]
fn recordings_of_real_programs_come_back_at_every_cut() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/terminal");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of recordings") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a recording");
        found += 1;
        let mut original = fed(24, 80, b"");
        for piece in bytes.chunks(bytes.len() / 12 + 1) {
            feed(&mut original, piece);
            let mut copy = fed(24, 80, &full(&mut original));
            // What is open in the parser is not part of the picture.
            assert_same(&mut original, &mut copy, &path.display().to_string());
        }
    }
    assert!(found >= 3, "recordings are there");
}

#[test]
fn a_crop_shows_the_part_that_fits_and_then_only_what_changes() {
    let mut original = fed(6, 20, "1\r\n2\r\n3\r\n4 日本語\r\n5\r\n> type\x1b[?2004h".as_bytes());
    let mut crop = Crop::default();
    let mut viewer = fed(3, 6, b"dirt\r\ndirt");
    feed(&mut viewer, &crop.frame(&original, 3, 6));
    assert_eq!(viewer.look().text(), "4 日本\n5\n> type");
    assert!(viewer.look().bracketed_paste);
    assert_eq!(crop.frame(&original, 3, 6), b"", "nothing changed");

    feed(&mut original, b"\x1b[5;1Hfive");
    let frame = crop.frame(&original, 3, 6);
    assert!(!frame.windows(4).any(|w| w == b"type"), "unchanged rows are not sent");
    feed(&mut viewer, &frame);
    assert_eq!(viewer.look().text(), "4 日本\nfive\n> type");
    assert_eq!(viewer.look().cursor, (1, 4));

    // The cursor goes above the part that is shown, then beyond its right edge.
    feed(&mut original, b"\x1b[2;1H");
    feed(&mut viewer, &crop.frame(&original, 3, 6));
    assert_eq!(viewer.look().text(), "2\n3\n4 日本");
    feed(&mut original, b"\x1b[2;15H");
    feed(&mut viewer, &crop.frame(&original, 3, 6));
    assert!(!viewer.look().cursor_visible);

    // A larger viewer sees all of it, and nothing beyond.
    let mut large = fed(9, 30, b"dirt");
    feed(&mut large, &Crop::default().frame(&original, 9, 30));
    assert_eq!(large.look().text(), original.look().text());
}

fn session() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{1,14}".prop_map(String::from),
        1 => "[日é👩\u{301}]{1,4}".prop_map(String::from),
        3 => Just("\r\n".to_owned()),
        1 => "\x1b\\[(0|1|2|3|4|4:3|7|9|31|42|97|38;5;99|48;2;1;2;3|58:5:3|39|49)m".prop_map(String::from),
        1 => "\x1b\\[[1-9];[1-9]H".prop_map(String::from),
        1 => "\x1b\\[[0-2]?[JKXLMST]".prop_map(String::from),
        1 => "\x1b\\[\\?(1|7|25|1000|1002|1004|1006|2004|2031|1049)[hl]".prop_map(String::from),
        1 => "\x1b(7|8|M|D|\\(0|\\(B|=|>)".prop_map(String::from),
        1 => "\x1b\\[([1-3];[4-6]|)r".prop_map(String::from),
        1 => "\x1b\\[(>[0-9]u|<u|=[0-9];[1-3]u|[0-6] q|3J)".prop_map(String::from),
        1 => "[\t\x08\x0d]".prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..50).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_session_comes_back_and_goes_on_alike(before in session(), after in session()) {
        round_trip(6, 11, before.as_bytes(), after.as_bytes(), "session");
    }
}
