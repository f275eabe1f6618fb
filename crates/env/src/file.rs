//! Atomic, durable file writes: a temporary file is written and synced, then renamed.
//!
//! ```text
//! New::beside(path, mode) ── PATH.PID.tmp ── write ── fsync ── rename ── fsync of the directory ── path
//! ```
//! The content may be secret. So the temporary file is always a new one: an existing file of that name, such as a symlink
//! planted by another user or a leftover with wider permissions, is removed, never opened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces a file atomically: after a crash it has the old content or the new one.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut new = New::beside(path, mode)?;
    new.file().write_all(content)?;
    new.replace()
}

/// Creates a file that must not exist yet: of two programs that start at the same time one gets `AlreadyExists`. Its name
/// is durable once the directory is ([`sync_folder_of`], or a [`replace`] next to it), so that several new files share that fsync.
pub fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut new = New::beside(path, mode)?;
    new.file().write_all(content)?;
    new.create()
}

/// What became of a removal: what is gone already need not be removed.
pub fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// The content of a file of at most that many bytes; of a longer one, be it a device or a pipe without end, no more is read.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes")));
    }
    Ok(content)
}

/// A temporary file that will be renamed. Deleted if dropped before.
///
/// A process writes a path from one place at a time; two processes never share a temporary file.
#[must_use = "it gets its name with `replace`"]
pub struct New {
    file: File,
    /// Opened first: when descriptors run out it fails before anything has changed.
    folder: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl New {
    /// An empty file next to `path`, with that mode (less the umask).
    pub fn beside(path: &Path, mode: u32) -> io::Result<New> {
        let folder = File::open(folder_of(path))?;
        let temporary = temporary(path);
        unless_missing(fs::remove_file(&temporary)).map_err(|error| {
            let what = format!("{} is in the way and cannot be removed: {error}", temporary.display());
            io::Error::new(error.kind(), what)
        })?;
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        Ok(New { file, folder, temporary, path: path.to_owned() })
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The path of the temporary file.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Syncs and renames it, replacing an existing file.
    pub fn replace(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        self.folder.sync_all()
    }

    /// Syncs and renames it, if the path does not exist.
    fn create(self) -> io::Result<()> {
        self.file.sync_all()?;
        match fs::hard_link(&self.temporary, &self.path) {
            // File systems without hard links: nearly as good.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !self.path.exists() => {
                fs::rename(&self.temporary, &self.path)
            }
            linked => linked,
        }
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // In its place it has no such name any more, or one too many. What cannot be removed now is when the path is next written.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A new name is only durable once its directory is synced.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Ends in `.tmp`, by which leftovers are recognised.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_laid_under_the_temporary_name_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let (path, victim) = (home.path().join("secret"), home.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, temporary(&path)).unwrap();
        replace(&path, b"key", 0o600).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert_eq!(fs::read(&path).unwrap(), b"key");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(names(home.path()), ["secret", "victim"]);
    }

    #[test]
    fn a_world_readable_leftover_does_not_pass_on_its_mode() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        for old in [&path, &temporary(&path)] {
            fs::write(old, "longer than what follows").unwrap();
            fs::set_permissions(old, fs::Permissions::from_mode(0o666)).unwrap();
        }
        replace(&path, b"key", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_abandoned_write_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        replace(&path, b"old", 0o600).unwrap();
        let mut new = New::beside(&path, 0o600).unwrap();
        new.file().write_all(b"half").unwrap();
        drop(new);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(home.path()), ["file"]);
    }

    #[test]
    fn a_file_that_is_there_is_not_created_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        create(&path, b"one", 0o600).unwrap();
        assert_eq!(create(&path, b"other", 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(home.path()), ["key"]);
    }

    #[test]
    fn no_more_is_read_than_the_limit() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, b"four").unwrap();
        assert_eq!(read_limited(&path, 4).unwrap(), b"four");
        // What says it is empty, and never ends.
        for (path, limit) in [(path.as_path(), 3), (Path::new("/dev/zero"), 1 << 20)] {
            assert_eq!(read_limited(path, limit).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        }
    }

    #[test]
    fn the_path_of_a_failure_is_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        fs::create_dir(temporary(&path)).unwrap();
        let error = replace(&path, b"", 0o600).unwrap_err().to_string();
        assert!(error.contains("is in the way") && error.contains(".tmp"), "{error}");
    }
}
