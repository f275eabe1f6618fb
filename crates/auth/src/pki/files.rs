//! Key and certificate files: written whole or not at all, keys readable by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

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

/// Replaces the file: after a crash the old content is there, or the new one.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = write_temporary(path, content, mode)?;
    fs::rename(&temporary, path)?;
    sync_dir(path)
}

/// Writes a file that must not exist yet: a key is never overwritten, not even by two programs that start at
/// the same time. The folder is not synced: a key's certificate follows at once, and its [`replace`] does that.
pub fn create_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = write_temporary(path, content, mode)?;
    match fs::hard_link(&temporary, path) {
        // File systems without links: nearly as good.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
            fs::rename(&temporary, path)?
        }
        linked => {
            fs::remove_file(&temporary)?;
            linked?;
        }
    }
    Ok(())
}

fn write_temporary(path: &Path, content: &[u8], mode: u32) -> io::Result<std::path::PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    // A leftover of a crashed program with our process id; its mode may be another.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(temporary)
}

/// A rename is only durable once the folder is.
fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
