//! Mounts and block devices of a container: each names a volume, and no path is used twice.

use object::Value;

use super::volume_sources::{descending_path, no_backsteps};
use super::volumes::Volumes;
use crate::check::{Errors, Path, Seen, all_of, flag, items, member, text};

/// Paths of mounts below belong to the list: upstream leaves the index out for some members.
pub(super) fn check(container: &Value, volumes: &Volumes<'_>, list: &Path<'_>, errors: &mut Errors) {
    let mounts = items(container, "volumeMounts");
    let devices = items(container, "volumeDevices");
    let (device_names, device_paths) = (all_of(devices, "name"), all_of(devices, "devicePath"));
    let mut seen = Seen::default();
    for (i, mount) in mounts.iter().enumerate() {
        let at = list.index(i);
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if volumes.find(name).is_none() {
            errors.not_found(&at.child("name"), name, "");
        }
        if path.is_empty() {
            errors.required(&at.child("mountPath"), "");
        }
        if seen.again(path) {
            errors.invalid(&at.child("mountPath"), path, "must be unique");
        }
        if device_names.has(&name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.has(&path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&at.child("mountPath"), path, detail);
        }
        let (sub, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        if !sub.is_empty() {
            descending_path(sub, &list.child("subPath"), errors);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(&at.child("subPathExpr"), expression, detail);
            }
            descending_path(expression, &list.child("subPathExpr"), errors);
        }
        check_propagation(mount, container, &list.child("mountPropagation"), errors);
        check_recursive_read_only(mount, &list.child("recursiveReadOnly"), errors);
    }
}

fn check_propagation(mount: &Value, container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(mode) = member(mount, "mountPropagation").and_then(Value::as_str) else { return };
    errors.one_of(at, mode, &["Bidirectional", "HostToContainer", "None"]);
    let privileged = member(container, "securityContext").is_some_and(|c| flag(c, "privileged"));
    if mode == "Bidirectional" && !privileged {
        errors.forbidden(at, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn check_recursive_read_only(mount: &Value, at: &Path<'_>, errors: &mut Errors) {
    match member(mount, "recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !flag(mount, "readOnly") {
                errors.forbidden(at, "may only be specified when readOnly is true");
            }
            if !matches!(member(mount, "mountPropagation").and_then(Value::as_str), None | Some("None")) {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(at, detail);
            }
        }
        Some(other) => errors.not_supported(at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

pub(super) fn check_devices(container: &Value, volumes: &Volumes<'_>, list: &Path<'_>, errors: &mut Errors) {
    let devices = items(container, "volumeDevices");
    let mounts = items(container, "volumeMounts");
    let (mount_names, mount_paths) = (all_of(mounts, "name"), all_of(mounts, "mountPath"));
    let (mut names, mut paths) = (Seen::default(), Seen::default());
    for (i, device) in devices.iter().enumerate() {
        let at = list.index(i);
        let (name, path) = (text(device, "name"), text(device, "devicePath"));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else if names.again(name) {
            errors.invalid(&at.child("name"), name, "must be unique");
        }
        match volumes.find(name) {
            None => errors.not_found(&at.child("name"), name, ""),
            Some(v) if member(v, "persistentVolumeClaim").is_none() && member(v, "ephemeral").is_none() => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&at.child("name"), name, detail);
            }
            Some(_) => {}
        }
        if path.is_empty() {
            errors.required(&at.child("devicePath"), "");
        }
        let climbs = |p: &str| {
            let mut found = Errors::default();
            no_backsteps(p, list, &mut found);
            !found.is_empty()
        };
        // A path with `..` is refused for that, and does not count as used.
        if !climbs(path) && paths.again(path) {
            errors.invalid(&at.child("devicePath"), path, "must be unique");
        }
        if climbs(path) {
            errors.invalid(&at.child("devicePath"), path, "can not contain backsteps ('..')");
        }
        if mount_names.has(&name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeMounts");
        }
        if mount_paths.has(&path) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.invalid(&at.child("devicePath"), path, detail);
        }
    }
}
