//! Which fields a configuration may have: those that are unknown, or of another type, are errors.

use object::Value;

pub enum Shape {
    Text,
    /// Judged by whoever reads it.
    Any,
    List(&'static Shape),
    Fields(&'static [(&'static str, Shape)]),
}

const TEXTS: Shape = Shape::List(&Shape::Text);

pub const ADMISSION: Shape = Shape::Fields(&[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    (
        "plugins",
        Shape::List(&Shape::Fields(&[
            ("name", Shape::Text),
            ("path", Shape::Text),
            ("configuration", Shape::Any),
        ])),
    ),
]);

pub const POD_SECURITY: Shape = Shape::Fields(&[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    (
        "defaults",
        Shape::Fields(&[
            ("enforce", Shape::Text),
            ("enforce-version", Shape::Text),
            ("audit", Shape::Text),
            ("audit-version", Shape::Text),
            ("warn", Shape::Text),
            ("warn-version", Shape::Text),
        ]),
    ),
    ("exemptions", Shape::Fields(&[("usernames", TEXTS), ("namespaces", TEXTS), ("runtimeClasses", TEXTS)])),
]);

pub const QUOTA: Shape = Shape::Fields(&[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    (
        "limitedResources",
        Shape::List(&Shape::Fields(&[
            ("apiGroup", Shape::Text),
            ("resource", Shape::Text),
            ("matchContains", TEXTS),
            (
                "matchScopes",
                Shape::List(&Shape::Fields(&[
                    ("scopeName", Shape::Text),
                    ("operator", Shape::Text),
                    ("values", TEXTS),
                ])),
            ),
        ])),
    ),
]);

pub const WEBHOOKS: Shape = Shape::Fields(&[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    ("kubeConfigFile", Shape::Text),
    ("staticManifestsDir", Shape::Text),
]);

pub const POLICIES: Shape =
    Shape::Fields(&[("apiVersion", Shape::Text), ("kind", Shape::Text), ("staticManifestsDir", Shape::Text)]);

impl Shape {
    /// Adds what is wrong with `value`, which stands at `path`.
    pub fn check(&self, value: &Value, path: &str, problems: &mut Vec<String>) {
        let mut expected = |what: &str| problems.push(format!("field \"{path}\" must be {what}"));
        match (self, value) {
            (_, Value::Null) | (Shape::Any, _) | (Shape::Text, Value::Str(_)) => {}
            (Shape::Text, _) => expected("a string"),
            (Shape::List(of), value) => match value.as_list() {
                Some(list) => {
                    for (at, item) in list.iter().enumerate() {
                        of.check(item, &format!("{path}[{at}]"), problems);
                    }
                }
                None => expected("a list"),
            },
            (Shape::Fields(fields), value) => {
                let Some(map) = value.as_map() else { return expected("an object") };
                for (name, value) in map.iter() {
                    let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
                    match fields.iter().find(|(known, _)| *known == &**name) {
                        Some((_, shape)) => shape.check(value, &path, problems),
                        None => problems.push(format!("unknown field \"{path}\"")),
                    }
                }
            }
        }
    }
}
