//! Watches and logs over a WebSocket (RFC 6455), for browsers: the handshake, and a frame for each event or piece.
//!
//! ```text
//!  GET …?watch=1  Upgrade: websocket ──> chain ──> verbs: 101, the events wait in the PendingUpgrade
//!  hyper releases the connection ──> serve, in the connection's own task
//!      out: one frame per event, pongs        in: pings, a close; anything else is discarded
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use parking_lot::Mutex;
use ring::digest;
use streaming::Io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use crate::accounting::{Charge, Exchange};
use crate::body::Body;
use crate::respond::{self, Answer};
use crate::response_body::{FETCH_TIMEOUT, RECHECK_DELAY};
use crate::shutdown::Shutdown;
use crate::upgrade::PendingUpgrade;
use crate::watch_framing::Framing;

/// A token among the subprotocols: browsers cannot set a header for it.
pub(crate) const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// RFC 6455, section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Upstream's limit of a frame from the client.
const MAX_FRAME: u64 = 32 << 20;
/// The limit of a control frame.
const MAX_CONTROL: usize = 125;
/// How long closing a session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout of a session that only sends an error.
const WHOLE: Duration = Duration::from_secs(30);

const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

pub fn is_requested(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let mut connection = headers.get_all(CONNECTION).iter().filter_map(|v| v.to_str().ok());
    upgrade && connection.any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// The token among the subprotocols, if there is one; or why it is invalid.
pub fn token(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let (mut token, mut others) = (None, 0);
    for protocol in protocols(headers) {
        let Some(encoded) = protocol.strip_prefix(TOKEN_PROTOCOL) else {
            others += 1;
            continue;
        };
        if token.is_some() {
            return Err("multiple base64.bearer.authorization tokens specified");
        }
        let decoded = URL_SAFE_NO_PAD
            .decode(encoded)
            .map_err(|_| "invalid base64.bearer.authorization token encoding")?;
        token = Some(String::from_utf8(decoded).map_err(|_| "invalid base64.bearer.authorization token")?);
    }
    let token = token.filter(|token| !token.is_empty());
    // One must be left for the answer.
    if token.is_some() && others == 0 { Err("missing additional subprotocol") } else { Ok(token) }
}

/// The subprotocols of all headers, as one list.
fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    all.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',').map(str::trim))
}

/// What the frames hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    Events(Framing),
    /// Bytes as they come, in pieces.
    Binary,
    /// The same, each piece in base64.
    Base64,
}

/// The subprotocols of a stream of bytes.
const BYTES: [(&str, Messages); 3] =
    [("", Messages::Binary), ("binary.k8s.io", Messages::Binary), ("base64.binary.k8s.io", Messages::Base64)];
/// The largest piece, as upstream reads them.
const PIECE: usize = 2048;

/// A watch's answer to an upgrade request; `Err` returns the events if the request is none.
pub fn open(parts: &Parts, framing: Framing, events: Body) -> Result<Answer, Body> {
    upgrade(parts, events, |asked| match asked {
        [] => Ok((None, Messages::Events(framing))),
        [one] => Ok((Some(one), Messages::Events(framing))),
        // None of them is supported, so there is none to choose.
        _ => Err(400),
    })
}

/// The same for a stream of bytes: the first subprotocol that is known is taken.
pub fn open_bytes(parts: &Parts, bytes: Body) -> Result<Answer, Body> {
    upgrade(parts, bytes, |asked| {
        if asked.is_empty() {
            return Ok((None, Messages::Binary));
        }
        let known =
            |one: &&str| BYTES.iter().find(|(name, _)| name == one).map(|(name, of)| (Some(*name), *of));
        asked.iter().find_map(known).ok_or(403)
    })
}

/// `choose` gets the subprotocols asked for; the code of its refusal.
fn upgrade(
    parts: &Parts,
    events: Body,
    choose: impl for<'a> FnOnce(&[&'a str]) -> Result<(Option<&'a str>, Messages), u16>,
) -> Result<Answer, Body> {
    let headers = &parts.headers;
    let upgrade = PendingUpgrade::of(parts).filter(|_| is_requested(headers));
    let Some(upgrade) = upgrade else { return Err(events) };
    let refuse = |code: u16, why: &'static str| {
        let mut answer =
            respond::answer(code, "text/plain; charset=utf-8", Bytes::from_static(why.as_bytes()).into());
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    };
    let text = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
    let key = text(SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Ok(refuse(400, "mismatch challenge/response"));
    }
    if text(SEC_WEBSOCKET_VERSION) != "13" {
        let mut answer = refuse(400, "missing or bad WebSocket Version");
        answer.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Ok(answer);
    }
    // Any origin is allowed, but it must be a URI.
    if !is_uri(text(ORIGIN)) {
        return Ok(refuse(403, ""));
    }
    let used = upgrade.is_token_used();
    // Upstream reads one header, unless it removed a token from all of them.
    let asked: Vec<&str> = if used {
        protocols(headers).filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect()
    } else {
        text(SEC_WEBSOCKET_PROTOCOL).trim().split(',').map(str::trim).collect()
    };
    let asked = if asked == [""] { &[] } else { &*asked };
    let (protocol, messages) = match choose(asked) {
        Ok((protocol, messages)) => (protocol.and_then(|name| HeaderValue::from_str(name).ok()), messages),
        Err(code) => return Ok(refuse(code, "")),
    };
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let out = answer.headers_mut();
    out.insert(UPGRADE, HeaderValue::from_static("websocket"));
    out.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    out.extend(HeaderValue::try_from(accept(key)).ok().map(|value| (SEC_WEBSOCKET_ACCEPT, value)));
    out.extend(protocol.map(|value| (SEC_WEBSOCKET_PROTOCOL, value)));
    upgrade.begin(Box::new(move |io, exchange, shutdown| {
        Box::pin(async move { serve(io, events, messages, &exchange, shutdown).await })
    }));
    Ok(answer)
}

