//! The order of ports in Endpoints and EndpointSlices, and of the subsets of Endpoints: by a hash of how Go prints them, for
//! clients see the order.

use crate::endpoints::{Address, Port, Subset};
use crate::services::Target;

/// Of a port of Endpoints.
pub fn in_endpoints(name: &str, port: i64, protocol: &str, app_protocol: Option<&str>) -> u128 {
    let app_protocol = app_protocol.unwrap_or("<nil>");
    fnv(&format!("(v1.EndpointPort){}", endpoint_port(name, port, protocol, app_protocol)))
}

/// Of a port of an EndpointSlice, where all is behind pointers and stands in another order.
pub fn in_slice(name: &str, port: i64, protocol: &str, app_protocol: Option<&str>) -> u128 {
    let app_protocol = app_protocol.unwrap_or("<nil>");
    fnv(&format!(
        "(v1.EndpointPort){{Name:(*string){name} Protocol:(*v1.Protocol){protocol} Port:(*int32){port} \
         AppProtocol:(*string){app_protocol}}}"
    ))
}

/// Of a whole subset, whose lists are in order already.
pub fn of_subset(subset: &Subset) -> u128 {
    let addresses = |list: &[Address]| go_list("v1.EndpointAddress", list, go_address);
    let (ready, not_ready) = (addresses(&subset.addresses), addresses(&subset.not_ready));
    let ports = go_list("v1.EndpointPort", &subset.ports, |port: &Port| {
        let app_protocol = port.app_protocol.as_deref().unwrap_or("<nil>");
        endpoint_port(&port.name, port.port, &port.protocol, app_protocol)
    });
    fnv(&format!("(v1.EndpointSubset){{Addresses:{ready} NotReadyAddresses:{not_ready} Ports:{ports}}}"))
}

fn endpoint_port(name: &str, port: i64, protocol: &str, app_protocol: &str) -> String {
    format!(
        "{{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol} AppProtocol:(*string){app_protocol}}}"
    )
}

fn go_address(address: &Address) -> String {
    let Address { ip, hostname, node, target } = address;
    let node = if node.is_empty() { "<nil>" } else { node };
    let target = if *target == Target::default() && target.resource_version.is_empty() {
        "<nil>".to_owned()
    } else {
        let Target { api_version, kind, namespace, name, uid, field_path, resource_version } = target;
        format!(
            "{{Kind:(string){kind} Namespace:(string){namespace} Name:(string){name} UID:(types.UID){uid} \
             APIVersion:(string){api_version} ResourceVersion:(string){resource_version} FieldPath:(string){field_path}}}"
        )
    };
    format!(
        "{{IP:(string){ip} Hostname:(string){hostname} NodeName:(*string){node} TargetRef:(*v1.ObjectReference){target}}}"
    )
}

/// A list that is empty was never made.
fn go_list<T>(of: &str, list: &[T], print: impl Fn(&T) -> String) -> String {
    match list {
        [] => format!("([]{of})<nil>"),
        list => format!("([]{of})[{}]", list.iter().map(print).collect::<Vec<_>>().join(" ")),
    }
}

/// FNV-1a of 128 bits.
fn fnv(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_in_upstreams_order() {
        // Seen of v1.36.4 with a Service of the ports y (81) and x (90): y first in Endpoints, x first in the slice.
        assert!(in_endpoints("y", 81, "TCP", None) < in_endpoints("x", 90, "TCP", None));
        assert!(in_slice("x", 90, "TCP", None) < in_slice("y", 81, "TCP", None));
    }

    fn pod(ip: &str, hostname: &str, name: &str, uid: &str) -> Address {
        let target = Target::pod("default", name, uid);
        Address { ip: ip.to_owned(), hostname: hostname.to_owned(), node: "node-1".to_owned(), target }
    }

    fn port(name: &str, port: i64, protocol: &str, app_protocol: Option<&str>) -> Port {
        let app_protocol = app_protocol.map(str::to_owned);
        Port { name: name.to_owned(), port, protocol: protocol.to_owned(), app_protocol }
    }

    /// The numbers are those that Go gives for the same structs, with the printer and the hash kube-controller-manager uses.
    #[test]
    fn a_subset_has_the_hash_that_go_gives_it() {
        let both = Subset {
            addresses: vec![pod("10.0.0.1", "web-1", "web-1", "u-1"), pod("10.0.0.2", "", "web-2", "u-2")],
            not_ready: vec![],
            ports: vec![port("x", 80, "TCP", Some("http")), port("y", 81, "UDP", None)],
        };
        assert_eq!(format!("{:032x}", of_subset(&both)), "89dbacaf9a97b487a89114506046ab53");
        let no_ports = Subset { not_ready: vec![pod("10.0.0.2", "", "web-2", "u-2")], ..Subset::default() };
        assert_eq!(format!("{:032x}", of_subset(&no_ports)), "c1b3cfc97337ae01b125ea79facaaf26");
        let bare = Subset {
            addresses: vec![Address { ip: "10.0.0.3".to_owned(), ..Address::default() }],
            ports: vec![port("", 80, "TCP", None)],
            ..no_ports
        };
        assert_eq!(format!("{:032x}", of_subset(&bare)), "373a3055184daff1098032648aed9593");
    }
}
