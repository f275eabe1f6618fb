//! Directories of the node's own. What pods were given lies in them: no other user of the machine may look into them.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// As kubelet makes them.
const MODE: u32 = 0o750;
/// Of the directory's group to write, and of everybody else.
const NOBODYS: u32 = 0o027;

/// With those above it that are missing. What is there already keeps its mode.
pub fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(MODE).create(path)
}

/// The same, and takes away what others were allowed.
pub fn close(path: &Path) -> io::Result<()> {
    make(path)?;
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & NOBODYS == 0 {
        Ok(())
    } else {
        fs::set_permissions(path, Permissions::from_mode(mode & !NOBODYS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_may_is_taken_away_and_nothing_given() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for (there, closed) in [(0o755, 0o750), (0o2777, 0o2750), (0o700, 0o700)] {
            let path = folder.path().join("there");
            make(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(there)).unwrap();
            make(&path).unwrap();
            assert_eq!(mode(&path), there);
            close(&path).unwrap();
            assert_eq!(mode(&path), closed);
        }
        let new = folder.path().join("a/b");
        close(&new).unwrap();
        for path in [&new, new.parent().unwrap()] {
            assert_eq!(mode(path) & NOBODYS, 0);
        }
    }
}
