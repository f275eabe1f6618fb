//! `status.typeChecking` of ValidatingAdmissionPolicies: expressions checked against the types of what a policy is about.
//!
//! Nothing depends on it: expressions are evaluated whatever it says.

mod built_in;

use std::sync::Arc;

use catalog::{Name, TypeId, Types as CatalogTypes};
use cel::library::authz;
use cel::{Type, TypeProvider};
use object::Value;
use structural::Structural;

use crate::expression::declared;
use crate::types::{NAMESPACE, REQUEST, Types, VARIABLES, VariableTypes};

/// So many types of one rule are looked at.
const MAX_TYPES: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// The type of a kind's objects.
#[derive(Clone)]
pub enum ObjectType {
    BuiltIn(CatalogTypes, TypeId),
    /// Of a custom resource; the types have `meta.v1.ObjectMeta`.
    Custom(Arc<Structural>, CatalogTypes),
}

/// What is known of resources.
pub trait Kinds {
    /// The kinds of a resource. Without a group those of all groups, as a RESTMapper finds them.
    fn kinds_for(&self, group: &str, version: &str, resource: &str) -> Vec<GroupVersionKind>;
    fn object_type(&self, kind: &GroupVersionKind) -> Option<ObjectType>;
}

/// A warning about an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    pub field_ref: String,
    pub warning: String,
}

/// The warnings about the expressions of a policy's `spec`.
pub fn type_check(spec: &Value, kinds: &dyn Kinds) -> Vec<ExpressionWarning> {
    let params = params_kind(spec);
    let params_type = params.as_ref().and_then(|kind| kinds.object_type(kind));
    let checks: Vec<Check> = kinds_to_check(spec, kinds)
        .into_iter()
        .filter_map(|kind| {
            let object = kinds.object_type(&kind)?;
            Some(Check::new(kind, &object, params.as_ref(), params_type.as_ref(), spec))
        })
        .collect();
    let mut warnings = Vec::new();
    let validations = spec.get("validations").and_then(Value::as_list).unwrap_or_default();
    for (i, validation) in validations.iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let text = validation.str_at(&[field]).unwrap_or_default();
            if text.is_empty() && field == "messageExpression" {
                continue;
            }
            let found: Vec<String> = checks.iter().filter_map(|check| check.warning(text)).collect();
            if !found.is_empty() {
                let field_ref = format!("spec.validations[{i}].{field}");
                warnings.push(ExpressionWarning { field_ref, warning: found.join("\n") });
            }
        }
    }
    warnings
}

/// The environment of one kind.
struct Check {
    kind: GroupVersionKind,
    environment: cel::Environment,
}

impl Check {
    fn new(
        kind: GroupVersionKind,
        object: &ObjectType,
        params_kind: Option<&GroupVersionKind>,
        params: Option<&ObjectType>,
        spec: &Value,
    ) -> Check {
        let own = provider(object, &kind.kind);
        let mut names = vec![
            (Name::from("object"), Type::object(kind.kind.clone())),
            (Name::from("oldObject"), Type::object(kind.kind.clone())),
            (Name::from("namespaceObject"), Type::object(NAMESPACE)),
            (Name::from("request"), Type::object(REQUEST)),
            (Name::from("authorizer"), authz::authorizer_type()),
            (Name::from("variables"), Type::object(VARIABLES)),
        ];
        let mut others = vec![own];
        if let Some(params_kind) = params_kind {
            // The parameters' kind may be the object's.
            let name = format!("{}Params", params_kind.kind);
            let ty = match params {
                Some(params) => {
                    others.push(provider(params, &name));
                    Type::object(name)
                }
                None => Type::Dyn,
            };
            names.push((Name::from("params"), ty));
        }
        let others: Arc<dyn TypeProvider> = Arc::new(Several(others));
        let base = &cel_schema::environments().stored_expressions;
        let environment = |variables: VariableTypes| {
            let types = Types { variables, has_patches: false, others: Some(Arc::clone(&others)) };
            base.extend(names.clone(), Some(Arc::new(types)))
        };
        let mut variables = VariableTypes::default();
        for variable in spec.get("variables").and_then(Value::as_list).unwrap_or_default() {
            let text = variable.str_at(&["expression"]).unwrap_or_default();
            let ty = match environment(Arc::clone(&variables)).compile(text) {
                Ok(checked) => declared(checked.output_type()),
                Err(_) => Type::Dyn,
            };
            let name = variable.str_at(&["name"]).unwrap_or_default();
            Arc::make_mut(&mut variables).insert(name.into(), ty);
        }
        Check { environment: environment(variables), kind }
    }

