//! The strategy of custom resources: what their definition says, done to their objects.

use std::borrow::Cow;

use catalog::{Name, Resource, Storage};
use kinds::columns::Printer;
use kinds::{
    Context, Defaults, FieldError, Finalizers, Generation, Kind, Rules, ScalePaths, ScaleSelector, StatusMeta,
};
use object::{Map, Status, Value};

use crate::columns::Columns;
use crate::definition::{DefinitionError, Served};

const RULES: Rules = Rules::PLAIN
    .with_finalizers(Finalizers::Qualified)
    // From 1; what moves it is said below, since it depends on whether there is a status.
    .with_generation(Generation::Once);

/// One resource's strategy, for all its versions.
pub struct CustomResource {
    group: Name,
    versions: Vec<Version>,
    /// The version objects are stored in.
    stored: Name,
    terminating: bool,
}

/// What a version has of its own.
struct Version {
    name: Name,
    has_status: bool,
    scale: Option<ScalePaths>,
    columns: Columns,
}

impl CustomResource {
    pub(crate) fn new(crd: &Served<'_>) -> Result<CustomResource, DefinitionError> {
        let versions = crd.each_version().map(|(name, version)| Version::new(name, version));
        Ok(CustomResource {
            group: Name::from(crd.group().to_owned()),
            versions: versions.collect::<Result<_, _>>()?,
            stored: Name::from(crd.storage_version().to_owned()),
            terminating: crd.is_terminating(),
        })
    }

    fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == *name)
    }

    /// The version an object says it is in.
    fn version_of(&self, value: &Value) -> Option<&Version> {
        self.version(value.str_at(&["apiVersion"])?.strip_prefix(&*self.group)?.strip_prefix('/')?)
    }
}

impl Version {
    fn new(name: &str, version: &Value) -> Result<Version, DefinitionError> {
        Ok(Version {
            name: Name::from(name.to_owned()),
            has_status: version.at(&["subresources", "status"]).is_some(),
            scale: version.at(&["subresources", "scale"]).map(scale_paths),
            columns: Columns::of_version(version),
        })
    }
}

impl Kind for CustomResource {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn converts_last(&self) -> bool {
        true
    }

    fn forbids_create(&self) -> Option<&'static str> {
        self.terminating.then_some("create not allowed while custom resource definition is terminating")
    }

    fn printer(&self, version: &str) -> &dyn Printer {
        match self.version(version) {
            Some(version) => &version.columns,
            None => kinds::columns::generic_printer(),
        }
    }

    fn scale_paths(&self, version: &str) -> Option<&ScalePaths> {
        self.version(version)?.scale.as_ref()
    }

    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        if self.version(ctx.version).is_some_and(|version| version.has_status) {
            new.make_map().remove("status");
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        if ctx.is_status() {
            let status = new.make_map().remove("status");
            *new = old.clone();
            match status {
                Some(status) => new.make_map().set("status", status),
                None => _ = new.make_map().remove("status"),
            }
            return;
        }
        if self.version(ctx.version).is_some_and(|version| version.has_status) {
            match old.get("status") {
                Some(status) => new.make_map().set("status", status.clone()),
                None => _ = new.make_map().remove("status"),
            }
        }
        if !same_content(new, old) {
            let generation = old.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
            new.map_at(&["metadata"]).set("generation", generation.saturating_add(1));
        }
    }

    fn validate(
        &self,
        storage: &Storage,
        new: &Value,
        old: Option<&Value>,
        ctx: &Context<'_>,
    ) -> Vec<FieldError> {
        kinds::check_metadata(&RULES, storage, new, old)
    }
}

/// Everything but the metadata, whatever order it is in.
fn same_content(new: &Value, old: &Value) -> bool {
    let content = |value: &Value| value.as_map().map_or(0, |map| map.len() - usize::from(map.get("metadata").is_some()));
    let members = new.as_map().into_iter().flat_map(|map| map.iter()).filter(|(name, _)| &**name != "metadata");
    content(new) == content(old) && members.into_iter().all(|(name, value)| old.get(name) == Some(value))
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |member: &str| {
        let text = scale.str_at(&[member]).unwrap_or_default();
        let names = text.trim_start_matches('.').split('.').filter(|name| !name.is_empty());
        Cow::Owned(names.map(|name| Name::from(name.to_owned())).collect::<Vec<_>>())
    };
    ScalePaths {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: path("labelSelectorPath"),
        selector_form: ScaleSelector::Text,
        required: scale.str_at(&["specReplicasPath"]).map(str::to_owned),
    }
}
