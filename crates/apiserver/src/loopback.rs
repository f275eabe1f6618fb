//! The loopback client: how this server's own controllers read and write, as `system:apiserver` of `system:masters` (ADR 9).
//!
//! ```text
//! what kube-apiserver itself writes ── LoopbackClient ── LocalClient ── authorize ── admit ── validate ── commit
//! ```
//! It writes the first objects of a cluster and reconciles them, repairs the addresses of services, and keeps the
//! `kubernetes` service and this server's lease. Without it nobody could write the roles everybody else needs.
//! Writes of this server that go another way: the bitmap of node ports, which is no object (`Registry::write_internal`), and the budget
//! an eviction counts in (`registry/src/evict.rs`), which policies and webhooks see as any other, but nobody authorizes: a user who may
//! evict need not be allowed to write budgets.

use std::sync::Arc;

use admission::list_readable;
use auth::{UserInfo, groups, names};
use catalog::Storage;
use client::{Client, DeleteOptions, Gvr, Patch, Preconditions, WriteOptions};
use codec::json;
use object::{Obj, Status, Value};
use table::{Scope, Selection};

use crate::api::Api;
use crate::local::LocalClient;

/// A resource of version v1, by group and plural name.
pub(crate) type GroupResource = (&'static str, &'static str);

/// Reads from the table, writes through the chain.
pub(crate) struct LoopbackClient<'a> {
    api: &'a Arc<Api>,
    client: LocalClient,
}

impl<'a> LoopbackClient<'a> {
    /// As kube-apiserver itself.
    pub fn new(api: &'a Arc<Api>) -> LoopbackClient<'a> {
        let user = UserInfo::new(names::API_SERVER, &[groups::MASTERS, groups::AUTHENTICATED]);
        LoopbackClient { api, client: LocalClient::new(api.clone(), user, "kube-apiserver") }
    }

    /// The client alone, for informers.
    pub fn into_client(self) -> Arc<dyn Client> {
        Arc::new(self.client)
    }

    pub fn api(&self) -> &'a Arc<Api> {
        self.api
    }

    /// The object in the table, with its resourceVersion.
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
        Ok(list_readable(registry.table(), storage, &Selection::everything(Scope::All))?.items)
    }

    pub async fn create(&self, plural: GroupResource, namespace: &str, new: Value) -> Result<(), Status> {
        self.client.create(gvr(plural).within(namespace), new, WriteOptions::default()).await.map(|_| ())
    }

    /// Replaces an object if it is still at the resourceVersion of `new`.
    pub async fn update(&self, plural: GroupResource, new: Value) -> Result<(), Status> {
        self.put(plural, "", new).await
    }

    pub async fn update_status(&self, plural: GroupResource, new: Value) -> Result<(), Status> {
        self.put(plural, "status", new).await
    }

    /// The same for any subresource; empty for the object itself.
    pub async fn put(&self, plural: GroupResource, subresource: &str, new: Value) -> Result<(), Status> {
        let text = |name: &str| new.str_at(&["metadata", name]).unwrap_or("").to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        self.client
            .update(gvr(plural).at(&namespace, &name).sub(subresource), new, WriteOptions::default())
            .await
            .map(|_| ())
    }

    /// Applies the status of a cluster-scoped object as this manager, whoever else has set it.
    pub async fn apply_status(
        &self,
        plural: GroupResource,
        manager: &str,
        config: Value,
    ) -> Result<(), Status> {
        let name = config.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
        let gvr = gvr(plural);
        let options = WriteOptions { field_manager: manager, force: true, ..WriteOptions::default() };
        let target = gvr.at("", &name).sub("status");
        self.client.patch(target, Patch::Apply(config), options).await.map(|_| ())
    }

    /// Merges a patch into an object in a namespace.
    pub async fn merge_in(
        &self,
        plural: GroupResource,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<(), Status> {
        let patch = Patch::Merge(patch);
        self.client.patch(gvr(plural).at(namespace, name), patch, WriteOptions::default()).await.map(|_| ())
    }

    /// Deletes every object of a storage in a namespace, "" for what is in none, whatever versions of it are served.
    pub async fn delete_all(&self, storage: &Arc<Storage>, namespace: &str) -> Result<(), Status> {
        self.client.delete_stored(storage, namespace).await
    }

    /// Deletes the object that was read, by its UID; that it is gone already is no error.
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

/// One object as the table has it.
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

/// Another server did the same first, which the next sync will see.
pub(crate) fn lost_race(status: &Status) -> bool {
    matches!(status.reason, "AlreadyExists" | "Conflict" | "NotFound")
}

fn gvr((group, plural): GroupResource) -> Gvr {
    Gvr::new(group, "v1", plural)
}
