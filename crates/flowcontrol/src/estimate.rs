//! How many seats a request takes, and for how long.

use crate::Nanos;

/// A seat is worth so many bytes of a list.
const BYTES_PER_SEAT: u64 = 100_000;
/// A list is sent while it is made, and never held as a whole: no list costs more than this.
const LIST_BYTES_AT_ONCE: u64 = 1_000_000;
/// The most seats of a list, and of a write; a level may allow less.
pub const MOST_LIST_SEATS: u32 = 100;
pub const MOST_WRITE_SEATS: u32 = 10;
/// So many watches are told of a change by one seat, in that time.
const WATCHES_PER_SEAT: usize = 10;
// Differs from kube-apiserver (5 ms): to tell a watch of a change costs us some 5 us of CPU, a hundredth of what upstream reckons with.
const EVENT_NANOS: Nanos = 50_000;

/// What a request is thought to cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// While it is executed.
    pub initial_seats: u32,
    /// Afterwards, while its consequences are dealt with, for `additional_nanos`.
    pub final_seats: u32,
    pub additional_nanos: Nanos,
    /// Its body, and what it keeps in memory until it is answered.
    // Differs from kube-apiserver, which counts seats only: 200 bodies of 3 MB are more than 200 of 1 KB.
    pub bytes: u64,
}

impl WorkEstimate {
    /// What most requests cost.
    pub const ONE: WorkEstimate =
        WorkEstimate { initial_seats: 1, final_seats: 0, additional_nanos: 0, bytes: 0 };

    pub fn max_seats(&self) -> u32 {
        self.initial_seats.max(self.final_seats)
    }
}

/// What is known of a list before it is made.
#[derive(Clone, Copy, Debug)]
pub struct ListSize {
    pub objects: u64,
    pub bytes: u64,
    /// As the client asks.
    pub limit: u64,
    /// Of one name.
    pub single: bool,
}

/// A list, or a watch that begins with one.
pub fn list(size: &ListSize, max_seats: u32) -> WorkEstimate {
    let shown = match size.limit {
        _ if size.single => 1,
        0 => size.objects,
        limit => limit.min(size.objects),
    };
    let each = size.bytes.checked_div(size.objects).unwrap_or(0);
    let at_once = shown.saturating_mul(each).min(LIST_BYTES_AT_ONCE);
    let seats = at_once.div_ceil(BYTES_PER_SEAT) as u32;
    let most = max_seats.clamp(1, MOST_LIST_SEATS);
    WorkEstimate { initial_seats: seats.clamp(1, most), ..WorkEstimate::ONE }
}

/// A write of that many bytes, of which so many watches are to be told.
pub fn write(bytes: u64, watches: usize, max_seats: u32) -> WorkEstimate {
    let mut estimate = WorkEstimate { bytes, ..WorkEstimate::ONE };
    if watches >= WATCHES_PER_SEAT {
        let seats = watches.div_ceil(WATCHES_PER_SEAT) as u64;
        let most = max_seats.clamp(1, MOST_WRITE_SEATS);
        // The same work, narrower and longer.
        estimate.final_seats = seats.min(u64::from(most)) as u32;
        estimate.additional_nanos = seats * EVENT_NANOS / u64::from(estimate.final_seats);
    }
    estimate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_cost_by_what_they_hold_at_once() {
        let size = ListSize { objects: 1000, bytes: 1_000_000, limit: 0, single: false };
        assert_eq!(list(&size, 10).initial_seats, 10);
        assert_eq!(list(&size, 4).initial_seats, 4);
        assert_eq!(list(&ListSize { limit: 250, ..size }, 10).initial_seats, 3);
        assert_eq!(list(&ListSize { single: true, ..size }, 10).initial_seats, 1);
        assert_eq!(list(&ListSize { objects: 0, bytes: 0, ..size }, 10).initial_seats, 1);
        assert_eq!(list(&ListSize { bytes: 1 << 40, ..size }, 100).initial_seats, 10);
    }

    #[test]
    fn writes_keep_seats_while_many_watches_are_told() {
        assert_eq!(write(7, 9, 10), WorkEstimate { bytes: 7, ..WorkEstimate::ONE });
        let told = write(0, 10_000, 10);
        assert_eq!((told.initial_seats, told.final_seats, told.additional_nanos), (1, 10, 5_000_000));
        assert_eq!(told.max_seats(), 10);
    }
}
