//! The IO shells: terminals, sockets, processes, records. They perform effects and decide nothing.

pub mod attach;
pub mod filter;
pub mod pty;
pub mod reap;
mod repaint;
pub mod screen;
pub mod terminal;
