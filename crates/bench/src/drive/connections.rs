//! The two kinds of connections in the event loop: one sends request after request, the other reads a watch.

use std::io;

use mio::{Interest, Registry, Token};

use crate::client::{Client, shorten};
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::response::Response;
use crate::stamps::Stamps;
use crate::tally::{BROKEN, Tally};
use crate::wire::{ReadState, Wire};

/// Reads from one connection before the others get their turn: 16 times 128 KiB.
const READS_PER_TURN: usize = 16;

pub struct RequestConnection {
    wire: Wire<mio::net::TcpStream>,
    response: Response,
    /// When the request in flight was sent.
    sent_nanos: Option<u64>,
}

pub enum RequestProgress {
    Waits,
    MayHoldMore,
    Answered { status: u16, sent_nanos: u64, closes: bool },
    Broken(io::Error),
}

impl RequestConnection {
    pub fn connect(endpoint: &Endpoint, registry: &Registry, token: Token) -> Result<Self, BenchError> {
        Ok(RequestConnection {
            wire: connect(endpoint, registry, token)?,
            response: Response::new(),
            sent_nanos: None,
        })
    }

    pub fn is_busy(&self) -> bool {
        self.sent_nanos.is_some()
    }

    pub fn send(&mut self, request: &[u8], now_nanos: u64) -> io::Result<()> {
        self.response.reset();
        self.sent_nanos = Some(now_nanos);
        // What the socket does not take now goes out when it says it is writable.
        self.wire.send(request).map(|_| ())
    }

    /// Reads what the socket has, up to the end of the answer.
    pub fn step(&mut self, tally: &mut Tally) -> RequestProgress {
        if let Err(error) = self.wire.flush() {
            return RequestProgress::Broken(error);
        }
        for _ in 0..READS_PER_TURN {
            let response = &mut self.response;
            let mut wrong = None;
            let read = self.wire.read(&mut |bytes| {
                let used = response.feed(bytes, &mut |status, piece| {
                    tally.bytes += piece.len() as u64;
                    if status >= 300 && tally.first_failure.is_none() {
                        tally.first_failure = Some(format!("{status}: {}", shorten(piece)));
                    }
                });
                match used {
                    Ok(used) if used == bytes.len() => {}
                    Ok(_) => wrong = Some(io::Error::other("the server sent more than it was asked for")),
                    Err(error) => wrong = Some(io::Error::new(io::ErrorKind::InvalidData, error)),
                }
            });
            let state = match (wrong, read) {
                (Some(error), _) | (None, Err(error)) => return RequestProgress::Broken(error),
                (None, Ok(state)) => state,
            };
            if state == ReadState::Closed {
                self.response.end_of_stream();
            }
            if let Some(sent_nanos) = self.sent_nanos.filter(|_| self.response.is_done()) {
                self.sent_nanos = None;
                let closes = self.response.closes() || state == ReadState::Closed;
                return RequestProgress::Answered { status: self.response.status(), sent_nanos, closes };
            }
            match state {
                ReadState::Closed => return RequestProgress::Broken(io::ErrorKind::UnexpectedEof.into()),
                ReadState::Nothing | ReadState::Drained => return RequestProgress::Waits,
                ReadState::More => {}
            }
        }
        RequestProgress::MayHoldMore
    }
}

pub struct Watcher {
    wire: Wire<mio::net::TcpStream>,
    response: Response,
    stamps: Stamps,
    ended: bool,
}

impl Watcher {
    pub fn connect(endpoint: &Endpoint, registry: &Registry, token: Token) -> Result<Self, BenchError> {
        let wire = connect(endpoint, registry, token)?;
        Ok(Watcher { wire, response: Response::new(), stamps: Stamps::new(), ended: false })
    }

    pub fn open(&mut self, request: &[u8]) -> io::Result<()> {
        self.wire.send(request).map(|_| ())
    }

    /// Until the head of the answer is there.
    pub fn is_opening(&self) -> bool {
        self.response.status() == 0 && !self.ended
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn events(&self) -> u64 {
        self.stamps.events()
    }

    /// Reads what the socket has. True when it may hold more.
    pub fn step(&mut self, now_nanos: u64, tally: &mut Tally) -> bool {
        if self.ended {
            return false;
        }
        if self.wire.flush().is_err() {
            self.end(tally);
            return false;
        }
        for _ in 0..READS_PER_TURN {
            let (response, stamps) = (&mut self.response, &mut self.stamps);
            let mut wrong = false;
            let read = self.wire.read(&mut |bytes| {
                let fed = response.feed(bytes, &mut |status, piece| {
                    tally.bytes += piece.len() as u64;
                    if status == 200 {
                        let lag = &mut tally.lag;
                        tally.events +=
                            stamps.feed(piece, |stamp| lag.record(now_nanos.saturating_sub(stamp)));
                    } else if tally.first_failure.is_none() {
                        tally.first_failure = Some(format!("{status} to a watch: {}", shorten(piece)));
                    }
                });
                wrong |= fed.is_err();
            });
            match read {
                _ if wrong || self.response.is_done() => {
                    self.end(tally);
                    return false;
                }
                Ok(ReadState::More) => {}
                Ok(ReadState::Nothing | ReadState::Drained) => return false,
                Ok(ReadState::Closed) | Err(_) => {
                    self.end(tally);
                    return false;
                }
            }
        }
        true
    }

    /// A server may end a watch that reads too slowly. That is a failure, but not of the others.
    fn end(&mut self, tally: &mut Tally) {
        self.ended = true;
        let status = self.response.status();
        let code = if status >= 300 { status } else { BROKEN };
        *tally.failures.entry(code).or_default() += 1;
        tally.first_failure.get_or_insert_with(|| "the server ended a watch".to_string());
    }
}

fn connect(
    endpoint: &Endpoint,
    registry: &Registry,
    token: Token,
) -> Result<Wire<mio::net::TcpStream>, BenchError> {
    let register = |wire: Wire<std::net::TcpStream>| {
        let mut wire = wire.into_nonblocking()?;
        registry.register(wire.socket_mut(), token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(wire)
    };
    register(Client::connect(endpoint)?)
        .map_err(|source| BenchError::Connect { server: endpoint.server.clone(), source })
}
