//! The group of a pod's files: `fsGroup` and `fsGroupChangePolicy`.

use std::io;
use std::path::Path;

use container::tree;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, chmodat, chownat};

/// `fsGroupChangePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangePolicy {
    Always,
    /// Not if the volume's own directory is right already.
    OnRootMismatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub group: u32,
    pub read_only: bool,
    pub policy: ChangePolicy,
}

const READ_WRITE: u32 = 0o660;
const READ_ONLY: u32 = 0o440;
const SEARCH: u32 = 0o110;
const SET_GID: u32 = 0o2000;

impl Ownership {
    /// Gives all files to the group. The directory itself comes last, so that one that was interrupted begins anew.
    pub fn apply(&self, directory: &Path) -> io::Result<()> {
        let root = rustix::fs::stat(directory)?;
        if self.policy == ChangePolicy::OnRootMismatch && self.fits(&root) {
            return Ok(());
        }
        tree::walk(directory, &mut |parent, name, stat| self.change(parent, name, stat))?;
        self.change(rustix::fs::CWD, directory, &root)
    }

    fn fits(&self, root: &Stat) -> bool {
        let wanted = self.mask() | SEARCH | SET_GID;
        root.st_gid == self.group
            && FileType::from_raw_mode(root.st_mode) == FileType::Directory
            && root.st_mode & wanted == wanted
    }

    fn mask(&self) -> u32 {
        if self.read_only { READ_ONLY } else { READ_WRITE }
    }

    /// What cannot be changed is left as it is, as kubelet does: the pod may not need it.
    fn change(
        &self,
        parent: impl std::os::fd::AsFd,
        name: impl rustix::path::Arg + Copy,
        stat: &Stat,
    ) -> io::Result<()> {
        let group = Some(Gid::from_raw(self.group));
        if let Err(error) = chownat(&parent, name, None, group, AtFlags::SYMLINK_NOFOLLOW) {
            tracing::warn!(%error, "failed to change the group of a file");
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        // The mode of a link is that of what it leads to.
        if kind == FileType::Symlink {
            return Ok(());
        }
        let more = if kind == FileType::Directory { SEARCH | SET_GID } else { 0 };
        let mode = Mode::from_raw_mode((stat.st_mode & 0o7777) | self.mask() | more);
        // A file that became a link meanwhile would lead chmod astray: it is opened first, without following.
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        let changed = rustix::fs::openat(&parent, name, flags, Mode::empty()).and_then(|file| {
            let now = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(now.st_mode) == FileType::Symlink {
                return Ok(());
            }
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            chmodat(rustix::fs::CWD, path, mode, AtFlags::empty())
        });
        if let Err(error) = changed {
            tracing::warn!(%error, "failed to change the mode of a file");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn mode(path: &Path) -> (u32, u32) {
        let data = fs::symlink_metadata(path).unwrap();
        (data.gid(), data.mode() & 0o7777)
    }

    #[test]
    fn files_get_the_group_and_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let (dir, file) = (folder.path().join("d"), folder.path().join("d/f"));
        fs::create_dir(&dir).unwrap();
        fs::write(&file, "x").unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        // Its own group, so that root is not needed.
        let group = fs::metadata(folder.path()).unwrap().gid();
        let owner = Ownership { group, read_only: false, policy: ChangePolicy::Always };
        owner.apply(folder.path()).unwrap();
        assert_eq!(mode(&file), (group, 0o660));
        assert_eq!(mode(&dir), (group, 0o2770));
        assert_eq!(mode(folder.path()), (group, 0o2770));
        assert_eq!(mode(outside.path()).1, 0o600, "links lead nowhere");
    }

    #[test]
    fn a_root_that_fits_is_enough_if_the_pod_says_so() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        let group = fs::metadata(folder.path()).unwrap().gid();
        let owner = Ownership { group, read_only: true, policy: ChangePolicy::OnRootMismatch };
        owner.apply(folder.path()).unwrap();
        assert_eq!((mode(&file).1, mode(folder.path()).1), (0o440, 0o2750));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        owner.apply(folder.path()).unwrap();
        assert_eq!(mode(&file).1, 0o400, "not looked at again");
    }
}
