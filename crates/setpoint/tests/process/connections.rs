//! Idle connections and closed windows against the real program, with few descriptors.

use std::net::TcpStream;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::*;
use crate::wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn with_few_descriptors_idle_connections_block_neither_clients_nor_the_store() {
    let folder = folder();
    let server = Proc::start_limited(&folder.path().join("data"), 256);
    let client = server.client().await;
    assert_eq!(call(&client, "POST", MAPS, Some(config_map("before", "1"))).await.0, 201);
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(TcpStream::connect(server.address()).unwrap());
    }
    // On the connection that is open already, and on a new one.
    assert_eq!(call(&client, "GET", &format!("{MAPS}/before"), None).await.0, 200);
    let other = server.client().await;
    assert_eq!(call(&other, "POST", MAPS, Some(config_map("after", "1"))).await.0, 201);
    // Past the size at which the log is rotated: that takes descriptors too.
    let large = "x".repeat(1_000_000);
    for i in 0..70 {
        let map = config_map("large", &format!("{i}{large}"));
        let (method, path) =
            if i == 0 { ("POST", MAPS.to_owned()) } else { ("PUT", format!("{MAPS}/large")) };
        let (code, answer) = call(&other, method, &path, Some(map)).await;
        assert!(code < 300, "{code}: {}", answer["message"]);
    }
    assert!(open_files(&server) < 256);
    drop(silent);
    server.stop();
}

fn open_files(server: &Proc) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_with_closed_windows_hold_no_events() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let client = server.client().await;
    let large = config_map("large", &"x".repeat(1_000_000));
    assert_eq!(call(&client, "POST", MAPS, Some(large)).await.0, 201);
    let before = server.resident_bytes();
    let mut stream = wire::connect_http2(&server).await;
    // SETTINGS with an initial window of nothing.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0").await.unwrap();
    const WATCHES: u32 = 500;
    for i in 0..WATCHES {
        let head = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "x"),
            (":path", "/api/v1/namespaces/default/configmaps?watch=1"),
        ];
        let block: Vec<u8> = head
            .iter()
            .flat_map(|(name, value)| {
                [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
            })
            .collect();
        let mut frame = vec![0, 0, block.len() as u8, 1, 5];
        frame.extend_from_slice(&(2 * i + 1).to_be_bytes());
        frame.extend_from_slice(&block);
        stream.write_all(&frame).await.unwrap();
    }
    stream.flush().await.unwrap();
    // Every watch is answered with its head, and nothing behind it.
    let (mut heads, mut bytes) = (0, Vec::new());
    while heads < WATCHES {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "it goes on");
        while bytes.len() >= 9 {
            let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
            if bytes.len() < 9 + length {
                break;
            }
            assert_ne!(bytes[3], 0, "there is no window for data");
            heads += u32::from(bytes[3] == 1);
            bytes.drain(..9 + length);
        }
    }
    // A change for all of them, and an answer after it.
    let changed = config_map("large", &"y".repeat(1_000_000));
    assert_eq!(call(&client, "PUT", &format!("{MAPS}/large"), Some(changed)).await.0, 200);
    let grown = server.resident_bytes().saturating_sub(before);
    // One event for each would be half a gigabyte.
    assert!(grown < 100 << 20, "{} MB", grown >> 20);
    drop(stream);
    server.stop();
}
