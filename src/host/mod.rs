//! The IO shells: terminals, sockets, processes, records. They perform effects and decide nothing.

pub mod launch;
pub mod lock;
pub mod paths;
pub mod profiles;
pub mod store;
pub mod trace;
pub mod wire;
