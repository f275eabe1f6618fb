//! What the node does with packets beside routing them: a table of its own, always written as a whole.

use std::net::{IpAddr, SocketAddr};

use crate::addresses::Cidr;
use crate::conntrack::{self, Flow};
use crate::error::{Context, Error};
use crate::nftables::{self, Chain, Expression, Hook};

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The node's own: what leaves them for elsewhere goes under the node's address.
    pub pod_ranges: Vec<Cidr>,
    /// Pods and services of the whole cluster: these see a pod under its own address.
    pub cluster_ranges: Vec<Cidr>,
    pub host_ports: Vec<HostPort>,
    /// Addresses that are nowhere, such as that of the `kubernetes` Service.
    pub redirects: Vec<(Protocol, SocketAddr, SocketAddr)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HostPort {
    pub protocol: Protocol,
    /// `None`: every address of this machine.
    pub host: Option<IpAddr>,
    pub port: u16,
    pub to: SocketAddr,
}

impl HostPort {
    fn takes(&self, sent_to: SocketAddr) -> bool {
        sent_to.port() == self.port
            && self.host.map_or(sent_to.is_ipv6() == self.to.is_ipv6(), |host| host == sent_to.ip())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }
}

impl Rules {
    /// Makes them hold, at once.
    pub fn apply(&self, table: &str) -> Result<(), Error> {
        let chains = [
            Chain { name: "prerouting", hook: Hook::Prerouting, rules: self.arriving() },
            Chain { name: "output", hook: Hook::Output, rules: self.sent_here() },
            Chain { name: "postrouting", hook: Hook::Postrouting, rules: self.leaving() },
        ];
        nftables::replace(table, &chains).context(|| format!("write the nftables table {table}"))
    }

    pub fn remove(table: &str) -> Result<(), Error> {
        nftables::remove(table).context(|| format!("remove the nftables table {table}"))
    }

    /// Only of the node's own pods: nodes of other clusters on this machine may have the same addresses for services of theirs.
    fn arriving(&self) -> Vec<Vec<Expression>> {
        let mut rules = Vec::new();
        for redirect in &self.redirects {
            for range in self.pod_ranges.iter().filter(|range| range.is_v6() == redirect.1.is_ipv6()) {
                let source = Expression::Address { source: true, range: range.clone(), is_in: true };
                rules.push([source].into_iter().chain(redirected(redirect)).collect());
            }
        }
        rules.extend(self.to_host_ports());
        rules
    }

    /// Of this machine's own processes, pods in its network among them.
    fn sent_here(&self) -> Vec<Vec<Expression>> {
        let mut rules: Vec<_> = self.redirects.iter().map(|redirect| redirected(redirect).into()).collect();
        rules.extend(self.to_host_ports());
        rules
    }

    fn to_host_ports(&self) -> Vec<Vec<Expression>> {
        let mut rules = Vec::new();
        for port in &self.host_ports {
            let to = match port.host {
                Some(host) => to_address(host),
                // Of the same version of IP as the pod's.
                None => Expression::Address { source: false, range: everything(port.to.ip()), is_in: true },
            };
            rules.push(vec![
                to,
                Expression::ToThisMachine,
                Expression::Protocol(port.protocol.number()),
                Expression::DestinationPort(port.port),
                Expression::Redirect { to: port.to.ip(), port: port.to.port() },
            ]);
        }
        rules
    }

