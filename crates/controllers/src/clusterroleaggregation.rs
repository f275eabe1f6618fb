//! Aggregated ClusterRoles: their rules are the union of the roles their selectors match.
//!
//! ```text
//! role changed ──> itself, if it is aggregated
//!              └─> those with a selector that may mean it, before or after
//! ```

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
use client::resources::CLUSTER_ROLES;
use futures_util::future::BoxFuture;
use object::selector::LabelSelector;
use object::{Obj, Value};
use runtime::{Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::Context;
use crate::claim::{place, places};
use crate::pods::mentions;

pub const NAME: &str = "clusterrole-aggregation-controller";
const WORKERS: usize = 5;
/// Aggregated roles, by a label that all they select have.
const BY_SELECTOR: &str = "aggregation rule";
/// All roles, by each of their labels.
const BY_LABEL: &str = "labels";

struct Aggregation {
    client: Arc<dyn Client>,
    roles: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let roles = context.informers.of(&CLUSTER_ROLES);
    roles.store().add_index(BY_SELECTOR, |role| selectors(role).iter().map(|s| place("", s)).collect());
    roles.store().add_index(BY_LABEL, places);
    let client = context.clients.controller(NAME);
    let aggregation = Arc::new(Aggregation { client, roles: roles.clone() });
    let asked = aggregation.clone();
    Controller::new(&context.env, NAME)
        .workers(WORKERS)
        .max_retries(None)
        .watches(&roles, move |event| asked.concerned(event))
        .start(&context.controllers, aggregation, context.stop.clone())
}

/// Of an aggregated role; one that cannot be read asks for nothing until somebody corrects it.
fn selectors(role: &Obj) -> Vec<LabelSelector> {
    // Most are not aggregated, and are not read.
    if !mentions(role.body(), "\"aggregationRule\"") {
        return Vec::new();
    }
    auth::rbac::selectors_of(&tree(role)).ok().flatten().unwrap_or_default()
}

impl Aggregation {
    /// The aggregated roles whose rules a change may change.
    fn concerned(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let role = event.obj();
        let mut places = places(role);
        if let InformerEvent::Updated { old, .. } = event {
            places.extend(crate::claim::places(old));
        }
        places.sort();
        places.dedup();
        let meaning = places.iter().flat_map(|place| self.roles.store().by_index(BY_SELECTOR, place));
        let mut keys: Vec<Key> = meaning.map(|aggregated| Key::of(&aggregated)).collect();
        keys.push(Key::of(role));
        keys.sort();
        keys.dedup();
        keys
    }

    /// The roles that these selectors mean, and some more.
    fn candidates(&self, selectors: &[LabelSelector]) -> Vec<(String, Value)> {
        let mut places: Vec<String> = selectors.iter().map(|selector| place("", selector)).collect();
        places.sort();
        places.dedup();
        let found = places.iter().flat_map(|place| self.roles.store().by_index(BY_LABEL, place));
        let mut found: Vec<Arc<Obj>> = found.collect();
        found.sort_by(|a, b| a.name().cmp(b.name()));
        found.dedup_by(|a, b| a.name() == b.name());
        found.iter().map(|role| (role.name().to_owned(), tree(role))).collect()
    }
}

impl Reconcile for Aggregation {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(role) = self.roles.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let role = tree(&role);
            let selectors = match auth::rbac::selectors_of(&role) {
                Ok(Some(selectors)) => selectors,
                Ok(None) => return Ok(Action::AwaitChange),
                Err(why) => return Err(Failure::Other(why)),
            };
            let Some(config) = plan::plan(&role, &self.candidates(&selectors), &selectors) else {
                return Ok(Action::AwaitChange);
            };
            request.plan(|| "apply the rules of the roles it selects".to_owned());
            let target = CLUSTER_ROLES.at("", request.key.name());
            self.client.apply(target, config, request.apply_options()).await?;
            Ok(Action::AwaitChange)
        })
    }
}
