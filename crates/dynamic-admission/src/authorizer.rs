//! What expressions know as `authorizer`: the server's own authorizer, asked for the user of the request.

use std::sync::Arc;

use admission::{Attempt, Authorize};
use admission_policy::Authorization;
use auth::{UserInfo, groups, names};
use cel::library::authz::{
    Attributes, Authorizer, Decision, RequestResource, ResourceAttributes, Subject, Target,
};

use crate::criteria::namespace;

/// Of one request.
pub struct RequestAuthorizer<'a> {
    pub attempt: &'a Attempt<'a>,
    pub authorize: &'a Authorize,
}

impl Authorization for RequestAuthorizer<'_> {
    fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::new(UserAuthorizer { user: self.attempt.user.clone(), authorize: self.authorize.clone() })
    }

    fn request_resource(&self) -> RequestResource<'_> {
        RequestResource {
            group: &self.attempt.resource.group,
            resource: &self.attempt.resource.plural,
            subresource: self.attempt.subresource.unwrap_or_default(),
            namespace: namespace(self.attempt),
            name: self.attempt.name,
        }
    }
}

struct UserAuthorizer {
    user: UserInfo,
    authorize: Authorize,
}

impl Authorizer for UserAuthorizer {
    fn authorize(&self, asked: &Attributes<'_>) -> Decision {
        let user = match asked.subject {
            Subject::User => self.user.clone(),
            Subject::ServiceAccount { namespace, name } => {
                let own = format!("{}{namespace}", groups::SERVICE_ACCOUNTS_PREFIX);
                let name = format!("{}{namespace}:{name}", names::SERVICE_ACCOUNT_PREFIX);
                UserInfo::new(name, &[groups::SERVICE_ACCOUNTS, &own])
            }
        };
        let selected: String;
        let mut wanted = auth::Attributes { verb: asked.verb, ..auth::Attributes::default() };
        match &asked.target {
            Target::Path(path) => wanted.path = Some(path),
            Target::Resource(ResourceAttributes {
                group,
                resource,
                subresource,
                namespace,
                name,
                field_selector,
                // None of our authorizers looks at it.
                label_selector: _,
            }) => {
                (wanted.group, wanted.resource, wanted.subresource) = (group, resource, subresource);
                (wanted.namespace, wanted.name) = (namespace, name);
                // One that cannot be read narrows nothing.
                if let Some(Ok(selector)) = field_selector {
                    selected = selector.to_string();
                    wanted.field_selector = &selected;
                }
            }
        }
        let decision = (self.authorize)(&user, &wanted);
        Decision { allowed: decision.allowed, reason: decision.reason, error: None }
    }
}
