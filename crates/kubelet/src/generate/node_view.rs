//! What has to be known of the machine and its node.

use std::net::IpAddr;

use object::Value;

use crate::config::Config;
use crate::generate::{Resolv, UserNamespaces};

/// A node as pods are made for it.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    pub config: &'a Config,
    /// The Node object, once it is there.
    pub node: Option<&'a Value>,
    /// The primary first.
    pub host_ips: &'a [IpAddr],
    /// The machine's own `resolv.conf`: for who makes a sandbox, who reads it then.
    pub node_resolv: &'a Resolv,
    /// Bytes.
    pub memory_capacity: i64,
    pub cpu_capacity_milli: i64,
    /// Most processes the machine can have; 0: not known.
    pub pid_capacity: i64,
    pub cgroup_v2: bool,
    /// Swap is counted by cgroups, and so can be kept from containers.
    pub swap_controller: bool,
    /// Bytes; 0: the machine does not swap.
    pub swap_capacity: i64,
    /// As the kernel names them in cgroups: `2MB`, `1GB`.
    pub hugepage_sizes: &'a [String],
    /// Paths of this machine that containers do not see, beside those hidden everywhere.
    pub masked_paths: &'a [String],
    pub selinux: bool,
    /// Of the pod's RuntimeClass; empty: the runtime's own choice.
    pub runtime_handler: &'a str,
    /// The handler can make mounts read-only with all that is mounted below them.
    pub recursive_read_only: bool,
    /// Gives pods their range of users; `None`: the handler has no user namespaces.
    pub user_namespaces: Option<&'a dyn UserNamespaces>,
}

impl<'a> NodeView<'a> {
    /// A machine of which nothing else is known.
    pub fn new(config: &'a Config, node_resolv: &'a Resolv) -> NodeView<'a> {
        NodeView {
            config,
            node: None,
            host_ips: &[],
            node_resolv,
            memory_capacity: 0,
            cpu_capacity_milli: 0,
            pid_capacity: 0,
            cgroup_v2: false,
            swap_controller: false,
            swap_capacity: 0,
            hugepage_sizes: &[],
            masked_paths: &[],
            selinux: false,
            runtime_handler: "",
            recursive_read_only: false,
            user_namespaces: None,
        }
    }
}
