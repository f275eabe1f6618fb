//! What stands between a client and a node: an API server, or a node in front of its container runtime.
//!
//! | client                       | node      | here             |
//! |------------------------------|-----------|------------------|
//! | any                          | the same  | [`pass_through`] |
//! | WebSocket `v5.channel…`      | SPDY      | [`translate`]    |
//! | WebSocket `SPDY/3.1+…`       | SPDY      | [`tunnel`]       |

use bytes::Bytes;
use env::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::remotecommand::{Client, Failure, Negotiated, Options, Session, Transport, Version, api_status};
use crate::websocket::{Role, tunnel as open_tunnel};
use crate::{Io, Stream};

/// Of one direction of a pass-through.
const BUFFER: usize = 32 << 10;

/// Why a node did not answer an upgrade with 101.
#[derive(Clone, Debug)]
pub enum NodeError {
    /// Its answer was a `metav1.Status`, in JSON.
    Status(Bytes),
    Message(String),
}

/// Copies both ways until either side ends.
pub async fn pass_through(client: Io, node: Io) {
    let (mut client_reader, mut client_writer) = tokio::io::split(client);
    let (mut node_reader, mut node_writer) = tokio::io::split(node);
    tokio::select! {
        () = copy(&mut client_reader, &mut node_writer) => {}
        () = copy(&mut node_reader, &mut client_writer) => {}
    }
    // Both learn of the end, and of TLS's.
    let _ = tokio::join!(client_writer.shutdown(), node_writer.shutdown());
}

async fn copy(from: &mut (impl AsyncReadExt + Unpin), to: &mut (impl AsyncWriteExt + Unpin)) {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
                    return;
                }
            }
        }
    }
}

/// SPDY in the client's WebSocket, plain to the node.
pub async fn tunnel(env: &Env, client: Io, node: Io) {
    pass_through(Box::new(open_tunnel(env, client, Role::Server)), node).await
}

/// Exec and attach: the client's WebSocket (version 5) to the node's SPDY. The client is served before the node is
/// reached, so that what goes wrong there comes as a status, too. Returns the status' code, 200 for any command that ran.
pub async fn translate(
    env: &Env,
    client: Io,
    negotiated: &Negotiated,
    options: &Options,
    node: impl Future<Output = Result<(Io, Version), NodeError>>,
) -> u16 {
    // Over a WebSocket nothing is waited for, so nothing can be late.
    let Ok(mut session) = Session::accept(env, client, negotiated, options).await else { return 400 };
    let (stdin, stdout, stderr) = (session.stdin.take(), session.stdout.take(), session.stderr.take());
    let resize = session.resize.take();
    let run = async {
        let (io, version) = node.await?;
        let node = Client::start(env, io, Transport::Spdy(version), options).await;
        let node = node.map_err(|error| NodeError::Message(error.to_string()))?;
        let resize = resize.map(|sizes| sizes.into_stream());
        let node_resize = node.resize.as_ref().map(|sender| sender.stream());
        let input = async {
            tokio::join!(pump(stdin.as_ref(), node.stdin.as_ref()), pump(resize.as_ref(), node_resize))
        };
        let output = async {
            let (out, err) =
                (pump(node.stdout.as_ref(), stdout.as_ref()), pump(node.stderr.as_ref(), stderr.as_ref()));
            tokio::join!(out, err, node.status()).2
        };
        // Input may never end: the session does with its output.
        tokio::select! {
            result = output => Ok(result),
            _ = async { input.await; std::future::pending::<()>().await } => unreachable!("it never completes"),
        }
    };
    let result: Result<Result<(), Failure>, NodeError> = tokio::select! {
        result = run => result,
        // Nobody is left to be told.
        () = session.closed() => return 500,
    };
    let (code, status) = match result {
        Ok(result) => {
            let code = if matches!(result, Err(Failure::Message(_))) { 500 } else { 200 };
            (code, api_status(&result).into_bytes())
        }
        Err(NodeError::Status(status)) => (status_code(&status), status.to_vec()),
        Err(NodeError::Message(message)) => (500, api_status(&Err(Failure::Message(message))).into_bytes()),
    };
    session.report(status).await;
    code
}

fn status_code(status: &[u8]) -> u16 {
    let status: Option<serde_json::Value> = serde_json::from_slice(status).ok();
    let code = status.and_then(|status| status["code"].as_u64());
    code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
}

/// Copies one direction to its end. After a failed write the rest is read and dropped: unread it would hold up the others.
async fn pump(from: Option<&Stream>, to: Option<&Stream>) {
    let Some(from) = from else { return };
    while let Ok(piece) = from.chunk().await
        && !piece.is_empty()
    {
        if let Some(to) = to {
            let _ = to.send(&piece).await;
        }
    }
    if let Some(to) = to {
        to.finish();
    }
}

#[cfg(test)]
mod tests;
