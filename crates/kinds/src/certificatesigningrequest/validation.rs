//! The rules of certificate signing requests: a valid request, approvals that stay, and who may set which condition.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::der::{certificates_problem, request_problem};
use crate::check::{Errors, Path, Seen, int, items, member, text, texts};
use crate::pod::validation::signer_name;
use crate::workload::SPEC;
use crate::write::Write;

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const CONDITIONS: Path<'static> = Path::Root("status.conditions");
const CERTIFICATE: Path<'static> = Path::Root("status.certificate");
const MIN_SECONDS: i64 = 600;
#[rustfmt::skip]
const USAGES: [&str; 23] = [
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    check_request(write, errors);
    if let Some(old) = write.old {
        check_update(write, old, errors);
        write.check_metadata(errors);
    }
}

fn check_request(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let (spec, old) = (write.spec(), write.old_spec());
    if let Some(problem) = request_problem(&bytes(spec, "request")) {
        errors.invalid(&SPEC.child("request"), member(spec, "request"), problem);
    }
    let at = SPEC.child("usages");
    let usages: Vec<&str> = texts(spec, "usages").collect();
    if usages.is_empty() {
        errors.required(&at, "");
    }
    if !old.is_some_and(|old| texts(old, "usages").any(|usage| !USAGES.contains(&usage))) {
        for (i, usage) in usages.iter().enumerate() {
            errors.one_of(&at.index(i), usage, &USAGES);
        }
    }
    if !old.is_some_and(|old| repeats(texts(old, "usages"))) {
        let mut seen = Seen::default();
        for (i, usage) in usages.iter().enumerate().filter(|(_, usage)| seen.again(**usage)) {
            errors.duplicate(&at.index(i), *usage);
        }
    }
    let signer = text(spec, "signerName");
    if signer == LEGACY_SIGNER && old.is_none_or(|old| text(old, "signerName") != LEGACY_SIGNER) {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.invalid(&SPEC.child("signerName"), signer, detail);
    } else {
        signer_name(signer, &SPEC.child("signerName"), errors);
    }
    if let Some(seconds) = int(spec, "expirationSeconds").filter(|s| *s < MIN_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&SPEC.child("expirationSeconds"), seconds, detail);
    }
    check_conditions(write.status(), write.old_status(), errors);
    check_certificate(write, errors);
}

fn check_conditions(status: &Value, old: Option<&Value>, errors: &mut Errors) {
    let before: Vec<&str> = old.into_iter().flat_map(types).collect();
    let torn_before = repeats(before.iter().copied());
    let stays_torn = before.contains(&"Approved") && before.contains(&"Denied");
    let conditions = items(status, "conditions");
    let mut seen = Seen::default();
    for (i, condition) in conditions.iter().enumerate() {
        let at = CONDITIONS.index(i);
        let kind = text(condition, "type");
        if kind.is_empty() && !before.contains(&"") {
            errors.required(&at.child("type"), "");
        }
        let statuses: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        errors.choice(&at.child("status"), text(condition, "status"), statuses);
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && !stays_torn && seen.has(&other) {
            errors.invalid(&CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if seen.again(kind) && !torn_before {
            errors.duplicate(&at.child("type"), kind);
        }
    }
}

/// A certificate that is unchanged, or was invalid before, is not checked.
fn check_certificate(write: &Write<'_>, errors: &mut Errors) {
    let now = text(write.status(), "certificate");
    let tolerated = write.old_status().is_some_and(|old| {
        text(old, "certificate") == now || certificate_problem(&bytes(old, "certificate")).is_some()
    });
    if let Some(problem) = certificate_problem(&bytes(write.status(), "certificate")).filter(|_| !tolerated) {
        errors.invalid(&CERTIFICATE, "<certificate data>", problem);
    }
}

fn certificate_problem(pem: &str) -> Option<String> {
    if pem.is_empty() { None } else { certificates_problem(pem) }
}

fn check_update(write: &Write<'_>, old: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let (status, before) = (write.status(), old.get("status").unwrap_or(&none));
    for decision in ["Approved", "Denied", "Failed"] {
        if of_type(status, decision).len() < of_type(before, decision).len() {
            let detail = format!("updates may not remove a condition of type \"{decision}\"");
            errors.forbidden(&CONDITIONS, detail);
        }
    }
    if write.ctx.subresource != Some("approval") {
        for decision in ["Approved", "Denied"] {
            let (now, was) = (of_type(status, decision), of_type(before, decision));
            let verb = match now.len().cmp(&was.len()) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Greater => "add",
                std::cmp::Ordering::Equal if now == was => continue,
                // Differs from kube-apiserver: without the dump of the difference that follows.
                std::cmp::Ordering::Equal => "modify",
            };
            let detail = format!("updates may not {verb} a condition of type \"{decision}\"");
            errors.forbidden(&CONDITIONS, detail);
        }
    }
    let (now, was) = (text(status, "certificate"), text(before, "certificate"));
    if now != was {
        if !write.is_status() {
            errors.forbidden(&CERTIFICATE, "updates may not set certificate content");
        } else if !was.is_empty() {
            errors.forbidden(&CERTIFICATE, "updates may not modify existing certificate content");
        }
    }
}

fn types(status: &Value) -> impl Iterator<Item = &str> {
    items(status, "conditions").iter().map(|c| text(c, "type"))
}

fn of_type<'v>(status: &'v Value, kind: &str) -> Vec<&'v Value> {
    items(status, "conditions").iter().filter(|c| text(c, "type") == kind).collect()
}

fn repeats<'v>(texts: impl Iterator<Item = &'v str>) -> bool {
    let mut all: Vec<&str> = texts.collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    all.len() < count
}

/// The text behind a member that is base64.
fn bytes(of: &Value, name: &str) -> String {
    let decoded = STANDARD.decode(text(of, name)).unwrap_or_default();
    String::from_utf8_lossy(&decoded).into_owned()
}
