//! The mounts of this machine that lie below a directory, and their end.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, openat2, statfs, statx,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};

/// A mount as `/proc/self/mountinfo` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub path: PathBuf,
    pub file_system: String,
    id: u64,
    parent: u64,
    /// With other mounts: what is mounted or unmounted below one of this group is so below all of them.
    peer_group: Option<u64>,
}

impl Mounted {
    /// In a peer group: mounts and unmounts below it propagate. systemd makes all mounts of a machine so.
    pub fn is_shared(&self) -> bool {
        self.peer_group.is_some()
    }
}

/// What is mounted at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Tmpfs,
    HugePages,
    Other,
}

/// Mounts at the directory and below it, those on top of others last.
pub fn below(directory: &Path) -> io::Result<Vec<Mounted>> {
    Ok(parse(&table()?).filter(|mounted| mounted.path.starts_with(directory)).collect())
}

/// The mount that holds a file or directory.
pub fn holding(path: &Path) -> io::Result<Option<Mounted>> {
    let (path, table) = (path.canonicalize()?, table()?);
    let holding = parse(&table).filter(|mounted| path.starts_with(&mounted.path));
    // Of those at one place the last one is on top.
    Ok(holding.max_by_key(|mounted| mounted.path.as_os_str().len()))
}

fn table() -> io::Result<Vec<u8>> {
    // The namespace is the thread's.
    std::fs::read("/proc/thread-self/mountinfo")
}

/// What is mounted at this very place; `None`: nothing. Asks the kernel about the place alone: the table of a node with many pods is
/// long.
pub fn at(path: &Path) -> io::Result<Option<FileSystem>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = match statx(CWD, path, flags, StatxFlags::empty()) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mounted = if stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    } else {
        // Kernels before 5.8.
        below(path)?.iter().any(|mounted| mounted.path == path)
    };
    if !mounted {
        return Ok(None);
    }
    Ok(Some(match statfs(path)?.f_type {
        TMPFS => FileSystem::Tmpfs,
        HUGETLBFS => FileSystem::HugePages,
        _ => FileSystem::Other,
    }))
}

/// How often a busy mount is tried again, and how long after.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58f6;

/// Mounts a tmpfs whose pages stay out of swap, where the kernel can.
pub fn tmpfs(path: &Path, size: Option<i64>) -> io::Result<()> {
    let size = size.filter(|size| *size > 0).map(|size| format!("size={size}"));
    let options = |noswap: bool| {
        let noswap = noswap.then(|| "noswap".to_owned());
        let all: Vec<String> = size.iter().cloned().chain(noswap).collect();
        std::ffi::CString::new(all.join(",")).map_err(io::Error::other)
    };
    let attempt = |options: &CStr| mount(c"tmpfs", path, c"tmpfs", MountFlags::empty(), options);
    match attempt(&options(true)?) {
        Err(Errno::INVAL) => Ok(attempt(&options(false)?)?),
        done => Ok(done?),
    }
}

pub fn hugetlbfs(path: &Path, page_size: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(format!("pagesize={page_size}")).map_err(io::Error::other)?;
    Ok(mount(c"nodev", path, c"hugetlbfs", MountFlags::empty(), options.as_c_str())?)
}

/// Unmounts all at and below the directory, the last mounted first. What these mounts were made from, and what is mounted there, stays.
pub fn unmount_below(directory: &Path) -> io::Result<()> {
    end_below(directory, UnmountFlags::empty())
}

/// The same, also of what somebody still uses.
pub fn detach_below(directory: &Path) -> io::Result<()> {
    end_below(directory, UnmountFlags::DETACH)
}

