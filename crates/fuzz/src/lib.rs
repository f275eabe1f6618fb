//! A small mutation fuzzer on stable Rust, for every parser of untrusted bytes.
//!
//! ```text
//! corpus/<target>/* and seeds ──> pick one ── 1 to 4 mutations ──> check ──┐
//!           ^                                                             │ a new outcome: kept as a parent
//!           └─────────────────────────────────────────────────────────────┘ a failure: shrunk, printed, the test fails
//! ```
//! A *target* is a function of bytes that panics if something is wrong and otherwise returns its outcome as text (the error
//! message, or "ok"). The code is not instrumented: new outcomes stand for new paths. Around each call the engine checks:
//! - a panic;
//! - the total of memory allocated, against a bound that is linear in the input: work, not time;
//! - memory still held after the call: a leak;
//! - how memory and time grow for inputs with repetitions ([`Fuzz::grows`]).
//!
//! `make test` runs a few hundred inputs a target, the same in every run. With `SETPOINT_LONG=1` each target runs for a minute
//! from a random seed. A failure prints
//! - the input as a byte string: save it as a file in `corpus/<target>/`, and every run starts with it;
//! - the seed: `SETPOINT_FUZZ_SEED=<seed>` repeats the run.
//!
//! If the process itself dies (stack overflow, abort), `SETPOINT_FUZZ_TRACE=<file>` writes each input to a file before it runs.

mod alloc;
mod growth;
mod mutate;
mod shrink;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use alloc::{Usage, measure};
pub use growth::Growth;
pub use mutate::Rng;

/// Inputs a target gets in `make test`.
const USUAL_INPUTS: usize = 400;
/// How long a target runs with `SETPOINT_LONG=1`, unless `SETPOINT_FUZZ_SECONDS` is set.
const LONG_SECONDS: u64 = 60;
/// Parents kept in memory: enough for variety.
const MAX_PARENTS: usize = 1000;

/// The memory a call may allocate in total: `base`, and `per_byte` for each byte of the input.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub base: usize,
    pub per_byte: usize,
}

impl Bound {
    fn of(self, length: usize) -> usize {
        self.base + self.per_byte * length
    }
}

/// A target and the material for its inputs.
pub struct Fuzz<'a> {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    tokens: &'a [&'a str],
    max_len: usize,
    inputs: usize,
    bound: Option<Bound>,
    holds: bool,
    growth: &'a [Growth<'a>],
}

impl<'a> Fuzz<'a> {
    pub fn new(name: &'static str) -> Fuzz<'a> {
        Fuzz {
            name,
            seeds: Vec::new(),
            tokens: &[],
            max_len: 4096,
            inputs: USUAL_INPUTS,
            bound: None,
            holds: false,
            growth: &[],
        }
    }

    /// Initial inputs, in addition to the corpus.
    pub fn seeds<S: AsRef<[u8]>>(mut self, seeds: impl IntoIterator<Item = S>) -> Fuzz<'a> {
        self.seeds.extend(seeds.into_iter().map(|seed| seed.as_ref().to_vec()));
        self
    }

