//! The seat demand of a level over time.

use crate::{Nanos, SECOND};

/// Half-life of the smoothed demand: five minutes of adjustments.
const SMOOTHING: f64 = 0.977;

/// Time-weighted average, deviation and peak of a changing number.
#[derive(Clone, Debug)]
pub struct Integrator {
    value: f64,
    since: Nanos,
    seconds: f64,
    integral: f64,
    of_squares: f64,
    peak: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    pub average: f64,
    pub deviation: f64,
    pub peak: f64,
    pub seconds: f64,
}

impl Integrator {
    pub fn new(now: Nanos) -> Integrator {
        Integrator { value: 0.0, since: now, seconds: 0.0, integral: 0.0, of_squares: 0.0, peak: 0.0 }
    }

    pub fn set(&mut self, value: f64, now: Nanos) {
        self.advance(now);
        self.value = value;
        self.peak = self.peak.max(value);
    }

    /// The statistics since the last call; starts a new period.
    pub fn take(&mut self, now: Nanos) -> Seen {
        self.advance(now);
        let mut seen = Seen { peak: self.peak, seconds: self.seconds, ..Seen::default() };
        if self.seconds > 0.0 {
            seen.average = self.integral / self.seconds;
            let variance = self.of_squares / self.seconds - seen.average * seen.average;
            seen.deviation = variance.max(0.0).sqrt();
        }
        *self = Integrator { value: self.value, peak: self.value, ..Integrator::new(now) };
        seen
    }

    fn advance(&mut self, now: Nanos) {
        let seconds = now.saturating_sub(self.since) as f64 / SECOND as f64;
        self.since = self.since.max(now);
        self.seconds += seconds;
        self.integral += self.value * seconds;
        self.of_squares += self.value * self.value * seconds;
    }
}

/// The demand that lending and borrowing is based on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    pub seen: Seen,
    /// Follows a rise at once and a fall slowly.
    pub smoothed: f64,
}

impl Demand {
    pub fn update(&mut self, seen: Seen) {
        if seen.seconds <= 0.0 {
            self.seen.peak = seen.peak;
            return;
        }
        let envelope = seen.average + seen.deviation;
        self.seen = seen;
        self.smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
    }

    pub fn peak(&self) -> u32 {
        self.seen.peak.round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_counts_by_time_and_the_peak_by_value() {
        let mut integrator = Integrator::new(0);
        integrator.set(10.0, SECOND);
        integrator.set(0.0, 2 * SECOND);
        let seen = integrator.take(4 * SECOND);
        assert_eq!((seen.average, seen.peak, seen.seconds), (2.5, 10.0, 4.0));
        assert!((seen.deviation - 18.75_f64.sqrt()).abs() < 1e-9);
        assert_eq!(integrator.take(5 * SECOND), Seen { seconds: 1.0, ..Seen::default() });
    }

    #[test]
    fn a_rise_is_followed_at_once_and_a_fall_slowly() {
        let mut demand = Demand::default();
        demand.update(Seen { average: 100.0, deviation: 0.0, peak: 120.0, seconds: 10.0 });
        assert_eq!((demand.smoothed, demand.peak()), (100.0, 120));
        demand.update(Seen { average: 0.0, deviation: 0.0, peak: 0.0, seconds: 10.0 });
        assert!((demand.smoothed - 97.7).abs() < 1e-9);
    }
}
