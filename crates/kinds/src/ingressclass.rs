//! Ingress classes: a controller that stays, and parameters that can be found.

mod columns;
mod defaults;

use object::{Value, validate_text};

use crate::check::{Errors, Path, member, text};
use crate::generic::GenericKind;
use crate::rules::{Generation, Rules};
use crate::workload::SPEC;
use crate::write::Write;

const CONTROLLER_MAX_BYTES: usize = 250;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN.with_generation(Generation::SPEC), check)
    .with_defaults(defaults::apply)
    .with_printer(&columns::PRINTER);

fn check(write: &Write<'_>, errors: &mut Errors) {
    let spec = write.spec();
    let at = SPEC.child("controller");
    if let Some(old) = write.old_spec() {
        write.check_metadata(errors);
        errors.immutable_text(&at, text(spec, "controller"), text(old, "controller"));
    }
    write.check_whole_metadata(errors);
    let controller = text(spec, "controller");
    if controller.len() > CONTROLLER_MAX_BYTES {
        errors.too_long(&at, CONTROLLER_MAX_BYTES);
    }
    errors.domain_prefixed_path(&at, controller);
    if let Some(parameters) = member(spec, "parameters") {
        check_parameters(parameters, &SPEC.child("parameters"), errors);
    }
}

fn check_parameters(parameters: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = member(parameters, "apiGroup").and_then(Value::as_str) {
        errors.subdomain(&at.child("apiGroup"), group);
    }
    for name in ["kind", "name"] {
        let value = text(parameters, name);
        match value {
            "" => errors.required(&at.child(name), ""),
            _ => errors.each(&at.child(name), value, validate_text::path_segment_name(value)),
        }
    }
    let namespace = member(parameters, "namespace").and_then(Value::as_str);
    let namespace_at = at.child("namespace");
    match (member(parameters, "scope").and_then(Value::as_str), namespace) {
        (None, _) => errors.required(&at.child("scope"), ""),
        (Some("Namespace"), None) => {
            errors.required(&namespace_at, "`parameters.scope` is set to 'Namespace'");
        }
        (Some("Namespace"), Some(namespace)) => errors.dns_label(&namespace_at, namespace),
        (Some("Cluster"), Some(_)) => {
            errors.forbidden(&namespace_at, "`parameters.scope` is set to 'Cluster'");
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => errors.not_supported(&at.child("scope"), other, &["Cluster", "Namespace"]),
    }
}
