//! Retry-After for rejected requests. Doubles while many are rejected, shrinks by one when few are.

use std::collections::VecDeque;

const MOST_SECONDS: u64 = 32;

/// Of one priority level.
#[derive(Debug)]
pub struct RetryAfter {
    seconds: u64,
    raised_at: u64,
    /// The current second, and the rejections in it.
    current: (u64, u64),
    /// The preceding seconds that count.
    past: VecDeque<(u64, u64)>,
}

impl Default for RetryAfter {
    fn default() -> Self {
        RetryAfter { seconds: 1, raised_at: 0, current: (0, 0), past: VecDeque::new() }
    }
}

impl RetryAfter {
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Counts a rejection at that second of a monotonic clock.
    pub fn refused(&mut self, second: u64) {
        if self.current.0 == second {
            self.current.1 += 1;
            return;
        }
        let ended = std::mem::replace(&mut self.current, (second, 1));
        self.past.push_back(ended);
        let kept = (2 * self.seconds).min(MOST_SECONDS);
        while self.past.front().is_some_and(|(at, _)| ended.0.saturating_sub(*at) > kept) {
            self.past.pop_front();
        }
        let recent = self.past.iter().filter(|(at, _)| *at < second && second - at <= self.seconds);
        let refused: u64 = recent.map(|(_, count)| count).sum();
        if second.saturating_sub(self.raised_at) >= self.seconds && refused >= 3 * self.seconds {
            self.seconds = (2 * self.seconds).min(MOST_SECONDS);
            self.raised_at = second;
        } else if refused < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_under_a_flood_and_shrinks_by_one_afterwards() {
        let mut retry = RetryAfter::default();
        let flood = |retry: &mut RetryAfter, second| (0..50).for_each(|_| retry.refused(second));
        flood(&mut retry, 100);
        assert_eq!(retry.seconds(), 1);
        flood(&mut retry, 101);
        assert_eq!(retry.seconds(), 2);
        flood(&mut retry, 102);
        assert_eq!(retry.seconds(), 2, "not twice within the time it told");
        (103..300).for_each(|second| flood(&mut retry, second));
        assert_eq!(retry.seconds(), MOST_SECONDS);
        retry.refused(400);
        retry.refused(500);
        assert_eq!(retry.seconds(), MOST_SECONDS - 2);
        assert!(retry.past.len() <= MOST_SECONDS as usize + 1);
    }
}
