//! Key and certificate files: written whole or not at all, keys readable by their owner only.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// A key is created: it is never overwritten, and its certificate, which follows at once, makes its name durable too.
pub use env::file::{create, replace};

/// Makes the folder (and its parents) for its owner only; one that exists stays as it is.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// The file's bytes; `None` when there is no such file.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
