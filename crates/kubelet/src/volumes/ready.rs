//! Marks of volumes that were made ready. One without its mark was left half done by an agent that was killed, and is made ready by the
//! next. As kubelet's, a mark lies beside the volume, in the pod's directory `plugins`.

use std::path::Path;
use std::{fs, io};

use crate::directories;

const MARK: &str = "ready";

pub fn is_marked(directory: &Path) -> bool {
    directory.join(MARK).exists()
}

/// Writes down that the volume is as it should be.
pub fn mark(directory: &Path) -> Result<(), String> {
    let write = || {
        directories::make(directory)?;
        fs::write(directory.join(MARK), "")
    };
    write().map_err(|error| format!("{}: {error}", directory.display()))
}

/// The volume is to be made anew.
pub fn unmark(directory: &Path) -> io::Result<()> {
    env::file::unless_missing(fs::remove_file(directory.join(MARK)))
}
