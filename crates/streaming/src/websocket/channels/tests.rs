use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

fn server(env: &Env, codec: Codec) -> (Channels, [Stream; 2], DuplexStream) {
    let (near, far) = duplex(64 << 10);
    let (channels, streams) = Channels::new(env, Box::new(near), Role::Server, codec, None);
    (channels, streams, far)
}

/// A client's frame, masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat()
}

const WHOLE: u8 = 0x82;
const BEGIN: u8 = 0x02;
const MIDDLE: u8 = 0x00;
const LAST: u8 = 0x80;

#[tokio::test(start_paused = true)]
async fn messages_reach_their_channels_in_fragments_of_any_size() {
    let env = Env::simulated(1);
    let (_link, [zero, one], mut io) = server(&env, Codec::BinaryWithClose);
    for bytes in [
        frame(WHOLE, b"\x01one"),
        frame(WHOLE, b""),
        frame(WHOLE, b"\x09nobody"),
        frame(BEGIN, b""),
        frame(MIDDLE, b"\x01"),
        frame(LAST, b" more"),
        frame(WHOLE, b"\0zero"),
        frame(BEGIN, b"\xff"),
        frame(LAST, b"\x01"),
        frame(WHOLE, b"\x01too late"),
        frame(WHOLE, b"\xff\0"),
    ] {
        io.write_all(&bytes).await.unwrap();
    }
    assert_eq!(one.read_all(100).await.unwrap(), b"one more");
    assert_eq!(zero.read_all(100).await.unwrap(), b"zero");
}

#[tokio::test(start_paused = true)]
async fn base64_is_decoded_across_fragments_and_broken_messages_are_dropped() {
    let env = Env::simulated(1);
    let (link, [zero, one], mut io) = server(&env, Codec::Base64);
    for bytes in [
        frame(BEGIN, b"1Zm"),
        frame(MIDDLE, b"9vCg"),
        frame(LAST, b"o="),
        frame(WHOLE, b"1!!!!"),
        frame(WHOLE, b"1Zm"),
        frame(WHOLE, b"0eg=="),
        frame(WHOLE, b"1YmFy"),
        frame(0x88, &1000_u16.to_be_bytes()),
    ] {
        io.write_all(&bytes).await.unwrap();
    }
    assert_eq!(one.read_all(100).await.unwrap(), b"foo\n\nbar");
    assert_eq!(zero.read_all(100).await.unwrap(), b"z");
    drop(io);
    link.closed().await;
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_and_a_close_is_returned() {
    let env = Env::simulated(1);
    let (link, _streams, mut io) = server(&env, Codec::Binary);
    io.write_all(&frame(0x89, b"are you there")).await.unwrap();
    io.write_all(&frame(0x88, &1000_u16.to_be_bytes())).await.unwrap();
    let mut answer = Vec::new();
    io.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [b"\x8a\x0dare you there".as_slice(), b"\x88\x02\x03\xe8"].concat());
    link.closed().await;
}

#[tokio::test(start_paused = true)]
async fn broken_close_signals_and_lost_connections_fail_readers() {
    let env = Env::simulated(1);
    for bytes in
        [&frame(WHOLE, b"\xff")[..], &frame(WHOLE, b"\xff\0\0"), &frame(WHOLE, b"\xff\x07"), b"\x82", b""]
    {
        let (link, [zero, _one], mut io) = server(&env, Codec::BinaryWithClose);
        io.write_all(bytes).await.unwrap();
        if bytes.len() < 2 {
            drop(io);
        }
        assert!(zero.chunk().await.is_err(), "{bytes:?}");
        link.closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_bytes_end_a_connection_at_worst() {
    for seed in 0..200 {
        let env = Env::simulated(seed);
        let codec = [Codec::Binary, Codec::Base64, Codec::BinaryWithClose][seed as usize % 3];
        let (link, [zero, one], mut io) = server(&env, codec);
        let mut wire = Vec::new();
        for n in 0..20_u8 {
            wire.extend(frame(WHOLE, &[n % 3, b'Y', b'Q', b'=', b'=']));
        }
        for _ in 0..1 + env.random_below(5) {
            let at = env.random_below(wire.len() as u64) as usize;
            wire[at] = env.random() as u8;
        }
        io.write_all(&wire).await.unwrap();
        drop(io);
        let _ = tokio::join!(zero.read_all(1 << 20), one.read_all(1 << 20));
        link.closed().await;
    }
}
