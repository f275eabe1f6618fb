use std::collections::BTreeMap;

use super::Tally;
use crate::testing::rng;

#[test]
fn a_list_and_a_column_count_alike() {
    for seed in 0..50 {
        let mut pick = rng(seed);
        let size = [10, 65, 5000][seed as usize % 3];
        let (mut tally, mut counts) = (Tally::new(size), BTreeMap::<u32, i64>::new());
        for _ in 0..200 {
            let at = pick(12 + seed) as u32;
            let count = counts.entry(at).or_default();
            let by = if pick(2) == 0 && *count > 0 { -1 } else { 1 + pick(3) as i64 };
            *count += by;
            assert_eq!(tally.add(at, by), *count, "seed {seed}");
            counts.retain(|_, count| *count != 0);
            let mut kept: Vec<(u32, i64)> = tally.iter().collect();
            kept.sort_unstable();
            assert_eq!(
                kept,
                counts.iter().map(|(at, count)| (*at, *count)).collect::<Vec<_>>(),
                "seed {seed}"
            );
            assert!((0..100).all(|at| tally.get(at) == counts.get(&at).copied().unwrap_or(0)), "seed {seed}");
        }
    }
}
