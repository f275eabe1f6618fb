//! The authorizer of the cases: its first rule that fits decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cel::Val;
use cel::library::authz::{self, Attributes, Authorizer, Decision, RequestResource, Subject, Target};
use object::selector::{FieldSelector, LabelSelector};
use serde_json::{Map, Value as Json, json};

#[derive(Default)]
pub struct Rules {
    case: Json,
    /// What was asked, in order.
    checks: Mutex<Vec<Json>>,
}

impl Rules {
    pub fn of(case: &Json) -> Arc<Rules> {
        Arc::new(Rules { case: case["authz"].clone(), checks: Mutex::default() })
    }

    /// `authorizer`, and with a resource of a request `authorizer.requestResource`.
    pub fn variables(self: &Arc<Self>) -> Vec<(&'static str, cel::Type, Val<'static>)> {
        let mut variables = Vec::new();
        if self.case.is_null() {
            return variables;
        }
        variables.push(("authorizer", authz::authorizer_type(), authz::authorizer(self.clone())));
        let request = &self.case["requestResource"];
        if !request.is_null() {
            let text = |key: &str| request[key].as_str().unwrap_or_default();
            let resource = RequestResource {
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
            };
            let value = authz::request_resource(self.clone(), resource);
            variables.push(("authorizer.requestResource", authz::resource_check_type(), value));
        }
        variables
    }

    pub fn checks(&self) -> Vec<Json> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The user's name and groups.
    fn user(&self, subject: Subject<'_>) -> (String, Json) {
        match subject {
            Subject::User => {
                let user = &self.case["user"];
                (user["name"].as_str().unwrap_or_default().to_owned(), user["groups"].clone())
            }
            Subject::ServiceAccount { namespace, name } => (
                format!("system:serviceaccount:{namespace}:{name}"),
                json!(["system:serviceaccounts", format!("system:serviceaccounts:{namespace}")]),
            ),
        }
    }
}

impl Authorizer for Rules {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let (user, groups) = self.user(attributes.subject);
        let mut fields = BTreeMap::from([("user", user), ("verb", attributes.verb.to_owned())]);
        let mut check = Map::new();
        check.insert("groups".into(), groups);
        let mut note = |name: &'static str, selector: Option<Result<Vec<Json>, String>>| match selector {
            Some(Err(error)) => {
                check.insert(format!("{name}Error"), error.into());
                None
            }
            Some(Ok(requirements)) if !requirements.is_empty() => {
                check.insert(name.to_owned(), requirements.clone().into());
                Some((name, Json::from(requirements).to_string()))
            }
            _ => None,
        };
        let mut selectors = Vec::new();
        match &attributes.target {
            Target::Path(path) => {
                fields.insert("path", (*path).to_owned());
            }
            Target::Resource(resource) => {
                let names = ["group", "version", "resource", "subresource", "namespace", "name"];
                let values = [
                    resource.group,
                    "*",
                    resource.resource,
                    resource.subresource,
                    resource.namespace,
                    resource.name,
                ];
                fields.extend(names.into_iter().zip(values.map(str::to_owned)));
                let by_field =
                    resource.field_selector.clone().map(|selector| selector.map(field_requirements));
                let by_label =
                    resource.label_selector.clone().map(|selector| selector.map(label_requirements));
                selectors.extend(note("fieldSelector", by_field));
                selectors.extend(note("labelSelector", by_label));
            }
        }
        for (name, value) in &fields {
            if !value.is_empty() || *name == "group" {
                check.insert((*name).to_owned(), value.clone().into());
            }
        }
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).push(check.into());
        fields.extend(selectors);
        let fits = |rule: &&Json| {
            let wanted = rule["match"].as_object().into_iter().flatten();
            wanted
                .into_iter()
                .all(|(name, value)| fields.get(name.as_str()).map(String::as_str) == value.as_str())
        };
        let Some(rule) = self.case["rules"].as_array().and_then(|rules| rules.iter().find(fits)) else {
            return Decision::default();
        };
        Decision {
            allowed: rule["decision"] == "allow",
            reason: rule["reason"].as_str().unwrap_or_default().to_owned(),
            error: rule["error"].as_str().filter(|error| !error.is_empty()).map(str::to_owned),
        }
    }
}

fn field_requirements(selector: FieldSelector) -> Vec<Json> {
    let one =
        |r: &object::selector::FieldRequirement| json!([r.field, if r.equal { "=" } else { "!=" }, r.value]);
    selector.requirements().iter().map(one).collect()
}

/// The text is split at the commas that are not within parentheses.
fn label_requirements(selector: LabelSelector) -> Vec<Json> {
    let mut depth = 0;
    let text = selector.to_string();
    let split = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    text.split(split).filter(|part| !part.is_empty()).map(Json::from).collect()
}
