//! A program as a model: the prompt on its standard input, the answer on its standard output.
//!
//! It is run without a shell, in an empty folder and a process group of its own, which is killed
//! when the call is called off. An agent's program run this way (`claude -p`) so reads no project
//! and leaves no record where an agent's is looked for.

use super::{ANSWER_CHARS, Call, Collected, Failure, Stop, one_line};
use crate::host::launch::which;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// How long what a program has started may hold its output open after it has ended.
const LEFTOVERS: Duration = Duration::from_secs(1);
/// The most that is kept of what it says of its errors, in bytes.
const STDERR: usize = 4 << 10;

/// A process group that must not outlive the call.
struct Group(Option<Pid>);

impl Group {
    fn kill(&mut self) {
        if let Some(pid) = self.0.take() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) async fn ask(call: &Call) -> Result<Collected, Failure> {
    let name = &call.name;
    let Some((program, args)) = call.spec.command.split_first() else {
        return Err(Failure::new("no_command", format!("{name}: command is empty")));
    };
    let path = call.env.get("PATH").map(String::as_str);
    let Some(found) = which(program, path, &call.folder) else {
        let text = format!("{name}: the program {program} is not found on the PATH of the agent");
        return Err(Failure::new("no_command", text));
    };
    let failed = |why: String| Failure::new("command_failed", format!("{name}: {program} {why}"));
    let mut command = Command::new(found);
    command.args(args).current_dir(&call.folder).env_clear();
    // What marks an agent's processes, or leads into this host, is not for it.
    command.envs(call.env.iter().filter(|(k, _)| !k.starts_with("MADO_")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|e| failed(format!("cannot be started: {e}")))?;
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let prompt = format!("{}\n\n{}", call.stable, call.variable);
    let write = async {
        if let Some(mut stdin) = stdin {
            // One that reads nothing may know what to say all the same.
            let _ = stdin.write_all(prompt.as_bytes()).await;
            let _ = stdin.shutdown().await;
        }
    };
    let most = ANSWER_CHARS * 4;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let silence = call.spec.silence_ms.map(Duration::from_millis);
    let read = async {
        let both = async {
            let rest = async {
                tokio::join!(tail(stderr, &mut err), write);
                Ok(())
            };
            tokio::try_join!(head(stdout, &mut out, most, silence), rest).map(|_| ())
        };
        tokio::pin!(both);
        tokio::select! {
            read = &mut both => {
                read?;
                Ok(child.wait().await)
            }
            status = child.wait() => {
                // Something that it started may hold the output open for ever.
                match tokio::time::timeout(LEFTOVERS, &mut both).await {
                    Ok(read) => read?,
                    Err(_) => group.kill(),
                }
                Ok(status)
            }
        }
    };
    let status = match read.await {
        Ok(status) => status.map_err(|e| failed(format!("cannot be waited for: {e}")))?,
        Err(Stuck::Silent) => {
            let secs = silence.unwrap_or_default().as_secs_f32();
            let text = format!("{name}: {program} has said nothing for {secs} s (silence_ms)");
            return Err(Failure::new("silence", text));
        }
        Err(Stuck::TooLong) => {
            let text = format!("{name}: {program} prints more than {ANSWER_CHARS} characters");
            return Err(Failure::new("too_long", text));
        }
    };
    // It has ended and was waited for: its number may be another's soon.
    group.0 = None;
    let said = one_line(&String::from_utf8_lossy(&err));
    let said = if said.is_empty() { String::new() } else { format!("; it said: {said}") };
    if !status.success() {
        return Err(failed(format!("failed ({status}){said}")));
    }
    let text = String::from_utf8_lossy(&out).trim().to_owned();
    if text.is_empty() {
        return Err(Failure::new("bad_answer", format!("{name}: {program} printed nothing{said}")));
    }
    Ok(Collected { text, stop: Stop::Done, ended: true, ..Collected::default() })
}

/// Why the output was not read to its end.
enum Stuck {
    Silent,
    TooLong,
}

/// Reads up to a limit.
async fn head(
    from: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    most: usize,
    silence: Option<Duration>,
) -> Result<(), Stuck> {
    let Some(mut from) = from else { return Ok(()) };
    let mut buffer = vec![0; 8 << 10];
    loop {
        let read = from.read(&mut buffer);
        let read = match silence {
            Some(silence) => {
                tokio::time::timeout(silence, read).await.map_err(|_| Stuck::Silent)?
            }
            None => read.await,
        };
        let Ok(read @ 1..) = read else { return Ok(()) };
        into.extend_from_slice(&buffer[..read]);
        if into.len() > most {
            return Err(Stuck::TooLong);
        }
    }
}

/// Keeps the end.
async fn tail(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; 4 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        into.extend_from_slice(&buffer[..read]);
        let over = into.len().saturating_sub(STDERR);
        into.drain(..over);
    }
}
