//! API services: named after what they serve; those of this server are available at once.

mod columns;
mod defaults;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Map, Value, validate_text};

use crate::check::{Errors, flag, int, items, member, text};
use crate::columns::Printer;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::{Finalizers, NameRule, Rules, StatusMeta};
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

pub(crate) struct ApiService;
pub(crate) static KIND: ApiService = ApiService;

const RULES: Rules = Rules::PLAIN
    .with_name(NameRule::VersionAndGroup)
    .with_finalizers(Finalizers::Qualified)
    .with_status(StatusMeta::KeepAll);

impl Kind for ApiService {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn status_has_table(&self) -> bool {
        false
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        check(write, errors);
    }

    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        if new.at(&["spec", "service"]).is_some_and(|s| !s.is_null()) {
            return;
        }
        let mut available = Map::default();
        available.set("type", "Available");
        available.set("status", "True");
        available.set("lastTransitionTime", ctx.timestamp());
        available.set("reason", "Local");
        available.set("message", "Local APIServices are always available");
        new.map_at(&["status"]).set("conditions", vec![Value::Map(available)]);
    }
}

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;

fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.old.is_some() {
        write.check_metadata(errors);
    }
    if write.is_status() {
        for (i, condition) in items(write.status(), "conditions").iter().enumerate() {
            let list = STATUS.child("conditions");
            let at = list.index(i);
            errors.one_of(&at.child("status"), text(condition, "status"), &["True", "False", "Unknown"]);
        }
        return;
    }
    write.check_whole_metadata(errors);
    check_spec(write.spec(), errors);
}

fn check_spec(spec: &Value, errors: &mut Errors) {
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    if !group.is_empty() {
        errors.subdomain(&SPEC.child("group"), group);
    } else if version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.required(&SPEC.child("group"), detail);
    }
    errors.each(&SPEC.child("version"), version, validate_text::dns1035_label(version));
    for (name, most) in
        [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)]
    {
        let priority = int(spec, name).unwrap_or(0);
        if priority <= 0 || priority > most {
            errors.invalid(&SPEC.child(name), priority, format!("must be positive and less than {most}"));
        }
    }
    let bundle = STANDARD.decode(text(spec, "caBundle")).unwrap_or_default();
    let insecure = flag(spec, "insecureSkipTLSVerify");
    let insecure_at = SPEC.child("insecureSkipTLSVerify");
    let Some(service) = member(spec, "service") else {
        if !bundle.is_empty() {
            let shown = format!("{} bytes", bundle.len());
            let detail = "local APIServices may not have a caBundle";
            errors.invalid(&SPEC.child("caBundle"), shown.as_str(), detail);
        }
        if insecure {
            errors.invalid(&insecure_at, true, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    };
    let at = SPEC.child("service");
    errors.need(&at, service, "namespace");
    errors.need(&at, service, "name");
    let port = int(service, "port").unwrap_or(0);
    let problems = validate_text::port_number(port);
    if !problems.is_empty() {
        errors.invalid(&at.child("port"), port, format!("port is not valid: {}", problems.join(", ")));
    }
    if insecure && !bundle.is_empty() {
        errors.invalid(&insecure_at, true, "may not be true if caBundle is present");
    }
}
