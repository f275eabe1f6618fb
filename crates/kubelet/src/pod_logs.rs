//! Where containers' logs are: in the node's own directory, or in one that others use too, where log collectors look for them.
//!
//! ```text
//!   podLogsDir: /var/log/pods
//!   ROOT/logs/NAMESPACE_NAME_UID ────────────────> /var/log/pods/NAMESPACE_NAME_UID          whose it is
//!   /var/log/containers/POD_NAMESPACE_NAME-ID.log > /var/log/pods/NAMESPACE_NAME_UID/NAME/0.log
//! ```
//! Differs from kubelet: what is not this node's stays in a shared directory, so that several agents on a machine may have the same.
//! Everything here may wait for a disk.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::directories;
use crate::images::collect::uid_of_logs;

/// Where log collectors look for a link to each container's log.
pub const CONTAINER_LOGS: &str = "/var/log/containers";
/// Below the node's own directory: the logs, or links to them.
pub const OWN: &str = "logs";
/// What file systems take as a name.
const MAX_NAME: usize = 255;

#[derive(Clone, Debug)]
pub struct PodLogs {
    own: PathBuf,
    directory: PathBuf,
    links: PathBuf,
}

/// A container's log, by the names in its link.
#[derive(Clone, Copy, Debug)]
pub struct ContainerLog<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    pub container: &'a str,
    pub id: &'a str,
}

impl PodLogs {
    pub fn of(config: &Config) -> PodLogs {
        PodLogs {
            own: config.root_directory.join(OWN),
            directory: config.pod_logs_directory.clone(),
            links: config.container_logs_directory.clone(),
        }
    }

    /// Others may have logs there as well.
    pub fn are_shared(&self) -> bool {
        self.directory != self.own
    }

    /// Before the first start.
    pub fn create(&self) -> io::Result<()> {
        directories::close(&self.own)?;
        if self.are_shared() {
            // Others' as well: whoever made it said who may read it.
            directories::make(&self.directory)?;
            fs::create_dir_all(&self.links)?;
        }
        Ok(())
    }

    /// A directory for the logs of a container. `pod` is `NAMESPACE_NAME_UID`.
    pub fn make(&self, pod: &Path, container: &str) -> io::Result<()> {
        if self.are_shared() {
            directories::make(&self.own)?;
            // Whose it is comes first: what is not this node's would never be removed.
            exists(symlink(self.directory.join(pod), self.own.join(pod)))?;
        }
        fs::create_dir_all(self.directory.join(pod).join(container))
    }

    /// For log collectors, once the log is there.
    pub fn link(&self, of: ContainerLog<'_>, log: &Path) -> io::Result<()> {
        if !self.are_shared() || !log.exists() {
            return Ok(());
        }
        exists(symlink(log, self.link_path(of)))
    }

    /// The log is gone.
    pub fn unlink(&self, of: ContainerLog<'_>, log: &Path) -> io::Result<()> {
        let link = self.link_path(of);
        // Long names are cut off, and may then be another's.
        if !self.are_shared() || fs::read_link(&link).ok().as_deref() != Some(log) {
            return Ok(());
        }
        env::file::unless_missing(fs::remove_file(link))
    }

    /// Links to logs of this node's containers that are gone. A log may be away for a moment while it is rotated.
    pub fn remove_dead_links(&self, is_known: &dyn Fn(&str) -> bool) {
        if !self.are_shared() {
            return;
        }
        let own: BTreeSet<PathBuf> =
            self.own().into_iter().map(|(_, name)| self.directory.join(name)).collect();
        for (link, log) in links(&self.links) {
            let is_own = log.ancestors().any(|directory| own.contains(directory));
            let id = link.file_stem().and_then(|stem| stem.to_str()?.rsplit('-').next());
            if is_own && !log.exists() && id.is_some_and(|id| !is_known(id)) {
                // Found again if it cannot be removed now.
                let _ = fs::remove_file(&link);
            }
        }
    }

    /// This node's pods by uid, with the names of their directories.
    pub fn own(&self) -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(&self.own).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink() && self.are_shared())
        });
        let named = ours.filter_map(|entry| {
            let name = entry.file_name();
            Some((uid_of_logs(name.to_str()?)?.to_owned(), PathBuf::from(name)))
        });
        named.collect()
    }

    /// All logs of a pod of this node, and the links to them.
    pub fn remove(&self, pod: &Path) -> io::Result<()> {
        if self.are_shared() {
            remove_linked(&self.links, &self.directory.join(pod))?;
        }
        // A link, or what was written before the directory became another one.
        container::tree::remove(&self.own.join(pod))
    }
}

/// Removes what a node has in directories that it shares with others; `root` is its own.
pub fn remove_shared(root: &Path) -> io::Result<()> {
    remove_shared_from(root, Path::new(CONTAINER_LOGS))
}

fn remove_shared_from(root: &Path, container_logs: &Path) -> io::Result<()> {
    for (link, logs) in links(&root.join(OWN)) {
        // Only what was made here: the same name elsewhere.
        if logs.is_absolute() && logs.file_name() == link.file_name() {
            remove_linked(container_logs, &logs)?;
        }
        env::file::unless_missing(fs::remove_file(link))?;
    }
    Ok(())
}

/// The links last: what is left by a failure is found again by the one in the node's directory.
fn remove_linked(container_logs: &Path, logs: &Path) -> io::Result<()> {
    for (link, log) in links(container_logs) {
        if log.starts_with(logs) {
            env::file::unless_missing(fs::remove_file(link))?;
        }
    }
    container::tree::remove(logs)
}

/// With what they lead to.
fn links(directory: &Path) -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter_map(|link| fs::read_link(&link).ok().map(|target| (link, target))).collect()
}

fn exists(made: io::Result<()>) -> io::Result<()> {
    made.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
}

impl PodLogs {
    fn link_path(&self, of: ContainerLog<'_>) -> PathBuf {
        let ContainerLog { namespace, pod, container, id } = of;
        let mut name = format!("{pod}_{namespace}_{container}-{id}");
        name.truncate(MAX_NAME - ".log".len());
        self.links.join(name + ".log")
    }
}

#[cfg(test)]
mod tests;
