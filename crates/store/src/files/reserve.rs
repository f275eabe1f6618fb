//! Room kept back on the disk, so that objects can still be deleted when it is full: the file `RESERVE`, whose content means nothing.
//!
//! While it is there everything may be written. On a full disk it is given free for removals and for the snapshot
//! that makes room of them, and writing resumes when it could be kept back anew.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::directory;
use super::error::{is_no_room, passes};

/// A quarter of what the store takes, within these bounds: hundreds of deletions, and little beside the store itself.
const BYTES: RangeInclusive<u64> = (256 << 10)..=(4 << 20);
/// Written in pieces of this; not zeros, which some file systems do not store.
static PIECE: [u8; 64 << 10] = [0x5e; 64 << 10];

pub(super) struct Reserve {
    path: PathBuf,
    state: State,
    /// Of the file.
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody has looked yet.
    Unknown,
    Kept,
    Free,
    /// It cannot be kept here, for a reason other than a full disk: then there is none.
    Impossible,
}

impl Reserve {
    pub(super) fn new(dir: &Path) -> Reserve {
        Reserve { path: dir.join(directory::RESERVE_FILE), state: State::Unknown, bytes: 0 }
    }

    /// Nothing needs to be done for it: it is there, and not much too small for the store.
    pub(super) fn is_settled(&self, store_bytes: u64) -> bool {
        match self.state {
            State::Kept => wanted(store_bytes) < 2 * self.bytes,
            State::Impossible => true,
            State::Unknown | State::Free => false,
        }
    }

    /// Keeps room back, if that is not done already. An error says that there is none.
    pub(super) fn keep(&mut self, store_bytes: u64) -> io::Result<()> {
        if self.is_settled(store_bytes) {
            return Ok(());
        }
        if self.state == State::Unknown {
            self.bytes = std::fs::metadata(&self.path).map_or(0, |found| found.len());
        }
        let wanted = wanted(store_bytes);
        // A small one is there already, and is as good as nothing larger.
        let small = self.state != State::Free && self.bytes >= *BYTES.start();
        let kept = if small && self.bytes >= wanted { Ok(()) } else { self.write(wanted) };
        match kept {
            Ok(()) => (self.state, self.bytes) = (State::Kept, self.bytes.max(wanted)),
            Err(error) if small => {
                tracing::debug!(path = %self.path.display(), %error, "no more room could be kept back");
                // Not again before the store has doubled.
                (self.state, self.bytes) = (State::Kept, wanted);
            }
            Err(error) if is_no_room(&error) => {
                self.state = State::Free;
                return Err(error);
            }
            // The next batch tries again.
            Err(error) if passes(&error) => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "no room can be kept back for deletions on a full disk");
                self.state = State::Impossible;
            }
        }
        Ok(())
    }

    fn write(&self, bytes: u64) -> io::Result<()> {
        let mut new = directory::beside(&self.path)?;
        let mut left = bytes as usize;
        while left > 0 {
            let piece = &PIECE[..left.min(PIECE.len())];
            new.file().write_all(piece)?;
            left -= piece.len();
        }
        new.replace()
    }

    /// Gives it free; `false` if there was nothing to give.
    pub(super) fn release(&mut self) -> bool {
        if self.state == State::Impossible {
            return false;
        }
        self.state = State::Free;
        std::fs::remove_file(&self.path).is_ok()
    }
}

fn wanted(store_bytes: u64) -> u64 {
    (store_bytes / 4).clamp(*BYTES.start(), *BYTES.end())
}
