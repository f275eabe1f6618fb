//! Inputs with repetitions: twice the length must cost about twice as much.
//!
//! Memory is compared exactly. Time is the CPU time of the thread, and only a ratio far from linear counts, and only if there
//! is enough of it to measure: eight times the input may cost 24 times as much; a quadratic parser takes 64 times.

use crate::measure;

/// `before`, `unit` many times, `after`. In the unit `{i}` is the number of the repetition.
#[derive(Clone, Copy, Debug)]
pub struct Growth<'a> {
    pub before: &'a str,
    pub unit: &'a str,
    pub after: &'a str,
    pub most: usize,
}

const FACTOR: usize = 8;
const TIME_FACTOR: u64 = 24;
const ENOUGH_NANOS: u64 = 60_000_000;
const ATTEMPTS: usize = 5;

impl<'a> Growth<'a> {
    /// Up to about `most` repetitions.
    pub const fn new(before: &'a str, unit: &'a str, after: &'a str, most: usize) -> Growth<'a> {
        Growth { before, unit, after, most }
    }

    pub fn input(&self, times: usize) -> Vec<u8> {
        let mut out = self.before.to_owned();
        for i in 0..times {
            out.push_str(&self.unit.replace("{i}", &i.to_string()));
        }
        // Closing brackets are repeated as often.
        match self.after.strip_prefix('*') {
            Some(unit) => out.push_str(&unit.repeat(times)),
            None => out.push_str(self.after),
        }
        out.into_bytes()
    }

    #[track_caller]
    pub(crate) fn check(&self, name: &str, call: &mut dyn FnMut(&[u8])) {
        let (small, large) = (self.input(self.most / FACTOR), self.input(self.most));
        // Warm-up: lazy statics are initialised.
        call(&small);
        let (few, few_nanos) = cost(&small, call);
        let (many, many_nanos) = cost(&large, call);
        let shown = format!("{:?} × {} in {:?}", self.unit, self.most, name);
        assert!(
            many <= few * FACTOR * 2 + (64 << 10),
            "{shown}: {few} bytes allocated for an input of {}, {many} for one of {}",
            small.len(),
            large.len()
        );
        let is_linear = |few: u64, many: u64| many < ENOUGH_NANOS || many <= few.max(1_000_000) * TIME_FACTOR;
        // The speed of a machine changes from moment to moment; what is quadratic is so every time.
        let mut measured = (few_nanos, many_nanos);
        for _ in 1..ATTEMPTS {
            if is_linear(measured.0, measured.1) {
                break;
            }
            measured = (cost(&small, call).1, cost(&large, call).1);
        }
        let (few_nanos, many_nanos) = measured;
        assert!(
            is_linear(few_nanos, many_nanos),
            "{shown}: {few_nanos} ns for an input of {}, {many_nanos} ns for one of {}",
            small.len(),
            large.len()
        );
    }
}

/// Memory and CPU time of a call; of two calls the cheaper one.
fn cost(input: &[u8], call: &mut dyn FnMut(&[u8])) -> (usize, u64) {
    let mut one = || {
        let begun = processor_nanos();
        let ((), used) = measure(|| call(input));
        (used.allocated, processor_nanos().saturating_sub(begun))
    };
    one().min(one())
}

/// The CPU time of this thread; 0 if the kernel does not report it.
fn processor_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}
