//! Jobs: unless the user manages it, the selector is the job's own uid, and the template carries the labels it needs.

mod columns;
pub(crate) mod defaults;
mod validation;
pub(crate) mod warnings;

use catalog::Resource;
use object::{Map, Value};

use crate::check::Errors;
use crate::columns::Printer;
use crate::kind::{Context, Defaults, Kind};
use crate::metadata::meta;
use crate::replicationcontroller::defaults::take_template_labels;
use crate::rules::{Generation, Rules, StatusMeta};
use crate::warnings::{Accepted, Warnings};
use crate::workload::POD_SPEC;
use crate::write::Write;
use object::DeleteOptions;

pub(crate) use validation::check_spec;

pub(crate) struct Job;
pub(crate) static KIND: Job = Job;

const RULES: Rules = Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free);
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

impl Kind for Job {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn(write, warnings);
    }

    fn warn_delete(&self, options: &DeleteOptions) -> Option<&'static str> {
        warnings::delete_warning(options)
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn pod_spec_path(&self) -> Option<&[&str]> {
        Some(POD_SPEC)
    }

    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        if new.at(&["spec", "manualSelector"]).and_then(Value::as_bool) != Some(true) {
            select_own_pods(new);
        }
        take_template_labels(new.make_map());
    }

    fn reencoded(&self, value: &Value, _resource: &Resource) -> Option<Value> {
        let mut value = value.clone();
        take_template_labels(value.make_map());
        Some(value)
    }

    /// A write to the status too may come without labels, and with a template that gives it some.
    fn sent_update(&self, new: &mut Value) {
        take_template_labels(new.make_map());
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value, _ctx: &Context<'_>) {
        take_template_labels(new.make_map());
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }
}

fn select_own_pods(new: &mut Value) {
    let own = |member| meta(new, member).cloned().unwrap_or_else(|| Value::from(""));
    let (name, uid) = (own("name"), own("uid"));
    let labels = new.map_at(&["spec", "template", "metadata", "labels"]);
    set_if_absent(labels, "job-name", &name);
    set_if_absent(labels, "batch.kubernetes.io/job-name", &name);
    set_if_absent(labels, "controller-uid", &uid);
    set_if_absent(labels, CONTROLLER_UID, &uid);
    set_if_absent(new.map_at(&["spec", "selector", "matchLabels"]), CONTROLLER_UID, &uid);
}

/// A label set by the user stays, and is left to validation.
fn set_if_absent(labels: &mut Map, key: &'static str, value: &Value) {
    if !labels.contains(key) {
        labels.set(key, value.clone());
    }
}
