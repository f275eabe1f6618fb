use bytes::BytesMut;
use env::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

fn pair(env: &Env) -> (Connection, Connection) {
    let (near, far) = duplex(4096);
    let client = Connection::client(env, Box::new(near), Settings::default());
    (client, Connection::server(env, Box::new(far), Settings::default()))
}

/// A client, and the server's stream of the one it opened.
async fn open_one(client: &Connection, server: &Connection) -> (Stream, Stream) {
    let open = client.open(Headers::new([("streamType", "data")]));
    let accept = async { server.accept().await.unwrap().accept() };
    let (near, far) = tokio::join!(open, accept);
    (near.unwrap(), far)
}

async fn raw_frames(io: &mut DuplexStream, until: impl Fn(&Frame) -> bool) -> Vec<Frame> {
    let (mut decoder, mut input, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
    loop {
        while let Some(frame) = decoder.decode(&mut input).unwrap() {
            let done = until(&frame);
            frames.push(frame);
            if done {
                return frames;
            }
        }
        if io.read_buf(&mut input).await.unwrap() == 0 {
            return frames;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_carry_data_both_ways_and_end_one_half_at_a_time() {
    let env = Env::simulated(1);
    let (client, server) = pair(&env);
    for round in 0..3 {
        let (near, far) = open_one(&client, &server).await;
        assert_eq!(far.headers().get("streamType"), "data");
        assert_eq!((near.id(), far.id()), (1 + round * 2, 1 + round * 2));
        let sent: Vec<u8> = (0..200_000).map(|i| (i % 251) as u8).collect();
        let up = async {
            near.send(&sent).await.unwrap();
            near.finish();
            near.read_all(usize::MAX).await.unwrap()
        };
        let echo = async {
            let all = far.read_all(usize::MAX).await.unwrap();
            far.send(&all).await.unwrap();
            far.finish();
        };
        let (back, ()) = tokio::join!(up, echo);
        assert!(back == sent);
        assert!(near.send(b"more").await.is_err(), "after the end");
    }
}

#[tokio::test(start_paused = true)]
async fn both_sides_open_streams() {
    let env = Env::simulated(1);
    let (client, server) = pair(&env);
    let (near, far) = open_one(&server, &client).await;
    assert_eq!((near.id(), far.id()), (2, 2));
    near.send(b"from the server").await.unwrap();
    assert_eq!(far.chunk().await.unwrap(), &b"from the server"[..]);
}

#[tokio::test(start_paused = true)]
async fn stream_that_is_not_accepted_is_refused() {
    let env = Env::simulated(1);
    let (client, server) = pair(&env);
    let (opened, ()) = tokio::join!(client.open(Headers::default()), async {
        drop(server.accept().await.unwrap());
    });
    assert_eq!(opened.err(), Some(OpenError::Refused));
}

#[tokio::test(start_paused = true)]
async fn reply_that_never_comes_is_a_timeout() {
    let env = Env::simulated(1);
    let (near, _far) = duplex(4096);
    let client = Connection::client(&env, Box::new(near), Settings::default());
    assert_eq!(client.open(Headers::default()).await.err(), Some(OpenError::Timeout));
}

#[tokio::test(start_paused = true)]
async fn reset_ends_reading_after_what_came_before_and_fails_writing() {
    let env = Env::simulated(1);
    let (client, server) = pair(&env);
    let (near, far) = open_one(&client, &server).await;
    far.send(b"last words").await.unwrap();
    drop(far);
    assert_eq!(near.read_all(100).await.unwrap(), b"last words");
    assert!(near.send(b"x").await.is_err());
    // The connection is unharmed.
    let (near, far) = open_one(&client, &server).await;
    near.send(b"y").await.unwrap();
    assert_eq!(far.chunk().await.unwrap(), &b"y"[..]);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_holds_its_writer_up_within_bounds() {
    let env = Env::simulated(1);
    let (client, server) = pair(&env);
    let (near, far) = open_one(&client, &server).await;
    const TOTAL: usize = 8 << 20;
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = sent.clone();
    let writer = env.spawn("writer", async move {
        for _ in 0..TOTAL / 1024 {
            near.send(&[7; 1024]).await.unwrap();
            counter.fetch_add(1024, std::sync::atomic::Ordering::Relaxed);
        }
        near.finish();
        near
    });
    // Virtual time passes only when nothing else can be done.
    env.sleep(Duration::from_secs(1)).await;
    let held = sent.load(std::sync::atomic::Ordering::Relaxed);
    assert!(held < 1 << 20, "{held} bytes were taken from the writer");
    let mut received = 0;
    loop {
        let piece = far.chunk().await.unwrap();
        received += piece.len();
        if piece.is_empty() {
            break;
        }
    }
    assert_eq!(received, TOTAL);
    writer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stream_dropped_unread_frees_the_connection() {
    let env = Env::simulated(1);
    let (client, server) = pair(&env);
    let (stuck, unread) = open_one(&client, &server).await;
    let (near, far) = open_one(&client, &server).await;
    let writer = env.spawn("writer", async move { stuck.send(&vec![1; 4 << 20]).await });
    env.sleep(Duration::from_secs(1)).await;
    drop(unread);
    near.send(b"through").await.unwrap();
    assert_eq!(far.chunk().await.unwrap(), &b"through"[..]);
    assert!(writer.await.unwrap().is_err(), "the writer learns of the reset");
}

#[tokio::test(start_paused = true)]
async fn close_delivers_what_was_written_and_ends_the_peer() {
    let env = Env::simulated(1);
    let (client, server) = pair(&env);
    let (near, far) = open_one(&client, &server).await;
    far.send(&vec![9; 100_000]).await.unwrap();
    server.close();
    assert_eq!(near.read_all(usize::MAX).await.unwrap().len(), 100_000);
    client.closed().await;
    assert!(client.accept().await.is_none());
    assert_eq!(client.open(Headers::default()).await.err(), Some(OpenError::Closed));
    server.closed().await;
}

#[tokio::test(start_paused = true)]
async fn lost_connection_is_not_an_end_of_data() {
    let env = Env::simulated(1);
    let (near, mut far) = duplex(4096);
    let client = Connection::client(&env, Box::new(near), Settings::default());
    let peer = async {
        let mut reply = BytesMut::new();
        let frame = Frame::SynReply { id: 1, fin: false, headers: Headers::default() };
        Encoder::default().encode(&frame, &mut reply);
        far.write_all(&reply).await.unwrap();
    };
    let (stream, ()) = tokio::join!(client.open(Headers::default()), peer);
    drop(far);
    assert!(stream.unwrap().chunk().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_and_ours_are_sent() {
    let env = Env::simulated(1);
    let (near, mut far) = duplex(4096);
    let settings = Settings { ping_period: Some(Duration::from_secs(5)), idle_timeout: None };
    let _server = Connection::server(&env, Box::new(near), settings);
    let mut wire = BytesMut::new();
    Encoder::default().encode(&Frame::Ping(77), &mut wire);
    Encoder::default().encode(&Frame::Settings, &mut wire);
    Encoder::default().encode(&Frame::WindowUpdate { id: 1, delta: 1 }, &mut wire);
    far.write_all(&wire).await.unwrap();
    let frames = raw_frames(&mut far, |frame| *frame == Frame::Ping(4)).await;
    assert_eq!(frames, [Frame::Ping(77), Frame::Ping(2), Frame::Ping(4)]);
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_cut() {
    let env = Env::simulated(1);
    let (near, _far) = duplex(4096);
    let settings = Settings { ping_period: None, idle_timeout: Some(Duration::from_secs(60)) };
    let server = Connection::server(&env, Box::new(near), settings);
    let start = env.monotonic();
    server.closed().await;
    assert_eq!((env.monotonic() - start).as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_reads_its_answers_is_cut_off() {
    let env = Env::simulated(1);
    let (near, mut far) = duplex(1 << 20);
    let (small, mut hidden) = duplex(16);
    // Reads from `near`, writes into a pipe nobody empties.
    let (reader, _) = tokio::io::split(near);
    let (_keep, writer) = tokio::io::split(small);
    let server = Connection::server(&env, Box::new(tokio::io::join(reader, writer)), Settings::default());
    let mut wire = BytesMut::new();
    for _ in 0..5000 {
        Encoder::default().encode(&Frame::Ping(1), &mut wire);
    }
    far.write_all(&wire).await.unwrap();
    server.closed().await;
    let mut rest = Vec::new();
    let _ = env.timeout(Duration::from_secs(1), hidden.read_to_end(&mut rest)).await;
    assert!(rest.len() < 100_000);
}

#[tokio::test(start_paused = true)]
async fn streams_beyond_the_limit_and_ids_used_twice_are_refused() {
    let env = Env::simulated(1);
    let (near, mut far) = duplex(1 << 20);
    let _server = Connection::server(&env, Box::new(near), Settings::default());
    let (mut encoder, mut wire) = (Encoder::default(), BytesMut::new());
    let mut syn = |id| {
        encoder.encode(&Frame::SynStream { id, fin: false, headers: Headers::default() }, &mut wire);
    };
    (0..2050).for_each(|n| syn(1 + 2 * n));
    syn(5);
    syn(6);
    far.write_all(&wire).await.unwrap();
    let frames = raw_frames(&mut far, |frame| matches!(frame, Frame::RstStream { id: 6, .. })).await;
    let refused = |id| Frame::RstStream { id, status: status::REFUSED_STREAM };
    let wrong = |id| Frame::RstStream { id, status: status::PROTOCOL_ERROR };
    assert_eq!(frames, [refused(4097), refused(4099), wrong(5), wrong(6)]);
}

#[tokio::test(start_paused = true)]
async fn any_bytes_end_a_connection_at_worst() {
    for seed in 0..100 {
        let env = Env::simulated(seed);
        let (near, mut far) = duplex(64 << 10);
        let server = Connection::server(&env, Box::new(near), Settings::default());
        let (mut encoder, mut wire) = (Encoder::default(), BytesMut::new());
        for n in 0..20 {
            let headers = Headers::new([("port", "1")]);
            encoder.encode(&Frame::SynStream { id: 1 + 2 * n, fin: false, headers }, &mut wire);
            encoder.encode(&Frame::Data { id: 1, fin: false, data: Bytes::from_static(b"abc") }, &mut wire);
        }
        for _ in 0..1 + env.random_below(5) {
            let at = env.random_below(wire.len() as u64) as usize;
            wire[at] = env.random() as u8;
        }
        far.write_all(&wire).await.unwrap();
        drop(far);
        while let Some(incoming) = server.accept().await {
            let _ = incoming.accept().read_all(1 << 20).await;
        }
        server.closed().await;
    }
}

/// Streams opened by both sides at random, written in random pieces, then finished or dropped, read slowly or fast: each
/// reader gets what was written, all of it if the writer finished, and the connection goes on.
#[tokio::test(start_paused = true)]
async fn every_stream_delivers_what_was_written_whatever_else_happens() {
    for seed in 0..6 {
        let env = Env::simulated(seed);
        let (near, far) = duplex(1 + env.random_below(5000) as usize);
        let client = Connection::client(&env, Box::new(near), Settings::default());
        let server = Connection::server(&env, Box::new(far), Settings::default());
        let pattern = |at: usize| (at % 251) as u8;
        let write = async |connection: &Connection| {
            let writers = (0..4).map(|_| async {
                let stream = connection.open(Headers::new([("streamType", "data")])).await.unwrap();
                let total = env.random_below(300_000) as usize;
                let mut sent = 0;
                while sent < total {
                    let size = (1 + env.random_below(50_000) as usize).min(total - sent);
                    let piece: Vec<u8> = (sent..sent + size).map(pattern).collect();
                    if stream.send(&piece).await.is_err() {
                        return;
                    }
                    sent += size;
                }
                if env.random_below(4) > 0 {
                    stream.finish();
                    // Until the reader has read everything, or has given up.
                    let end = stream.read_all(100).await.unwrap();
                    assert!(end.is_empty() || end == total.to_string().as_bytes(), "seed {seed}: {end:?}");
                }
            });
            futures_util::future::join_all(writers).await;
        };
        let read = async |connection: &Connection| {
            let accepted = (0..4).map(|_| async { connection.accept().await.unwrap().accept() });
            let mut streams = Vec::new();
            for stream in accepted {
                streams.push(stream.await);
            }
            let readers = streams.into_iter().map(|stream| async {
                let stream = stream;
                let mut received = 0;
                loop {
                    let piece = stream.chunk().await.unwrap();
                    assert!(
                        piece.iter().enumerate().all(|(n, byte)| *byte == pattern(received + n)),
                        "seed {seed}"
                    );
                    received += piece.len();
                    if piece.is_empty() {
                        break;
                    }
                    match env.random_below(100) {
                        0 => return,
                        1..20 => env.sleep(Duration::from_millis(1)).await,
                        _ => {}
                    }
                }
                // The writer may have dropped its stream.
                let _ = stream.send(received.to_string().as_bytes()).await;
                stream.finish();
            });
            futures_util::future::join_all(readers).await;
        };
        tokio::join!(write(&client), read(&server), write(&server), read(&client));
        let (near, far) = open_one(&client, &server).await;
        near.send(b"still alive").await.unwrap();
        assert_eq!(far.chunk().await.unwrap(), &b"still alive"[..], "seed {seed}");
    }
}
