//! Texts: made literal, defused, compared, put into templates, blacked out.

use super::*;

/// What a terminal's paste parser makes of bytes: whether it ever leaves the paste before the end.
fn leaves_paste(text: &str) -> bool {
    let bytes = format!("\u{1b}[200~{text}\u{1b}[201~");
    let inner = &bytes["\u{1b}[200~".len()..bytes.len() - "\u{1b}[201~".len()];
    inner.contains("\u{1b}[201~") || inner.contains('\u{1b}') || inner.contains('\u{9b}')
}

/// Text made of what is dangerous.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => any::<char>().prop_map(String::from),
        3 => "[a-z0-9 ~\\[\\]/!@{}]{0,6}",
        2 => prop::sample::select(vec![
            "\u{1b}[201~", "\u{1b}[200~", "\u{1b}", "[201~", "201~", "\u{9b}201~", "\r", "\n", "\r\n", "\t",
            "\u{1b}]52;c;aGk=\u{7}", "\u{1b}]0;x\u{1b}\\", "\u{1b}P", "\u{9d}", "\u{9c}", "\u{1b}(", "\u{202e}",
            "\u{2066}", "\0", "\u{7f}", "\u{85}", "{output}", "{{", "}}", "{", "}", "\u{1b}[", "\u{1b}[20",
        ]).prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn no_text_leaves_its_paste_once_it_is_literal(text in nasty()) {
        let (out, removed) = text::sanitise(&text);
        prop_assert!(!leaves_paste(&out), "{out:?}");
        prop_assert!(out.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{out:?}");
        // Its own result is literal, and a literal text is left as it is.
        let (again, nothing) = text::sanitise(&out);
        prop_assert_eq!(&again, &out);
        prop_assert_eq!(nothing, text::Removed::default());
        prop_assert_eq!(removed.note().is_some(), text.replace("\r\n", "\n") != out);
    }

    #[test]
    fn a_literal_text_without_control_bytes_is_kept(text in "[^\\p{C}]{0,60}") {
        prop_assert_eq!(text::sanitise(&text).0, text);
    }

    #[test]
    fn what_a_template_puts_in_is_never_looked_at_again(output in nasty(), source in nasty()) {
        let values = BTreeMap::from([
            ("output", output.clone()),
            ("source", source.clone()),
            ("round", "2".to_owned()),
            ("maxRounds", "5".to_owned()),
        ]);
        let out = text::render("{{{source}}} {round}/{maxRounds}\n{output}|", &values).unwrap();
        prop_assert_eq!(out, format!("{{{source}}} 2/5\n{output}|"));
    }

    #[test]
    fn no_template_panics(template in nasty()) {
        let _ = text::check_template(&template);
    }

    #[test]
    fn a_composer_with_one_more_visible_character_is_not_ours(
        pieces in prop::collection::vec("[a-z日é\n ]{1,12}", 1..5),
        at in any::<prop::sample::Index>(),
        extra in "[a-zA-Z0-9日!]",
        hidden in 0..3_usize,
    ) {
        let typed = pieces.concat();
        let whole = text::holds_pieces(&typed, 0, &pieces, None);
        if typed.trim().is_empty() {
            prop_assert_eq!(whole, Holds::Empty);
            return Ok(());
        }
        prop_assert_eq!(whole, Holds::Ours);
        let chars: Vec<char> = typed.chars().collect();
        let at = at.index(chars.len() + 1);
        let mut shown: String = chars[..at].iter().collect();
        shown.push_str(&extra);
        shown.extend(&chars[at..]);
        prop_assert_eq!(text::holds_pieces(&shown, 0, &pieces, None), Holds::Other);
        prop_assert_eq!(text::holds_pieces(&shown, hidden, &pieces, None), Holds::Other);
        // One character less is not it either.
        let cut: String = chars[..chars.len() - 1].iter().collect();
        if text::fold(&cut) != text::fold(&typed) {
            prop_assert_ne!(text::holds_pieces(&cut, 0, &pieces, None), Holds::Ours);
        }
    }

    #[test]
    fn a_stand_in_is_ours_only_alone_and_for_a_long_piece(
        lines in 4..40_usize,
        extra in "[a-z]{1,3}",
        before in any::<bool>(),
    ) {
        let profile = sim::profile("x", ALL);
        let mark = profile.composer.placeholder.as_ref();
        let pieces = ["line\n".repeat(lines)];
        let shown = format!("[Pasted text #3 +{lines} lines]");
        prop_assert_eq!(text::holds_pieces(&shown, 0, &pieces, mark), Holds::Ours);
        let more = if before { format!("{extra}{shown}") } else { format!("{shown}{extra}") };
        prop_assert_eq!(text::holds_pieces(&more, 0, &pieces, mark), Holds::Other);
        let other = format!("[Pasted text #3 +{} lines]", lines + 5);
        prop_assert_eq!(text::holds_pieces(&other, 0, &pieces, mark), Holds::Other);
        prop_assert_eq!(text::holds_pieces(&shown, 0, &["short"], mark), Holds::Other);
    }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn what_is_written_is_the_literal_text_between_paste_marks(text in nasty(), paste in any::<bool>()) {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        let p = SendParams {
            project: PROJECT.into(),
            target: "a".into(),
            text,
            deliver: Some(if paste { "paste" } else { "lines" }.into()),
        };
        let Ok(Reply::Hop(hop)) = sim.request(SHELL, Request::Send(p)) else { panic!() };
        sim.run(60_000);
        let h = sim.hop(hop.id);
        let Some(prompt) = h.prompt.clone() else {
            prop_assert_eq!(h.reason_code.as_str(), "empty");
            return Ok(());
        };
        let mut typed = String::new();
        for (_, write) in &sim.fake(a).writes {
            if write != "\r" {
                let inner = write.strip_prefix("\u{1b}[200~").and_then(|w| w.strip_suffix("\u{1b}[201~"));
                typed.push_str(inner.expect("always between paste marks"));
            }
        }
        prop_assert_eq!(&typed, &prompt);
        prop_assert_eq!(sim.fake(a).submits.clone(), vec![prompt]);
        prop_assert_eq!(h.state, HopState::Answered);
    }
}

