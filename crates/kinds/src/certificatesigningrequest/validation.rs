//! The rules of certificate signing requests: known usages, a signer's name, decisions that only their own path makes.
//!
//! Whether the request itself can be read, and is signed, is checked by admission: it needs cryptography.

use object::{Value, quote, validate_text};

use crate::check::{Errors, Path, int, items, member, text, texts};
use crate::checked::Write;

/// Sorted, as messages list them.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY: &str = "kubernetes.io/legacy-unknown";
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];
const SHORTEST_SECONDS: i64 = 600;
/// A domain, and a path that has room for a resource's name and a namespace's.
const LONGEST_DOMAIN: usize = 253;
const LONGEST_PATH: usize = 253 + 63 + 1;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.old.is_none() {
        write.check_whole_metadata(errors);
    }
    spec(write, errors);
    conditions(write, errors);
    if let Some(old) = write.old_status() {
        changes(write, old, errors);
        write.check_metadata(errors);
    }
}

fn spec(write: &Write<'_>, errors: &mut Errors) {
    let at = Path::Root("spec");
    let old = write.old_spec();
    let used: Vec<&str> = texts(write.spec(), "usages").collect();
    if used.is_empty() {
        errors.required(&at.child("usages"), "");
    }
    // What is stored already, by whatever server, does not make an update fail.
    let unknown = |spec: &Value| texts(spec, "usages").any(|usage| !USAGES.contains(&usage));
    let doubled = |used: &[&str]| (0..used.len()).any(|i| used[..i].contains(&used[i]));
    let list = at.child("usages");
    if !old.is_some_and(unknown) {
        for (i, usage) in used.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage)) {
            errors.not_supported(&list.index(i), *usage, &USAGES);
        }
    }
    if !old.is_some_and(|spec| doubled(&texts(spec, "usages").collect::<Vec<_>>())) {
        for (i, usage) in used.iter().enumerate().filter(|(i, usage)| used[..*i].contains(usage)) {
            errors.duplicate(&list.index(i), *usage);
        }
    }
    let name = text(write.spec(), "signerName");
    let at_name = at.child("signerName");
    if name == LEGACY && old.is_none_or(|spec| text(spec, "signerName") != LEGACY) {
        errors.invalid(&at_name, name, "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(name, &at_name, errors);
    }
    if let Some(seconds) = int(write.spec(), "expirationSeconds").filter(|s| *s < SHORTEST_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&at.child("expirationSeconds"), seconds, detail);
    }
}

fn signer_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts[..] else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(at, name, detail);
    };
    if domain.len() > LONGEST_DOMAIN {
        errors.too_long(at, LONGEST_DOMAIN);
    }
    // The first bad label says enough.
    let first_bad = |part: &str, problems: fn(&str) -> Vec<String>, errors: &mut Errors| {
        let bad =
            part.split('.').map(|label| (label, problems(label))).find(|(_, problems)| !problems.is_empty());
        if let Some((label, problems)) = bad {
            for problem in problems {
                errors.invalid(at, part, format!("validating label {}: {problem}", quote(label)));
            }
        }
    };
    first_bad(domain, validate_text::dns1123_label, errors);
    if !domain.contains('.') {
        errors.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    first_bad(path, validate_text::dns1123_subdomain, errors);
    if path.len() > LONGEST_PATH {
        errors.too_long(at, LONGEST_PATH);
    }
}

fn conditions(write: &Write<'_>, errors: &mut Errors) {
    let at = Path::Root("status.conditions");
    let all = items(write.status(), "conditions");
    let old = write.old_status().map_or(&[][..], |status| items(status, "conditions"));
    let has = |list: &[Value], kind: &str| list.iter().any(|c| text(c, "type") == kind);
    let both_before = DECISIONS.iter().all(|kind| has(old, kind));
    let doubled_before = (0..old.len()).any(|i| has(&old[..i], text(&old[i], "type")));
    for (i, condition) in all.iter().enumerate() {
        let (kind, here) = (text(condition, "type"), at.index(i));
        if kind.is_empty() && !has(old, "") {
            errors.required(&here.child("type"), "");
        }
        let allowed: &[&str] = if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match text(condition, "status") {
            "" => errors.required(&here.child("status"), ""),
            status if !allowed.contains(&status) => {
                errors.not_supported(&here.child("status"), status, allowed);
            }
            _ => {}
        }
        let other = DECISIONS.iter().find(|other| DECISIONS.contains(&kind) && **other != kind);
        if !both_before && other.is_some_and(|other| has(&all[..i], other)) {
            errors.invalid(&at, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if !doubled_before && has(&all[..i], kind) {
            errors.duplicate(&here.child("type"), kind);
        }
    }
}

/// What an update may do to what was decided.
fn changes(write: &Write<'_>, old: &Value, errors: &mut Errors) {
    let at = Path::Root("status.conditions");
    let of = |status: &Value, kind: &str| -> Vec<Value> {
        items(status, "conditions").iter().filter(|c| text(c, "type") == kind).cloned().collect()
    };
    for kind in FINAL {
        let (before, now) = (of(old, kind), of(write.status(), kind));
        if now.len() < before.len() {
            let detail = format!("updates may not remove a condition of type {}", quote(kind));
            errors.forbidden(&at, detail);
        }
    }
    for kind in DECISIONS.into_iter().filter(|_| write.ctx.subresource != Some("approval")) {
        let (before, now) = (of(old, kind), of(write.status(), kind));
        if now.len() > before.len() {
            errors.forbidden(&at, format!("updates may not add a condition of type {}", quote(kind)));
        } else if now.len() == before.len() && now != before {
            errors.forbidden(&at, format!("updates may not modify a condition of type {}", quote(kind)));
        }
    }
    let certificate = |status: &Value| -> String {
        member(status, "certificate").and_then(Value::as_str).unwrap_or("").to_owned()
    };
    let (before, now) = (certificate(old), certificate(write.status()));
    if before != now {
        let at = Path::Root("status.certificate");
        if !write.is_status() {
            errors.forbidden(&at, "updates may not set certificate content");
        } else if !before.is_empty() {
            errors.forbidden(&at, "updates may not modify existing certificate content");
        }
    }
}
