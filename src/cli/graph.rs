//! Routes drawn as a graph: which source goes where, under what condition, and what waits for what.

use mado::proto::RouteInfo;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Cells that a condition may take.
const CONDITION: usize = 24;

/// ` when /…/`, or nothing.
fn condition(route: &RouteInfo) -> String {
    let Some(when) = &route.when else { return String::new() };
    let line: String = when.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::new();
    for c in line.chars() {
        if shown.width() + c.width().unwrap_or(0) > CONDITION {
            shown.pop();
            shown.push('…');
            break;
        }
        shown.push(c);
    }
    format!(" when /{shown}/")
}

/// Whether there is more to see than the table of routes says: a condition, several targets of one
/// source, several sources that are waited for.
fn is_worth_it(routes: &[RouteInfo]) -> bool {
    let same = |a: &RouteInfo, b: &RouteInfo| a.project == b.project && a.source == b.source;
    routes.iter().any(|r| r.when.is_some() || r.join.is_some())
        || routes.iter().enumerate().any(|(i, r)| routes[..i].iter().any(|o| same(o, r)))
}

/// The lines of the drawing; none when the table says it all.
pub fn lines(routes: &[RouteInfo]) -> Vec<String> {
    let mut out = Vec::new();
    if !is_worth_it(routes) {
        return out;
    }
    let mut drawn: Vec<bool> = vec![false; routes.len()];
    let mut group = |same: &dyn Fn(&RouteInfo) -> bool| -> Vec<&RouteInfo> {
        let mut group = Vec::new();
        for (i, route) in routes.iter().enumerate() {
            if !drawn[i] && same(route) {
                drawn[i] = true;
                group.push(route);
            }
        }
        group
    };
    for route in routes {
        let one = |r: &RouteInfo| r.join.is_none() && r.project == route.project;
        if route.join.is_none() {
            fan_out(&mut out, &group(&|r| one(r) && r.source == route.source));
        }
    }
    for route in routes {
        let all = |r: &RouteInfo| r.join.is_some() && r.project == route.project;
        if route.join.is_some() {
            fan_in(&mut out, &group(&|r| all(r) && r.target == route.target));
        }
    }
    out
}

fn fan_out(out: &mut Vec<String>, group: &[&RouteInfo]) {
    let width = group.iter().map(|r| r.id.to_string().width()).max().unwrap_or(0);
    for (i, route) in group.iter().enumerate() {
        let source = if i == 0 {
            format!("{} ─", route.source)
        } else {
            " ".repeat(route.source.width() + 2)
        };
        let fork = match (i, group.len() - i) {
            (0, 1) => "──",
            (0, _) => "┬─",
            (_, 1) => "└─",
            _ => "├─",
        };
        let id = format!("{:>width$}", route.id.to_string());
        out.push(format!("{source}{fork} {id}{} ─> {}", condition(route), route.target));
    }
}

fn fan_in(out: &mut Vec<String>, group: &[&RouteInfo]) {
    let left: Vec<String> =
        group.iter().map(|r| format!("{} ─ {}{} ", r.source, r.id, condition(r))).collect();
    let width = left.iter().map(|l| l.width()).max().unwrap_or(0);
    for (i, (route, text)) in group.iter().zip(&left).enumerate() {
        let line = "─".repeat(width - text.width());
        let end = match (i, group.len() - i) {
            (0, 1) => format!("── all ─> {}", route.target),
            (0, _) => "─┐".to_owned(),
            (_, 1) => format!("─┴─ all ─> {}", route.target),
            _ => "─┤".to_owned(),
        };
        out.push(format!("{text}{line}{end}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mado::proto::{Dispatch, OnError, RouteId, RouteState, Transform, Trigger};

    fn route(id: u64, source: &str, target: &str, when: Option<&str>, join: bool) -> RouteInfo {
        RouteInfo {
            id: RouteId(id),
            source: source.into(),
            target: target.into(),
            project: "/p".into(),
            trigger: Trigger::OnTurn,
            pattern: None,
            transform: Transform::PromptWrap,
            template: None,
            provider: None,
            model: None,
            on_error: OnError::default(),
            task: None,
            dispatch: Dispatch::Madoagent,
            state: RouteState::Active,
            round: 0,
            max_rounds: 5,
            cooldown_ms: 3_000,
            stop_keyword: None,
            when: when.map(str::to_owned),
            join: join.then(|| "all".to_owned()),
            header: true,
            redact: false,
            reason_code: String::new(),
            reason_text: String::new(),
        }
    }

    #[test]
    fn fan_out_conditions_and_fan_in_are_drawn_within_80_columns() {
        let routes = [
            route(1, "planner", "coder", None, false),
            route(2, "planner", "tester", Some("test|spec"), false),
            route(3, "coder", "reviewer", None, true),
            route(10, "tester", "reviewer", Some("FAIL and a very long condition"), true),
            route(11, "reviewer", "planner", None, false),
        ];
        let lines = lines(&routes);
        assert_eq!(
            lines,
            [
                "planner ─┬─ 1 ─> coder",
                "         └─ 2 when /test|spec/ ─> tester",
                "reviewer ─── 11 ─> planner",
                "coder ─ 3 ───────────────────────────────────┐",
                "tester ─ 10 when /FAIL and a very long co…/ ─┴─ all ─> reviewer",
            ]
        );
        assert!(lines.iter().all(|l| l.width() <= 80));
    }

    #[test]
    fn a_plain_pair_of_routes_needs_no_drawing() {
        let routes = [route(1, "a", "b", None, false), route(2, "b", "a", None, false)];
        assert!(lines(&routes).is_empty());
        assert!(lines(&[]).is_empty());
    }
}
