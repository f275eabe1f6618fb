//! Requests refused before they are read: the refusal arrives, however much was still to come.

use std::process::Command;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::*;
use crate::wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SIZES: [usize; 4] = [100_000, 1_000_000, 3_300_000, 9_000_000];

/// The credentials, as headers, and the expected refusal.
const CASES: [(&str, [u16; 4]); 3] = [
    // Nothing of the body is an object; from three MiB on it is not even looked at.
    ("x-nothing: 1", [400, 400, 413, 413]),
    ("impersonate-user: jane", [403; 4]),
    ("authorization: Bearer wrong", [401; 4]),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_everything_before_reading_gets_its_refusal() {
    let folder = folder();
    let server = Proc::start_with(&folder.path().join("data"), &["--store", "memory"]);
    for (header, codes) in CASES {
        for (size, code) in SIZES.into_iter().zip(codes) {
            let lengths = [
                format!("content-length: {size}\r\n\r\n{}", "x".repeat(size)),
                format!("transfer-encoding: chunked\r\n\r\n{size:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(size)),
            ];
            for body in lengths {
                for _ in 0..rounds(4, 30) {
                    // A certificate comes before a token.
                    let mut stream = match header.starts_with("authorization") {
                        true => wire::connect_as_nobody(&server).await,
                        false => wire::connect(&server).await,
                    };
                    let kind = "content-type: application/json";
                    let request = format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\n{kind}\r\n{header}\r\n{body}");
                    let what = format!("{header}, {size} bytes");
                    let exchange = async {
                        stream.write_all(request.as_bytes()).await.unwrap_or_else(|e| panic!("{what}: {e}"));
                        stream.flush().await.unwrap_or_else(|e| panic!("{what}: {e}"));
                        let mut start = [0; 12];
                        stream.read_exact(&mut start).await.unwrap_or_else(|e| panic!("{what}: {e}"));
                        String::from_utf8_lossy(&start).into_owned()
                    };
                    let start = tokio::time::timeout(PATIENCE, exchange).await.expect("an answer");
                    assert_eq!(start, format!("HTTP/1.1 {code}"), "{what}");
                }
            }
        }
    }
}

#[test]
fn curl_gets_its_refusal_over_both_versions() {
    if !available("curl") {
        return;
    }
    let folder = folder();
    let server = Proc::start_with(&folder.path().join("data"), &["--store", "memory"]);
    for (size, place) in SIZES.into_iter().zip(0..) {
        let file = folder.path().join("body");
        std::fs::write(&file, "x".repeat(size)).unwrap();
        for version in ["--http1.1", "--http2"] {
            for (header, codes) in CASES {
                for _ in 0..rounds(4, 30) {
                    let mut command = Command::new("curl");
                    command.args(["-s", "-S", version, "-H", "Expect:", "-H", header]);
                    command.args(["-H", "content-type: application/json", "-w", "|%{http_code}"]);
                    command.arg("--cacert").arg(server.pki("ca.crt"));
                    if !header.starts_with("authorization") {
                        command.arg("--cert").arg(server.pki("admin.crt"));
                        command.arg("--key").arg(server.pki("admin.key"));
                    }
                    command.arg("--data-binary").arg(format!("@{}", file.display()));
                    let output = run(command.arg(format!("{}{MAPS}", server.url())));
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    let said = String::from_utf8_lossy(&output.stderr);
                    let code: u16 = codes[place];
                    assert!(output.status.success(), "{version} {header}, {size} bytes: {said}");
                    assert!(text.ends_with(&format!("|{code}")), "{version} {header}, {size} bytes: {text}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_unread_body_keeps_its_connection() {
    let folder = folder();
    let server = Proc::start_with(&folder.path().join("data"), &["--store", "memory"]);
    let mut stream = wire::connect(&server).await;
    let body = "x".repeat(100_000);
    let refused = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\nimpersonate-user: jane\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    wire::send(&mut stream, &refused).await;
    wire::send(&mut stream, "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    let said = wire::rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 403") && said.ends_with("\r\n\r\nok"), "{said}");
}
