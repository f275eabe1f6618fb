//! Trees of files that pods have made: walked and removed without ever leaving them, however deep they are and whatever somebody
//! does to them meanwhile.
//!
//! Every step goes from an open directory to one of its entries, never through a link and never onto another mount.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Directories that stay open on the way down; of those below only the last is.
const MAX_OPEN: usize = 100;
/// What is remembered of directories that are not open.
const MAX_REMEMBERED_BYTES: usize = 64 << 20;
/// Each takes what lies that deep; nobody nests so deeply without meaning harm.
const MAX_PASSES: usize = 100_000;

/// A tree that does not let itself be walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwalkable {
    TooDeep,
    Moved,
}

impl Unwalkable {
    /// Whether the tree itself, and not the machine, is why it could not be walked.
    pub fn is_why(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Unwalkable>())
    }
}

impl std::fmt::Display for Unwalkable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unwalkable::TooDeep => "too many directories are nested too deeply",
            Unwalkable::Moved => "a directory was moved while it was walked",
        })
    }
}

impl std::error::Error for Unwalkable {}

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

/// Told of an entry: the directory it is in, its name, what it is.
type Visit<'a> = dyn FnMut(BorrowedFd<'_>, &CStr, &Stat) -> io::Result<()> + 'a;

/// Tells of every entry below the directory, of a directory's before its own; of the directory itself it does not. What vanishes
/// meanwhile is left out.
pub fn walk(root: &Path, visit: &mut Visit<'_>) -> io::Result<()> {
    let mut levels = vec![Level::new(open_root(root)?, None)?];
    let mut remembered = 0usize;
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { return Ok(()) };
        if let Some((child, own)) = level.next_directory(visit)? {
            if depth > MAX_OPEN {
                level.directory = None;
            }
            let mut child = Level::new(child, Some(own))?;
            if depth >= MAX_OPEN {
                child.list(visit, &mut remembered)?;
            }
            levels.push(child);
            continue;
        }
        let Some(ended) = levels.pop() else { return Ok(()) };
        remembered = remembered.saturating_sub(ended.remembered);
        if let (Some((name, stat)), Some(above)) = (&ended.own, levels.last_mut()) {
            visit(above.reopen(&ended)?, name, stat)?;
        }
    }
}

/// A directory on the way down.
struct Level {
    /// Its entry in the one above, to be told when its own are through.
    own: Option<(CString, Stat)>,
    /// `None`: closed while one below is walked, and opened again as the `..` of that.
    directory: Option<Dir>,
    /// Device and inode.
    id: (u64, u64),
    /// Directories in one that does not stay open, where reading would have to begin anew.
    waiting: Option<Vec<CString>>,
    remembered: usize,
}

impl Level {
    fn new(directory: OwnedFd, own: Option<(CString, Stat)>) -> io::Result<Level> {
        let id = id(&directory)?;
        Ok(Level { own, directory: Some(Dir::new(directory)?), id, waiting: None, remembered: 0 })
    }

    /// Reads all of it.
    fn list(&mut self, visit: &mut Visit<'_>, remembered: &mut usize) -> io::Result<()> {
        let mut remember = |bytes: usize| {
            self.remembered += bytes;
            *remembered += bytes;
            if *remembered > MAX_REMEMBERED_BYTES {
                Err(io::Error::other(Unwalkable::TooDeep))
            } else {
                Ok(())
            }
        };
        let mut waiting = Vec::new();
        remember(size_of::<Level>() + self.own.as_ref().map_or(0, |(name, _)| name.count_bytes()))?;
        if let Some(directory) = &mut self.directory {
            while let Some((name, _)) = read_directory(directory, visit)? {
                remember(size_of::<CString>() + name.count_bytes())?;
                waiting.push(name);
            }
        }
        self.waiting = Some(waiting);
        Ok(())
    }

    /// The next directory in it, opened; files before it are told.
    fn next_directory(&mut self, visit: &mut Visit<'_>) -> io::Result<Option<(OwnedFd, (CString, Stat))>> {
        let Some(directory) = &mut self.directory else { return Ok(None) };
        loop {
            let (name, stat) = match &mut self.waiting {
                None => match read_directory(directory, visit)? {
                    Some(found) => found,
                    None => return Ok(None),
                },
                Some(waiting) => {
                    let Some(name) = waiting.pop() else { return Ok(None) };
                    let stat = statat(directory.fd()?, &name, AtFlags::SYMLINK_NOFOLLOW);
                    let Some(stat) = present(stat)? else { continue };
                    (name, stat)
                }
            };
            match open_directory(directory.fd()?, &name) {
                Ok(child) => return Ok(Some((child, (name, stat)))),
                // Replaced by something else meanwhile, or another mount's: not ours to look into.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Once `below` is through.
    fn reopen(&mut self, below: &Level) -> io::Result<BorrowedFd<'_>> {
        let directory = match (self.directory.take(), &below.directory) {
            (Some(directory), _) => directory,
            (None, Some(below)) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
                let above = openat2(below.fd()?, "..", flags, Mode::empty(), resolve)?;
                if id(&above)? != self.id {
                    return Err(io::Error::other(Unwalkable::Moved));
                }
                Dir::new(above)?
            }
            (None, None) => return Err(io::Error::other(Unwalkable::Moved)),
        };
        Ok(self.directory.insert(directory).fd()?)
    }
}

fn id(directory: &OwnedFd) -> rustix::io::Result<(u64, u64)> {
    fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}

/// The next directory in one that is being read; files before it are told.
fn read_directory(directory: &mut Dir, visit: &mut Visit<'_>) -> io::Result<Option<(CString, Stat)>> {
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let name = entry.file_name().to_owned();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let here = directory.fd()?;
        let Some(stat) = present(statat(here, &name, AtFlags::SYMLINK_NOFOLLOW))? else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Ok(Some((name, stat)));
        }
        visit(here, &name, &stat)?;
    }
    Ok(None)
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
    fn a_walk_counts_as_many_directories_as_there_are_below_a_deep_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut here = folder.path().to_owned();
        for _ in 0..120 {
            here.push("d");
        }
        fs::create_dir_all(&here).unwrap();
        for name in 0..150 {
            fs::create_dir_all(here.join(format!("w{name}/x"))).unwrap();
            fs::write(here.join(format!("w{name}/f")), "x").unwrap();
        }
        let mut seen = Vec::new();
        walk(folder.path(), &mut |_, name, _| {
            seen.push(name.to_str().unwrap().to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.len(), 120 + 3 * 150);
        assert_eq!(seen.last().unwrap(), "d", "of a directory's before its own");
        assert_eq!(seen.iter().filter(|name| *name == "f").count(), 150);
    }

    #[test]
    fn a_walk_does_not_follow_a_deep_directory_that_is_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("volume"), folder.path().join("outside"));
        let mut here = root.clone();
        for _ in 0..120 {
            here.push("d");
        }
        fs::create_dir_all(here.join("e/f")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        let mut seen = Vec::new();
        let error = walk(&root, &mut |_, name, _| {
            seen.push(name.to_str().unwrap().to_owned());
            // Its `..` is another one from now on.
            if name == c"f" {
                fs::rename(here.join("e"), outside.join("e")).unwrap();
            }
            Ok(())
        })
        .unwrap_err();
        assert!(Unwalkable::is_why(&error), "{error}");
        assert_eq!(seen, ["f"]);
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
