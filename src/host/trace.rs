//! `MADO_TRACE`: every step of the core as one line, and `mado replay`, which repeats them.
//!
//! A trace holds prompts and answers but no environment values and no headers of providers: they are
//! replaced before they are written, in inputs and effects alike, so that the effects still follow from
//! the inputs. Secrets are blacked out too. A secret that a screen shows broken over rows is not the same
//! text there any more, so after one the replay may differ; the step says that it held some.

use super::paths::private_file;
use crate::core::redact::redact;
use crate::core::{Effect, Hub, Input, Now};
use crate::proto::{ErrorInfo, Provider, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What stands for an environment value.
const HIDDEN: &str = "…";

/// First line: what the hub was made with.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Head {
    version: String,
    protocol: u32,
    #[serde(default)]
    timing: serde_json::Value,
}

/// Every further line: one step.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Step {
    now: Now,
    /// How many secrets were blacked out in it.
    #[serde(default, skip_serializing_if = "is_zero")]
    secrets: usize,
    input: Input,
    effects: Vec<Effect>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Blacks out the secrets in every string of a value, and counts them.
fn without_secrets(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let clean = redact(text);
            *text = clean.text;
            clean.secrets
        }
        Value::Array(list) => list.iter_mut().map(without_secrets).sum(),
        Value::Object(map) => map.values_mut().map(without_secrets).sum(),
        _ => 0,
    }
}

/// An open trace.
#[derive(Debug)]
pub struct Trace {
    out: BufWriter<File>,
}

impl Trace {
    /// Starts a trace, replacing what the file held.
    pub fn create(path: &Path, timing: serde_json::Value) -> Result<Trace, ErrorInfo> {
        let failed = |e: std::io::Error| {
            ErrorInfo::new(
                "trace",
                format!("the trace {} cannot be written: {e}", path.display()),
                "set MADO_TRACE to a file that you can write, or unset it",
            )
        };
        let mut options = OpenOptions::new();
        let file =
            private_file(options.write(true).create(true).truncate(true), path).map_err(failed)?;
        let mut trace = Trace { out: BufWriter::new(file) };
        let head = Head {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: crate::proto::PROTOCOL,
            timing,
        };
        trace.line(&head).map_err(failed)?;
        Ok(trace)
    }

    /// Adds a step. A trace that cannot be written ends; it never stops the host.
    pub fn step(&mut self, now: Now, input: &Input, effects: &[Effect]) {
        let mut input = input.clone();
        hide_input(&mut input);
        let mut effects = effects.to_vec();
        effects.iter_mut().for_each(hide_effect);
        let line = serde_json::to_value(Step { now, secrets: 0, input, effects });
        let written = line.map_err(std::io::Error::from).and_then(|mut line| {
            let secrets = without_secrets(&mut line);
            if secrets > 0 {
                line["secrets"] = secrets.into();
            }
            self.line(&line)
        });
        if let Err(e) = written {
            tracing::warn!("the trace is incomplete: {e}");
        }
    }

    fn line(&mut self, value: &impl Serialize) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}

fn hide_input(input: &mut Input) {
    let Input::Request { request, .. } = input else { return };
    match request {
        Request::Open(open) => open.env.values_mut().for_each(|v| HIDDEN.clone_into(v)),
        Request::Connect(p) => p.providers.values_mut().for_each(hide_provider),
        Request::Load(p) => p.providers.values_mut().for_each(hide_provider),
        Request::Transform(p) => p.providers.values_mut().for_each(hide_provider),
        _ => {}
    }
}

fn hide_effect(effect: &mut Effect) {
    match effect {
        Effect::Spawn(spawn) => spawn.env.values_mut().for_each(|v| HIDDEN.clone_into(v)),
        Effect::Ask { question, .. } => hide_provider(&mut question.spec),
        _ => {}
    }
}

fn hide_provider(spec: &mut Provider) {
    spec.headers.values_mut().for_each(|v| HIDDEN.clone_into(v));
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// All steps gave the same effects.
    Same {
        /// How many steps.
        steps: usize,
    },
    /// A step gave other effects.
    Differs {
        /// Line of the file, from 1.
        line: usize,
        /// The input of the step.
        input: String,
        /// The effect that the trace holds at the first difference.
        recorded: Option<String>,
        /// The effect that the core gives now.
        now: Option<String>,
        /// Secrets were blacked out in a step up to here, which may be why.
        secrets: bool,
    },
}

