//! Mutations: a new input from existing ones.

/// SplitMix64: small, and the same everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`; 0 where there is nothing below.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    fn range(&mut self, length: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let end = (start + 1 + self.below(most)).min(length);
        start..end.max(start)
    }
}

/// What breaks parsers in any format: boundary values, and bytes with a special meaning.
const ANYWHERE: &[&str] = &[
    "\0",
    "\u{7f}",
    "\u{feff}",
    "\u{2028}",
    "\u{fffd}",
    "é",
    "🦀",
    "-1",
    "0",
    "1e999",
    "-0",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
    " ",
    "\t",
    "\r\n",
    "/",
    "..",
    "%00",
    "\\",
    "\"",
];

pub fn child(rng: &mut Rng, parents: &[Vec<u8>], tokens: &[&str], max_len: usize) -> Vec<u8> {
    let mut input = parents[rng.below(parents.len())].clone();
    for _ in 0..=rng.below(4) {
        step(rng, &mut input, parents, tokens);
    }
    input.truncate(max_len);
    input
}

fn step(rng: &mut Rng, input: &mut Vec<u8>, parents: &[Vec<u8>], tokens: &[&str]) {
    let length = input.len();
    match rng.below(11) {
        0 if length > 0 => {
            let at = rng.below(length);
            input[at] ^= 1 << rng.below(8);
        }
        1 if length > 0 => {
            let at = rng.below(length);
            input[at] = [0, 0xff, 0x7f, 0x80, b'0', b'}', b'\n', rng.next() as u8][rng.below(8)];
        }
        2 => {
            let gone = rng.range(length, 16);
            input.drain(gone);
        }
        3 => input.truncate(rng.below(length + 1)),
        // Repeats a piece of the input.
        4 => {
            let piece = input[rng.range(length, 32)].to_vec();
            let (at, times) = (rng.below(length + 1), 1 + rng.below(4) * rng.below(30));
            insert(input, at, &piece.repeat(times));
        }
        // Inserts a piece of another input.
        5 | 6 => {
            let other = &parents[rng.below(parents.len())];
            let piece = other[rng.range(other.len(), 64)].to_vec();
            replace_or_insert(rng, input, &piece);
        }
        7 | 8 if !tokens.is_empty() => {
            let token = tokens[rng.below(tokens.len())].as_bytes().to_vec();
            replace_or_insert(rng, input, &token);
        }
        9 => {
            let token = ANYWHERE[rng.below(ANYWHERE.len())].as_bytes().to_vec();
            replace_or_insert(rng, input, &token);
        }
        _ => {
            let piece: Vec<u8> = (0..=rng.below(8)).map(|_| rng.next() as u8).collect();
            replace_or_insert(rng, input, &piece);
        }
    }
}

fn replace_or_insert(rng: &mut Rng, input: &mut Vec<u8>, piece: &[u8]) {
    let range = rng.range(input.len(), 16);
    if rng.below(2) == 0 {
        input.splice(range, piece.iter().copied());
    } else {
        insert(input, range.start, piece);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}
