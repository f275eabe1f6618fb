//! Compressed answers, for clients that accept them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, HeaderValue, VARY};

use crate::body::Body;
use crate::negotiate::accepts_gzip;
use crate::respond::Answer;

/// Objects and lists are compressed from this size on, as upstream does.
pub const OBJECT_FROM: usize = 128 * 1024;
/// Documents and metrics that fit into one packet are sent as they are.
pub const DOCUMENT_FROM: usize = 1400;

/// Speed, not size: upstream uses level 1 too.
pub fn encoder(capacity: usize) -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::with_capacity(capacity), Compression::new(1))
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = encoder(bytes.len() / 4);
    // Writing into a Vec cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Sets the headers of a compressed answer.
pub fn mark(answer: &mut Answer) {
    answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// An object, compressed if it is large and the client accepts it.
pub fn compress_object(answer: Answer, headers: &HeaderMap) -> Answer {
    compress(answer, OBJECT_FROM + 1, accepts_gzip(headers))
}

/// The answer, compressed if it has that many bytes and the client accepts it.
pub fn compress(mut answer: Answer, from: usize, accepted: bool) -> Answer {
    if let Body::Whole(Some(bytes)) = answer.body()
        && bytes.len() >= from
        && accepted
    {
        *answer.body_mut() = gzip(bytes).into();
        mark(&mut answer);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond;

    #[test]
    fn an_answer_is_compressed_if_it_is_large_and_accepted() {
        for (length, accepted, compressed) in [(99, true, false), (100, true, true), (100, false, false)] {
            let answer = respond::answer(200, "text/plain", vec![b'a'; length].into());
            let answer = compress(answer, 100, accepted);
            assert_eq!(answer.headers().contains_key(CONTENT_ENCODING), compressed, "{length}");
            assert_eq!(answer.headers().contains_key(VARY), compressed, "{length}");
        }
    }
}
