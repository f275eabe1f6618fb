//! The network of the node's pods: whose address is which, and which ports of the machine lead to pods.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Guards what the next rules redirect; changed only while nobody writes rules.
    redirects: Mutex<Vec<(Protocol, SocketAddr, SocketAddr)>>,
    /// Guards who has which address and port; held for a few instructions.
    state: Mutex<State>,
    /// Held while the kernel's rules are written, so that the last ones are the newest.
    writing: Mutex<()>,
}

#[derive(Default)]
struct State {
    pools: Vec<Addresses>,
    /// Whatever was taken and not given back, of ranges before these as well: they may come back.
    in_use: BTreeSet<IpAddr>,
    /// By sandbox.
    host_ports: BTreeMap<String, Vec<HostPort>>,
    /// Of sandboxes that are gone; the kernel may still have rules for them.
    closing: Vec<HostPort>,
    /// Of sandboxes that are gone and could not be disconnected: nobody's before that is done.
    withheld: Vec<(String, Vec<IpAddr>)>,
}

impl State {
    fn keep(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            self.in_use.insert(*address);
            self.pools.iter_mut().for_each(|pool| pool.keep(*address));
        }
    }

    fn give_back(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            self.in_use.remove(address);
            self.pools.iter_mut().for_each(|pool| pool.give_back(*address));
        }
    }
}

