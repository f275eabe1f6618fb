//! What is written down of sandboxes and containers, so that an agent that was killed finds all of them again.
//!
//! ```text
//! DIRECTORY/sandboxes/ID[..16]/record       what was asked for, and its addresses
//!                              ready        it was set up to its end
//!                              stopped      and then taken down
//!                              helper.sock  helper.pid  state.json  shm/      the helper's
//!                              hostname  hosts  resolv.conf                  what its containers see
//!           containers/ID[..16]/record      what was asked for, and what came of it with the image
//!                               failed      why it did not start
//!                               upper/ work/ root/                           its file system
//!           images/                         see crate `image`
//! ```
//! Names are short because a socket's path must be. Nothing is synced: after a power cut all containers are gone anyway.

use std::io;
use std::path::{Path, PathBuf};

use container::config::IdMapping;
use prost::Message;

use crate::error::invalid;

pub const RECORD: &str = "record";
pub const READY: &str = "ready";
pub const STOPPED: &str = "stopped";
pub const FAILED: &str = "failed";

#[derive(Clone, PartialEq, Message)]
pub struct SandboxRecord {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<cri::PodSandboxConfig>,
    #[prost(int64, tag = "3")]
    pub created_at: i64,
    #[prost(string, repeated, tag = "4")]
    pub addresses: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerRecord {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub config: Option<cri::ContainerConfig>,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// The digest of the image's config.
    #[prost(string, tag = "5")]
    pub image_id: String,
    /// Its first name.
    #[prost(string, tag = "6")]
    pub image_name: String,
    /// Its first repository and digest.
    #[prost(string, tag = "7")]
    pub image_ref: String,
    #[prost(string, tag = "8")]
    pub log_path: String,
    /// `container::config::ContainerConfig` as JSON, without its system call filter.
    #[prost(bytes = "vec", tag = "9")]
    pub spec: Vec<u8>,
    /// A number of the kernel's.
    #[prost(int32, tag = "10")]
    pub stop_signal: i32,
    #[prost(message, optional, tag = "11")]
    pub user: Option<cri::LinuxContainerUser>,
}

/// A start that failed.
#[derive(Clone, PartialEq, Message)]
pub struct FailureRecord {
    #[prost(int64, tag = "1")]
    pub finished_at: i64,
    #[prost(string, tag = "2")]
    pub message: String,
}

impl SandboxRecord {
    pub fn config(&self) -> cri::PodSandboxConfig {
        self.config.clone().unwrap_or_default()
    }

    pub fn namespaces(&self) -> cri::NamespaceOption {
        let linux = self.config.as_ref().and_then(|config| config.linux.as_ref());
        let context = linux.and_then(|linux| linux.security_context.as_ref());
        context.and_then(|context| context.namespace_options.clone()).unwrap_or_default()
    }

    /// The pod's users are others on the host.
    pub fn has_users(&self) -> bool {
        let users = self.namespaces().userns_options;
        users.is_some_and(|users| users.mode() == cri::NamespaceMode::Pod)
    }

    /// Who its users and groups are on the host; empty: themselves.
    pub fn users(&self) -> Result<(Vec<IdMapping>, Vec<IdMapping>), cri::Error> {
        let Some(users) = self.namespaces().userns_options.filter(|_| self.has_users()) else {
            return Ok(Default::default());
        };
        let mapping = |one: &cri::IDMapping| IdMapping {
            container_id: one.container_id,
            host_id: one.host_id,
            length: one.length,
        };
        match (&*users.uids, &*users.gids) {
            ([uids], [gids]) if uids.length > 0 && gids.length > 0 => {
                Ok((vec![mapping(uids)], vec![mapping(gids)]))
            }
            _ => Err(invalid("a pod with users of its own needs one range of users and one of groups")),
        }
    }

    pub fn cgroup_parent(&self) -> &str {
        let linux = self.config.as_ref().and_then(|config| config.linux.as_ref());
        linux.map_or("", |linux| &linux.cgroup_parent)
    }
}

pub fn sandboxes(root: &Path) -> PathBuf {
    root.join("sandboxes")
}

pub fn containers(root: &Path) -> PathBuf {
    root.join("containers")
}

/// Of an id of 64 hexadecimal digits.
pub fn short(id: &str) -> &str {
    id.get(..16).unwrap_or(id)
}

/// Whole or not at all, as long as the machine runs.
pub fn write(directory: &Path, name: &str, record: &impl Message) -> io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    std::fs::write(&new, record.encode_to_vec())?;
    std::fs::rename(new, directory.join(name))
}

/// `None`: there is none, or none that can be read.
pub fn read<T: Message + Default>(directory: &Path, name: &str) -> Option<T> {
    let bytes = std::fs::read(directory.join(name)).ok()?;
    // A file that lost its content with the power is no record.
    if bytes.is_empty() { None } else { T::decode(&*bytes).ok() }
}

pub fn mark(directory: &Path, name: &str) -> io::Result<()> {
    std::fs::File::create(directory.join(name)).map(drop)
}

pub fn is_marked(directory: &Path, name: &str) -> bool {
    directory.join(name).exists()
}
