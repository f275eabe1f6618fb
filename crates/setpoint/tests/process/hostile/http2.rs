//! HTTP/2, frame by frame.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::*;

pub(super) const CASES: &[Case] = &[
    case!(streams_are_reset_at_once, take 64, keep 24),
    case!(continuation_never_ends, take 64, keep 24),
    case!(frames_that_must_not_be_there_end_the_connection),
    case!(header_blocks_lie),
    case!(unknown_frames_are_ignored),
];

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// Literals only: no table, no Huffman.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        assert!(name.len() < 127 && value.len() < 127);
        out.extend([0, name.len() as u8]);
        out.extend(name.as_bytes());
        out.push(value.len() as u8);
        out.extend(value.as_bytes());
    }
    out
}

fn get_block(path: &str) -> Vec<u8> {
    block(&[(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", path)])
}

pub fn get_frame(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &get_block(path))
}

pub async fn open(server: &Proc) -> TlsStream<TcpStream> {
    let mut stream = wire::connect_http2(server).await;
    stream.write_all(PREFACE).await.unwrap();
    stream
}

/// Kind and stream of each frame that came, and whether the server closed then.
type Said = (Vec<(u8, u32)>, bool);

/// Writes until the server takes no more, and reads what it says until it closes or falls silent.
async fn talk(stream: TlsStream<TcpStream>, bytes: &[u8], silence: Duration) -> Said {
    talk_until(stream, bytes, silence, &[]).await
}

/// Or until one of these kinds has come.
async fn talk_until(stream: TlsStream<TcpStream>, bytes: &[u8], silence: Duration, kinds: &[u8]) -> Said {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let write = async {
        let _ = writer.write_all(bytes).await;
        let _ = writer.flush().await;
    };
    let read = async {
        let (mut got, mut chunk) = (Vec::new(), [0; 16 << 10]);
        loop {
            match tokio::time::timeout(silence, reader.read(&mut chunk)).await {
                Ok(Ok(0) | Err(_)) => return (got, true),
                Ok(Ok(count)) => {
                    got.extend_from_slice(&chunk[..count]);
                    if frames_of(&got).iter().any(|(kind, _)| kinds.contains(kind)) {
                        return (got, false);
                    }
                }
                Err(_) => return (got, false),
            }
        }
    };
    // Who reads no more of what is written has closed.
    let ((), (got, closed)) = tokio::join!(
        async {
            let _ = tokio::time::timeout(PATIENCE, write).await;
        },
        read
    );
    (frames_of(&got), closed)
}

fn frames_of(mut rest: &[u8]) -> Vec<(u8, u32)> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, _, d, e, f, g, tail @ ..] = rest {
        frames.push((*kind, u32::from_be_bytes([*d, *e, *f, *g])));
        rest = tail.get(u32::from_be_bytes([0, *a, *b, *c]) as usize..).unwrap_or_default();
    }
    frames
}

/// Opened and taken back, again and again: the work is the server's.
async fn streams_are_reset_at_once(server: &Proc) {
    let mut bytes = Vec::new();
    for i in 0..times(3000, 200_000) as u32 {
        let stream = 2 * i + 1;
        bytes.extend(get_frame(stream, "/api/v1/namespaces/default/configmaps"));
        bytes.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
    }
    let (frames, closed) = talk(open(server).await, &bytes, Duration::from_secs(2)).await;
    // It may go on or have enough; what it must not do is answer them all.
    assert!(closed || !frames.is_empty(), "{frames:?}");
}

/// A head in pieces that do not come to an end.
async fn continuation_never_ends(server: &Proc) {
    let mut bytes = frame(HEADERS, END_STREAM, 1, &get_block("/version"));
    for i in 0..times(2000, 100_000) {
        let field = block(&[(&format!("x-{i}"), &"y".repeat(100))]);
        bytes.extend(frame(CONTINUATION, 0, 1, &field));
    }
    let (frames, closed) = talk(open(server).await, &bytes, Duration::from_secs(2)).await;
    assert!(closed && frames.iter().any(|(kind, _)| *kind == GOAWAY), "it has enough: {frames:?}");
    // Empty ones have no end either.
    let mut bytes = frame(HEADERS, END_STREAM, 1, &get_block("/version"));
    bytes.extend(frame(CONTINUATION, 0, 1, &[]).repeat(times(20_000, 1_000_000)));
    let (frames, closed) = talk(open(server).await, &bytes, Duration::from_secs(2)).await;
    assert!(closed || !frames.iter().any(|(kind, _)| *kind == HEADERS), "{frames:?}");
}