    fn leaving(&self) -> Vec<Vec<Expression>> {
        let mut rules = Vec::new();
        for range in &self.pod_ranges {
            let source = || Expression::Address { source: true, range: range.clone(), is_in: true };
            let destination = |is_in| Expression::Address { source: false, range: range.clone(), is_in };
            // A pod that reaches itself, or its neighbour, under another address must hear back from that one.
            rules.push(vec![source(), destination(true), Expression::WasRedirected, Expression::Masquerade]);
            let mut leaves = vec![source(), destination(false)];
            let alike = self.cluster_ranges.iter().filter(|other| other.is_v6() == range.is_v6());
            leaves.extend(alike.map(|other| Expression::Address {
                source: false,
                range: other.clone(),
                is_in: false,
            }));
            leaves.push(Expression::Masquerade);
            rules.push(leaves);
        }
        // From this machine's loopback to a host port: the pod cannot answer to a loopback address.
        let loopback = Expression::Address { source: true, range: loopback(), is_in: true };
        rules.push(vec![loopback, Expression::WasRedirected, Expression::Masquerade]);
        rules
    }
}

/// The names of all tables of this machine, also of others'.
pub fn tables() -> Result<Vec<String>, Error> {
    nftables::tables().context(|| "list the tables of nftables".to_owned())
}

/// Has datagrams that were on their way to these ports before, to whomever had them, go to where they lead now; to be called once
/// rules say so.
pub fn forget_earlier_flows(ports: &[HostPort]) -> Result<(), Error> {
    forget_flows(ports, |port, flow| flow.goes_to != port.to)
}

/// Has datagrams no longer go to these pods: the rules that led there are gone.
pub fn forget_flows_to(ports: &[HostPort]) -> Result<(), Error> {
    forget_flows(ports, |port, flow| flow.goes_to == port.to)
}

/// Only UDP needs this: whoever has a connection hears that it is broken.
fn forget_flows(ports: &[HostPort], which: impl Fn(&HostPort, &Flow) -> bool) -> Result<(), Error> {
    let ports: Vec<&HostPort> = ports.iter().filter(|port| port.protocol == Protocol::Udp).collect();
    if ports.is_empty() {
        return Ok(());
    }
    let is_meant = |flow: &Flow| {
        ports.iter().any(|port| port.takes(flow.sent_to) && which(port, flow)) && flow.is_for_this_machine()
    };
    conntrack::forget(is_meant).context(|| "forget flows of UDP to host ports".to_owned())
}

/// Chains of others that drop what goes through this machine unless one of their rules lets it pass, such as Docker's, ufw's or
/// firewalld's: no verdict of ours changes theirs.
pub fn forward_drops() -> Result<Vec<String>, Error> {
    nftables::forward_drops().context(|| "list the chains of nftables".to_owned())
}

/// A bridge that routes to loopback addresses would let a pod reach what listens on this machine's own: nothing from outside goes
/// to or comes from one, unless it was sent to a host port and redirected, which happens later.
pub(crate) fn guard_loopback(bridge: &str) -> Result<(), Error> {
    let table = guard_table(bridge);
    let rule = |source| {
        let address = Expression::Address { source, range: loopback(), is_in: true };
        vec![Expression::FromOutside, address, Expression::Drop]
    };
    let chain = Chain { name: "arrival", hook: Hook::Arrival, rules: vec![rule(false), rule(true)] };
    nftables::replace(&table, &[chain]).context(|| format!("write the nftables table {table}"))
}

pub(crate) fn remove_guard(bridge: &str) -> Result<(), Error> {
    Rules::remove(&guard_table(bridge))
}

fn guard_table(bridge: &str) -> String {
    format!("{bridge}-guard")
}

fn redirected(&(protocol, from, to): &(Protocol, SocketAddr, SocketAddr)) -> [Expression; 4] {
    [
        to_address(from.ip()),
        Expression::Protocol(protocol.number()),
        Expression::DestinationPort(from.port()),
        Expression::Redirect { to: to.ip(), port: to.port() },
    ]
}

fn to_address(address: IpAddr) -> Expression {
    Expression::Address { source: false, range: Cidr::host(address), is_in: true }
}

fn everything(like: IpAddr) -> Cidr {
    Cidr::everything(like.is_ipv6())
}

fn loopback() -> Cidr {
    Cidr::host(IpAddr::from([127, 0, 0, 0])).widen(8)
}
