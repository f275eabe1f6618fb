//! The highest revision that was served, kept in a file: so an etcd whose revision went back is noticed after a restart too.
//!
//! It is written now and then and at shutdown, never ahead: etcd has certainly been there. So a healthy etcd is never
//! refused; all that goes unnoticed is a loss of the last few seconds before a crash of ours.

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// What was served, and by which etcd cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub cluster: u64,
    pub revision: u64,
}

pub struct HighWaterMark {
    path: PathBuf,
    /// What the file holds; locked while it is written.
    recorded: Mutex<Option<Served>>,
}

impl HighWaterMark {
    /// A missing file means nothing, and a damaged one is ignored: a healthy etcd is never refused.
    pub fn read(path: PathBuf) -> io::Result<HighWaterMark> {
        let recorded = match std::fs::read(&path) {
            Ok(content) => {
                let parsed = std::str::from_utf8(&content).ok().and_then(parse);
                if parsed.is_none() {
                    tracing::warn!(path = %path.display(), "ignoring a damaged file with the last revision served");
                }
                parsed
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(HighWaterMark { path, recorded: Mutex::new(recorded) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn recorded(&self) -> Option<Served> {
        *self.recorded.lock()
    }

    /// A failure is logged and no more: the store itself is elsewhere.
    pub fn record(&self, served: Served) {
        let mut recorded = self.recorded.lock();
        if *recorded == Some(served) {
            return;
        }
        match env::file::replace(&self.path, encode(served).as_bytes(), 0o600) {
            Ok(()) => *recorded = Some(served),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot record the last revision served")
            }
        }
    }
}

fn encode(Served { cluster, revision }: Served) -> String {
    format!("cluster {cluster:016x}\nrevision {revision}\n")
}

fn parse(text: &str) -> Option<Served> {
    let mut lines = text.lines();
    let cluster = u64::from_str_radix(lines.next()?.strip_prefix("cluster ")?, 16).ok()?;
    let revision = lines.next()?.strip_prefix("revision ")?.parse().ok()?;
    let served = Served { cluster, revision };
    (encode(served) == text).then_some(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_survives_a_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        let mark = HighWaterMark::read(path.clone()).unwrap();
        assert_eq!(mark.recorded(), None);
        let served = Served { cluster: 0xabc, revision: 42 };
        mark.record(served);
        assert_eq!(HighWaterMark::read(path.clone()).unwrap().recorded(), Some(served));
        for wrong in ["", "cluster 1\nrevision 2\n", "cluster 0000000000000abc\nrevision 42", "\u{0}\u{0}"] {
            std::fs::write(&path, wrong).unwrap();
            assert_eq!(HighWaterMark::read(path.clone()).unwrap().recorded(), None, "{wrong:?}");
        }
    }
}
