//! The rules of network policies: ports, peers and blocks of addresses.

use object::{Value, validate_text};

use crate::check::text::{masked, sloppy_cidr};
use crate::check::{Errors, Path, int, items, member, text, texts};
use crate::workload::SPEC;
use crate::write::Write;

const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let spec = write.spec();
    let tolerance = Tolerance::from_old(write.old_spec());
    errors.label_selector_with(&SPEC.child("podSelector"), spec.get("podSelector"), tolerance.values);
    for (direction, peers) in DIRECTIONS {
        for (i, rule) in items(spec, direction).iter().enumerate() {
            let list = SPEC.child(direction);
            let at = list.index(i);
            for (j, port) in items(rule, "ports").iter().enumerate() {
                check_port(port, &at.child("ports").index(j), errors);
            }
            for (j, peer) in items(rule, peers).iter().enumerate() {
                check_peer(peer, &tolerance, &at.child(peers).index(j), errors);
            }
        }
    }
    let at = SPEC.child("policyTypes");
    let kinds = items(spec, "policyTypes");
    if kinds.len() > 2 {
        return errors.invalid(&at, spec.get("policyTypes"), "may not specify more than two policyTypes");
    }
    for (i, kind) in texts(spec, "policyTypes").enumerate() {
        errors.one_of(&at.index(i), kind, &["Ingress", "Egress"]);
    }
}

/// What the stored policy may keep.
#[derive(Default)]
struct Tolerance<'a> {
    values: bool,
    blocks: Vec<&'a str>,
}

impl<'a> Tolerance<'a> {
    fn from_old(old: Option<&'a Value>) -> Tolerance<'a> {
        let Some(old) = old else { return Tolerance::default() };
        let mut errors = Errors::default();
        errors.label_selector(&SPEC, old.get("podSelector"));
        let mut blocks = Vec::new();
        for (direction, peers) in DIRECTIONS {
            for block in
                items(old, direction).iter().flat_map(|r| items(r, peers)).filter_map(|p| p.get("ipBlock"))
            {
                blocks.push(text(block, "cidr"));
                blocks.extend(texts(block, "except"));
            }
        }
        Tolerance { values: !errors.is_empty(), blocks }
    }
}

fn check_port(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.one_of_member(at, port, "protocol", &["TCP", "UDP", "SCTP"]);
    let end = int(port, "endPort");
    let end_at = at.child("endPort");
    match member(port, "port") {
        Some(Value::Str(name)) => {
            if let Some(end) = end {
                errors.invalid(&end_at, end, "may not be specified when `port` is non-numeric");
            }
            errors.each(&at.child("port"), name, validate_text::port_name(name));
        }
        Some(number) => {
            let number = number.as_int().unwrap_or(0);
            errors.port_number(&at.child("port"), number);
            if let Some(end) = end {
                if end < number {
                    errors.invalid(&end_at, number, "must be greater than or equal to `port`");
                }
                errors.port_number(&end_at, end);
            }
        }
        None => {
            if let Some(end) = end {
                errors.invalid(&end_at, end, "may not be specified when `port` is not specified");
            }
        }
    }
}

fn check_peer(peer: &Value, tolerance: &Tolerance<'_>, at: &Path<'_>, errors: &mut Errors) {
    let mut count = 0;
    for name in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = member(peer, name) {
            count += 1;
            errors.label_selector_with(&at.child(name), Some(selector), tolerance.values);
        }
    }
    let block = member(peer, "ipBlock");
    if let Some(block) = block {
        count += 1;
        check_block(block, &tolerance.blocks, &at.child("ipBlock"), errors);
    }
    if count == 0 {
        errors.required(at, "must specify a peer");
    } else if count > 1 && block.is_some() {
        errors.forbidden(at, "may not specify both ipBlock and another peer");
    }
}

fn check_block(block: &Value, before: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        return errors.required(&at.child("cidr"), "");
    }
    errors.cidr(&at.child("cidr"), cidr, before);
    // A CIDR in an invalid form still identifies its range: exceptions outside of it are reported too.
    let Some((network, bits)) = sloppy_cidr(cidr) else { return };
    for (i, except) in texts(block, "except").enumerate() {
        let list = at.child("except");
        let at = list.index(i);
        errors.cidr(&at, except, before);
        let Some((inner, inner_bits)) = sloppy_cidr(except) else { continue };
        let inside = inner.is_ipv4() == network.is_ipv4() && masked(inner, bits) == masked(network, bits);
        if !inside || bits >= inner_bits {
            errors.invalid(&at, except, "must be a strict subset of `cidr`");
        }
    }
}