    fn warning(&self, text: &str) -> Option<String> {
        let issues = self.environment.compile(text).err()?;
        let GroupVersionKind { group, version, kind } = &self.kind;
        Some(format!("{group}/{version}, Kind={kind}: {issues}\n"))
    }
}

fn provider(object: &ObjectType, name: &str) -> Arc<dyn TypeProvider> {
    match object {
        ObjectType::BuiltIn(types, ty) => Arc::new(built_in::BuiltIn::new(types, *ty, name)),
        ObjectType::Custom(schema, types) => {
            let metadata = types.find("meta.v1.ObjectMeta").map(|ty| {
                let name = format!("{name}.metadata");
                Arc::new(built_in::BuiltIn::new(types, ty, &name)) as Arc<dyn TypeProvider>
            });
            let own = cel_schema::object_types(schema, name);
            Arc::new(Several(metadata.into_iter().chain([own]).collect()))
        }
    }
}

/// The first that knows a type has its fields.
struct Several(Vec<Arc<dyn TypeProvider>>);

impl TypeProvider for Several {
    fn is_object(&self, name: &str) -> bool {
        self.0.iter().any(|types| types.is_object(name))
    }
    fn field(&self, object: &str, field: &str) -> Option<Type> {
        self.0.iter().find(|types| types.is_object(object))?.field(object, field)
    }
}

fn params_kind(spec: &Value) -> Option<GroupVersionKind> {
    let kind = spec.get("paramKind").filter(|kind| !kind.is_null())?;
    let api_version = kind.str_at(&["apiVersion"]).unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let name = kind.str_at(&["kind"]).unwrap_or_default();
    Some(GroupVersionKind { group: group.to_owned(), version: version.to_owned(), kind: name.to_owned() })
}

/// The kinds that the rules name, sorted. Rules with wildcards name none.
fn kinds_to_check(spec: &Value, kinds: &dyn Kinds) -> Vec<GroupVersionKind> {
    let rules = spec.get("matchConstraints").and_then(|matched| matched.get("resourceRules"));
    let mut found: Vec<GroupVersionKind> = Vec::new();
    for rule in rules.and_then(Value::as_list).unwrap_or_default() {
        let mut count = 0;
        for (group, version, resource) in named(rule) {
            for kind in kinds.kinds_for(group, version, resource) {
                found.push(kind);
                count += 1;
                if count == MAX_TYPES {
                    break;
                }
            }
            if count == MAX_TYPES {
                break;
            }
        }
        // As upstream, further rules are not looked at.
        if count == MAX_TYPES {
            break;
        }
    }
    found.sort();
    found.dedup();
    found
}

/// All combinations of what a rule names.
fn named(rule: &Value) -> Vec<(&str, &str, &str)> {
    let texts = |name: &str| -> Vec<&str> {
        let list = rule.get(name).and_then(Value::as_list).unwrap_or_default();
        let mut texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        texts.sort_unstable();
        texts
    };
    let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
    if groups.iter().chain(&versions).any(|text| text.contains('*')) {
        return Vec::new();
    }
    let resources: Vec<&str> = texts("resources").into_iter().filter(|r| !r.contains(['*', '/'])).collect();
    let mut out = Vec::new();
    for group in &groups {
        for version in &versions {
            out.extend(resources.iter().map(|resource| (*group, *version, *resource)));
        }
    }
    out
}

#[cfg(test)]
mod tests;
