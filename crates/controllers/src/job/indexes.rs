//! Sets of completion indexes as the API writes them: `0,2-5,7`.

use std::collections::BTreeMap;
use std::fmt;

/// Ranges, both ends included, in order, with a gap between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes {
    ranges: Vec<(u32, u32)>,
}

impl Indexes {
    /// Reads a text; indexes from `completions` on are cut off, and what is no range is passed over.
    pub fn parse(text: &str, completions: i64) -> Indexes {
        let end = u32::try_from(completions.max(0)).unwrap_or(u32::MAX);
        let mut all = Indexes::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { continue };
            if first >= end {
                break;
            }
            let last = last.min(end - 1);
            if last < first {
                continue;
            }
            match all.ranges.last_mut() {
                Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
                _ => all.ranges.push((first, last)),
            }
        }
        all
    }

    /// Indexes in increasing order.
    pub fn of(ordered: impl IntoIterator<Item = u32>) -> Indexes {
        Indexes::default().merge(&Indexes { ranges: ordered.into_iter().map(|i| (i, i)).collect() })
    }

    pub fn merge(&self, other: &Indexes) -> Indexes {
        let mut all: Vec<(u32, u32)> = self.ranges.iter().chain(&other.ranges).copied().collect();
        // Two runs in order: linear for this sort.
        all.sort();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Indexes { ranges: merged }
    }

    pub fn count(&self) -> i64 {
        self.ranges.iter().map(|(first, last)| i64::from(*last) - i64::from(*first) + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn contains(&self, index: u32) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < index);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// How many indexes are in both.
    pub fn overlap(&self, other: &Indexes) -> i64 {
        let (mut here, mut there, mut common) = (0, 0, 0);
        while let (Some(a), Some(b)) = (self.ranges.get(here), other.ranges.get(there)) {
            common += (i64::from(a.1.min(b.1)) - i64::from(a.0.max(b.0)) + 1).max(0);
            let (step_here, step_there) = (a.1 <= b.1, b.1 <= a.1);
            here += usize::from(step_here);
            there += usize::from(step_there);
        }
        common
    }

    /// The first `count` indexes below `completions` that are not in here.
    pub fn first_missing(&self, count: usize, completions: i64) -> Vec<u32> {
        let end = u32::try_from(completions.max(0)).unwrap_or(u32::MAX);
        let mut missing = Vec::new();
        let mut next = 0;
        for &(first, last) in &self.ranges {
            missing.extend((next..first.min(end)).take(count - missing.len()));
            next = last.saturating_add(1).max(next);
        }
        missing.extend((next..end.max(next)).take(count - missing.len()));
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                // Two neighbours are no range.
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// How many pods every index has, as they come and go; neighbours are one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// The last of each range by its first, with a gap between any two.
    ranges: BTreeMap<u32, u32>,
    /// How many an index has beyond the first.
    more: BTreeMap<u32, u32>,
}

impl IndexCounts {
    fn range_of(&self, index: u32) -> Option<(u32, u32)> {
        let (first, last) = self.ranges.range(..=index).next_back()?;
        (index <= *last).then_some((*first, *last))
    }

    pub fn contains(&self, index: u32) -> bool {
        self.range_of(index).is_some()
    }

    pub fn add(&mut self, index: u32) {
        if self.contains(index) {
            *self.more.entry(index).or_default() += 1;
            return;
        }
        let before = self.ranges.range(..index).next_back().filter(|(_, last)| **last + 1 == index);
        let first = before.map_or(index, |(first, _)| *first);
        let after = index.checked_add(1).and_then(|next| self.ranges.remove(&next));
        self.ranges.insert(first, after.unwrap_or(index));
    }

    pub fn remove(&mut self, index: u32) {
        if let Some(more) = self.more.get_mut(&index) {
            *more -= 1;
            if *more == 0 {
                self.more.remove(&index);
            }
            return;
        }
        let Some((first, last)) = self.range_of(index) else { return };
        self.ranges.remove(&first);
        if first < index {
            self.ranges.insert(first, index - 1);
        }
        if index < last {
            self.ranges.insert(index + 1, last);
        }
    }

    pub fn merge(&mut self, other: &IndexCounts) {
        if self.ranges.is_empty() {
            self.clone_from(other);
            return;
        }
        for (first, last) in &other.ranges {
            (*first..=*last).for_each(|index| self.add(index));
        }
        for (index, more) in &other.more {
            *self.more.entry(*index).or_default() += more;
        }
    }

    /// Has each index at most one pod, and is it one below `end`?
    pub fn is_proper(&self, end: i64) -> bool {
        let last = self.ranges.last_key_value().map(|(_, last)| i64::from(*last));
        self.more.is_empty() && last.is_none_or(|last| last < end)
    }

    pub fn indexes(&self) -> Indexes {
        Indexes { ranges: self.ranges.iter().map(|(first, last)| (*first, *last)).collect() }
    }
}
