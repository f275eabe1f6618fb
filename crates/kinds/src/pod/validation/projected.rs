//! Projected volumes and the downward API: many sources, one directory, no file twice.

use object::{Value, validate_text};

use super::Options;
use super::env::{FILE_FIELDS, check_field, check_resource};
use super::volume_sources::{check_mode, local_path};
use super::volumes::check_item;
use crate::check::{Errors, Path, Seen, entries, int, items, member, text};

const TOKEN_SECONDS_MIN: i64 = 10 * 60;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const CERTIFICATE_SECONDS_MIN: i64 = 3600;
const CERTIFICATE_SECONDS_MAX: i64 = 91 * 24 * 3600;
const KUBERNETES_CERTIFICATE_SECONDS_MAX: i64 = 24 * 3600;
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const SUBDOMAIN_MAX: usize = validate_text::DNS1123_SUBDOMAIN_MAX;
const USER_ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

pub(super) fn check_downward(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    check_mode(source, "defaultMode", at, errors);
    for file in items(source, "items") {
        check_file(file, at, errors);
    }
}

pub(super) fn check(source: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    check_mode(source, "defaultMode", at, errors);
    let mut files = Files { volume: at, taken: Seen::default() };
    for (i, part) in items(source, "sources").iter().enumerate() {
        let list = at.child("sources");
        let part_at = list.index(i);
        let mut count = 0;
        for kind in ["secret", "configMap"] {
            let Some(keys) = member(part, kind) else { continue };
            count += 1;
            let at = part_at.child(kind);
            errors.need(&at, keys, "name");
            for (j, item) in items(keys, "items").iter().enumerate() {
                check_item(item, &at.child("items").index(j), errors);
                files.take_as(text(item, "path"), text(keys, "name"), errors);
            }
        }
        if let Some(downward) = member(part, "downwardAPI") {
            count += 1;
            for file in items(downward, "items") {
                check_file(file, &part_at.child("downwardAPI"), errors);
                files.take(text(file, "path"), errors);
            }
        }
        if let Some(token) = member(part, "serviceAccountToken") {
            count += 1;
            check_token(token, &part_at.child("serviceAccountToken"), at, options, errors);
        }
        if let Some(bundle) = member(part, "clusterTrustBundle") {
            count += 1;
            check_trust_bundle(bundle, &part_at.child("clusterTrustBundle"), errors);
            // Here an empty path is a path too.
            let path = text(bundle, "path");
            files.claim(path, path, errors);
        }
        if let Some(certificate) = member(part, "podCertificate") {
            count += 1;
            check_certificate(certificate, &part_at.child("podCertificate"), &mut files, errors);
        }
        if count > 1 {
            errors.forbidden(&part_at, "may not specify more than 1 volume type per source");
        }
    }
}

/// The files of one volume.
struct Files<'a> {
    volume: &'a Path<'a>,
    taken: Seen<&'a str>,
}

impl<'a> Files<'a> {
    fn take(&mut self, path: &'a str, errors: &mut Errors) {
        self.take_as(path, path, errors);
    }
    /// `shown` is the value in the error about a second file of that path.
    fn take_as(&mut self, path: &'a str, shown: &str, errors: &mut Errors) {
        if !path.is_empty() {
            self.claim(path, shown, errors);
        }
    }
    fn claim(&mut self, path: &'a str, shown: &str, errors: &mut Errors) {
        if self.taken.again(path) {
            errors.invalid(self.volume, shown, "conflicting duplicate paths");
        }
    }
}

fn check_file(file: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.need(at, file, "path");
    local_path(text(file, "path"), &at.child("path"), errors);
    match (member(file, "fieldRef"), member(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            check_field(field, &FILE_FIELDS, &at.child("fieldRef"), errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(at, "resource", detail);
            }
        }
        (None, Some(resource)) => check_resource(resource, true, &at.child("resourceFieldRef"), errors),
        (None, None) => errors.required(at, "one of fieldRef and resourceFieldRef is required"),
    }
    check_mode(file, "mode", at, errors);
}

