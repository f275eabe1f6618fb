//! Reads a watch stream without parsing it: counts lines, and finds the moment that the writer put into each object.

use memchr::{memchr_iter, memmem};

use crate::request::STAMP;

/// How the stamp stands in an object's JSON, up to the first digit. The key is ours, so nothing else in an event matches.
pub const STAMP_KEY: &str = "\"bench-stamp\":\"";
const PATTERN: usize = STAMP_KEY.len() + STAMP.len();

/// One watch's place in its stream. Holds the last bytes of what came before, for a stamp that two reads share.
pub struct Stamps {
    finder: memmem::Finder<'static>,
    tail: Vec<u8>,
    events: u64,
}

impl Stamps {
    pub fn new() -> Self {
        Stamps {
            finder: memmem::Finder::new(STAMP_KEY.as_bytes()),
            tail: Vec::with_capacity(2 * PATTERN),
            events: 0,
        }
    }

    /// Whole events seen so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Takes a piece of the stream; calls `found` with each stamp that ends in it. Returns the number of events that end in it.
    pub fn feed(&mut self, piece: &[u8], mut found: impl FnMut(u64)) -> u64 {
        let lines = memchr_iter(b'\n', piece).count() as u64;
        self.events += lines;
        // A stamp that began earlier: what is kept is shorter than a stamp, and so is what is added, so that only one that
        // spans both can be found here, and the search below cannot find it again.
        if !self.tail.is_empty() {
            let kept = self.tail.len();
            self.tail.extend_from_slice(&piece[..piece.len().min(PATTERN - 1)]);
            search(&self.finder, &self.tail, &mut found);
            self.tail.truncate(kept);
        }
        search(&self.finder, piece, &mut found);
        if piece.len() >= PATTERN - 1 {
            self.tail.clear();
            self.tail.extend_from_slice(&piece[piece.len() - (PATTERN - 1)..]);
        } else {
            self.tail.extend_from_slice(piece);
            let surplus = self.tail.len().saturating_sub(PATTERN - 1);
            self.tail.drain(..surplus);
        }
        lines
    }
}

fn search(finder: &memmem::Finder<'_>, text: &[u8], found: &mut impl FnMut(u64)) {
    for at in finder.find_iter(text) {
        let digits = at + STAMP_KEY.len();
        if let Some(digits) = text.get(digits..digits + STAMP.len()) {
            let mut value = 0u64;
            for digit in digits {
                value = value.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')));
            }
            found(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stamp_is_found_once_however_the_stream_is_split() {
        let mut stream = Vec::new();
        for number in 0..20u64 {
            let filler = "x".repeat((number * 7 % 23) as usize);
            stream.extend_from_slice(
                format!("{{\"data\":{{\"a\":\"{filler}\",{STAMP_KEY}{number:016}\"}}}}\n").as_bytes(),
            );
        }
        for step in 1..200 {
            let mut stamps = Stamps::new();
            let (mut found, mut lines) = (Vec::new(), 0);
            for piece in stream.chunks(step) {
                lines += stamps.feed(piece, |stamp| found.push(stamp));
            }
            assert_eq!(found, (0..20).collect::<Vec<_>>(), "in pieces of {step}");
            assert_eq!((lines, stamps.events()), (20, 20));
        }
    }
}
