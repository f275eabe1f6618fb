//! SIGTERM and SIGINT: watches end, requests finish, the process is gone within five seconds, with 0.

use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;

use crate::harness::*;
use crate::wire;

const LIMIT: Duration = Duration::from_secs(5);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn an_open_watch_ends_cleanly_on_each_signal() {
    let folder = folder();
    for (signal, again) in [("TERM", true), ("INT", false)] {
        let mut server = Proc::start(&folder.path().join("data"));
        let client = server.client().await;
        let (_, list) = call(&client, "GET", MAPS, None).await;
        let from = revision(&list);
        let name = signal.to_lowercase();
        // Of that one only: the controllers of a new cluster write there too.
        let query = format!("watch=1&resourceVersion={from}&fieldSelector=metadata.name%3D{name}");
        let mut watch = Watch::open(&client, &format!("{MAPS}?{query}")).await.unwrap();
        assert_eq!(call(&client, "POST", MAPS, Some(config_map(&name, "1"))).await.0, 201);
        assert_eq!(watch.next().await.unwrap().unwrap()["object"]["metadata"]["name"], name.as_str());
        let begun = Instant::now();
        server.signal(signal);
        if again {
            // Impatient people press it twice.
            server.signal(signal);
        }
        assert_eq!(watch.next().await, Ok(None), "the watch ends, and not by a broken connection");
        let status = server.ended_within(LIMIT).expect("it ends in time");
        assert_eq!(status.code(), Some(0), "{}", server.log());
        assert!(begun.elapsed() < LIMIT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_finishes() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut server = Proc::start(&data);
    let body = config_map("late", "1").to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let mut stream = wire::connect(&server).await;
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: setpoint\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    wire::send(&mut stream, &head).await;
    // It asks for the body when it has begun.
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).await.expect("the server answers");
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    wire::send(&mut stream, first).await;
    server.signal("TERM");
    wait_until("the drain has begun", || server.log().contains("stopping"));
    wire::send(&mut stream, second).await;
    let answer = wire::rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let status = server.ended_within(LIMIT).expect("it ends in time");
    assert_eq!(status.code(), Some(0));

    let server = Proc::start(&data);
    assert_eq!(call(&server.client().await, "GET", &format!("{MAPS}/late"), None).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_finishes_does_not_hold_the_server() {
    let folder = folder();
    let mut server = Proc::start(&folder.path().join("data"));
    let mut stalled = wire::connect(&server).await;
    wire::send(&mut stalled, &format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{"))
        .await;
    let _silent = std::net::TcpStream::connect(server.address()).unwrap();
    server.signal("TERM");
    let status = server.ended_within(LIMIT).expect("it ends in time");
    assert_eq!(status.code(), Some(0), "{}", server.log());
}
