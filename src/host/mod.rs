//! The IO shells: terminals, sockets, processes, records. They perform effects and decide nothing.
