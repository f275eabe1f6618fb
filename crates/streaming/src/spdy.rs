//! SPDY/3.1 as client-go, kubelet and container runtimes speak it (through moby/spdystream): streams, resets, pings and
//! GOAWAY. SETTINGS and WINDOW_UPDATE are read and ignored, and never sent, as there.

mod connection;
pub mod frame;
mod headers;

pub use connection::{Connection, Incoming, OpenError, Settings};
pub use headers::Headers;
