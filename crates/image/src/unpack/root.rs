//! The directory a layer is unpacked into, and the only way to it.
//!
//! Directories are opened by openat2 with the layer as the root of all links, so a link to `/etc` means the layer's own. What is
//! made in them is made by its name alone, never through a link. Nobody else writes here: the directory is new and ours.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::tree::remove_tree;
use crate::tar::Kind;

const OPAQUE: &str = "trusted.overlay.opaque";
/// Most files are copied in one step.
const BUFFER: usize = 128 << 10;

pub(super) struct Attributes<'a> {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds.
    pub mtime: (i64, u32),
    pub xattrs: &'a BTreeMap<Vec<u8>, Vec<u8>>,
}

pub(super) struct Root {
    root: OwnedFd,
    trash: OwnedFd,
    below: Vec<PathBuf>,
    /// The directory of the last file: archives list a directory's files together.
    last: Option<(Vec<u8>, OwnedFd)>,
    /// Times of directories are set last, as every file made in them changes theirs.
    times: BTreeMap<Vec<u8>, (i64, u32)>,
    buffer: Vec<u8>,
}

pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

fn beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b".".as_slice() } else { path };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // The kernel saw some rename elsewhere on the machine and could not be sure.
            Err(Errno::AGAIN) if tries < 128 => tries += 1,
            opened => return opened,
        }
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl Root {
    pub fn new(root: OwnedFd, trash: OwnedFd, below: Vec<PathBuf>) -> Root {
        Root { root, trash, below, last: None, times: BTreeMap::new(), buffer: vec![0; BUFFER] }
    }

    pub fn set_root(&mut self, attributes: &Attributes<'_>) -> io::Result<()> {
        set(self.root.as_fd(), attributes)?;
        self.times.insert(Vec::new(), attributes.mtime);
        Ok(())
    }

    pub fn directory(
        &mut self,
        parent: &[&[u8]],
        name: &[u8],
        attributes: &Attributes<'_>,
    ) -> io::Result<()> {
        let folder = self.open(parent)?;
        match kind(&folder, name)? {
            Some(FileType::Directory) => {}
            there => {
                self.replace(&folder, name, there)?;
                rustix::fs::mkdirat(&folder, name, Mode::RWXU)?;
                // The layer took away what was here below, and puts something new in its place.
                if there == Some(FileType::CharacterDevice) {
                    self.set_opaque(&child(&folder, name)?)?;
                }
            }
        }
        set(child(&folder, name)?.as_fd(), attributes)?;
        let path = [parent.join(&b'/'), name.to_vec()].join(&b'/');
        self.times.insert(path, attributes.mtime);
        self.keep(parent, folder);
        Ok(())
    }

    pub fn file(
        &mut self,
        parent: &[&[u8]],
        name: &[u8],
        attributes: &Attributes<'_>,
        content: &mut impl Read,
    ) -> io::Result<()> {
        let folder = self.make_place(parent, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?);
        loop {
            match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => file.write_all(&self.buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        set(file.as_fd(), attributes)?;
        rustix::fs::futimens(&file, &timestamps(attributes.mtime))?;
        self.keep(parent, folder);
        Ok(())
    }

    pub fn symlink(
        &mut self,
        parent: &[&[u8]],
        name: &[u8],
        target: &[u8],
        attributes: &Attributes<'_>,
    ) -> io::Result<()> {
        let folder = self.make_place(parent, name)?;
        rustix::fs::symlinkat(target, &folder, name)?;
        self.set_by_name(&folder, name, attributes)
    }

    pub fn link(
        &mut self,
        parent: &[&[u8]],
        name: &[u8],
        target: &[&[u8]],
        attributes: &Attributes<'_>,
    ) -> io::Result<()> {
        let Some((target_name, target_parent)) = target.split_last() else { return Err(Errno::INVAL.into()) };
        let folder = self.open(parent)?;
        let target_folder = beneath(self.root.as_fd(), &target_parent.join(&b'/'), DIRECTORY)?;
        let stat = rustix::fs::statat(&target_folder, *target_name, AtFlags::SYMLINK_NOFOLLOW)?;
        let there = kind(&folder, name)?;
        if there.is_some() {
            // A link to itself would remove what it links to.
            let old = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if (old.st_ino, old.st_dev) == (stat.st_ino, stat.st_dev) {
                return Ok(());
            }
        }
        self.replace(&folder, name, there)?;
        rustix::fs::linkat(&target_folder, *target_name, &folder, name, AtFlags::empty())?;
        // One inode: owner and mode are those of the first name, as archivers write them twice.
        let times = timestamps(attributes.mtime);
        Ok(rustix::fs::utimensat(&folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub fn node(
        &mut self,
        parent: &[&[u8]],
        name: &[u8],
        kind: Kind,
        (major, minor): (u32, u32),
        attributes: &Attributes<'_>,
    ) -> io::Result<()> {
        let kind = match kind {
            Kind::Char => FileType::CharacterDevice,
            Kind::Block => FileType::BlockDevice,
            _ => FileType::Fifo,
        };
        let folder = self.make_place(parent, name)?;
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(&folder, name, kind, Mode::RUSR | Mode::WUSR, device)?;
        self.set_by_name(&folder, name, attributes)
    }

    /// Hides what the layers below have under that name.
    pub fn whiteout(&mut self, parent: &[&[u8]], name: &[u8]) -> io::Result<()> {
        let folder = self.open(parent)?;
        match kind(&folder, name)? {
            // This layer has something new of that name: only what is below is hidden.
            Some(FileType::Directory) => self.set_opaque(&child(&folder, name)?)?,
            Some(_) => {}
            None => rustix::fs::mknodat(&folder, name, FileType::CharacterDevice, Mode::empty(), 0)?,
        }
        self.keep(parent, folder);
        Ok(())
    }

    /// Hides what the layers below have in that directory.
    pub fn opaque(&mut self, path: &[&[u8]]) -> io::Result<()> {
        let folder = self.open(path)?;
        self.set_opaque(&folder)
    }

    /// Sets the times of directories; an error names the one.
    pub fn finish(self) -> Result<(), (Vec<u8>, io::Error)> {
        for (path, mtime) in &self.times {
            let set = || match beneath(self.root.as_fd(), path, DIRECTORY | OFlags::NOFOLLOW) {
                Ok(fd) => rustix::fs::futimens(&fd, &timestamps(*mtime)),
                // Something else took its place.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
                Err(error) => Err(error),
            };
            set().map_err(|error| (path.clone(), error.into()))?;
        }
        Ok(())
    }

    fn set_opaque(&self, folder: &OwnedFd) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(folder, OPAQUE, b"y", XattrFlags::empty())?)
    }

    /// The directory, with nothing called `name` in it.
    fn make_place(&mut self, parent: &[&[u8]], name: &[u8]) -> io::Result<OwnedFd> {
        let folder = self.open(parent)?;
        let there = kind(&folder, name)?;
        self.replace(&folder, name, there)?;
        Ok(folder)
    }

    fn replace(&mut self, folder: &OwnedFd, name: &[u8], there: Option<FileType>) -> io::Result<()> {
        // What was a directory may become a link, and paths through it something else.
        self.last = None;
        match there {
            Some(_) => remove_tree(folder.as_fd(), name, self.trash.as_fd()),
            None => Ok(()),
        }
    }

    fn keep(&mut self, parent: &[&[u8]], folder: OwnedFd) {
        self.last = Some((parent.join(&b'/'), folder));
    }

    /// A directory of the layer; what is missing on the way is made like that of the layers below.
    fn open(&mut self, path: &[&[u8]]) -> io::Result<OwnedFd> {
        let full = path.join(&b'/');
        if let Some((last, fd)) = self.last.take_if(|(last, _)| *last == full) {
            debug_assert_eq!(last, full);
            return Ok(fd);
        }
        match beneath(self.root.as_fd(), &full, DIRECTORY) {
            Err(Errno::NOENT) => {}
            opened => return Ok(opened?),
        }
        let mut folder = beneath(self.root.as_fd(), b"", DIRECTORY)?;
        for (at, name) in path.iter().enumerate() {
            let so_far = path[..=at].join(&b'/');
            folder = match beneath(self.root.as_fd(), &so_far, DIRECTORY) {
                Err(Errno::NOENT) => {
                    // Of a link that leads nowhere this says that it exists.
                    rustix::fs::mkdirat(
                        &folder,
                        *name,
                        Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH,
                    )?;
                    let made = child(&folder, name)?;
                    self.inherit(&so_far, made.as_fd())?;
                    made
                }
                opened => opened?,
            };
        }
        Ok(folder)
    }

    /// Owner, mode and time of the directory of that path in the nearest layer below.
    fn inherit(&mut self, path: &[u8], made: BorrowedFd<'_>) -> io::Result<()> {
        let mut mode = Mode::from_raw_mode(0o755);
        for below in &self.below {
            // Opened only here, which is rare: an image has hundreds of layers, and a process a thousand descriptors.
            let below = open_directory(below)?;
            let there = match beneath(below.as_fd(), path, OFlags::PATH | OFlags::NOFOLLOW) {
                Ok(there) => there,
                Err(Errno::NOENT) => continue,
                Err(_) => break,
            };
            let stat = rustix::fs::fstat(&there)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                rustix::fs::fchown(made, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
                mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
                let mtime = (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or_default());
                self.times.insert(path.to_vec(), mtime);
            }
            break;
        }
        Ok(rustix::fs::fchmod(made, mode)?)
    }

    /// For what has no descriptor of its own: links and devices.
    fn set_by_name(&self, folder: &OwnedFd, name: &[u8], attributes: &Attributes<'_>) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
        rustix::fs::chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        if kind(folder, name)? != Some(FileType::Symlink) {
            // This follows links; but it is none, and nobody else is here.
            rustix::fs::chmodat(folder, name, Mode::from_raw_mode(attributes.mode), AtFlags::empty())?;
        }
        let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        for (key, value) in wanted(attributes.xattrs) {
            forgive(rustix::fs::lsetxattr(path.as_slice(), key, value, XattrFlags::empty()))?;
        }
        let times = timestamps(attributes.mtime);
        Ok(rustix::fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Owner before mode, and mode before attributes: a change of owner takes away setuid bits and capabilities.
fn set(fd: BorrowedFd<'_>, attributes: &Attributes<'_>) -> io::Result<()> {
    rustix::fs::fchown(fd, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
    rustix::fs::fchmod(fd, Mode::from_raw_mode(attributes.mode))?;
    for (key, value) in wanted(attributes.xattrs) {
        forgive(rustix::fs::fsetxattr(fd, key, value, XattrFlags::empty()))?;
    }
    Ok(())
}

/// Those that mean something to overlayfs are ours alone: a layer that could set them would choose what others see of other layers.
fn wanted(xattrs: &BTreeMap<Vec<u8>, Vec<u8>>) -> impl Iterator<Item = (&[u8], &[u8])> {
    let ours = |key: &[u8]| key.starts_with(b"trusted.") || key.starts_with(b"user.overlay.");
    xattrs.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).filter(move |(key, _)| !ours(key))
}

/// A file system without attributes of that kind is no reason to refuse an image.
fn forgive(set: Result<(), Errno>) -> io::Result<()> {
    match set {
        Err(Errno::NOTSUP) => Ok(()),
        set => Ok(set?),
    }
}

fn kind(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<FileType>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn child(folder: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(folder, name, DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

fn timestamps((seconds, nanos): (i64, u32)) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}
