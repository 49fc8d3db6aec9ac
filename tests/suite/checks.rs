//! The composer: what a paste, an Enter, a clearing key and a resize do to it.

use mado::core::text::Holds;

use super::{SIZE, Subject, Which};
use crate::common::assert_never;
use std::time::Duration;

/// Long against the time in which an agent reacts to a key.
const A_WHILE: Duration = Duration::from_millis(400);

/// Five lines with indents, an empty line, wide and joined characters.
pub const MIXED: &str =
    "fn main() {\n    let 窓 = \"日本語 👩‍💻 e\u{301}\";\n\n        deeper\nto the end";

/// A paste submits nothing, one Enter submits exactly what was pasted, once, and an Enter on the
/// empty composer does nothing.
pub async fn enter_submits_exactly_the_paste(s: &Subject) {
    let before = s.submits().len();
    s.paste("one line").await;
    assert_never("a paste alone submits", A_WHILE, || s.submits().len() > before).await;
    assert_eq!(s.facts().dialog, None);
    s.enter().await;
    s.submitted(before, "one line").await;
    s.idle().await;
    s.until("a done row", || !s.rows_matching(&s.profile.screen.done).is_empty()).await;
    s.term.write("\r");
    s.term.write("\r");
    assert_never("an Enter on nothing submits", A_WHILE, || s.submits().len() > before + 1).await;
    s.idle().await;
}

/// Lines pasted one by one, each with its newline inside, arrive as they were.
pub async fn lines_pasted_one_by_one_arrive_as_they_were(s: &Subject) {
    let before = s.submits().len();
    s.type_lines(MIXED).await;
    s.enter().await;
    s.submitted(before, MIXED).await;
    s.idle().await;
    // So do more lines than the composer shows, and lines that wrap.
    let long: Vec<String> =
        (1..=20).map(|n| format!("{n:02} {}", "wide 幅 ".repeat(n % 4 * 6))).collect();
    let long: Vec<&str> = long.iter().map(|l| l.trim_end()).collect();
    let long = long.join("\n");
    s.type_lines(&long).await;
    s.enter().await;
    s.submitted(before + 1, &long).await;
    s.idle().await;
    // A tab becomes four blanks.
    s.type_lines("a\tb\n\tc").await;
    s.enter().await;
    s.submitted(before + 2, "a\tb\n\tc").await;
    s.idle().await;
}

/// Scripts in which what is one character to a person is several to a terminal.
pub async fn any_script_is_recognised_and_arrives_as_it_was(s: &Subject) {
    let before = s.submits().len();
    let plain = [
        "日本語の文章と、全角の句読点。",
        "中文字符與繁體字",
        "한국어 문장과 \u{1112}\u{1161}\u{11ab}",
        "Tiếng Việt e\u{302}\u{301} a\u{328}",
        "ﬁ ½ Ω Å ｆｕｌｌ ﾊﾝｶｸ",
    ];
    let joined = [
        "हिन्दी में लिखा नमस्ते क्षत्रिय",
        "ภาษาไทย น้ำ กำลัง",
        "العربية مع تشكيل مُحَمَّد",
        "עברית עם ניקוד שָׁלוֹם",
        "Z\u{351}\u{36b}\u{343}a\u{30a}lgo",
        "👩‍💻x👨‍👩‍👧‍👦 👍🏽! 🤷🏽‍♂️🎉🎊",
        "🇯🇵🇩🇪 1\u{fe0f}\u{20e3} ❤\u{fe0f} ☎ ☎\u{fe0f} ©\u{fe0f}",
        "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} ok",
    ];
    let mut texts = vec![plain.join("\n"), plain.join(" ")];
    if s.which != Which::OldClaude {
        // 2.1.197 counts the cells of these differently from the terminal. Depending on how its redraws
        // fall it writes over letters; then the text is not recognised and Enter is withheld.
        texts.extend([joined[..4].join("\n"), joined[4..].join("\n"), joined.join(" ")]);
    }
    let count = texts.len();
    for text in texts {
        let n = s.submits().len();
        s.type_lines(&text).await;
        s.enter().await;
        s.submitted(n, &text).await;
        s.idle().await;
    }
    assert_eq!(s.submits().len(), before + count);
}

