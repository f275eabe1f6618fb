//! The client's side of exec and attach.

use std::time::Duration;

use env::Env;

use super::status::decode_status;
use super::{Failure, Link, Options, ResizeSender, STREAM_TYPE, StreamType, Streams, Version, wanted};
use crate::spdy::{Headers, OpenError};
use crate::websocket::{Channels, Codec, Role};
use crate::{Io, Stream, spdy};

/// Keeps the proxies in between awake, as client-go does.
const PING_PERIOD: Duration = Duration::from_secs(5);
/// A status has a message, not a log.
const MAX_STATUS: usize = 64 << 10;

/// What the upgrade agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Spdy(Version),
    /// Version 5 only: without its close signal, stdin could not end.
    WebSocket,
}

/// A running process' streams.
pub struct Client {
    pub stdin: Option<Stream>,
    pub stdout: Option<Stream>,
    pub stderr: Option<Stream>,
    pub resize: Option<ResizeSender>,
    status: Stream,
    version: Version,
    link: Link,
}

impl Client {
    pub async fn start(
        env: &Env,
        io: Io,
        transport: Transport,
        options: &Options,
    ) -> Result<Client, OpenError> {
        let options = Options { stderr: options.stderr && !options.tty, ..*options };
        let (version, link, streams) = match transport {
            Transport::Spdy(version) => {
                let settings = spdy::Settings { idle_timeout: None, ping_period: Some(PING_PERIOD) };
                let connection = spdy::Connection::client(env, io, settings);
                let streams = open(&connection, wanted(&options, version)).await?;
                (version, Link::Spdy(connection), streams)
            }
            Transport::WebSocket => {
                let codec = Codec::BinaryWithClose;
                let (channels, streams) = Channels::new::<5>(env, io, Role::Client(env.clone()), codec, None);
                let mut wanted = wanted(&options, Version::V5).into_iter();
                let streams = streams.map(|stream| wanted.next().unwrap_or(false).then_some(stream));
                (Version::V5, Link::WebSocket(channels), streams)
            }
        };
        let [stdin, stdout, stderr, status, resize] = streams;
        let status = status.ok_or(OpenError::Closed)?;
        let resize = resize.map(ResizeSender::new);
        Ok(Client { stdin, stdout, stderr, resize, status, version, link })
    }

    /// How it ended. All output comes before it: read stdout and stderr at the same time, or this waits for ever.
    pub async fn status(&self) -> Result<(), Failure> {
        let message = self.status.read_all(MAX_STATUS).await;
        let message =
            message.map_err(|error| Failure::Message(format!("error reading from error stream: {error}")))?;
        match (message.is_empty(), self.version.has_exit_codes()) {
            // Differs from client-go, which takes it for a success: these versions always send a status, so the
            // connection to the node was cut, and the command may not even have run.
            (true, true) => Err(Failure::Message("error stream closed without a status".to_owned())),
            (true, false) => Ok(()),
            (false, true) => decode_status(&message),
            (false, false) => {
                let message = String::from_utf8_lossy(&message);
                Err(Failure::Message(format!("error executing remote command: {message}")))
            }
        }
    }

    /// Until the connection is over.
    pub async fn closed(&self) {
        self.link.closed().await;
    }
}

/// In the order upstream's servers are used to.
async fn open(connection: &spdy::Connection, wanted: [bool; 5]) -> Result<Streams, OpenError> {
    use StreamType::{Error, Resize, Stderr, Stdin, Stdout};
    let mut streams = Streams::default();
    for kind in [Error, Stdin, Stdout, Stderr, Resize] {
        if wanted[kind as usize] {
            let headers = Headers::new([(STREAM_TYPE, kind.name())]);
            streams[kind as usize] = Some(connection.open(headers).await?);
        }
    }
    Ok(streams)
}
