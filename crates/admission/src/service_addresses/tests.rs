use std::cell::Cell;
use std::net::IpAddr;

use codec::json;
use object::Value;

use super::node_ports::{NodePorts, PortRange};
use super::{BadRange, Cidr, Family, ServiceRanges};

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), None).unwrap()
}

#[test]
fn ranges_read_back_as_written() {
    for text in ["10.96.0.0/16", "10.0.0.0/8", "192.168.1.4/30", "fd00::/108", "2001:db8::/64"] {
        assert_eq!(cidr(text).to_string(), text);
    }
    assert_eq!(cidr("10.96.3.4/16").to_string(), "10.96.0.0/16");
    assert_eq!(cidr("10.96.0.0/16"), ServiceRanges::default().cluster()[0]);
    for text in ["", "10.96.0.0", "10.96.0.0/33", "fd00::/129", "10.96.0.0/x", "x/16"] {
        assert!(Cidr::parse(text).is_err(), "{text}");
    }
    let ports = PortRange::default();
    let ranges = |text: &str| ServiceRanges::new(text, ports);
    assert_eq!(ranges("fd00::/48"), Err(BadRange::TooLarge("fd00::/48".into())));
    assert_eq!(ranges("10.0.0.0/31"), Err(BadRange::Empty("10.0.0.0/31".into())));
    assert!(ranges("10.0.0.0/16,10.1.0.0/16").is_err());
    assert_eq!(ranges("fd00::/108,10.1.0.0/16").unwrap().first_address(), ip("fd00::1"));
}

#[test]
fn network_and_broadcast_addresses_are_not_allocated() {
    let range = cidr("10.0.0.0/29");
    let inside: Vec<bool> = (0..9).map(|n| range.contains(&ip(&format!("10.0.0.{n}")))).collect();
    assert_eq!(inside, [false, true, true, true, true, true, true, false, false]);
    let range = cidr("fd00::/125");
    assert!(
        !range.contains(&ip("fd00::")) && range.contains(&ip("fd00::7")) && !range.contains(&ip("fd00::8"))
    );
    assert!(!cidr("0.0.0.0/0").contains(&ip("::1")));
    assert!(
        cidr("10.0.0.0/8").covers(&cidr("10.1.0.0/16")) && !cidr("10.1.0.0/16").covers(&cidr("10.0.0.0/8"))
    );
    assert_eq!(cidr("10.0.0.0/8").family(), Family::V4);
}

#[test]
fn candidates_are_all_addresses_once_and_the_static_band_comes_last() {
    let draws = Cell::new(7u64);
    let random = |below: u64| {
        draws.set(draws.get() * 31 + 11);
        draws.get() % below
    };
    let of = |text: &str| -> Vec<IpAddr> { cidr(text).candidates(random).collect() };
    // 256 addresses: the band is 16.
    let all = of("10.0.0.0/24");
    assert_eq!(all.len(), 254);
    let band: Vec<bool> = all.iter().map(|a| *a < ip("10.0.0.17")).collect();
    assert!(band[..238].iter().all(|b| !b) && band[238..].iter().all(|b| *b));
    let mut sorted = all.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((sorted.len(), sorted[0], sorted[253]), (254, ip("10.0.0.1"), ip("10.0.0.254")));
    // Too small to be divided, and a /16 with the largest band.
    assert_eq!(of("10.0.0.0/28").len(), 14);
    let wide: Vec<IpAddr> = cidr("10.96.0.0/16").candidates(|_| 0).take(1).collect();
    assert_eq!(wide, [ip("10.96.1.1")]);
    let huge: Vec<IpAddr> = cidr("fd00::/64").candidates(|n| n - 1).take(2).collect();
    assert_eq!(huge.len(), 2);
}

#[test]
fn ports_are_stored_as_upstream_stores_them() {
    let range = PortRange::default();
    assert_eq!(range.to_string(), "30000-32767");
    assert_eq!(PortRange::parse("30000+2768"), Ok(range));
    for text in ["", "a-b", "5-4", "0-3", "65535+2", "70000-70001"] {
        assert!(PortRange::parse(text).is_err(), "{text}");
    }
    let service = value(
        r#"{"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30009,
            "ports":[{"nodePort":30000},{"nodePort":30008},{"nodePort":80},{}]}}"#,
    );
    let held = NodePorts::held_by(range, [&service]);
    let stored = String::from_utf8(held.encode()).unwrap();
    // Bits 0, 8 and 9: 0x0301.
    assert_eq!(
        stored,
        r#"{"kind":"RangeAllocation","apiVersion":"v1","metadata":{},"range":"30000-32767","data":"AwE="}"#
    );
    assert_eq!(NodePorts::decode(range, &value(&stored)), Some(held));
    assert_eq!(NodePorts::decode(PortRange::parse("20000-20010").unwrap(), &value(&stored)), None);
    let none = NodePorts::held_by(range, []);
    assert_eq!(NodePorts::decode(range, &value(&String::from_utf8(none.encode()).unwrap())), Some(none));
}
