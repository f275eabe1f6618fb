use super::*;

fn events(parser: &mut Parser, wire: &[u8], size: usize) -> Result<Vec<Event>, &'static str> {
    let (mut input, mut events) = (BytesMut::new(), Vec::new());
    for piece in wire.chunks(size) {
        input.extend_from_slice(piece);
        while let Some(event) = parser.parse(&mut input)? {
            events.push(event);
        }
        assert!(input.len() <= MAX_CONTROL + 14);
    }
    Ok(events)
}

/// The messages in a run of events.
fn messages(events: &[Event]) -> Vec<Vec<u8>> {
    let (mut messages, mut current) = (Vec::new(), Vec::new());
    for event in events {
        if let Event::Data { data, last, .. } = event {
            current.extend_from_slice(data);
            if *last {
                messages.push(std::mem::take(&mut current));
            }
        }
    }
    messages
}

#[tokio::test(start_paused = true)]
async fn messages_survive_the_wire_in_pieces_of_any_size() {
    let sizes = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000];
    let sent: Vec<Vec<u8>> = sizes.iter().map(|n| (0..*n).map(|i: usize| i as u8).collect()).collect();
    for (role, peer) in
        [(Role::Server, Role::Client(Env::simulated(1))), (Role::Client(Env::simulated(1)), Role::Server)]
    {
        let composer = Composer(role);
        let mut wire = BytesMut::new();
        for message in &sent {
            let (prefix, data) = message.split_at(message.len().min(1));
            composer.message(false, prefix, data, &mut wire);
            composer.pong(b"between", &mut wire);
        }
        composer.close(&mut wire);
        for size in [1, 3, 1000, wire.len()] {
            let events = events(&mut Parser::new(&peer), &wire, size).unwrap();
            assert_eq!(messages(&events), sent);
            assert_eq!(events.iter().filter(|event| **event == Event::Pong).count(), sent.len());
            assert_eq!(events.last(), Some(&Event::Close(Some(NORMAL_CLOSURE))));
        }
    }
}

use env::Env;

#[test]
fn fragments_make_one_message_around_a_ping() {
    let wire = [&[0x02, 2][..], b"ab", &[0x89, 1], b"p", &[0x00, 1], b"c", &[0x80, 0]].concat();
    let events = events(&mut Parser::new(&Role::Client(Env::machine())), &wire, 100).unwrap();
    assert_eq!(messages(&events), [b"abc"]);
    assert!(events.contains(&Event::Ping(Bytes::from_static(b"p"))));
}

#[test]
fn broken_frames_are_refused() {
    let client = Role::Client(Env::machine());
    for (what, wire) in [
        ("reserved bit", &[0xc2, 0][..]),
        ("masked by a server", &[0x82, 0x80, 0, 0, 0, 0]),
        ("continuation of nothing", &[0x80, 0]),
        ("message within a message", &[0x02, 0, 0x82, 0]),
        ("fragmented ping", &[0x09, 0]),
        ("large ping", &[0x89, 126, 0, 126]),
        ("unknown opcode", &[0x83, 0]),
        ("close of one byte", &[0x88, 1, 3]),
        ("length beyond 63 bits", &[0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        assert!(events(&mut Parser::new(&client), wire, 100).is_err(), "{what}");
    }
    assert!(events(&mut Parser::new(&Role::Server), &[0x82, 0], 100).is_err(), "not masked by a client");
}

#[tokio::test(start_paused = true)]
async fn any_bytes_are_survived_within_bounds() {
    for seed in 0..400 {
        let env = Env::simulated(seed);
        let wire: Vec<u8> = (0..env.random_below(1000)).map(|_| env.random() as u8).collect();
        let size = 1 + env.random_below(50) as usize;
        let role = if seed % 2 == 0 { Role::Server } else { Role::Client(env) };
        let _ = events(&mut Parser::new(&role), &wire, size);
    }
}
