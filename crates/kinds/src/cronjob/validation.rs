//! The rules of cron jobs: a schedule, a time zone, and the jobs they make.

use object::Value;
use timezone::Zone;

use super::Schedule;
use crate::check::{Errors, Path, flag, member, text};
use crate::job::check_spec;
use crate::pod::validation::Options;
use crate::same;
use crate::workload::SPEC;
use crate::write::Write;

/// A job's name is the cron job's and eleven characters more.
const NAME_MAX_BYTES: usize = 52;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.is_status() {
        return;
    }
    write.check_metadata(errors);
    let (spec, old) = (write.spec(), write.old_spec());
    check_schedule(spec, old, errors);
    errors.nonnegative(&SPEC, spec, "startingDeadlineSeconds");
    if old.is_none_or(|old| !same(old.get("timeZone"), spec.get("timeZone"))) {
        check_zone(spec, errors);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    errors.choice(&SPEC.child("concurrencyPolicy"), text(spec, "concurrencyPolicy"), &policies);
    check_template(spec, old, errors);
    errors.nonnegative(&SPEC, spec, "successfulJobsHistoryLimit");
    errors.nonnegative(&SPEC, spec, "failedJobsHistoryLimit");
    let name = write.new.str_at(&["metadata", "name"]).unwrap_or_default();
    if old.is_none() && name.len() > NAME_MAX_BYTES {
        errors.invalid(&Path::Root("metadata.name"), name, "must be no more than 52 characters");
    }
}

fn check_schedule(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = SPEC.child("schedule");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        return errors.required(&at, "");
    }
    if let Err(error) = Schedule::parse(schedule) {
        errors.invalid(&at, schedule, error);
    }
    if !schedule.contains("TZ") {
        return;
    }
    if !old.is_some_and(|old| text(old, "schedule").contains("TZ")) {
        errors.invalid(&at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if member(spec, "timeZone").is_some() {
        errors.invalid(&at, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

fn check_zone(spec: &Value, errors: &mut Errors) {
    let Some(zone) = member(spec, "timeZone").and_then(Value::as_str) else { return };
    let at = SPEC.child("timeZone");
    if zone.is_empty() {
        return errors.invalid(&at, zone, "timeZone must be nil or non-empty string");
    }
    let part = |part: &str| {
        let byte = |b: u8| b.is_ascii_alphanumeric() || b"._-+".contains(&b);
        (1..=14).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(byte)
    };
    let unknown = format!("unknown time zone {zone}");
    if !zone.split('/').all(part) {
        return errors.invalid(&at, zone, unknown);
    }
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(&at, zone, detail);
    }
    if Zone::load(zone).is_err() {
        errors.invalid(&at, zone, unknown);
    }
}

fn check_template(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let none = Value::Null;
    let path = ["jobTemplate", "spec"];
    let job = spec.at(&path).unwrap_or(&none);
    let options =
        Options::for_template(old.and_then(|old| old.at(&path)).and_then(|job| job.get("template")));
    let at = SPEC.child("jobTemplate");
    let at = at.child("spec");
    check_spec(job, &at, &options, errors);
    if let Some(selector) = member(job, "selector") {
        errors.invalid(&at.child("selector"), selector, "`selector` will be auto-generated");
    }
    if flag(job, "manualSelector") {
        errors.not_supported(&at.child("manualSelector"), true, &["nil", "false"]);
    }
}
