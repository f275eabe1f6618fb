//! Status of ValidatingAdmissionPolicies: warnings about expressions that do not fit the types of what they are about.
//!
//! ```text
//! policy changed ──> its generation not observed yet? ──> types of its rules' resources ──> check ──> apply the status
//! ```

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use admission_policy::{GroupVersionKind, Kinds, ObjectType};
use catalog::{Catalog, Resource};
use client::Client;
use client::resources::VALIDATING_ADMISSION_POLICIES;
use futures_util::future::BoxFuture;
use runtime::{Action, Controller, Failure, Informer, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::Context;

pub const NAME: &str = "validatingadmissionpolicy-status-controller";
/// Who manages the status, as upstream has it.
const FIELD_MANAGER: &str = "validatingadmissionpolicy-status";
const WORKERS: usize = 5;

struct PolicyStatus {
    client: Arc<dyn Client>,
    policies: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let policies = context.informers.of(&VALIDATING_ADMISSION_POLICIES);
    let client = context.clients.controller(NAME);
    let status = Arc::new(PolicyStatus { client, policies: policies.clone() });
    Controller::new(&context.env, NAME)
        .workers(WORKERS)
        .max_retries(None)
        .watches(&policies, |event| vec![Key::of(event.obj())])
        .start(&context.controllers, status, context.stop.clone())
}

impl Reconcile for PolicyStatus {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(policy) = self.policies.store().get_key(request.key) else {
                return Ok(Action::AwaitChange);
            };
            let policy = tree(&policy);
            if !plan::is_due(&policy) {
                return Ok(Action::AwaitChange);
            }
            let config = plan::plan(&policy, &Served(self.client.discover().await?));
            request.plan(|| "apply what the types say of its expressions".to_owned());
            let target = VALIDATING_ADMISSION_POLICIES.at("", request.key.name()).sub("status");
            let options = client::WriteOptions { field_manager: FIELD_MANAGER, ..request.apply_options() };
            self.client.apply(target, config, options).await?;
            Ok(Action::AwaitChange)
        })
    }
}

/// The resources the server serves.
struct Served(Arc<Catalog>);

impl Served {
    fn kind(resource: &Resource) -> GroupVersionKind {
        GroupVersionKind {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            kind: resource.kind.to_string(),
        }
    }
}

impl Kinds for Served {
    fn kinds_for(&self, group: &str, version: &str, resource: &str) -> Vec<GroupVersionKind> {
        let same = |found: &&Arc<Resource>| {
            (group.is_empty() || found.group == *group)
                && found.version == *version
                && found.plural == *resource
        };
        self.0.resources().iter().filter(same).map(|found| Served::kind(found)).collect()
    }

    fn object_type(&self, kind: &GroupVersionKind) -> Option<ObjectType> {
        let resource = self.0.find_kind(&kind.group, &kind.version, &kind.kind)?;
        let schema =
            resource.storage.as_ref().and_then(|storage| kinds::kind_of(storage).structural(&kind.version));
        match schema {
            Some(schema) => Some(ObjectType::Custom(Arc::clone(schema), resource.types.clone())),
            // Over HTTP nothing more is known of custom resources than discovery says.
            None if resource.custom => None,
            None => Some(ObjectType::BuiltIn(resource.types.clone(), resource.ty)),
        }
    }
}
