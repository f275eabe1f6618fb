//! Bodies of writes, completed.

use catalog::Resource;
use object::Value;

/// The body with the type that is expected where it goes, if it says none. Servers do that for built-in resources only.
pub fn with_type(resource: &Resource, subresource: &str, mut body: Value) -> Value {
    if !resource.custom {
        return body;
    }
    let Some(map) = body.as_map_mut() else { return body };
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
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::Catalog;
    use object::Map;

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
}
