//! The admin kubeconfig: written when the server is ready, printed by `setpoint kubeconfig`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ArgMatches;

use crate::cli;

/// First line of every kubeconfig we write: a file without it is never overwritten.
const HEADER: &str = "# Written by setpoint when its server became ready.\n";

pub fn default_path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// The server's own copy, next to the keys it contains, wherever `--kubeconfig` points.
pub fn copy_path(data_dir: &Path) -> PathBuf {
    data_dir.join("pki").join("admin.kubeconfig")
}

/// Checks that the file can be written: it does not exist or is an earlier run's, and its directory exists.
pub fn check(path: &Path) -> Result<()> {
    match std::fs::read(path) {
        Ok(text) if text.starts_with(HEADER.as_bytes()) || text.is_empty() => Ok(()),
        Ok(_) => bail!(
            "{} exists and was not written by setpoint; choose another file with --kubeconfig",
            path.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if !parent.is_dir() {
                bail!(
                    "cannot write the kubeconfig {}: the directory {} does not exist; create it, or choose another file \
                     with --kubeconfig",
                    path.display(),
                    parent.display()
                );
            }
            Ok(())
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot read {}; choose another file with --kubeconfig", path.display())
        }),
    }
}

/// Removes an earlier run's file: scripts wait for the kubeconfig to appear, so there is none until the server is ready.
pub fn clear(path: &Path) -> Result<()> {
    check(path)?;
    env::file::unless_missing(std::fs::remove_file(path))
        .with_context(|| format!("cannot remove the old kubeconfig {}", path.display()))
}

/// Written atomically and with mode 0600: it contains the admin's private key.
pub fn write(path: &Path, text: &str) -> Result<()> {
    env::file::replace(path, format!("{HEADER}{text}").as_bytes(), 0o600).with_context(|| {
        format!("cannot write the kubeconfig {}; choose another file with --kubeconfig", path.display())
    })
}

pub fn print(matches: &ArgMatches) -> Result<()> {
    let data_dir = cli::data_dir_of(matches);
    let path = default_path(&data_dir);
    // Earlier versions did not write the copy.
    let copy = std::fs::read_to_string(copy_path(&data_dir));
    let text = copy.or_else(|_| std::fs::read_to_string(&path)).with_context(|| {
        format!(
            "no kubeconfig at {}: start a server on that data directory first (setpoint up --data-dir DIR), choose another \
             directory with --data-dir, or read the file given to the server's --kubeconfig",
            path.display()
        )
    })?;
    print!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn an_existing_temporary_file_or_symlink_never_receives_the_key() {
        let home = tempfile::tempdir().unwrap();
        let (path, target) = (home.path().join("config"), home.path().join("target"));
        let temporary = home.path().join(format!("config.{}.tmp", std::process::id()));
        std::fs::write(&target, "mine").unwrap();
        symlink(&target, &temporary).unwrap();
        write(&path, "key").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"mine");
        std::fs::write(&temporary, "left behind").unwrap();
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o666)).unwrap();
        write(&path, "key").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}key"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!temporary.exists());
    }
}
