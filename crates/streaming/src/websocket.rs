//! WebSockets (RFC 6455) as Kubernetes uses them: numbered channels, and a tunnel for SPDY.
//!
//! The framing is small and ours: messages are passed on in the pieces they arrive in, so that nothing large is ever
//! buffered, and a slow reader slows the peer down.

mod channels;
mod frame;
mod tunnel;

pub use channels::{Channels, Codec};
pub use tunnel::tunnel;

use env::Env;

/// Which end of the connection this is: clients mask what they send.
#[derive(Clone)]
pub enum Role {
    Server,
    /// Masks come from the environment's randomness.
    Client(Env),
}
