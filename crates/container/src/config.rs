//! What a pod and its containers are made of: what the agent decided, in the terms of the kernel.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the containers of a pod share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodConfig {
    pub uid: String,
    /// The helper's own: its socket, its process id, what its containers came to.
    pub directory: PathBuf,
    pub hostname: String,
    /// `false`: the host's.
    pub own_network: bool,
    pub own_ipc: bool,
    pub own_uts: bool,
    /// One process namespace for all containers.
    pub shared_pid: bool,
    /// `net.ipv4.ip_unprivileged_port_start` and the like, set in the pod's namespaces.
    pub sysctls: Vec<(String, String)>,
    /// Bytes of `/dev/shm`; none with the host's IPC.
    pub shm_bytes: u64,
    /// Where the helper itself is counted, a group without others in it; empty: where the spawner is. The helper makes it, and
    /// who ends the helper removes it.
    pub cgroup: PathBuf,
    /// Who users and groups of the pod are on the host (`hostUsers: false`); empty: themselves.
    pub uid_mappings: Vec<IdMapping>,
    pub gid_mappings: Vec<IdMapping>,
}

/// A range of users or groups, inside and on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    pub container_id: u32,
    pub host_id: u32,
    pub length: u32,
}

/// One run of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerConfig {
    pub id: String,
    pub root: Root,
    pub process: Process,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    pub masked_paths: Vec<PathBuf>,
    pub readonly_paths: Vec<PathBuf>,
    pub pid: PidNamespace,
    /// With [`PidNamespace::Pod`]: the container whose process namespace is meant; empty: the pod's.
    pub pid_of: String,
    /// Below the root of the cgroups; empty: where the helper is.
    pub cgroup: PathBuf,
    pub resources: Resources,
    /// In CRI's format; empty: nobody wants to read it.
    pub log: PathBuf,
    /// Keep standard input open for whoever attaches.
    pub stdin: bool,
    /// The first one who detaches closes it.
    pub stdin_once: bool,
}

/// The root file system: layers of an image under a writable one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Root {
    /// The lowest last, as overlayfs has them.
    pub layers: Vec<PathBuf>,
    pub upper: PathBuf,
    pub work: PathBuf,
    /// An empty directory to mount it on.
    pub target: PathBuf,
    pub readonly: bool,
}

/// What is executed, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    pub args: Vec<String>,
    /// The last one of a name counts.
    pub env: Vec<Variable>,
    pub cwd: PathBuf,
    pub user: User,
    pub terminal: bool,
    /// Names as `CAP_NET_RAW`. Bounding, permitted and effective (and inheritable for others than root never).
    pub capabilities: Vec<String>,
    pub ambient: Vec<String>,
    pub no_new_privileges: bool,
    /// A program of classic BPF, eight bytes an instruction; empty: unconfined.
    pub seccomp: Vec<u8>,
    pub apparmor: String,
    pub oom_score_adj: Option<i32>,
    pub rlimits: Vec<Rlimit>,
}

/// `NAME=value` of an environment. Values of Secrets are any bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Encoded", into = "Encoded")]
pub struct Variable(Vec<u8>);

/// In JSON: text as text, other bytes as numbers.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Encoded {
    Text(String),
    Bytes(Vec<u8>),
}

impl Variable {
    pub fn new(name: &str, value: &[u8]) -> Variable {
        Variable([name.as_bytes(), b"=", value].concat())
    }

    pub fn name(&self) -> &[u8] {
        self.0.split(|byte| *byte == b'=').next().unwrap_or_default()
    }

