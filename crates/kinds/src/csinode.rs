//! CSI nodes: the drivers of a node, each once and immutable.

mod columns;

use object::Value;

use crate::check::internal::{Field, Go, NULL, TEXT, internal};
use crate::check::{Errors, IMMUTABLE, Path, Raw, Seen, int, items, member, text, texts};
use crate::equal::same_but;
use crate::generic::GenericKind;
use crate::pod::validation::csi_driver_name;
use crate::rules::Rules;
use crate::workload::SPEC;
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN, check).with_printer(&columns::PRINTER);

const NODE_ID_MAX_BYTES: usize = 256;
/// The count of volumes may change, and is not shown then.
const DRIVER: [Field; 4] = [
    ("name", "Name", TEXT),
    ("nodeID", "NodeID", TEXT),
    ("topologyKeys", "TopologyKeys", NULL),
    ("allocatable-is-not-compared", "Allocatable", Go::Leaf("null")),
];

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let list = SPEC.child("drivers");
    let drivers = items(write.spec(), "drivers");
    let mut seen = Seen::default();
    for (i, driver) in drivers.iter().enumerate() {
        check_driver(driver, seen.again(text(driver, "name")), &list.index(i), errors);
    }
    for old in write.old_spec().map(|old| items(old, "drivers")).unwrap_or_default() {
        for new in drivers.iter().filter(|new| text(new, "name") == text(old, "name")) {
            if !same_but(new, old, &["allocatable"]) {
                errors.invalid(&list, Raw(&internal(Some(new), &DRIVER)), IMMUTABLE);
            }
        }
    }
}

fn check_driver(driver: &Value, again: bool, at: &Path<'_>, errors: &mut Errors) {
    let (name, id) = (text(driver, "name"), text(driver, "nodeID"));
    csi_driver_name(name, &at.child("name"), errors);
    if id.is_empty() {
        errors.required(&at.child("nodeID"), "");
    }
    if id.len() > NODE_ID_MAX_BYTES {
        errors.invalid(&at.child("nodeID"), id, format!("must be {NODE_ID_MAX_BYTES} characters or less"));
    }
    if let Some(allocatable) = member(driver, "allocatable").filter(|a| int(a, "count").is_some()) {
        errors.nonnegative(&at.child("allocatable"), allocatable, "count");
    }
    if again {
        errors.duplicate(&at.child("name"), name);
    }
    let keys: Vec<&str> = texts(driver, "topologyKeys").collect();
    let mut seen = Seen::default();
    for key in &keys {
        if key.is_empty() {
            errors.required(at, "");
        }
        if seen.again(key) {
            errors.duplicate(at, *key);
        }
        errors.qualified(at, key);
    }
}
