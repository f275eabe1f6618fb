//! Channels of a WebSocket: each message begins with the number of its channel.
//!
//! | subprotocol                                   | codec    | end of a channel          |
//! |-----------------------------------------------|----------|---------------------------|
//! | none, `channel.k8s.io`, `v4.channel.k8s.io`   | binary   | cannot be told            |
//! | `base64.channel.k8s.io`, `v4.base64.channel…` | base64   | cannot be told            |
//! | `v5.channel.k8s.io`                           | binary   | the message `255, number` |

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use env::Env;

use super::Role;
use super::frame::{Composer, Event, NORMAL_CLOSURE, Parser};
use crate::mux::{Decode, Encode, Flow, Mux, Outgoing, Remote, Timing, drive};
use crate::{Io, Stream};

const CLOSE_SIGNAL: u8 = 255;
/// How often a client shows that it is there, as client-go does.
const PING_PERIOD: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Binary,
    Base64,
    /// Binary, and channels can be closed one by one.
    BinaryWithClose,
}

/// Dropped, it closes the WebSocket; its task ends by itself once that is written, or could not be.
pub struct Channels {
    mux: Arc<Mux>,
}

impl Channels {
    /// The connection, and its channels from 0 on. A channel of the caller's that is dropped ignores what comes for it.
    pub fn new<const N: usize>(
        env: &Env,
        io: Io,
        role: Role,
        codec: Codec,
        idle: Option<Duration>,
    ) -> (Channels, [Stream; N]) {
        let (channels, streams) = Channels::with_count(env, io, role, codec, idle, N);
        (channels, streams.try_into().unwrap_or_else(|_| unreachable!("as many as asked for")))
    }

    pub fn with_count(
        env: &Env,
        io: Io,
        role: Role,
        codec: Codec,
        idle_timeout: Option<Duration>,
        count: usize,
    ) -> (Channels, Vec<Stream>) {
        let mux = Mux::new(0, env.monotonic());
        let streams = (0..count as u32).map(|id| mux.fixed(id)).collect();
        let ping_period = matches!(role, Role::Client(_)).then_some(PING_PERIOD);
        let timing = Timing { idle_timeout, ping_period, first_ping: 0 };
        let reader = Reader {
            frames: Parser::new(&role),
            codec,
            count,
            message: Message::Begin,
            rest: BytesMut::new(),
        };
        let announces_end = codec == Codec::BinaryWithClose && matches!(role, Role::Client(_));
        let writer = Writer { composer: Composer(role), codec, announces_end };
        env.spawn("websocket channels", drive(env.clone(), io, mux.clone(), reader, writer, timing));
        (Channels { mux }, streams)
    }

    /// Says goodbye after what was written.
    pub fn close(&self) {
        self.mux.close();
    }

    /// Until the connection is over.
    pub async fn closed(&self) {
        self.mux.ended().await;
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.mux.close();
    }
}

/// What the message being received is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    /// Its first byte has not come yet.
    Begin,
    Channel(u32),
    /// A close signal, whose channel has not come yet, or has.
    Close(Option<u8>),
    /// For a channel nobody has, or broken.
    Ignored,
}

struct Reader {
    frames: Parser,
    codec: Codec,
    count: usize,
    message: Message,
    /// Base64 that does not make up whole bytes yet: at most three characters.
    rest: BytesMut,
}

impl Decode for Reader {
    fn decode(&mut self, input: &mut BytesMut, mux: &Arc<Mux>) -> Result<Flow, String> {
        while let Some(event) = self.frames.parse(input)? {
            match event {
                Event::Data { data, last, .. } => self.piece(data, last, mux)?,
                Event::Ping(data) => {
                    if !mux.answer(Outgoing::Pong(data)) {
                        return Err("the peer does not read what it asks for".to_owned());
                    }
                }
                Event::Pong => {}
                Event::Close(None | Some(NORMAL_CLOSURE)) => return Ok(Flow::End),
                Event::Close(Some(code)) => {
                    return Err(format!("the peer closed the connection with code {code}"));
                }
            }
        }
        Ok(Flow::Continue)
    }
}

impl Reader {
    fn piece(&mut self, mut data: Bytes, last: bool, mux: &Mux) -> Result<(), String> {
        if self.message == Message::Begin && !data.is_empty() {
            self.message = self.begin(data.get_u8());
        }
        match self.message {
            Message::Channel(id) if self.codec == Codec::Base64 => self.base64(id, &data, last, mux),
            Message::Channel(id) => mux.deliver(id, data),
            Message::Close(named) => match (named, &data[..]) {
                (_, []) => {}
                (None, [channel]) => self.message = Message::Close(Some(*channel)),
                _ => return Err("a single channel should follow the close signal".to_owned()),
            },
            Message::Begin | Message::Ignored => {}
        }
        if last {
            match std::mem::replace(&mut self.message, Message::Begin) {
                Message::Close(Some(id)) if usize::from(id) < self.count => {
                    mux.remote_ended(u32::from(id), Remote::Finished);
                }
                Message::Close(_) => return Err("close of a channel that is not valid".to_owned()),
                _ => {}
            }
        }
        Ok(())
    }

    fn begin(&self, first: u8) -> Message {
        let number = match self.codec {
            Codec::BinaryWithClose if first == CLOSE_SIGNAL => return Message::Close(None),
            Codec::Base64 => first.wrapping_sub(b'0'),
            _ => first,
        };
        if usize::from(number) < self.count { Message::Channel(u32::from(number)) } else { Message::Ignored }
    }

    fn base64(&mut self, id: u32, data: &[u8], last: bool, mux: &Mux) {
        self.rest.extend_from_slice(data);
        let whole = if last { self.rest.len() } else { self.rest.len() / 4 * 4 };
        let text = self.rest.split_to(whole);
        match STANDARD.decode(&text) {
            Ok(bytes) => mux.deliver(id, bytes.into()),
            Err(_) => {
                self.rest.clear();
                self.message = Message::Ignored;
            }
        }
    }
}

struct Writer {
    composer: Composer,
    codec: Codec,
    /// Servers never tell the end of a channel: it is told by the end of the connection.
    announces_end: bool,
}

impl Encode for Writer {
    fn encode(&mut self, frame: Outgoing, output: &mut BytesMut) {
        match frame {
            Outgoing::Data { id, data } if self.codec == Codec::Base64 => {
                let text = STANDARD.encode(&data);
                self.composer.message(true, &[b'0'.wrapping_add(id as u8)], text.as_bytes(), output);
            }
            Outgoing::Data { id, data } => self.composer.message(false, &[id as u8], &data, output),
            Outgoing::Finish(id) if self.announces_end => {
                self.composer.message(false, &[CLOSE_SIGNAL], &[id as u8], output);
            }
            Outgoing::Pong(data) => self.composer.pong(&data, output),
            Outgoing::Ping(_) => self.composer.ping(output),
            Outgoing::Close => self.composer.close(output),
            Outgoing::Open { .. } | Outgoing::Reply(_) | Outgoing::Finish(_) | Outgoing::Reset { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
