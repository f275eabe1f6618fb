//! Connections that are slow, half open, no TLS at all, or torn.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

pub(super) const CASES: &[Case] = &[
    case!(what_is_not_tls_is_cut_off),
    case!(handshakes_stall, take 64, keep 24),
    case!(heads_come_byte_by_byte, take 64, keep 24),
    case!(a_body_byte_by_byte_is_taken),
    case!(half_closed_connections_end),
    case!(connections_are_reset_inside_an_answer, take 96, keep 32),
];

async fn what_is_not_tls_is_cut_off(server: &Proc) {
    let address = server.address();
    let work = move || {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0; 4096],
            &[0x16, 3, 1, 0xff, 0xff, 1, 0, 0, 0],
            &[0xff; 100],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"SSH-2.0-x\r\n",
        ] {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            // An alert, or HTTP's word for it.
            assert!(answer.len() < 200, "{}", answer.escape_ascii());
        }
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}

/// A hello that says it is longer than what comes.
async fn handshakes_stall(server: &Proc) {
    let mut open = Vec::new();
    for _ in 0..times(150, 600) {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await.unwrap();
        open.push(stream);
    }
    for _ in 0..times(5, 50) {
        for stream in &mut open {
            let _ = stream.write_all(&[7]).await;
        }
        pause(20).await;
    }
}

async fn heads_come_byte_by_byte(server: &Proc) {
    let mut open = Vec::new();
    for _ in 0..times(60, 500) {
        let mut stream = wire::connect_as_nobody(server).await;
        wire::send(&mut stream, "GET /version HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
        open.push(stream);
    }
    for _ in 0..times(10, 100) {
        for stream in &mut open {
            let _ = stream.write_all(b"a").await;
            let _ = stream.flush().await;
        }
        pause(10).await;
    }
    // Slow is not wrong: whoever comes to an end gets an answer.
    let mut last = open.pop().expect("some are open");
    assert_eq!(code(&wire::exchange(&mut last, "\r\nconnection: close\r\n\r\n").await), 200);
}

async fn a_body_byte_by_byte_is_taken(server: &Proc) {
    let body = r#"{"metadata":{"name":"slow"},"data":{"a":"b"}}"#;
    let whole = post("application/json", body);
    let (head, body) = whole.split_at(whole.len() - body.len());
    let mut stream = wire::connect(server).await;
    wire::send(&mut stream, head).await;
    for byte in body.bytes() {
        stream.write_all(&[byte]).await.unwrap();
        stream.flush().await.unwrap();
        pause(2).await;
    }
    assert_eq!(code(&wire::exchange(&mut stream, "").await), 201);
}

/// The client says that it will send no more: after a request, inside a head, inside a body.
async fn half_closed_connections_end(server: &Proc) {
    let sent = [
        get("/version"),
        "GET /version HTTP/1.1\r\nhost:".to_owned(),
        post("application/json", "{}").replace("content-length: 2", "content-length: 200"),
        String::new(),
    ];
    for request in sent {
        let mut stream = wire::connect(server).await;
        wire::send(&mut stream, &request).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "{request:?} keeps its connection");
    }
}

async fn connections_are_reset_inside_an_answer(server: &Proc) {
    for _ in 0..times(15, 300) {
        let mut stream = wire::connect(server).await;
        wire::send(&mut stream, &get("/openapi/v2")).await;
        let mut some = [0; 100];
        let _ = stream.read(&mut some).await;
        // No goodbye: the kernel answers what still comes with a reset.
        let (tcp, _) = stream.get_ref();
        let _ = tcp.set_zero_linger();
    }
}
