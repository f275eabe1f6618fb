//! The files of the directory, or the one file, read into pods.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use catalog::Catalog;
use object::Value;

use super::decode::{MOST_BYTES, decode, digest};

pub struct Directory {
    path: PathBuf,
    node: String,
    catalog: Catalog,
    /// What each file said when it was last a pod.
    known: BTreeMap<PathBuf, Known>,
}

struct Known {
    digest: u128,
    pod: Value,
}

impl Directory {
    pub fn new(path: PathBuf, node: &str) -> Directory {
        Directory { path, node: node.to_owned(), catalog: Catalog::builtin(), known: BTreeMap::new() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The pods, by file name. Where it is not a `regular` look, a file that is no pod now is taken for what it was.
    pub fn read(&mut self, regular: bool, now_nanos: u128) -> io::Result<Vec<Value>> {
        let files = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
            Ok(metadata) if metadata.is_dir() => self.files()?,
            Ok(metadata) if metadata.is_file() => vec![self.path.clone()],
            Ok(_) => return Err(io::Error::other("path is not a directory or file")),
        };
        let mut before = std::mem::take(&mut self.known);
        for file in files {
            let known = before.remove(&file);
            match self.read_file(&file, known.as_ref(), now_nanos) {
                Ok(None) => drop(known.map(|known| self.known.insert(file, known))),
                Ok(Some(read)) => drop(self.known.insert(file, read)),
                Err(error) => {
                    tracing::error!(file = %file.display(), error, "failed to read static pod");
                    if !regular && let Some(known) = known {
                        self.known.insert(file, known);
                    }
                }
            }
        }
        Ok(self.known.values().map(|known| known.pod.clone()).collect())
    }

    /// Those whose names do not begin with a dot, in their order.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => files.push(path),
                Ok(metadata) if metadata.is_dir() => {
                    tracing::debug!(path = %path.display(), "a directory among static pods is not read");
                }
                Ok(_) => {
                    tracing::error!(path = %path.display(), "static pod is not a file");
                }
                // Gone meanwhile.
                Err(error) => tracing::debug!(path = %path.display(), %error, "static pod is not there"),
            }
        }
        files.sort();
        Ok(files)
    }

    /// `None`: it says what it said before.
    fn read_file(
        &self,
        file: &Path,
        known: Option<&Known>,
        now_nanos: u128,
    ) -> Result<Option<Known>, String> {
        let mut bytes = Vec::new();
        let mut limited = File::open(file).map_err(|error| error.to_string())?.take(MOST_BYTES + 1);
        limited.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let digest = digest(&[&bytes]);
        if known.is_some_and(|known| known.digest == digest) {
            return Ok(None);
        }
        let decoded = decode(&self.catalog, &bytes, &self.node, file, now_nanos);
        let pod = decoded.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Some(Known { digest, pod }))
    }
}
