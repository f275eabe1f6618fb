//! Watches that are opened and left.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::http2::{HEADERS, RST_STREAM, WINDOW_UPDATE, frame, get_frame, open};
use super::*;

pub(super) const CASES: &[Case] = &[
    case!(watches_are_opened_and_dropped, take 128, keep 48),
    case!(connections_with_watches_are_torn, take 64, keep 24),
];

/// Ten thousand in all, a hundred at once: all have begun when they are dropped.
async fn watches_are_opened_and_dropped(server: &Proc) {
    const AT_ONCE: u32 = 100;
    let path = "/api/v1/configmaps?watch=1&resourceVersion=0";
    for _ in 0..times(2, 10) {
        let mut stream = open(server).await;
        let mut buffer = Vec::new();
        for turn in 0..times(2, 10) as u32 {
            let streams = (0..AT_ONCE).map(|i| 2 * (turn * AT_ONCE + i) + 1);
            let asked: Vec<u8> = streams.clone().flat_map(|stream| get_frame(stream, path)).collect();
            stream.write_all(&asked).await.unwrap();
            stream.flush().await.unwrap();
            let mut begun = 0;
            while begun < AT_ONCE {
                assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0, "it goes on");
                begun += take_heads(&mut buffer);
                // What the states of them take of the window is given back.
                let more = frame(WINDOW_UPDATE, 0, 0, &(1u32 << 20).to_be_bytes());
                stream.write_all(&more).await.unwrap();
                stream.flush().await.unwrap();
            }
            let left: Vec<u8> =
                streams.flat_map(|stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])).collect();
            stream.write_all(&left).await.unwrap();
        }
    }
}

/// Takes whole frames out of the buffer, and counts the heads among them.
fn take_heads(buffer: &mut Vec<u8>) -> u32 {
    let (mut heads, mut at) = (0, 0);
    while let Some([a, b, c, kind]) = buffer.get(at..at + 4).and_then(|head| head.first_chunk()) {
        let end = at + 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if end > buffer.len() {
            break;
        }
        heads += u32::from(*kind == HEADERS);
        at = end;
    }
    buffer.drain(..at);
    heads
}

async fn connections_with_watches_are_torn(server: &Proc) {
    let mut open = Vec::new();
    for i in 0..times(60, 500) {
        let mut stream = wire::connect(server).await;
        wire::send(&mut stream, &format!("GET {MAPS}?watch=1&resourceVersion=0 HTTP/1.1\r\nhost: x\r\n\r\n"))
            .await;
        let mut some = [0; 12];
        stream.read_exact(&mut some).await.unwrap();
        assert_eq!(&some, b"HTTP/1.1 200");
        match i % 3 {
            // With a goodbye, with a reset, or with nothing at all until the end.
            0 => {
                let _ = stream.shutdown().await;
            }
            1 => {
                let _ = stream.get_ref().0.set_zero_linger();
            }
            _ => open.push(stream),
        }
    }
}
