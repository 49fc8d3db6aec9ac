//! `mado hook EVENT`: tells the host what an agent's hook was told.
//!
//! It fails open. Whatever goes wrong, the agent must go on as if there were no hook: no output, exit
//! code 0, and soon.

use mado::host::hook::{HookMessage, MAX_MESSAGE};
use mado::host::paths::Paths;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long the host may take to accept, and again to answer.
const WAIT: Duration = Duration::from_millis(200);

/// Most bytes of a payload that are looked at; a tool's output may be in it.
const MAX_INPUT: u64 = 64 << 20;

/// Parts of a payload that can be large and that mado does not read.
const LEFT_OUT: &[&str] = &["tool_input", "tool_response", "tool_result", "permission_suggestions"];

/// Does it, if it can be done.
pub fn run(event: &str) {
    let mut input = Vec::new();
    let _ = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    let mut payload: Value = serde_json::from_slice(&input).unwrap_or(Value::Null);
    if let Value::Object(map) = &mut payload {
        for key in LEFT_OUT {
            map.remove(*key);
        }
    }
    let message = HookMessage { event: event.to_owned(), payload };
    let Ok(bytes) = serde_json::to_vec(&message) else { return };
    if bytes.len() as u64 > MAX_MESSAGE {
        return;
    }
    let Ok(paths) = Paths::from_env() else { return };
    // Connecting to a unix socket has no timeout of its own, and waits when the host is stopped and its
    // queue is full. The thread ends with the process.
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let _ = sender.send(UnixStream::connect(paths.hook_socket()));
    });
    let Ok(Ok(mut stream)) = receiver.recv_timeout(WAIT) else { return };
    let _ = stream.set_write_timeout(Some(WAIT));
    let _ = stream.set_read_timeout(Some(WAIT));
    if stream.write_all(&bytes).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        // The host looks this process's ancestors up; it must live until then.
        let _ = stream.read(&mut [0; 8]);
    }
}
