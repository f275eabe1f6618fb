//! The network of the node's pods: whose address is which, and which ports of the machine lead to pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use network::addresses::{Addresses, Cidr};
use network::node::Bridge;
use network::rules::{HostPort, Protocol, Rules};
use parking_lot::Mutex;

use crate::Settings;

/// In containerd's words first; people have to do something about it.
pub const NO_RANGE: &str = "cni plugin not initialized: the node has no pod CIDR; give it one with --pod-cidr, or let the control plane \
                            do so with --allocate-node-cidrs";

pub struct PodNetwork {
    bridge: String,
    table: String,
    mtu: u32,
    cluster_ranges: Vec<Cidr>,
    redirects: Vec<(Protocol, SocketAddr, SocketAddr)>,
    /// Guards who has which address and port; held for a few instructions.
    state: Mutex<State>,
    /// Held while the kernel's rules are written, so that the last ones are the newest.
    writing: Mutex<()>,
}

#[derive(Default)]
struct State {
    pools: Vec<Addresses>,
    /// By sandbox.
    host_ports: BTreeMap<String, Vec<HostPort>>,
}

impl PodNetwork {
    pub fn new(settings: &Settings) -> PodNetwork {
        PodNetwork {
            bridge: settings.bridge.clone(),
            table: settings.table.clone(),
            mtu: settings.mtu,
            cluster_ranges: settings.cluster_ranges.clone(),
            redirects: settings.redirects.clone(),
            state: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    /// No range, no pods with a network of their own.
    pub fn is_ready(&self) -> bool {
        !self.state.lock().pools.is_empty()
    }

    fn bridge(&self) -> Bridge {
        let ranges = self.state.lock().pools.iter().map(|pool| pool.range().clone()).collect();
        Bridge { name: self.bridge.clone(), ranges, mtu: self.mtu }
    }

    /// The node's ranges, and the addresses of them that pods have. The same ranges again change nothing.
    pub fn set_ranges(
        &self,
        ranges: &[Cidr],
        taken: impl Iterator<Item = IpAddr>,
    ) -> Result<(), network::Error> {
        {
            let mut state = self.state.lock();
            if state.pools.iter().map(Addresses::range).eq(ranges) {
                return Ok(());
            }
            let mut pools: Vec<Addresses> = ranges.iter().cloned().map(Addresses::new).collect();
            for address in taken {
                pools.iter_mut().for_each(|pool| pool.keep(address));
            }
            state.pools = pools;
        }
        if ranges.is_empty() {
            return Ok(());
        }
        self.bridge().ensure()?;
        self.write_rules()
    }

    /// One address of each range.
    pub fn take(&self) -> Result<Vec<IpAddr>, network::Error> {
        let mut state = self.state.lock();
        let mut taken = Vec::new();
        for at in 0..state.pools.len() {
            match state.pools[at].take() {
                Ok(address) => taken.push(address),
                Err(full) => {
                    for address in taken {
                        state.pools.iter_mut().for_each(|pool| pool.give_back(address));
                    }
                    return Err(full);
                }
            }
        }
        Ok(taken)
    }

    pub fn connect(
        &self,
        sandbox: &str,
        namespace: &OwnedFd,
        addresses: &[IpAddr],
    ) -> Result<(), network::Error> {
        self.bridge().connect(number(sandbox), namespace, addresses)
    }

    /// Makes the pod's ports those of the machine.
    pub fn open_ports(
        &self,
        sandbox: &str,
        mappings: &[cri::PortMapping],
        addresses: &[IpAddr],
    ) -> Result<(), network::Error> {
        if self.keep_ports(sandbox, mappings, addresses) { self.write_rules() } else { Ok(()) }
    }

    /// Without writing them yet; says whether there are any.
    pub fn keep_ports(&self, sandbox: &str, mappings: &[cri::PortMapping], addresses: &[IpAddr]) -> bool {
        let ports: Vec<HostPort> =
            mappings.iter().flat_map(|mapping| host_ports(mapping, addresses)).collect();
        let any = !ports.is_empty();
        if any {
            self.state.lock().host_ports.insert(sandbox.to_owned(), ports);
        }
        any
    }

    /// Takes the pod off the network and its addresses back.
    pub fn disconnect(&self, sandbox: &str, addresses: &[IpAddr]) -> Result<(), network::Error> {
        let had_ports = self.state.lock().host_ports.remove(sandbox).is_some();
        if had_ports {
            self.write_rules()?;
        }
        self.bridge().disconnect(number(sandbox))?;
        self.give_back(addresses);
        Ok(())
    }

    pub fn give_back(&self, addresses: &[IpAddr]) {
        let mut state = self.state.lock();
        for address in addresses {
            state.pools.iter_mut().for_each(|pool| pool.give_back(*address));
        }
    }

    pub fn write_rules(&self) -> Result<(), network::Error> {
        let _writing = self.writing.lock();
        let rules = {
            let state = self.state.lock();
            Rules {
                pod_ranges: state.pools.iter().map(|pool| pool.range().clone()).collect(),
                cluster_ranges: self.cluster_ranges.clone(),
                host_ports: state.host_ports.values().flatten().cloned().collect(),
                redirects: self.redirects.clone(),
            }
        };
        rules.apply(&self.table)
    }
}

/// Removes bridge, interfaces and rules; `sandboxes` are those that may have an interface.
pub fn remove(settings: &Settings, sandboxes: &[String]) -> Result<(), network::Error> {
    let bridge = Bridge { name: settings.bridge.clone(), ranges: Vec::new(), mtu: settings.mtu };
    for sandbox in sandboxes {
        bridge.disconnect(number(sandbox))?;
    }
    bridge.remove()?;
    Rules::remove(&settings.table)
}

/// By which the interface of a sandbox is named.
fn number(sandbox: &str) -> u128 {
    sandbox.get(..32).and_then(|digits| u128::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// One for each of the pod's addresses that can be meant.
fn host_ports(mapping: &cri::PortMapping, addresses: &[IpAddr]) -> Vec<HostPort> {
    let (Ok(port), Ok(inside)) = (u16::try_from(mapping.host_port), u16::try_from(mapping.container_port))
    else {
        return Vec::new();
    };
    let host: Option<IpAddr> = mapping.host_ip.parse().ok();
    let protocol = match mapping.protocol() {
        cri::Protocol::Tcp => Protocol::Tcp,
        cri::Protocol::Udp => Protocol::Udp,
        cri::Protocol::Sctp => Protocol::Sctp,
    };
    if port == 0 || inside == 0 {
        return Vec::new();
    }
    let alike =
        addresses.iter().filter(|address| host.is_none_or(|host| host.is_ipv6() == address.is_ipv6()));
    alike
        .map(|address| HostPort {
            protocol,
            host: host.filter(|host| !host.is_unspecified()),
            port,
            to: SocketAddr::new(*address, inside),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_leads_to_the_addresses_of_its_version() {
        let addresses = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let ports = |host_ip: &str, host_port| {
            let mapping = cri::PortMapping {
                protocol: cri::Protocol::Udp.into(),
                container_port: 53,
                host_port,
                host_ip: host_ip.to_owned(),
            };
            host_ports(&mapping, &addresses)
                .into_iter()
                .map(|port| (port.host.map(|host| host.to_string()), port.to.to_string()))
                .collect::<Vec<_>>()
        };
        let to = |address: &str| address.to_owned();
        assert_eq!(ports("", 5353), [(None, to("10.0.0.2:53")), (None, to("[fd00::2]:53"))]);
        assert_eq!(ports("0.0.0.0", 5353), [(None, to("10.0.0.2:53"))]);
        assert_eq!(ports("127.0.0.1", 5353), [(Some(to("127.0.0.1")), to("10.0.0.2:53"))]);
        assert_eq!(ports("", 0), []);
        assert_eq!(ports("", 70_000), []);
    }
}
