//! The server's side of exec and attach.

use std::time::Duration;

use env::Env;

use super::{Link, Negotiated, Options, Outcome, Resizes, STREAM_TYPE, StreamType, Streams, Version, wanted};
use crate::websocket::{Channels, Codec, Role};
use crate::{Io, Stream, spdy};

/// As container runtimes have it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
const STREAM_CREATION_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that does not read its status in this time goes without.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamsError {
    #[error("timed out waiting for client to create streams")]
    Timeout,
    #[error("the client closed the connection")]
    Closed,
}

/// A client's streams. Each is ended by dropping it; [`Session::finish`] comes last.
pub struct Session {
    pub stdin: Option<Stream>,
    pub stdout: Option<Stream>,
    pub stderr: Option<Stream>,
    pub resize: Option<Resizes>,
    status: Option<Stream>,
    version: Version,
    link: Link,
    env: Env,
}

impl Session {
    /// Serves an upgraded connection: waits for the client's streams.
    pub async fn accept(
        env: &Env,
        io: Io,
        negotiated: &Negotiated,
        options: &Options,
    ) -> Result<Session, StreamsError> {
        let version = negotiated.version;
        let (link, streams) = match negotiated.codec {
            Some(codec) => over_websocket(env, io, codec, options).await,
            None => {
                let settings = spdy::Settings { idle_timeout: Some(IDLE_TIMEOUT), ping_period: None };
                let connection = spdy::Connection::server(env, io, settings);
                let streams = over_spdy(&connection, wanted(options, version));
                let streams = env.timeout(STREAM_CREATION_TIMEOUT, streams).await;
                (Link::Spdy(connection), streams.map_err(|_| StreamsError::Timeout)??)
            }
        };
        let [stdin, stdout, stderr, mut status, resize] = streams;
        if version == Version::V1 {
            // As the first kubelets did: stdin's own end at once, and no word about failures.
            if let Some(stdin) = &stdin {
                stdin.finish();
            }
            status = None;
        }
        let resize = resize.map(Resizes::new);
        Ok(Session { stdin, stdout, stderr, resize, status, version, link, env: env.clone() })
    }

    /// Until the client is gone.
    pub async fn closed(&self) {
        self.link.closed().await;
    }

    /// Reports how it ended, and ends the connection. Output written before is delivered first.
    pub async fn finish(self, outcome: &Outcome) {
        for output in [&self.stdout, &self.stderr].into_iter().flatten() {
            output.finish();
        }
        let message = outcome.encode(self.version.has_exit_codes());
        self.report(message.unwrap_or_default()).await;
    }

    /// The same with a status of the caller's.
    pub(crate) async fn report(self, message: Vec<u8>) {
        if let Some(status) = &self.status
            && !message.is_empty()
        {
            // A client that is gone, or does not read, needs no status.
            let _ = self.env.timeout(STATUS_TIMEOUT, status.send(&message)).await;
        }
        self.link.close();
    }
}

async fn over_spdy(connection: &spdy::Connection, wanted: [bool; 5]) -> Result<Streams, StreamsError> {
    let mut streams = Streams::default();
    while (0..5).any(|kind| wanted[kind] && streams[kind].is_none()) {
        let incoming = connection.accept().await.ok_or(StreamsError::Closed)?;
        match StreamType::parse(incoming.headers().get(STREAM_TYPE)) {
            Some(kind) if streams[kind as usize].is_none() => {
                streams[kind as usize] = Some(incoming.accept());
            }
            _ => {
                let kind = incoming.headers().get(STREAM_TYPE);
                tracing::debug!(kind, "unexpected stream type");
            }
        }
    }
    // What the client has, but did not ask for, is not served.
    Ok(std::array::from_fn(|kind| streams[kind].take().filter(|_| wanted[kind])))
}

async fn over_websocket(env: &Env, io: Io, codec: Codec, options: &Options) -> (Link, Streams) {
    let (channels, streams) = Channels::new::<5>(env, io, Role::Server, codec, Some(IDLE_TIMEOUT));
    // Without a terminal nobody would read its sizes, and unread they would hold up the rest.
    let wanted = [options.stdin, options.stdout, options.stderr, true, options.tty];
    let mut streams = streams.map(Some);
    for (stream, wanted) in streams.iter_mut().zip(wanted) {
        if !wanted {
            *stream = None;
        }
    }
    // An empty message on the lowest channel written to tells the client that the session is there.
    let [_, stdout, stderr, error, _] = &streams;
    if let Some(first) = stdout.as_ref().or(stderr.as_ref()).or(error.as_ref()) {
        let _ = first.send_empty().await;
    }
    (Link::WebSocket(channels), streams)
}
