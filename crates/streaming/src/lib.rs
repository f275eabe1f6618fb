//! The protocols behind `kubectl exec`, `attach`, `cp` and `port-forward`, client and server side, over any byte stream.
//!
//! ```text
//!   remotecommand      portforward          what is said: streams by type, the status at the end
//!        └──────┬──────────┘
//!             Stream                        AsyncRead + AsyncWrite, half close, reset
//!               │
//!      ┌────────┴─────────┐
//!     spdy           websocket              how it is framed: SPDY/3.1, channels, SPDY in a WebSocket
//!      └────────┬─────────┘
//!              Io                           what hyper gives after a 101
//! ```
//!
//! [`upgrade`] reads and writes the headers around the 101; the HTTP itself is the caller's. [`proxy`] is what an
//! API server (or a node in front of a container runtime) does between two such connections.
//!
//! Everything received is bounded: frames, headers, streams, and the bytes waiting in a stream. Neither protocol has
//! flow control as Kubernetes speaks them, so back-pressure is the connection's: while one stream is full,
//! nothing is read. Upstream's libraries behave the same.

mod mux;
pub mod portforward;
pub mod proxy;
pub mod remotecommand;
pub mod spdy;
mod stream;
pub mod upgrade;
pub mod websocket;

use tokio::io::{AsyncRead, AsyncWrite};

pub use stream::Stream;

/// A connection after its upgrade.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

pub type Io = Box<dyn ByteStream>;
