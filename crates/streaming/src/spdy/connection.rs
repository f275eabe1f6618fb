//! A SPDY connection: streams opened by either side.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use env::Env;

use super::frame::{Decoder, Encoder, Frame, status};
use super::headers::Headers;
use crate::mux::{Decode, Encode, Flow, Mux, Outgoing, Remote, Timing, drive};
use crate::{Io, Stream};

/// How long the peer may take to reply to a new stream.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Cuts a connection on which nothing moved for so long.
    pub idle_timeout: Option<Duration>,
    /// Keeps proxies in between from doing the same.
    pub ping_period: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the connection is closed")]
    Closed,
    #[error("Stream reset")]
    Refused,
    #[error("Timeout occurred")]
    Timeout,
}

/// Dropped, it resets its streams and says goodbye; its task ends by itself once that is written, or could not be.
pub struct Connection {
    mux: Arc<Mux>,
    env: Env,
}

impl Connection {
    pub fn client(env: &Env, io: Io, settings: Settings) -> Connection {
        Connection::start(env, io, settings, 1)
    }

    pub fn server(env: &Env, io: Io, settings: Settings) -> Connection {
        Connection::start(env, io, settings, 2)
    }

    /// `first_id`: odd for the client, even for the server, of streams and of pings.
    fn start(env: &Env, io: Io, settings: Settings, first_id: u32) -> Connection {
        let mux = Mux::new(first_id, env.monotonic());
        let reader = Reader { frames: Decoder::default(), ours: first_id & 1, last_stream: 0 };
        let timing = Timing {
            idle_timeout: settings.idle_timeout,
            ping_period: settings.ping_period,
            first_ping: first_id,
        };
        let task = drive(env.clone(), io, mux.clone(), reader, Writer(Encoder::default()), timing);
        env.spawn("spdy connection", task);
        Connection { mux, env: env.clone() }
    }

    /// Opens a stream, and waits for the peer's reply.
    pub async fn open(&self, headers: Headers) -> Result<Stream, OpenError> {
        let stream = self.mux.open(headers).ok_or(OpenError::Closed)?;
        match self.env.timeout(REPLY_TIMEOUT, self.mux.reply(stream.id())).await {
            Ok(true) => Ok(stream),
            Ok(false) => Err(OpenError::Refused),
            Err(_) => Err(OpenError::Timeout),
        }
    }

    /// The next stream the peer opens; none when the connection is over. One caller at a time.
    pub async fn accept(&self) -> Option<Incoming> {
        self.mux.accept().await.map(|stream| Incoming { mux: self.mux.clone(), stream })
    }

    /// Resets all streams and says goodbye. What was written before is still delivered.
    pub fn close(&self) {
        self.mux.close();
    }

    /// Until the connection is over.
    pub async fn closed(&self) {
        self.mux.ended().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.mux.close();
    }
}

/// A stream the peer wants to open. Dropped, it is refused.
pub struct Incoming {
    mux: Arc<Mux>,
    stream: Stream,
}

impl Incoming {
    pub fn headers(&self) -> &Headers {
        self.stream.headers()
    }

    /// Sends the reply the peer waits for.
    pub fn accept(self) -> Stream {
        self.mux.send_reply(self.stream.id());
        self.stream
    }
}

struct Reader {
    frames: Decoder,
    /// The lowest bit of ids used here.
    ours: u32,
    /// The highest id the peer used.
    last_stream: u32,
}

impl Decode for Reader {
    fn decode(&mut self, input: &mut BytesMut, mux: &Arc<Mux>) -> Result<Flow, String> {
        while let Some(frame) = self.frames.decode(input).map_err(|error| error.to_string())? {
            let kept_up = match frame {
                Frame::SynStream { id, fin, headers } => self.incoming(id, fin, headers, mux),
                Frame::SynReply { id, fin, .. } => {
                    mux.replied(id);
                    if fin {
                        mux.remote_ended(id, Remote::Finished);
                    }
                    true
                }
                Frame::Headers { id, fin: true, .. } => {
                    mux.remote_ended(id, Remote::Finished);
                    true
                }
                Frame::Data { id, fin, data } => {
                    mux.deliver(id, data);
                    if fin {
                        mux.remote_ended(id, Remote::Finished);
                    }
                    true
                }
                Frame::RstStream { id, .. } => {
                    mux.remote_ended(id, Remote::Reset);
                    true
                }
                // A ping with an id of ours is the answer to one we sent.
                Frame::Ping(id) => id & 1 == self.ours || mux.answer(Outgoing::Ping(id)),
                Frame::GoAway { .. } => return Ok(Flow::End),
                Frame::Headers { .. } | Frame::Settings | Frame::WindowUpdate { .. } => true,
            };
            if !kept_up {
                return Err("the peer does not read what it asks for".to_owned());
            }
        }
        Ok(Flow::Continue)
    }
}

impl Reader {
    fn incoming(&mut self, id: u32, fin: bool, headers: Headers, mux: &Arc<Mux>) -> bool {
        // Ids only grow, and each side has its half of them.
        if id & 1 == self.ours || id <= self.last_stream {
            return mux.answer(Outgoing::Reset { id, status: status::PROTOCOL_ERROR });
        }
        self.last_stream = id;
        mux.incoming(id, headers, fin) || mux.answer(Outgoing::Reset { id, status: status::REFUSED_STREAM })
    }
}

struct Writer(Encoder);

impl Encode for Writer {
    fn encode(&mut self, frame: Outgoing, output: &mut BytesMut) {
        let frame = match frame {
            Outgoing::Open { id, headers } => Frame::SynStream { id, fin: false, headers },
            Outgoing::Reply(id) => Frame::SynReply { id, fin: false, headers: Headers::default() },
            Outgoing::Data { id, data } => Frame::Data { id, fin: false, data },
            Outgoing::Finish(id) => Frame::Data { id, fin: true, data: Bytes::new() },
            Outgoing::Reset { id, status } => Frame::RstStream { id, status },
            Outgoing::Ping(id) => Frame::Ping(id),
            Outgoing::Close => Frame::GoAway { last_stream: 0, status: 0 },
            // A WebSocket's.
            Outgoing::Pong(_) => return,
        };
        self.0.encode(&frame, output);
    }
}

#[cfg(test)]
mod tests;
