//! The rules of resource slices: driver, pool, nodes, and the devices with their attributes and capacities.

use object::Value;
use object::quantity::Quantity;

use crate::check::internal::pod::NODE_SELECTOR_TERM;
use crate::check::internal::{Field, NULL, internal};
use crate::check::{Errors, Path, Raw, entries, flag, int, items, member, quantity, quantity_text, text};
use crate::devicerule::{binding, by_name, each, pool_name, qualified, set, taint};
use crate::pod::validation::{csi_driver_name, is_native, node_selector};
use crate::same;
use crate::workload::SPEC;
use crate::write::Write;

const DEVICES_MAX: usize = 128;
/// When a device has taints, counters or lists.
const RICH_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const CONSUMPTIONS_MAX: usize = 2;
const ATTRIBUTES_MAX: usize = 32;
const ATTRIBUTE_VALUES_MAX: usize = 48;
const TAINTS_MAX: usize = 16;
const VALUE_MAX_BYTES: usize = 64;
const KEY_SHOWN_BYTES: usize = 63 + 1 + 32;
const OPTIONS_MAX: usize = 10;
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const ATTRIBUTE: [Field; 8] = [
    ("int", "IntValue", NULL),
    ("bool", "BoolValue", NULL),
    ("string", "StringValue", NULL),
    ("version", "VersionValue", NULL),
    ("ints", "IntValues", NULL),
    ("bools", "BoolValues", NULL),
    ("strings", "StringValues", NULL),
    ("versions", "VersionValues", NULL),
];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let (spec, old) = (write.spec(), write.old_spec());
    let none = Value::Null;
    csi_driver_name(text(spec, "driver"), &SPEC.child("driver"), errors);
    check_pool(spec.get("pool").unwrap_or(&none), errors);
    if let Some(old) = old {
        let pool = SPEC.child("pool");
        let name = |spec: &Value| spec.str_at(&["pool", "name"]).unwrap_or_default().to_owned();
        errors.immutable_text(&pool.child("name"), &name(spec), &name(old));
        errors.immutable_text(&SPEC.child("driver"), text(spec, "driver"), text(old, "driver"));
        errors.immutable(&SPEC.child("nodeName"), spec.get("nodeName"), old.get("nodeName"));
    }
    check_nodes(spec, errors);
    let devices = items(spec, "devices");
    if member(spec, "sharedCounters").is_some() && member(spec, "devices").is_some() {
        errors.invalid(&SPEC, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let rich = |device: &Value| {
        let listed = |(_, attribute): (&str, &Value)| LISTS.iter().any(|l| member(attribute, l).is_some());
        !items(device, "taints").is_empty()
            || !items(device, "consumesCounters").is_empty()
            || entries(device, "attributes").any(listed)
    };
    let most = if devices.iter().any(rich) { RICH_DEVICES_MAX } else { DEVICES_MAX };
    let per_device = flag(spec, "perDeviceNodeSelection");
    set(devices, most, &by_name, &SPEC.child("devices"), errors, &|device, at, errors| {
        let before = old.map(|old| items(old, "devices")).unwrap_or_default();
        let before = before.iter().find(|b| text(b, "name") == text(device, "name"));
        check_device(device, before, per_device, at, errors);
    });
    let counters = items(spec, "sharedCounters");
    set(counters, COUNTER_SETS_MAX, &by_name, &SPEC.child("sharedCounters"), errors, &|set, at, errors| {
        errors.need_label(&at.child("name"), text(set, "name"));
        check_counters(set, at, errors);
    });
}

fn check_pool(pool: &Value, errors: &mut Errors) {
    let at = SPEC.child("pool");
    pool_name(text(pool, "name"), &at.child("name"), errors);
    errors.positive(&at.child("resourceSliceCount"), int(pool, "resourceSliceCount").unwrap_or(0));
    if let Some(generation) = int(pool, "generation").filter(|g| *g < 0) {
        errors.invalid(&at.child("generation"), generation, "must be greater than or equal to zero");
    }
}

/// Exactly one way to say which nodes reach the devices.
fn check_nodes(spec: &Value, errors: &mut Errors) {
    let mut chosen = Vec::new();
    if let Some(name) = member(spec, "nodeName").and_then(Value::as_str) {
        let at = SPEC.child("nodeName");
        if name.is_empty() {
            errors.invalid(&at, name, "must be either unset or set to a non-empty string");
        } else {
            chosen.push("`nodeName`");
            errors.subdomain(&at, name);
        }
    }
    if let Some(selector) = member(spec, "nodeSelector") {
        chosen.push("`nodeSelector`");
        let at = SPEC.child("nodeSelector");
        node_selector(selector, false, &at, errors);
        if items(selector, "nodeSelectorTerms").len() != 1 {
            let shown = match member(selector, "nodeSelectorTerms").and_then(Value::as_list) {
                None => "null".to_owned(),
                Some(terms) => {
                    let shown = terms.iter().map(|term| internal(Some(term), NODE_SELECTOR_TERM));
                    format!("[{}]", shown.collect::<Vec<_>>().join(","))
                }
            };
            errors.invalid(
                &at.child("nodeSelectorTerms"),
                Raw(&shown),
                "must have exactly one node selector term",
            );
        }
    }
    for (name, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match member(spec, name).and_then(Value::as_bool) {
            Some(true) => chosen.push(shown),
            Some(false) => errors.invalid(&SPEC.child(name), false, "must be either unset or set to true"),
            None => {}
        }
    }
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match chosen.len() {
        0 => errors.required(&SPEC, one),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", chosen.join(", "));
            errors.invalid(&SPEC, shown.as_str(), format!("{one}, but multiple fields are set"));
        }
    }
}

