//! The manifest lists the files that make up the store: without it a lost last segment could not be told from an empty one.

use std::path::{Path, PathBuf};

use super::{OpenError, directory, revision_jump, with_checksum};
use crate::contract::Revision;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// The store's revision in the snapshot; `None` before the first one.
    pub snapshot: Option<Revision>,
    /// First revisions of the log segments that follow it, in order. Never empty; the last is written to.
    pub segments: Vec<Revision>,
}

impl Manifest {
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join("MANIFEST")
    }

    pub(super) fn read(dir: &Path) -> Result<Manifest, OpenError> {
        let path = Self::path(dir);
        let content = std::fs::read(&path).map_err(|e| OpenError::io(&path, e))?;
        let manifest = std::str::from_utf8(&content).ok().and_then(parse);
        // Comparing with what we would have written leaves no byte unverified.
        let fits = |m: &Manifest| m.encode().as_bytes() == content && m.is_possible();
        match manifest.filter(fits) {
            Some(manifest) => Ok(manifest),
            None => Err(OpenError::damaged(&path, 0, "its checksum or format is wrong")),
        }
    }

    /// Revisions that a store can reach, so that no arithmetic overflows.
    fn is_possible(&self) -> bool {
        let mut all = self.segments.iter().chain(&self.snapshot);
        !self.segments.is_empty() && all.all(|at| (1..=revision_jump::HIGHEST).contains(&at.0))
    }

    pub(super) fn write(&self, dir: &Path) -> std::io::Result<()> {
        directory::write_whole(&Self::path(dir), self.encode().as_bytes())
    }

    fn encode(&self) -> String {
        let mut text = String::new();
        if let Some(revision) = self.snapshot {
            text.push_str(&format!("snapshot {revision}\n"));
        }
        for first in &self.segments {
            text.push_str(&format!("log {first}\n"));
        }
        with_checksum(text)
    }
}

fn parse(text: &str) -> Option<Manifest> {
    let mut manifest = Manifest { snapshot: None, segments: Vec::new() };
    for line in text.lines() {
        match line.split_once(' ')? {
            ("snapshot", revision) => manifest.snapshot = Some(Revision(revision.parse().ok()?)),
            ("log", first) => manifest.segments.push(Revision(first.parse().ok()?)),
            _ => {}
        }
    }
    Some(manifest)
}