fn check_token(token: &Value, at: &Path<'_>, volume: &Path<'_>, options: &Options, errors: &mut Errors) {
    let seconds = int(token, "expirationSeconds").unwrap_or(0);
    let seconds_at = at.child("expirationSeconds");
    if seconds < TOKEN_SECONDS_MIN {
        errors.invalid(&seconds_at, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > TOKEN_SECONDS_MAX {
        errors.invalid(&seconds_at, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let path = text(token, "path");
    if path.is_empty() {
        errors.required(&volume.child("path"), "");
    } else if !options.nonlocal_token_path {
        local_path(path, &volume.child("path"), errors);
    }
}

fn check_trust_bundle(bundle: &Value, at: &Path<'_>, errors: &mut Errors) {
    match (member(bundle, "name"), member(bundle, "signerName")) {
        (Some(_), Some(_)) => errors.invalid(at, bundle, "only one of name and signerName may be used"),
        (Some(name), None) => {
            let name = name.as_str().unwrap_or_default();
            let at_name = at.child("name");
            if name.is_empty() {
                errors.required(&at_name, "must be a valid object name");
            }
            // After the last colon of a signer's bundle comes its own name.
            let own = name.rsplit_once(':').map_or(name, |(_, own)| own);
            for problem in validate_text::dns1123_subdomain(own) {
                errors.invalid(&at_name, name, format!("not a valid clustertrustbundlename: {problem}"));
            }
            if let Some(selector) = member(bundle, "labelSelector") {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(&at.child("labelSelector"), selector, detail);
            }
        }
        (None, Some(signer)) => {
            let signer = signer.as_str().unwrap_or_default();
            if signer.is_empty() {
                errors.required(&at.child("signerName"), "must be a valid signer name");
            }
            signer_name(signer, &at.child("signerName"), errors);
            errors.label_selector(&at.child("labelSelector"), bundle.get("labelSelector"));
        }
        (None, None) => errors.required(at, "either name or signerName must be specified"),
    }
    errors.need(at, bundle, "path");
    local_path(text(bundle, "path"), &at.child("path"), errors);
}

fn check_certificate<'a>(certificate: &'a Value, at: &Path<'_>, files: &mut Files<'a>, errors: &mut Errors) {
    let signer = text(certificate, "signerName");
    signer_name(signer, &at.child("signerName"), errors);
    check_user_annotations(certificate, &at.child("userAnnotations"), errors);
    errors.one_of(&at.child("keyType"), text(certificate, "keyType"), &KEY_TYPES);
    if let Some(seconds) = int(certificate, "maxExpirationSeconds") {
        let at = at.child("maxExpirationSeconds");
        if seconds < CERTIFICATE_SECONDS_MIN {
            errors.invalid(&at, seconds, "if provided, maxExpirationSeconds must be >= 3600");
        }
        let host = signer.split_once('/').map_or(signer, |(host, _)| host);
        let most = match host == "kubernetes.io" || host.ends_with(".kubernetes.io") {
            true => KUBERNETES_CERTIFICATE_SECONDS_MAX,
            false => CERTIFICATE_SECONDS_MAX,
        };
        if seconds > most {
            errors.invalid(&at, seconds, format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let mut paths = 0;
    for name in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = text(certificate, name);
        if !path.is_empty() {
            paths += 1;
            local_path(path, &at.child(name), errors);
            files.take(path, errors);
        }
    }
    if paths == 0 {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(at, detail);
    }
}

fn check_user_annotations(certificate: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in entries(certificate, "userAnnotations") {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        let key = key.to_lowercase();
        let problems = validate_text::qualified_name(&key);
        if key.is_empty() {
            errors.required(at, "");
        } else if !problems.is_empty() {
            errors.each(at, &key, problems);
        } else if !key.contains('/') {
            errors.invalid(at, key.as_str(), "must be a domain-prefixed key (such as \"acme.io/foo\")");
        }
    }
    if bytes > USER_ANNOTATIONS_MAX_BYTES {
        errors.too_long(at, USER_ANNOTATIONS_MAX_BYTES);
    }
}

/// `example.com/signer-name`.
pub(crate) fn signer_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    let (domain, path) = match name.split_once('/') {
        Some((domain, path)) if !path.contains('/') => (domain, path),
        _ => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return errors.invalid(at, name, detail);
        }
    };
    if domain.len() > SUBDOMAIN_MAX {
        errors.too_long(at, SUBDOMAIN_MAX);
    }
    let label = |part: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors| {
        let bad =
            part.split('.').find_map(|l| Some((l, rule(l))).filter(|(_, problems)| !problems.is_empty()));
        for (l, problem) in bad.into_iter().flat_map(|(l, all)| all.into_iter().map(move |p| (l, p))) {
            errors.invalid(at, part, format!("validating label {}: {problem}", object::quote(l)));
        }
    };
    label(domain, validate_text::dns1123_label, errors);
    if !domain.contains('.') {
        errors.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    label(path, validate_text::dns1123_subdomain, errors);
    let most = 2 * SUBDOMAIN_MAX + validate_text::DNS1123_LABEL_MAX + 2;
    if name.len() > most {
        errors.too_long(at, most);
    }
}
