//! Service CIDRs: one block of addresses, or one of each family; a second may come later, nothing else changes.

mod cidr;
mod columns;

use object::Value;

use crate::check::text::{Cidr as CheckedCidr, parse_cidr, sloppy_cidr};
use crate::check::{Errors, IMMUTABLE, Path, items, texts};
use crate::generic::GenericKind;
use crate::metadata::shown;
use crate::rules::{Rules, StatusMeta};
use crate::workload::SPEC;
use crate::write::Write;

pub use cidr::{BadRange, Cidr, Family};

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_status(StatusMeta::KeepAll), check).with_printer(&columns::PRINTER);

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    if write.is_status() {
        return;
    }
    let at = SPEC.child("cidrs");
    let spec = write.spec();
    let Some(old) = write.old_spec() else { return check_cidrs(spec, &at, errors) };
    let (now, before) = (items(spec, "cidrs"), items(old, "cidrs"));
    let changed = |i: usize, errors: &mut Errors| {
        if now[i] != before[i] {
            errors.invalid(&at.index(i), &now[i], IMMUTABLE);
        }
    };
    match (before.len(), now.len()) {
        (1, 2) => {
            changed(0, errors);
            check_cidrs(spec, &at, errors);
        }
        (b, n) if b == n => (0..n).for_each(|i| changed(i, errors)),
        _ => errors.invalid(&at, spec.get("cidrs"), IMMUTABLE),
    }
}

fn check_cidrs(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let cidrs: Vec<&str> = texts(spec, "cidrs").collect();
    match cidrs.len() {
        0 => return errors.required(at, "at least one CIDR required"),
        1 | 2 => {}
        _ => {
            let spec = format!("{{\"CIDRs\":{}}}", shown(spec.get("cidrs").unwrap_or(&Value::Null)));
            return errors.invalid(at, crate::check::Raw(&spec), "may only hold up to 2 values");
        }
    }
    for (i, cidr) in cidrs.iter().enumerate() {
        errors.cidr(&at.index(i), cidr, &[]);
        if let CheckedCidr::Good(ip, bits) = parse_cidr(cidr) {
            let canonical = format!("{}/{bits}", crate::check::text::masked(ip, bits));
            if ip == crate::check::text::masked(ip, bits) && canonical != *cidr {
                let detail = format!("must be in canonical form (\"{canonical}\")");
                errors.invalid(&at.index(i), *cidr, detail);
            }
        }
    }
    let family = |cidr: &str| sloppy_cidr(cidr).map(|(ip, _)| ip.to_canonical().is_ipv4());
    if let [first, second] = cidrs[..]
        && family(first).is_some()
        && family(first) == family(second)
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(at, spec.get("cidrs"), detail);
    }
}

/// The ranges a ServiceCIDR names.
pub fn ranges_of(service_cidr: &Value) -> Vec<Cidr> {
    let texts = service_cidr.at(&["spec", "cidrs"]).and_then(Value::as_list).unwrap_or_default();
    texts.iter().filter_map(Value::as_str).filter_map(|text| Cidr::parse(text).ok()).collect()
}
