//! What mado knows of a kind of agent: data, never code.
//!
//! The built-in profiles are `profiles/*.toml`; a user overrides or adds one by a file or from the
//! editor's configuration. Overriding merges key by key into the built-in one of the same name.

use crate::proto::Rung;
use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A regular expression in a profile. Checked when the profile is read.
#[derive(Debug, Clone)]
pub struct Pattern(pub Regex);

impl Pattern {
    /// Whether it matches somewhere in `text`.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// Byte length of the match at the start of `text`; patterns used this way begin with `^`.
    #[must_use]
    pub fn prefix_len(&self, text: &str) -> Option<usize> {
        self.0.find(text).filter(|m| m.start() == 0).map(|m| m.end())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Regex::new(&text).map(Pattern).map_err(|e| {
            // The regex crate draws the expression with a caret; one line is enough here.
            let why = e.to_string();
            let last = why.lines().last().unwrap_or("invalid").trim().to_owned();
            serde::de::Error::custom(format!("invalid regular expression {text:?}: {last}"))
        })
    }
}

/// A profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name: what `:Mado open` takes.
    pub name: String,
    /// One line for listings and health.
    #[serde(default)]
    pub description: String,
    /// Versions of the program it was seen to hold for; empty means: not verified.
    #[serde(default)]
    pub verified: Vec<String>,
    /// How to start it.
    pub program: Program,
    /// Where its records are.
    #[serde(default)]
    pub records: Records,
    /// Which evidence counts.
    #[serde(default)]
    pub evidence: EvidenceRules,
    /// How to read its screen.
    #[serde(default)]
    pub screen: ScreenRules,
    /// How to find and clear its composer.
    #[serde(default)]
    pub composer: ComposerRules,
    /// How to type and submit.
    #[serde(default)]
    pub submit: SubmitRules,
    /// Texts that it would take as a command.
    #[serde(default)]
    pub defuse: Vec<DefuseRule>,
}

/// How to start the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Name looked up in the agent's `PATH`, or a path. `{mado}` is the host's own binary,
    /// `{shell}` the user's `$SHELL`.
    pub command: String,
    /// Arguments. `{agent_dir}` is a folder of the agent's own, `{name}` its name.
    #[serde(default)]
    pub args: Vec<String>,
    /// Added to the environment; same placeholders.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of the process that is the agent, tried in order (`claude`, `codex`).
    #[serde(default)]
    pub process: Vec<String>,
    /// What the host injects into the arguments: `claude-hooks` adds `--settings` with hooks,
    /// `opencode-server` a port on loopback with a password of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject: Option<String>,
    /// Arguments that resume a session; `{session}` is its id.
    #[serde(default)]
    pub resume: Vec<String>,
    /// A command that prints its version, for health.
    #[serde(default)]
    pub version_args: Vec<String>,
    /// How to get it, for the message when it is missing.
    #[serde(default)]
    pub install: String,
}

/// Where the program's records are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// `claude`, `codex`, `opencode`, `demo`, or `none`: answers come from the rendered screen.
    #[serde(default)]
    pub dialect: Dialect,
    /// For `demo`: the transcript's path, with placeholders.
    #[serde(default)]
    pub path: String,
    /// What the program itself puts around parts of a prompt; removed before a prompt that its
    /// records name is compared with what was typed.
    #[serde(default)]
    pub prompt_marks: Vec<Pattern>,
}

/// A known form of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// No records: the rendered screen is all there is.
    #[default]
    None,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// OpenCode.
    Opencode,
    /// The demo agent.
    Demo,
}

/// Which evidence counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceRules {
    /// The rungs in use; the others are ignored even when they speak.
    #[serde(default)]
    pub rungs: Vec<Rung>,
    /// How long the composer of a program whose own signals have not spoken yet must have stood, in
    /// milliseconds, where that is longer than usual: one that shows its composer long before it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_ms: Option<u64>,
    /// A title that means: busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title_busy: Option<Pattern>,
    /// A title that means: idle. Only for programs whose title tells idle from asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title_idle: Option<Pattern>,
    /// A title that means: a dialog waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title_asking: Option<Pattern>,
}

/// How to read the screen. Each pattern is tried on single rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScreenRules {
    /// Busy, when it matches a row below the composer.
    #[serde(default)]
    pub busy_footer: Vec<Pattern>,
    /// Busy, when it matches one of the eight non-empty rows above the composer.
    #[serde(default)]
    pub busy_above: Vec<Pattern>,
    /// A dialog, when it matches a row below the composer, or one of the last 24 non-empty rows
    /// where there is no composer.
    #[serde(default)]
    pub dialog: Vec<Pattern>,
    /// The turn is done (the completion pattern), on a row of the turn's output.
    #[serde(default)]
    pub done: Vec<Pattern>,
    /// The turn was interrupted, on a row of the turn's output.
    #[serde(default)]
    pub interrupted: Vec<Pattern>,
    /// The turn ended with an error, on a row of the turn's output.
    #[serde(default)]
    pub error: Vec<Pattern>,
    /// First row of an echoed prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Pattern>,
    /// First row of a piece of output; ends an echoed prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Pattern>,
    /// Rows that are never output: spinners, tips, done lines.
    #[serde(default)]
    pub chrome: Vec<Pattern>,
}

