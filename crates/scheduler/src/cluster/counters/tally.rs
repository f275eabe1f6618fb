//! Counts by number, a list of those that are not zero while they are few: most of what is asked about is in few places.

#[derive(Debug)]
pub enum Tally {
    Few(Vec<(u32, u32)>),
    /// As long as it must be: behind its end all are zero.
    Many(Vec<u32>),
}

/// A longer list is slower to look through than a column to read from.
const FEW: usize = 8;
/// So short a column is never worth a list.
const SHORT: usize = 64;

impl Tally {
    /// All zero, for numbers below `size`.
    pub fn new(size: usize) -> Tally {
        if size <= SHORT { Tally::Many(vec![0; size]) } else { Tally::Few(Vec::new()) }
    }

    #[inline]
    pub fn get(&self, at: u32) -> i64 {
        i64::from(match self {
            Tally::Few(list) => list.iter().find(|(other, _)| *other == at).map_or(0, |(_, count)| *count),
            Tally::Many(counts) => counts.get(at as usize).copied().unwrap_or(0),
        })
    }

    /// The answer is the new count.
    pub fn add(&mut self, at: u32, by: i64) -> i64 {
        if let Tally::Few(list) = self
            && list.len() == FEW
            && list.iter().all(|(other, _)| *other != at)
        {
            let mut counts = Vec::new();
            list.iter().for_each(|(at, count)| *cell(&mut counts, *at) = *count);
            *self = Tally::Many(counts);
        }
        let change = |count: &mut u32| {
            let sum = (i64::from(*count) + by).clamp(0, i64::from(u32::MAX));
            *count = sum as u32;
            sum
        };
        match self {
            Tally::Many(counts) => change(cell(counts, at)),
            Tally::Few(list) => {
                let place = list.iter().position(|(other, _)| *other == at).unwrap_or_else(|| {
                    list.push((at, 0));
                    list.len() - 1
                });
                let sum = change(&mut list[place].1);
                if sum == 0 {
                    list.swap_remove(place);
                }
                sum
            }
        }
    }

    /// Those that are not zero.
    pub fn iter(&self) -> impl Iterator<Item = (u32, i64)> {
        let (few, many) = match self {
            Tally::Few(list) => (&list[..], &[][..]),
            Tally::Many(counts) => (&[][..], &counts[..]),
        };
        let few = few.iter().map(|(at, count)| (*at, i64::from(*count)));
        let many = many.iter().enumerate().map(|(at, count)| (at as u32, i64::from(*count)));
        few.chain(many.filter(|(_, count)| *count != 0))
    }
}

fn cell(counts: &mut Vec<u32>, at: u32) -> &mut u32 {
    if at as usize >= counts.len() {
        counts.resize(at as usize + 1, 0);
    }
    &mut counts[at as usize]
}

#[cfg(test)]
mod tests;