async fn frames_that_must_not_be_there_end_the_connection(server: &Proc) {
    let opened = get_frame(1, "/version");
    let forbidden: Vec<(&str, Vec<u8>)> = vec![
        ("data on stream 0", frame(DATA, 0, 0, b"x")),
        ("headers on stream 0", frame(HEADERS, END_HEADERS, 0, &get_block("/version"))),
        ("headers on an even stream", get_frame(2, "/version")),
        ("a step back", [get_frame(5, "/version"), get_frame(3, "/version")].concat()),
        ("settings on a stream", frame(SETTINGS, 0, 1, &[])),
        ("settings of five bytes", frame(SETTINGS, 0, 0, &[0; 5])),
        ("an acknowledgement that says something", frame(SETTINGS, 1, 0, &[0; 6])),
        ("a frame size below the least", frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1])),
        ("a window beyond the most", frame(SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])),
        ("a ping of seven bytes", frame(PING, 0, 0, &[0; 7])),
        ("a ping on a stream", frame(PING, 0, 1, &[0; 8])),
        ("a window that grows by nothing", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("a window of three bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 3])),
        ("a window that overflows", frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(2)),
        ("a promise of the client's", frame(PUSH_PROMISE, END_HEADERS, 1, &[0; 4])),
        ("a reset of nothing", frame(RST_STREAM, 0, 0, &[0; 4])),
        ("a reset of what is idle", frame(RST_STREAM, 0, 7, &[0; 4])),
        ("data for what is idle", frame(DATA, 0, 7, b"x")),
        ("a continuation of nothing", frame(CONTINUATION, END_HEADERS, 1, &[])),
        (
            "another frame inside a head",
            [frame(HEADERS, 0, 1, &get_block("/version")), frame(PING, 0, 0, &[0; 8])].concat(),
        ),
        ("a frame beyond the size", frame(DATA, 0, 1, &[0; 20_000])),
        ("padding longer than the frame", frame(HEADERS, END_HEADERS | 8, 1, &[200, 0, 0])),
        ("a priority of four bytes", frame(PRIORITY, 0, 1, &[0; 4])),
        ("a goodbye on a stream", frame(GOAWAY, 0, 1, &[0; 8])),
    ];
    for (what, bytes) in forbidden {
        let (frames, closed) = talk_until(open(server).await, &bytes, PATIENCE, &[GOAWAY, RST_STREAM]).await;
        let ended = closed || frames.iter().any(|(kind, _)| matches!(*kind, GOAWAY | RST_STREAM));
        assert!(ended, "{what}: {frames:?}");
    }
    let (frames, _) = talk(open(server).await, &opened, Duration::from_millis(500)).await;
    assert!(frames.contains(&(HEADERS, 1)), "and a good one is answered: {frames:?}");
}

/// HPACK that names what is not there, or never ends.
async fn header_blocks_lie(server: &Proc) {
    let with = |more: &[u8]| [get_block("/version").as_slice(), more].concat();
    let blocks: Vec<(&str, Vec<u8>)> = vec![
        ("an index of nothing", with(&[0x80])),
        ("an index beyond the table", with(&[0xff, 0x80, 0x80, 0x80, 0x01])),
        ("an integer without an end", with(&[0xff; 40])),
        ("a length beyond the block", with(&[0, 0x7f, 0xff, 0xff, 0xff, 0x07])),
        (
            "a table beyond the bound",
            [&[0x3f, 0xff, 0xff, 0xff, 0x07], get_block("/version").as_slice()].concat(),
        ),
        ("Huffman that is none", with(&[0, 0x84, 0xff, 0xff, 0xff, 0xff, 0])),
        ("a name in capitals", with(&block(&[("Upper", "x")]))),
        ("a pseudo-header behind the others", with(&block(&[("x", "y"), (":path", "/b")]))),
        ("two paths", with(&block(&[(":path", "/b")]))),
        ("no path", block(&[(":method", "GET"), (":scheme", "https")])),
        (
            "a path that is none",
            block(&[(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "no slash")]),
        ),
        ("connection's own headers", with(&block(&[("connection", "close")]))),
        ("a method that is none", block(&[(":method", "G T"), (":scheme", "https"), (":path", "/")])),
        ("a line break in a value", with(&block(&[("x", "a\r\nb: c")]))),
    ];
    for (what, block) in blocks {
        let bytes = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
        let kinds = [GOAWAY, RST_STREAM, HEADERS];
        let (frames, closed) = talk_until(open(server).await, &bytes, PATIENCE, &kinds).await;
        let answered = frames.iter().any(|(kind, _)| matches!(*kind, GOAWAY | RST_STREAM | HEADERS));
        assert!(closed || answered, "{what}: {frames:?}");
    }
    // One entry of the table, named again and again: a small block, a long head.
    let mut block = get_block("/version");
    block.extend([0x40, 1, b'x', 126]);
    block.extend([b'y'; 126]);
    block.extend([0xbe; 15_000]);
    let bytes = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
    let kinds = [GOAWAY, RST_STREAM, HEADERS];
    let (frames, closed) = talk_until(open(server).await, &bytes, PATIENCE, &kinds).await;
    assert!(
        closed || frames.iter().any(|(kind, _)| matches!(*kind, GOAWAY | RST_STREAM | HEADERS)),
        "{frames:?}"
    );
}

async fn unknown_frames_are_ignored(server: &Proc) {
    let mut bytes = frame(0x77, 0xff, 0, &[0; 100]).repeat(times(100, 1000));
    bytes.extend(get_frame(1, "/version"));
    let (frames, _) = talk(open(server).await, &bytes, Duration::from_secs(1)).await;
    assert!(frames.contains(&(HEADERS, 1)), "{frames:?}");
}
