//! IP addresses: the name is the address in canonical form, the spec refers to its owner.

mod columns;

use std::net::IpAddr;

use object::validate_text;

use crate::check::internal::{Field, TEXT, internal};
use crate::check::{Errors, Raw, member, text};
use crate::generic::GenericKind;
use crate::rules::{NameRule, Rules};
use crate::workload::SPEC;
use crate::write::Write;

pub const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
pub const IP_FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
/// Whose the addresses are that services get.
pub const MANAGED_BY: &str = "ipallocator.k8s.io";

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_name(NameRule::IpAddress), check).with_printer(&columns::PRINTER);

const PARENT: [Field; 4] = [
    ("group", "Group", TEXT),
    ("resource", "Resource", TEXT),
    ("namespace", "Namespace", TEXT),
    ("name", "Name", TEXT),
];

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let at = SPEC.child("parentRef");
    let parent = member(write.spec(), "parentRef");
    match parent {
        None => errors.required(&at, ""),
        Some(parent) => {
            let group = text(parent, "group");
            if !group.is_empty() {
                errors.subdomain(&at.child("group"), group);
            }
            for name in ["resource", "name", "namespace"] {
                match text(parent, name) {
                    "" if name == "namespace" => {}
                    "" => errors.required(&at.child(name), ""),
                    value => errors.each(&at.child(name), value, validate_text::path_segment_name(value)),
                }
            }
        }
    }
    if let Some(old) = write.old_spec() {
        write.check_metadata(errors);
        if !write.same(&["spec", "parentRef"], parent, member(old, "parentRef")) {
            let shown = parent.map_or_else(|| "null".to_owned(), |p| internal(Some(p), &PARENT));
            errors.invalid(&at, Raw(&shown), crate::check::IMMUTABLE);
        }
    }
}

/// What is wrong with an address as the name of an IPAddress.
pub(crate) fn problems(name: &str) -> Vec<String> {
    let Ok(address) = name.parse::<IpAddr>() else {
        // Go's old reader let zeros lead in IPv4; those get a message of their own.
        let digits =
            |part: &str| !part.is_empty() && part.len() < 20 && part.bytes().all(|b| b.is_ascii_digit());
        let parts: Vec<&str> = name.split('.').collect();
        let sloppy = parts.len() == 4
            && parts.iter().all(|p| digits(p) && p.parse::<u64>().is_ok_and(|n| n <= 255))
            && parts.iter().any(|p| p.len() > 1 && p.starts_with('0'));
        let problem = match sloppy {
            true => "must not have leading 0s",
            false => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        };
        return vec![problem.to_owned()];
    };
    if let IpAddr::V6(v6) = address
        && v6.to_ipv4_mapped().is_some()
    {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    let canonical = address.to_string();
    if name == canonical { Vec::new() } else { vec![format!("must be in canonical form (\"{canonical}\")")] }
}
