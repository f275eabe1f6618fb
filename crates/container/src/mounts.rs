//! The mounts of this machine that lie below a directory, and their end.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statfs, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A mount as `/proc/self/mountinfo` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub path: PathBuf,
    pub file_system: String,
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
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(parse(&table).filter(|mounted| mounted.path.starts_with(directory)).collect())
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

/// Unmounts all at and below the directory, the last mounted first.
pub fn unmount_below(directory: &Path) -> io::Result<()> {
    for mounted in below(directory)?.into_iter().rev() {
        match unmount(&mounted.path, UnmountFlags::NOFOLLOW) {
            // Somebody else has seen to it.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => {
                let path = mounted.path.display();
                return Err(io::Error::other(format!("unmount {path}: {error}")));
            }
        }
    }
    match below(directory)?.first() {
        None => Ok(()),
        Some(left) => Err(io::Error::other(format!("{} is still mounted", left.path.display()))),
    }
}

fn parse(table: &[u8]) -> impl Iterator<Item = Mounted> {
    table.split(|b| *b == b'\n').filter_map(|line| {
        let mut fields = line.split(|b| *b == b' ');
        let path = unescape(fields.nth(4)?);
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
        let file_system = text(rest.next()?);
        Some(Mounted { path: PathBuf::from(OsString::from_vec(path)), file_system })
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
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_odd_names() {
        let table = b"22 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n\
            40 28 0:30 /x /a\\040b\\134c rw - tmpfs tmpfs rw,size=64k\n\
            41 40 0:31 / /a\\040b\\134c/d rw shared:1 master:2 - hugetlbfs nodev rw,pagesize=2M\nbroken\n";
        let all: Vec<Mounted> = parse(table).collect();
        let seen: Vec<_> = all.iter().map(|m| (m.path.to_str().unwrap(), m.file_system.as_str())).collect();
        assert_eq!(seen, [("/proc", "proc"), ("/a b\\c", "tmpfs"), ("/a b\\c/d", "hugetlbfs")]);
        assert_eq!(at(Path::new("/proc")).unwrap(), Some(FileSystem::Other));
        assert_eq!(at(Path::new("/proc/self")).unwrap(), None);
        assert_eq!(at(Path::new("/nowhere/at/all")).unwrap(), None);
    }
}
