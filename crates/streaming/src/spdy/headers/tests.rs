use super::*;

fn compressed(compressor: &mut Compressor, headers: &Headers) -> Vec<u8> {
    let mut output = BytesMut::new();
    compressor.compress(headers, &mut output);
    output.to_vec()
}

#[test]
fn dictionary_is_the_specification_s() {
    let bytes = dictionary::dictionary();
    assert_eq!(bytes.len(), 1423);
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    let hex: String = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02");
}

#[test]
fn many_blocks_share_one_zlib_stream() {
    let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
    let long = "x".repeat(20_000);
    for round in 0..50 {
        let id = round.to_string();
        for headers in [
            Headers::new([("streamType", "stdout")]),
            Headers::default(),
            Headers::new([("port", "80"), ("requestID", &id), ("long", &long)]),
        ] {
            let block = compressed(&mut compressor, &headers);
            assert_eq!(decompressor.decompress(&block).unwrap(), headers);
        }
    }
}

#[test]
fn names_are_found_in_any_case() {
    let headers = Headers::new([("streamType", "error"), ("port", "8080\u{0}9090")]);
    assert_eq!(headers.get("streamType"), "error");
    assert_eq!(headers.get("STREAMTYPE"), "error");
    assert_eq!(headers.get("port"), "8080");
    assert_eq!(headers.get("requestID"), "");
}

#[test]
fn block_that_grows_without_end_is_refused() {
    let huge = "0".repeat(MAX_BLOCK * 4);
    let block = compressed(&mut Compressor::new(), &Headers::new([("a", &huge)]));
    assert!(block.len() < 2048, "it compresses well: {}", block.len());
    assert_eq!(Decompressor::new().decompress(&block), Err(FrameError::HeadersTooLarge));
}

#[test]
fn malformed_blocks_are_refused() {
    for block in
        [&b""[..], b"\0\0\0\x01", b"\0\0\0\x01\xff\xff\xff\xff", b"\0\0\0\0extra", b"\xff\xff\xff\xff"]
    {
        assert!(parse(block).is_err(), "{block:?}");
    }
    assert!(parse(b"\0\0\0\x01\0\0\0\x01A\0\0\0\x01b").is_err(), "upper case");
    assert!(parse(b"\0\0\0\x02\0\0\0\x01a\0\0\0\x01b\0\0\0\x01a\0\0\0\x01b").is_err(), "twice");
    assert!(Decompressor::new().decompress(b"not zlib at all").is_err());
}
