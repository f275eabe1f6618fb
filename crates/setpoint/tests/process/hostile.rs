//! Bytes that no client library would send, on a real socket: each is answered or cut off, and the server lives on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::harness::*;
use crate::wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn strange_requests_get_the_right_status_and_harm_nobody() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let long = "n".repeat(254);
    let big = format!("{{\"data\":{{\"x\":\"{}\"}}}}", "x".repeat(3 << 20));
    let deep = "[".repeat(100_000);
    // Nine lists of nine references to the one before: 400 million values from 500 bytes.
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 9].join(", ")));
    }
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let post = |kind: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {MAPS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    // Upstream's status of each.
    let table: Vec<(String, u16)> = vec![
        (get(&format!("{MAPS}/..")), 400),
        (get(&format!("{MAPS}/a%2fb")), 404),
        (get(&format!("{MAPS}/a%00b")), 404),
        (get(&format!("{MAPS}/%zz")), 400),
        (get(&format!("{MAPS}/%ff%fe")), 404),
        (get(&format!("{MAPS}/{long}")), 404),
        // Upstream takes a limit below one for none at all.
        (get(&format!("{MAPS}?limit=-1")), 200),
        (get(&format!("{MAPS}?continue=forged")), 400),
        (get(&format!("{MAPS}?labelSelector=a%3D%3D%3Db")), 400),
        (get(&format!("{MAPS}?fieldSelector=spec.nothing%3Da")), 400),
        (get(&format!("{MAPS}?resourceVersion=abc")), 400),
        (get(&format!("{MAPS}?watch=1&resourceVersion=999999999&timeoutSeconds=1")), 200),
        (get("//api//v1//namespaces"), 404),
        (get("/apis/no.such.group/v1/things"), 404),
        (get(&format!("/{}", "x".repeat(60_000))), 404),
        (post("application/json", "{"), 400),
        (post("application/json", ""), 400),
        (post("application/json", "null"), 422),
        (post("application/json", &deep), 400),
        (post("application/json", &big), 413),
        (post("application/yaml", &bomb), 400),
        (post("application/yaml", &format!("a: {deep}")), 400),
        (post("application/vnd.kubernetes.protobuf", "k8s\0\u{1}\u{2}\u{3}"), 400),
        (post("text/plain", "{}"), 415),
        (post("application/json", r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}"#), 400),
        (post("application/json", r#"{"apiVersion":"v1","kind":"Broom","metadata":{"name":"a"}}"#), 400),
        (post("application/json", r#"{"metadata":{"name":"a/b"}}"#), 422),
        ("GET / HTTP/9.9\r\n\r\n".into(), 505),
        ("\r\n\r\nnonsense\r\n\r\n".into(), 400),
        (format!("GET {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n"), 400),
        (
            format!(
                "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n"
            ),
            400,
        ),
        (format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), 500),
    ];
    let mut wrong = Vec::new();
    for (request, wanted) in table {
        let mut stream = wire::connect(&server).await;
        let shown: String = request.chars().take(120).collect();
        let answer = wire::exchange(&mut stream, &request).await;
        let code: u16 = answer.split(' ').nth(1).and_then(|c| c.parse().ok()).unwrap_or(0);
        if code != wanted {
            let head: String = answer.chars().take(600).collect();
            wrong.push(format!("{shown:?}: wanted {wanted}, got {code}:\n{head}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    lives(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_tls_is_cut_off() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], &[0x16, 3, 1, 0xff, 0xff, 1, 0, 0, 0], &[0xff; 100]]
    {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 100, "{answer:?}");
    }
    // Connections that say nothing at all do not keep others out.
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    lives(&server).await;
    drop(silent);
}

async fn lives(server: &Proc) {
    let client = server.client().await;
    assert_eq!(call(&client, "GET", "/livez", None).await.0, 200);
    assert_eq!(call(&client, "POST", MAPS, Some(config_map("alive", "1"))).await.0, 201);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
