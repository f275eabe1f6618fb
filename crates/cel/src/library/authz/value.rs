//! What is asked of an authorizer, and the values that lead there.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use object::selector::{FieldSelector, LabelSelector};

use crate::error::Error;
use crate::types::Type;
use crate::value::{Opaque, Val};

/// Decides. The embedding program implements it, for the user an expression is evaluated for.
pub trait Authorizer: Send + Sync {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;
}

/// A check an expression makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub subject: Subject<'a>,
    pub verb: &'a str,
    pub target: Target<'a>,
}

/// Who wants to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The user the authorizer stands for.
    User,
    /// In the groups `system:serviceaccounts` and `system:serviceaccounts:<namespace>`, and no others.
    ServiceAccount { namespace: &'a str, name: &'a str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Path(&'a str),
    Resource(ResourceAttributes<'a>),
}

/// In any version of the group. What has not been named is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// `None`: there is none. One that cannot be parsed selects nothing less than all, and comes with the error.
    pub field_selector: Option<Result<FieldSelector, String>>,
    pub label_selector: Option<Result<LabelSelector, String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    /// May come with any decision.
    pub error: Option<String>,
}

/// The resource of the request under admission.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestResource<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// The value of the variable `authorizer`.
pub fn authorizer<'a>(authorizer: Arc<dyn Authorizer>) -> Val<'a> {
    Val::opaque(AuthorizerValue { authorizer, service_account: None })
}

/// The value of `authorizer.requestResource`.
pub fn request_resource<'a>(authorizer: Arc<dyn Authorizer>, request: RequestResource<'_>) -> Val<'a> {
    let authorizer = AuthorizerValue { authorizer, service_account: None };
    let group = GroupCheck { authorizer, group: request.group.to_owned() };
    Val::opaque(ResourceCheck {
        subresource: request.subresource.to_owned(),
        namespace: request.namespace.to_owned(),
        name: request.name.to_owned(),
        ..ResourceCheck::new(group, request.resource.to_owned())
    })
}

#[derive(Clone)]
pub(super) struct AuthorizerValue {
    authorizer: Arc<dyn Authorizer>,
    /// Namespace and name, if it is not the user who is asked about.
    service_account: Option<(String, String)>,
}

impl AuthorizerValue {
    pub fn of_service_account(&self, namespace: &str, name: &str) -> AuthorizerValue {
        let service_account = Some((namespace.to_owned(), name.to_owned()));
        AuthorizerValue { authorizer: self.authorizer.clone(), service_account }
    }

    fn decide(&self, verb: &str, target: Target<'_>) -> DecisionValue {
        let subject = match &self.service_account {
            Some((namespace, name)) => Subject::ServiceAccount { namespace, name },
            None => Subject::User,
        };
        DecisionValue(self.authorizer.authorize(&Attributes { subject, verb, target }))
    }
}

impl fmt::Debug for AuthorizerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("service_account", &self.service_account).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct PathCheck {
    pub authorizer: AuthorizerValue,
    pub path: String,
}

impl PathCheck {
    pub fn decide(&self, verb: &str) -> DecisionValue {
        self.authorizer.decide(verb, Target::Path(&self.path))
    }
}

#[derive(Clone, Debug)]
pub(super) struct GroupCheck {
    pub authorizer: AuthorizerValue,
    pub group: String,
}

#[derive(Clone, Debug)]
pub(super) struct ResourceCheck {
    pub group: GroupCheck,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

impl ResourceCheck {
    pub fn new(group: GroupCheck, resource: String) -> ResourceCheck {
        ResourceCheck {
            group,
            resource,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            field_selector: String::new(),
            label_selector: String::new(),
        }
    }

    pub fn decide(&self, verb: &str) -> DecisionValue {
        let given = |selector| Some(selector).filter(|selector: &&str| !selector.is_empty());
        let target = Target::Resource(ResourceAttributes {
            group: &self.group.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            field_selector: given(&self.field_selector).map(FieldSelector::parse),
            label_selector: given(&self.label_selector).map(LabelSelector::parse),
        });
        self.group.authorizer.decide(verb, target)
    }
}

#[derive(Debug)]
pub(super) struct DecisionValue(pub Decision);

/// Values that have no members and equal nothing, not even themselves.
macro_rules! receiver_only {
    ($($value:ty: $ty:expr, $text:literal;)*) => {$(
        impl Opaque for $value {
            fn ty(&self) -> Type {
                $ty
            }
            fn equal(&self, _: &Val<'_>) -> Result<bool, Error> {
                Err(Error::no_such_overload())
            }
            fn text(&self) -> String {
                String::from($text)
            }
            fn as_any(&self) -> &dyn Any {
                self
            }
        }
    )*};
}

receiver_only! {
    AuthorizerValue: super::authorizer_type(), "authorizer";
    PathCheck: super::path_check_type(), "path check";
    GroupCheck: super::group_check_type(), "group check";
    ResourceCheck: super::resource_check_type(), "resource check";
    DecisionValue: super::decision_type(), "decision";
}
