//! Work estimates: how many seats a request takes, and for how long.

use crate::Nanos;

/// Bytes of a list per seat.
const BYTES_PER_SEAT: u64 = 100_000;
/// A list is streamed and never held in memory as a whole: no list costs more than this.
const LIST_BYTES_AT_ONCE: u64 = 1_000_000;
/// The maximum seats of a list, and of a write; a level may allow less.
pub const MOST_LIST_SEATS: u32 = 100;
pub const MOST_WRITE_SEATS: u32 = 10;
/// Watches that one seat notifies of a change, in that time.
const WATCHES_PER_SEAT: usize = 10;
// Differs from kube-apiserver (5 ms): notifying a watch costs about 5 us of CPU here, a hundredth of upstream's estimate.
const EVENT_NANOS: Nanos = 50_000;

/// The estimated cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// Seats while it is executed.
    pub initial_seats: u32,
    /// Seats afterwards, while its watch events are delivered, for `additional_nanos`.
    pub final_seats: u32,
    pub additional_nanos: Nanos,
    /// Its body, and the memory it holds until the response.
    // Differs from kube-apiserver, which only counts seats: 200 bodies of 3 MB are more than 200 of 1 KB.
    pub bytes: u64,
}

impl WorkEstimate {
    /// The cost of most requests.
    pub const ONE: WorkEstimate =
        WorkEstimate { initial_seats: 1, final_seats: 0, additional_nanos: 0, bytes: 0 };

    pub fn max_seats(&self) -> u32 {
        self.initial_seats.max(self.final_seats)
    }
}

/// What is known of a list before it is executed.
#[derive(Clone, Copy, Debug)]
pub struct ListSize {
    pub objects: u64,
    pub bytes: u64,
    /// The `limit` of the request.
    pub limit: u64,
    /// Selects one name.
    pub single: bool,
}

/// A list, or a watch that starts with one.
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

/// A write of that many bytes that notifies so many watches.
pub fn write(bytes: u64, watches: usize, max_seats: u32) -> WorkEstimate {
    let mut estimate = WorkEstimate { bytes, ..WorkEstimate::ONE };
    if watches >= WATCHES_PER_SEAT {
        let seats = watches.div_ceil(WATCHES_PER_SEAT) as u64;
        let most = max_seats.clamp(1, MOST_WRITE_SEATS);
        // The same work with fewer seats for a longer time.
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
    fn writes_keep_seats_while_many_watches_are_notified() {
        assert_eq!(write(7, 9, 10), WorkEstimate { bytes: 7, ..WorkEstimate::ONE });
        let told = write(0, 10_000, 10);
        assert_eq!((told.initial_seats, told.final_seats, told.additional_nanos), (1, 10, 5_000_000));
        assert_eq!(told.max_seats(), 10);
    }
}
