//! Answers made smaller for those who take them so.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

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
