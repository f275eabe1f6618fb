//! The status of a claim: allocation, reservations, and the state of the devices.

use object::Value;

use super::{RequestNames, shown};
use crate::check::text::sloppy_ip;
use crate::check::{Errors, IMMUTABLE, Path, Raw, items, member, text};
use crate::devicerule::{binding, by_name, configuration, each, pool_name, raw_object, set, uuid};
use crate::metadata::meta;
use crate::pod::validation::{csi_driver_name, node_selector};
use crate::same;
use crate::strategy::map_mut;
use crate::workload::STATUS;
use crate::write::Write;

const RESERVED_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONFIG_MAX: usize = 64;
const CONDITIONS_MAX: usize = 8;
const IPS_MAX: usize = 16;
const INTERFACE_MAX_BYTES: usize = 256;
const HARDWARE_MAX_BYTES: usize = 128;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    let none = Value::Null;
    let (status, old) = (write.status(), write.old_status().unwrap_or(&none));
    let given = |status: &Value| {
        let results = status.at(&["allocation", "devices", "results"]).and_then(Value::as_list);
        let admin = |r: &Value| r.get("adminAccess").and_then(Value::as_bool) == Some(true);
        results.unwrap_or_default().iter().position(admin)
    };
    if let (None, Some(i)) = (given(old), given(status)) {
        let at = STATUS.child("allocation");
        let at = at.child("devices");
        super::admin_only(write, &at.child("results").index(i), errors);
    }
    super::authorization::check(write, status, old, errors);
    write.check_metadata(errors);
    let reserved = items(status, "reservedFor");
    let uid = |consumer: &Value| object::quote(text(consumer, "uid"));
    set(reserved, RESERVED_MAX, &uid, &STATUS.child("reservedFor"), errors, &|consumer, at, errors| {
        for name in ["resource", "name", "uid"] {
            errors.need(at, consumer, name);
        }
    });
    let allocation = member(status, "allocation");
    let results = allocation.and_then(|a| a.get("devices")).map(|d| items(d, "results")).unwrap_or_default();
    let given: Vec<String> = results.iter().map(device_id).collect();
    set(
        items(status, "devices"),
        usize::MAX,
        &device_id,
        &STATUS.child("devices"),
        errors,
        &|device, at, errors| {
            check_device(device, &given, at, errors);
        },
    );
    let at = STATUS.child("reservedFor");
    if !reserved.is_empty() {
        let before = items(old, "reservedFor");
        let new = |consumer: &Value| !before.iter().any(|b| same(Some(b), Some(consumer)));
        if allocation.is_none() {
            errors.forbidden(&at, "may not be specified when `allocated` is not set");
        } else if meta(write.new, "deletionTimestamp").is_some() && reserved.iter().any(new) {
            let detail =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.forbidden(&at, detail);
        }
    }
    let at = STATUS.child("allocation");
    match (allocation, member(old, "allocation")) {
        (Some(now), Some(before)) if !write.same(&["status", "allocation"], Some(now), Some(before)) => {
            errors.invalid(&at, Raw(&shown::allocation(now)), IMMUTABLE);
        }
        (Some(now), None) => check_allocation(now, write.spec(), &at, errors),
        _ => {}
    }
}

/// What a driver said of a device goes with its allocation, so that clients that take an allocation back need not know of it.
pub(super) fn drop_deallocated(new: &mut Value, old: &Value) {
    let allocated = |claim: &Value| -> Vec<String> {
        let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_list);
        results.unwrap_or_default().iter().map(device_id).collect()
    };
    let (before, now) = (allocated(old), allocated(new));
    let Some(status) = map_mut(new, &["status"]) else { return };
    let Some(Value::List(devices)) = status.get_mut("devices") else { return };
    devices.retain(|device| {
        let id = device_id(device);
        now.contains(&id) || !before.contains(&id)
    });
    if devices.is_empty() {
        status.remove("devices");
    }
}