    /// Tokens of the format that random mutations would not find.
    pub fn tokens(mut self, tokens: &'a [&'a str]) -> Fuzz<'a> {
        self.tokens = tokens;
        self
    }

    pub fn max_len(mut self, bytes: usize) -> Fuzz<'a> {
        self.max_len = bytes;
        self
    }

    /// The number of inputs, for a slow or fast target; 0 if only growth is checked.
    pub fn inputs(mut self, count: usize) -> Fuzz<'a> {
        self.inputs = count;
        self
    }

    pub fn allocates(mut self, base: usize, per_byte: usize) -> Fuzz<'a> {
        self.bound = Some(Bound { base, per_byte });
        self
    }

    /// The target keeps state between calls, so memory may be held after one.
    pub fn holds_state(mut self) -> Fuzz<'a> {
        self.holds = true;
        self
    }

    /// Inputs of these forms cost in proportion to their length.
    pub fn grows(mut self, families: &'a [Growth<'a>]) -> Fuzz<'a> {
        self.growth = families;
        self
    }

    /// Runs it. `check` panics if something is wrong, and otherwise returns the outcome as text.
    #[track_caller]
    pub fn run<O: AsRef<str>>(self, mut check: impl FnMut(&[u8]) -> O) {
        let mut check = |input: &[u8]| outcome(check(input).as_ref());
        self.run_outcomes(&mut check);
    }

    #[track_caller]
    fn run_outcomes(&self, check: &mut dyn FnMut(&[u8]) -> u64) {
        let long = std::env::var_os("SETPOINT_LONG").is_some();
        let seed = seed(long);
        let limit = Duration::from_secs(number("SETPOINT_FUZZ_SECONDS").unwrap_or(LONG_SECONDS));
        println!("fuzz {}: seed {seed}", self.name);
        for family in self.growth {
            family.check(self.name, &mut |input| {
                check(input);
            });
        }
        let mut parents = corpus(self.name);
        parents.extend(self.seeds.iter().cloned());
        let mut seen = BTreeSet::new();
        for input in &parents {
            seen.insert(self.attempt(input, seed, check));
        }
        if parents.is_empty() {
            parents.push(Vec::new());
        }
        let mut rng = Rng::new(seed);
        let begun = now();
        let mut tried = 0;
        while self.inputs > 0 && if long { begun.elapsed() < limit } else { tried < self.inputs } {
            tried += 1;
            let input = mutate::child(&mut rng, &parents, self.tokens, self.max_len);
            let outcome = self.attempt(&input, seed, check);
            if seen.insert(outcome) && parents.len() < MAX_PARENTS {
                parents.push(input);
            }
        }
        println!("fuzz {}: {tried} inputs, {} outcomes", self.name, seen.len());
    }

    /// Runs one input; a failure is shrunk and reported.
    #[track_caller]
    fn attempt(&self, input: &[u8], seed: u64, check: &mut dyn FnMut(&[u8]) -> u64) -> u64 {
        trace(input);
        match self.judge(input, check) {
            Ok(outcome) => outcome,
            Err(first) => {
                let small = shrink::shrink(input, &mut |candidate| self.judge(candidate, check).is_err());
                let why = self.judge(&small, check).err().unwrap_or(first);
                panic!(
                    "fuzz target {:?} fails: {why}\n  input: b\"{}\"\n  keep:  printf '{}' > {}/found\n  again: SETPOINT_FUZZ_SEED={seed} cargo test {}",
                    self.name,
                    small.escape_ascii(),
                    octal(&small),
                    corpus_dir(self.name).display(),
                    self.name,
                );
            }
        }
    }

    fn judge(&self, input: &[u8], check: &mut dyn FnMut(&[u8]) -> u64) -> Result<u64, String> {
        let (caught, used) = measure(|| quietly(|| catch_unwind(AssertUnwindSafe(|| check(input)))));
        let outcome = caught.map_err(|panic| format!("panicked: {}", words(&*panic)))?;
        let bound = self.bound.map_or(usize::MAX, |bound| bound.of(input.len()));
        if used.allocated > bound {
            return Err(format!(
                "{} bytes allocated for an input of {}, bound {bound}",
                used.allocated,
                input.len()
            ));
        }
        // The first call may fill caches; only memory that every call adds is a leak.
        let leaks = |used: Usage| !self.holds && used.held > 0;
        if leaks(used) && (0..3).all(|_| leaks(measure(|| check(input)).1)) {
            return Err(format!("{} bytes are still held after the call", used.held));
        }
        Ok(outcome)
    }
}

/// Outcomes are equal if their words are: numbers and quoted input are ignored.
fn outcome(words: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let letters = words.bytes().filter(|b| b.is_ascii_alphabetic());
    letters.take(48).for_each(|letter| letter.hash(&mut hasher));
    hasher.finish()
}

#[allow(clippy::disallowed_methods, reason = "a fuzzer runs on the machine's clock")]
fn now() -> Instant {
    Instant::now()
}

fn seed(long: bool) -> u64 {
    #[allow(clippy::disallowed_methods, reason = "long runs are not to repeat one another")]
    let fresh = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |since| since.as_secs())
    };
    number("SETPOINT_FUZZ_SEED").unwrap_or_else(|| if long { fresh() } else { 1 })
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn corpus_dir(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The kept inputs, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let Ok(folder) = std::fs::read_dir(corpus_dir(target)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.iter().filter_map(|file| std::fs::read(file).ok()).collect()
}

fn trace(input: &[u8]) {
    if let Some(file) = std::env::var_os("SETPOINT_FUZZ_TRACE") {
        let _ = std::fs::write(file, input);
    }
}

fn octal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no words)").to_owned()
}

thread_local! {
    /// Panics of this thread are expected, and reported by the engine.
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Shrinking panics hundreds of times; one report is enough.
fn quietly<R>(work: impl FnOnce() -> R) -> R {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let result = work();
    QUIET.set(false);
    result
}

#[cfg(test)]
mod tests;
