//! The types with fields that expressions of policies see: the request, its namespace, the variables, and what patches are made of.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::{Error, Object, Type, TypeProvider, Val};

pub(crate) const REQUEST: &str = "kubernetes.AdmissionRequest";
pub(crate) const NAMESPACE: &str = "kubernetes.Namespace";
pub(crate) const VARIABLES: &str = "kubernetes.variables";
pub(crate) const JSON_PATCH: &str = "JSONPatch";
pub(crate) const OBJECT: &str = "Object";

/// Types of variables by name. Shared with the environment an expression is compiled in, and with nobody when one is added.
pub(crate) type VariableTypes = Arc<HashMap<Box<str>, Type>>;

/// What an environment knows.
pub(crate) struct Types {
    pub(crate) variables: VariableTypes,
    /// `Object{}` and `JSONPatch{}` can be made.
    pub(crate) has_patches: bool,
    /// Where other types are found: those of the objects, where they are known.
    pub(crate) others: Option<Arc<dyn TypeProvider>>,
}

/// Type, field, type of the field.
#[rustfmt::skip]
static FIELDS: LazyLock<Vec<(&str, &str, Type)>> = LazyLock::new(|| {
    let object = |name: &'static str| Type::object(name);
    let texts = || Type::list(Type::String);
    let labels = || Type::map(Type::String, Type::String);
    let gvk = || object("kubernetes.GroupVersionKind");
    let gvr = || object("kubernetes.GroupVersionResource");
    vec![
        ("kubernetes.GroupVersionKind", "group", Type::String),
        ("kubernetes.GroupVersionKind", "version", Type::String),
        ("kubernetes.GroupVersionKind", "kind", Type::String),
        ("kubernetes.GroupVersionResource", "group", Type::String),
        ("kubernetes.GroupVersionResource", "version", Type::String),
        ("kubernetes.GroupVersionResource", "resource", Type::String),
        ("kubernetes.UserInfo", "username", Type::String),
        ("kubernetes.UserInfo", "uid", Type::String),
        ("kubernetes.UserInfo", "groups", texts()),
        ("kubernetes.UserInfo", "extra", Type::map(Type::String, texts())),
        (REQUEST, "kind", gvk()),
        (REQUEST, "resource", gvr()),
        (REQUEST, "subResource", Type::String),
        (REQUEST, "requestKind", gvk()),
        (REQUEST, "requestResource", gvr()),
        (REQUEST, "requestSubResource", Type::String),
        (REQUEST, "name", Type::String),
        (REQUEST, "namespace", Type::String),
        (REQUEST, "operation", Type::String),
        (REQUEST, "userInfo", object("kubernetes.UserInfo")),
        (REQUEST, "dryRun", Type::Bool),
        (REQUEST, "options", Type::Dyn),
        ("kubernetes.NamespaceSpec", "finalizers", texts()),
        ("kubernetes.NamespaceCondition", "status", Type::String),
        ("kubernetes.NamespaceCondition", "type", Type::String),
        ("kubernetes.NamespaceCondition", "lastTransitionTime", Type::Timestamp),
        ("kubernetes.NamespaceCondition", "message", Type::String),
        ("kubernetes.NamespaceCondition", "reason", Type::String),
        ("kubernetes.NamespaceStatus", "conditions", Type::list(object("kubernetes.NamespaceCondition"))),
        ("kubernetes.NamespaceStatus", "phase", Type::String),
        ("kubernetes.NamespaceMetadata", "name", Type::String),
        ("kubernetes.NamespaceMetadata", "generateName", Type::String),
        ("kubernetes.NamespaceMetadata", "namespace", Type::String),
        ("kubernetes.NamespaceMetadata", "labels", labels()),
        ("kubernetes.NamespaceMetadata", "annotations", labels()),
        ("kubernetes.NamespaceMetadata", "UID", Type::String),
        ("kubernetes.NamespaceMetadata", "creationTimestamp", Type::Timestamp),
        ("kubernetes.NamespaceMetadata", "deletionGracePeriodSeconds", Type::Int),
        ("kubernetes.NamespaceMetadata", "deletionTimestamp", Type::Timestamp),
        ("kubernetes.NamespaceMetadata", "generation", Type::Int),
        ("kubernetes.NamespaceMetadata", "resourceVersion", Type::String),
        ("kubernetes.NamespaceMetadata", "finalizers", texts()),
        (NAMESPACE, "metadata", object("kubernetes.NamespaceMetadata")),
        (NAMESPACE, "spec", object("kubernetes.NamespaceSpec")),
        (NAMESPACE, "status", object("kubernetes.NamespaceStatus")),
    ]
});

/// `Object`, `Object.spec`: what an apply configuration is made of.
fn is_configuration(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl TypeProvider for Types {
    fn is_object(&self, name: &str) -> bool {
        name == VARIABLES
            || (self.has_patches && (name == JSON_PATCH || is_configuration(name)))
            || FIELDS.iter().any(|(object, ..)| *object == name)
            || self.others.as_ref().is_some_and(|others| others.is_object(name))
    }

    fn field(&self, object: &str, field: &str) -> Option<Type> {
        match object {
            VARIABLES => self.variables.get(field).cloned(),
            JSON_PATCH if self.has_patches => match field {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                // Upstream has all fields, those it does not know without a type.
                _ => Some(Type::opaque("", [])),
            },
            // Nobody knows what it is applied to.
            _ if self.has_patches && is_configuration(object) => Some(Type::Dyn),
            _ => {
                let known = FIELDS.iter().find(|(own, name, _)| *own == object && *name == field);
                match known {
                    Some((_, _, ty)) => Some(ty.clone()),
                    None => self.others.as_ref()?.field(object, field),
                }
            }
        }
    }

    fn construct<'a>(&self, object: &str, fields: Vec<(&'a str, Val<'a>)>) -> Result<Val<'a>, Error> {
        let known = match object {
            JSON_PATCH => self.has_patches,
            _ => self.has_patches && is_configuration(object),
        };
        if !known {
            return Err(Error::new(format!("unknown type '{object}'")));
        }
        if object == JSON_PATCH {
            for (name, value) in &fields {
                match *name {
                    "op" | "path" | "from" if value.as_str().is_none() => {
                        let found = native_type(value);
                        return Err(Error::new(format!(
                            "unexpected type {found} for JSONPatchType '{name}' field"
                        )));
                    }
                    "op" | "path" | "from" | "value" => {}
                    other => return Err(Error::new(format!("unexpected JSONPatchType field: {other}"))),
                }
            }
        }
        Ok(Val::Object(Arc::new(Object { name: object.into(), fields })))
    }
}

/// What Go calls the native value behind a value (`%T`).
fn native_type(value: &Val<'_>) -> &'static str {
    match value {
        Val::Null => "structpb.NullValue",
        Val::Bool(_) => "bool",
        Val::Int(_) => "int64",
        Val::Uint(_) => "uint64",
        Val::Double(_) => "float64",
        Val::Str(_) => "string",
        Val::Bytes(_) => "[]uint8",
        Val::Duration(_) => "time.Duration",
        Val::Timestamp(_) => "time.Time",
        Val::List(cel::List::View { .. }) => "[]interface {}",
        Val::List(_) => "[]ref.Val",
        Val::Map(cel::Map::Owned(_)) => "map[ref.Val]ref.Val",
        Val::Map(_) | Val::Object(_) => "map[string]interface {}",
        Val::Type(_) => "string",
        Val::Optional(_) | Val::Opaque(_) | Val::Preserved(_) => "interface {}",
    }
}
