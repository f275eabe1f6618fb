//! Choices that look like chance and are always the same.

use crate::case::Fnv;

pub struct Chance(u64);

impl Chance {
    pub fn of(seed: &str) -> Chance {
        Chance(Fnv::of(seed).number() | 1)
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % limit.max(1) as u64) as usize
    }

    pub fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.get(self.below(of.len())).copied().unwrap_or_default()
    }

    /// `percent` times out of a hundred.
    pub fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}
