//! A byte stream inside the binary messages of a WebSocket: how port-forward's SPDY passes where only WebSockets do.

use std::sync::Arc;

use bytes::BytesMut;
use env::Env;

use super::Role;
use super::frame::{Composer, Event, NORMAL_CLOSURE, Parser};
use crate::mux::{Decode, Encode, Flow, Mux, Outgoing, Timing, drive};
use crate::{Io, Stream};

/// The bytes within the WebSocket. Finished or dropped, it closes the WebSocket.
pub fn tunnel(env: &Env, io: Io, role: Role) -> Stream {
    let mux = Mux::new(0, env.monotonic());
    let stream = mux.sole();
    let decoder = Reader(Parser::new(&role));
    let task = drive(
        env.clone(),
        io,
        mux,
        decoder,
        Writer { composer: Composer(role), closed: false },
        Timing::default(),
    );
    env.spawn("websocket tunnel", task);
    stream
}

struct Reader(Parser);

impl Decode for Reader {
    fn decode(&mut self, input: &mut BytesMut, mux: &Arc<Mux>) -> Result<Flow, String> {
        while let Some(event) = self.0.parse(input)? {
            match event {
                Event::Data { text: true, .. } => return Err("invalid message type received".to_owned()),
                Event::Data { data, .. } => mux.deliver(0, data),
                Event::Ping(data) => {
                    if !mux.answer(Outgoing::Pong(data)) {
                        return Err("the peer does not read what it asks for".to_owned());
                    }
                }
                Event::Pong => {}
                Event::Close(Some(NORMAL_CLOSURE)) => return Ok(Flow::End),
                Event::Close(code) => {
                    return Err(format!("the peer closed the connection with code {code:?}"));
                }
            }
        }
        Ok(Flow::Continue)
    }
}

struct Writer {
    composer: Composer,
    /// A close is sent once, and nothing after it.
    closed: bool,
}

impl Encode for Writer {
    fn encode(&mut self, frame: Outgoing, output: &mut BytesMut) {
        match frame {
            _ if self.closed => {}
            Outgoing::Data { data, .. } => self.composer.message(false, &[], &data, output),
            Outgoing::Pong(data) => self.composer.pong(&data, output),
            Outgoing::Finish(_) | Outgoing::Reset { .. } | Outgoing::Close => {
                self.closed = true;
                self.composer.close(output);
            }
            Outgoing::Ping(_) => self.composer.ping(output),
            Outgoing::Open { .. } | Outgoing::Reply(_) => {}
        }
    }
}
