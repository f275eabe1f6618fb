//! How much of the disk the files of pods take.
//!
//! To count them may take long. One thread does it, a directory after the other; whoever asks waits a little, and is then told what
//! is known: that of the last time, or what has been counted so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::tree::{self, Unwalkable};

/// Hard links beyond this many are counted each.
const MAX_LINKS: usize = 100_000;
/// For how long what was counted is believed: a multiple of the time it took, within these bounds.
const SHORTEST_KEPT: Duration = Duration::from_secs(10);
const LONGEST_KEPT: Duration = Duration::from_secs(60);
const KEPT_FACTOR: u32 = 10;
/// What nobody has asked for since is forgotten.
const REMEMBERED: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub bytes: u64,
    pub inodes: u64,
}

impl Usage {
    /// Of a tree that does not let itself be counted.
    pub const UNBOUNDED: Usage = Usage { bytes: u64::MAX, inodes: u64::MAX };

    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }

    fn most(self, other: Usage) -> Usage {
        Usage { bytes: self.bytes.max(other.bytes), inodes: self.inodes.max(other.inodes) }
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(all: I) -> Usage {
        all.fold(Usage::default(), Usage::plus)
    }
}

/// Of a file or a directory alone; nothing at that place takes nothing.
pub fn of_one(path: &Path) -> Usage {
    rustix::fs::lstat(path)
        .map_or_else(|_| Usage::default(), |stat| Usage { bytes: blocks(&stat), inodes: 1 })
}

/// The blocks of all files below, as `du` counts them: a file with several names once.
pub fn measure(directory: &Path) -> io::Result<Usage> {
    count(directory, &Progress::default())
}

/// What has been counted so far.
#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
    inodes: AtomicU64,
}

impl Progress {
    fn set(&self, usage: Usage) {
        self.bytes.store(usage.bytes, Ordering::Relaxed);
        self.inodes.store(usage.inodes, Ordering::Relaxed);
    }

    fn get(&self) -> Usage {
        Usage { bytes: self.bytes.load(Ordering::Relaxed), inodes: self.inodes.load(Ordering::Relaxed) }
    }
}

fn count(directory: &Path, progress: &Progress) -> io::Result<Usage> {
    let root = match rustix::fs::stat(directory) {
        Ok(root) => root,
        Err(rustix::io::Errno::NOENT) => return Ok(Usage::default()),
        Err(error) => return Err(error.into()),
    };
    let mut usage = Usage { bytes: blocks(&root), inodes: 1 };
    let mut linked = BTreeSet::new();
    let walked = tree::walk(directory, &mut |_, _, stat| {
        if stat.st_nlink > 1
            && stat.st_mode & 0o170_000 != 0o040_000
            && linked.len() < MAX_LINKS
            && !linked.insert((stat.st_dev, stat.st_ino))
        {
            return Ok(());
        }
        usage = usage.plus(Usage { bytes: blocks(stat), inodes: 1 });
        progress.set(usage);
        Ok(())
    });
    match walked {
        // Removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(usage),
        walked => walked.map(|()| usage).or_else(|error| counted_as(directory, error)),
    }
}

/// A pod must not be able to keep what it likes by keeping it where nobody can count it.
fn counted_as(directory: &Path, error: io::Error) -> io::Result<Usage> {
    if !Unwalkable::is_why(&error) {
        return Err(error);
    }
    tracing::warn!(directory = %directory.display(), %error, "files cannot be counted, and are over any limit");
    Ok(Usage::UNBOUNDED)
}

