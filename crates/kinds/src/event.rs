//! Events: one storage served by two groups (core and events.k8s.io), validated by the group of the request.

mod columns;

use catalog::{Resource, Storage};
use object::{FieldError, Status, Value, quote, validate_text};

use crate::check::internal::{Field, Go, NULL, TEXT};
use crate::columns::Printer;
use crate::equal::FieldType;
use crate::kind::{Context, Kind};
use crate::metadata;
use crate::rules::Rules;

pub(crate) struct Event;
pub(crate) static KIND: Event = Event;

/// Of core events; events.k8s.io has stricter rules, in [`Event::validate`].
const RULES: Rules = Rules::PLAIN.without_metadata();

/// events.k8s.io on the left, core on the right.
const NAMES: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

impl Kind for Event {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn to_storage(&self, value: &mut Value, from: &Resource) -> Result<(), Status> {
        if !from.group.is_empty() {
            for (theirs, core) in NAMES {
                rename(value, theirs, core);
            }
            value.make_map().set("apiVersion", "v1");
        }
        Ok(())
    }

    fn from_storage(&self, value: &mut Value, to: &Resource) {
        if !to.group.is_empty() {
            for (theirs, core) in NAMES {
                rename(value, core, theirs);
            }
            value.make_map().set("apiVersion", to.api_version());
        }
    }

    fn validate(
        &self,
        storage: &Storage,
        new: &Value,
        old: Option<&Value>,
        ctx: &Context<'_>,
    ) -> Vec<FieldError> {
        let core = ctx.group.is_empty();
        let mut errors = Vec::new();
        check_sense(new, core, &mut errors);
        if core {
            return errors;
        }
        match old {
            None => {
                errors.extend(metadata::check(&Rules::PLAIN, storage, new));
                check_new(new, &mut errors);
            }
            Some(old) => {
                errors.extend(metadata::check_update(&Rules::PLAIN, new, old));
                check_unchanged(storage, new, old, &mut errors);
            }
        }
        errors
    }
}

fn rename(value: &mut Value, from: &'static str, to: &'static str) {
    let map = value.make_map();
    if let Some(member) = map.remove(from) {
        map.set(to, member);
    }
}

fn text<'a>(event: &'a Value, path: &[&str]) -> &'a str {
    event.str_at(path).unwrap_or_default()
}

fn is_unset(event: &Value, member: &str) -> bool {
    event.get(member).is_none_or(Value::is_null)
}

/// Rules of every event, in either group.
fn check_sense(new: &Value, core: bool, errors: &mut Vec<FieldError>) {
    let namespace = text(new, &["metadata", "namespace"]);
    let about = text(new, &["involvedObject", "namespace"]);
    let at_home = if is_unset(new, "eventTime") {
        if about.is_empty() { ["", "default"].contains(&namespace) } else { about == namespace }
    } else {
        !about.is_empty() || ["default", "kube-system"].contains(&namespace)
    };
    if !at_home {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", quote(about), detail));
    }
    if !is_unset(new, "eventTime") {
        check_new_style(new, core, errors);
    }
    for problem in validate_text::dns1123_subdomain(namespace) {
        errors.push(FieldError::invalid("namespace", quote(namespace), problem));
    }
}

fn check_new_style(new: &Value, core: bool, errors: &mut Vec<FieldError>) {
    let controller_field = if core { "reportingComponent" } else { "reportingController" };
    let controller = text(new, &["reportingComponent"]);
    let long = |field: &str, text: &str, limit: usize| {
        let detail = format!("can have at most {limit} characters");
        (text.len() > limit).then(|| FieldError::invalid(field, "\"\"", detail))
    };
    if controller.is_empty() {
        errors.push(FieldError::required(controller_field, ""));
    }
    for problem in validate_text::qualified_name(controller) {
        errors.push(FieldError::invalid(controller_field, quote(controller), problem));
    }
    for field in ["reportingInstance", "action", "reason"] {
        let value = text(new, &[field]);
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        errors.extend(long(field, value, 128));
    }
    errors.extend(long("message", text(new, &["message"]), 1024));
}

fn check_new(new: &Value, errors: &mut Vec<FieldError>) {
    check_series(new, errors);
    if is_unset(new, "eventTime") {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(new, &["type"]);
    if !["Normal", "Warning"].contains(&kind) {
        errors.push(FieldError::invalid("type", "\"\"", format!("has invalid value: {kind}")));
    }
    let count = new.get("count").and_then(Value::as_int).unwrap_or(0);
    let sourced =
        !text(new, &["source", "component"]).is_empty() || !text(new, &["source", "host"]).is_empty();
    for (field, set) in [
        ("firstTimestamp", !is_unset(new, "firstTimestamp")),
        ("lastTimestamp", !is_unset(new, "lastTimestamp")),
        ("count", count != 0),
        ("source", sourced),
    ] {
        if set {
            errors.push(FieldError::invalid(field, "\"\"", "needs to be unset"));
        }
    }
}

fn check_series(new: &Value, errors: &mut Vec<FieldError>) {
    let Some(series) = new.get("series").filter(|s| !s.is_null()) else { return };
    if series.get("count").and_then(Value::as_int).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid("series.count", "\"\"", "should be at least 2"));
    }
    if is_unset(series, "lastObservedTime") {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

/// Only the series (and metadata) of an event may change. Upstream checks the reason twice.
fn check_unchanged(storage: &Storage, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let same = |member: &str| FieldType::of(storage, &[member]).same(new.get(member), old.get(member));
    if !same("series") {
        check_series(new, errors);
    }
    for (member, field, how) in [
        ("involvedObject", "involvedObject", Go::Struct(&REFERENCE)),
        ("reason", "reason", TEXT),
        ("message", "message", TEXT),
        ("source", "source", Go::Struct(&SOURCE)),
        ("firstTimestamp", "firstTimestamp", NULL),
        ("lastTimestamp", "lastTimestamp", NULL),
        ("count", "count", Go::Leaf("0")),
        ("reason", "reason", TEXT),
        ("type", "type", TEXT),
        ("eventTime", "eventTime", NULL),
        ("action", "action", TEXT),
        ("related", "related", Go::Pointer(&REFERENCE)),
        ("reportingComponent", "reportingController", TEXT),
        ("reportingInstance", "reportingInstance", TEXT),
    ] {
        if !same(member) {
            errors.push(FieldError::invalid(field, how.show(new.get(member)), "field is immutable"));
        }
    }
}

const REFERENCE: [Field; 7] = [
    ("kind", "Kind", TEXT),
    ("namespace", "Namespace", TEXT),
    ("name", "Name", TEXT),
    ("uid", "UID", TEXT),
    ("apiVersion", "APIVersion", TEXT),
    ("resourceVersion", "ResourceVersion", TEXT),
    ("fieldPath", "FieldPath", TEXT),
];
const SOURCE: [Field; 2] = [("component", "Component", TEXT), ("host", "Host", TEXT)];
