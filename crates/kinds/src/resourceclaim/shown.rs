//! Claims the way upstream's messages show them: as its internal structs.

use object::Value;

use crate::check::internal::pod::TOLERATION;
use crate::check::internal::{Field, Go, NULL, TEXT, internal};
use crate::metadata;

pub(super) fn spec(spec: &Value) -> String {
    internal(Some(spec), &SPEC)
}

/// The metadata of a template is embedded: its members stand beside the spec.
pub(super) fn template(template: &Value) -> String {
    let mut out = String::from("{");
    let metadata = template.get("metadata").and_then(Value::as_map).into_iter().flat_map(|m| m.iter());
    // As JSON: what is empty is left out.
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    };
    for (name, value) in metadata.filter(|(_, value)| !is_empty(value)) {
        out.push_str(&format!("\"{}\":{},", &**name, metadata::shown(value)));
    }
    let inner = internal(template.get("spec"), &SPEC);
    format!("{out}\"Spec\":{inner}}}")
}

pub(super) fn allocation(allocation: &Value) -> String {
    internal(Some(allocation), &ALLOCATION)
}

const SPEC: [Field; 1] = [("devices", "Devices", Go::Struct(&CLAIM))];
const CLAIM: [Field; 3] = [
    ("requests", "Requests", Go::List(&REQUEST)),
    ("constraints", "Constraints", Go::List(&CONSTRAINT)),
    ("config", "Config", Go::List(&CONFIG)),
];
const REQUEST: [Field; 3] = [
    ("name", "Name", TEXT),
    ("exactly", "Exactly", Go::Pointer(&EXACTLY)),
    ("firstAvailable", "FirstAvailable", Go::List(&ALTERNATIVE)),
];
const EXACTLY: [Field; 7] = [
    ("deviceClassName", "DeviceClassName", TEXT),
    ("selectors", "Selectors", Go::List(&SELECTOR)),
    ("allocationMode", "AllocationMode", TEXT),
    ("count", "Count", Go::Leaf("0")),
    ("adminAccess", "AdminAccess", NULL),
    ("tolerations", "Tolerations", Go::List(TOLERATION)),
    ("capacity", "Capacity", Go::Pointer(&CAPACITY)),
];
const ALTERNATIVE: [Field; 7] = [
    ("name", "Name", TEXT),
    ("deviceClassName", "DeviceClassName", TEXT),
    ("selectors", "Selectors", Go::List(&SELECTOR)),
    ("allocationMode", "AllocationMode", TEXT),
    ("count", "Count", Go::Leaf("0")),
    ("tolerations", "Tolerations", Go::List(TOLERATION)),
    ("capacity", "Capacity", Go::Pointer(&CAPACITY)),
];
const CAPACITY: [Field; 1] = [("requests", "Requests", NULL)];
const SELECTOR: [Field; 1] = [("cel", "CEL", Go::Pointer(&CEL))];
const CEL: [Field; 1] = [("expression", "Expression", TEXT)];
const CONSTRAINT: [Field; 3] = [
    ("requests", "Requests", NULL),
    ("matchAttribute", "MatchAttribute", NULL),
    ("distinctAttribute", "DistinctAttribute", NULL),
];
const CONFIG: [Field; 2] = [("requests", "Requests", NULL), ("opaque", "Opaque", Go::Pointer(&OPAQUE))];
const OPAQUE: [Field; 2] = [("driver", "Driver", TEXT), ("parameters", "Parameters", NULL)];
const ALLOCATION: [Field; 3] = [
    ("devices", "Devices", Go::Struct(&DEVICES)),
    ("nodeSelector", "NodeSelector", Go::Pointer(&NODES)),
    ("allocationTimestamp", "AllocationTimestamp", NULL),
];
const DEVICES: [Field; 2] =
    [("results", "Results", Go::List(&RESULT)), ("config", "Config", Go::List(&GIVEN_CONFIG))];
const RESULT: [Field; 10] = [
    ("request", "Request", TEXT),
    ("driver", "Driver", TEXT),
    ("pool", "Pool", TEXT),
    ("device", "Device", TEXT),
    ("adminAccess", "AdminAccess", NULL),
    ("tolerations", "Tolerations", Go::List(TOLERATION)),
    ("bindingConditions", "BindingConditions", NULL),
    ("bindingFailureConditions", "BindingFailureConditions", NULL),
    ("shareID", "ShareID", NULL),
    ("consumedCapacity", "ConsumedCapacity", NULL),
];
const GIVEN_CONFIG: [Field; 3] =
    [("source", "Source", TEXT), ("requests", "Requests", NULL), ("opaque", "Opaque", Go::Pointer(&OPAQUE))];
const NODES: [Field; 1] = [("nodeSelectorTerms", "NodeSelectorTerms", Go::List(&TERM))];
const TERM: [Field; 2] = [
    ("matchExpressions", "MatchExpressions", Go::List(&REQUIREMENT)),
    ("matchFields", "MatchFields", Go::List(&REQUIREMENT)),
];
const REQUIREMENT: [Field; 3] =
    [("key", "Key", TEXT), ("operator", "Operator", TEXT), ("values", "Values", NULL)];
