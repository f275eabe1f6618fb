//! Resource claims and their templates: the request is immutable, and so is the allocation.

mod authorization;
mod columns;
mod defaults;
mod shown;
mod status;

use object::Value;

use crate::check::{Errors, IMMUTABLE, Path, Raw, int, items, member, text};
use crate::columns::NAME_AND_AGE;
use crate::devicerule::{
    CONFIG_MAX, REQUESTS_MAX, by_name, configuration, each, fully_qualified, selectors, set, tolerations,
};
use crate::generic::GenericKind;
use crate::rules::{Rules, StatusMeta};
use crate::workload::SPEC;
use crate::write::Write;

pub(crate) static CLAIM: GenericKind =
    GenericKind::new(Rules::PLAIN.with_status(StatusMeta::KeepAll), check_claim)
        .with_defaults(defaults::apply)
        .with_printer(&columns::PRINTER)
        .with_status_update(status::drop_deallocated)
        .without_status_table();
pub(crate) static TEMPLATE: GenericKind = GenericKind::new(Rules::PLAIN, check_template)
    .with_defaults(defaults::apply_template)
    .with_printer(&NAME_AND_AGE);

const CONSTRAINTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;

/// The label of namespaces whose claims may have admin access to devices in use.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

fn check_claim(write: &Write<'_>, errors: &mut Errors) {
    let spec = write.spec();
    check_admin(write, spec, errors);
    if write.is_status() {
        return status::check(write, errors);
    }
    write.check_whole_metadata(errors);
    let Some(old) = write.old_spec() else { return check_spec(spec, false, &SPEC, errors) };
    write.check_metadata(errors);
    if !write.same(&["spec"], Some(spec), Some(old)) {
        errors.invalid(&SPEC, Raw(&shown::spec(spec)), IMMUTABLE);
    }
}

/// On create only: the spec is immutable. Upstream leaves the request out of the path.
fn check_admin(write: &Write<'_>, spec: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let requests = items(spec.get("devices").unwrap_or(&none), "requests");
    let asks = |r: &Value| r.at(&["exactly", "adminAccess"]).and_then(Value::as_bool) == Some(true);
    if let (None, Some(i)) = (write.old, requests.iter().position(asks)) {
        let at = SPEC.child("devices");
        admin_only(write, &at.child("requests").index(i), errors);
    }
}