fn accept(key: &str) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(GUID);
    STANDARD.encode(hash.finish())
}

/// A path, or something behind a scheme.
fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    });
    (scheme || text.starts_with('/')) && !text.bytes().any(|b| b <= b' ' || b == 0x7f)
}

/// Runs to its end: the watch's, the client's, or the server's.
async fn serve(
    io: Io,
    mut events: Body,
    messages: Messages,
    exchange: &Arc<Exchange>,
    mut shutdown: Shutdown,
) {
    let env = exchange.connection().env();
    let deadline = match &events {
        Body::Watch(watch) => Some(watch.deadline()),
        Body::Whole(_) | Body::List(_) => Some(env.monotonic() + WHOLE),
        // A log that is followed ends with its container.
        Body::Proxied(_) => None,
    };
    let late = async {
        match deadline {
            Some(deadline) => env.sleep_until(deadline + CLOSE_TIMEOUT).await,
            None => std::future::pending().await,
        }
    };
    let (reader, mut writer) = tokio::io::split(io);
    let (pongs, whole_frames) = (Pongs::default(), AtomicBool::new(true));
    let status = tokio::select! {
        biased;
        status = listen(reader, &pongs) => status,
        () = send(exchange, &mut events, messages, &mut writer, &pongs, &whole_frames) => Some(NORMAL),
        // Both end the events too, unless the client does not read.
        () = late => None,
        () = async { shutdown.begun().await; env.sleep(CLOSE_TIMEOUT).await } => None,
    };
    let closing = async {
        // No frame can follow a partial one.
        if let Some(status) = status.filter(|_| whole_frames.load(Ordering::Acquire)) {
            let mut frame = Vec::new();
            push_frame(CLOSE, &status.to_be_bytes(), &mut frame);
            writer.write_all(&frame).await?;
        }
        writer.shutdown().await
    };
    let _ = env.timeout(CLOSE_TIMEOUT, closing).await;
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The payload of the last ping, until its pong is sent. One pong may answer several pings, as the RFC allows.
#[derive(Default)]
struct Pongs {
    /// Guards it between the two halves of a session.
    latest: Mutex<Option<Vec<u8>>>,
    waker: AtomicWaker,
}

enum Outgoing {
    Pong(Vec<u8>),
    Events(Bytes),
    End,
}

/// Writes events and pongs until the events end, or the client stops reading.
async fn send(
    exchange: &Arc<Exchange>,
    events: &mut Body,
    messages: Messages,
    writer: &mut (impl AsyncWrite + Unpin),
    pongs: &Pongs,
    whole_frames: &AtomicBool,
) {
    let env = exchange.connection().env();
    // Upstream begins a stream of bytes with an empty message: the connection stands.
    let mut begin = match messages {
        Messages::Events(_) => None,
        Messages::Binary | Messages::Base64 => Some(Bytes::new()),
    };
    loop {
        // Unsent frames are charged to the user.
        while exchange.is_over_limit() {
            env.sleep(RECHECK_DELAY).await;
        }
        let step = std::future::poll_fn(|cx| {
            pongs.waker.register(cx.waker());
            if let Some(pong) = pongs.latest.lock().take() {
                return Poll::Ready(Outgoing::Pong(pong));
            }
            if let Some(begin) = begin.take() {
                return Poll::Ready(Outgoing::Events(begin));
            }
            Pin::new(&mut *events).poll_frame(cx).map(|frame| match frame {
                Some(Ok(frame)) => frame.into_data().map_or(Outgoing::End, Outgoing::Events),
                Some(Err(_)) | None => Outgoing::End,
            })
        });
        let mut frames = Vec::new();
        match step.await {
            Outgoing::Pong(payload) => push_frame(PONG, &payload, &mut frames),
            Outgoing::Events(chunk) => push_messages(messages, &chunk, &mut frames),
            Outgoing::End => return,
        }
        let mut held = Charge::new(exchange.clone());
        held.set(frames.len(), 0);
        whole_frames.store(false, Ordering::Release);
        let written = async {
            writer.write_all(&frames).await?;
            writer.flush().await
        };
        if !matches!(env.timeout(FETCH_TIMEOUT, written).await, Ok(Ok(()))) {
            return;
        }
        whole_frames.store(true, Ordering::Release);
    }
}

/// Bytes in pieces; also an empty one.
fn push_messages(messages: Messages, chunk: &[u8], out: &mut Vec<u8>) {
    let base64 = match messages {
        Messages::Events(framing) => return push_events(framing, chunk, out),
        Messages::Binary => false,
        Messages::Base64 => true,
    };
    let mut pieces = chunk.chunks(PIECE);
    let first = pieces.next().unwrap_or_default();
    for piece in std::iter::once(first).chain(pieces) {
        if base64 {
            push_frame(TEXT, STANDARD.encode(piece).as_bytes(), out);
        } else {
            push_frame(BINARY, piece, out);
        }
    }
}

/// One frame per event: a line of JSON as text; a protobuf message, without its length prefix, as binary.
fn push_events(framing: Framing, mut chunk: &[u8], out: &mut Vec<u8>) {
    match framing {
        Framing::Lines => chunk.split_inclusive(|b| *b == b'\n').for_each(|line| push_frame(TEXT, line, out)),
        Framing::Protobuf => {
            while let Some((length, rest)) = chunk.split_first_chunk::<4>() {
                let length = (u32::from_be_bytes(*length) as usize).min(rest.len());
                push_frame(BINARY, &rest[..length], out);
                chunk = &rest[length..];
            }
        }
    }
}

/// A complete message; servers do not mask.
fn push_frame(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | opcode);
    match payload.len() {
        length @ ..126 => out.push(length as u8),
        length @ ..65536 => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// Reads until the client closes; returns the status to answer with, or `None` if the client is gone.
async fn listen(reader: impl AsyncRead + Unpin, pongs: &Pongs) -> Option<u16> {
    let mut reader = BufReader::with_capacity(1024, reader);
    loop {
        let (first, second) = (reader.read_u8().await.ok()?, reader.read_u8().await.ok()?);
        let length = match second & 0x7f {
            126 => u64::from(reader.read_u16().await.ok()?),
            127 => reader.read_u64().await.ok()?,
            short => u64::from(short),
        };
        // Clients must mask.
        if second & 0x80 == 0 {
            return Some(PROTOCOL_ERROR);
        }
        let mut mask = [0; 4];
        reader.read_exact(&mut mask).await.ok()?;
        let opcode = first & 0x0f;
        if opcode == CLOSE || length > MAX_FRAME {
            return Some(NORMAL);
        }
        let mut left = length;
        if opcode == PING {
            let mut payload = vec![0; usize::try_from(length).unwrap_or(MAX_CONTROL).min(MAX_CONTROL)];
            reader.read_exact(&mut payload).await.ok()?;
            left -= payload.len() as u64;
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            *pongs.latest.lock() = Some(payload);
            pongs.waker.wake();
        }
        let skipped = tokio::io::copy(&mut (&mut reader).take(left), &mut tokio::io::sink()).await.ok()?;
        if skipped < left {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_the_rfcs() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn an_origin_must_be_a_uri() {
        assert!(["http://x", "https://a.b:1/c", "/a", "x:y"].iter().all(|origin| is_uri(origin)));
        assert!(!["", "null", "::x", "http://a b"].iter().any(|origin| is_uri(origin)));
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for (length, head) in [(125, 2), (126, 4), (65535, 4), (65536, 10)] {
            let mut out = Vec::new();
            push_frame(TEXT, &vec![b'x'; length], &mut out);
            assert_eq!(out.len(), length + head);
        }
    }

    #[test]
    fn bytes_are_sent_in_pieces_as_they_are_or_in_base64() {
        let mut out = Vec::new();
        push_messages(Messages::Base64, b"", &mut out);
        push_messages(Messages::Base64, b"ab", &mut out);
        push_messages(Messages::Binary, b"", &mut out);
        push_messages(Messages::Binary, b"ab", &mut out);
        assert_eq!(out, b"\x81\x00\x81\x04YWI=\x82\x00\x82\x02ab");
        out.clear();
        push_messages(Messages::Binary, &[b'x'; 2 * PIECE + 1], &mut out);
        assert_eq!(out.len(), 2 * PIECE + 1 + 4 + 4 + 2);
    }

    #[test]
    fn messages_are_sent_without_their_length_prefix() {
        let mut out = Vec::new();
        push_events(Framing::Protobuf, b"\0\0\0\x02ab\0\0\0\x01c", &mut out);
        assert_eq!(out, b"\x82\x02ab\x82\x01c");
    }
}
