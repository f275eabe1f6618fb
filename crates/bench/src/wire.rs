//! A TLS connection at the level of records: plaintext goes from our buffers into the socket's with one copy.
//!
//! It uses rustls' unbuffered interface, whose caller owns the buffers: one read fills up to 64 KiB, and every whole record in it
//! is decrypted and handed on before the next read.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};

use crate::endpoint::Endpoint;
use crate::error::BenchError;

/// Several records of the largest size (16 KiB and their frames) at once.
const INCOMING: usize = 128 * 1024;
/// What rustls adds to each record of at most 16 KiB is far below this.
const RECORD_OVERHEAD: usize = 64;
const RECORD_PAYLOAD: usize = 16 * 1024;

pub struct Wire<S> {
    socket: S,
    tls: UnbufferedClientConnection,
    incoming: Box<[u8]>,
    /// The bytes of `incoming` that rustls has not taken yet.
    unread: std::ops::Range<usize>,
    /// Ciphertext of which the first `written` bytes are in the socket.
    outgoing: Vec<u8>,
    written: usize,
}

/// What a read leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadState {
    /// Nothing came. A socket that blocks says so when its time is up.
    Nothing,
    /// All that the socket had was read: wait for it.
    Drained,
    /// There may be more in the socket.
    More,
    /// The peer will send nothing more.
    Closed,
}

enum Pumped {
    NeedsInput,
    /// The handshake is done, and no whole record is left.
    Ready,
    Closed,
}

impl Wire<TcpStream> {
    /// Connects and shakes hands, blocking for at most `timeout` a step.
    pub fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<Self, BenchError> {
        let connect_error = |source| BenchError::Connect { server: endpoint.server.clone(), source };
        let socket = TcpStream::connect_timeout(&endpoint.address, timeout).map_err(connect_error)?;
        Self::shake_hands(endpoint, socket, timeout).map_err(connect_error)
    }

    fn shake_hands(endpoint: &Endpoint, socket: TcpStream, timeout: Duration) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let tls = UnbufferedClientConnection::new(endpoint.tls.clone(), endpoint.server_name.clone())
            .map_err(io::Error::other)?;
        let mut wire = Wire {
            socket,
            tls,
            incoming: vec![0; INCOMING].into_boxed_slice(),
            unread: 0..0,
            outgoing: Vec::new(),
            written: 0,
        };
        loop {
            let state = wire.pump(None, &mut |_| {})?;
            wire.flush()?;
            match state {
                Pumped::Ready => return Ok(wire),
                Pumped::NeedsInput => {
                    if wire.fill()? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Pumped::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(timeout))
    }

    /// Hands the connection over to an event loop.
    pub fn into_nonblocking(self) -> io::Result<Wire<mio::net::TcpStream>> {
        self.socket.set_nonblocking(true)?;
        Ok(Wire {
            socket: mio::net::TcpStream::from_std(self.socket),
            tls: self.tls,
            incoming: self.incoming,
            unread: self.unread,
            outgoing: self.outgoing,
            written: self.written,
        })
    }
}

impl<S: Read + Write> Wire<S> {
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Encrypts and sends. False when the socket took only a part: call `flush` once it is writable.
    pub fn send(&mut self, plaintext: &[u8]) -> io::Result<bool> {
        match self.pump(Some(plaintext), &mut |_| {})? {
            Pumped::Ready => self.flush(),
            Pumped::NeedsInput | Pumped::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Writes what is left of the ciphertext. True when nothing is.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.outgoing.len() {
            match self.socket.write(&self.outgoing[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.written = 0;
        Ok(true)
    }

    /// Reads once and hands over the plaintext of every record that is complete.
    pub fn read(&mut self, plaintext: &mut dyn FnMut(&[u8])) -> io::Result<ReadState> {
        let room = self.make_room();
        let count = match self.fill() {
            Ok(0) => return Ok(ReadState::Closed),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadState::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(ReadState::More),
            Err(error) => return Err(error),
        };
        let state = self.pump(None, plaintext)?;
        self.flush()?;
        Ok(match state {
            Pumped::Closed => ReadState::Closed,
            // A stream socket gives less than was asked for only when it has no more.
            _ if count < room => ReadState::Drained,
            _ => ReadState::More,
        })
    }

    /// Moves what is unread to the front, so that a whole record always fits. Returns the room behind it.
    fn make_room(&mut self) -> usize {
        if self.unread.start > 0 {
            self.incoming.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        self.incoming.len() - self.unread.end
    }

    fn fill(&mut self) -> io::Result<usize> {
        if self.make_room() == 0 {
            return Err(io::Error::other("the server sent a TLS record that is too large"));
        }
        let count = self.socket.read(&mut self.incoming[self.unread.end..])?;
        self.unread.end += count;
        Ok(count)
    }

    /// Lets rustls work until it needs more bytes from the socket; encrypts `send` once it may be sent.
    fn pump(&mut self, send: Option<&[u8]>, plaintext: &mut dyn FnMut(&[u8])) -> io::Result<Pumped> {
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut self.incoming[self.unread.clone()]);
            let mut outcome = None;
            match state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(io::Error::other)?;
                        discard += record.discard;
                        plaintext(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    append(&mut self.outgoing, RECORD_PAYLOAD + RECORD_OVERHEAD, |out| {
                        data.encode(out).map_err(io::Error::other)
                    })?;
                }
                // What was encoded waits in `outgoing`, ahead of anything encrypted later, so the order on the wire holds.
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                ConnectionState::BlockedHandshake => outcome = Some(Pumped::NeedsInput),
                ConnectionState::WriteTraffic(mut traffic) => {
                    if let Some(bytes) = send {
                        let records = bytes.len() / RECORD_PAYLOAD + 1;
                        append(&mut self.outgoing, bytes.len() + records * RECORD_OVERHEAD, |out| {
                            traffic.encrypt(bytes, out).map_err(io::Error::other)
                        })?;
                    }
                    outcome = Some(Pumped::Ready);
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => outcome = Some(Pumped::Closed),
                _ => return Err(io::Error::other("unexpected state of the TLS connection")),
            }
            self.unread.start += discard;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }
}

/// Lets `write` put at most `room` bytes behind `out`.
fn append(
    out: &mut Vec<u8>,
    room: usize,
    write: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let before = out.len();
    out.resize(before + room, 0);
    let count = write(&mut out[before..])?;
    out.truncate(before + count);
    Ok(())
}
