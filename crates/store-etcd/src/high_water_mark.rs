//! The highest revision that was served, kept in a file: how an etcd that went back is noticed after a restart too.
//!
//! It is written now and then and at the end, never ahead: etcd has certainly been there. So a healthy etcd is never
//! refused, and what is not noticed is a step back by less than the last few seconds before a crash of ours.

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// What was served, and by which etcd cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub cluster: u64,
    pub revision: u64,
}

pub struct Mark {
    path: PathBuf,
    /// What the file says; held while it is written.
    written: Mutex<Option<Served>>,
}

impl Mark {
    /// A file that is missing says nothing, and one that is damaged is not believed: a healthy etcd is never refused.
    pub fn read(path: PathBuf) -> io::Result<Mark> {
        let said = match std::fs::read(&path) {
            Ok(content) => {
                let said = std::str::from_utf8(&content).ok().and_then(parse);
                if said.is_none() {
                    tracing::warn!(path = %path.display(), "the note of the last revision is damaged: left out");
                }
                said
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Mark { path, written: Mutex::new(said) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn said(&self) -> Option<Served> {
        *self.written.lock()
    }

    /// A failure is told and no more: the store itself is elsewhere.
    pub fn note(&self, served: Served) {
        let mut written = self.written.lock();
        if *written == Some(served) {
            return;
        }
        match env::file::replace(&self.path, encode(served).as_bytes(), 0o600) {
            Ok(()) => *written = Some(served),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "the last revision could not be noted")
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
    fn what_is_noted_is_read_again_and_nothing_else_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        let mark = Mark::read(path.clone()).unwrap();
        assert_eq!(mark.said(), None);
        let served = Served { cluster: 0xabc, revision: 42 };
        mark.note(served);
        assert_eq!(Mark::read(path.clone()).unwrap().said(), Some(served));
        for wrong in ["", "cluster 1\nrevision 2\n", "cluster 0000000000000abc\nrevision 42", "\u{0}\u{0}"] {
            std::fs::write(&path, wrong).unwrap();
            assert_eq!(Mark::read(path.clone()).unwrap().said(), None, "{wrong:?}");
        }
    }
}
