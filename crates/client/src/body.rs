//! Bodies of writes, completed.

use catalog::Resource;
use object::{Map, Patch, Value};

use crate::Target;

/// The body with the type that is expected where it goes, if it says none. Servers do that for built-in resources only.
pub fn with_type(resource: &Resource, subresource: &str, mut body: Value) -> Value {
    if let Some(map) = body.as_map_mut().filter(|_| resource.custom) {
        set_type(resource, subresource, map);
    }
    body
}

/// A patch as servers want it: what is applied has a type and a name, of built-in resources too.
pub fn with_applied_type(resource: &Resource, target: &Target<'_>, patch: Patch) -> Patch {
    let Patch::Apply(mut config) = patch else { return patch };
    if let Some(map) = config.as_map_mut() {
        set_type(resource, target.subresource, map);
        if map.get("metadata").is_none_or(|metadata| metadata.as_map().is_some()) {
            let metadata = config.map_at(&["metadata"]);
            if metadata.get("name").is_none() {
                metadata.set("name", target.name);
            }
        }
    }
    Patch::Apply(config)
}

fn set_type(resource: &Resource, subresource: &str, map: &mut Map) {
    let (kind, api_version) = match resource.subresource(subresource) {
        Some(sub) if sub.group.is_empty() => (&sub.kind, sub.version.to_string()),
        Some(sub) => (&sub.kind, format!("{}/{}", sub.group, sub.version)),
        None => (&resource.kind, resource.api_version()),
    };
    for (name, value) in [("kind", kind.to_string()), ("apiVersion", api_version)] {
        if map.get(name).is_none_or(|said| *said == Value::Null || said.as_str() == Some("")) {
            map.set(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::DEPLOYMENTS;
    use catalog::Catalog;

    fn typed(custom: bool, subresource: &str, kind: Option<&str>) -> (Option<String>, Option<String>) {
        let catalog = Catalog::builtin();
        let deployments = catalog.find("apps", "v1", "deployments").unwrap();
        let resource = Resource { custom, ..Resource::clone(deployments) };
        let mut body = Map::default();
        if let Some(kind) = kind {
            body.set("kind", kind);
        }
        let body = with_type(&resource, subresource, Value::Map(body));
        let text = |name: &str| body.str_at(&[name]).map(str::to_owned);
        (text("kind"), text("apiVersion"))
    }

    #[test]
    fn a_body_gets_the_type_its_target_has() {
        let of = |kind: &str, version: &str| (Some(kind.to_owned()), Some(version.to_owned()));
        assert_eq!(typed(true, "", None), of("Deployment", "apps/v1"));
        assert_eq!(typed(true, "status", Some("")), of("Deployment", "apps/v1"));
        assert_eq!(typed(true, "scale", None), of("Scale", "autoscaling/v1"));
        assert_eq!(typed(true, "", Some("Other")), of("Other", "apps/v1"), "what it says stays");
        assert_eq!(typed(false, "", None), (None, None), "servers know");
    }

    #[test]
    fn what_is_applied_gets_a_type_and_the_name_of_its_target() {
        let catalog = Catalog::builtin();
        let deployments = catalog.find("apps", "v1", "deployments").unwrap();
        let applied = |subresource: &'static str, config: Value| {
            let target = DEPLOYMENTS.at("default", "web").sub(subresource);
            with_applied_type(deployments, &target, Patch::Apply(config)).into_value()
        };
        let says = |config: &Value, wanted: [&str; 3]| {
            let said =
                [&["kind"][..], &["apiVersion"], &["metadata", "name"]].map(|path| config.str_at(path));
            assert_eq!(said, wanted.map(Some), "{config:?}");
        };
        let web = applied("", Value::map());
        says(&web, ["Deployment", "apps/v1", "web"]);
        assert_eq!(applied("", web.clone()), web, "what it says stays");
        says(&applied("status", Value::map()), ["Deployment", "apps/v1", "web"]);
        says(&applied("scale", Value::map()), ["Scale", "autoscaling/v1", "web"]);
        // What is no object is the server's to refuse.
        assert_eq!(applied("", Value::List(Vec::new())), Value::List(Vec::new()));
        let mut odd = Map::default();
        odd.set("metadata", 1);
        assert_eq!(applied("", Value::Map(odd)).at(&["metadata"]), Some(&Value::Int(1)));
        let merged = with_applied_type(deployments, &DEPLOYMENTS.at("", "web"), Patch::Merge(Value::map()));
        assert_eq!(merged.into_value(), Value::map(), "other patches say what they say");
    }
}
