//! The random stream of an [`Env`](crate::Env): the operating system's, or a seeded one.

use ring::rand::{SecureRandom, SystemRandom};

/// Drawn from the operating system at once: a uid takes 16 bytes, so one system call serves 64 of them.
const BLOCK: usize = 1024;

pub(crate) enum Rng {
    /// Unpredictable: a known uid does not help to guess another.
    Machine { system: SystemRandom, block: Box<[u8; BLOCK]>, used: usize },
    /// SplitMix64: small, fast, and the same everywhere. One number reveals all others, so a server that
    /// is reachable from outside never uses it.
    Seeded(u64),
}

impl Rng {
    #[allow(clippy::disallowed_methods, reason = "here the machine's world gets its randomness")]
    pub(crate) fn machine() -> Rng {
        Rng::Machine { system: SystemRandom::new(), block: Box::new([0; BLOCK]), used: BLOCK }
    }

    pub(crate) fn seeded(seed: u64) -> Rng {
        Rng::Seeded(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Rng::Machine { system, block, used } => {
                if *used == BLOCK {
                    // Predictable ids would be worse than a panic.
                    system.fill(&mut **block).expect("the kernel fills a buffer of ours at any time");
                    *used = 0;
                }
                let (words, _) = block[*used..].as_chunks::<8>();
                *used += 8;
                u64::from_le_bytes(words[0])
            }
            Rng::Seeded(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = *state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^ (z >> 31)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What SplitMix64 says after `number`: its last step can be undone.
    fn guess(number: u64) -> u64 {
        fn unshift(z: u64, by: u32) -> u64 {
            let mut x = z;
            for _ in 0..64 / by {
                x = z ^ (x >> by);
            }
            x
        }
        fn inverse(odd: u64) -> u64 {
            (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
        }
        let z = unshift(number, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
        let z = unshift(z, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
        Rng::Seeded(unshift(z, 30)).next()
    }

    #[test]
    fn machine_numbers_are_not_predictable() {
        let mut seeded = Rng::seeded(7);
        assert_eq!(guess(seeded.next()), seeded.next(), "the guess itself works");
        let mut machine = Rng::machine();
        assert_ne!(guess(machine.next()), machine.next());
    }

    #[test]
    fn blocks_of_the_machine_follow_one_another_without_repeating() {
        let mut machine = Rng::machine();
        let drawn: BTreeSet<u64> = (0..BLOCK).map(|_| machine.next()).collect();
        assert_eq!(drawn.len(), BLOCK);
    }

    #[test]
    fn a_seed_gives_stable_numbers() {
        let mut seeded = Rng::seeded(0);
        assert_eq!([seeded.next(), seeded.next()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }
}
