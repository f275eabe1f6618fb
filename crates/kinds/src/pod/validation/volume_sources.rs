//! The sources of volumes that pods and persistent volumes share, and the rules of paths.

use object::Value;

use super::volumes::check_items;
use crate::check::{Errors, Path, entries, flag, int, items, member, text};

pub(crate) const ISCSI_NAME: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const ISCSI_FORMAT: &str = "must be valid format starting with iqn, eui, or naa";
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The rules of one source. `kind` is its member's name.
pub(crate) fn check(kind: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    match kind {
        "hostPath" => check_host_path(source, at, errors),
        "gitRepo" => {
            errors.need(at, source, "repository");
            descending_path(text(source, "directory"), &at.child("directory"), errors);
        }
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            errors.need(at, source, if kind == "gcePersistentDisk" { "pdName" } else { "volumeID" });
            let partition = int(source, "partition").unwrap_or(0);
            if !(0..=255).contains(&partition) {
                errors.invalid(&at.child("partition"), partition, "must be between 1 and 255, inclusive");
            }
        }
        "secret" | "configMap" => {
            errors.need(at, source, if kind == "secret" { "secretName" } else { "name" });
            check_mode(source, "defaultMode", at, errors);
            check_items(source, at, errors);
        }
        "nfs" => {
            errors.need(at, source, "server");
            errors.need(at, source, "path");
            let path = text(source, "path");
            if !path.starts_with('/') {
                errors.invalid(&at.child("path"), path, "must be an absolute path");
            }
        }
        "iscsi" => {
            check_iscsi(source, ISCSI_FORMAT, at, errors);
            check_iscsi_initiator(source, ISCSI_FORMAT, at, errors);
        }
        "glusterfs" => {
            errors.need(at, source, "endpoints");
            errors.need(at, source, "path");
        }
        "flocker" => check_flocker(source, at, errors),
        "persistentVolumeClaim" => errors.need(at, source, "claimName"),
        "rbd" => {
            need_list(source, "monitors", at, errors);
            errors.need(at, source, "image");
        }
        "cephfs" => need_list(source, "monitors", at, errors),
        "cinder" | "portworxVolume" => {
            errors.need(at, source, "volumeID");
            if let Some(secret) = member(source, "secretRef").filter(|_| kind == "cinder") {
                errors.need(&at.child("secretRef"), secret, "name");
            }
        }
        "quobyte" => check_quobyte(source, at, errors),
        "fc" => check_fc(source, at, errors),
        "flexVolume" => check_flex(source, at, errors),
        "azureFile" => {
            errors.need(at, source, "secretName");
            errors.need(at, source, "shareName");
        }
        "azureDisk" => check_azure_disk(source, at, errors),
        "vsphereVolume" => errors.need(at, source, "volumePath"),
        "photonPersistentDisk" => errors.need(at, source, "pdID"),
        "scaleIO" => {
            for name in ["gateway", "system", "volumeName"] {
                errors.need(at, source, name);
            }
        }
        "storageos" => {
            errors.need_label(&at.child("volumeName"), text(source, "volumeName"));
            let namespace = text(source, "volumeNamespace");
            if !namespace.is_empty() {
                errors.dns_label(&at.child("volumeNamespace"), namespace);
            }
            if let Some(secret) = member(source, "secretRef") {
                errors.need(&at.child("secretRef"), secret, "name");
            }
        }
        "csi" => check_csi(source, at, errors),
        _ => {}
    }
}

fn need_list(source: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if items(source, name).is_empty() {
        errors.required(&at.child(name), "");
    }
}

fn check_host_path(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let path = text(source, "path");
    if path.is_empty() {
        errors.required(&at.child("path"), "");
        return;
    }
    no_backsteps(path, &at.child("path"), errors);
    errors.one_of_member(at, source, "type", &HOST_PATH_TYPES);
}

/// `format` is the error for a name of an unknown kind.
pub(crate) fn check_iscsi(source: &Value, format: &str, at: &Path<'_>, errors: &mut Errors) {
    errors.need(at, source, "targetPortal");
    let name = text(source, "iqn");
    if name.is_empty() {
        errors.required(&at.child("iqn"), "");
    } else if let Some(problem) = iscsi_problem(name, format) {
        errors.invalid(&at.child("iqn"), name, problem);
    }
    let lun = int(source, "lun").unwrap_or(0);
    if !(0..=255).contains(&lun) {
        errors.invalid(&at.child("lun"), lun, "must be between 0 and 255, inclusive");
    }
    let chap = flag(source, "chapAuthDiscovery") || flag(source, "chapAuthSession");
    if chap && member(source, "secretRef").is_none() {
        errors.required(&at.child("secretRef"), "");
    }
}

pub(crate) fn check_iscsi_initiator(source: &Value, format: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(name) = member(source, "initiatorName").and_then(Value::as_str)
        && let Some(problem) = iscsi_problem(name, format)
    {
        errors.invalid(&at.child("initiatorname"), name, problem);
    }
}

