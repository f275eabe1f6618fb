//! One request, from the socket or a controller in this process to the commit: found once, and borrowed by all who handle it.

use std::borrow::Cow;
use std::sync::Arc;

use auth::{Attributes, UserInfo};
use catalog::{Catalog, Resource, Storage, Verbs};
use object::{About, Status, WriteOptions};
use store::BoxFuture;
use tokio::time::Instant;

use crate::Trace;

/// A field manager is at most this long, as upstream's.
const FIELD_MANAGER_CHARS: usize = 128;

/// What a request occupies among those this server works on.
pub trait Seats: Sync {
    /// Somebody else decides how long it takes from here: it must not keep others from being served.
    fn give_back(&self);

    /// Holds them until the request ends, and takes them again if they were given back: too many others wait without any. Fails if
    /// there are none.
    fn keep(&self) -> BoxFuture<'_, Result<(), Status>>;
}

/// Who wants what, how, and until when.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    pub user: &'a UserInfo,
    /// Empty for controllers in this process: they name their field manager.
    pub user_agent: &'a str,
    pub verb: Verbs,
    /// What was defined when the request came: the same for all of it.
    pub catalog: &'a Arc<Catalog>,
    pub resource: &'a Arc<Resource>,
    pub subresource: Option<&'a str>,
    /// Empty for cluster-scoped resources, and for lists over all namespaces.
    pub namespace: &'a str,
    /// The name in the path: empty for lists and for a POST, also of a named object.
    pub name: &'a str,
    /// Of a create, update or patch; the defaults otherwise.
    pub options: WriteOptions<'a>,
    /// When it is given up: a write that loses to others is not tried again after this.
    pub deadline: Instant,
    /// Writes of a leader count only as long as it leads.
    pub fence: Option<&'a LeaderFence>,
    /// Where admission notes who took part; without one nothing is noted.
    pub trace: Option<&'a Trace>,
    /// Given back when somebody outside is asked.
    pub seats: Option<&'a dyn Seats>,
}

/// The lease that a leader's writes are guarded by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderFence {
    pub namespace: String,
    pub lease: String,
    /// The identity on the lease.
    pub holder: String,
}

impl<'a> RequestContext<'a> {
    /// About all objects of a resource everywhere, with the defaults of everything else.
    pub fn new(
        user: &'a UserInfo,
        catalog: &'a Arc<Catalog>,
        resource: &'a Arc<Resource>,
        verb: Verbs,
        deadline: Instant,
    ) -> RequestContext<'a> {
        RequestContext {
            user,
            user_agent: "",
            verb,
            catalog,
            resource,
            subresource: None,
            namespace: "",
            name: "",
            options: WriteOptions::default(),
            deadline,
            fence: None,
            trace: None,
            seats: None,
        }
    }

    /// How messages name what it is about.
    pub fn about(&self) -> About<'a> {
        About { group: &self.resource.group, resource: &self.resource.plural }
    }

    /// The storage behind the resource; those that are only answered have none.
    pub fn storage(&self) -> Result<&'a Storage, Status> {
        self.resource.storage.as_deref().ok_or_else(Status::method_not_allowed)
    }

    /// What the authorizer is asked about a verb on what this is about.
    pub fn attributes(&self, verb: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes {
            verb,
            group: &self.resource.group,
            resource: &self.resource.plural,
            subresource: self.subresource.unwrap_or_default(),
            name,
            namespace: self.namespace,
            path: None,
            field_selector: "",
        }
    }

    /// Who owns the fields it sets: whom it names, or the program behind the user agent (`kubectl` of `kubectl/v1.36 (linux)`).
    pub fn field_manager(&self) -> Cow<'a, str> {
        match self.options.field_manager {
            "" => {
                let program = self.user_agent.split('/').next().unwrap_or("");
                let printable = program.chars().filter(|c| !c.is_control());
                let known: String = printable.take(FIELD_MANAGER_CHARS).collect();
                Cow::Owned(if known.is_empty() { "unknown".to_owned() } else { known })
            }
            named => Cow::Borrowed(named),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_manager_is_named_or_from_the_user_agent() {
        let catalog = Arc::new(Catalog::builtin());
        let (user, deadline) = (UserInfo::anonymous(), env::Env::machine().monotonic());
        let pods = catalog.find("", "v1", "pods").unwrap();
        let long = "x".repeat(200);
        let cases = [
            ("kubectl-edit", "kubectl/v1.36.4 (linux/amd64)", "kubectl-edit"),
            ("", "kubectl/v1.36.4 (linux/amd64)", "kubectl"),
            ("", "curl", "curl"),
            ("", "", "unknown"),
            ("", "/odd", "unknown"),
            ("", &long, &long[..FIELD_MANAGER_CHARS]),
        ];
        for (field_manager, user_agent, expected) in cases {
            let request = RequestContext {
                user_agent,
                options: WriteOptions { field_manager, ..WriteOptions::default() },
                ..RequestContext::new(&user, &catalog, pods, Verbs::CREATE, deadline)
            };
            assert_eq!(request.field_manager(), expected, "{user_agent:?}");
        }
    }
}
