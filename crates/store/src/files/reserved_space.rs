//! Disk space reserved for deletions, so that objects can still be deleted when the disk is full: the file `RESERVE`, whose
//! content means nothing.
//!
//! While it exists, every write is accepted. On a full disk it is released for removals and for the snapshot that frees
//! their space; other writes are accepted again once it could be reserved anew.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::directory;
use super::error::{is_no_space, is_transient};

/// A quarter of the store's size, within these bounds: enough for hundreds of deletions, and little compared to the store.
const BYTES: RangeInclusive<u64> = (256 << 10)..=(4 << 20);
/// The unit of writing; not zeros, which some file systems do not store.
static CHUNK: [u8; 64 << 10] = [0x5e; 64 << 10];

pub(super) struct ReservedSpace {
    path: PathBuf,
    state: State,
    /// Size of the file.
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not looked at yet.
    Unknown,
    Reserved,
    Released,
    /// It cannot be reserved here, for a reason other than a full disk.
    Unavailable,
}

impl ReservedSpace {
    pub(super) fn new(dir: &Path) -> ReservedSpace {
        ReservedSpace { path: dir.join(directory::RESERVE_FILE), state: State::Unknown, bytes: 0 }
    }

    /// True if `reserve` has nothing to do: the file exists, and is not much too small for the store.
    pub(super) fn is_settled(&self, store_bytes: u64) -> bool {
        match self.state {
            State::Reserved => wanted(store_bytes) < 2 * self.bytes,
            State::Unavailable => true,
            State::Unknown | State::Released => false,
        }
    }

    /// Reserves space unless that is done already. Fails only if the disk is full.
    pub(super) fn reserve(&mut self, store_bytes: u64) -> io::Result<()> {
        if self.is_settled(store_bytes) {
            return Ok(());
        }
        if self.state == State::Unknown {
            self.bytes = std::fs::metadata(&self.path).map_or(0, |found| found.len());
        }
        let wanted = wanted(store_bytes);
        // One that is smaller than wanted is better than none.
        let usable = self.state != State::Released && self.bytes >= *BYTES.start();
        let reserved = if usable && self.bytes >= wanted { Ok(()) } else { self.write(wanted) };
        match reserved {
            Ok(()) => (self.state, self.bytes) = (State::Reserved, self.bytes.max(wanted)),
            Err(error) if usable => {
                tracing::debug!(path = %self.path.display(), %error, "could not reserve more disk space");
                // No retry before the store has doubled.
                (self.state, self.bytes) = (State::Reserved, wanted);
            }
            Err(error) if is_no_space(&error) => {
                self.state = State::Released;
                return Err(error);
            }
            // Retried with the next batch.
            Err(error) if is_transient(&error) => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot reserve disk space for deletions on a full disk");
                self.state = State::Unavailable;
            }
        }
        Ok(())
    }

    fn write(&self, bytes: u64) -> io::Result<()> {
        let mut new = directory::beside(&self.path)?;
        let mut left = bytes as usize;
        while left > 0 {
            let chunk = &CHUNK[..left.min(CHUNK.len())];
            new.file().write_all(chunk)?;
            left -= chunk.len();
        }
        new.replace()
    }

    /// Frees the space; `false` if none was reserved.
    pub(super) fn release(&mut self) -> bool {
        if self.state == State::Unavailable {
            return false;
        }
        self.state = State::Released;
        std::fs::remove_file(&self.path).is_ok()
    }
}

fn wanted(store_bytes: u64) -> u64 {
    (store_bytes / 4).clamp(*BYTES.start(), *BYTES.end())
}