fn check_device(device: &Value, old: Option<&Value>, per_device: bool, at: &Path<'_>, errors: &mut Errors) {
    errors.dns_label(&at.child("name"), text(device, "name"));
    let attributes = entries(device, "attributes").count();
    let count = attributes + entries(device, "capacity").count();
    if count > ATTRIBUTES_MAX {
        let detail =
            format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        errors.invalid(at, count as i64, detail);
    }
    let listed = |attribute: &Value| LISTS.iter().map(|list| items(attribute, list).len()).sum::<usize>();
    let values: usize = entries(device, "attributes").map(|(_, a)| listed(a).max(1)).sum();
    if values > ATTRIBUTE_VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}");
        errors.invalid(at, values as i64, detail);
    }
    let attributes_at = at.child("attributes");
    for (key, attribute) in entries(device, "attributes") {
        qualified(key, &attributes_at, errors);
        check_attribute(attribute, &attributes_at.key(&shortened(key)), errors);
    }
    let capacity_at = at.child("capacity");
    for (key, capacity) in entries(device, "capacity") {
        qualified(key, &capacity_at, errors);
        let key = shortened(key);
        check_capacity(capacity, flag(device, "allowMultipleAllocations"), &capacity_at.key(&key), errors);
    }
    if !old.is_some_and(|old| same(old.get("taints"), device.get("taints"))) {
        each(items(device, "taints"), TAINTS_MAX, &at.child("taints"), errors, &taint);
    }
    let key = |consumption: &Value| object::quote(text(consumption, "counterSet"));
    let consumed = items(device, "consumesCounters");
    set(consumed, CONSUMPTIONS_MAX, &key, &at.child("consumesCounters"), errors, &|consumed, at, errors| {
        errors.need_label(&at.child("counterSet"), text(consumed, "counterSet"));
        check_counters(consumed, at, errors);
    });
    check_own_nodes(device, per_device, at, errors);
    binding(device, at, errors);
    check_mappings(device, &at.child("nodeAllocatableResourceMappings"), errors);
}

