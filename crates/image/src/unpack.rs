//! Unpacks a layer into the form overlayfs stacks.
//!
//! ```text
//! blob ── decompress ── limit ── hash ── tar entries ── Root (every path beneath it, by openat2)
//!                                  │
//!                                  └── at the end: is it the diff id the image's config says?
//!
//! .wh.NAME         a character device 0/0 called NAME
//! .wh..wh..opq     the extended attribute trusted.overlay.opaque of its directory
//! ```
//! A layer is somebody else's word. It may hold names with `..`, links out of itself, paths through links, a few kilobytes that
//! become terabytes: none of them reaches a byte outside the directory it is unpacked into, or more than its limits.

mod decompress;
mod root;
mod tree;

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::digest::{Digest, Hasher};
use crate::tar::{Archive, Entry, Kind, TarError};

pub(crate) use decompress::Decoder;
pub(crate) use root::open_directory;
pub(crate) use tree::remove_tree;

use root::{Attributes, Root};

const WHITEOUT: &[u8] = b".wh.";
/// Names that are about the layer, not in it.
const WHITEOUT_META: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What a layer may become. Each bound ends the unpacking with an error; nothing of the layer stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files, directories, links of one layer.
    pub entries: u64,
    /// Bytes of one layer as plain tar.
    pub bytes: u64,
    /// How many times its compressed size a layer may become...
    pub ratio: u64,
    /// ...once it is larger than this.
    pub ratio_from_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        // Ten times what the largest public images (machine learning) have; such a layer shrinks to a tenth at best, zeros to a thousandth.
        Limits { entries: 2_000_000, bytes: 128 << 30, ratio: 200, ratio_from_bytes: 256 << 20 }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("{0}")]
    Archive(String),
    #[error("{path:?}: {error}")]
    File { path: String, error: io::Error },
    #[error("{0:?} leads out of the layer")]
    Escape(String),
    #[error("{path:?} has the unsupported type {kind:?}")]
    Kind { path: String, kind: char },
    #[error("invalid whiteout name: {0:?}")]
    Whiteout(String),
    #[error("{0:?} has an owner that is none")]
    Owner(String),
    #[error("it has more than {0} entries")]
    TooManyEntries(u64),
    #[error("it is larger than {0} bytes when unpacked")]
    TooLarge(u64),
    #[error("wrong diff id calculated on extraction {actual:?}, expected {expected:?}")]
    Digest { expected: Digest, actual: Digest },
}

/// What a layer became.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// One layer to unpack.
pub(crate) struct Layer<'a> {
    /// The size of the blob, for the ratio.
    pub compressed_bytes: u64,
    pub diff_id: &'a Digest,
    pub limits: Limits,
    /// The layers below, the nearest first: directories that the archive only implies take owner and mode from there.
    pub below: Vec<PathBuf>,
}

/// Unpacks `blob` into the existing, empty directory `into`. `trash` is a directory on the same file system, for what is replaced.
pub(crate) fn unpack(
    blob: impl Read,
    into: &Path,
    trash: &Path,
    layer: Layer<'_>,
) -> Result<Unpacked, UnpackError> {
    let open = |path: &Path| {
        open_directory(path).map_err(|error| file_error(path.as_os_str().as_encoded_bytes(), error))
    };
    let mut root = Root::new(open(into)?, open(trash)?, layer.below);
    let limits = layer.limits;
    let by_ratio = layer.compressed_bytes.saturating_mul(limits.ratio).max(limits.ratio_from_bytes);
    let most = limits.bytes.min(by_ratio);
    let plain = Decoder::new(BufReader::with_capacity(64 << 10, blob))
        .map_err(|error| archive_error(error.into(), most))?;
    let counted = Hashing { source: plain, left: most, hasher: layer.diff_id.hasher() };
    let mut archive = Archive::new(counted);
    let mut done = Unpacked::default();
    while let Some(entry) = archive.next().map_err(|error| archive_error(error, most))? {
        done.entries += 1;
        if done.entries > limits.entries {
            return Err(UnpackError::TooManyEntries(limits.entries));
        }
        if entry.kind == Kind::File {
            done.bytes = done.bytes.saturating_add(entry.size);
        }
        apply(&mut root, &entry, &mut archive, most)?;
    }
    archive.drain().map_err(|error| archive_error(error, most))?;
    let actual = archive.into_source().hasher.finish();
    if actual != *layer.diff_id {
        return Err(UnpackError::Digest { expected: layer.diff_id.clone(), actual });
    }
    root.finish().map_err(|(path, error)| file_error(&path, error))?;
    Ok(done)
}

