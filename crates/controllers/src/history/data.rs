//! The data of a revision: made from an owner, and put back into one.

use std::sync::Arc;

use catalog::Resource;
use client::Gvr;
use codec::json;
use object::normalise::{Strict, normalise};
use object::patch::strategic;
use object::{Map, Status, Value};

use crate::Context;

/// The patch that gives an owner its template again: `spec.template` as a whole, members sorted.
pub(crate) fn template_patch(owner: &Value) -> Value {
    let mut template = owner.at(&["spec", "template"]).cloned().unwrap_or_else(Value::map);
    template.make_map().set("$patch", "replace");
    let mut patch = Value::map();
    patch.map_at(&["spec"]).set("template", template);
    sort_members(&mut patch);
    patch
}

/// As Go writes maps.
fn sort_members(value: &mut Value) {
    match value {
        Value::Map(map) => sort_map(map),
        Value::List(list) => list.iter_mut().for_each(sort_members),
        _ => {}
    }
}

fn sort_map(map: &mut Map) {
    map.entries_mut().sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    map.iter_mut().for_each(|(_, value)| sort_members(value));
}

/// Applies revisions to owners of one resource.
pub(crate) struct Restorer {
    resource: Arc<Resource>,
}

impl Restorer {
    /// `owners` is built in: its type never changes.
    pub fn new(context: &Context, owners: &Gvr) -> Restorer {
        let catalog = context.informers.catalog();
        let resource = owners.find(&catalog).expect("workloads are built in").clone();
        Restorer { resource }
    }

    #[cfg(test)]
    pub fn of(resource: Arc<Resource>) -> Restorer {
        Restorer { resource }
    }

    /// The owner as it was at a revision with this data.
    pub fn restored(&self, owner: &Value, data: &[u8]) -> Result<Value, Status> {
        let patch = json::parse(data, None).map_err(|error| Status::bad_request(error.to_string()))?;
        let mut restored = owner.clone();
        strategic::apply(self.resource.schema(), self.resource.ty, &mut restored, patch)?;
        self.normalised(&mut restored)?;
        Ok(restored)
    }

    /// Would this data, put back today, change nothing? A revision written by an earlier version of Kubernetes lacks defaults that came
    /// later, or spells out what is now left out.
    pub fn means_the_same(&self, owner: &Value, template_patch: &[u8], data: &[u8]) -> bool {
        let Ok(mut restored) = self.restored(owner, data) else { return false };
        kinds::defaults::apply(
            kinds::kind_of_resource(&self.resource),
            &self.resource.version,
            &mut restored,
        );
        if self.normalised(&mut restored).is_err() {
            return false;
        }
        json::to_vec(&self::template_patch(&restored)) == template_patch
    }

    fn normalised(&self, owner: &mut Value) -> Result<(), Status> {
        normalise(self.resource.schema(), self.resource.ty, owner, &mut Strict::off())
            .map_err(|error| Status::bad_request(error.to_string()))
    }
}
