//! The client's side of port-forward.

use std::sync::atomic::{AtomicU32, Ordering};

use env::Env;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{DATA, ERROR, PORT, REQUEST_ID, STREAM_TYPE};
use crate::spdy::{Connection, Headers, Settings};
use crate::websocket::{Role, tunnel};
use crate::{Io, Stream};

/// Of an error the node sends.
const MAX_MESSAGE: usize = 64 << 10;

/// Connections to the ports of one pod.
pub struct Client {
    connection: Connection,
    next_request: AtomicU32,
}

impl Client {
    /// Over SPDY itself.
    pub fn spdy(env: &Env, io: Io, settings: Settings) -> Client {
        Client { connection: Connection::client(env, io, settings), next_request: AtomicU32::new(0) }
    }

    /// Over SPDY in a WebSocket.
    pub fn tunnel(env: &Env, io: Io, settings: Settings) -> Client {
        let io = tunnel(env, io, Role::Client(env.clone()));
        Client::spdy(env, Box::new(io), settings)
    }

    /// Carries one connection to a port; the error is for the user. Returns when the pod's side has ended.
    pub async fn forward(&self, port: u16, local: impl AsyncRead + AsyncWrite) -> Result<(), String> {
        let request = self.next_request.fetch_add(1, Ordering::Relaxed).to_string();
        let open = async |kind: &str| {
            let headers =
                Headers::new([(STREAM_TYPE, kind), (PORT, &port.to_string()), (REQUEST_ID, &request)]);
            let opened = self.connection.open(headers).await;
            opened.map_err(|error| format!("error creating {kind} stream for port {port}: {error}"))
        };
        let error = open(ERROR).await?;
        // Only read from.
        error.finish();
        let data = open(DATA).await?;
        let copied = copy(local, &data).await;
        // Before the message is waited for: unread data would hold it up.
        drop(data);
        let message = error.read_all(MAX_MESSAGE).await;
        let message =
            message.map_err(|error| format!("error reading from error stream for port {port}: {error}"))?;
        if !message.is_empty() {
            return Err(format!(
                "an error occurred forwarding {port}: {}",
                String::from_utf8_lossy(&message)
            ));
        }
        copied.map_err(|error| error.to_string())
    }

    pub async fn closed(&self) {
        self.connection.closed().await;
    }
}

/// Until the remote side ends, or the local side fails.
async fn copy(local: impl AsyncRead + AsyncWrite, remote: &Stream) -> std::io::Result<()> {
    let (mut from, mut to) = tokio::io::split(local);
    let up = async {
        let mut buffer = vec![0; crate::mux::MAX_PIECE];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                remote.finish();
                // The remote side may still have much to say.
                return std::future::pending().await;
            }
            if remote.send(&buffer[..read]).await.is_err() {
                return std::future::pending().await;
            }
        }
    };
    let down = async {
        loop {
            let piece = remote.chunk().await?;
            if piece.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&piece).await?;
        }
    };
    tokio::select! { result = up => result, result = down => result }
}
