//! Rotation by kubelet's rules: the file written now is renamed, the one before it compressed, the oldest removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::Timestamp;

const COMPRESSED: &str = "gz";
const TEMPORARY: &str = "tmp";

/// Rotates a log of whoever writes it: `reopen` makes that one go on at the path. At most `max_files` remain, with the new one.
pub fn rotate(
    path: &Path,
    max_files: usize,
    now_nanos: i128,
    reopen: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    make_room(path, max_files)?;
    rotate_latest(path, Timestamp::utc(now_nanos), reopen)
}

/// Removes the oldest files, and compresses what was rotated before: the part of a rotation that takes time.
pub fn make_room(path: &Path, max_files: usize) -> io::Result<()> {
    let (kept, unused) = rotated(path)?;
    for file in unused {
        fs::remove_file(file)?;
    }
    // The file written now, and the one it becomes, are two.
    let excess = kept.len().saturating_sub(max_files.saturating_sub(2));
    // From the oldest on, so as not to break those who read.
    for file in &kept[..excess] {
        fs::remove_file(file)?;
    }
    for file in &kept[excess..] {
        if !has_extension(file, COMPRESSED) {
            compress(file)?;
        }
    }
    Ok(())
}

/// Renames the file written now, and has it opened anew.
pub(crate) fn rotate_latest(
    path: &Path,
    now: Timestamp,
    reopen: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let Some(renamed) = rename_latest(path, now)? else { return Ok(()) };
    reopen().inspect_err(|_| rename_back(&renamed, path))
}

/// Renames the file written now; what it is called then. `None`: that name is taken, by a rotation in the same second, and nothing was
/// done. Its writer has to be told to open the path anew.
pub fn rename_latest(path: &Path, now: Timestamp) -> io::Result<Option<PathBuf>> {
    let target = with_suffix(path, &now.file_suffix());
    // Differs from kubelet, which looks every ten seconds: whoever rotates by size can come twice in a second.
    if target.exists() || with_suffix(&target, COMPRESSED).exists() {
        return Ok(None);
    }
    fs::rename(path, &target)?;
    Ok(Some(target))
}

/// Its writer goes on in the old file: that stays the current one, and the next rotation tries again.
pub fn rename_back(renamed: &Path, path: &Path) {
    if let Err(error) = fs::rename(renamed, path) {
        tracing::error!(path = %path.display(), %error, "rotated log cannot be renamed back");
    }
}

/// All files of a log, oldest first, the one written now at the end.
pub fn all_logs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, _) = rotated(path)?;
    files.push(path.to_owned());
    Ok(files)
}

/// Removes a log with all its files; what is gone already is no failure.
pub fn remove(path: &Path) -> io::Result<()> {
    let (kept, unused) = match rotated(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    for file in kept.iter().chain(&unused).map(PathBuf::as_path).chain([path]) {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Rotated files, oldest first; and leftovers of rotations that were cut off.
fn rotated(path: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let prefix = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            files.push(entry.path());
        }
    }
    files.sort();
    let unused = |file: &PathBuf| {
        // Cut off between the renaming of the compressed file and the removal of its source.
        has_extension(file, TEMPORARY) || files.binary_search(&with_suffix(file, COMPRESSED)).is_ok()
    };
    let (unused, kept) = files.iter().cloned().partition(unused);
    Ok((kept, unused))
}

/// Uncompressed rotated files, oldest first.
pub(crate) fn uncompressed(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, _) = rotated(path)?;
    files.retain(|file| !has_extension(file, COMPRESSED));
    Ok(files)
}

fn compress(path: &Path) -> io::Result<()> {
    let mut source = File::open(path)?;
    let temporary = with_suffix(path, TEMPORARY);
    let mode = source.metadata()?.permissions().mode();
    let mut compressed = || -> io::Result<()> {
        let target =
            OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        let mut encoder = GzEncoder::new(target, Compression::default());
        io::copy(&mut source, &mut encoder)?;
        encoder.finish()?;
        fs::rename(&temporary, with_suffix(path, COMPRESSED))
    };
    compressed().inspect_err(|_| {
        // Best effort: the next rotation removes it, too.
        let _ = fs::remove_file(&temporary);
    })?;
    fs::remove_file(path)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|known| known == extension)
}

#[cfg(test)]
mod tests;