fn admin_only(write: &Write<'_>, at: &Path<'_>, errors: &mut Errors) {
    if write.ctx.namespace.label(ADMIN_LABEL).as_deref() != Some("true") {
        let detail = format!(
            "admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        );
        errors.forbidden(&at.child("adminAccess"), &detail);
    }
}

fn check_template(write: &Write<'_>, errors: &mut Errors) {
    let none = Value::Null;
    let spec = write.spec();
    check_admin(write, spec.get("spec").unwrap_or(&none), errors);
    write.check_whole_metadata(errors);
    let at = SPEC.child("metadata");
    let metadata = spec.get("metadata").unwrap_or(&none);
    errors.annotations(&at.child("annotations"), metadata.get("annotations"));
    errors.labels(&at.child("labels"), metadata.get("labels"));
    let others = metadata.as_map().into_iter().flat_map(|m| m.iter());
    for (name, value) in others.filter(|(name, _)| !matches!(&***name, "annotations" | "labels")) {
        // Not even an empty list, which Go distinguishes from nil.
        if !value.is_null() && value.as_str() != Some("") {
            // By the name of the member in Go.
            let name = if &**name == "uid" { "uID" } else { name };
            errors.forbidden(&at.child(name), "cannot be set");
        }
    }
    // It is immutable: what an update brings was stored before, or is refused.
    let stored = write.old.is_some();
    check_spec(spec.get("spec").unwrap_or(&none), stored, &SPEC.child("spec"), errors);
    if let Some(old) = write.old_spec() {
        write.check_metadata(errors);
        if !write.same(&["spec"], Some(spec), Some(old)) {
            errors.invalid(&SPEC, Raw(&shown::template(spec)), IMMUTABLE);
        }
    }
}

fn check_spec(spec: &Value, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    let none = Value::Null;
    let claim = spec.get("devices").unwrap_or(&none);
    let at = at.child("devices");
    let names = RequestNames::of(claim);
    let requests = items(claim, "requests");
    set(requests, REQUESTS_MAX, &by_name, &at.child("requests"), errors, &|request, at, errors| {
        check_request(request, stored, at, errors);
    });
    let constraints = items(claim, "constraints");
    each(constraints, CONSTRAINTS_MAX, &at.child("constraints"), errors, &|constraint, at, errors| {
        names.check(constraint, at, errors);
        let attribute = |name: &str| member(constraint, name).and_then(Value::as_str);
        match (attribute("matchAttribute"), attribute("distinctAttribute")) {
            (Some(own), _) => fully_qualified(own, &at.child("matchAttribute"), errors),
            (None, Some(own)) => fully_qualified(own, &at.child("distinctAttribute"), errors),
            (None, None) => {
                let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                errors.required(at, detail);
            }
        }
    });
    each(items(claim, "config"), CONFIG_MAX, &at.child("config"), errors, &|config, at, errors| {
        names.check(config, at, errors);
        configuration(config, false, at, errors);
    });
}

fn check_request(request: &Value, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    errors.dns_label(&at.child("name"), text(request, "name"));
    let (exactly, alternatives) = (member(request, "exactly"), items(request, "firstAvailable"));
    match (exactly, alternatives.is_empty()) {
        (None, true) => errors.required(at, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), false) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(at, None, detail);
        }
        (Some(exactly), true) => check_devices(exactly, stored, &at.child("exactly"), errors),
        (None, false) => {
            let at = at.child("firstAvailable");
            set(alternatives, ALTERNATIVES_MAX, &by_name, &at, errors, &|alternative, at, errors| {
                errors.dns_label(&at.child("name"), text(alternative, "name"));
                check_devices(alternative, stored, at, errors);
            });
        }
    }
}

fn check_devices(request: &Value, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    errors.need_subdomain(&at.child("deviceClassName"), text(request, "deviceClassName"));
    selectors(request, stored, at, errors);
    let count = int(request, "count").unwrap_or(0);
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.invalid(&at.child("count"), count, detail);
        }
        "All" => {}
        "ExactCount" => errors.positive(&at.child("count"), count),
        other => errors.not_supported(&at.child("allocationMode"), other, &["All", "ExactCount"]),
    }
    tolerations(request, at, errors);
}

/// The requests of a claim, each with its alternatives.
struct RequestNames<'a> {
    names: Vec<(&'a str, Vec<&'a str>)>,
}

impl<'a> RequestNames<'a> {
    fn of(claim: &'a Value) -> RequestNames<'a> {
        let named = |request: &'a Value| {
            let alternatives = items(request, "firstAvailable").iter().map(|a| text(a, "name")).collect();
            (text(request, "name"), alternatives)
        };
        RequestNames { names: items(claim, "requests").iter().map(named).collect() }
    }

    /// The `requests` something is about.
    fn check(&self, of: &Value, at: &Path<'_>, errors: &mut Errors) {
        set(
            items(of, "requests"),
            REQUESTS_MAX,
            &by_name,
            &at.child("requests"),
            errors,
            &|name, at, errors| {
                self.check_one(name.as_str().unwrap_or_default(), at, errors);
            },
        );
    }

    fn check_one(&self, name: &str, at: &Path<'_>, errors: &mut Errors) {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() <= 2 {
            for part in &parts {
                errors.dns_label(at, part);
            }
        }
        // Of requests with the same name the last one counts.
        let known = |request: &str| self.names.iter().rev().find(|(known, _)| *known == request);
        let found = match parts[..] {
            [request] => known(request).is_some(),
            [request, alternative] => known(request).is_some_and(|(_, all)| all.contains(&alternative)),
            _ => false,
        };
        if !found {
            errors.invalid(at, name, detail);
        }
    }
}
