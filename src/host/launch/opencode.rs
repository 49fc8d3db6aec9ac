//! Gives an OpenCode a server that only mado knows of: a free port on loopback, and a password in the
//! environment (1.18.33). What a person's own arguments say wins.

use crate::host::records::opencode::Server;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::net::TcpListener;

const USER: &str = "OPENCODE_SERVER_USERNAME";
pub(super) const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

/// Commands of 1.18.33 that are not its terminal program with a server inside.
const OTHERS: &[&str] = &[
    "acp",
    "agent",
    "attach",
    "auth",
    "completion",
    "console",
    "db",
    "debug",
    "export",
    "generate",
    "github",
    "import",
    "mcp",
    "models",
    "plugin",
    "pr",
    "providers",
    "run",
    "serve",
    "session",
    "stats",
    "uninstall",
    "upgrade",
    "web",
];

/// The server that the program will have, and the arguments that make it so. The error says why
/// there is none.
pub(super) fn server(
    args: &[String],
    env: &mut BTreeMap<String, String>,
) -> Result<(Server, Vec<String>), String> {
    if let Some(command) = args.first().filter(|a| OTHERS.contains(&a.as_str())) {
        return Err(format!("`opencode {command}` has none"));
    }
    let host = value(args, &["--hostname"]);
    if let Some(host) = host.as_deref().filter(|h| !["127.0.0.1", "localhost"].contains(h)) {
        return Err(format!("--hostname {host} is not 127.0.0.1, and mado asks no other"));
    }
    let own = |name: &str, env: &BTreeMap<String, String>| {
        env.get(name).filter(|v| !v.is_empty()).cloned()
    };
    let user = own(USER, env).unwrap_or_else(|| "opencode".to_owned());
    let password = own(PASSWORD, env);
    if let Some(port) = value(args, &["--port"]) {
        // Somebody else may use the port as well and would not know a password of mado's.
        let port = port.parse().ok().filter(|p| *p != 0);
        let port = port.ok_or("--port does not say which")?;
        let password = password.map(SecretString::from);
        return Ok((Server { port, user, password }, Vec::new()));
    }
    let port = free_port().map_err(|e| format!("no port on 127.0.0.1 is free: {e}"))?;
    let password = match password {
        Some(password) => password,
        None => secret().map_err(|e| format!("no password can be made: {e}"))?,
    };
    env.insert(PASSWORD.to_owned(), password.clone());
    let mut more = vec!["--port".to_owned(), port.to_string()];
    if host.is_none() {
        more.extend(["--hostname".to_owned(), "127.0.0.1".to_owned()]);
    }
    Ok((Server { port, user, password: Some(password.into()) }, more))
}

/// The session that a person's own arguments resume.
pub(super) fn session_of(args: &[String]) -> Option<String> {
    // A fork has an id that only the program knows.
    if args.iter().any(|a| a == "--fork") {
        return None;
    }
    value(args, &["-s", "--session"])
}

/// The last value of an option.
fn value(args: &[String], names: &[&str]) -> Option<String> {
    let end = args.iter().position(|a| a == "--").unwrap_or(args.len());
    let args = &args[..end];
    let mut found = None;
    for (i, arg) in args.iter().enumerate() {
        match arg.split_once('=') {
            Some((name, value)) if names.contains(&name) => found = Some(value.to_owned()),
            _ if names.contains(&arg.as_str()) => {
                found = Some(args.get(i + 1).cloned().unwrap_or_default());
            }
            _ => {}
        }
    }
    found
}

/// A port that was free a moment ago. One that is taken meanwhile is no danger: who has it does
/// not know the password, and what it says grants nothing.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