/// Runs a trace through a new hub, made by `make` from the recorded timing.
pub fn replay(
    path: &Path,
    make: impl FnOnce(&serde_json::Value) -> Result<Hub, ErrorInfo>,
) -> Result<Replayed, ErrorInfo> {
    let file = File::open(path).map_err(|e| {
        let message = format!("the trace {} cannot be read: {e}", path.display());
        ErrorInfo::new("trace", message, "give the path of a file that MADO_TRACE wrote")
    })?;
    let mut lines = BufReader::new(file).lines().enumerate();
    let bad = |number: usize, e: &dyn std::fmt::Display| {
        let message = format!("{}:{}: not a line of a trace: {e}", path.display(), number + 1);
        ErrorInfo::new("trace", message, "give the path of a file that MADO_TRACE wrote")
    };
    let head: Head = match lines.next() {
        Some((n, Ok(text))) => serde_json::from_str(&text).map_err(|e| bad(n, &e))?,
        Some((n, Err(e))) => return Err(bad(n, &e)),
        None => return Err(bad(0, &"it is empty")),
    };
    let mut hub = make(&head.timing)?;
    let mut steps = 0;
    let mut secrets = false;
    for (number, text) in lines {
        let text = text.map_err(|e| bad(number, &e))?;
        let step: Step = serde_json::from_str(&text).map_err(|e| bad(number, &e))?;
        secrets |= step.secrets > 0;
        let input = serde_json::to_string(&step.input).unwrap_or_default();
        let effects = hub.step(step.now, step.input);
        if let Some(at) = first_difference(&step.effects, &effects) {
            let show = |list: &[Effect]| list.get(at).and_then(|e| serde_json::to_string(e).ok());
            return Ok(Replayed::Differs {
                line: number + 1,
                input,
                recorded: show(&step.effects),
                now: show(&effects),
                secrets,
            });
        }
        steps += 1;
    }
    Ok(Replayed::Same { steps })
}

fn first_difference(a: &[Effect], b: &[Effect]) -> Option<usize> {
    (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i))
}

/// Where the trace goes, if anywhere.
#[must_use]
pub fn path_from_env() -> Option<PathBuf> {
    let path = std::env::var_os("MADO_TRACE").filter(|v| !v.is_empty()).map(PathBuf::from)?;
    // A detached host changes its directory.
    Some(std::path::absolute(&path).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Timing;
    use crate::core::profile::Profile;
    use crate::proto::{ClientId, OpenParams};

    fn open() -> Input {
        let open = OpenParams {
            profile: "shell".into(),
            cwd: "/".into(),
            project: "/".into(),
            env: [("TOKEN".to_owned(), "precious".to_owned())].into(),
            ..OpenParams::default()
        };
        Input::Request {
            client: ClientId(1),
            seq: 1,
            inside: None,
            profile: Some(Box::new(Profile { name: "shell".into(), ..Profile::default() })),
            request: Request::Open(open),
        }
    }

    #[allow(clippy::unnecessary_wraps)] // As `replay` takes it.
    fn make(_: &serde_json::Value) -> Result<Hub, ErrorInfo> {
        Ok(Hub::new(Timing::default()))
    }

    #[test]
    fn a_trace_holds_no_environment_and_replays_alike() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut trace = Trace::create(&path, serde_json::json!({})).unwrap();
        let mut hub = Hub::new(Timing::default());
        let effects = hub.step(Now::default(), open());
        assert!(effects.iter().any(|e| matches!(e, Effect::Spawn(_))));
        trace.step(Now::default(), &open(), &effects);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("TOKEN") && !text.contains("precious"), "{text}");
        assert_eq!(replay(&path, make).unwrap(), Replayed::Same { steps: 1 });
    }

    #[test]
    fn a_trace_holds_no_secret_of_a_text_and_replays_alike() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut trace = Trace::create(&path, serde_json::json!({})).unwrap();
        let mut hub = Hub::new(Timing::default());
        let secret = format!("gh{}_Ab3dEf6hIj9kLm2nOp5qRs8t", "p");
        let send = |text: String| Input::Request {
            client: ClientId(1),
            seq: 2,
            inside: None,
            profile: None,
            request: Request::Send(crate::proto::SendParams {
                target: "shell".into(),
                project: "/".into(),
                text,
                deliver: None,
            }),
        };
        for input in [open(), send(format!("use {secret}"))] {
            let effects = hub.step(Now::default(), input.clone());
            trace.step(Now::default(), &input, &effects);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&secret), "{text}");
        assert!(
            text.contains("use [redacted GitHub token]") && text.contains("\"secrets\":"),
            "{text}"
        );
        assert_eq!(replay(&path, make).unwrap(), Replayed::Same { steps: 2 });
    }

    #[test]
    fn the_first_difference_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut trace = Trace::create(&path, serde_json::json!({})).unwrap();
        trace.step(Now::default(), &Input::Tick, &[]);
        trace.step(Now::default(), &open(), &[]);
        let Replayed::Differs { line, input, recorded, now, .. } = replay(&path, make).unwrap()
        else {
            panic!("it differs")
        };
        assert_eq!((line, recorded), (3, None));
        assert!(input.contains("open"), "{input}");
        assert!(now.unwrap().contains("spawn"));
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(replay(&path, make).unwrap_err().message.contains(":1: not a line of a trace"));
    }
}
