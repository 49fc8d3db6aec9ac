//! Blacking out secrets: what goes to disk never holds them, and prompts do not where a route says so.
//!
//! Known forms (provider keys, tokens, private key blocks) go whole; of an assignment (`API_KEY=…`) only
//! a value that looks random goes. The rules are few and narrow on purpose: a word of prose or code that
//! is taken for a secret would be missing from somebody's prompt. All expressions are the regex
//! crate's, which take linear time whatever the text; what they find is replaced by a mark that none
//! of them finds again, so doing it twice changes nothing.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text.
    pub text: String,
    /// How many secrets were in it.
    pub secrets: usize,
}

impl Redacted {
    /// One sentence for the hop, or nothing when nothing was found.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match self.secrets {
            0 => None,
            1 => Some("redacted 1 secret".to_owned()),
            n => Some(format!("redacted {n} secrets")),
        }
    }
}

/// How a find is judged before it is taken for a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// Its form is enough.
    Form,
    /// Its value must look random too.
    Random,
}

struct Rule {
    /// What the mark calls it.
    what: &'static str,
    judge: Judge,
    /// The secret is the group `s`.
    regex: Regex,
}

/// What, how judged, and the expression, whose group `s` is the secret.
const RULES: [(&str, Judge, &str); 9] = [
    (
        "private key",
        Judge::Form,
        concat!(
            r"(?s)(?P<s>-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
            r"(?:[A-Za-z0-9+/=\s:,.()\\-]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
            // One that was cut off, as answers are.
            r"|(?:[ \t\r]*\n[ \t]*[A-Za-z0-9+/=]{16,}[ \t\r]*(?m:$))+",
            r"|(?:\\n[A-Za-z0-9+/=]{16,})+| [A-Za-z0-9+/=]{40,}))",
        ),
    ),
    ("API key", Judge::Random, r"\b(?P<s>(?:sk-ant-|sk-|[rs]k_(?:live|test)_)[A-Za-z0-9_-]{16,})"),
    (
        "GitHub token",
        Judge::Form,
        r"\b(?P<s>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    ),
    ("AWS key", Judge::Form, r"\b(?P<s>(?:AKIA|ASIA)[A-Z0-9]{16})\b"),
    (
        "Slack token",
        Judge::Form,
        r"\b(?P<s>xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})",
    ),
    (
        "token",
        Judge::Random,
        r"\b(?P<s>AIza[A-Za-z0-9_-]{35}|glpat-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,})",
    ),
    ("token", Judge::Form, r"\b(?P<s>eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"),
    ("token", Judge::Random, r"(?i)\bbearer[ \t]+(?P<s>[A-Za-z0-9._~+/=-]{20,})"),
    (
        "value",
        Judge::Random,
        concat!(
            r"(?i)(?:key|token|secret|passw(?:or)?d|pwd|passphrase|credentials?)[a-z]?\d?",
            r#"(?:\\?["'])?[ \t]*(?::=|=>|=|:)[ \t]*(?:\\?["'])?(?P<s>[A-Za-z0-9+/=_.~-]{16,})"#,
        ),
    ),
];

static RULES_COMPILED: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // A test holds that all of them compile.
    let rule = |(what, judge, text): (&'static str, Judge, &str)| {
        Some(Rule { what, judge, regex: Regex::new(text).ok()? })
    };
    RULES.into_iter().filter_map(rule).collect()
});

/// Whether a value looks made by chance: long, of many different characters, letters and digits (or
/// both cases) in turn. Words with a number at their end, versions, paths and names do not.
fn looks_random(value: &str) -> bool {
    value.split(['.', '-', '_', '/', '~', '=']).any(piece_looks_random)
        || piece_looks_random(&value.replace(['-', '_', '/', '+', '='], ""))
            && digits(value) >= 3
            && value.len() >= 24
}

fn digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_digit).count()
}

fn piece_looks_random(piece: &str) -> bool {
    let bytes = piece.as_bytes();
    if bytes.len() < 12 {
        return false;
    }
    let class = |b: u8| match b {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    };
    let turns = bytes.windows(2).filter(|w| class(w[0]) != class(w[1])).count();
    let digits = digits(piece);
    let mixed = digits >= 2 && digits < bytes.len() && turns >= 4;
    // Without digits only what changes its case more often than any name does.
    let cases = bytes.len() >= 20 && turns * 5 >= bytes.len() * 2;
    (mixed || cases) && entropy(bytes) >= 2.8
}

