use super::*;
use proptest::prelude::*;

fn run(pieces: &[&[u8]]) -> (Vec<u8>, Vec<Seen>) {
    let mut filter = Filter::default();
    let (mut out, mut seen) = (Vec::new(), Vec::new());
    for piece in pieces {
        filter.feed(piece, &mut out, &mut seen);
    }
    (out, seen.into_iter().map(|(_, what)| what).collect())
}

fn stripped(input: &str) -> String {
    String::from_utf8(run(&[input.as_bytes()]).0).expect("text")
}

#[test]
fn every_kind_of_query_is_taken_out() {
    for query in [
        "\x1b[c",
        "\x1b[0c",
        "\x1b[>c",
        "\x1b[>0c",
        "\x1b[=c",
        "\x1bZ",
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[?996n",
        "\x1b[?2026$p",
        "\x1b[4$p",
        "\x1b[>q",
        "\x1b[>0q",
        "\x1b[?u",
        "\x1b[?4m",
        "\x1b[14t",
        "\x1b[16t",
        "\x1b[18t",
        "\x1b[19t",
        "\x1b[21t",
        "\x1b[?1;1;0S",
        "\x1b[1$w",
        "\x1b]10;?\x07",
        "\x1b]11;?\x1b\\",
        "\x1b]12;?\x07",
        "\x1b]4;1;?\x07",
        "\x1b]4;1;?;2;?\x1b\\",
        "\x1b]10;?;?\x07",
        "\x1b]21;foreground=?\x1b\\",
        "\x1b]52;c;?\x07",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x05",
    ] {
        assert_eq!(stripped(&format!("a{query}b")), "ab", "{query:?}");
    }
}

#[test]
fn what_is_no_query_passes_whole() {
    for passes in [
        "plain\r\n",
        "\x1b[31mred\x1b[0m",
        "\x1b[2J\x1b[3J\x1b[H",
        "\x1b[?2026h\x1b[?1049h\x1b[?25l",
        "\x1b[>7u\x1b[<u\x1b[=1;1u",
        "\x1b[>4;2m",
        "\x1b[2 q",
        "\x1b[!p",
        "\x1b[22;0t\x1b[8;24;80t",
        "\x1b]0;title\x07",
        "\x1b]8;;http://x/?a=?\x1b\\x\x1b]8;;\x1b\\",
        "\x1b]10;#ffffff\x07",
        "\x1b]52;c;aGVsbG8=\x07",
        "\x1b]7501;state=idle:app=codex\x1b\\",
        "\x1b]133;A\x07",
        "\x1bPq#0;2;0;0;0\x1b\\",
        "\x1b_Ga=T;AAAA\x1b\\",
        "\x1bc\x1b7\x1b8\x1b(0\x1b#8",
        "日本語 e\u{301} 👩‍👩‍👧",
        "\x1b\x1b[31m",
        "\x1b[3\x181m",
    ] {
        assert_eq!(stripped(passes), passes, "{passes:?}");
    }
}

#[test]
fn a_command_that_sets_and_asks_keeps_what_it_sets() {
    assert_eq!(stripped("\x1b]4;1;#ff0000;2;?\x07"), "\x1b]4;1;#ff0000\x07");
    assert_eq!(stripped("\x1b]10;?;#000000\x1b\\"), "\x1b]11;#000000\x1b\\");
}

#[test]
fn a_control_character_inside_a_query_is_kept() {
    assert_eq!(stripped("a\x1b[\r\n6nb"), "a\r\nb");
}

#[test]
fn a_query_string_that_is_cut_by_another_sequence_leaves_that_sequence() {
    assert_eq!(stripped("\x1b]11;?\x1b[31mx"), "\x1b[31mx");
    assert_eq!(stripped("\x1bP$qm\x1b[31mx"), "\x1b[31mx");
}

#[test]
fn state_reports_and_prompt_marks_are_noted_and_pass() {
    let input = "\x1b]7501;state=blocked:app=codex\x1b\\\x1b]133;D;0\x07";
    let (out, seen) = run(&[input.as_bytes()]);
    assert_eq!(out, input.as_bytes());
    assert_eq!(seen, [Seen::State("state=blocked:app=codex".into()), Seen::Mark("D;0".into())]);
}

#[test]
fn no_more_than_the_bound_is_ever_held() {
    for opening in ["\x1b[", "\x1b]11;", "\x1b]7501;", "\x1bP", "\x1b "] {
        let mut filter = Filter::default();
        let mut out = Vec::new();
        let filler = if opening.ends_with(' ') { b' ' } else { b'1' };
        let mut input = opening.as_bytes().to_vec();
        input.resize(input.len() + 5000, filler);
        for byte in &input {
            filter.feed(&[*byte], &mut out, &mut Vec::new());
            assert!(filter.held().len() <= HOLD, "{opening:?} holds {}", filter.held().len());
        }
        assert_eq!(out, input, "{opening:?} passes when it is too long");
    }
}

#[test]
fn a_viewer_that_joins_inside_a_string_is_told_to_swallow_the_rest() {
    let joins = |input: &[u8]| {
        let mut filter = Filter::default();
        filter.feed(input, &mut Vec::new(), &mut Vec::new());
        filter.resume()
    };
    assert_eq!(joins(b"\x1b]2;half a ti"), b"\x1b]7777;");
    assert_eq!(joins(b"\x1b_Gf=1;AAA"), b"\x1bX");
    assert_eq!(joins("日".as_bytes().split_last().expect("bytes").1), &"日".as_bytes()[..2]);
    assert_eq!(joins("日".as_bytes()), b"");
    assert_eq!(joins(b"\x1b[3"), b"", "a held beginning comes whole later");
}

#[test]
fn a_character_cut_at_every_byte_is_resumed() {
    let mut filter = Filter::default();
    for byte in "x👩".as_bytes().split_last().expect("bytes").1 {
        filter.feed(&[*byte], &mut Vec::new(), &mut Vec::new());
    }
    assert_eq!(filter.resume(), &"👩".as_bytes()[..3]);
}

/// Pieces of terminal output, whole and broken.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[ -~\r\n]{0,8}".prop_map(String::into_bytes),
        "[é日👩\u{301}]{0,4}".prop_map(String::into_bytes),
        "\x1b\\[[?>=<]?[0-9;:]{0,6}[ $!*]?[@-~]".prop_map(String::into_bytes),
        "\x1b\\][0-9]{0,5};[ -~]{0,12}(\x07|\x1b\\\\|\x18|)".prop_map(String::into_bytes),
        Just(b"\x1b]11;?\x07".to_vec()),
        Just(b"\x1b]4;1;?;2;#123456\x1b\\".to_vec()),
        Just(b"\x1b[?2026$p".to_vec()),
        Just(b"\x1bP+q544e\x1b\\".to_vec()),
        Just(b"\x1bPtmux;\x1b\x1b[6n\x1b\\".to_vec()),
        prop::collection::vec(
            prop_oneof![Just(0x1bu8), Just(b'['), Just(b']'), Just(b'P'), any::<u8>()],
            0..6
        ),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_of_a_stream_gives_the_same(
        input in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|i| i.index(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &input[w[0]..w[1]]).collect();
        let whole = run(&[&input]);
        prop_assert_eq!(&run(&pieces), &whole);
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(&run(&bytes), &whole);
    }

    #[test]
    fn what_passed_once_passes_again_unchanged(input in stream()) {
        let (once, _) = run(&[&input]);
        // A sequence left open at the end is held, so it is closed first.
        let mut closed = once.clone();
        closed.extend_from_slice(b"\x1b\\");
        let (twice, _) = run(&[&closed]);
        prop_assert_eq!(twice, closed);
    }
}
