//! `subPath`: a part of a volume, reached without a link ever leading out of it.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, mkdirat, openat2};
use rustix::io::Errno;
use rustix::mount::mount_bind;

use super::host_path::check_backsteps;
use crate::directories;

/// The volume, and where it is.
struct Volume<'a> {
    root: OwnedFd,
    path: &'a Path,
}

impl Volume<'_> {
    /// Links are followed, as long as they lead to something in the volume.
    fn open(&self, path: &str) -> io::Result<OwnedFd> {
        match self.open_with(Path::new(path), ResolveFlags::empty()) {
            // A link that names its target from the machine's root, or leads out and in again.
            Err(Errno::XDEV) => {}
            opened => return Ok(opened?),
        }
        let real = self.path.join(path).canonicalize()?;
        let below = real.strip_prefix(self.path.canonicalize()?).map_err(|_| Errno::XDEV)?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        // Who puts a link there now gets nothing.
        Ok(self.open_with(below, ResolveFlags::NO_SYMLINKS)?)
    }

    fn open_with(&self, path: &Path, more: ResolveFlags) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::BENEATH | more)
    }
}

/// What is wrong with the path itself, in kubelet's words.
pub fn check(sub_path: &str) -> Result<(), String> {
    if sub_path.starts_with('/') {
        return Err(format!("error SubPath `{sub_path}` must not be an absolute path"));
    }
    check_backsteps(sub_path).map_err(|error| format!("unable to provision SubPath `{sub_path}`: {error}"))
}

/// Makes the directories that are missing, with the mode of the volume's own, and opens the last.
pub fn make(volume: &Path, sub_path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let volume = Volume { root: rustix::fs::open(volume, flags, Mode::empty())?, path: volume };
    // Set-gid and sticky bits too: a subdirectory of a group's volume is the group's, and what is all users' stays it.
    let mode = Mode::from_raw_mode(fstat(&volume.root)?.st_mode & 0o7777);
    let mut here = rustix::io::fcntl_dupfd_cloexec(&volume.root, 0)?;
    let mut so_far = String::new();
    for part in sub_path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if !so_far.is_empty() {
            so_far.push('/');
        }
        so_far.push_str(part);
        here = match volume.open(&so_far) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match mkdirat(&here, part, mode) {
                    Ok(()) => {}
                    // A link that leads nowhere is not made whole.
                    Err(Errno::EXIST) => volume.open(&so_far).map(drop)?,
                    Err(error) => return Err(error.into()),
                }
                let made = openat2(
                    &here,
                    part,
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
                )?;
                // Mkdir minds the umask.
                fchmod(&made, mode)?;
                made
            }
            Err(error) => return Err(error),
        };
    }
    Ok(here)
}

/// Binds what is open to a place of its own, which stays that whatever the pod does to the volume. A container that is started again
/// gets what the path means then. What is mounted below it is not part of it.
pub fn bind(source: &OwnedFd, target: &Path) -> io::Result<()> {
    if container::mounts::at(target)?.is_some() {
        let (wanted, there) = (fstat(source)?, rustix::fs::stat(target)?);
        if (wanted.st_dev, wanted.st_ino) == (there.st_dev, there.st_ino) {
            return Ok(());
        }
        container::mounts::unmount_below(target)?;
        container::tree::remove(target)?;
    }
    if let Some(parent) = target.parent() {
        directories::make(parent)?;
    }
    if FileType::from_raw_mode(fstat(source)?.st_mode) == FileType::Directory {
        directories::make(target)?;
    } else {
        std::fs::OpenOptions::new().create(true).append(true).open(target)?;
    }
    Ok(mount_bind(format!("/proc/self/fd/{}", source.as_raw_fd()), target)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn missing_directories_get_the_volumes_mode() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o3777)).unwrap();
        make(folder.path(), "a/./b//c").unwrap();
        for part in ["a", "a/b", "a/b/c"] {
            assert_eq!(fs::metadata(folder.path().join(part)).unwrap().mode() & 0o7777, 0o3777, "{part}");
        }
        fs::write(folder.path().join("a/file"), "x").unwrap();
        make(folder.path(), "a/file").unwrap();
        make(folder.path(), "").unwrap();
    }

    #[test]
    fn links_within_the_volume_are_followed_and_others_refused() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join("real")).unwrap();
        symlink("real", folder.path().join("inside")).unwrap();
        symlink(folder.path().join("real"), folder.path().join("whole")).unwrap();
        symlink(folder.path(), folder.path().join("itself")).unwrap();
        let back = Path::new("..").join(folder.path().file_name().unwrap());
        symlink(back.join("real"), folder.path().join("back")).unwrap();
        symlink(outside.path(), folder.path().join("absolute")).unwrap();
        symlink("..", folder.path().join("up")).unwrap();
        symlink("nowhere", folder.path().join("dangling")).unwrap();
        make(folder.path(), "inside/new").unwrap();
        assert!(folder.path().join("real/new").is_dir());
        let real = fs::metadata(folder.path().join("real/new")).unwrap();
        for path in ["whole/new", "back/new", "itself/whole/new", "itself/itself/back/new"] {
            let opened = fstat(make(folder.path(), path).unwrap()).unwrap();
            assert_eq!((opened.st_dev, opened.st_ino), (real.dev(), real.ino()), "{path}");
        }
        make(folder.path(), "whole/later/still").unwrap();
        assert!(folder.path().join("real/later/still").is_dir());
        // A volume is what its path leads to.
        let link = outside.path().join("volume");
        symlink(folder.path(), &link).unwrap();
        make(&link, "whole/new").unwrap();
        fs::remove_file(&link).unwrap();
        for escape in ["absolute", "absolute/new", "up/new", "dangling/new", "dangling"] {
            assert!(make(folder.path(), escape).is_err(), "{escape}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn paths_are_refused_in_kubelets_words() {
        assert_eq!(check("/a").unwrap_err(), "error SubPath `/a` must not be an absolute path");
        assert_eq!(check("a/..").unwrap_err(), "unable to provision SubPath `a/..`: must not contain '..'");
        assert_eq!(check("a..b/c"), Ok(()));
    }
}
