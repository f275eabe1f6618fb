//! Whether there is room for a batch, and when what failed for want of something is tried again.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits a little longer each time, up to a bound.
pub(super) struct Backoff {
    delay: Duration,
    until: Option<Instant>,
}

const SHORTEST: Duration = Duration::from_millis(100);
/// A few seconds after somebody made room, writing resumes.
const LONGEST: Duration = Duration::from_secs(5);

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { delay: SHORTEST, until: None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= now())
    }

    pub(super) fn failed(&mut self) {
        self.until = Some(now() + self.delay);
        self.delay = (self.delay * 2).min(LONGEST);
    }

    pub(super) fn succeeded(&mut self) {
        // Asked after each batch, and nearly always there was no failure.
        if self.until.is_some() {
            *self = Backoff::new();
        }
    }
}

// The durable layer has no world's clock: a virtual world has no disk that is full.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

/// In one line: what is wrong, what goes on, and how to mend it.
pub(super) fn explain(dir: &Path, error: &io::Error) -> String {
    let dir = dir.display();
    let goes_on = "reads and watches go on";
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            format!(
                "{dir} is on a file system that became read-only: check the disk and remount it writable; {goes_on}"
            )
        }
        io::ErrorKind::QuotaExceeded => format!(
            "the disk quota for {dir} is used up: raise it, free some space or delete objects, and writing resumes by itself; {goes_on}"
        ),
        _ => format!(
            "the disk that holds {dir} is full: free some space or delete objects, and writing resumes by itself; {goes_on}"
        ),
    }
}