impl PodNetwork {
    pub fn new(settings: &Settings) -> PodNetwork {
        PodNetwork {
            bridge: settings.bridge.clone(),
            table: settings.table.clone(),
            mtu: settings.mtu,
            cluster_ranges: settings.cluster_ranges.clone(),
            redirects: Mutex::new(settings.redirects.clone()),
            state: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    /// No range, no pods with a network of their own.
    pub fn is_ready(&self) -> bool {
        !self.state.lock().pools.is_empty()
    }

    fn bridge(&self) -> Bridge {
        self.bridge_of(self.ranges())
    }

    fn bridge_of(&self, ranges: Vec<Cidr>) -> Bridge {
        Bridge { name: self.bridge.clone(), ranges, mtu: self.mtu }
    }

    fn ranges(&self) -> Vec<Cidr> {
        self.state.lock().pools.iter().map(|pool| pool.range().clone()).collect()
    }

    /// The node's ranges. The same ranges again change nothing.
    pub fn set_ranges(&self, ranges: &[Cidr]) -> Result<(), network::Error> {
        self.set_ranges_by(ranges, |bridge, rules| {
            bridge.ensure()?;
            rules.apply(&self.table)?;
            warn_of_forward_drops(&self.bridge);
            Ok(())
        })
    }

    /// `apply` makes bridge and rules what they shall be. Only then pods get addresses of the ranges: whoever asks again after a
    /// failure has it tried again.
    fn set_ranges_by(
        &self,
        ranges: &[Cidr],
        apply: impl FnOnce(&Bridge, &Rules) -> Result<(), network::Error>,
    ) -> Result<(), network::Error> {
        // Until the ranges are the ones that others write rules for.
        let _writing = self.writing.lock();
        if self.ranges() == ranges {
            return Ok(());
        }
        if !ranges.is_empty() {
            apply(&self.bridge_of(ranges.to_vec()), &self.rules(ranges.to_vec()))?;
        }
        let mut pools: Vec<Addresses> = ranges.iter().cloned().map(Addresses::new).collect();
        let mut state = self.state.lock();
        for address in &state.in_use {
            pools.iter_mut().for_each(|pool| pool.keep(*address));
        }
        state.pools = pools;
        Ok(())
    }

    /// Pods have these already, from a process before this one.
    pub fn keep(&self, addresses: &[IpAddr]) {
        self.state.lock().keep(addresses);
    }

    pub fn is_in_use(&self, address: IpAddr) -> bool {
        self.state.lock().in_use.contains(&address)
    }

    /// One address of each range.
    pub fn take(&self) -> Result<Vec<IpAddr>, network::Error> {
        self.take_by(&Kernel(self))
    }

    fn take_by(&self, network: &dyn Change) -> Result<Vec<IpAddr>, network::Error> {
        self.take_free().or_else(|_| {
            self.free_withheld(network);
            self.take_free()
        })
    }

    fn take_free(&self) -> Result<Vec<IpAddr>, network::Error> {
        let mut state = self.state.lock();
        let mut taken = Vec::new();
        for at in 0..state.pools.len() {
            match state.pools[at].take() {
                Ok(address) => taken.push(address),
                Err(full) => {
                    state.give_back(&taken);
                    return Err(full);
                }
            }
        }
        state.in_use.extend(&taken);
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
        if self.keep_ports(sandbox, mappings, addresses) {
            self.write_rules(&Kernel(self))?;
            let ports = self.state.lock().host_ports.get(sandbox).cloned().unwrap_or_default();
            tell_of_flows(network::rules::forget_earlier_flows(&ports));
        }
        Ok(())
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

    /// Takes the pod off the network and its addresses back: not before nothing leads to them any more. Tried again after an error,
    /// it goes on where it was.
    pub fn disconnect(&self, sandbox: &str, addresses: &[IpAddr]) -> Result<(), network::Error> {
        self.disconnect_by(sandbox, addresses, &Kernel(self))
    }

    fn disconnect_by(
        &self,
        sandbox: &str,
        addresses: &[IpAddr],
        network: &dyn Change,
    ) -> Result<(), network::Error> {
        let is_led_to = {
            let mut state = self.state.lock();
            let ports = state.host_ports.remove(sandbox).unwrap_or_default();
            state.closing.extend(ports);
            state.closing.iter().any(|port| addresses.contains(&port.to.ip()))
        };
        let written = if is_led_to { self.write_rules(network) } else { Ok(()) };
        network.disconnect(number(sandbox))?;
        written?;
        self.give_back(addresses);
        Ok(())
    }

    /// Of a sandbox that could not be disconnected, and that nobody will ask for again.
    pub fn withhold(&self, sandbox: &str, addresses: &[IpAddr]) {
        self.state.lock().withheld.push((sandbox.to_owned(), addresses.to_vec()));
    }

    /// Disconnects those, as far as that works by now.
    fn free_withheld(&self, network: &dyn Change) {
        // Out of the list meanwhile: writing rules looks at it as well.
        let withheld = std::mem::take(&mut self.state.lock().withheld);
        for (sandbox, addresses) in withheld {
            if let Err(error) = self.disconnect_by(&sandbox, &addresses, network) {
                tracing::debug!(sandbox, %error, "still failed to disconnect what is left of a sandbox");
                self.withhold(&sandbox, &addresses);
            }
        }
    }

    pub fn give_back(&self, addresses: &[IpAddr]) {
        self.state.lock().give_back(addresses);
    }

    fn write_rules(&self, network: &dyn Change) -> Result<(), network::Error> {
        let closed: Vec<HostPort> = {
            let _writing = self.writing.lock();
            // Only here they become fewer.
            let closing = self.state.lock().closing.len();
            network.write(&self.rules(self.ranges()))?;
            self.state.lock().closing.drain(..closing).collect()
        };
        tell_of_flows(network::rules::forget_flows_to(&closed));
        self.free_withheld(network);
        Ok(())
    }

    /// Where addresses lead that are nowhere. To be tried again after an error.
    pub fn set_redirects(
        &self,
        redirects: Vec<(Protocol, SocketAddr, SocketAddr)>,
    ) -> Result<(), network::Error> {
        self.set_redirects_by(redirects, &Kernel(self))
    }

    fn set_redirects_by(
        &self,
        redirects: Vec<(Protocol, SocketAddr, SocketAddr)>,
        network: &dyn Change,
    ) -> Result<(), network::Error> {
        {
            let _writing = self.writing.lock();
            *self.redirects.lock() = redirects;
            // Ranges come with rules of their own, which hold these.
            if !self.is_ready() {
                return Ok(());
            }
        }
        self.write_rules(network)
    }

    fn rules(&self, pod_ranges: Vec<Cidr>) -> Rules {
        Rules {
            pod_ranges,
            cluster_ranges: self.cluster_ranges.clone(),
            host_ports: self.state.lock().host_ports.values().flatten().cloned().collect(),
            redirects: self.redirects.lock().clone(),
        }
    }
}

/// What is changed of the machine.
trait Change {
    fn write(&self, rules: &Rules) -> Result<(), network::Error>;
    fn disconnect(&self, pod: u128) -> Result<(), network::Error>;
}

struct Kernel<'a>(&'a PodNetwork);

impl Change for Kernel<'_> {
    fn write(&self, rules: &Rules) -> Result<(), network::Error> {
        rules.apply(&self.0.table)
    }
    fn disconnect(&self, pod: u128) -> Result<(), network::Error> {
        self.0.bridge().disconnect(pod)
    }
}

/// New senders reach the pod all the same, and others once they have been silent for a while.
fn tell_of_flows(forgotten: Result<(), network::Error>) {
    if let Err(error) = forgotten {
        tracing::warn!(%error, "datagrams may still go to a pod that is gone");
    }
}

/// Without this, pods that reach nothing are all people see of it.
fn warn_of_forward_drops(bridge: &str) {
    match network::rules::forward_drops() {
        Ok(chains) if chains.is_empty() => {}
        Ok(chains) => {
            let chains = chains.join(", ");
            tracing::warn!(chains, bridge, "{}", forward_drop_advice(bridge));
        }
        Err(error) => tracing::debug!(%error, "failed to look for firewalls"),
    }
}

fn forward_drop_advice(bridge: &str) -> String {
    format!(
        "a firewall on this machine drops forwarded packets by default: pods have no network unless it lets them through. \
         Accept what comes in by {bridge} or goes out by it, for example with \"iptables -I DOCKER-USER -i {bridge} -j ACCEPT; \
         iptables -I DOCKER-USER -o {bridge} -j ACCEPT\" (Docker), \"ufw route allow in on {bridge}; ufw route allow out on {bridge}\" \
         (ufw), \"firewall-cmd --zone=trusted --add-interface={bridge}\" (firewalld)"
    )
}

/// Removes the interfaces of sandboxes that may have one.
pub fn disconnect_all(settings: &Settings, sandboxes: &[String]) -> Result<(), network::Error> {
    let bridge = bridge_of(settings);
    sandboxes.iter().try_for_each(|sandbox| bridge.disconnect(number(sandbox)))
}

/// Removes bridge and rules.
pub fn remove(settings: &Settings) -> Result<(), network::Error> {
    bridge_of(settings).remove()?;
    Rules::remove(&settings.table)
}

fn bridge_of(settings: &Settings) -> Bridge {
    Bridge { name: settings.bridge.clone(), ranges: Vec::new(), mtu: settings.mtu }
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
    use std::cell::{Cell, RefCell};

    use super::*;

    fn network() -> PodNetwork {
        PodNetwork {
            bridge: "b".to_owned(),
            table: "b".to_owned(),
            mtu: 1500,
            cluster_ranges: Vec::new(),
            redirects: Mutex::default(),
            state: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    #[test]
    fn ranges_that_could_not_be_set_up_are_tried_again() {
        let (network, ranges) = (network(), [Cidr::parse("10.0.0.0/24").unwrap()]);
        network.keep(&["10.0.0.2".parse().unwrap()]);
        let fails = |_: &Bridge, _: &Rules| Err(Cidr::parse("nothing").unwrap_err());
        assert!(network.set_ranges_by(&ranges, fails).is_err());
        assert!(!network.is_ready(), "pods would get addresses that lead nowhere");
        assert!(network.set_ranges_by(&ranges, fails).is_err(), "the same ranges again are no success");
        let mut applied = None;
        let works = |bridge: &Bridge, rules: &Rules| {
            applied = Some((bridge.ranges.clone(), rules.pod_ranges.clone()));
            Ok(())
        };
        network.set_ranges_by(&ranges, works).unwrap();
        assert_eq!(applied, Some((ranges.to_vec(), ranges.to_vec())));
        assert_eq!(
            network.take_free().unwrap(),
            ["10.0.0.3".parse::<IpAddr>().unwrap()],
            "the first is a pod's already"
        );
        network.set_ranges_by(&ranges, fails).expect("nothing to do");
    }

    /// Notes how many ports are open with each write, and whose interface goes.
    #[derive(Default)]
    struct ByHand {
        fails: Cell<bool>,
        /// Interfaces cannot be removed.
        stays: Cell<bool>,
        log: RefCell<Vec<String>>,
    }

    impl Change for ByHand {
        fn write(&self, rules: &Rules) -> Result<(), network::Error> {
            if self.fails.get() {
                return Err(Cidr::parse("nothing").unwrap_err());
            }
            self.log.borrow_mut().push(format!("{} ports", rules.host_ports.len()));
            Ok(())
        }
        fn disconnect(&self, pod: u128) -> Result<(), network::Error> {
            if self.stays.get() {
                return Err(Cidr::parse("nothing").unwrap_err());
            }
            self.log.borrow_mut().push(format!("pod {pod:x}"));
            Ok(())
        }
    }

    /// With one address, which is taken by a pod that has a port of the machine.
    fn full() -> (PodNetwork, String, Vec<IpAddr>) {
        let (network, ranges) = (network(), [Cidr::parse("10.0.0.0/30").unwrap()]);
        network.set_ranges_by(&ranges, |_, _| Ok(())).unwrap();
        let (sandbox, addresses) = ("0".repeat(64), network.take_free().unwrap());
        let tcp = cri::PortMapping { container_port: 80, host_port: 80, ..Default::default() };
        assert!(network.keep_ports(&sandbox, &[tcp], &addresses) && network.take_free().is_err());
        (network, sandbox, addresses)
    }

    #[test]
    fn an_address_is_nobody_elses_while_a_port_of_the_machine_leads_to_it() {
        let (network, sandbox, addresses) = full();
        let kernel = ByHand::default();
        kernel.fails.set(true);
        for _ in 0..2 {
            network.disconnect_by(&sandbox, &addresses, &kernel).unwrap_err();
            assert!(network.take_free().is_err());
        }
        assert_eq!(kernel.log.take(), ["pod 0", "pod 0"], "its interface goes all the same");
        let others = ["10.0.0.9".parse().unwrap()];
        network.disconnect_by("", &others, &kernel).expect("no port leads to that one");
        kernel.log.take();
        kernel.fails.set(false);
        network.disconnect_by(&sandbox, &addresses, &kernel).unwrap();
        assert_eq!(kernel.log.take(), ["0 ports", "pod 0"]);
        assert_eq!(network.take_free().unwrap(), addresses);
    }

    #[test]
    fn what_nobody_asks_for_again_is_free_with_the_next_rules() {
        let (network, sandbox, addresses) = full();
        let kernel = ByHand::default();
        kernel.fails.set(true);
        network.disconnect_by(&sandbox, &addresses, &kernel).unwrap_err();
        network.withhold(&sandbox, &addresses);
        network.write_rules(&kernel).unwrap_err();
        assert!(network.take_by(&kernel).is_err());
        kernel.fails.set(false);
        kernel.stays.set(true);
        network.write_rules(&kernel).unwrap();
        assert!(network.take_by(&kernel).is_err(), "its interface is there");
        kernel.stays.set(false);
        kernel.log.take();
        network.write_rules(&kernel).unwrap();
        assert_eq!(kernel.log.take(), ["0 ports", "pod 0"]);
        assert_eq!(network.take_by(&kernel).unwrap(), addresses);
    }

    #[test]
    fn what_nobody_asks_for_again_is_looked_at_before_a_range_is_full() {
        let (network, sandbox, addresses) = full();
        let kernel = ByHand::default();
        kernel.stays.set(true);
        network.disconnect_by(&sandbox, &addresses, &kernel).unwrap_err();
        network.withhold(&sandbox, &addresses);
        assert!(network.take_by(&kernel).is_err());
        // The same range, anew: somebody has that address still.
        network.set_ranges_by(&[], |_, _| Ok(())).unwrap();
        let ranges = [Cidr::parse("10.0.0.0/30").unwrap()];
        network.set_ranges_by(&ranges, |_, _| Ok(())).unwrap();
        assert!(network.take_by(&kernel).is_err());
        kernel.stays.set(false);
        assert_eq!(network.take_by(&kernel).unwrap(), addresses);
    }

    /// The range changes, and changes back, while an interface cannot be removed.
    struct Unsteady<'a>(&'a PodNetwork);

    impl Change for Unsteady<'_> {
        fn write(&self, _: &Rules) -> Result<(), network::Error> {
            Ok(())
        }
        fn disconnect(&self, _: u128) -> Result<(), network::Error> {
            let ranges = self.0.ranges();
            for ranges in [&[Cidr::parse("10.0.1.0/30")?], &ranges[..]] {
                self.0.set_ranges_by(ranges, |_, _| Ok(()))?;
            }
            Err(Cidr::parse("nothing").unwrap_err())
        }
    }

    #[test]
    fn an_address_stays_taken_whatever_becomes_of_the_ranges_meanwhile() {
        // Of a sandbox that is being made.
        let (network, sandbox, addresses) = full();
        for range in ["10.0.1.0/30", "10.0.0.0/30"] {
            network.set_ranges_by(&[Cidr::parse(range).unwrap()], |_, _| Ok(())).unwrap();
        }
        assert!(network.take_free().is_err());
        // Of one that is being ended, and then is nobody's.
        network.disconnect_by(&sandbox, &addresses, &Unsteady(&network)).unwrap_err();
        assert!(network.take_free().is_err());
        network.withhold(&sandbox, &addresses);
        assert!(network.take_by(&Unsteady(&network)).is_err());
        assert_eq!(network.take_by(&ByHand::default()).unwrap(), addresses);
        network.give_back(&addresses);
        assert_eq!(network.take_free().unwrap(), addresses);
    }

    #[test]
    fn redirects_change_with_the_rules_of_the_ranges() {
        /// The last redirects that were written.
        struct Redirects(RefCell<Option<Vec<(Protocol, SocketAddr, SocketAddr)>>>);
        impl Change for Redirects {
            fn write(&self, rules: &Rules) -> Result<(), network::Error> {
                *self.0.borrow_mut() = Some(rules.redirects.clone());
                Ok(())
            }
            fn disconnect(&self, _: u128) -> Result<(), network::Error> {
                Ok(())
            }
        }
        let to = |api: &str| vec![(Protocol::Tcp, "10.96.0.1:443".parse().unwrap(), api.parse().unwrap())];
        let (network, kernel) = (network(), Redirects(RefCell::default()));
        network.set_redirects_by(to("192.0.2.1:6443"), &kernel).unwrap();
        assert_eq!(kernel.0.take(), None, "without ranges there are no rules");
        let ranges = [Cidr::parse("10.0.0.0/24").unwrap()];
        let first = |_: &Bridge, rules: &Rules| {
            assert_eq!(rules.redirects, to("192.0.2.1:6443"));
            Ok(())
        };
        network.set_ranges_by(&ranges, first).unwrap();
        network.set_redirects_by(to("192.0.2.2:6443"), &kernel).unwrap();
        assert_eq!(kernel.0.take(), Some(to("192.0.2.2:6443")));
    }

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
