//! The administrator's kubeconfig: written when the server is ready, printed on request.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ArgMatches;

use crate::cli;

/// The first line of every file we write, so that we never overwrite somebody else's.
const MARK: &str = "# Written by setpoint when its server became ready.\n";

pub fn default_path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// Takes away what an earlier run wrote: while the server is not ready there is no kubeconfig.
pub fn clear(path: &Path) -> Result<()> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.starts_with(MARK) || text.is_empty() => {
            std::fs::remove_file(path).with_context(|| format!("cannot remove the old kubeconfig {}", path.display()))
        }
        Ok(_) => bail!(
            "{} exists and was not written by setpoint; choose another file with --kubeconfig",
            path.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// All or nothing: a reader never sees half a file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let context = || format!("cannot write the kubeconfig {}", path.display());
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .with_context(context)?;
    file.write_all(MARK.as_bytes()).and_then(|()| file.write_all(text.as_bytes())).with_context(context)?;
    std::fs::rename(&temporary, path).with_context(context)
}

pub fn print(matches: &ArgMatches) -> Result<()> {
    let path = default_path(&cli::data_dir_of(matches));
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "no kubeconfig at {}: start a server on that data directory first (setpoint up --data-dir DIR), or name \
             the directory with --data-dir",
            path.display()
        )
    })?;
    print!("{text}");
    Ok(())
}
