//! HTTP/1.1 as its grammar allows it and as it does not.

use super::*;

pub(super) const CASES: &[Case] = &[
    case!(pipelined_requests_are_answered_in_order),
    case!(chunks_lie),
    case!(tiny_chunks_add_up),
    case!(heads_lie),
];

async fn pipelined_requests_are_answered_in_order(server: &Proc) {
    let count = times(300, 10_000);
    let mut text = String::new();
    for i in 0..count {
        let last = if i + 1 == count { "connection: close\r\n" } else { "" };
        text.push_str(&format!("GET {MAPS}/no-{i} HTTP/1.1\r\nhost: x\r\n{last}\r\n"));
    }
    let mut stream = wire::connect(server).await;
    let (mut answer, mut read) = (String::new(), Vec::new());
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let write = async {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut writer, text.as_bytes()).await;
        let _ = tokio::io::AsyncWriteExt::flush(&mut writer).await;
    };
    let (_, _) = tokio::join!(write, tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut read));
    answer.push_str(&String::from_utf8_lossy(&read));
    let named: Vec<&str> =
        answer.split("configmaps \\\"no-").skip(1).filter_map(|t| t.split('\\').next()).collect();
    let wanted: Vec<String> = (0..count).map(|i| i.to_string()).collect();
    assert_eq!(named, wanted, "every answer, in order");
}

async fn chunks_lie(server: &Proc) {
    let head = format!(
        "POST {MAPS}?dryRun=All HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let long = "x".repeat(200_000);
    // Whatever the words: no body, no object, and the connection ends.
    for body in [
        "zz\r\n",
        "-1\r\n{}\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n{}",
        "2;\n{}\r\n0\r\n\r\n",
        &format!("2;{long}\r\n{{}}\r\n0\r\n\r\n"),
        &format!("2\r\n{{}}\r\n0\r\nx: {long}\r\n\r\n"),
        &format!("{}2\r\n{{}}\r\n0\r\n\r\n", "0".repeat(100_000)),
        "2\r\n{}0\r\n\r\n",
        "2\r{}\r\n0\r\n\r\n",
    ] {
        let answer = ask(server, format!("{head}{body}")).await;
        let shown: String = body.chars().take(40).collect();
        assert!(!(200..300).contains(&code(&answer)), "{shown:?}: {answer}");
        assert!(code(&answer) < 600, "{shown:?}: {answer}");
    }
    // What may still come is waited for, and costs nothing.
    let mut waiting = Vec::new();
    for body in ["ffffffffffffffff\r\n{}", "7fffffffffffffff\r\n{}", "2", "2\r\n{"] {
        let mut stream = wire::connect(server).await;
        wire::send(&mut stream, &format!("{head}{body}")).await;
        waiting.push(stream);
    }
    let both = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n"
    );
    assert_eq!(code(&ask(server, both).await), 400);
}

/// Seven bytes on the wire for one of the body.
async fn tiny_chunks_add_up(server: &Proc) {
    let body = format!(
        r#"{{"metadata":{{"name":"tiny"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(times(20_000, 900_000))
    );
    let mut request = format!(
        "POST {MAPS}?dryRun=All HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    for byte in body.chars() {
        request.push_str("1\r\n");
        request.push(byte);
        request.push_str("\r\n");
    }
    request.push_str("0\r\n\r\n");
    assert_eq!(code(&ask(server, request).await), 201);
}

async fn heads_lie(server: &Proc) {
    let request =
        |headers: &str| format!("GET {MAPS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    for headers in [
        "content-length: 1\r\ncontent-length: 2\r\n",
        "content-length: 99999999999999999999999\r\n",
        "content-length: 0x10\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: gzip\r\n",
        "x : y\r\n",
        "x\0y: z\r\n",
        " folded: before anything\r\n",
        "x: y\r\n folded\r\n",
        "no colon\r\n",
        "host: again\r\n",
    ] {
        let answer = ask(server, request(headers)).await;
        assert!(!(200..300).contains(&code(&answer)) || headers.starts_with("host"), "{headers:?}: {answer}");
    }
    for (count, size) in [(90, 8000), (2000, 10), (1, 2_000_000)] {
        let many: String = (0..count).map(|i| format!("x-{i}: {}\r\n", "y".repeat(size))).collect();
        let answer = ask(server, request(&many)).await;
        assert!([0, 200, 400, 431].contains(&code(&answer)), "{count} headers of {size}: {answer}");
    }
    // An absolute target, another's name, a method of nobody's, a target that is too long.
    for (request, wanted) in [
        ("GET https://x/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), 200),
        ("BREW /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), 405),
        (get(&format!("/version?{}", "x".repeat(100_000))), 414),
        ("CONNECT x:1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), 404),
    ] {
        let answer = ask(server, &request).await;
        let shown: String = request.chars().take(60).collect();
        assert!(code(&answer) == wanted || (400..500).contains(&code(&answer)), "{shown:?}: {answer}");
    }
}
