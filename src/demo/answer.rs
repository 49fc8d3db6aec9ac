//! What the demo agent does with a prompt. The same prompt, role, name, seed and turn number
//! always give the same script.
//!
//! A prompt steers it with words of the form `DEMO:slow 20`; `/help` lists them. They are left
//! out of answers that quote the prompt, so that a routed answer does not steer the next agent.

use std::time::Duration;

use super::args::Role;
use super::text;

/// The directives as `/help` shows them.
pub const HELP: &str = "\
DEMO:say TEXT        answer TEXT to the end of the line; \\n is a newline
DEMO:slow N          N words, 100 ms apart; DEMO:gap MS sets the distance
DEMO:lines N         an answer of N lines
DEMO:ask             open a permission dialog first; DEMO:ask-after MS sets when
DEMO:silent MS       run a tool that prints nothing for MS
DEMO:background MS   end the turn while a background task runs on for MS
DEMO:error CODE      end with an API error
DEMO:crash           exit 1 in the middle of the turn
DEMO:flood BYTES     print that much text
DEMO:ansi            coloured words
DEMO:escape          an answer full of control characters
/exit                quit";

/// Dialogs opened 164 to 221 ms after Enter where they were recorded on Claude Code 2.1.
const ASK_AFTER: Duration = Duration::from_millis(180);
const WORD_GAP: Duration = Duration::from_millis(100);

/// How a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the answer.
    Answer,
    /// With an API error of this code instead of an answer.
    Error(u64),
    /// The process exits.
    Crash,
}

/// Who answers.
#[derive(Debug, Clone)]
pub struct Voice {
    pub role: Role,
    pub name: String,
    pub seed: u64,
}

/// The course of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Open the permission dialog this long after the start.
    pub ask_after: Option<Duration>,
    /// Run a silent tool for this long before the answer.
    pub silent: Option<Duration>,
    /// Stream the answer word by word, this far apart.
    pub gap: Option<Duration>,
    /// Print this many bytes of filler after the answer.
    pub flood: u64,
    /// Go on in the background for this long after the answer.
    pub background: Option<Duration>,
    pub ending: Ending,
    /// The answer as the transcript holds it.
    pub text: String,
    /// The answer with colours, where the screen shows any.
    pub coloured: Option<String>,
}

impl Voice {
    /// The script for the `turn`th prompt, counted from 1.
    pub fn script(&self, prompt: &str, turn: u64) -> Script {
        let asked = Directives::parse(prompt);
        let head = format!("Answer {turn} from {}", self.name);
        let mut script = Script {
            ask_after: asked.ask_after,
            silent: asked.silent,
            gap: asked.gap,
            flood: asked.flood,
            background: asked.background,
            ending: asked.ending,
            text: String::new(),
            coloured: None,
        };
        script.text = if let Some(text) = asked.say {
            text
        } else if let Some(count) = asked.slow {
            script.gap.get_or_insert(WORD_GAP);
            let words: Vec<String> = (1..=count).map(|n| format!("word{n}")).collect();
            format!("{head}: {}", words.join(" "))
        } else if let Some(count) = asked.lines {
            let lines: Vec<String> =
                (1..=count).map(|n| format!("{head}, line {n} of {count}")).collect();
            lines.join("\n")
        } else if asked.ansi {
            script.coloured = Some(format!(
                "{head}: \x1b[31mred\x1b[0m, \x1b[1;32mgreen\x1b[0m and \
                 key\x1b[34mword\x1b[0m, \x1b[7mreversed\x1b[0m"
            ));
            format!("{head}: red, green and keyword, reversed")
        } else if asked.escape {
            format!(
                "{head}: a\x1b[201~\rb \x1b]52;c;aGVsbG8=\x07c \u{9b}31md \0e \u{202e}f\u{202c} \
                 \u{2066}g\u{2069}"
            )
        } else if asked.flood > 0 {
            format!("{head}: {} bytes follow", asked.flood)
        } else {
            match self.role {
                Role::Echo => format!("{head}: {}", quote(first_line(&asked.rest), 80)),
                Role::Planner => self.plan(&asked.rest),
                Role::Reviewer => self.review(&asked.rest, turn),
            }
        };
        script
    }

    fn plan(&self, prompt: &str) -> String {
        let subject = quote(first_line(prompt), 60);
        let first = [
            "Read the code that this touches and write down how it behaves now",
            "Find every caller that would notice and list what each relies on",
        ];
        let second = [
            "Write one failing test, then the smallest change that makes it pass",
            "Make the change behind the old interface, then move the callers one by one",
        ];
        let third = [
            "Run the whole suite and say in the changelog what a user will see",
            "Delete what nothing uses any more and run the whole suite",
        ];
        format!(
            "1. {} ({subject}).\n2. {}.\n3. {}.",
            self.choose(&first),
            self.choose(&second),
            self.choose(&third)
        )
    }

    fn review(&self, prompt: &str, turn: u64) -> String {
        let count = prompt.lines().count();
        let lines = if count == 1 { "1 line".into() } else { format!("{count} lines") };
        let step = |line: &&str| line.trim_start().starts_with("1.");
        let quoted = prompt.lines().find(step).unwrap_or(first_line(prompt));
        let verdicts = [
            "It holds together. Say how you will notice if step 2 goes wrong, then go ahead.",
            "The order is right. I would do the risky part first and keep the steps this small.",
        ];
        let verdict = verdicts[(self.seed.wrapping_add(turn) % 2) as usize];
        format!("I read {lines}, beginning with “{}”.\n{verdict}", quote(quoted.trim(), 60))
    }