fn apply<R: Read>(
    root: &mut Root,
    entry: &Entry,
    content: &mut Archive<R>,
    most: u64,
) -> Result<(), UnpackError> {
    let path = clean(&entry.path).ok_or_else(|| UnpackError::Escape(lossy(&entry.path)))?;
    let failed = |error: io::Error| match exceeded(&error) {
        true => UnpackError::TooLarge(most),
        false => file_error(&entry.path, error),
    };
    let attributes = attributes(entry)?;
    let Some((name, parent)) = path.split_last() else {
        // The layer's own root.
        return match entry.kind {
            Kind::Directory => root.set_root(&attributes).map_err(failed),
            _ => Err(UnpackError::Escape(lossy(&entry.path))),
        };
    };
    if path.iter().any(|part| part.starts_with(WHITEOUT_META) && *part != OPAQUE) {
        return Ok(());
    }
    if *name == OPAQUE {
        return root.opaque(parent).map_err(failed);
    }
    if let Some(hidden) = name.strip_prefix(WHITEOUT) {
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(UnpackError::Whiteout(lossy(&entry.path)));
        }
        return root.whiteout(parent, hidden).map_err(failed);
    }
    match entry.kind {
        Kind::Directory => root.directory(parent, name, &attributes),
        Kind::File => root.file(parent, name, &attributes, content),
        Kind::Symlink => root.symlink(parent, name, &entry.link, &attributes),
        Kind::Link => {
            let target = clean(&entry.link).filter(|target| !target.is_empty());
            let target = target.ok_or_else(|| UnpackError::Escape(lossy(&entry.link)))?;
            root.link(parent, name, &target, &attributes)
        }
        Kind::Char | Kind::Block | Kind::Fifo => {
            root.node(parent, name, entry.kind, entry.device, &attributes)
        }
        Kind::Other(kind) => {
            return Err(UnpackError::Kind { path: lossy(&entry.path), kind: char::from(kind) });
        }
    }
    .map_err(failed)
}

fn attributes(entry: &Entry) -> Result<Attributes<'_>, UnpackError> {
    let id = |id: u64| {
        // The largest number means "leave it" to the kernel.
        u32::try_from(id)
            .ok()
            .filter(|id| *id != u32::MAX)
            .ok_or_else(|| UnpackError::Owner(lossy(&entry.path)))
    };
    Ok(Attributes {
        mode: entry.mode,
        uid: id(entry.uid)?,
        gid: id(entry.gid)?,
        mtime: (entry.mtime_seconds, entry.mtime_nanos),
        xattrs: &entry.xattrs,
    })
}

/// The parts of a path as written, `.` and `..` resolved by name alone. Nothing if it leads above its start or holds a NUL.
fn clean(path: &[u8]) -> Option<Vec<&[u8]>> {
    if path.contains(&0) {
        return None;
    }
    let mut parts = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts)
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn file_error(path: &[u8], error: io::Error) -> UnpackError {
    UnpackError::File { path: lossy(path), error }
}

fn archive_error(error: TarError, most: u64) -> UnpackError {
    match &error {
        TarError::Read(cause) if exceeded(cause) => UnpackError::TooLarge(most),
        _ => UnpackError::Archive(error.to_string()),
    }
}

/// The plain tar on its way: hashed, and cut where it becomes too large.
struct Hashing<R> {
    source: R,
    left: u64,
    hasher: Hasher,
}

#[derive(Debug, thiserror::Error)]
#[error("too large")]
struct Exceeded;

fn exceeded(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<Exceeded>())
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other(Exceeded))?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
