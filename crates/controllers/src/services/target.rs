//! The object behind an endpoint: `targetRef`, as Endpoints and EndpointSlices carry it.

use object::{Map, Value};

#[derive(Clone, Debug, Default, Eq)]
pub struct Target {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub field_path: String,
    pub resource_version: String,
}

/// Which version of the object was meant does not make it another one: pods change all the time.
impl PartialEq for Target {
    fn eq(&self, other: &Target) -> bool {
        self.texts()[1..] == other.texts()[1..]
    }
}

impl Target {
    pub fn pod(namespace: &str, name: &str, uid: &str) -> Target {
        Target {
            kind: "Pod".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..Target::default()
        }
    }

    pub fn read(target: &Value) -> Target {
        let text = |name: &str| target.str_at(&[name]).unwrap_or("").to_owned();
        Target {
            api_version: text("apiVersion"),
            kind: text("kind"),
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            field_path: text("fieldPath"),
            resource_version: text("resourceVersion"),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut target = Map::default();
        for (name, text) in self.texts().into_iter().filter(|(_, text)| !text.is_empty()) {
            target.set(name, text.clone());
        }
        Value::Map(target)
    }

    /// The version first.
    fn texts(&self) -> [(&'static str, &String); 7] {
        [
            ("resourceVersion", &self.resource_version),
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiVersion", &self.api_version),
            ("fieldPath", &self.field_path),
        ]
    }
}
