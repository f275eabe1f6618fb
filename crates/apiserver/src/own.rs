//! The server's own reads and writes: as `system:apiserver`, through the same chain as everyone's.

use auth::{UserInfo, groups, names};
use catalog::Resource;
use codec::json;
use kinds::{DeleteOptions, Preconditions};
use object::{Status, Value};
use registry::{Request, WriteOptions};
use table::{Scope, Selection};

use crate::chain::Api;

/// A resource of version v1, by group and plural.
pub(crate) type Plural = (&'static str, &'static str);

pub(crate) struct Own<'a> {
    api: &'a Api,
    user: UserInfo,
}

impl<'a> Own<'a> {
    pub fn new(api: &'a Api) -> Own<'a> {
        Own { api, user: UserInfo::new(names::API_SERVER, &[groups::MASTERS, groups::AUTHENTICATED]) }
    }

    pub fn api(&self) -> &'a Api {
        self.api
    }

    fn resource(&self, (group, plural): Plural) -> Result<&'a Resource, Status> {
        let found = self.api.registry().catalog().find(group, "v1", plural);
        found.ok_or_else(|| Status::internal(format!("the catalogue has no {plural} of {group}/v1")))
    }

    /// What the table shows, resourceVersion included.
    pub fn get(&self, plural: Plural, namespace: &str, name: &str) -> Option<Value> {
        let registry = self.api.registry();
        let storage = registry.catalog().storage(self.resource(plural).ok()?.storage?);
        let obj = registry.table().get(storage.id, &storage.key(namespace, name))?;
        json::parse(obj.body(), None).ok()
    }

    /// All objects of a resource, from the table, by name.
    pub fn list(&self, plural: Plural) -> Vec<Value> {
        let storage = self.resource(plural).ok().and_then(|resource| resource.storage);
        let everything = Selection::everything(Scope::All);
        let page =
            storage.and_then(|id| self.api.registry().table().list(id, &everything, None, None, 0).ok());
        let items = page.map(|page| page.items).unwrap_or_default();
        items.iter().filter_map(|obj| json::parse(obj.body(), None).ok()).collect()
    }

    pub async fn create(&self, plural: Plural, namespace: &str, new: Value) -> Result<(), Status> {
        let resource = self.resource(plural)?;
        let request =
            Request { user: &self.user, resource, subresource: None, namespace, name: "", term: None };
        self.api.registry().create(&request, new, WriteOptions::default()).await.map(|_| ())
    }

    /// Replaces an object, provided that it still is at the resourceVersion the tree carries.
    pub async fn update(&self, plural: Plural, new: Value) -> Result<(), Status> {
        self.put(plural, None, new).await
    }

    pub async fn update_status(&self, plural: Plural, new: Value) -> Result<(), Status> {
        self.put(plural, Some("status"), new).await
    }

    async fn put(&self, plural: Plural, subresource: Option<&str>, new: Value) -> Result<(), Status> {
        let resource = self.resource(plural)?;
        let text = |name: &str| new.str_at(&["metadata", name]).unwrap_or("").to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let request = Request {
            user: &self.user,
            resource,
            subresource,
            namespace: &namespace,
            name: &name,
            term: None,
        };
        self.api.registry().update(&request, new, WriteOptions::default()).await.map(|_| ())
    }

    /// Deletes the very object that was read; that it is gone already is no error.
    pub async fn delete(&self, plural: Plural, old: &Value) -> Result<(), Status> {
        let resource = self.resource(plural)?;
        let text = |name: &str| old.str_at(&["metadata", name]).unwrap_or("");
        let (namespace, name) = (text("namespace"), text("name"));
        let request = Request { user: &self.user, resource, subresource: None, namespace, name, term: None };
        let uid = Some(text("uid").to_owned());
        let preconditions = Preconditions { uid, ..Preconditions::default() };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.api.registry().delete(&request, &options).await {
            Ok(_) => Ok(()),
            Err(status) if status.code == 404 => Ok(()),
            Err(status) => Err(status),
        }
    }
}

/// Did another server do the same thing first? Then the next look shows it.
pub(crate) fn lost_a_race(status: &Status) -> bool {
    matches!(status.reason, "AlreadyExists" | "Conflict" | "NotFound")
}
