//! Resource slices: the time of a taint defaults to now.

mod columns;
mod defaults;
mod validation;
mod warnings;

use object::Value;

use crate::check::Errors;
use crate::columns::Printer;
use crate::gates::DisabledFeature;
use crate::kind::{Context, Defaults, Kind};
use crate::rules::{Generation, Rules};
use crate::strategy::map_mut;
use crate::warnings::{Accepted, Warnings};
use crate::write::Write;

pub(crate) struct ResourceSlice;
pub(crate) static KIND: ResourceSlice = ResourceSlice;

const RULES: Rules = Rules::PLAIN.with_generation(Generation::SpecAsSent);

const DISABLED: &[DisabledFeature] = &[
    DisabledFeature::new("DRANodeAllocatableResources", &["spec.devices[].nodeAllocatableResourceMappings"]),
    DisabledFeature::new(
        "DRAListTypeAttributes",
        &[
            "spec.devices[].attributes{}.bools",
            "spec.devices[].attributes{}.ints",
            "spec.devices[].attributes{}.strings",
            "spec.devices[].attributes{}.versions",
        ],
    ),
];

impl Kind for ResourceSlice {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings::warn(write, warnings);
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn disabled_features(&self) -> &[DisabledFeature] {
        DISABLED
    }
    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }
    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        date_taints(new, ctx);
    }
    fn prepare_update(&self, new: &mut Value, _old: &Value, ctx: &Context<'_>) {
        date_taints(new, ctx);
    }
}

/// Upstream does it as a default, on every decode; defaults have no clock here.
fn date_taints(slice: &mut Value, ctx: &Context<'_>) {
    let Some(Value::List(devices)) = map_mut(slice, &["spec"]).and_then(|spec| spec.get_mut("devices"))
    else {
        return;
    };
    for device in devices.iter_mut().filter_map(Value::as_map_mut) {
        let Some(Value::List(taints)) = device.get_mut("taints") else { continue };
        for taint in taints.iter_mut().filter_map(Value::as_map_mut) {
            if taint.get("timeAdded").is_none_or(Value::is_null) {
                taint.set("timeAdded", ctx.timestamp());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use catalog::Catalog;

    use crate::tests::{NOW, NOW_TEXT, json, storage};
    use crate::{Context, kind_of, prepare_create, prepare_update};

    #[test]
    fn a_taint_gets_its_time_added_once() {
        let catalog = Catalog::builtin();
        let storage = storage(&catalog, "resourceslices");
        let (kind, ctx) = (kind_of(storage), Context::plain(storage, NOW));
        let added = |slice: &object::Value| {
            let devices = slice.at(&["spec", "devices"]).unwrap().as_list().unwrap();
            let taints = devices[0].get("taints").unwrap().as_list().unwrap();
            taints[0].str_at(&["timeAdded"]).map(str::to_owned)
        };
        let mut slice =
            json(r#"{"spec":{"devices":[{"name":"d","taints":[{"key":"k","effect":"NoSchedule"}]}]}}"#);
        prepare_create(kind, &mut slice, &ctx);
        assert_eq!(added(&slice).as_deref(), Some(NOW_TEXT));
        let (mut again, later) = (slice.clone(), Context { now: NOW + 60, ..ctx });
        prepare_update(kind, &mut again, &slice, &later);
        assert_eq!(added(&again).as_deref(), Some(NOW_TEXT));
    }
}
