//! Trees of files that pods have made: walked and removed without ever leaving them, however deep they are and whatever somebody
//! does to them meanwhile.
//!
//! Every step goes from an open directory to one of its entries, never through a link and never onto another mount.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Open directories on the way down; what is deeper waits in a list of its own.
const MAX_OPEN: usize = 100;
const MAX_WAITING: usize = 100;
/// Each takes what lies that deep; nobody nests so deeply without meaning harm.
const MAX_PASSES: usize = 100_000;

fn open_directory(parent: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(parent, name, flags, Mode::empty(), resolve)
}

/// The directory itself, which may be a mount.
fn open_root(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Tells of every entry below the directory, of a directory's before its own; of the directory itself it does not. What vanishes
/// meanwhile is left out.
pub fn walk(
    root: &Path,
    visit: &mut dyn FnMut(BorrowedFd<'_>, &std::ffi::CStr, &Stat) -> io::Result<()>,
) -> io::Result<()> {
    let mut waiting = vec![open_root(root)?];
    while let Some(top) = waiting.pop() {
        walk_from(top, &mut waiting, visit)?;
    }
    Ok(())
}

fn walk_from(
    top: OwnedFd,
    waiting: &mut Vec<OwnedFd>,
    visit: &mut dyn FnMut(BorrowedFd<'_>, &std::ffi::CStr, &Stat) -> io::Result<()>,
) -> io::Result<()> {
    // Each with its entry in the one above, to be told when its own are through.
    let mut open: Vec<(Dir, Option<(CString, Stat)>)> = vec![(Dir::new(top)?, None)];
    loop {
        let depth = open.len();
        let Some((directory, _)) = open.last_mut() else { break };
        match directory.read() {
            Some(entry) => {
                let entry = entry?;
                let name = entry.file_name().to_owned();
                if name.as_bytes() == b"." || name.as_bytes() == b".." {
                    continue;
                }
                let here = directory.fd()?;
                let Some(stat) = present(statat(here, &name, AtFlags::SYMLINK_NOFOLLOW))? else { continue };
                if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                    visit(here, &name, &stat)?;
                    continue;
                }
                let child = match open_directory(here, &name) {
                    Ok(child) => child,
                    // Replaced by something else meanwhile, or another mount's: not ours to look into.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => continue,
                    Err(error) => return Err(error.into()),
                };
                if depth < MAX_OPEN {
                    open.push((Dir::new(child)?, Some((name, stat))));
                } else if waiting.len() < MAX_WAITING {
                    visit(here, &name, &stat)?;
                    waiting.push(child);
                } else {
                    return Err(io::Error::other("directories are nested too deeply"));
                }
            }
            None => {
                let own = open.pop().and_then(|(_, own)| own);
                if let (Some((name, stat)), Some((above, _))) = (own, open.last()) {
                    visit(above.fd()?, &name, &stat)?;
                }
            }
        }
    }
    Ok(())
}

fn present<T>(found: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes a file or a directory with all that is in it. Nothing at that place is fine too.
///
/// Directories below a certain depth move up to the root and are removed from there, so that neither the number of open files nor the
/// stack grows with the depth.
pub fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("the root of the machine"));
    };
    let Some(parent) = present(rustix::fs::open(parent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))?
    else {
        return Ok(());
    };
    // A mount is refused here as anywhere below: its files are somebody else's.
    let root = match open_directory(&parent, name) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlinkat(&parent, name, AtFlags::empty())?),
        Err(error) => return Err(error.into()),
    };
    let mut moved = 0;
    for _ in 0..MAX_PASSES {
        empty(&root, &root, 0, &mut moved)?;
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // What was moved up, or came meanwhile.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other(format!("{}: somebody still writes there", path.display())))
}

fn empty(root: &OwnedFd, directory: &OwnedFd, depth: usize, moved: &mut u64) -> io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // Not all file systems say what an entry is.
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some(child) = present(open_directory(directory, name))? else { continue };
        if depth < MAX_OPEN {
            empty(root, &child, depth + 1, moved)?;
            match unlinkat(directory, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        // A name nobody else would choose; taken ones are passed over.
        *moved += 1;
        match renameat(directory, name, root, format!("..removed.{moved}")) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Deeper than a path can be long, and than directories are kept open.
    fn deep(root: &Path, levels: usize) {
        let mut here = open_root(root).unwrap();
        let name = "d".repeat(100);
        for level in 0..levels {
            rustix::fs::mkdirat(&here, &*name, Mode::from_raw_mode(0o755)).unwrap();
            here = open_directory(&here, &*name).unwrap();
            if level % 100 == 0 {
                let flags = OFlags::CREATE | OFlags::WRONLY;
                rustix::fs::openat(&here, "f", flags, Mode::from_raw_mode(0o644)).unwrap();
            }
        }
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("volume");
        fs::create_dir(&root).unwrap();
        deep(&root, 300);
        remove(&root).unwrap();
        assert!(!root.exists());
        remove(&root).unwrap();
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("volume"), folder.path().join("outside"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(outside.join("kept")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("a/link")).unwrap();
        fs::write(root.join("a/b/file"), "x").unwrap();
        fs::create_dir_all(root.join("..removed.1/full")).unwrap();
        remove(&root).unwrap();
        assert!(!root.exists());
        assert!(outside.join("kept").exists());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        remove(&link).unwrap();
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn a_walk_tells_of_all_below_and_of_directories_last() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/c"), "x").unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("l")).unwrap();
        let mut seen = Vec::new();
        walk(folder.path(), &mut |_, name, _| {
            seen.push(name.to_str().unwrap().to_owned());
            Ok(())
        })
        .unwrap();
        let all: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
        assert_eq!(all, BTreeSet::from(["a", "b", "c", "l"]));
        let place = |name: &str| seen.iter().position(|seen| seen == name).unwrap();
        assert!(place("c") < place("b") && place("b") < place("a"));
    }

    #[test]
    fn a_walk_finds_the_end_of_a_deep_tree() {
        let folder = tempfile::tempdir().unwrap();
        deep(folder.path(), 250);
        let mut count = 0;
        walk(folder.path(), &mut |_, _, _| {
            count += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(count, 250 + 3);
        remove(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
    }
}