/// Bits per character (Shannon), by how often each occurs.
#[allow(clippy::cast_precision_loss, reason = "counts of characters are small")]
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for b in bytes {
        counts[usize::from(*b)] += 1;
    }
    let all = bytes.len() as f64;
    counts
        .iter()
        .filter(|n| **n > 0)
        .map(|n| f64::from(*n) / all)
        .map(|share| -share * share.log2())
        .sum()
}

/// Takes the secrets out of a text.
#[must_use]
pub fn redact(text: &str) -> Redacted {
    let mut out = text.to_owned();
    let mut secrets = 0;
    for rule in RULES_COMPILED.iter() {
        if !rule.regex.is_match(&out) {
            continue;
        }
        let mut found = 0;
        let replaced = rule.regex.replace_all(&out, |c: &Captures<'_>| {
            let (Some(whole), Some(secret)) = (c.get(0), c.name("s")) else {
                return c.get(0).map_or("", |m| m.as_str()).to_owned();
            };
            if rule.judge == Judge::Random && !looks_random(secret.as_str()) {
                return whole.as_str().to_owned();
            }
            found += 1;
            let at = secret.start() - whole.start();
            let end = secret.end() - whole.start();
            let (before, after) = (&whole.as_str()[..at], &whole.as_str()[end..]);
            format!("{before}[redacted {}]{after}", rule.what)
        });
        if found > 0 {
            out = replaced.into_owned();
            secrets += found;
        }
    }
    Redacted { text: out, secrets }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles_and_names_its_secret() {
        assert_eq!(RULES_COMPILED.len(), RULES.len());
        for rule in RULES_COMPILED.iter() {
            assert!(rule.regex.capture_names().flatten().any(|n| n == "s"), "{}", rule.what);
        }
    }

    #[test]
    fn known_forms_and_random_values_go() {
        // Put together here, so that no scanner takes the test for a leak.
        let tail = "Ab3dEf6hIj9kLm2nOp5q";
        for (secret, left) in [
            (format!("sk-{}{tail}{tail}", "ant-api03-"), "[redacted API key]"),
            (format!("sk-{tail}"), "[redacted API key]"),
            (format!("gh{}_{tail}", "p"), "[redacted GitHub token]"),
            (format!("github_{}_{tail}", "pat"), "[redacted GitHub token]"),
            (format!("AK{}IOSFODNN7EXAMPLE", "IA"), "[redacted AWS key]"),
            (format!("xox{}-1234567890-abcdef", "b"), "[redacted Slack token]"),
            (format!("ey{}.{tail}.{tail}", "JhbGciOiJIUzI1NiJ9"), "[redacted token]"),
        ] {
            let got = redact(&format!("use {secret}, please"));
            assert_eq!((got.text.as_str(), got.secrets), (&*format!("use {left}, please"), 1));
        }
        for (text, left) in [
            (format!("API_KEY={tail}"), "API_KEY=[redacted value]"),
            (format!("\"secret\": \"{tail}\","), "\"secret\": \"[redacted value]\","),
            (format!("Authorization: Bearer {tail}x"), "Authorization: Bearer [redacted token]"),
        ] {
            assert_eq!(redact(&text).text, left);
        }
        let pem = format!(
            "-----BEGIN RSA {0} KEY-----\n{tail}\n{tail}\n-----END RSA {0} KEY-----",
            "PRIVATE"
        );
        assert_eq!(redact(&format!("a\n{pem}\nb")).text, "a\n[redacted private key]\nb");
        let cut = pem.split("-----END").next().unwrap_or_default();
        assert_eq!(redact(cut.trim()).text, "[redacted private key]");
    }

    #[test]
    fn prose_and_code_stay() {
        for text in [
            "the task-something-long-and-hyphenated-2 is done, disk-usage too",
            "api_key = os.environ[\"API_KEY\"]; token: Option<String>",
            "primary_key=integer_autoincrement_column, key: src/core/something2.rs",
            "class=\"sk-fading-circle-with-delay\" keyboard=us-intl-altgr-2024x",
            "password: changeme-please-change-me",
            "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b, version 1.2.3-beta.20240101",
            "grep -- '-----BEGIN PRIVATE KEY-----' *.pem",
            "token = getAccessTokenFromTheRequestHeader(request)",
            "key = claude-sonnet-4-5-20250929",
            "The bearer of-this-letter-is-a-friend-of-ours may pass.",
        ] {
            assert_eq!(redact(text), Redacted { text: text.to_owned(), secrets: 0 });
        }
    }

    #[test]
    fn the_note_counts() {
        let note = |secrets| Redacted { text: String::new(), secrets }.note();
        assert_eq!(note(0), None);
        assert_eq!(note(1).as_deref(), Some("redacted 1 secret"));
        assert_eq!(note(2).as_deref(), Some("redacted 2 secrets"));
    }
}