/// A long paste is shown as a stand-in that the profile knows, and arrives whole.
pub async fn a_long_paste_has_a_stand_in_and_arrives_whole(s: &Subject) {
    let before = s.submits().len();
    let text: Vec<String> = (1..=60).map(|n| format!("line {n} of a long paste")).collect();
    let text = text.join("\n");
    s.paste(&text).await;
    let stand_in = s.profile.composer.placeholder.as_ref().unwrap();
    let shown = s.facts().composer.unwrap().text;
    assert!(stand_in.is_match(&shown), "{shown:?}");
    s.enter().await;
    s.submitted(before, &text).await;
    s.idle().await;
    let line = "word ".repeat(500);
    s.paste(line.trim_end()).await;
    assert!(stand_in.is_match(&s.facts().composer.unwrap().text));
    s.enter().await;
    s.submitted(before + 1, line.trim_end()).await;
    s.idle().await;
}

/// Text and Enter in one write: submitted when short, a newline in the text when long.
pub async fn text_with_enter_in_one_write_submits_only_when_short(s: &Subject) {
    let before = s.submits().len();
    let short = "s".repeat(51);
    s.term.write(format!("{short}\r"));
    s.submitted(before, &short).await;
    s.idle().await;
    let long = "l".repeat(65);
    s.term.write(format!("{long}\r"));
    s.shows(&long).await;
    assert_never("a long write submits", A_WHILE, || s.submits().len() > before + 1).await;
    s.enter().await;
    s.submitted(before + 1, &long).await;
    s.idle().await;
}

/// The same where an Enter right behind typed text is a newline whatever its length (Codex).
#[allow(dead_code, reason = "the demo agent submits short ones, as Claude does")]
pub async fn text_with_enter_in_one_write_never_submits(s: &Subject) {
    let before = s.submits().len();
    s.term.write("short\r");
    s.shows("short").await;
    assert_never("it submits", A_WHILE, || s.submits().len() > before).await;
    s.enter().await;
    s.submitted(before, "short").await;
    s.idle().await;
}

/// The profile's clearing key empties every draft within the profile's bound, and submits nothing.
pub async fn the_clearing_key_empties_any_draft(s: &Subject) {
    let before = s.submits().len();
    let lines: Vec<String> = (1..=30).map(|n| format!("line {n}\n")).collect();
    let paste = lines.concat();
    let drafts: [&[&str]; 3] = [
        &["one\n", "\n", "    two words\n", &"wrapped ".repeat(40)],
        &[&paste],
        &["before\n", &paste, "after\n", "\n", "end"],
    ];
    for parts in drafts {
        for part in parts {
            s.term.paste(part);
        }
        s.shows_pieces(parts).await;
        let mut presses = 0;
        while s.holds("") != Some(Holds::Empty) {
            // A newline at the end shows only by the cursor.
            let look = || (s.facts().composer, s.term.cursor());
            let seen = look();
            presses += 1;
            assert!(presses <= s.profile.composer.clear_max, "{}", s.term.describe());
            s.term.write(&s.profile.composer.clear);
            s.until("a change of the draft", || look() != seen).await;
        }
        s.idle().await;
    }
    // One press too many does nothing.
    s.term.write(&s.profile.composer.clear);
    s.idle().await;
    assert_eq!(s.submits().len(), before);
}

/// A draft is read as the same text at every size of the terminal.
pub async fn a_resize_changes_no_draft(s: &Subject) {
    let before = s.submits().len();
    s.type_lines(MIXED).await;
    for (rows, cols) in [(24, 60), (30, 140), (24, 80), SIZE] {
        s.term.resize(rows, cols);
        let rule = "─".repeat(cols.into());
        let bottom =
            |s: &Subject| s.facts().composer.is_some_and(|c| c.last + 4 == usize::from(rows));
        let drawn = |s: &Subject| match s.which {
            Which::Codex => bottom(s),
            _ => s.term.text().contains(&rule),
        };
        s.until("the new width", || drawn(s)).await;
        s.shows(MIXED).await;
    }
    s.enter().await;
    s.submitted(before, MIXED).await;
    s.idle().await;
}
