//! Deletes what a namespace contains: pods first, then everything else.

use catalog::Verbs;
use client::resources::PODS;
use client::{Client, DeleteOptions, Gvr, ListOptions, Preconditions, Propagation};
use object::{Status, Value};
use runtime::tree;

use super::conditions::Found;
use super::content::Content;
use super::plan::{self, Deletion, Left};

/// A namespace that is being deleted.
pub struct Emptying<'a> {
    pub client: &'a dyn Client,
    pub namespace: &'a str,
    /// Seconds since its deletion was asked for.
    pub since_seconds: i64,
}

impl Emptying<'_> {
    /// Deletes all there is; tells what was found, and for how many seconds to wait for the rest.
    pub async fn run(&self, contents: &[Content]) -> (Found, i64) {
        let (mut found, mut wait) = (Found::default(), 0);
        for stage in plan::stages(contents) {
            for content in stage {
                let (left, failure) = self.empty(content).await;
                plan::note(&mut found, &mut wait, &content.resource, left, failure);
            }
            if plan::held_by_pods(&mut found) {
                break;
            }
        }
        (found, wait)
    }

    async fn empty(&self, content: &Content) -> (Left, Option<String>) {
        let failed = |seconds, status: Status| (Left { seconds, ..Left::default() }, Some(status.message));
        if content.aggregated {
            return match self.empty_aggregated(content).await {
                Ok(items) => plan::what_is_left(&content.resource, self.namespace, &items, 0),
                Err(status) => failed(0, status),
            };
        }
        let grace = match self.grace_seconds(&content.resource).await {
            Ok(grace) => grace,
            Err(status) => return failed(0, status),
        };
        if let Err(status) = self.delete(content).await {
            return failed(grace, status);
        }
        if !content.verbs.contains(Verbs::LIST) {
            return (Left { seconds: grace, ..Left::default() }, None);
        }
        match self.list(&content.resource).await {
            Ok(items) => plan::what_is_left(&content.resource, self.namespace, &items, grace),
            Err(status) => failed(grace, status),
        }
    }

    /// What is left of another server's objects.
    async fn empty_aggregated(&self, content: &Content) -> Result<Vec<Value>, Status> {
        let Gvr { group, version, plural } = &content.resource;
        let path = format!("/apis/{group}/{version}/namespaces/{}/{plural}", self.namespace);
        let options = "propagationPolicy=Background";
        let list = async || -> Result<Vec<Value>, Status> {
            let list = self.client.get_raw(&path).await?;
            Ok(list.get("items").and_then(Value::as_list).unwrap_or_default().to_vec())
        };
        match plan::how_to_delete(content.verbs) {
            Deletion::Impossible => return Ok(Vec::new()),
            Deletion::Collection => {
                self.client.delete_raw(&format!("{path}?{options}")).await?;
            }
            Deletion::OneByOne => {
                for item in list().await? {
                    let name = item.str_at(&["metadata", "name"]).unwrap_or("");
                    match self.client.delete_raw(&format!("{path}/{name}?{options}")).await {
                        Err(status) if !matches!(status.code, 404 | 405) => return Err(status),
                        _ => {}
                    }
                }
            }
        }
        if content.verbs.contains(Verbs::LIST) { list().await } else { Ok(Vec::new()) }
    }

    async fn delete(&self, content: &Content) -> Result<(), Status> {
        let target = content.resource.within(self.namespace);
        // All content goes anyway: dependents must not be orphaned meanwhile.
        let options =
            DeleteOptions { propagation_policy: Some(Propagation::Background), ..DeleteOptions::default() };
        match plan::how_to_delete(content.verbs) {
            Deletion::Impossible => return Ok(()),
            Deletion::Collection => {
                return self.client.delete_collection(target, options, ListOptions::default()).await;
            }
            Deletion::OneByOne => {}
        }
        for item in self.client.list(target, ListOptions::default()).await?.items {
            let options = DeleteOptions { preconditions: Preconditions::uid(item.uid()), ..options.clone() };
            match self.client.delete(content.resource.of(&item), options).await {
                Err(status) if !matches!(status.code, 404 | 405) => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }

    async fn list(&self, resource: &Gvr) -> Result<Vec<Value>, Status> {
        let list = self.client.list(resource.within(self.namespace), ListOptions::default()).await?;
        Ok(list.items.iter().map(|obj| tree(obj)).collect())
    }

    /// Only pods take their time.
    async fn grace_seconds(&self, resource: &Gvr) -> Result<i64, Status> {
        if *resource != PODS {
            return Ok(0);
        }
        Ok(plan::grace_left(&self.list(resource).await?, self.since_seconds))
    }
}
