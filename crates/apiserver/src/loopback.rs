//! How the loops of this crate read and write, and as whom (ADR 9).
//!
//! ```text
//! aggregation, quotas, certificates, ServiceCIDRs   LoopbackClient::controller   the account and the role upstream's loop has
//! what kube-apiserver itself writes                 LoopbackClient::new          system:apiserver, of system:masters
//!      both: LocalClient ── authorize ── admit ── validate ── commit
//! ```
//! The second row is upstream's loopback client: the first objects of a cluster and what keeps them, the addresses of
//! services and their repair, the `kubernetes` service and this server's lease. Without it nobody could write the roles
//! everybody else needs. Past the chain go only the bitmap of node ports, which is no object (`Registry::keep`), and evictions, which count in a budget as the server (`registry/src/evict.rs`): whoever
//! may evict need not be allowed to write budgets.

use std::sync::Arc;

use admission::whole;
use auth::{UserInfo, groups, names};
use client::{Client, DeleteOptions, Gvr, Patch, Preconditions, WriteOptions};
use codec::json;
use object::{Obj, Status, Value};
use table::{Scope, Selection};

use crate::api::Api;
use crate::local::LocalClient;

/// A resource of version v1, by group and plural.
pub(crate) type GroupResource = (&'static str, &'static str);

/// The API as one of the server's own loops uses it: reads from the table, writes through the chain.
pub(crate) struct LoopbackClient<'a> {
    api: &'a Arc<Api>,
    client: LocalClient,
}

impl<'a> LoopbackClient<'a> {
    /// The server itself.
    pub fn new(api: &'a Arc<Api>) -> LoopbackClient<'a> {
        let user = UserInfo::new(names::API_SERVER, &[groups::MASTERS, groups::AUTHENTICATED]);
        LoopbackClient { api, client: LocalClient::new(api.clone(), user, "kube-apiserver") }
    }

    /// A loop that upstream runs outside of kube-apiserver: it may what the role of its account says.
    pub fn for_controller(api: &'a Arc<Api>, name: &str) -> LoopbackClient<'a> {
        let user = UserInfo::service_account("kube-system", name, "");
        LoopbackClient { api, client: LocalClient::new(api.clone(), user, name) }
    }

    pub fn api(&self) -> &'a Arc<Api> {
        self.api
    }

    /// What the table shows, resourceVersion included.
    pub fn get(&self, plural: GroupResource, namespace: &str, name: &str) -> Option<Value> {
        get_stored(self.api, plural, namespace, name)
    }

    /// All objects of a resource, from the table, by name.
    pub fn list(&self, plural: GroupResource) -> Result<Vec<Value>, Status> {
        let objects = self.objects(plural)?;
        Ok(objects.iter().filter_map(|obj| json::parse(obj.body(), None).ok()).collect())
    }

    pub fn objects(&self, (group, plural): GroupResource) -> Result<Vec<Arc<Obj>>, Status> {
        let registry = self.api.registry();
        let storage = registry.catalog().find_storage(group, plural).map(|storage| storage.id);
        let storage = storage
            .ok_or_else(|| Status::internal(format!("the catalogue has no {plural} of {group}/v1")))?;
        Ok(whole(registry.table(), storage, &Selection::everything(Scope::All))?.items)
    }

    pub async fn create(&self, plural: GroupResource, namespace: &str, new: Value) -> Result<(), Status> {
        self.client.create(gvr(plural).within(namespace), new, WriteOptions::default()).await.map(|_| ())
    }

    /// Replaces an object, provided that it still is at the resourceVersion the tree carries.
    pub async fn update(&self, plural: GroupResource, new: Value) -> Result<(), Status> {
        self.put(plural, "", new).await
    }

    pub async fn update_status(&self, plural: GroupResource, new: Value) -> Result<(), Status> {
        self.put(plural, "status", new).await
    }

    /// The same for any subresource; the object itself has none.
    pub async fn put(&self, plural: GroupResource, subresource: &str, new: Value) -> Result<(), Status> {
        let text = |name: &str| new.str_at(&["metadata", name]).unwrap_or("").to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        self.client
            .update(gvr(plural).at(&namespace, &name).sub(subresource), new, WriteOptions::default())
            .await
            .map(|_| ())
    }

    /// Merges into an object of no namespace, whatever its version.
    pub async fn merge(&self, plural: GroupResource, name: &str, patch: Value) -> Result<(), Status> {
        self.client
            .patch(gvr(plural).at("", name), Patch::Merge(patch), WriteOptions::default())
            .await
            .map(|_| ())
    }

    /// Deletes the very object that was read; that it is gone already is no error.
    pub async fn delete(&self, plural: GroupResource, old: &Value) -> Result<(), Status> {
        let text = |name: &str| old.str_at(&["metadata", name]).unwrap_or("");
        let options =
            DeleteOptions { preconditions: Preconditions::uid(text("uid")), ..DeleteOptions::default() };
        match self.client.delete(gvr(plural).at(text("namespace"), text("name")), options).await {
            Err(status) if status.code == 404 => Ok(()),
            other => other,
        }
    }
}

/// One object as the table shows it.
pub(crate) fn get_stored(
    api: &Api,
    (group, plural): GroupResource,
    namespace: &str,
    name: &str,
) -> Option<Value> {
    let registry = api.registry();
    let catalog = registry.catalog();
    let storage = catalog.find_storage(group, plural)?;
    let obj = registry.table().get(storage.id, &storage.key(namespace, name))?;
    json::parse(obj.body(), None).ok()
}

/// Did another server do the same thing first? Then the next look shows it.
pub(crate) fn lost_race(status: &Status) -> bool {
    matches!(status.reason, "AlreadyExists" | "Conflict" | "NotFound")
}

fn gvr((group, plural): GroupResource) -> Gvr {
    Gvr::new(group, "v1", plural)
}
