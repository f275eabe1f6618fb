//! The logs of containers, in the format of the Container Runtime Interface: written, rotated, read and followed.
//!
//! ```text
//!   /var/log/pods/NAMESPACE_NAME_UID/CONTAINER/RESTARTS.log                    written now
//!                                              RESTARTS.log.20260101-120000    rotated last
//!                                              RESTARTS.log.20260101-110000.gz rotated before
//! ```
//!
//! A log belongs to one run of a container: the previous one's is the file with the lower number. Reading is
//! kubelet's, rule for rule: only the file written now is read, and following goes on in the next one when it is rotated.
//! All but [`follow`] and [`Reader::next`] is synchronous: the caller decides which thread may wait for a disk.

mod follow;
mod format;
mod reader;
mod rotate;
mod time;
mod writer;

use std::path::{Path, PathBuf};

pub use follow::{Changes, follow};
pub use format::Stream;
pub use reader::{Options, Progress, ReadError, Reader};
pub use rotate::{all_logs, make_room, remove, rename_back, rename_latest, rotate};
pub use time::Timestamp;
pub use writer::Writer;

/// The folder of a pod's logs.
pub fn pod_directory(root: &Path, namespace: &str, name: &str, uid: &str) -> PathBuf {
    root.join(format!("{namespace}_{name}_{uid}"))
}

/// A container's log in the folder of its pod; `restarts` counts its runs from 0.
pub fn container_log(pod_directory: &Path, container: &str, restarts: u32) -> PathBuf {
    pod_directory.join(container).join(format!("{restarts}.log"))
}
