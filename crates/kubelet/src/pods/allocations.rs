//! What pods were given, written down in each pod's directory before anything goes by it: another process after a kill goes on with
//! that, whatever the pod asks for by then.
//!
//! A file is the SHA-256 of what follows, a newline, and an [`Allocation`] as JSON. One that cannot be read is as good as none: what the
//! API says of the pod counts then. The `restarts` of a resize stay in it when that is complete: they say nothing of a container whose
//! run has a higher number.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use node::allocation::Allocation;
use node::pod::short_uid;
use parking_lot::Mutex;

const FILE: &str = "allocation";
/// More than the resources of as many containers as a pod can have.
const MOST_BYTES: u64 = 4 << 20;
const MODE: u32 = 0o600;

pub struct Allocations {
    /// The directories of pods.
    pods: PathBuf,
    /// Who has a record that this process wrote or read, by short uid; held for a look only.
    known: Mutex<BTreeMap<u128, String>>,
}

impl Allocations {
    pub fn new(root_directory: &Path) -> Allocations {
        Allocations { pods: root_directory.join("pods"), known: Mutex::default() }
    }

    pub fn read(&self, uid: &str) -> Option<Allocation> {
        let path = self.path(uid);
        match read(&path) {
            Ok(None) => None,
            Ok(allocation) => {
                self.note(uid);
                allocation
            }
            Err(error) => {
                tracing::error!(
                    path = %path.display(),
                    error,
                    "the record of what a pod was given cannot be read: its status in the API counts"
                );
                None
            }
        }
    }

    /// On the caller's thread, which holds up the agent's other pods: one decides after the other what the node has room for, and goes
    /// by it only once it is written down, as kubelet does under the lock of its allocations. A pod is given something at its start and
    /// when it is resized, so that is rare.
    ///
    /// Whole or not at all. What changes for a pod that runs is on the disk afterwards; what one was admitted with is asked of the API
    /// if the power fails before.
    pub fn write(&self, uid: &str, allocation: &Allocation) -> io::Result<()> {
        let content = encode(allocation);
        let path = self.path(uid);
        self.note(uid);
        if path.exists() {
            return env::file::replace(&path, &content, MODE);
        }
        crate::directories::make(path.parent().unwrap_or(&self.pods))?;
        let unfinished = path.with_extension("tmp");
        fs::write(&unfinished, &content)?;
        fs::rename(&unfinished, &path)
    }

    fn note(&self, uid: &str) {
        self.known.lock().insert(short_uid(uid), uid.to_owned());
    }

    /// Pods whose directories are no garbage, though nothing may be set up for them yet.
    pub fn uids(&self) -> Vec<String> {
        self.known.lock().values().cloned().collect()
    }

    /// The pod is not wanted any more. With its directory, if nothing else is in that; else whoever removes that removes this.
    pub fn forget(&self, uid: u128) {
        let Some(uid) = self.known.lock().remove(&uid) else { return };
        let path = self.path(&uid);
        // What is left belongs to a pod that nobody knows, and is found as such.
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir(path.parent().unwrap_or(&path));
    }

    fn path(&self, uid: &str) -> PathBuf {
        self.pods.join(uid).join(FILE)
    }
}

fn checksum(content: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encode(allocation: &Allocation) -> Vec<u8> {
    let content = codec::json::to_vec(&allocation.to_value());
    [checksum(&content).as_bytes(), b"\n", &content].concat()
}

/// `None`: there is none.
fn read(path: &Path) -> Result<Option<Allocation>, String> {
    let content = match env::file::read_limited(path, MOST_BYTES) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let end = content.iter().position(|byte| *byte == b'\n').ok_or("it has no checksum")?;
    let (sum, content) = (&content[..end], &content[end + 1..]);
    if sum != checksum(content).as_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    let value = codec::json::parse(content, None).map_err(|error| error.to_string())?;
    Allocation::from_value(&value).map(Some).ok_or_else(|| "it holds no allocation".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d11";

    fn allocation(text: &str) -> Allocation {
        Allocation::from_value(&codec::json::parse(text.as_bytes(), None).unwrap()).unwrap()
    }

    #[test]
    fn what_a_pod_was_given_is_read_back_by_another_process() {
        let root = tempfile::tempdir().unwrap();
        let allocations = Allocations::new(root.path());
        assert_eq!(allocations.read(UID), None);
        let first = allocation(r#"{"containers":{"c":{"requests":{"cpu":"1"}},"d":{}}}"#);
        let second = allocation(
            r#"{"resources":{"limits":{"cpu":"4"}},"containers":{"c":{"requests":{"cpu":"2"}},"d":{}},"restarts":{"c":3}}"#,
        );
        assert_eq!((&second.containers["d"], second.restarts["c"]), (&None, 3));
        for given in [first, second] {
            allocations.write(UID, &given).unwrap();
            let other = Allocations::new(root.path());
            assert_eq!(other.read(UID), Some(given));
            assert_eq!(other.uids(), [UID], "it is no garbage, whoever wrote it");
        }
        for allocations in [Allocations::new(root.path()), allocations] {
            allocations.write(UID, &Allocation::default()).unwrap();
            assert_eq!(allocations.uids(), [UID]);
            allocations.forget(short_uid(UID));
            assert!(!root.path().join("pods").join(UID).exists() && allocations.uids().is_empty());
        }
    }

    #[test]
    fn a_file_that_is_not_whole_is_none() {
        let root = tempfile::tempdir().unwrap();
        let allocations = Allocations::new(root.path());
        let given = allocation(r#"{"containers":{"c":{"requests":{"cpu":"1"}}}}"#);
        allocations.write(UID, &given).unwrap();
        let path = allocations.path(UID);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(read(&path).is_err(), "{length}");
        }
        let changed = String::from_utf8(whole.clone()).unwrap().replace(r#""1""#, r#""2""#);
        let of_nothing = [checksum(b"{}").as_bytes(), b"\n{}"].concat();
        for content in [changed.as_bytes(), &of_nothing, &[0; 300]] {
            fs::write(&path, content).unwrap();
            assert_eq!(allocations.read(UID), None);
        }
        allocations.write(UID, &given).unwrap();
        assert_eq!(allocations.read(UID), Some(given));
    }
}