fn check_own_nodes(device: &Value, per_device: bool, at: &Path<'_>, errors: &mut Errors) {
    if !per_device {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| member(device, name).is_some()) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(at, None, detail);
        }
        return;
    }
    let mut chosen = Vec::new();
    match member(device, "nodeName").and_then(Value::as_str) {
        None => {}
        Some("") => errors.invalid(&at.child("nodeName"), "", "must not be empty"),
        Some(name) => {
            chosen.push("`nodeName`");
            errors.subdomain(&at.child("nodeName"), name);
        }
    }
    if let Some(selector) = member(device, "nodeSelector") {
        chosen.push("`nodeSelector`");
        node_selector(selector, false, &at.child("nodeSelector"), errors);
    }
    match member(device, "allNodes").and_then(Value::as_bool) {
        None => {}
        Some(true) => chosen.push("`allNodes`"),
        Some(false) => errors.invalid(&at.child("allNodes"), false, "must be either unset or set to true"),
    }
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match chosen.len() {
        0 => errors.required(at, one),
        1 => {}
        _ => errors.invalid(at, format!("{{{}}}", chosen.join(", ")).as_str(), one),
    }
}

fn check_counters(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("counters");
    match entries(of, "counters").count() {
        0 => errors.required(&at, ""),
        count if count > COUNTERS_MAX => errors.too_many(&at, count, COUNTERS_MAX),
        _ => entries(of, "counters").for_each(|(name, _)| errors.dns_label(&at, name)),
    }
}

fn check_attribute(attribute: &Value, at: &Path<'_>, errors: &mut Errors) {
    let long = |value: &str, at: &Path<'_>, errors: &mut Errors| {
        if value.len() > VALUE_MAX_BYTES {
            errors.too_long(at, VALUE_MAX_BYTES);
        }
    };
    let version = |value: &str, at: &Path<'_>, errors: &mut Errors| {
        if !is_semver(value) {
            errors.invalid(at, value, "must be a string compatible with semver.org spec 2.0.0");
        }
        long(value, at, errors);
    };
    let mut count = ["bool", "int"].iter().filter(|name| member(attribute, name).is_some()).count();
    if let Some(value) = member(attribute, "string").and_then(Value::as_str) {
        count += 1;
        long(value, &at.child("string"), errors);
    }
    if let Some(value) = member(attribute, "version").and_then(Value::as_str) {
        count += 1;
        version(value, &at.child("version"), errors);
    }
    for name in LISTS {
        let Some(list) = member(attribute, name) else { continue };
        let at = at.child(name);
        count += 1;
        if items(attribute, name).is_empty() {
            errors.invalid(&at, list, "must not be empty if specified");
        }
        for (i, value) in items(attribute, name).iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            match name {
                "strings" => long(value, &at.index(i), errors),
                "versions" => version(value, &at.index(i), errors),
                _ => {}
            }
        }
    }
    match count {
        0 => errors.invalid(at, "", "exactly one value must be specified"),
        1 => {}
        _ => {
            let shown = internal(Some(attribute), &ATTRIBUTE);
            errors.invalid(at, Raw(&shown), "exactly one value must be specified");
        }
    }
}

/// `1.2.3-alpha.1+build.5`.
fn is_semver(version: &str) -> bool {
    let (version, build) = version.split_once('+').map_or((version, None), |(v, b)| (v, Some(b)));
    let (core, pre) = version.split_once('-').map_or((version, None), |(c, p)| (c, Some(p)));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let number = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(|part| word(part) && (!digits(part) || number(part))))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn check_capacity(capacity: &Value, shared: bool, at: &Path<'_>, errors: &mut Errors) {
    let Some(policy) = member(capacity, "requestPolicy") else { return };
    let at = at.child("requestPolicy");
    if !shared {
        return errors.forbidden(&at, "allowMultipleAllocations must be true");
    }
    let most = capacity.get("value").map_or(Quantity::ZERO, quantity);
    let (values, range) = (items(policy, "validValues"), member(policy, "validRange"));
    let default = member(policy, "default").map(quantity);
    let needed = |name: &str| format!("required when {name} is defined");
    match (values.is_empty(), range, default) {
        (false, Some(_), _) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.forbidden(&at, detail);
        }
        (false, None, None) => errors.required(&at.child("default"), &needed("validValues")),
        (true, Some(_), None) => errors.required(&at.child("default"), &needed("validRange")),
        (false, None, Some(default)) => {
            check_values(values, &default, &most, &at.child("validValues"), errors);
        }
        (true, Some(range), Some(default)) => {
            check_range(range, &default, &most, &at.child("validRange"), errors);
        }
        (true, None, _) => {}
    }
}