fn check_allocation(allocation: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let none = Value::Null;
    let names = RequestNames::of(spec.get("devices").unwrap_or(&none));
    let devices = allocation.get("devices").unwrap_or(&none);
    let devices_at = at.child("devices");
    each(
        items(devices, "results"),
        RESULTS_MAX,
        &devices_at.child("results"),
        errors,
        &|result, at, errors| {
            names.check_one(text(result, "request"), &at.child("request"), errors);
            check_identity(result, at, errors);
            binding(result, at, errors);
            check_share(result, at, errors);
        },
    );
    each(items(devices, "config"), CONFIG_MAX, &devices_at.child("config"), errors, &|config, at, errors| {
        errors.choice(&at.child("source"), text(config, "source"), &["FromClaim", "FromClass"]);
        names.check(config, at, errors);
        configuration(config, false, at, errors);
    });
    if let Some(selector) = member(allocation, "nodeSelector") {
        node_selector(selector, false, &at.child("nodeSelector"), errors);
    }
}

fn check_identity(device: &Value, at: &Path<'_>, errors: &mut Errors) {
    csi_driver_name(text(device, "driver"), &at.child("driver"), errors);
    pool_name(text(device, "pool"), &at.child("pool"), errors);
    errors.dns_label(&at.child("device"), text(device, "device"));
}

fn check_share(device: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(share) = member(device, "shareID").and_then(Value::as_str) {
        uuid(share, &at.child("shareID"), errors);
    }
}

/// As messages show which device it is.
pub(super) fn device_id(device: &Value) -> String {
    let part = |name| object::quote(text(device, name));
    format!(
        "{{\"Driver\":{},\"Pool\":{},\"Device\":{},\"ShareID\":{}}}",
        part("driver"),
        part("pool"),
        part("device"),
        part("shareID")
    )
}

fn check_device(device: &Value, given: &[String], at: &Path<'_>, errors: &mut Errors) {
    check_identity(device, at, errors);
    check_share(device, at, errors);
    let id = device_id(device);
    if !given.contains(&id) {
        errors.invalid(at, Raw(&id), "must be an allocated device in the claim");
    }
    let conditions = items(device, "conditions").len();
    if conditions > CONDITIONS_MAX {
        errors.too_many(&at.child("conditions"), conditions, CONDITIONS_MAX);
    }
    errors.conditions(&at.child("conditions"), device);
    if let Some(data) = member(device, "data") {
        raw_object(Some(data), false, &at.child("data"), errors);
    }
    if let Some(network) = member(device, "networkData") {
        check_network(network, &at.child("networkData"), errors);
    }
}

fn check_network(network: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (name, most) in [("interfaceName", INTERFACE_MAX_BYTES), ("hardwareAddress", HARDWARE_MAX_BYTES)] {
        if text(network, name).len() > most {
            errors.too_long(&at.child(name), most);
        }
    }
    set(items(network, "ips"), IPS_MAX, &by_name, &at.child("ips"), errors, &|ip, at, errors| {
        check_interface(ip.as_str().unwrap_or_default(), at, errors);
    });
}

/// An address with the length of its network's prefix, in the one canonical form.
fn check_interface(value: &str, at: &Path<'_>, errors: &mut Errors) {
    let parts = value.split_once('/').and_then(|(address, bits)| Some((address, bits.parse::<u8>().ok()?)));
    let canonical = parts.and_then(|(address, bits)| {
        let (ip, most) = match sloppy_ip(address)? {
            std::net::IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) if bits >= 96 => return (bits <= 128).then(|| format!("{v4}/{}", bits - 96)),
                _ => (std::net::IpAddr::V6(v6), 128),
            },
            v4 => (v4, 32),
        };
        (bits <= most).then(|| format!("{ip}/{bits}"))
    });
    match canonical {
        None => {
            let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
            errors.invalid(at, value, detail);
        }
        Some(canonical) if canonical != value => {
            errors.invalid(at, value, format!("must be in canonical form (\"{canonical}\")"));
        }
        Some(_) => {}
    }
}
