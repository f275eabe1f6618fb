//! Exec and attach: a process' standard streams, its terminal's size, and how it ended.
//!
//! | version | name                 | adds                                                     |
//! |---------|----------------------|----------------------------------------------------------|
//! | 1       | `channel.k8s.io`     |                                                          |
//! | 2       | `v2.channel.k8s.io`  | the end of stdin; errors reach the client                |
//! | 3       | `v3.channel.k8s.io`  | the terminal's size                                      |
//! | 4       | `v4.channel.k8s.io`  | the status as JSON, with the exit code                   |
//! | 5       | `v5.channel.k8s.io`  | over a WebSocket: the end of stdin. Over SPDY the same as 4 |

mod client;
mod resize;
mod server;
mod status;

use http::{HeaderMap, Method};

pub use client::{Client, Transport};
pub use resize::{ResizeSender, Resizes, TerminalSize};
pub use server::{Session, StreamsError};
pub(crate) use status::api_status;
pub use status::{Failure, Outcome};

use crate::upgrade::{self, Accepted, Refused};
use crate::websocket::{Channels, Codec};
use crate::{Stream, spdy};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V1,
    V2,
    V3,
    V4,
    V5,
}

impl Version {
    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "channel.k8s.io",
            Version::V2 => "v2.channel.k8s.io",
            Version::V3 => "v3.channel.k8s.io",
            Version::V4 => "v4.channel.k8s.io",
            Version::V5 => "v5.channel.k8s.io",
        }
    }

    /// A server that names none speaks the first.
    pub fn parse(name: &str) -> Option<Version> {
        let all = [Version::V1, Version::V2, Version::V3, Version::V4, Version::V5];
        if name.is_empty() {
            Some(Version::V1)
        } else {
            all.into_iter().find(|version| version.name() == name)
        }
    }

    fn resizes(self) -> bool {
        self >= Version::V3
    }

    fn has_exit_codes(self) -> bool {
        self >= Version::V4
    }
}

/// What a SPDY client offers, best first.
pub const SPDY_CLIENT_PROTOCOLS: [&str; 5] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// What a container runtime's server accepts over SPDY.
const SPDY_SERVER_PROTOCOLS: [&str; 4] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

const WEBSOCKET_SERVER_PROTOCOLS: [&str; 5] =
    ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io", ""];

/// The streams a session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

impl Options {
    /// From a request to a node: `input=1&output=1&error=1&tty=1`, decoded. A terminal has no stderr of its own.
    pub fn from_query<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Options, &'static str> {
        // Of a repeated parameter the first counts.
        let mut values = [None; 4];
        for (name, value) in pairs {
            if let Some(at) = ["input", "output", "error", "tty"].iter().position(|known| *known == name) {
                values[at].get_or_insert(value);
            }
        }
        let [stdin, stdout, stderr, tty] = values.map(|value| value == Some("1"));
        let options = Options { stdin, stdout, stderr: stderr && !tty, tty };
        if !(options.stdin || options.stdout || options.stderr) {
            return Err("you must specify at least 1 of stdin, stdout, stderr");
        }
        Ok(options)
    }

    /// The query of a request to a node, without the container's command.
    pub fn to_query(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let Options { stdin, stdout, stderr, tty } = *self;
        let pairs = [("input", stdin), ("output", stdout), ("error", stderr), ("tty", tty)];
        pairs.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| (name, "1"))
    }
}

/// How a server and its client agreed to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    version: Version,
    /// None over SPDY.
    codec: Option<Codec>,
}

/// Decides on a request for exec or attach; its 101's headers are in [`Accepted`].
pub fn negotiate(method: &Method, headers: &HeaderMap) -> Result<(Negotiated, Accepted), Refused> {
    if !upgrade::is_websocket(headers) {
        let accepted = upgrade::accept_spdy(headers, &SPDY_SERVER_PROTOCOLS)?;
        let version = Version::parse(&accepted.protocol).unwrap_or(Version::V1);
        return Ok((Negotiated { version, codec: None }, accepted));
    }
    // Version 5 is chosen wherever the client put it: kubelet serves it, and passes all others on to its runtime.
    let v5 = [Version::V5.name()];
    let supported = if upgrade::is_websocket_v5(headers) { &v5[..] } else { &WEBSOCKET_SERVER_PROTOCOLS };
    let accepted = upgrade::accept_websocket(method, headers, supported)?;
    let (version, codec) = match accepted.protocol.as_str() {
        "v5.channel.k8s.io" => (Version::V5, Codec::BinaryWithClose),
        "v4.channel.k8s.io" => (Version::V4, Codec::Binary),
        "v4.base64.channel.k8s.io" => (Version::V4, Codec::Base64),
        "base64.channel.k8s.io" => (Version::V3, Codec::Base64),
        _ => (Version::V3, Codec::Binary),
    };
    Ok((Negotiated { version, codec: Some(codec) }, accepted))
}

/// A stream's type, and its channel in a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamType {
    Stdin,
    Stdout,
    Stderr,
    Error,
    Resize,
}

/// The header that tells a SPDY stream's type.
const STREAM_TYPE: &str = "streamType";

impl StreamType {
    const ALL: [(StreamType, &'static str); 5] = [
        (StreamType::Stdin, "stdin"),
        (StreamType::Stdout, "stdout"),
        (StreamType::Stderr, "stderr"),
        (StreamType::Error, "error"),
        (StreamType::Resize, "resize"),
    ];

    fn name(self) -> &'static str {
        StreamType::ALL[self as usize].1
    }

    fn parse(name: &str) -> Option<StreamType> {
        StreamType::ALL.into_iter().find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }
}

/// One stream of each type a session has, by type.
type Streams = [Option<Stream>; 5];

/// The types a session has in a version.
fn wanted(options: &Options, version: Version) -> [bool; 5] {
    let resize = options.tty && version.resizes();
    [options.stdin, options.stdout, options.stderr, true, resize]
}

/// What a session's streams live on, for as long as it is kept.
enum Link {
    Spdy(spdy::Connection),
    WebSocket(Channels),
}

impl Link {
    fn close(&self) {
        match self {
            Link::Spdy(connection) => connection.close(),
            Link::WebSocket(channels) => channels.close(),
        }
    }

    async fn closed(&self) {
        match self {
            Link::Spdy(connection) => connection.closed().await,
            Link::WebSocket(channels) => channels.closed().await,
        }
    }
}

#[cfg(test)]
mod tests;
