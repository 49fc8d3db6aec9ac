//! The IO shells: terminals, sockets, processes, records. They perform effects and decide nothing.

pub mod adopted;
pub mod attach;
pub mod editor;
pub mod filter;
pub mod hook;
pub mod launch;
pub mod llm;
pub mod lock;
pub mod log;
pub mod options;
pub mod outbox;
pub mod paths;
pub mod peer;
pub mod procs;
pub mod profiles;
pub mod project_file;
pub mod pty;
pub mod reap;
pub mod records;
mod repaint;
pub mod screen;
pub mod server;
pub mod shell;
pub mod store;
pub mod terminal;
pub mod trace;
pub mod wire;
