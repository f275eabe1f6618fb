use env::Env;

use super::*;

fn samples() -> Vec<Frame> {
    vec![
        Frame::SynStream { id: 1, fin: false, headers: Headers::new([("streamType", "error")]) },
        Frame::SynReply { id: 1, fin: true, headers: Headers::default() },
        Frame::Data { id: 1, fin: false, data: Bytes::from_static(b"hello") },
        Frame::Data { id: 1, fin: true, data: Bytes::new() },
        Frame::RstStream { id: 3, status: status::CANCEL },
        Frame::Settings,
        Frame::Ping(7),
        Frame::Headers { id: 5, fin: false, headers: Headers::new([("a", "b"), ("c", "")]) },
        Frame::WindowUpdate { id: 5, delta: 1 << 20 },
        Frame::GoAway { last_stream: 9, status: 0 },
    ]
}

fn encoded(frames: &[Frame]) -> BytesMut {
    let (mut encoder, mut output) = (Encoder::default(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut output);
    }
    output
}

#[test]
fn frames_survive_the_wire_in_pieces_of_any_size() {
    let wire = encoded(&samples());
    for size in [1, 2, 3, 7, 8, 9, 64, wire.len()] {
        let (mut decoder, mut input, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
        for piece in wire.chunks(size) {
            input.extend_from_slice(piece);
            while let Some(frame) = decoder.decode(&mut input).unwrap() {
                // Data comes in the pieces it is read in: join them for the comparison.
                match (frames.last_mut(), frame) {
                    (
                        Some(Frame::Data { id, fin: false, data }),
                        Frame::Data { id: next, fin, data: more },
                    ) if *id == next && !data.is_empty() && !more.is_empty() => {
                        *data = [&data[..], &more].concat().into();
                        assert!(!fin);
                    }
                    (_, frame) => frames.push(frame),
                }
            }
        }
        assert_eq!(frames, samples(), "pieces of {size}");
        assert!(input.is_empty());
    }
}

#[test]
fn data_frame_of_the_largest_size_is_not_buffered() {
    let mut input = BytesMut::from(&[0, 0, 0, 1, 1, 0xff, 0xff, 0xff][..]);
    let mut decoder = Decoder::default();
    let mut left = 0xff_ffff;
    while left > 0 {
        let size = left.min(30_000);
        input.extend_from_slice(&vec![b'x'; size]);
        left -= size;
        let fin = left == 0;
        let Ok(Some(Frame::Data { id: 1, fin: is_last, data })) = decoder.decode(&mut input) else {
            panic!()
        };
        assert_eq!((data.len(), is_last, input.len()), (size, fin, 0));
    }
}

#[test]
fn malformed_control_frames_are_refused() {
    let bad: &[(&str, &[u8])] = &[
        ("version 2", &[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1]),
        ("unknown type", &[0x80, 3, 0, 77, 0, 0, 0, 0]),
        ("too large", &[0x80, 3, 0, 1, 0, 1, 0, 1]),
        ("short SYN_STREAM", &[0x80, 3, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1]),
        ("SYN_STREAM of stream 0", &[0x80, 3, 0, 1, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("SYN_REPLY without headers", &[0x80, 3, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1]),
        ("RST_STREAM of status 0", &[0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("short RST_STREAM", &[0x80, 3, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1]),
        ("more settings than sent", &[0x80, 3, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1]),
        ("ping 0", &[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 0]),
        ("ping with flags", &[0x80, 3, 0, 6, 1, 0, 0, 4, 0, 0, 0, 1]),
        ("long GOAWAY", &[0x80, 3, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("data of stream 0", &[0, 0, 0, 0, 0, 0, 0, 1, b'x']),
    ];
    for (what, bytes) in bad {
        let result = Decoder::default().decode(&mut BytesMut::from(*bytes));
        assert!(result.is_err(), "{what}: {result:?}");
    }
}

/// Random bytes, and random damage to valid frames: never a panic, never more kept than one control frame.
#[tokio::test(start_paused = true)]
async fn any_bytes_are_survived_within_bounds() {
    for seed in 0..400 {
        let env = Env::simulated(seed);
        let mut wire = if seed % 2 == 0 {
            (0..env.random_below(2000)).map(|_| env.random() as u8).collect()
        } else {
            encoded(&samples()).to_vec()
        };
        for _ in 0..env.random_below(6) {
            let at = env.random_below(wire.len().max(1) as u64) as usize;
            if let Some(byte) = wire.get_mut(at) {
                *byte = env.random() as u8;
            }
        }
        let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
        let mut produced = 0;
        'feed: for piece in wire.chunks(1 + env.random_below(100) as usize) {
            input.extend_from_slice(piece);
            loop {
                match decoder.decode(&mut input) {
                    Ok(Some(_)) => produced += 1,
                    Ok(None) => break,
                    Err(_) => break 'feed,
                }
            }
            assert!(input.len() <= MAX_CONTROL + 8, "seed {seed}");
        }
        assert!(produced <= wire.len(), "seed {seed}: a frame without bytes");
    }
}