/// What kind of composer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComposerKind {
    /// A shell's command line: the row of the cursor, after what stood there when it became idle.
    #[default]
    Line,
    /// Rows between patterns.
    Box,
    /// Rows above a bottom edge that also says how wide they are; what stands beside them (a side
    /// bar) is none of theirs.
    Panel,
}

/// How to find and clear the composer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComposerRules {
    /// What kind.
    #[serde(default)]
    pub kind: ComposerKind,
    /// The row above the first (a rule), if there must be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<Pattern>,
    /// Start of the first row; what it matches is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Pattern>,
    /// Start of the further rows; what it matches is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Pattern>,
    /// The row after the last (a rule, or blank).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottom: Option<Pattern>,
    /// For a panel: the row above the bottom edge, which names the program's mode. In a mode that
    /// it does not match (a shell's) there is no composer for mado.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Pattern>,
    /// For a panel: with this many rows of text, and a third of the screen's, it may hide some above
    /// without a word; 0: never.
    #[serde(default)]
    pub scrolls: usize,
    /// At most this many non-empty rows follow the composer; 0 means 8.
    #[serde(default)]
    pub footer_rows: usize,
    /// The cursor (visible or not) stands in the composer's rows when it has the keyboard.
    #[serde(default)]
    pub cursor_inside: bool,
    /// The terminal's own cursor is shown when the composer has the keyboard.
    #[serde(default)]
    pub cursor_visible: bool,
    /// It ends at the screen's bottom: its bottom edge is the first row below the cursor that `bottom` matches
    /// and that at most `footer_rows` rows follow. For composers whose further rows and footer look alike.
    #[serde(default)]
    pub at_bottom: bool,
    /// When it is empty it shows a faint text: without one it holds something, be it blanks.
    #[serde(default)]
    pub ghost: bool,
    /// Texts of an empty composer that are not drawn faint.
    #[serde(default)]
    pub hints: Vec<Pattern>,
    /// The same for texts that are drawn faint. Only needed in a terminal that does not show what is
    /// faint (a `:terminal` that was adopted).
    #[serde(default)]
    pub faint_hints: Vec<Pattern>,
    /// The program's own stand-in for a long paste. Its first group is how many newlines it stands for, or
    /// how many characters where the group is called `chars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<Pattern>,
    /// On the row above the first: the program hides rows; its first group is how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Pattern>,
    /// On the first row itself: the program hides rows above it, it does not say how many. What is matched is
    /// no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrolled: Option<Pattern>,
    /// A line's prompt for the further lines of a command that is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Pattern>,
    /// Keys that clear a part of the composer. Never Esc, never Ctrl-C.
    #[serde(default)]
    pub clear: String,
    /// How often to press them at most.
    #[serde(default)]
    pub clear_max: u32,
}

/// How to type and submit. Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubmitRules {
    /// The key that submits.
    pub key: String,
    /// Between the last byte of text and the key.
    pub wait_ms: u64,
    /// After which a second key is sent when fresh evidence shows the text still in the composer;
    /// 0: never.
    pub second_ms: u64,
    /// Between lines, 50 to 80.
    pub line_gap_ms: u64,
    /// More lines than this go as one paste.
    pub paste_above: usize,
    /// How long acceptance may take before the hop is `unconfirmed`.
    pub accept_ms: u64,
    /// Text of more than one line needs bracketed paste to be on.
    pub needs_bracketed: bool,
    /// Routes into it ask a person first unless the user says otherwise.
    pub confirm: bool,
    /// How the text becomes visible: `echo` in the composer, or `none` (cannot be checked; such
    /// hops end `unconfirmed`).
    pub echo: bool,
}

impl Default for SubmitRules {
    fn default() -> Self {
        SubmitRules {
            key: "\r".to_owned(),
            wait_ms: 500,
            second_ms: 200,
            line_gap_ms: 60,
            paste_above: 20,
            accept_ms: 10_000,
            needs_bracketed: false,
            confirm: false,
            echo: true,
        }
    }
}

/// A text that the program would take as a command, and what cures it. All rules whose pattern
/// matches the text apply, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefuseRule {
    /// What the whole text must match.
    #[serde(rename = "match")]
    pub pattern: Pattern,
    /// Put before it.
    #[serde(default)]
    pub prefix: String,
    /// Put after it.
    #[serde(default)]
    pub suffix: String,
}