/// A value made by chance, as keys and tokens are; shrinking keeps it so.
fn random() -> impl Strategy<Value = String> {
    "[A-Za-z0-9]{8,14}[a-z][0-9][a-z][0-9][A-Z][A-Za-z0-9]{8,20}".prop_filter("varied", |v| {
        v.chars().collect::<std::collections::BTreeSet<char>>().len() >= 12
    })
}

/// What must not survive, and the text that it stands in. The known beginnings are put together here, so
/// that no scanner takes them for a leak.
fn secret() -> impl Strategy<Value = (String, String)> {
    let key = prop::sample::select(vec![
        "sk-ant-api03-",
        "sk-proj-",
        "sk-",
        "ghp_",
        "gho_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "glpat-",
    ]);
    let name = prop::sample::select(vec![
        "API_KEY=",
        "export OPENAI_API_KEY=",
        "\"client_secret\": \"",
        "password: ",
        "TOKEN := ",
        "aws_secret_access_key = ",
        "Authorization: Bearer ",
        "auth-token='",
    ]);
    let own = |s: String| (s.clone(), s);
    prop_oneof![
        (key, random()).prop_map(move |(k, v)| own(format!("{k}{v}"))),
        (name, random()).prop_map(|(n, v)| (v.clone(), format!("{n}{v}"))),
        "AKIA[A-Z0-9]{16}".prop_map(own),
        (random(), random(), random()).prop_map(move |(a, b, c)| own(format!("eyJ{a}.{b}.{c}"))),
        (prop::collection::vec("[A-Za-z0-9+/]{40,64}", 2..6), any::<bool>()).prop_map(
            |(lines, whole)| {
                let body = lines.join("\n");
                let end = if whole { "\n-----END PRIVATE KEY-----" } else { "" };
                (body.clone(), format!("-----BEGIN PRIVATE KEY-----\n{body}{end}"))
            }
        ),
    ]
}

/// Words and code as answers are full of them, and nothing secret.
fn ordinary() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "the",
        "key",
        "token",
        "is",
        "in",
        "src/core/route.rs",
        "fn main() {",
        "}",
        "let x = 5;",
        "a-b-c",
        "password:",
        "TOKEN=",
        "key=value",
        "task-runner-with-a-long-name-2",
        "disk-usage-report",
        "v1.2.3",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "https://example.org/a/b?c=1&d=2",
        "日本語",
        "é",
        "`code`",
        "self.api_key = api_key",
        "\"secret\": null",
        "getAccessTokenFromTheRequest()",
        "sk-",
        "AKIA",
        "ghp_",
        "-----BEGIN PUBLIC KEY-----",
        "Bearer of news",
        "PASSWORD_MIN_LENGTH = 12",
        "# Heading",
        "- [ ] todo",
        "2026-01-31T10:00:00Z",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "$ cargo test --test core_routes",
    ]);
    let gap = prop::sample::select(vec![" ", " ", " ", "\n", "\n\n", "\t"]);
    prop::collection::vec((word, gap), 0..20)
        .prop_map(|v| v.into_iter().map(|(w, g)| format!("{w}{g}")).collect())
}

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn no_secret_survives_and_the_rest_does(before in ordinary(), found in secret(), after in ordinary()) {
        let (value, text) = found;
        let whole = format!("{before}\n{text} \n{after}");
        let out = redact(&whole);
        prop_assert!(!out.text.contains(&value), "{:?}", out.text);
        for line in value.lines() {
            prop_assert!(!out.text.contains(line), "{:?}", out.text);
        }
        prop_assert!(out.secrets >= 1);
        prop_assert!(out.text.starts_with(&format!("{before}\n")), "{:?}", out.text);
        prop_assert!(out.text.ends_with(&format!("\n{after}")), "{:?}", out.text);
        let again = redact(&out.text);
        prop_assert_eq!((again.text, again.secrets), (out.text, 0));
    }

    #[test]
    fn what_is_ordinary_stays_as_it_is(text in ordinary()) {
        let out = redact(&text);
        prop_assert_eq!((out.text, out.secrets), (text, 0));
    }

    #[test]
    fn blacking_out_twice_changes_nothing(text in nasty(), found in secret(), glue in "[a-zA-Z0-9=\"' :_-]{0,4}") {
        let out = redact(&format!("{text}{glue}{}{glue}{text}", found.1));
        let again = redact(&out.text);
        prop_assert_eq!((again.text, again.secrets), (out.text, 0));
    }
}
