//! The machine this node is: what the kernel's files say about it, what of that pods can have, and what its Node object shows.
//!
//! ```text
//! /proc, /sys, /etc, statvfs ── Facts ──┐
//! Config: reserved, thresholds ─────────┼── resources: capacity, allocatable ──┐
//! --node-ip, the default route ── addresses ────────────────────────────────────┼── node::Description ── Node
//! runtime: version, handlers, images ── Runtime ─────────────────────────────────┘
//! ```

mod addresses;
mod facts;
mod resources;
mod runtime;
pub mod taint;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ::runtime::Stop;
use env::Env;
use node::machine::{
    Describe, Description, KUBELET_VERSION, NodeIdentity, OS, Pressure, address, architecture,
    declared_features, default_labels,
};
use object::{Map, Value};
use parking_lot::Mutex;

pub use addresses::{AddressError, node_addresses, route_source};
pub use facts::{Facts, swap_devices};
pub use resources::{Amounts, allocatable, capacity};
pub use runtime::RuntimeFacts;

use crate::config::Config;

/// A real node's word about itself; shared by the agent, which reports it, and the parts that learn what changed.
pub struct LocalMachine {
    config: Config,
    hostname: String,
    /// Guards what changes; held while it is copied.
    now: Mutex<Now>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Now {
    facts: Facts,
    addresses: Vec<IpAddr>,
    runtime: RuntimeFacts,
    pressure: Pressure,
}

impl LocalMachine {
    /// `addresses`: see [`node_addresses`].
    pub fn new(config: Config, hostname: &str, facts: Facts, addresses: Vec<IpAddr>) -> LocalMachine {
        let now = Now { facts, addresses, ..Now::default() };
        LocalMachine { config, hostname: hostname.to_owned(), now: Mutex::new(now) }
    }

    /// Reads the kernel's files again; `true`: the Node has something new to say.
    pub fn look_again(&self) -> bool {
        let facts = Facts::read(std::path::Path::new("/"), &self.config.root_directory);
        self.change(|now| now.facts = facts)
    }

    /// The same of what the runtime and its images are.
    pub fn set_runtime(&self, runtime: RuntimeFacts) -> bool {
        self.change(|now| now.runtime = runtime)
    }

    pub fn set_addresses(&self, addresses: Vec<IpAddr>) -> bool {
        self.change(|now| now.addresses = addresses)
    }

    pub fn set_pressure(&self, pressure: Pressure) -> bool {
        self.change(|now| now.pressure = pressure)
    }

    pub fn addresses(&self) -> Vec<IpAddr> {
        self.now.lock().addresses.clone()
    }

    /// The runtime can give containers exactly the groups that pods name.
    pub fn has_supplemental_groups_policy(&self) -> bool {
        self.now.lock().runtime.supplemental_groups_policy == Some(true)
    }

    /// The names a serving certificate is for.
    pub fn serving_names(&self) -> Vec<String> {
        let mut names = vec![self.hostname.clone()];
        names.extend(self.now.lock().addresses.iter().map(IpAddr::to_string));
        names.dedup();
        names
    }

    /// Looks at the machine from time to time, until stopped; `changed` is told when the Node has something new to say, and its serving
    /// certificate may need other names.
    pub async fn watch(&self, env: &Env, node_ip: &str, changed: &(dyn Fn() + Send + Sync), stop: Stop) {
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = env.sleep(self.config.node_status_update_frequency) => {}
            }
            let moved = match node_addresses(node_ip) {
                Ok(addresses) => self.set_addresses(addresses),
                // It may come back; meanwhile the node says what it said.
                Err(error) => {
                    tracing::warn!(%error, "the node has lost its address");
                    false
                }
            };
            if self.look_again() | moved {
                changed();
            }
        }
    }

    /// Differs from kubelet, whose --pod-cidr only counts without a cluster: who gives nodes their ranges must not give this one to another.
    fn pod_cidrs(&self) -> Vec<String> {
        let given = self.config.pod_cidr.split(',').map(str::trim).filter(|cidr| !cidr.is_empty());
        given.map(str::to_owned).collect()
    }

    fn change(&self, change: impl FnOnce(&mut Now)) -> bool {
        let mut now = self.now.lock();
        let before = now.clone();
        change(&mut now);
        *now != before
    }
}

impl Describe for LocalMachine {
    fn describe(&self, _identity: &NodeIdentity<'_>) -> Description {
        let now = self.now.lock().clone();
        let capacity = resources::capacity(&now.facts, &self.config);
        let allocatable = resources::allocatable(&capacity, &self.config);
        let mut labels = default_labels(&self.hostname);
        for (name, value) in &self.config.node_labels {
            labels.set(name.clone(), &**value);
        }
        let mut addresses: Vec<Value> =
            now.addresses.iter().map(|ip| address("InternalIP", &ip.to_string())).collect();
        addresses.push(address("Hostname", &self.hostname));
        let mut more = now.runtime.status(self.config.node_status_max_images);
        more.set("declaredFeatures", declared_features());
        Description {
            labels,
            taints: self.config.register_with_taints.iter().filter_map(|text| taint::parse(text)).collect(),
            provider_id: self.config.provider_id.clone(),
            pod_cidrs: self.pod_cidrs(),
            capacity: capacity.to_map(),
            allocatable: allocatable.to_map(),
            addresses,
            node_info: node_info(&now),
            port: self.config.port,
            more,
            pressure: now.pressure,
        }
    }

    fn registers(&self) -> bool {
        self.config.register_node
    }
}

/// Several hold it: the agent as what describes the node, others to tell it what changed.
impl Describe for SharedMachine {
    fn describe(&self, identity: &NodeIdentity<'_>) -> Description {
        self.0.describe(identity)
    }
    fn registers(&self) -> bool {
        self.0.registers()
    }
    fn changes(&self) -> bool {
        true
    }
}

pub struct SharedMachine(pub std::sync::Arc<LocalMachine>);

fn node_info(now: &Now) -> Map {
    let facts = &now.facts;
    let mut info = Map::with_capacity(11);
    for (name, value) in [
        ("machineID", &*facts.machine_id),
        ("systemUUID", &facts.system_uuid),
        ("bootID", &facts.boot_id),
        ("kernelVersion", &facts.kernel_version),
        ("osImage", &facts.os_image),
        ("containerRuntimeVersion", &now.runtime.version()),
        ("kubeletVersion", KUBELET_VERSION),
        ("kubeProxyVersion", ""),
        ("operatingSystem", OS),
        ("architecture", architecture()),
    ] {
        info.set(name, value);
    }
    if facts.swap_bytes > 0 {
        let mut swap = Map::with_capacity(1);
        swap.set("capacity", Value::Int(facts.swap_bytes));
        info.set("swap", swap);
    }
    info
}
