//! Custom resource definitions: names that follow from the kind, no conversion, the stored version remembered.

use catalog::Name;
use object::{Map, Value};

use crate::defaults::fill::{at, inside, is_empty, is_set, text};
use crate::webhookconfiguration;

pub(crate) fn apply(definition: &mut Map) {
    let mut stored = None;
    if let Some(spec) = inside(definition, "spec") {
        if let Some(names) = at(spec, "names") {
            follow_kind(names);
        }
        if !is_set(spec, "conversion") {
            let strategy = [(Name::Static("strategy"), Value::from("None"))];
            spec.set("conversion", Map::from_iter(strategy));
        }
        let webhook = at(spec, "conversion").and_then(|conversion| at(conversion, "webhook"));
        if let Some(client) = webhook.and_then(|webhook| at(webhook, "clientConfig")) {
            webhookconfiguration::defaults::service_port(client);
        }
        stored = stored_version(spec).cloned();
    }
    let Some(stored) = stored else { return };
    if let Some(status) = inside(definition, "status")
        && is_empty(status, "storedVersions")
    {
        status.set("storedVersions", vec![stored]);
    }
}

fn follow_kind(names: &mut Map) {
    let kind = text(names, "kind");
    if kind.is_empty() {
        return;
    }
    let singular = is_empty(names, "singular").then(|| kind.to_lowercase());
    let list = is_empty(names, "listKind").then(|| format!("{kind}List"));
    if let Some(singular) = singular {
        names.set("singular", singular);
    }
    if let Some(list) = list {
        names.set("listKind", list);
    }
}

fn stored_version(spec: &Map) -> Option<&Value> {
    let versions = spec.get("versions")?.as_list()?;
    let stored = |version: &&Value| version.get("storage").and_then(Value::as_bool) == Some(true);
    versions.iter().find(stored)?.get("name").filter(|name| name.as_str().is_some())
}
