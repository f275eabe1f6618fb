//! Removes what may be as deep and as wide as somebody else liked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Removes `name` in `parent`, and all below it. Follows no link and takes three descriptors however deep it is: a directory
/// that is not empty is moved to `trash` (a directory on the same file system) and emptied there.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &[u8], trash: BorrowedFd<'_>) -> io::Result<()> {
    match remove_one(parent, name) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) => return Err(error.into()),
    }
    let mut number = 0;
    let mut queue = vec![move_to(parent, name, trash, &mut number)?];
    while let Some(name) = queue.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(trash, name.as_str(), flags, Mode::empty())?;
        let entries: Vec<Vec<u8>> = Dir::read_from(&fd)?
            .map(|entry| Ok(entry?.file_name().to_bytes().to_vec()))
            .filter(|name| !matches!(name.as_deref(), Ok(b"." | b"..")))
            .collect::<Result<_, Errno>>()?;
        for entry in entries {
            if !remove_one(fd.as_fd(), &entry)? {
                queue.push(move_to(fd.as_fd(), &entry, trash, &mut number)?);
            }
        }
        rustix::fs::unlinkat(trash, name.as_str(), AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Whether it is gone: not if it is a directory that holds something.
fn remove_one(parent: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Under a name that is free there.
fn move_to(
    parent: BorrowedFd<'_>,
    name: &[u8],
    trash: BorrowedFd<'_>,
    number: &mut u64,
) -> Result<String, Errno> {
    loop {
        let free = format!(".removed-{number}");
        match rustix::fs::renameat_with(parent, name, trash, free.as_str(), RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(free),
            Err(Errno::EXIST) => *number += 1,
            Err(error) => return Err(error),
        }
    }
}
