//! The demo agent's profile fits what the demo agent draws.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::expect_used, reason = "helpers outside test functions may fail the test too")]

#[path = "common/demo.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod demo;
#[path = "common/pty.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod pty;

use demo::{Demo, paste};
use mado::core::profile::{Pattern, Profile};
use pty::Screen;

fn profile() -> Profile {
    toml::from_str(include_str!("../profiles/demo.toml")).expect("a valid profile")
}

/// Some visible row matches one of `patterns`.
fn sees(screen: &Screen, patterns: &[Pattern]) -> bool {
    screen.rows().iter().any(|row| patterns.iter().any(|p| p.is_match(row)))
}

/// The composer's rows as the profile finds them, marks removed.
fn composer(screen: &Screen, profile: &Profile) -> Option<Vec<String>> {
    let rules = &profile.composer;
    let (top, bottom) = (rules.top.as_ref()?, rules.bottom.as_ref()?);
    let (first, rest) = (rules.first.as_ref()?, rules.rest.as_ref()?);
    let rows = screen.rows();
    let start = rows.iter().rposition(|row| first.is_match(row))?;
    if !top.is_match(&rows[start - 1]) || screen.cursor?.0 < start {
        return None;
    }
    let height = rows[start..].iter().position(|row| bottom.is_match(row))?;
    let marks = std::iter::once(first).chain(std::iter::repeat(rest));
    rows[start..start + height]
        .iter()
        .zip(marks)
        .map(|(row, mark)| Some(row[mark.prefix_len(row)?..].to_owned()))
        .collect()
}

#[test]
fn every_state_is_read_as_what_it_is() {
    let profile = profile();
    let rules = &profile.screen;
    let demo = Demo::start(&["--think", "0", "--name", "ann"]);
    demo.write(paste("one\n\n  two DEMO:slow 1000"));
    let screen = demo.wait("the draft", |s| s.shows("two"));
    let draft = composer(&screen, &profile).expect("a composer");
    assert_eq!(draft, ["one", "", "  two DEMO:slow 1000"]);
    assert!(!sees(&screen, &rules.busy_footer) && !sees(&screen, &rules.dialog));
    demo.write("\r");
    let screen = demo.wait("busy", |s| sees(s, &rules.busy_footer) && s.shows("● Answer 1"));
    assert!(sees(&screen, &rules.busy_above));
    let busy = profile.evidence.title_busy.as_ref().expect("a rule");
    demo.wait("the title", |s| busy.is_match(&s.title));
    assert_eq!(demo.control("ask"), "ok");
    let screen = demo.wait("the dialog", |s| sees(s, &rules.dialog));
    assert_eq!(composer(&screen, &profile), None);
    demo.wait("the idle title", |s| !busy.is_match(&s.title));
    demo.write("\x1b");
    demo.wait("busy again", |s| sees(s, &rules.busy_footer));
    demo.write("\x1b");
    demo.wait("the interrupt", |s| sees(s, &rules.interrupted) && !sees(s, &rules.busy_above));
    demo.submit("DEMO:error 529");
    demo.wait("the error", |s| sees(s, &rules.error));
    demo.submit("three");
    demo.wait("the end", |s| sees(s, &rules.done));
}

#[test]
fn what_the_profile_defuses_arrives_as_text() {
    let profile = profile();
    let demo = Demo::start(&["--think", "0"]);
    for text in ["/exit", "!rm -rf x", "see @file", "#note", "plain"] {
        let (cured, _) = mado::core::text::defuse(text, &profile.defuse);
        demo.submit(&cured);
        assert_eq!(demo.submits().last(), Some(&cured));
    }
    for key in ["shell", "command", "complete"] {
        assert_eq!(demo.all(key).len(), 0, "{key}");
    }
}

#[test]
fn the_clearing_keys_empty_any_draft() {
    let profile = profile();
    let demo = Demo::start(&[]);
    demo.write(paste("one\n\ntwo"));
    demo.write(paste(&"long\n".repeat(20)));
    let placeholder = profile.composer.placeholder.as_ref().expect("a rule");
    demo.wait("the draft", |s| s.rows().iter().any(|row| placeholder.is_match(row)));
    demo.write(profile.composer.clear.repeat(6));
    demo.wait("an empty composer", |s| s.faint.contains("Try"));
    assert_eq!(demo.submits(), [""; 0]);
}
