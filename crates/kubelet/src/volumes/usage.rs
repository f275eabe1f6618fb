//! How much of the disk the files of a volume take.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use container::tree;

/// Hard links beyond this many are counted each.
const MAX_LINKS: usize = 100_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub bytes: u64,
    pub inodes: u64,
}

/// The blocks of all files below, as `du` counts them: a file with several names once.
pub fn measure(directory: &Path) -> io::Result<Usage> {
    let root = rustix::fs::stat(directory)?;
    let mut usage = Usage { bytes: blocks(&root), inodes: 1 };
    let mut linked = BTreeSet::new();
    tree::walk(directory, &mut |_, _, stat| {
        if stat.st_nlink > 1
            && stat.st_mode & 0o170_000 != 0o040_000
            && linked.len() < MAX_LINKS
            && !linked.insert((stat.st_dev, stat.st_ino))
        {
            return Ok(());
        }
        usage.bytes = usage.bytes.saturating_add(blocks(stat));
        usage.inodes += 1;
        Ok(())
    })?;
    Ok(usage)
}

fn blocks(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_count_once_and_by_their_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let empty = measure(folder.path()).unwrap();
        assert_eq!(empty.inodes, 1);
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("d/f"), vec![1; 100_000]).unwrap();
        fs::hard_link(folder.path().join("d/f"), folder.path().join("again")).unwrap();
        let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let usage = measure(folder.path()).unwrap();
        assert_eq!(usage.inodes, 4);
        assert!((100_000..1_000_000).contains(&usage.bytes), "{usage:?}");
    }
}
