//! Paths of the machine itself, and whether they are what the pod says they are.

use std::fs::{self, FileType};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Checks a `hostPath`, and makes what it says to make. In kubelet's words.
pub fn check(path: &str, kind: &str) -> Result<(), String> {
    check_backsteps(path).map_err(|error| format!("invalid HostPath `{path}`: {error}"))?;
    let there = Path::new(path);
    let is = |test: fn(&FileType) -> bool| fs::metadata(there).is_ok_and(|data| test(&data.file_type()));
    let unless = |fits: bool, what: &str| {
        if fits { Ok(()) } else { Err(format!("hostPath type check failed: {path} is not {what}")) }
    };
    match kind {
        "" => Ok(()),
        "DirectoryOrCreate" if !exists(there) => make_directory(there, 0o755),
        "DirectoryOrCreate" | "Directory" => unless(is(FileType::is_dir), "a directory"),
        "FileOrCreate" if !exists(there) => make_file(there),
        "FileOrCreate" | "File" => unless(is(FileType::is_file), "a file"),
        "Socket" => unless(is(FileTypeExt::is_socket), "a socket file"),
        "CharDevice" => unless(is(FileTypeExt::is_char_device), "a character device"),
        "BlockDevice" => unless(is(FileTypeExt::is_block_device), "a block device"),
        other => Err(format!("{other} is an invalid volume type")),
    }
}

pub fn check_backsteps(path: &str) -> Result<(), &'static str> {
    if path.split('/').any(|part| part == "..") { Err("must not contain '..'") } else { Ok(()) }
}

fn exists(path: &Path) -> bool {
    !matches!(fs::metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

pub fn make_directory(path: &Path, mode: u32) -> Result<(), String> {
    let made = fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|error| format!("mkdir {}: {error}", path.display()))
}

fn make_file(path: &Path) -> Result<(), String> {
    let made = fs::OpenOptions::new().create(true).append(true).mode(0o644).open(path);
    made.map(drop).map_err(|error| format!("open {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_checked_in_kubelets_words() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(at("file"), "").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let (dir, file, socket, gone) = (at(""), at("file"), at("socket"), at("gone"));
        for (path, kind, fits) in [
            (&*dir, "Directory", true),
            (&*dir, "DirectoryOrCreate", true),
            (&*file, "File", true),
            (&*file, "FileOrCreate", true),
            (&*socket, "Socket", true),
            ("/dev/null", "CharDevice", true),
            (&*gone, "", true),
            (&*file, "Directory", false),
            (&*file, "DirectoryOrCreate", false),
            (&*dir, "File", false),
            (&*dir, "FileOrCreate", false),
            (&*gone, "Directory", false),
            (&*gone, "File", false),
            (&*file, "Socket", false),
            (&*file, "CharDevice", false),
            (&*file, "BlockDevice", false),
        ] {
            assert_eq!(check(path, kind).is_ok(), fits, "{path} as {kind}");
        }
        let said = |path: &str, kind: &str| check(path, kind).unwrap_err();
        assert_eq!(
            said(&file, "Directory"),
            format!("hostPath type check failed: {file} is not a directory")
        );
        assert_eq!(said(&file, "Socket"), format!("hostPath type check failed: {file} is not a socket file"));
        assert_eq!(said("/a/../b", ""), "invalid HostPath `/a/../b`: must not contain '..'");
        assert_eq!(said(&file, "Pipe"), "Pipe is an invalid volume type");
    }

    #[test]
    fn what_is_missing_is_made_where_the_type_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        check(&at("a/b"), "DirectoryOrCreate").unwrap();
        assert!(folder.path().join("a/b").is_dir());
        check(&at("a/f"), "FileOrCreate").unwrap();
        assert!(folder.path().join("a/f").is_file());
        assert!(check(&at("none/f"), "FileOrCreate").is_err(), "only the file itself");
    }
}
