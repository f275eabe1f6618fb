//! The bridge of a node, and the pods on it.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use crate::addresses::Cidr;
use crate::error::{Context, Error};
use crate::link;
use crate::netlink::{Family, Socket, within};
use crate::rules;

/// The name of a pod's interface, inside.
pub const INSIDE: &str = "eth0";

/// The bridge that the pods of a node are on.
#[derive(Clone, Debug, PartialEq)]
pub struct Bridge {
    pub name: String,
    /// One of each version of IP at most.
    pub ranges: Vec<Cidr>,
    pub mtu: u32,
}

/// Of an interface: from the kernel's limit of fifteen letters.
pub fn veth_name(bridge: &str, pod: u128) -> String {
    // Over both: two nodes of one machine may have the same pod for a moment.
    format!("veth{:011x}", hash(bridge.bytes().chain(pod.to_be_bytes())) >> 20)
}

/// FNV-1a.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Of the bridge, the same at any time: one that is administered locally, by its name.
fn hardware_address(bridge: &str) -> [u8; 6] {
    let [_, _, _, a, b, c, d, e] = hash(bridge.bytes()).to_be_bytes();
    [0x02, a, b, c, d, e]
}

impl Bridge {
    /// Makes the bridge with its addresses, and this machine a router; done twice, it changes nothing.
    pub fn ensure(&self) -> Result<(), Error> {
        let socket = open()?;
        let shown = || format!("create bridge {}", self.name);
        if self.ranges.iter().any(Cidr::is_v6) {
            keep_router_advertisements().context(|| "set net/ipv6/conf/*/accept_ra".to_owned())?;
        }
        if link::find(&socket, &self.name).context(shown)?.is_none() {
            link::make_bridge(&socket, &self.name, hardware_address(&self.name), self.mtu).context(shown)?;
        }
        let index = self.index(&socket)?;
        ignore_routers(&self.name).context(shown)?;
        link::set_up(&socket, index).context(shown)?;
        for range in &self.ranges {
            link::add_address(&socket, index, range.gateway(), range.prefix()).context(shown)?;
            let switch = if range.is_v6() { "ipv6/conf/all/forwarding" } else { "ipv4/ip_forward" };
            std::fs::write(format!("/proc/sys/net/{switch}"), "1").context(|| format!("set net/{switch}"))?;
        }
        // Host ports on 127.0.0.1 lead to pods; the way back must not be one to what listens there.
        rules::guard_loopback(&self.name)?;
        let switch = format!("/proc/sys/net/ipv4/conf/{}/route_localnet", self.name);
        std::fs::write(&switch, "1").context(|| format!("set {switch}"))
    }

    fn index(&self, socket: &Socket) -> Result<u32, Error> {
        let found = link::find(socket, &self.name).context(|| format!("find bridge {}", self.name))?;
        found
            .ok_or(std::io::Error::from(std::io::ErrorKind::NotFound))
            .context(|| format!("find bridge {}", self.name))
    }

    /// Connects a pod: `addresses` are its own, of the bridge's ranges.
    pub fn connect(&self, pod: u128, namespace: &OwnedFd, addresses: &[IpAddr]) -> Result<(), Error> {
        let socket = open()?;
        let name = veth_name(&self.name, pod);
        let shown = || format!("connect a pod to bridge {}", self.name);
        // Of a try before this one.
        link::delete(&socket, &name).context(shown)?;
        let bridge = self.index(&socket)?;
        link::make_veth(&socket, (&name, bridge), (INSIDE, namespace), self.mtu).context(shown)?;
        let outside = link::find(&socket, &name).context(shown)?.unwrap_or_default();
        link::set_hairpin(&socket, outside).context(shown)?;
        let enter = || ignore_routers(INSIDE).and_then(|()| Socket::open(Family::Route));
        let socket = within(namespace, enter).context(shown)?;
        let inside = link::find(&socket, INSIDE).context(shown)?.unwrap_or_default();
        link::set_up(&socket, inside).context(shown)?;
        for address in addresses {
            let range = self.ranges.iter().find(|range| range.contains(*address));
            let prefix = range.map_or(if address.is_ipv6() { 128 } else { 32 }, Cidr::prefix);
            link::add_address(&socket, inside, *address, prefix).context(shown)?;
            if let Some(range) = range {
                link::add_default_route(&socket, inside, range.gateway()).context(shown)?;
            }
        }
        Ok(())
    }

    /// The pod's end goes with this one.
    pub fn disconnect(&self, pod: u128) -> Result<(), Error> {
        link::delete(&open()?, &veth_name(&self.name, pod)).context(|| "remove a pod's interface".to_owned())
    }

    pub fn remove(&self) -> Result<(), Error> {
        rules::remove_guard(&self.name)?;
        link::delete(&open()?, &self.name).context(|| format!("remove bridge {}", self.name))
    }
}

/// Pods are no routers, but one that may send what it likes can say so to its neighbours and to this machine, also where nobody uses
/// version 6 of IP.
fn ignore_routers(interface: &str) -> std::io::Result<()> {
    match std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/accept_ra"), "0") {
        // A kernel without that version.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// A router hears no other routers: an interface that did goes on only when told so.
fn keep_router_advertisements() -> std::io::Result<()> {
    if std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding")?.trim() != "0" {
        return Ok(());
    }
    for interface in std::fs::read_dir("/proc/sys/net/ipv6/conf")? {
        let interface = interface?;
        // Of interfaces that will be nothing is known.
        if ["all", "default"].iter().any(|name| interface.file_name() == *name) {
            continue;
        }
        let switch = interface.path().join("accept_ra");
        // One that went away meanwhile needs nothing.
        if std::fs::read_to_string(&switch).is_ok_and(|value| value.trim() == "1") {
            let _ = std::fs::write(&switch, "2");
        }
    }
    Ok(())
}

/// Every pod's own, also of one without a network: programs expect it.
pub fn set_loopback_up(namespace: &OwnedFd) -> Result<(), Error> {
    let shown = || "set the loopback interface up".to_owned();
    let socket = Socket::open_in(Family::Route, namespace).context(shown)?;
    let index = link::find(&socket, "lo").context(shown)?.unwrap_or(1);
    link::set_up(&socket, index).context(shown)
}

/// The names of all interfaces.
pub fn interfaces() -> Result<Vec<String>, Error> {
    let all = link::list(&open()?).context(|| "list interfaces".to_owned())?;
    Ok(all.into_iter().map(|(_, name)| name).collect())
}

fn open() -> Result<Socket, Error> {
    Socket::open(Family::Route).context(|| "open a netlink socket".to_owned())
}