fn end_below(directory: &Path, flags: UnmountFlags) -> io::Result<()> {
    let (mut all, mut others) = below_and_groups_of_others(directory)?;
    let carriers = shared_carriers(&all);
    if !carriers.is_empty() {
        for mounted in carriers {
            if let Some(open) = present(open(&mounted.path))? {
                let path = format!("/proc/self/fd/{}", open.as_raw_fd());
                present(mount_change(path, MountPropagationFlags::PRIVATE))?;
            }
        }
        (all, others) = below_and_groups_of_others(directory)?;
    }
    // Covered by another mount at the same place, where no path leads to it, and shared with what is to stay. A volume that is nobody
    // else's may lose what its pod mounted on it.
    let is_theirs = |mounted: &&Mounted| mounted.peer_group.is_some_and(|group| others.contains(&group));
    let shared: BTreeSet<u64> = all.iter().filter(is_theirs).map(|mounted| mounted.id).collect();
    for mounted in all.iter().rev() {
        let path = mounted.path.display();
        if shared.contains(&mounted.parent) {
            let why = "it covers what is shared with the host, which would lose it as well; unmount it there";
            return Err(io::Error::other(format!("cannot unmount {path}: {why}")));
        }
        unmount_one(&mounted.path, flags)
            .map_err(|error| io::Error::other(format!("unmount {path}: {error}")))?;
    }
    if all.is_empty() {
        return Ok(());
    }
    match below(directory)?.first() {
        None => Ok(()),
        Some(left) => Err(io::Error::other(format!("{} is still mounted", left.path.display()))),
    }
}

/// What [`below`] gives, and the peer groups of all that is mounted elsewhere.
fn below_and_groups_of_others(directory: &Path) -> io::Result<(Vec<Mounted>, BTreeSet<u64>)> {
    let (mut below, mut groups) = (Vec::new(), BTreeSet::new());
    for mounted in parse(&table()?) {
        if mounted.path.starts_with(directory) {
            below.push(mounted);
        } else {
            groups.extend(mounted.peer_group);
        }
    }
    Ok((below, groups))
}

/// Shared as a bind is with what it was made from, on most machines: what is unmounted on it would be unmounted there. The others
/// are not to be opened: with an NFS server that is gone, that fails or blocks, and unmounting does not.
fn shared_carriers(all: &[Mounted]) -> Vec<&Mounted> {
    let parents: BTreeSet<u64> = all.iter().map(|mounted| mounted.parent).collect();
    all.iter().filter(|mounted| mounted.peer_group.is_some() && parents.contains(&mounted.id)).collect()
}

fn unmount_one(path: &Path, flags: UnmountFlags) -> rustix::io::Result<()> {
    // Opened itself, it would be in use.
    let parent = open(path.parent().unwrap_or(path));
    let Some(parent) = present(parent)? else { return Ok(()) };
    let name = path.file_name().unwrap_or(OsStr::new("."));
    let path = Path::new("/proc/self/fd").join(parent.as_raw_fd().to_string()).join(name);
    let mut tries = 1;
    loop {
        match present(unmount(&path, flags | UnmountFlags::NOFOLLOW)) {
            // A child that another thread has just forked shares our descriptors until its exec.
            Err(Errno::BUSY) if tries < BUSY_TRIES => tries += 1,
            done => return done.map(drop),
        }
        #[allow(clippy::disallowed_methods, reason = "who unmounts may block, and is not part of a world")]
        std::thread::sleep(BUSY_PAUSE);
    }
}

/// No link on the way: pods may replace directories of their volumes.
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// `None`: somebody else has seen to it.
fn present<T>(done: rustix::io::Result<T>) -> rustix::io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(table: &[u8]) -> impl Iterator<Item = Mounted> {
    table.split(|b| *b == b'\n').filter_map(|line| {
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        let mut fields = line.split(|b| *b == b' ');
        let mut number = || text(fields.next()?).parse().ok();
        let (id, parent) = (number()?, number()?);
        let path = PathBuf::from(OsString::from_vec(unescape(fields.nth(2)?)));
        let optional = fields.by_ref().skip(1).take_while(|field| *field != b"-");
        // To their end: what follows is the file system.
        let group = |field: &[u8]| text(field.strip_prefix(b"shared:")?).parse().ok();
        let peer_group = optional.filter_map(group).last();
        Some(Mounted { path, file_system: text(fields.next()?), id, parent, peer_group })
    })
}

/// `\040` and the like as the bytes they stand for.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
