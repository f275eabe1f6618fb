//! The administrator's kubeconfig: written when the server is ready, printed on request.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ArgMatches;

use crate::cli;

/// The first line of every file we write, so that we never overwrite somebody else's.
const MARK: &str = "# Written by setpoint when its server became ready.\n";

pub fn default_path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// Beside the keys it is made of: the server's own copy, wherever `--kubeconfig` put the other.
pub fn copy_path(data_dir: &Path) -> PathBuf {
    data_dir.join("pki").join("admin.kubeconfig")
}

/// Whether the file may be written: an earlier run's, or none, in a folder that exists.
pub fn check(path: &Path) -> Result<()> {
    match std::fs::read(path) {
        Ok(text) if text.starts_with(MARK.as_bytes()) || text.is_empty() => Ok(()),
        Ok(_) => bail!(
            "{} exists and was not written by setpoint; choose another file with --kubeconfig",
            path.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if !folder.is_dir() {
                bail!(
                    "cannot write the kubeconfig {}: the folder {} does not exist; make it, or choose another file \
                     with --kubeconfig",
                    path.display(),
                    folder.display()
                );
            }
            Ok(())
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot read {}; choose another file with --kubeconfig", path.display())
        }),
    }
}

/// Takes away what an earlier run wrote: while the server is not ready there is no kubeconfig.
pub fn clear(path: &Path) -> Result<()> {
    check(path)?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the old kubeconfig {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// All or nothing, and for its owner only: it holds the administrator's key.
pub fn write(path: &Path, text: &str) -> Result<()> {
    env::file::replace(path, format!("{MARK}{text}").as_bytes(), 0o600).with_context(|| {
        format!("cannot write the kubeconfig {}; choose another file with --kubeconfig", path.display())
    })
}

pub fn print(matches: &ArgMatches) -> Result<()> {
    let data_dir = cli::data_dir_of(matches);
    let path = default_path(&data_dir);
    // A server of an earlier version left no copy.
    let copy = std::fs::read_to_string(copy_path(&data_dir));
    let text = copy.or_else(|_| std::fs::read_to_string(&path)).with_context(|| {
        format!(
            "no kubeconfig at {}: start a server on that data directory first (setpoint up --data-dir DIR), name the \
             directory with --data-dir, or read the file that the server's --kubeconfig named",
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
    fn what_lies_beside_a_kubeconfig_gets_neither_the_key_nor_a_say() {
        let home = tempfile::tempdir().unwrap();
        let (path, victim) = (home.path().join("config"), home.path().join("victim"));
        let beside = home.path().join(format!("config.{}.tmp", std::process::id()));
        std::fs::write(&victim, "mine").unwrap();
        symlink(&victim, &beside).unwrap();
        write(&path, "key").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        std::fs::write(&beside, "left behind").unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o666)).unwrap();
        write(&path, "key").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{MARK}key"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!beside.exists());
    }
}
