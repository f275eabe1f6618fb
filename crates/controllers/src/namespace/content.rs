//! What a namespace contains, and how it is deleted: pods first, then everything else.

use std::collections::BTreeMap;

use catalog::{Catalog, Verbs};
use client::resources::PODS;
use client::{Client, DeleteOptions, Gvr, ListOptions, Propagation};
use object::{Status, Value};
use runtime::tree;

use super::conditions::Found;
use crate::served::gvr;

/// How long finalizers are supposed to take.
const FINALIZER_SECONDS: i64 = 15;

/// A resource namespaces contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub resource: Gvr,
    pub verbs: Verbs,
}

/// Every resource that has namespaces and can be deleted, in its preferred version.
pub fn contents(catalog: &Catalog) -> Vec<Content> {
    let mut found: BTreeMap<(&str, &str), Content> = BTreeMap::new();
    for group in catalog.groups() {
        for version in &group.versions {
            for resource in catalog.resources_of(&group.name, version) {
                if resource.namespaced
                    && resource.verbs.contains(Verbs::DELETE)
                    && let Some(gvr) = gvr(resource)
                {
                    let content = Content { resource: gvr, verbs: resource.verbs };
                    found.entry((gvr.group, gvr.plural)).or_insert(content);
                }
            }
        }
    }
    found.into_values().collect()
}

/// A namespace that is being deleted.
pub struct Emptying<'a> {
    pub client: &'a dyn Client,
    pub namespace: &'a str,
    /// Seconds since its deletion was asked for.
    pub since_seconds: i64,
}

/// What is left of one resource.
#[derive(Default)]
struct Left {
    /// How long the rest may take; 0: unknown.
    seconds: i64,
    count: usize,
    finalizers: BTreeMap<String, usize>,
}

impl Emptying<'_> {
    /// Deletes all there is; tells what was found, and for how many seconds to wait for the rest.
    pub async fn run(&self, contents: &[Content]) -> (Found, i64) {
        let mut found = Found::default();
        let mut wait = 0;
        // Pods go before what they may need to end well: their secrets, policies, claims.
        let (pods, others): (Vec<&Content>, Vec<&Content>) =
            contents.iter().partition(|c| c.resource == PODS);
        for stage in [pods, others] {
            for content in stage {
                let (left, failure) = self.empty(content).await;
                found.failures.extend(failure);
                wait = wait.max(left.seconds);
                if left.count > 0 {
                    found.remaining.insert(content.resource, left.count);
                    for (finalizer, count) in left.finalizers {
                        *found.finalizers.entry(finalizer).or_default() += count;
                    }
                }
            }
            if found.remaining.contains_key(&PODS) {
                // As upstream: what remains is not told before everything was tried.
                return (Found { failures: found.failures, ..Found::default() }, wait);
            }
        }
        (found, wait)
    }

    async fn empty(&self, content: &Content) -> (Left, Option<String>) {
        let mut left = Left::default();
        let failure = self.try_to_empty(content, &mut left).await.err();
        (left, failure)
    }

    async fn try_to_empty(&self, content: &Content, left: &mut Left) -> Result<(), String> {
        let told = |status: Status| status.message;
        let seconds = self.grace_seconds(content.resource).await.map_err(told)?;
        left.seconds = seconds;
        self.delete(content).await.map_err(told)?;
        if !content.verbs.contains(Verbs::LIST) {
            return Ok(());
        }
        let items = self.list(content.resource).await.map_err(told)?;
        left.count = items.len();
        if items.is_empty() {
            left.seconds = 0;
            return Ok(());
        }
        for finalizer in items.iter().flat_map(finalizers) {
            *left.finalizers.entry(finalizer).or_default() += 1;
        }
        if seconds != 0 {
            return Ok(());
        }
        if !left.finalizers.is_empty() {
            left.seconds = FINALIZER_SECONDS;
            return Ok(());
        }
        let Gvr { group, version, plural } = content.resource;
        let namespace = self.namespace;
        Err(format!(
            "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
        ))
    }

    async fn delete(&self, content: &Content) -> Result<(), Status> {
        let target = content.resource.within(self.namespace);
        // All content goes anyway: dependents must not be orphaned meanwhile.
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        if content.verbs.contains(Verbs::DELETE_COLLECTION) {
            return self.client.delete_collection(target, options, ListOptions::default()).await;
        }
        if !content.verbs.contains(Verbs::LIST) {
            return Ok(());
        }
        for item in self.client.list(target, ListOptions::default()).await?.items {
            let options = DeleteOptions { uid: Some(item.uid().to_owned()), ..options.clone() };
            match self.client.delete(content.resource.of(&item), options).await {
                Err(status) if !matches!(status.code, 404 | 405) => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }

    async fn list(&self, resource: Gvr) -> Result<Vec<Value>, Status> {
        let list = self.client.list(resource.within(self.namespace), ListOptions::default()).await?;
        Ok(list.items.iter().map(|obj| tree(obj)).collect())
    }

    /// How long pods may still take to end; 0 when that time is over.
    async fn grace_seconds(&self, resource: Gvr) -> Result<i64, Status> {
        if resource != PODS {
            return Ok(0);
        }
        let pods = self.list(resource).await?;
        let longest = longest_grace(&pods);
        Ok(if self.since_seconds >= longest { 0 } else { longest })
    }
}

/// The longest grace period of pods that have not ended yet.
pub fn longest_grace(pods: &[Value]) -> i64 {
    let running =
        pods.iter().filter(|pod| !matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")));
    let grace = running.filter_map(|pod| pod.at(&["spec", "terminationGracePeriodSeconds"])?.as_int());
    grace.max().unwrap_or(0).max(0)
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(|f| f.as_str().map(str::to_owned)).collect()
}
