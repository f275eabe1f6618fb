//! Where in a container something is mounted or made: found without leaving its root, and made where it is missing.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Context, StartError};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;
/// Of names: a path of the kernel's greatest length has no more.
const MOST_NAMES: usize = 4096;

/// A file or directory of the container.
pub struct Target {
    pub file: OwnedFd,
    /// From the root on, without links.
    pub path: PathBuf,
}

/// The file or directory to mount on, made where it is missing: also where a link of the image leads to nothing.
pub fn make(root: BorrowedFd<'_>, target: &Path, directory: bool) -> Result<Target, StartError> {
    let mut walk = Walk { root, above: Vec::new(), to_go: VecDeque::new(), links: 0 };
    walk.add(target)
        .and_then(|()| walk.go(directory))
        .context(|| format!("failed to make {}", target.display()))
}

/// As the kernel walks a path within a root, one name at a time, and none of them a link: what changes meanwhile is an error, not a
/// way out.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// What was entered, with its name.
    above: Vec<(OsString, OwnedFd)>,
    to_go: VecDeque<OsString>,
    links: usize,
}

impl Walk<'_> {
    /// Goes there first.
    fn add(&mut self, path: &Path) -> rustix::io::Result<()> {
        if path.is_absolute() {
            self.above.clear();
        }
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.to_go.push_front(name.to_owned()),
                Component::ParentDir => self.to_go.push_front("..".into()),
                _ => {}
            }
        }
        if self.to_go.len() > MOST_NAMES { Err(Errno::NAMETOOLONG) } else { Ok(()) }
    }

    fn go(mut self, directory: bool) -> rustix::io::Result<Target> {
        while let Some(name) = self.to_go.pop_front() {
            if name == ".." {
                self.above.pop();
                continue;
            }
            let as_directory = directory || !self.to_go.is_empty();
            let there = match self.open(&name) {
                Err(Errno::NOENT) => {
                    self.create(&name, as_directory)?;
                    self.open(&name)?
                }
                opened => opened?,
            };
            let stat = rustix::fs::fstat(&there)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                self.above.push((name, there));
                continue;
            }
            self.links += 1;
            if self.links > MOST_LINKS {
                return Err(Errno::LOOP);
            }
            let to = rustix::fs::readlinkat(&there, "", Vec::new())?;
            self.add(Path::new(&OsString::from_vec(to.into_bytes())))?;
        }
        let path = Path::new("/").join(self.above.iter().map(|(name, _)| name).collect::<PathBuf>());
        let file = match self.above.pop() {
            Some((_, file)) => file,
            None => rustix::fs::openat(self.root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
        };
        Ok(Target { file, path })
    }

    fn at(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.above.last().map_or(self.root, |(_, file)| file.as_fd())
    }

    fn open(&self, name: &OsStr) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(self.at(), name, flags, Mode::empty())
    }

    fn create(&self, name: &OsStr, directory: bool) -> rustix::io::Result<()> {
        if directory {
            return rustix::fs::mkdirat(self.at(), name, Mode::from_raw_mode(0o755));
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(self.at(), name, flags, Mode::from_raw_mode(0o644)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_within_the_root_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        symlink("/run/resolv.conf", root.join("etc/resolv.conf")).unwrap();
        symlink("../../../../out", root.join("up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("etc", root.join("short")).unwrap();
        let open = std::fs::File::open(&root).unwrap();
        let path = |target: &str, directory| make(open.as_fd(), Path::new(target), directory).map(|t| t.path);
        for (target, directory, expected) in [
            // What it leads to is missing, and made.
            ("/etc/resolv.conf", false, "/run/resolv.conf"),
            ("/up/deep", true, "/out/deep"),
            ("short/../../../x", true, "/x"),
            ("short/hosts", false, "/etc/hosts"),
            ("/", true, "/"),
        ] {
            assert_eq!(path(target, directory).unwrap(), Path::new(expected), "{target}");
            assert!(root.join(expected.trim_start_matches('/')).exists(), "{target}");
        }
        assert!(root.join("run/resolv.conf").is_file());
        assert!(!folder.path().join("out").exists() && !folder.path().join("x").exists());
        assert!(path("/loop/x", true).is_err());
        assert!(path("/etc/hosts/x", true).is_err());
    }
}
