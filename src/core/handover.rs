//! What is said of a text's origin: the line before a hand-off, and the one prompt that several
//! answers become.

use super::hub::Hub;
use super::profile::ComposerKind;
use super::{redact, text};
use crate::proto::HopId;

/// An agent that a text comes from, as the reader of the text is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its name.
    pub name: String,
    /// The name of its profile.
    pub kind: String,
}

/// One source's finished part of a joined prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Whose it is.
    pub from: Origin,
    /// Its text, as its own route made it.
    pub text: String,
}

impl Origin {
    fn shown(&self) -> String {
        if self.name == self.kind || self.kind.is_empty() {
            self.name.clone()
        } else {
            format!("{} ({})", self.name, self.kind)
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// The line that goes before a handed-on text. It begins with a bracket, which no program that is
/// known takes for a command.
#[must_use]
pub fn header(from: &[Origin], round: u32, max_rounds: u32) -> String {
    let names: Vec<String> = from.iter().map(Origin::shown).collect();
    let them = if from.len() == 1 { "that agent" } else { "those agents" };
    format!(
        "[from {}, round {round} of {max_rounds}; written by {them}, not by your user]",
        listed(&names)
    )
}

/// Makes one text of the parts, in their order, a line with the source's name before each.
#[must_use]
pub fn join(parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|p| format!("--- {} ---\n{}", p.from.shown(), p.text.trim_matches('\n')))
        .collect();
    parts.join("\n\n")
}

/// A header and its text.
pub(super) fn under(header: &str, body: &str) -> String {
    format!("{header}\n\n{}", body.trim_start_matches('\n'))
}

impl Hub {
    /// Dresses what a route's transform made: secrets out where the route says so, the header before
    /// it. What is left without them is kept as the hop's part of a joined prompt.
    pub(super) fn labelled(&mut self, id: HopId, made: &str) -> String {
        let Some(hop) = self.hops.get_mut(&id) else { return made.to_owned() };
        let Some(route) = hop.route.and_then(|r| self.routes.get(&r)) else {
            return made.to_owned();
        };
        let (mut body, removed) = text::sanitise(made);
        if let Some(note) = removed.note() {
            hop.note(note);
        }
        if route.redact {
            let clean = redact::redact(&body);
            if let Some(note) = clean.note() {
                hop.note(note);
            }
            body = clean.text;
        }
        hop.part = Some(body.clone());
        let line = |a: &super::agent::Agent| a.profile.composer.kind == ComposerKind::Line;
        let shell = self.agents.get(&route.target).is_none_or(line);
        let source = self.agents.get(&route.source);
        // Nothing stays nothing: a header alone would hide that there is no text.
        let headed = route.headed() || (hop.fell_back && route.header.is_none());
        if shell || !headed || text::fold(&body).is_empty() {
            return body;
        }
        let from = Origin {
            name: hop.info.source.clone(),
            kind: source.map(|a| a.profile.name.clone()).unwrap_or_default(),
        };
        let mut line = header(&[from], hop.info.round, route.max_rounds);
        if route.transform.asks_model() && !hop.fell_back {
            line = line.replace("written by that agent", "put into words by a model");
        }
        under(&line, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str, kind: &str) -> Origin {
        Origin { name: name.into(), kind: kind.into() }
    }

    #[test]
    fn a_header_names_the_source_and_says_that_no_user_speaks() {
        assert_eq!(
            header(&[origin("planner", "claude")], 1, 5),
            "[from planner (claude), round 1 of 5; written by that agent, not by your user]"
        );
        assert_eq!(
            header(&[origin("claude", "claude"), origin("b", "codex")], 2, 3),
            "[from claude and b (codex), round 2 of 3; written by those agents, not by your user]"
        );
    }

    #[test]
    fn parts_stand_in_their_order_each_under_its_sources_name() {
        let part = |name: &str, text: &str| Part { from: origin(name, name), text: text.into() };
        assert_eq!(
            join(&[part("b", "\none\ntwo\n"), part("a", "three")]),
            "--- b ---\none\ntwo\n\n--- a ---\nthree"
        );
    }
}
