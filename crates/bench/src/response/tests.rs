//! Framing of responses that arrive whole, in pieces, and broken.

use super::*;

/// Feeds `input` in pieces of `step` bytes; returns the body and what was left over.
fn frame(input: &[u8], step: usize) -> Result<(u16, Vec<u8>, usize, bool), BadResponse> {
    let mut response = Response::new();
    let mut body = Vec::new();
    let mut used = 0;
    for piece in input.chunks(step) {
        used += response.feed(piece, &mut |_, bytes| body.extend_from_slice(bytes))?;
        if response.is_done() {
            break;
        }
    }
    Ok((response.status(), body, used, response.is_done()))
}

#[test]
fn body_with_content_length_ends_where_it_says() {
    let input =
        b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\ncontent-LENGTH: 5\r\n\r\nhelloHTTP";
    let (status, body, used, done) = frame(input, input.len()).unwrap();
    assert_eq!((status, body.as_slice(), done), (201, b"hello".as_slice(), true));
    assert_eq!(used, input.len() - 4, "the next response's bytes are not taken");
}

#[test]
fn chunked_body_is_the_same_however_it_is_split() {
    let input =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;name=v\r\n, world!!!\r\n0\r\nX-T: 1\r\n\r\n";
    for step in 1..=input.len() {
        let (status, body, used, done) = frame(input, step).unwrap();
        assert_eq!((status, body.as_slice(), done), (200, b"hello, world!!!".as_slice(), true), "{step}");
        assert_eq!(used, input.len(), "in pieces of {step}");
    }
}

#[test]
fn body_with_content_length_is_the_same_however_it_is_split() {
    let input = b"HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\n\r\nhello world";
    for step in 1..=input.len() {
        let (status, body, _, done) = frame(input, step).unwrap();
        assert_eq!((status, body.as_slice(), done), (404, b"hello world".as_slice(), true), "{step}");
    }
}

#[test]
fn continue_is_skipped() {
    let input = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for step in 1..=input.len() {
        let (status, body, _, done) = frame(input, step).unwrap();
        assert_eq!((status, body.as_slice(), done), (200, b"ok".as_slice(), true), "{step}");
    }
}

#[test]
fn responses_without_a_body_are_done_after_the_head() {
    assert!(frame(b"HTTP/1.1 204 No Content\r\n\r\n", 7).unwrap().3);
    assert!(frame(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 7).unwrap().3);
}

#[test]
fn body_without_a_length_ends_with_the_connection() {
    let mut response = Response::new();
    let mut body = Vec::new();
    let input = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome";
    response.feed(input, &mut |_, bytes| body.extend_from_slice(bytes)).unwrap();
    assert!(response.closes() && !response.is_done());
    assert!(response.end_of_stream());
    assert_eq!(body, b"some");
}

#[test]
fn end_of_stream_inside_a_body_is_not_an_end() {
    let mut response = Response::new();
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome", &mut |_, _| {}).unwrap();
    assert!(!response.end_of_stream());
}

#[test]
fn two_responses_on_one_connection_are_kept_apart() {
    let mut response = Response::new();
    let input = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nb";
    let used =
        response.feed(input, &mut |status, body| assert_eq!((status, body), (200, &b"a"[..]))).unwrap();
    response.reset();
    let more = response
        .feed(&input[used..], &mut |status, body| assert_eq!((status, body), (500, &b"b"[..])))
        .unwrap();
    assert_eq!(used + more, input.len());
}

#[test]
fn nonsense_is_refused() {
    for input in [
        &b"SSH-2.0-OpenSSH\r\n\r\n"[..],
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    ] {
        for step in [1, 3, input.len()] {
            assert!(frame(input, step).is_err(), "{}", String::from_utf8_lossy(input));
        }
    }
    assert!(frame(&vec![b'x'; MAX_HEAD + 2], 1000).is_err());
}
