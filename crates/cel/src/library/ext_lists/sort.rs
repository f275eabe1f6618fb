//! The order Go's `sort.Slice` puts keys into.
//!
//! It is not stable, so which of several equal keys comes first depends on every decision of the algorithm, and expressions
//! can see it: `sortBy` returns elements that differ. The algorithm is pattern-defeating quicksort.
//!
//! ```text
//! 12 or fewer ──> insertion sort
//! more ──> pivot: median of three, of nine from 50 on
//!            │ looks sorted ──> a few insertions, done if that is all it took
//!            │ equal to the pivot before ──> equal ones to the left, go on with the rest
//!            └ partition ──> the shorter side by recursion, go on with the longer one;
//!                            after an unbalanced one some elements are scattered, after many it is heapsort
//! ```

use std::cmp::Ordering;

use crate::library::lists::order;
use crate::value::Val;

const INSERTION: usize = 12;
/// From here on a pivot is the median of medians, and elements out of place are moved.
const LONG: usize = 50;
/// A pivot that took so many swaps comes from a descending range.
const DESCENDING: u32 = 12;

/// The positions of the keys, sorted.
pub(super) fn order_of(keys: &[Val<'_>]) -> Vec<usize> {
    let mut sorter = Sorter { keys, at: (0..keys.len()).collect() };
    sorter.quick(0, keys.len(), usize::BITS - keys.len().leading_zeros());
    sorter.at
}

struct Sorter<'k, 'a> {
    keys: &'k [Val<'a>],
    at: Vec<usize>,
}

impl Sorter<'_, '_> {
    /// NaN is not less than anything, and nothing is less than NaN.
    fn less(&self, i: usize, j: usize) -> bool {
        order(&self.keys[self.at[i]], &self.keys[self.at[j]]) == Some(Ordering::Less)
    }

    fn quick(&mut self, mut start: usize, mut end: usize, mut bad_pivots: u32) {
        let mut balanced = true;
        let mut partitioned = true;
        loop {
            let length = end - start;
            if length <= INSERTION {
                return self.insertion(start, end);
            }
            if bad_pivots == 0 {
                return self.heap(start, end);
            }
            if !balanced {
                self.scatter(start, end);
                bad_pivots -= 1;
            }
            let (mut pivot, swaps) = self.pivot(start, end);
            if swaps == DESCENDING {
                self.at[start..end].reverse();
                pivot = end - 1 - (pivot - start);
            }
            let ascending = swaps == 0 || swaps == DESCENDING;
            if balanced && partitioned && ascending && self.nearly_sorted(start, end) {
                return;
            }
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let (middle, untouched) = self.partition(start, end, pivot);
            partitioned = untouched;
            let (left, right) = (middle - start, end - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.quick(start, middle, bad_pivots);
                start = middle + 1;
            } else {
                self.quick(middle + 1, end, bad_pivots);
                end = middle;
            }
        }
    }

    fn insertion(&mut self, start: usize, end: usize) {
        for i in start + 1..end {
            self.sink(i, start);
        }
    }

    /// Moves an element down while it is less than the one before.
    fn sink(&mut self, from: usize, lowest: usize) {
        let mut i = from;
        while i > lowest && self.less(i, i - 1) {
            self.at.swap(i, i - 1);
            i -= 1;
        }
    }

    /// Puts a few elements into their places; whether all are then.
    fn nearly_sorted(&mut self, start: usize, end: usize) -> bool {
        let mut i = start + 1;
        for _ in 0..5 {
            while i < end && !self.less(i, i - 1) {
                i += 1;
            }
            if i == end {
                return true;
            }
            if end - start < LONG {
                return false;
            }
            self.at.swap(i, i - 1);
            if i - start >= 2 {
                // Not only down to the start of the range: what stands before is not greater.
                self.sink(i - 1, 0);
            }
            if end - i >= 2 {
                for j in i + 1..end {
                    if !self.less(j, j - 1) {
                        break;
                    }
                    self.at.swap(j, j - 1);
                }
            }
        }
        false
    }

    /// The pivot, and how many swaps finding it took.
    fn pivot(&self, start: usize, end: usize) -> (usize, u32) {
        let quarter = (end - start) / 4;
        let mut swaps = 0;
        let mut thirds = [1, 2, 3].map(|i| start + quarter * i);
        if end - start >= LONG {
            thirds = thirds.map(|i| self.median([i - 1, i, i + 1], &mut swaps));
        }
        (self.median(thirds, &mut swaps), swaps)
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], swaps: &mut u32) -> usize {
        let mut order = |low: &mut usize, high: &mut usize| {
            if self.less(*high, *low) {
                *swaps += 1;
                std::mem::swap(low, high);
            }
        };
        order(&mut a, &mut b);
        order(&mut b, &mut c);
        order(&mut a, &mut b);
        b
    }

    /// Puts what is less than the pivot before it and the rest behind it; where it is then, and whether nothing had to move.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.at.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        let mut untouched = true;
        loop {
            while low <= high && self.less(low, start) {
                low += 1;
            }
            while low <= high && !self.less(high, start) {
                high -= 1;
            }
            if low > high {
                break;
            }
            untouched = false;
            self.at.swap(low, high);
            low += 1;
            high -= 1;
        }
        self.at.swap(high, start);
        (high, untouched)
    }

    /// Puts what equals the pivot before what is greater; where the latter begins. Nothing is less.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.at.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        loop {
            while low <= high && !self.less(start, low) {
                low += 1;
            }
            while low <= high && self.less(start, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.at.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Moves three elements around the middle to places that look random, the same for every list of this length.
    fn scatter(&mut self, start: usize, end: usize) {
        let length = end - start;
        let mut random = length as u64;
        let mask = (1u64 << (usize::BITS - length.leading_zeros())) - 1;
        let middle = start + length / 4 * 2;
        for i in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut other = (random & mask) as usize;
            if other >= length {
                other -= length;
            }
            self.at.swap(i, start + other);
        }
    }

    fn heap(&mut self, start: usize, end: usize) {
        let length = end - start;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(start, root, length);
        }
        for last in (0..length).rev() {
            self.at.swap(start, start + last);
            self.sift_down(start, 0, last);
        }
    }

    fn sift_down(&mut self, start: usize, mut root: usize, length: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && self.less(start + child, start + child + 1) {
                child += 1;
            }
            if !self.less(start + root, start + child) {
                return;
            }
            self.at.swap(start + root, start + child);
            root = child;
        }
    }
}
