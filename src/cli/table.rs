//! Listings for people: aligned columns, cut to the terminal's width.

use super::{graph, out};
use mado::proto::{AgentInfo, HopInfo, QueueItem, RouteInfo};
use std::time::{SystemTime, UNIX_EPOCH};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

fn print(head: &[&str], rows: &[Vec<String>]) {
    let columns = head.len();
    let width =
        |i: usize| rows.iter().map(|r| r[i].width()).chain([head[i].width()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let limit = terminal_width();
    let show = |cells: &[&str]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            text.push_str(cell);
            text.push_str(&" ".repeat(width - cell.width() + 2));
        }
        out::line(&cut(text.trim_end(), limit));
    };
    show(head);
    for row in rows {
        show(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// The terminal's width; without a terminal there is none.
fn terminal_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or(usize::MAX, |w| if w.ws_col == 0 { usize::MAX } else { usize::from(w.ws_col) })
}

fn cut(text: &str, limit: usize) -> String {
    if text.width() <= limit {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > limit {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// How long ago, in one unit.
fn ago(at: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    span(now.saturating_sub(at))
}

fn span(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m", s / 60),
        3600..86_400 => format!("{}h", s / 3600),
        _ => format!("{}d", s / 86_400),
    }
}

/// The serialised name of a unit variant.
fn name(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(s)) => s,
        _ => String::new(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Agents.
pub fn agents(agents: &[AgentInfo], all: bool) {
    if agents.is_empty() {
        return out::line("no agents");
    }
    let mut head = vec!["NAME", "PROFILE", "PHASE", "FOR", "QUEUE", "VIEWS", "PID", "WHY"];
    if all {
        head.insert(1, "PROJECT");
    }
    let row = |a: &AgentInfo| {
        let mut why = a.reason_text.clone();
        if a.draft {
            why.push_str(if why.is_empty() { "draft" } else { "; draft" });
        }
        let mut row = vec![
            a.name.clone(),
            a.profile.clone(),
            name(a.phase),
            if a.since == 0 { String::new() } else { ago(a.since) },
            a.queue.to_string(),
            a.attached.to_string(),
            a.pid.to_string(),
            why,
        ];
        if all {
            row.insert(1, a.project.clone());
        }
        row
    };
    print(&head, &agents.iter().map(row).collect::<Vec<_>>());
}

/// Routes.
pub fn routes(routes: &[RouteInfo], all: bool) {
    if routes.is_empty() {
        return out::line("no routes");
    }
    let mut head = vec!["ID", "ROUTE", "TRIGGER", "TRANSFORM", "STATE", "ROUND", "WHY"];
    if all {
        head.insert(1, "PROJECT");
    }
    let row = |r: &RouteInfo| {
        let mut row = vec![
            r.id.to_string(),
            format!("{} -> {}", r.source, r.target),
            r.trigger.name().to_owned(),
            r.transform.name().to_owned(),
            name(r.state),
            format!("{}/{}", r.round, r.max_rounds),
            r.reason_text.clone(),
        ];
        if all {
            row.insert(1, r.project.clone());
        }
        row
    };
    print(&head, &routes.iter().map(row).collect::<Vec<_>>());
    let drawing = graph::lines(routes);
    if !drawing.is_empty() {
        out::line("");
    }
    for line in &drawing {
        out::line(&cut(line, terminal_width()));
    }
}

/// Hops.
pub fn hops(hops: &[HopInfo]) {
    if hops.is_empty() {
        return out::line("no hops");
    }
    let row = |h: &HopInfo| {
        let from = if h.source.is_empty() { "you" } else { h.source.as_str() };
        vec![
            h.id.to_string(),
            format!("{from} -> {}", h.target),
            h.how.clone(),
            name(h.state),
            h.times.fired.map(ago).unwrap_or_default(),
            one_line(&h.reason_text),
            one_line(h.prompt.as_deref().unwrap_or_default()),
        ]
    };
    print(
        &["HOP", "WAY", "HOW", "STATE", "AGO", "WHY", "PROMPT"],
        &hops.iter().map(row).collect::<Vec<_>>(),
    );
}

/// What waits.
pub fn queue(items: &[QueueItem]) {
    if items.is_empty() {
        return out::line("nothing waits");
    }
    let row = |q: &QueueItem| {
        let from = if q.source.is_empty() { "you" } else { &q.source };
        vec![
            q.target.clone(),
            q.hop.to_string(),
            from.to_owned(),
            span(q.age_ms),
            q.waiting_for.clone(),
        ]
    };
    print(
        &["TARGET", "HOP", "FROM", "FOR", "WAITING FOR"],
        &items.iter().map(row).collect::<Vec<_>>(),
    );
}

/// One hop, all of it.
pub fn hop(h: &HopInfo) {
    let from = if h.source.is_empty() { "you" } else { h.source.as_str() };
    out::line(&format!("hop {}: {from} -> {}, {} ({})", h.id, h.target, name(h.state), h.how));
    out::line(&format!("  {}", h.reason_text));
    for note in &h.notes {
        out::line(&format!("  note: {note}"));
    }
    for (title, text) in [("answer", &h.answer), ("prompt", &h.prompt)] {
        if let Some(text) = text {
            out::line(&format!("  {title}:"));
            for line in text.lines() {
                out::line(&format!("    {line}"));
            }
        }
    }
    let begun = h.steps.first().map_or(0, |s| s.at);
    for step in &h.steps {
        let after = step.at.saturating_sub(begun);
        out::line(&format!("  +{after:>6} ms  {:<8}  {}", name(step.kind), step.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_cells_not_by_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("窓窓窓", 4), "窓…");
    }

    #[test]
    fn spans_have_one_unit() {
        assert_eq!([span(999), span(61_000), span(7_200_000)], ["0s", "1m", "2h"]);
    }
}
