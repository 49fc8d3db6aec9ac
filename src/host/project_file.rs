//! Reads a project's file; what is wrong with it is said with its line and key.

use crate::proto::{ErrorInfo, ProjectFile};
use serde_path_to_error::Segment;

/// The longest file that is read, bytes. A project has a handful of routes.
pub const MOST: usize = 1 << 20;

/// Reads a file's text. `path` is for messages.
pub fn read(path: &str, text: &str) -> Result<ProjectFile, ErrorInfo> {
    let bad = |message: String| {
        ErrorInfo::new("bad_project_file", message, "mend the file, then load it again")
    };
    if text.len() > MOST {
        let message = format!("{path} is {} bytes long; at most {MOST} are read", text.len());
        return Err(bad(message));
    }
    // serde would take a list for a structure too.
    if !text.trim_start().is_empty() && !text.trim_start().starts_with('{') {
        return Err(bad(format!("{path}:1: it must be a JSON object, and begin with {{")));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let file: ProjectFile = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let mut key = String::new();
        for segment in e.path() {
            match segment {
                Segment::Map { key: k } if key.is_empty() => key.push_str(k),
                Segment::Map { key: k } => key.extend([".", k]),
                Segment::Seq { index } => key.extend(["[", &index.to_string(), "]"]),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let inner = e.inner();
        let place = format!("{path}:{}", inner.line());
        let said = inner.to_string();
        // serde_json says the place again at the end, where nobody looks for it.
        let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(text, _)| text);
        bad(if key.is_empty() {
            format!("{place}: {said}")
        } else {
            format!("{place}: {key}: {said}")
        })
    })?;
    json.end().map_err(|e| bad(format!("{path}:{}: there is more after its end", e.line())))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{RouteOptions, Trigger};

    fn problem(text: &str) -> String {
        let e = read("F", text).unwrap_err();
        assert_eq!(e.code, "bad_project_file");
        e.message
    }

    #[test]
    fn a_whole_file_is_read_with_the_original_spellings() {
        let file = read(
            "F",
            r#"{"agents": {"a": {"profile": "claude", "args": ["-x"]}}, "templates": {"t": "{output}"},
                "routes": [{"source": "a", "target": "b", "trigger": "on-turn", "maxRounds": 3}]}"#,
        )
        .unwrap();
        let options = RouteOptions {
            trigger: Some(Trigger::OnTurn),
            max_rounds: Some(3),
            ..RouteOptions::default()
        };
        assert_eq!(file.routes[0].options, options);
        assert_eq!(file.agents["a"].args, ["-x"]);
        let again = serde_json::to_string_pretty(&file).unwrap();
        assert_eq!(read("F", &again).unwrap(), file);
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        let m = problem(
            "{\n \"routes\": [\n  {\"source\": \"a\",\n   \"target\": \"b\",\n   \"trigger\": \"never\"\n  }]}",
        );
        assert!(
            m.starts_with("F:5: routes[0].trigger: ") || m.starts_with("F:6: routes[0]"),
            "{m}"
        );
        assert!(m.contains("unknown variant `never`"), "{m}");
        let m = problem(
            "{\n \"routes\": [\n  {\"source\": \"a\", \"target\": \"b\", \"max_round\": 1}]}",
        );
        assert!(m.starts_with("F:3: routes[0]"), "{m}");
        assert!(m.contains("max_round: unknown field `max_round`"), "{m}");
        let m = problem("{\n \"agents\": {\n  \"a\": {\"profil\": \"claude\"}}}");
        assert!(m.starts_with("F:3: agents.a"), "{m}");
        assert!(m.contains("unknown field `profil`"), "{m}");
        let m = problem("{\n\"routes\": [\n{\"source\": \"a\"}]}");
        assert!(m.contains("routes[0]") && m.contains("target is missing"), "{m}");
        assert!(problem("{\n\"routes\": [}").starts_with("F:2"), "a syntax error has a line");
        assert!(problem("{} x").contains("more after its end"));
        assert!(problem(&" ".repeat(MOST + 1)).contains("at most"));
        assert!(problem("[]").contains("must be a JSON object"));
        assert!(problem("").starts_with("F:1"));
    }
}
