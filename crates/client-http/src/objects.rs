//! Makes the objects controllers hold out of what a server sent.
//!
//! ```text
//! {"metadata":{..,"resourceVersion":"7"},"spec":..}   a tree, names in any order, list items without a type
//!        │ kind, apiVersion, metadata first; the revision taken out
//!        v
//! Obj::publish(value, 7)                              the same bytes as the server's own object has in process
//! ```

use catalog::{Name, Resource};
use client::Target;
use object::{Map, Obj, Revision, Status, Value};

use crate::call::JSON;

/// How much of an object is asked for.
#[derive(Clone, Copy)]
pub(crate) enum View {
    Whole,
    Metadata,
}

impl View {
    pub fn of(target: &Target<'_>) -> View {
        if target.metadata_only { View::Metadata } else { View::Whole }
    }

    /// Of a request for one object, or for events.
    pub fn accept_object(self) -> &'static str {
        match self {
            View::Whole => JSON,
            View::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        }
    }

    pub fn accept_list(self) -> &'static str {
        match self {
            View::Whole => JSON,
            View::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }

    /// A server behind the one that is asked may know no views, and send all.
    fn restrict(self, root: &mut Map) {
        if let View::Metadata = self {
            root.retain(|name, _| *name == *"metadata");
            root.set("kind", "PartialObjectMetadata");
            root.set("apiVersion", "meta.k8s.io/v1");
        }
    }
}

/// One object of an answer. Where it says no kind it is the resource's own.
pub(crate) fn object(resource: &Resource, view: View, tree: Value) -> Result<Obj, Status> {
    let storage = resource.storage.as_ref().ok_or_else(|| {
        Status::bad_request(format!(
            "{} are not stored, so an answer about one is no object; use `act`",
            resource.qualified()
        ))
    })?;
    let Value::Map(mut root) = tree else { return Err(unreadable("an object is no JSON object")) };
    view.restrict(&mut root);
    let Some(Value::Map(mut metadata)) = root.remove("metadata") else {
        return Err(unreadable("an object has no metadata"));
    };
    let revision = match metadata.remove("resourceVersion") {
        Some(Value::Str(digits)) if !digits.is_empty() => Some(parse_revision(&digits)?),
        _ => None,
    };
    let text = |metadata: &Map, name: &str| match metadata.get(name) {
        Some(Value::Str(text)) => text.clone(),
        _ => String::new(),
    };
    let (namespace, name) = (text(&metadata, "namespace"), text(&metadata, "name"));
    if namespace.contains('/') || name.contains('/') {
        return Err(unreadable("an object's name holds a slash"));
    }
    // By its own namespace: a custom resource may have got another scope since it was discovered.
    let key = match &*namespace {
        "" => format!("{}{name}", storage.prefix),
        namespace => format!("{}{namespace}/{name}", storage.prefix),
    };
    let mut out = Map::with_capacity(root.len() + 3);
    let own = |said: Option<Value>, own: &dyn Fn() -> String| match said {
        Some(Value::Str(text)) if !text.is_empty() => Value::Str(text),
        _ => Value::Str(own()),
    };
    out.push(Name::Static("kind"), own(root.remove("kind"), &|| resource.kind.to_string()));
    out.push(Name::Static("apiVersion"), own(root.remove("apiVersion"), &|| resource.api_version()));
    out.push(Name::Static("metadata"), Value::Map(metadata));
    for (name, value) in root {
        out.push(name, value);
    }
    let value = codec::json::to_vec(&Value::Map(out));
    let made = match revision {
        Some(revision) => Obj::publish(storage, &key, &value, revision, None),
        None => Obj::unpublished(storage, &key, &value),
    };
    made.map_err(|_| unreadable("an object does not look like one"))
}

/// Revisions are numbers that only grow; so are those of every server since Kubernetes 1.35.
pub(crate) fn parse_revision(digits: &str) -> Result<Revision, Status> {
    digits
        .parse()
        .map(Revision)
        .map_err(|_| unreadable(&format!("the resourceVersion {digits:?} is not a number")))
}

/// The server said yes, but not in a way that can be understood.
pub(crate) fn unreadable(why: &str) -> Status {
    Status::unknown(format!("the server's answer cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::Catalog;
    use client::Gvr;
    use client::resources::{CONFIG_MAPS, NODES, PODS};

    fn object(of: &Gvr, text: &str) -> Result<Obj, Status> {
        let catalog = Catalog::builtin();
        super::object(
            of.find(&catalog).unwrap(),
            View::Whole,
            codec::json::parse(text.as_bytes(), None).unwrap(),
        )
    }

    #[test]
    fn objects_are_read_with_members_in_any_order() {
        let text = r#"{"data":{"k":"v"},"metadata":{"resourceVersion":"7","labels":{"l":"1"},"uid":"u","namespace":"d","name":"a"}}"#;
        let obj = object(&CONFIG_MAPS, text).unwrap();
        assert_eq!((obj.namespace(), obj.name(), obj.uid(), obj.revision().0), ("d", "a", "u", 7));
        assert_eq!(obj.label("l"), Some("1"));
        let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"labels":{"l":"1"},"uid":"u","resourceVersion":"7","namespace":"d","name":"a"},"data":{"k":"v"}}"#;
        assert_eq!(std::str::from_utf8(obj.body()).unwrap(), body);
    }

    #[test]
    fn selectable_fields_are_found() {
        let text = r#"{"spec":{"nodeName":"n1"},"kind":"Pod","metadata":{"name":"p","namespace":"d"}}"#;
        let catalog = Catalog::builtin();
        let storage = catalog.find_storage("", "pods").unwrap();
        let at = storage.selectable_at("spec.nodeName").unwrap();
        assert_eq!(object(&PODS, text).unwrap().field(at), "n1");
    }

    #[test]
    fn of_a_server_that_knows_no_views_the_metadata_is_kept() {
        let catalog = Catalog::builtin();
        let text = r#"{"kind":"Pod","metadata":{"name":"p","resourceVersion":"3"},"spec":{"nodeName":"n1"}}"#;
        let tree = codec::json::parse(text.as_bytes(), None).unwrap();
        let obj = super::object(PODS.find(&catalog).unwrap(), View::Metadata, tree).unwrap();
        let kept = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"3","name":"p"}}"#;
        assert_eq!(std::str::from_utf8(obj.body()).unwrap(), kept);
    }

    #[test]
    fn invalid_objects_are_errors_not_panics() {
        for text in [
            "1",
            "{}",
            r#"{"metadata":1}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#,
            r#"{"metadata":{"name":"a","uid":1}}"#,
            r#"{"metadata":{"name":"a/b"}}"#,
        ] {
            assert!(object(&NODES, text).is_err(), "{text}");
        }
    }
}
