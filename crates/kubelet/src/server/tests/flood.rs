//! Many connections that say nothing, and one that has made its handshake.

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{Fixture, USER};

#[tokio::test(flavor = "multi_thread")]
async fn idle_sockets_keep_nobody_out() {
    let fixture = Fixture::start().await;
    let address = ("127.0.0.1", fixture.server.port());
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // Those of one address that are slow with their handshake are closed, the oldest first.
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0);
    assert_eq!(fixture.get("/healthz").await.0, StatusCode::OK);
    // One that has made its handshake is none of those.
    let mut shaken = fixture.connect(Some(USER), b"http/1.1").await;
    // Both ends are of this process, which may open no more than a thousand or so.
    silent.clear();
    for _ in 0..300 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    shaken.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    shaken.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
