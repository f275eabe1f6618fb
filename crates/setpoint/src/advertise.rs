//! `--advertise-address`: the address at which pods and nodes reach this server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, anyhow};

pub fn parse(text: &str) -> Result<IpAddr> {
    let ip: Option<IpAddr> = text.parse().ok();
    ip.filter(|ip| !ip.is_unspecified() && !ip.is_multicast()).ok_or_else(|| {
        anyhow!(
            "--advertise-address {text} is not a reachable address: use a unicast IP such as 192.168.1.10"
        )
    })
}

/// The listen address if it is reachable from outside; else the one the default route leaves by: the bridge of a node has addresses
/// too, which other machines cannot reach. Without such a route the first non-loopback address of this machine; else loopback.
pub fn default_for(listen: IpAddr) -> IpAddr {
    let route = |v6| {
        let source = kubelet::machine::route_source(v6);
        source.filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
    };
    choose(listen, &route, &|| first_v4().map(IpAddr::V4).or_else(|| first_v6().map(IpAddr::V6)))
}

fn choose(
    listen: IpAddr,
    route: &dyn Fn(bool) -> Option<IpAddr>,
    first: &dyn Fn() -> Option<IpAddr>,
) -> IpAddr {
    if !listen.is_unspecified() && !listen.is_loopback() {
        return listen;
    }
    route(false).or_else(|| route(true)).or_else(first).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// From the kernel's local routing table: each address of this machine is followed by a line `/32 host LOCAL`.
fn first_v4() -> Option<Ipv4Addr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").ok()?;
    local_v4(&table)
}

fn local_v4(table: &str) -> Option<Ipv4Addr> {
    let mut last = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last
            && !address.is_loopback()
            && !address.is_link_local()
        {
            return Some(address);
        }
    }
    None
}

/// Lines of `address index prefix scope flags name`; scope 00 is global.
fn first_v6() -> Option<Ipv6Addr> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    let global = table.lines().find(|line| line.split_whitespace().nth(3) == Some("00"))?;
    let digits = global.split_whitespace().next()?;
    u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_local_address_that_is_not_loopback_is_found() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 127.0.0.1\n        \
                     /32 host LOCAL\n     |-- 192.0.2.0\n        /24 link UNICAST\n     |-- 192.0.2.7\n        /32 host LOCAL\n";
        assert_eq!(local_v4(table), Some(Ipv4Addr::new(192, 0, 2, 7)));
        assert_eq!(local_v4("|-- 127.0.0.1\n /32 host LOCAL"), None);
    }

    #[test]
    fn the_default_route_decides_before_the_order_of_addresses() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let any = address("0.0.0.0");
        let bridge = || Some(address("10.244.0.1"));
        assert_eq!(choose(any, &|v6| (!v6).then(|| address("192.0.2.7")), &bridge), address("192.0.2.7"));
        assert_eq!(choose(any, &|v6| v6.then(|| address("fd00::2")), &bridge), address("fd00::2"));
        assert_eq!(choose(address("127.0.0.1"), &|_| None, &bridge), address("10.244.0.1"));
        assert_eq!(choose(any, &|_| None, &|| None), address("127.0.0.1"));
    }

    #[test]
    fn an_address_that_is_listened_on_is_advertised() {
        let listen: IpAddr = "192.0.2.9".parse().unwrap();
        assert_eq!(default_for(listen), listen);
        assert!(parse("0.0.0.0").is_err() && parse("here").is_err());
        assert_eq!(parse("192.0.2.9").unwrap(), listen);
    }
}
