//! Interfaces, addresses and routes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::addresses::Cidr;
use crate::netlink::{self, ACK, CREATE, EXCLUSIVE, Messages, REPLACE, REQUEST, Socket};

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

const HARDWARE_ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const MASTER: u16 = 10;
const PROTOCOL_INFO: u16 = 12;
const LINK_INFO: u16 = 18;
const NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const PORT_MODE: u16 = 4;

const BRIDGE_FAMILY: u8 = 7;
const IS_UP: u32 = 1;
/// Of an address: nobody is asked whether it is taken.
const NO_DETECTION: u32 = 0x02;

/// The fixed part of a message about an interface.
fn link(family: u8, index: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut bytes = vec![family, 0, 0, 0];
    bytes.extend_from_slice(&index.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&change.to_ne_bytes());
    bytes
}

/// Its number; `None`: there is none.
pub fn find(socket: &Socket, name: &str) -> io::Result<Option<u32>> {
    let mut message = Messages::default();
    message.begin(GET_LINK, REQUEST | ACK, &link(0, 0, 0, 0)).text(NAME, name);
    match socket.call(&mut message) {
        Ok(answers) => {
            let found = answers.iter().find(|answer| answer.kind == NEW_LINK);
            Ok(found
                .and_then(|answer| answer.body.get(4..8)?.first_chunk().map(|raw| u32::from_ne_bytes(*raw))))
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// All interfaces, by name.
pub fn list(socket: &Socket) -> io::Result<Vec<(u32, String)>> {
    let mut message = Messages::default();
    message.begin(GET_LINK, REQUEST | ACK | netlink::DUMP, &link(0, 0, 0, 0));
    let answers = socket.call(&mut message)?;
    let read = |body: &[u8]| {
        let index = u32::from_ne_bytes(*body.get(4..8)?.first_chunk()?);
        let all = netlink::attributes(body.get(16..)?);
        let (_, name) = all.into_iter().find(|(kind, _)| *kind == NAME)?;
        Some((index, String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned()))
    };
    Ok(answers.iter().filter_map(|answer| read(&answer.body)).collect())
}

/// With a hardware address of its own: else it takes that of a port, and another one when the port goes.
pub fn make_bridge(socket: &Socket, name: &str, hardware: [u8; 6], mtu: u32) -> io::Result<()> {
    let mut message = Messages::default();
    message
        .begin(NEW_LINK, REQUEST | ACK | CREATE | EXCLUSIVE, &link(0, 0, 0, 0))
        .text(NAME, name)
        .attribute(HARDWARE_ADDRESS, &hardware)
        .number(MTU, mtu)
        .nest(LINK_INFO, |info| {
            info.text(INFO_KIND, "bridge");
        });
    socket.call(&mut message).map(drop)
}

/// One end here on the bridge, the other in a pod.
pub fn make_veth(
    socket: &Socket,
    (name, bridge): (&str, u32),
    (peer, namespace): (&str, &OwnedFd),
    mtu: u32,
) -> io::Result<()> {
    let descriptor = u32::try_from(namespace.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = Messages::default();
    message
        .begin(NEW_LINK, REQUEST | ACK | CREATE | EXCLUSIVE, &link(0, 0, IS_UP, IS_UP))
        .text(NAME, name)
        .number(MTU, mtu)
        .number(MASTER, bridge)
        .nest(LINK_INFO, |info| {
            info.text(INFO_KIND, "veth").nest(INFO_DATA, |data| {
                data.nest(VETH_PEER, |other| {
                    other
                        .raw(&link(0, 0, 0, 0))
                        .text(NAME, peer)
                        .number(MTU, mtu)
                        .number(NAMESPACE, descriptor);
                });
            });
        });
    socket.call(&mut message).map(drop)
}

/// A pod may reach itself through the bridge, under another address.
pub fn set_hairpin(socket: &Socket, index: u32) -> io::Result<()> {
    let mut message = Messages::default();
    message.begin(SET_LINK, REQUEST | ACK, &link(BRIDGE_FAMILY, index, 0, 0)).nest(PROTOCOL_INFO, |info| {
        info.attribute(PORT_MODE, &[1]);
    });
    socket.call(&mut message).map(drop)
}

pub fn set_up(socket: &Socket, index: u32) -> io::Result<()> {
    let mut message = Messages::default();
    message.begin(NEW_LINK, REQUEST | ACK, &link(0, index, IS_UP, IS_UP));
    socket.call(&mut message).map(drop)
}

/// What is gone already is gone.
pub fn delete(socket: &Socket, name: &str) -> io::Result<()> {
    let Some(index) = find(socket, name)? else { return Ok(()) };
    let mut message = Messages::default();
    message.begin(DELETE_LINK, REQUEST | ACK, &link(0, index, 0, 0));
    match socket.call(&mut message) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(()),
        other => other.map(drop),
    }
}

pub fn add_address(socket: &Socket, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    let mut fixed = vec![family(address), prefix, 0, 0];
    fixed.extend_from_slice(&index.to_ne_bytes());
    let octets = octets(address);
    let mut message = Messages::default();
    message.begin(NEW_ADDRESS, REQUEST | ACK | CREATE | REPLACE, &fixed);
    message.attribute(1, &octets).attribute(2, &octets);
    if address.is_ipv6() {
        message.number(8, NO_DETECTION);
    }
    socket.call(&mut message).map(drop)
}

/// Whatever is nowhere else goes there.
pub fn add_default_route(socket: &Socket, index: u32, gateway: IpAddr) -> io::Result<()> {
    add_route(socket, index, None, Some(gateway))
}

pub fn add_route(socket: &Socket, index: u32, to: Option<&Cidr>, gateway: Option<IpAddr>) -> io::Result<()> {
    let of = to.map(Cidr::network).or(gateway).ok_or(io::ErrorKind::InvalidInput)?;
    // Main table, set at boot, universe, unicast.
    let mut fixed = vec![family(of), to.map_or(0, Cidr::prefix), 0, 0, 254, 3, 0, 1];
    fixed.extend_from_slice(&0u32.to_ne_bytes());
    let mut message = Messages::default();
    message.begin(NEW_ROUTE, REQUEST | ACK | CREATE | REPLACE, &fixed);
    if let Some(to) = to {
        message.attribute(1, &octets(to.network()));
    }
    if let Some(gateway) = gateway {
        message.attribute(5, &octets(gateway));
    }
    message.number(4, index);
    socket.call(&mut message).map(drop)
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { 2 } else { 10 }
}

pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