    /// The verb of the done line.
    pub fn verb(&self) -> &'static str {
        self.choose(&["Cooked", "Baked", "Worked", "Brewed"])
    }

    fn choose(&self, from: &[&'static str]) -> &'static str {
        from[(self.seed % from.len() as u64) as usize]
    }
}

/// The message of an API error.
pub fn error_text(code: u64) -> String {
    let reason = match code {
        401 => "invalid credentials",
        429 => "rate limited",
        500 => "internal server error",
        529 => "overloaded",
        _ => "request failed",
    };
    format!("API Error: {code} {reason}")
}

#[derive(Debug)]
struct Directives {
    say: Option<String>,
    slow: Option<u64>,
    lines: Option<u64>,
    gap: Option<Duration>,
    ask_after: Option<Duration>,
    silent: Option<Duration>,
    background: Option<Duration>,
    ending: Ending,
    flood: u64,
    ansi: bool,
    escape: bool,
    /// The prompt without its directives.
    rest: String,
}

impl Directives {
    fn parse(prompt: &str) -> Self {
        let mut found = Directives {
            say: None,
            slow: None,
            lines: None,
            gap: None,
            ask_after: None,
            silent: None,
            background: None,
            ending: Ending::Answer,
            flood: 0,
            ansi: false,
            escape: false,
            rest: String::new(),
        };
        let mut kept = Vec::new();
        for line in prompt.lines() {
            if line.split_whitespace().any(|word| word.starts_with("DEMO:")) {
                let rest = found.take_line(line);
                if !rest.is_empty() {
                    kept.push(rest);
                }
            } else {
                kept.push(line.to_owned());
            }
        }
        found.rest = kept.join("\n");
        found
    }

    /// Reads the directives of one line and gives what else it says.
    fn take_line(&mut self, line: &str) -> String {
        let mut rest = Vec::new();
        let mut words = line.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("DEMO:") else {
                rest.push(word);
                continue;
            };
            if name == "say" {
                let from = line.find("DEMO:say").map_or(line.len(), |at| at + "DEMO:say".len());
                self.say = Some(line[from..].trim().replace("\\n", "\n"));
                break;
            }
            let mut number = |default: u64| match words.peek().and_then(|w| w.parse().ok()) {
                Some(n) => {
                    words.next();
                    n
                }
                None => default,
            };
            match name {
                "slow" => self.slow = Some(number(10)),
                "lines" => self.lines = Some(number(3)),
                "gap" => self.gap = Some(Duration::from_millis(number(100))),
                "ask" => {
                    self.ask_after.get_or_insert(ASK_AFTER);
                }
                "ask-after" => self.ask_after = Some(Duration::from_millis(number(180))),
                "silent" => self.silent = Some(Duration::from_millis(number(1000))),
                "background" => self.background = Some(Duration::from_millis(number(1000))),
                "error" => self.ending = Ending::Error(number(529)),
                "crash" => self.ending = Ending::Crash,
                "flood" => self.flood = number(65_536),
                "ansi" => self.ansi = true,
                "escape" => self.escape = true,
                _ => rest.push(word),
            }
        }
        rest.join(" ")
    }
}

/// The first line that says anything.
fn first_line(prompt: &str) -> &str {
    prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing in particular")
}

fn quote(line: &str, max: usize) -> String {
    let line = text::clean(line);
    if line.chars().count() <= max {
        return line;
    }
    let mut cut: String = line.chars().take(max).collect();
    cut.truncate(cut.trim_end().len());
    cut + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voice(role: Role) -> Voice {
        Voice { role, name: "a".into(), seed: 0 }
    }

    #[test]
    fn directives_work_anywhere_and_are_not_quoted() {
        let script = voice(Role::Echo).script("do it DEMO:gap 5 now\nDEMO:ask-after 40", 2);
        assert_eq!(script.text, "Answer 2 from a: do it now");
        assert_eq!(script.gap, Some(Duration::from_millis(5)));
        assert_eq!(script.ask_after, Some(Duration::from_millis(40)));
    }

    #[test]
    fn say_answers_verbatim() {
        let script = voice(Role::Planner).script("x\nDEMO:say  one\\ntwo  DEMO:crash", 1);
        assert_eq!(script.text, "one\ntwo  DEMO:crash");
        assert_eq!(script.ending, Ending::Answer);
    }

    #[test]
    fn a_plan_has_three_lines_and_a_review_two() {
        let plan = voice(Role::Planner).script("add a dark mode", 1).text;
        assert_eq!(plan.lines().count(), 3);
        assert!(plan.contains("add a dark mode"));
        let review = voice(Role::Reviewer).script(&plan, 1).text;
        assert_eq!(review.lines().count(), 2);
        assert!(review.contains("3 lines"), "{review}");
    }

    #[test]
    fn the_same_prompt_gives_the_same_script() {
        let script = || voice(Role::Reviewer).script("x\ny DEMO:slow 3", 4);
        assert_eq!(script(), script());
    }
}
