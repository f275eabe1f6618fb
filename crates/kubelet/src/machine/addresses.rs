//! Which addresses a node is reached at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("--node-ip {0:?} is not an IP address, or one of each family with a comma between them")]
    NotAddresses(String),
    #[error("nodeIP can't be a multicast address")]
    Multicast,
    #[error("nodeIP can't be a link-local unicast address")]
    LinkLocal,
    #[error("node IP: {0:?} not found in the host's network interfaces")]
    Foreign(String),
}

/// `told`: `--node-ip`, one address or one of each family; empty: whatever the default route leaves by.
///
/// Differs from kubelet, which has no node without a network: a machine that has none is reached by itself, at loopback. And loopback may
/// be asked for, for several nodes of one machine.
pub fn node_addresses(told: &str) -> Result<Vec<IpAddr>, AddressError> {
    choose(told, &is_local, &|v6| route_source(v6))
}

/// `is_ours`: an interface of this machine has it; `source`: the address the default route leaves by, for IPv6 or IPv4.
fn choose(
    told: &str,
    is_ours: &dyn Fn(IpAddr) -> bool,
    source: &dyn Fn(bool) -> Option<IpAddr>,
) -> Result<Vec<IpAddr>, AddressError> {
    let bad = || AddressError::NotAddresses(told.to_owned());
    let mut given = Vec::new();
    for text in told.split(',').map(str::trim).filter(|_| !told.is_empty()) {
        given.push(text.parse::<IpAddr>().map_err(|_| bad())?);
    }
    if let [one, two, rest @ ..] = &given[..]
        && (!rest.is_empty()
            || one.is_ipv4() == two.is_ipv4()
            || one.is_unspecified()
            || two.is_unspecified())
    {
        return Err(bad());
    }
    if given.iter().any(|ip| !ip.is_unspecified()) {
        for ip in &given {
            check(*ip, is_ours)?;
        }
        return Ok(given);
    }
    // Unspecified addresses say which family is preferred.
    let v6_first = given.first().is_some_and(IpAddr::is_ipv6);
    let found = source(v6_first).or_else(|| source(!v6_first)).filter(|ip| !ip.is_unspecified());
    Ok(vec![found.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))])
}

fn check(ip: IpAddr, is_ours: &dyn Fn(IpAddr) -> bool) -> Result<(), AddressError> {
    if ip.is_multicast() {
        return Err(AddressError::Multicast);
    }
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if link_local {
        return Err(AddressError::LinkLocal);
    }
    if is_ours(ip) { Ok(()) } else { Err(AddressError::Foreign(ip.to_string())) }
}

/// Only an address of an interface can be bound.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// The address that the default route leaves by. The kernel chooses it when a datagram socket is connected; nothing is sent.
pub fn route_source(v6: bool) -> Option<IpAddr> {
    // Addresses of documentation, to which only a default route leads.
    let (any, far): (IpAddr, IpAddr) = if v6 {
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
    } else {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(203, 0, 113, 1).into())
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(told: &str, v4: Option<&str>, v6: Option<&str>) -> Result<Vec<String>, AddressError> {
        let ours = |ip: IpAddr| ["10.0.0.1", "fd00::1", "127.0.0.1"].contains(&&*ip.to_string());
        let source = |six: bool| (if six { v6 } else { v4 }).map(|text| text.parse().expect("an address"));
        choose(told, &ours, &source).map(|all| all.iter().map(IpAddr::to_string).collect())
    }

    #[test]
    fn the_default_route_decides_unless_somebody_does() {
        let (v4, v6) = (Some("10.0.0.1"), Some("fd00::1"));
        for (told, wanted) in [
            ("", &["10.0.0.1"][..]),
            ("::", &["fd00::1"]),
            ("0.0.0.0", &["10.0.0.1"]),
            ("fd00::1", &["fd00::1"]),
            ("10.0.0.1,fd00::1", &["10.0.0.1", "fd00::1"]),
            ("127.0.0.1", &["127.0.0.1"]),
        ] {
            assert_eq!(chosen(told, v4, v6).expect(told), wanted, "{told}");
        }
        assert_eq!(chosen("", None, v6).expect("IPv6"), ["fd00::1"]);
        assert_eq!(chosen("", None, None).expect("loopback"), ["127.0.0.1"]);
    }

    #[test]
    fn addresses_of_others_are_refused() {
        let refused = |told: &str| chosen(told, None, None).expect_err(told);
        assert_eq!(refused("10.9.9.9"), AddressError::Foreign("10.9.9.9".to_owned()));
        assert_eq!(refused("224.0.0.1"), AddressError::Multicast);
        assert_eq!(refused("169.254.1.1"), AddressError::LinkLocal);
        for told in ["here", "10.0.0.1,10.0.0.1", "10.0.0.1,::", "10.0.0.1,fd00::1,127.0.0.1", ","] {
            assert_eq!(refused(told), AddressError::NotAddresses(told.to_owned()), "{told}");
        }
    }
}
