//! What a request is to expressions: its objects in the versions that policies ask for, its namespace, itself.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use admission::{Attempt, Body};
use catalog::Resource;
use object::{About, Obj, Status, Value};

use crate::criteria::{Invocation, namespace};
use crate::request::{condition_request, expression_request};

/// The objects of a request in one version.
pub(super) struct Versioned<'a> {
    pub resource: Arc<Resource>,
    pub object: Option<Cow<'a, Value>>,
    pub old: Option<Cow<'a, Value>>,
}

impl<'a> Versioned<'a> {
    pub(super) async fn new(
        attempt: &'a Attempt<'a>,
        invocation: &Invocation,
        object: Option<&'a Value>,
    ) -> Result<Versioned<'a>, Status> {
        let resource = invocation.resource.clone();
        let as_it_is = is_at_hand(attempt, &resource);
        let convert = async |object: Option<&'a Value>| match object {
            Some(object) if as_it_is => Ok(Some(Cow::Borrowed(object))),
            Some(object) => {
                let converted = attempt.versions.to_version(attempt, &resource, object).await?;
                Ok::<_, Status>(Some(Cow::Owned(converted)))
            }
            None => Ok(None),
        };
        let (object, old) = (convert(object).await?, convert(attempt.old).await?);
        Ok(Versioned { resource, object, old })
    }
}

/// Whether admission has the objects in this version already.
fn is_at_hand(attempt: &Attempt<'_>, resource: &Resource) -> bool {
    match attempt.body {
        Body::Other { .. } => true,
        Body::Resource if resource.custom => resource.id == attempt.resource.id,
        Body::Resource => resource.is_stored_version(),
    }
}

/// The namespace of the request; none for cluster-wide resources, Namespaces among them.
pub(super) fn namespace_of(attempt: &Attempt<'_>) -> Result<Option<Arc<Obj>>, Status> {
    let name = match attempt.kind() {
        ("", "v1", "Namespace") => "",
        _ => namespace(attempt),
    };
    if name.is_empty() {
        return Ok(None);
    }
    let about = About { group: "", resource: "namespaces" };
    attempt.find("", "namespaces", "", name).map(Some).ok_or_else(|| Status::not_found(about, name))
}

/// A tree that is made when it is first read.
pub(super) type Lazy<'a> = LazyLock<Value, Box<dyn FnOnce() -> Value + Send + 'a>>;

pub(super) fn lazy_namespace<'a>(attempt: &'a Attempt<'a>, namespace: &'a Obj) -> Lazy<'a> {
    LazyLock::new(Box::new(|| admission_policy::namespace_object(&attempt.tree(namespace))))
}

/// `request`, of an invocation.
pub(super) fn lazy_request<'a>(attempt: &'a Attempt<'a>, invocation: &'a Invocation) -> Lazy<'a> {
    LazyLock::new(Box::new(|| expression_request(attempt, invocation)))
}

/// `request` of match conditions.
pub(super) fn lazy_condition_request<'a>(attempt: &'a Attempt<'a>, invocation: &'a Invocation) -> Lazy<'a> {
    LazyLock::new(Box::new(|| condition_request(attempt, invocation)))
}
