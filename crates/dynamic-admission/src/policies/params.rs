//! Parameters of policies: objects that a binding names or selects.

use std::sync::Arc;

use admission::Attempt;
use catalog::Resource;
use object::selector::LabelSelector;
use object::{Obj, Value};

use crate::criteria::namespace;

/// `paramKind` of a policy.
pub(super) struct ParamKind {
    group: String,
    version: String,
    kind: String,
}

/// `paramRef` of a binding.
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<LabelSelector, String>>,
    /// `parameterNotFoundAction: Deny`.
    denies_missing: bool,
}

impl ParamKind {
    pub(super) fn from_value(kind: Option<&Value>) -> Option<ParamKind> {
        let kind = kind.filter(|kind| !kind.is_null())?;
        let api_version = kind.str_at(&["apiVersion"]).unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = kind.str_at(&["kind"]).unwrap_or_default();
        Some(ParamKind { group: group.to_owned(), version: version.to_owned(), kind: name.to_owned() })
    }

    /// The resource of the kind. Without one the whole policy cannot be evaluated.
    pub(super) fn resource<'a>(&self, attempt: &Attempt<'a>) -> Result<&'a Arc<Resource>, String> {
        let ParamKind { group, version, kind } = self;
        let found = attempt.request.catalog.find_kind(group, version, kind);
        let stored = found.filter(|resource| resource.storage.is_some());
        stored.ok_or_else(|| {
            format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
        })
    }
}

impl ParamRef {
    pub(super) fn from_value(reference: &Value) -> ParamRef {
        let text = |name: &str| reference.str_at(&[name]).unwrap_or_default().to_owned();
        let selector = reference.get("selector").filter(|selector| !selector.is_null());
        ParamRef {
            name: text("name"),
            namespace: text("namespace"),
            selector: selector.map(LabelSelector::from_label_selector),
            denies_missing: text("parameterNotFoundAction") == "Deny",
        }
    }

    /// The objects, of which there may be none.
    pub(super) fn find(&self, attempt: &Attempt<'_>, resource: &Resource) -> Result<Vec<Arc<Obj>>, String> {
        let at = match (resource.namespaced, &*self.namespace) {
            (false, "") => "",
            (false, _) => {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()
                );
            }
            (true, "") if namespace(attempt).is_empty() => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                        .to_owned(),
                );
            }
            (true, "") => namespace(attempt),
            (true, named) => named,
        };
        let Some(storage) = resource.storage.as_deref() else { return Ok(Vec::new()) };
        let (group, plural) = (&*storage.group, &*storage.plural);
        let found: Vec<Arc<Obj>> = match (&*self.name, &self.selector) {
            ("", None) => return Err("one of name or selector must be provided".to_owned()),
            ("", Some(selector)) => {
                let selector = selector.as_ref().map_err(Clone::clone)?;
                let mut all = attempt.all(group, plural, at).map_err(|status| status.message)?;
                all.retain(|obj| selector.matches(&|label| obj.label(label)));
                all
            }
            (name, None) => attempt.find(group, plural, at, name).into_iter().collect(),
            (_, Some(_)) => {
                return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned());
            }
        };
        if found.is_empty() && self.denies_missing {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(found)
    }
}

/// A parameter in the version of the policy's `paramKind`.
pub(super) async fn tree(
    attempt: &Attempt<'_>,
    resource: &Arc<Resource>,
    obj: &Obj,
) -> Result<Value, String> {
    let stored = attempt.tree(obj);
    if resource.is_stored_version() {
        return Ok(stored);
    }
    let Some(storage) = &resource.storage else { return Ok(stored) };
    // What is converted is of the parameter's resource, as it is stored, not of the request's.
    let own = Arc::new(storage.as_resource());
    let request = admission::RequestContext { resource: &own, subresource: None, ..*attempt.request };
    let own = Attempt { request: &request, storage, body: admission::Body::Resource, ..*attempt };
    attempt.versions.to_version(&own, resource, &stored).await.map_err(|status| status.message)
}