fn blocks(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

type Count = dyn Fn(&Path, &Progress) -> io::Result<Usage> + Send + Sync;

/// Counts in the background, and remembers. Cheap to clone.
#[derive(Clone)]
pub struct DiskUsage {
    shared: Arc<Shared>,
}

struct Shared {
    count: Box<Count>,
    /// Guards what is known and what is to be counted; held for a few instructions.
    state: Mutex<State>,
    counted: Condvar,
}

#[derive(Default)]
struct State {
    known: BTreeMap<PathBuf, Known>,
    /// What is to be counted, each once; as many as there are in `known` at most.
    queue: VecDeque<PathBuf>,
    /// There is a thread that counts.
    counts: bool,
}

struct Known {
    /// When what is known of it is too old.
    until: Instant,
    asked: Instant,
    usage: Option<Usage>,
    /// It waits in the queue, or is being counted.
    is_due: bool,
    progress: Option<Arc<Progress>>,
}

impl Known {
    /// What is there by now is not less than what has been counted of it.
    fn usage(&self) -> Option<Usage> {
        let so_far = self.progress.as_ref().map(|progress| progress.get());
        match (self.usage, so_far) {
            (Some(usage), Some(so_far)) => Some(usage.most(so_far)),
            (usage, so_far) => usage.or(so_far),
        }
    }
}

impl Default for DiskUsage {
    fn default() -> DiskUsage {
        DiskUsage::counted_by(count)
    }
}

impl DiskUsage {
    fn counted_by(
        count: impl Fn(&Path, &Progress) -> io::Result<Usage> + Send + Sync + 'static,
    ) -> DiskUsage {
        let (state, counted) = (Mutex::default(), Condvar::new());
        DiskUsage { shared: Arc::new(Shared { count: Box::new(count), state, counted }) }
    }

    /// What the directories hold, in their order, a minute old at most once it could be counted; `None`: nothing is known yet. Waits
    /// that long for what is too old to be counted, so not to be called where others wait.
    pub fn of(&self, directories: &[PathBuf], patience: Duration) -> Vec<Option<Usage>> {
        let start = now();
        let mut state = self.shared.state.lock();
        for directory in directories {
            let new = || Known { until: start, asked: start, usage: None, is_due: false, progress: None };
            let State { known, queue, .. } = &mut *state;
            let known = known.entry(directory.clone()).or_insert_with(new);
            known.asked = start;
            if !known.is_due && known.until <= start {
                known.is_due = true;
                queue.push_back(directory.clone());
            }
        }
        if !state.counts && !state.queue.is_empty() {
            state.counts = self.shared.clone().start();
        }
        let is_due =
            |state: &State, directory: &PathBuf| state.known.get(directory).is_some_and(|known| known.is_due);
        while state.counts && directories.iter().any(|directory| is_due(&state, directory)) {
            if self.shared.counted.wait_until(&mut state, start + patience).timed_out() {
                break;
            }
        }
        directories.iter().map(|directory| state.known.get(directory).and_then(Known::usage)).collect()
    }
}

impl Shared {
    #[expect(
        clippy::disallowed_methods,
        reason = "to count files blocks, and for long: it takes none of the threads others wait for"
    )]
    fn start(self: Arc<Self>) -> bool {
        let thread = std::thread::Builder::new().name("disk usage".to_owned());
        match thread.spawn(move || while self.count_one() {}) {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, "files of pods cannot be counted");
                false
            }
        }
    }

    /// `false`: there is nothing to count any more.
    fn count_one(&self) -> bool {
        let (directory, progress) = {
            let mut state = self.state.lock();
            let start = now();
            state.known.retain(|_, known| known.is_due || start.duration_since(known.asked) < REMEMBERED);
            let Some(directory) = state.queue.pop_front() else {
                state.counts = false;
                return false;
            };
            let progress = Arc::new(Progress::default());
            if let Some(known) = state.known.get_mut(&directory) {
                known.progress = Some(progress.clone());
            }
            (directory, progress)
        };
        let start = now();
        let counted = (self.count)(&directory, &progress);
        let kept = (start.elapsed() * KEPT_FACTOR).clamp(SHORTEST_KEPT, LONGEST_KEPT);
        let mut state = self.state.lock();
        if let Some(known) = state.known.get_mut(&directory) {
            known.until = start + kept;
            known.is_due = false;
            known.progress = None;
            match counted {
                Ok(usage) => known.usage = Some(usage),
                // What was known stays.
                Err(error) => {
                    tracing::warn!(directory = %directory.display(), %error, "failed to count files");
                }
            }
        }
        self.counted.notify_all();
        true
    }
}

#[expect(clippy::disallowed_methods, reason = "the thread that counts is outside every simulation")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use super::*;

    const FOREVER: Duration = Duration::from_secs(3600);

    #[test]
    fn files_count_once_and_by_their_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let empty = measure(folder.path()).unwrap();
        assert_eq!(empty.inodes, 1);
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("d/f"), vec![1; 100_000]).unwrap();
        fs::hard_link(folder.path().join("d/f"), folder.path().join("again")).unwrap();
        let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let usage = measure(folder.path()).unwrap();
        assert_eq!(usage.inodes, 4);
        assert!((100_000..1_000_000).contains(&usage.bytes), "{usage:?}");
        assert_eq!(of_one(&folder.path().join("d/f")).inodes, 1);
        assert_eq!(measure(&folder.path().join("none")).unwrap(), Usage::default());
    }

    #[test]
    fn a_tree_that_cannot_be_walked_is_larger_than_any_limit() {
        let of = |error| counted_as(Path::new("volume"), error).ok();
        assert_eq!(of(io::Error::other(Unwalkable::TooDeep)), Some(Usage::UNBOUNDED));
        assert_eq!(of(io::Error::other(Unwalkable::Moved)), Some(Usage::UNBOUNDED));
        assert_eq!(of(io::ErrorKind::PermissionDenied.into()), None, "the machine's fault");
    }

    #[test]
    fn nobody_waits_for_what_takes_long() {
        let (tell, told) = mpsc::channel();
        let told = Mutex::new(told);
        let some = |bytes| Some(Usage { bytes, inodes: 1 });
        let counts = Arc::new(AtomicU64::new(0));
        let seen = counts.clone();
        let usage = DiskUsage::counted_by(move |_, progress| {
            seen.fetch_add(1, Ordering::Relaxed);
            progress.set(Usage { bytes: 5, inodes: 1 });
            told.lock().recv().unwrap()
        });
        let paths = [PathBuf::from("a"), PathBuf::from("b")];
        usage.of(&paths, Duration::ZERO);
        // One after the other: of the second one nothing is known meanwhile.
        while usage.of(&paths, Duration::ZERO) != [some(5), None] {}
        tell.send(Ok(Usage { bytes: 9, inodes: 1 })).unwrap();
        tell.send(Err(io::Error::from(io::ErrorKind::PermissionDenied))).unwrap();
        assert_eq!(usage.of(&paths, FOREVER), [some(9), None]);
        assert_eq!(usage.of(&paths, Duration::ZERO), [some(9), None]);
        assert_eq!(counts.load(Ordering::Relaxed), 2, "each once");
    }
}