    /// Empty without a `=`.
    pub fn value(&self) -> &[u8] {
        self.0.get(self.name().len() + 1..).unwrap_or_default()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Variable {
    fn from(pair: &str) -> Variable {
        Variable(pair.as_bytes().to_vec())
    }
}

impl From<Encoded> for Variable {
    fn from(encoded: Encoded) -> Variable {
        match encoded {
            Encoded::Text(text) => Variable(text.into_bytes()),
            Encoded::Bytes(bytes) => Variable(bytes),
        }
    }
}

impl From<Variable> for Encoded {
    fn from(variable: Variable) -> Encoded {
        match String::from_utf8(variable.0) {
            Ok(text) => Encoded::Text(text),
            Err(error) => Encoded::Bytes(error.into_bytes()),
        }
    }
}

/// As an image or a security context names it; resolved with the container's own `/etc/passwd` and `/etc/group`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// A number or a name; empty: 0.
    pub user: String,
    /// Empty: the user's own.
    pub group: String,
    pub additional_groups: Vec<u32>,
    /// Add the groups that `/etc/group` lists the user in.
    pub merge_groups: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rlimit {
    pub name: String,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// Within the container.
    pub target: PathBuf,
    pub source: Source,
    pub readonly: bool,
    /// With everything mounted below.
    pub recursive_readonly: bool,
    pub nosuid: bool,
    pub nodev: bool,
    pub noexec: bool,
    pub propagation: Propagation,
    /// In a pod with users of its own: files belong to them by the same numbers. Otherwise all are somebody else's there.
    pub id_mapped: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// A file or directory of the host; `sub_path` is resolved below it and cannot leave it.
    Bind { path: PathBuf, sub_path: PathBuf },
    /// The layers of an image, the lowest last, or a part of them; what is in none of them cannot be reached.
    Image { layers: Vec<PathBuf>, sub_path: PathBuf },
    /// A new file system with its options.
    Filesystem { kind: String, options: Vec<(String, String)> },
    /// The pod's own shared memory.
    SharedMemory,
    /// The container's own part of the cgroups, or all with `host`.
    Cgroup { host: bool },
}

impl Default for Source {
    fn default() -> Source {
        Source::Filesystem { kind: "tmpfs".to_owned(), options: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    #[default]
    None,
    HostToContainer,
    Bidirectional,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub path: PathBuf,
    /// `b`, else a character device.
    pub block: bool,
    pub major: u32,
    pub minor: u32,
    pub mode: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespace {
    #[default]
    Own,
    /// That of all containers of the pod.
    Pod,
    Host,
}

/// Limits; `None`: not limited by this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub cpu_shares: Option<u64>,
    /// Of version 2: instead of the weight that runc makes of `cpu_shares`.
    pub cpu_weight: Option<u64>,
    /// Microseconds of each period.
    pub cpu_quota: Option<i64>,
    pub cpu_period: Option<u64>,
    pub memory: Option<i64>,
    /// Memory and swap together, for a group whose memory is limited; `None`: no swap; 0 or less: as much as there is.
    pub memory_and_swap: Option<i64>,
    /// Memory that runs out ends one process, not all of the container. Of a start only, and of version 2: of version 1 it
    /// always does.
    pub single_process_oom: bool,
    /// Files of version 2 with what is to be written to them (`memory.high`).
    pub unified: Vec<(String, String)>,
    pub pids: Option<i64>,
    /// By page size as the kernel names it (`2MB`), in bytes.
    pub hugepages: Vec<(String, u64)>,
    /// Devices that may be used, in the lines of version 1 ([`crate::cgroup::devices::DEFAULT`] and more); `None`: all
    /// (privileged). Of a start only: a group that is there keeps what it has.
    pub devices: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_keep_their_bytes_and_are_text_where_they_can_be() {
        for (variable, json) in [
            (Variable::new("A", b"1=2"), r#""A=1=2""#),
            (Variable::new("A", b"\xff"), "[65,61,255]"),
            (Variable::from("bare"), r#""bare""#),
        ] {
            assert_eq!(serde_json::to_string(&variable).unwrap(), json);
            assert_eq!(serde_json::from_str::<Variable>(json).unwrap(), variable);
        }
        let pair = Variable::new("A", b"1=\xff");
        assert_eq!((pair.name(), pair.value()), (&b"A"[..], &b"1=\xff"[..]));
        assert_eq!(Variable::from("bare").value(), b"");
    }
}