fn check_values(values: &[Value], default: &Quantity, most: &Quantity, at: &Path<'_>, errors: &mut Errors) {
    let amounts: Vec<Quantity> = values.iter().map(quantity).collect();
    for (i, pair) in amounts.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let shown = quantity_text(&values[i + 1]);
            errors.invalid(&at.index(i + 1), shown.as_str(), "values must be sorted in ascending order");
        }
    }
    let key = |value: &Value| object::quote(&quantity(value).as_i64().to_string());
    set(values, OPTIONS_MAX, &key, at, errors, &|value, at, errors| {
        if quantity(value) > *most {
            let detail = format!("option is larger than capacity value: {most}");
            errors.invalid(at, quantity_text(value).as_str(), detail);
        }
    });
    if values.len() > OPTIONS_MAX || !amounts.contains(default) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.invalid(at, default.to_string().as_str(), detail);
    }
}

fn check_range(range: &Value, default: &Quantity, most: &Quantity, at: &Path<'_>, errors: &mut Errors) {
    let bound = |name: &str| member(range, name).map(quantity);
    let Some(min) = bound("min") else {
        return errors.required(&at.child("min"), "required when validRange is defined");
    };
    let mut report = |name: &str, wrong: bool, shown: &Quantity, detail: String| {
        if wrong {
            errors.invalid(&at.child(name), shown.to_string().as_str(), detail);
        }
    };
    report("min", min > *most, &min, format!("min is larger than capacity value: {most}"));
    report("min", *default < min, default, format!("default is less than min: {min}"));
    let max = bound("max");
    if let Some(max) = &max {
        report("max", min > *max, &min, format!("min is larger than max: {max}"));
        report("max", max > most, max, format!("max is larger than capacity value: {most}"));
        report("max", default > max, default, format!("default is more than max: {max}"));
    }
    let Some(step) = bound("step") else { return };
    let first = min + step;
    let detail = format!("one step {first} is larger than capacity value: {most}");
    report("step", first > *most, &step, detail);
    for value in [Some(default), max.as_ref()].into_iter().flatten() {
        let over = value.as_i64().saturating_sub(min.as_i64());
        // Upstream panics on a division by a zero step; here it counts as no step.
        let uneven = over.checked_rem(step.as_i64()).is_none_or(|rest| rest != 0);
        report(
            "step",
            uneven,
            value,
            format!("value is not a multiple of a given step ({step}) from ({min})"),
        );
    }
}

fn check_mappings(device: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (name, mapping) in entries(device, "nodeAllocatableResourceMappings") {
        let at = at.key(name);
        if !is_native(name) {
            errors.invalid(&at, name, "must be a node allocatable resource name");
        }
        let (factor, key) = (member(mapping, "allocationMultiplier"), member(mapping, "capacityKey"));
        if factor.is_none() && key.is_none() {
            errors.invalid(&at, "", "at least one of allocationMultiplier or capacityKey must be set");
        }
        if let Some(factor) = factor.filter(|f| quantity(f).sign() <= 0) {
            let shown = quantity_text(factor);
            errors.invalid(&at.child("allocationMultiplier"), shown.as_str(), "must be positive");
        }
        let key_at = at.child("capacityKey");
        match key.and_then(Value::as_str) {
            None => {}
            Some("") => errors.invalid(&key_at, "", "capacityKey must not be an empty string"),
            Some(key) if !entries(device, "capacity").any(|(name, _)| name == key) => {
                errors.not_found(&key_at, key, "");
            }
            Some(_) => {}
        }
    }
}

/// A key that is too long, without its middle.
fn shortened(key: &str) -> String {
    if key.len() <= KEY_SHOWN_BYTES {
        return key.to_owned();
    }
    let rest = KEY_SHOWN_BYTES - 3;
    let (head, tail) = (rest.div_ceil(2), key.len() - rest / 2);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}...{}", text(&key.as_bytes()[..head]), text(&key.as_bytes()[tail..]))
}