pub(crate) fn iscsi_name_too_long(volume: &str, source: &Value) -> bool {
    member(source, "initiatorName").is_some() && volume.len() + 1 + text(source, "targetPortal").len() > 64
}

fn iscsi_problem<'a>(name: &str, format: &'a str) -> Option<&'a str> {
    let numbered = |length: usize| {
        // Any single character separates the kind and the number.
        let mut rest = name[3..].chars();
        rest.next().is_some() && rest.as_str().len() == length && rest.all(|c| c.is_ascii_alphanumeric())
    };
    let good = match name.as_bytes() {
        [b'i', b'q', b'n', ..] => is_iqn(name),
        [b'e', b'u', b'i', ..] => numbered(16),
        [b'n', b'a', b'a', ..] => numbered(32),
        _ => return Some(format),
    };
    (!good).then_some("must be valid format")
}

/// `iqn.2001-04.com.example:storage`.
fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_at_checked(8)) else {
        return false;
    };
    let dated = date.bytes().enumerate().all(|(i, b)| match i {
        4 => b == b'-',
        7 => b == b'.',
        _ => b.is_ascii_digit(),
    });
    let Some((authority, unique)) = rest.split_once(':') else { return false };
    let named = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    let forbidden = |c: char| ",;*&$|".contains(c) || matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    dated
        && !authority.is_empty()
        && authority.bytes().all(named)
        && !unique.is_empty()
        && !unique.contains(forbidden)
}

fn check_flocker(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => errors.required(at, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            errors.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(&at.child("datasetName"), name, "must not contain '/'");
    }
}

fn check_quobyte(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let registry = text(source, "registry");
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.required(&at.child("registry"), pairs);
    } else if text(source, "tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&at.child("tenant"), detail);
    } else {
        for pair in registry.split(',') {
            let host = pair.rsplit_once(':').map(|(host, _)| host);
            let bracketed = |h: &str| h.strip_prefix('[').and_then(|h| h.strip_suffix(']')).is_some();
            if !host.is_some_and(|h| bracketed(h) || !h.contains([':', '[', ']'])) {
                errors.invalid(&at.child("registry"), registry, pairs);
            }
        }
    }
    errors.need(at, source, "volume");
}

fn check_fc(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (targets, ids) = (items(source, "targetWWNs"), items(source, "wwids"));
    let names = at.child("targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        errors.required(&names, "must specify either targetWWNs or wwids, but not both");
    }
    if !targets.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&names, source.get("targetWWNs"), detail);
    }
    if targets.is_empty() {
        return;
    }
    match int(source, "lun") {
        None => errors.required(&at.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) if !(0..=255).contains(&lun) => {
            errors.invalid(&at.child("lun"), lun, "must be between 0 and 255, inclusive");
        }
        Some(_) => {}
    }
}

fn check_flex(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.need(at, source, "driver");
    for (key, _) in entries(source, "options") {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase();
        let reserved = |own: &str| domain == own || domain.ends_with(&format!(".{own}"));
        if reserved("kubernetes.io") || reserved("k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&at.child("options").key(key), key, detail);
        }
    }
}

fn check_azure_disk(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.need(at, source, "diskName");
    errors.need(at, source, "diskURI");
    errors.one_of_member(at, source, "cachingMode", &["None", "ReadOnly", "ReadWrite"]);
    errors.one_of_member(at, source, "kind", &["Dedicated", "Managed", "Shared"]);
    let uri = text(source, "diskURI");
    let managed =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    let blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    match member(source, "kind").and_then(Value::as_str) {
        Some("Managed") if !uri.starts_with("/subscriptions/") => {
            errors.not_supported(&at.child("diskURI"), uri, &[managed]);
        }
        Some(kind) if kind != "Managed" && !uri.starts_with("https://") => {
            errors.not_supported(&at.child("diskURI"), uri, &[blob]);
        }
        _ => {}
    }
}

fn check_csi(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    csi_driver_name(text(source, "driver"), &at.child("driver"), errors);
    let Some(secret) = member(source, "nodePublishSecretRef") else { return };
    let name = text(secret, "name");
    if name.is_empty() {
        errors.required(&at.child("nodePublishSecretRef").child("name"), "");
    } else {
        errors.subdomain(&at.child("name"), name);
    }
}

/// A subdomain in any case, short enough for a label.
pub(crate) fn csi_driver_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    if name.len() > 63 {
        errors.too_long(at, 63);
    }
    errors.each(at, name, object::validate_text::dns1123_subdomain(&name.to_lowercase()));
}

pub(super) fn check_mode(of: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = int(of, name).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(&at.child(name), mode, MODE);
    }
}

/// No step of the path goes up.
pub(crate) fn no_backsteps(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.split('/').any(|part| part == "..") {
        errors.invalid(at, path, "must not contain '..'");
    }
}

/// Relative, and staying below where it starts.
pub(super) fn descending_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    no_backsteps(path, at, errors);
}

/// As [`descending_path`], and not starting with `..`, which kubelets reserve (`..data`).
pub(super) fn local_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
    descending_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, path, "must not start with '..'");
    }
}
