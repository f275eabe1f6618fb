//! `setpoint reset`: deletes setpoint's files in a data directory, and nothing else.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ArgMatches;

use crate::{backup, cli, detach, local_node, node_flags, pid_file, store_choice};

/// Names that setpoint creates in a data directory; anything else in it is left alone.
const OURS: [&str; 9] = [
    "store",
    "pki",
    local_node::FOLDER,
    "admin.kubeconfig",
    store_choice::ETCD_REVISION_FILE,
    detach::LOG,
    detach::OLD_LOG,
    pid_file::NAME,
    backup::RESTORING,
];

/// Includes temporary files left by a crash: `etcd-revision.PID.tmp`.
fn is_ours(name: &str) -> bool {
    let is_temporary = |ours: &str| name.strip_prefix(ours).is_some_and(|rest| rest.starts_with('.'));
    OURS.contains(&name) || (name.ends_with(".tmp") && OURS.iter().any(|ours| is_temporary(ours)))
}

pub fn reset(matches: &ArgMatches) -> Result<()> {
    let dir = cli::data_dir_of(matches);
    if !dir.exists() {
        println!("{} does not exist; nothing to delete.", dir.display());
        return Ok(());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
        if entry.file_name().to_str().is_some_and(is_ours) {
            found.push(entry.path());
        }
    }
    // The marker of an incomplete restore goes last, so that an interrupted reset is noticed.
    found.sort_by_key(|path| path.ends_with(backup::RESTORING));
    if found.is_empty() {
        bail!("{} holds no setpoint data; choose another directory with --data-dir", dir.display());
    }
    store_choice::check_unused(&dir)?;
    // A server on etcd does not lock the store, but uses the keys.
    if let Some(running) = pid_file::Running::find(&dir)? {
        bail!(
            "{} is already in use by pid {}; stop that process first: setpoint down --data-dir {}",
            dir.display(),
            running.pid.as_raw_nonzero(),
            dir.display()
        );
    }
    let node = local_node::directory(&dir);
    check_mounts(&found, &node)?;
    let mut what = format!("all objects, keys and certificates in {}", dir.display());
    if let Some(more) = local_node::deleted_elsewhere(&node) {
        what.push_str(&format!(", and {more}"));
    }
    confirm(matches, &what)?;
    local_node::reset(&dir)?;
    for path in found {
        delete(&path)?;
    }
    // Fails, as it should, unless the directory is empty now.
    let _ = std::fs::remove_dir(&dir);
    println!("Deleted. The next `setpoint up --data-dir {}` starts an empty cluster.", dir.display());
    Ok(())
}

/// What people mounted there is theirs, and would stop a reset half way.
pub fn check_mounts(paths: &[PathBuf], node: &Path) -> Result<()> {
    for path in paths.iter().cloned().chain(local_node::directories_elsewhere(node)) {
        // As the kernel names it; a link itself is deleted, not what it leads to.
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let path = node_flags::canonical(parent).join(name);
        let below = container::mounts::below(&path).context("cannot read the mounts of this machine")?;
        if let Some(other) = below.iter().find(|mounted| !local_node::is_own_mount(node, &mounted.path)) {
            let at = other.path.display();
            bail!("{at} is a mount, whose files are not setpoint's: nothing was deleted; umount {at} first");
        }
    }
    Ok(())
}

/// Asks, unless `--yes` is given.
pub fn confirm(matches: &ArgMatches, what: &str) -> Result<()> {
    if matches.get_flag("yes") {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("this deletes {what}; pass --yes to confirm");
    }
    print!("Delete {what}? Type yes: ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if answer.trim() != "yes" {
        bail!("nothing was deleted");
    }
    Ok(())
}

/// A file, or a directory with all that is in it, but nothing of what is mounted there. What is gone already is no failure.
pub fn delete(path: &Path) -> Result<()> {
    container::tree::remove(path).with_context(|| format!("cannot delete {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_refused_by_its_name_and_those_of_pods_are_not() {
        // A mount that every machine has.
        let error = check_mounts(&[PathBuf::from("/proc")], Path::new("/none")).unwrap_err().to_string();
        assert!(error.starts_with("/proc is a mount"), "{error}");
        let home = tempfile::tempdir().unwrap();
        check_mounts(&[home.path().join("store")], &home.path().join("node")).unwrap();
        let node = Path::new("/data/node");
        for own in
            ["/data/node/pods/1/volumes/kubernetes.io~empty-dir/x", "/data/node/pods/1/volume-subpaths/a/b/0"]
        {
            assert!(local_node::is_own_mount(node, Path::new(own)), "{own}");
        }
        for other in
            ["/data/node", "/data/node/images", "/data/node/pods", "/data/store", "/data/node2/a/b/c"]
        {
            assert!(!local_node::is_own_mount(node, Path::new(other)), "{other}");
        }
    }
}
