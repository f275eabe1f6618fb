//! Writes the files of a volume so that a reader sees all of the old or all of the new.
//!
//! ```text
//! volume/ca.crt ─> ..data/ca.crt          what a container opens
//! volume/..data ─> ..2026_01_01_00_00_00.123/   replaced by one rename
//! volume/..2026_01_01_00_00_00.123/ca.crt
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use env::Env;
use env::file::unless_missing;
use object::time;

use super::payload::{File, Payload};

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{0}")]
    Path(String),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError::Io { path, source }
}

/// Whether files were written there, all of them.
pub fn is_written(volume: &Path) -> bool {
    volume.join(DATA).is_symlink()
}

/// Makes the volume hold exactly these files. `own` is called when there are new ones, before anybody can see them. `true`: something
/// changed.
pub fn write(
    env: &Env,
    volume: &Path,
    payload: &Payload,
    own: impl FnOnce() -> io::Result<()>,
) -> Result<bool, WriteError> {
    let payload = clean(payload)?;
    let data = volume.join(DATA);
    let old = match fs::read_link(&data) {
        Ok(old) => Some(volume.join(old)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(at(&data)(error)),
    };
    remove_leftovers(volume, old.as_deref())?;
    let stale = match &old {
        Some(old) => stale_paths(old, &payload)?,
        None => BTreeSet::new(),
    };
    let changed = match &old {
        Some(old) => !stale.is_empty() || differs(old, &payload)?,
        None => true,
    };
    if changed {
        let new = new_directory(env, volume)?;
        fill(&new, &payload)?;
        own().map_err(at(volume))?;
        let (link, name) = (volume.join(NEW_DATA), new.file_name().unwrap_or_default());
        symlink(name, &link).map_err(at(&link))?;
        fs::rename(&link, &data).map_err(at(&data))?;
    }
    for path in payload.keys() {
        let first = path.split('/').next().unwrap_or_default();
        let visible = volume.join(first);
        match symlink(Path::new(DATA).join(first), &visible) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(&visible)(error)),
            _ => {}
        }
    }
    for path in stale.iter().filter(|path| !path.contains('/')) {
        let visible = volume.join(path);
        unless_missing(fs::remove_file(&visible)).map_err(at(&visible))?;
    }
    if let Some(old) = old.filter(|_| changed) {
        unless_missing(fs::remove_dir_all(&old)).map_err(at(&old))?;
    }
    Ok(changed)
}

/// The payload with paths that lead nowhere else.
fn clean(payload: &Payload) -> Result<std::collections::BTreeMap<String, &File>, WriteError> {
    let mut clean = std::collections::BTreeMap::new();
    for (path, file) in payload {
        check_path(path).map_err(WriteError::Path)?;
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.is_empty() {
            return Err(WriteError::Path(format!("invalid path: must not be empty: {path:?}")));
        }
        clean.insert(parts.join("/"), file);
    }
    Ok(clean)
}

fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > MAX_PATH {
        return Err(format!("invalid path: must be less than or equal to {MAX_PATH} characters"));
    }
    for part in path.split('/') {
        if part == ".." {
            return Err(format!("invalid path: must not contain '..': {path}"));
        }
        if part.len() > MAX_NAME {
            return Err(format!(
                "invalid path: filenames must be less than or equal to {MAX_NAME} characters"
            ));
        }
    }
    // Those are this module's own.
    let own = path.trim_start_matches("./").starts_with("..");
    if own { Err(format!("invalid path: must not start with '..': {path}")) } else { Ok(()) }
}

/// What a writer that was killed has left.
fn remove_leftovers(volume: &Path, old: Option<&Path>) -> Result<(), WriteError> {
    for entry in fs::read_dir(volume).map_err(at(volume))? {
        let entry = entry.map_err(at(volume))?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == NEW_DATA {
            fs::remove_file(&path).map_err(at(&path))?;
        } else if name.as_encoded_bytes().starts_with(b"..")
            && Some(path.as_path()) != old
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
        {
            fs::remove_dir_all(&path).map_err(at(&path))?;
        }
    }
    Ok(())
}

type Clean<'a> = std::collections::BTreeMap<String, &'a File>;

/// Paths below the old directory that the payload has no more, directories among them.
fn stale_paths(old: &Path, payload: &Clean<'_>) -> Result<BTreeSet<String>, WriteError> {
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for path in payload.keys() {
        let mut path = path.as_str();
        wanted.insert(path);
        while let Some((parent, _)) = path.rsplit_once('/') {
            wanted.insert(parent);
            path = parent;
        }
    }
    let mut stale = BTreeSet::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let path = old.join(&folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(at(&path)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(at(&path))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(name.clone());
            }
            if !wanted.contains(name.as_str()) {
                stale.insert(name);
            }
        }
    }
    Ok(stale)
}

fn differs(old: &Path, payload: &Clean<'_>) -> Result<bool, WriteError> {
    for (path, file) in payload {
        let path = old.join(path);
        match fs::read(&path) {
            Ok(there) if there == file.data => {}
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(at(&path)(error)),
        }
    }
    Ok(false)
}

fn new_directory(env: &Env, volume: &Path) -> Result<PathBuf, WriteError> {
    let now = i64::try_from(env.now_seconds()).unwrap_or(i64::MAX);
    // RFC 3339, spelled for a file name.
    let stamp: String = time::format_seconds(now)
        .trim_end_matches('Z')
        .chars()
        .map(|c| if c.is_ascii_digit() { c } else { '_' })
        .collect();
    let path = volume.join(format!("..{stamp}.{}", env.random_below(10_000_000_000)));
    fs::create_dir(&path).map_err(at(&path))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(at(&path))?;
    Ok(path)
}

fn fill(folder: &Path, payload: &Clean<'_>) -> Result<(), WriteError> {
    for (path, file) in payload {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        let write = || -> io::Result<()> {
            // Nobody reads it before it has its own mode.
            let mut options = fs::OpenOptions::new();
            let mut open = options.write(true).create_new(true).mode(0o600).open(&path)?;
            io::Write::write_all(&mut open, &file.data)?;
            // Chown clears bits that chmod sets.
            if let Some(user) = file.user {
                std::os::unix::fs::lchown(&path, Some(user), None)?;
            }
            open.set_permissions(fs::Permissions::from_mode(file.mode))
        };
        write().map_err(at(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
