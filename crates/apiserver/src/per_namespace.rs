//! An object every namespace has: made with the namespace, made again when it is deleted or spoiled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use auth::UserInfo;
use codec::json;
use object::{Status, Value};
use registry::{FieldValidation, Request, WriteOptions};
use tokio::time::Instant;

use crate::chain::Api;
use crate::follow::Follow;

/// What failed is tried again after a while, which doubles up to the last of these.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

/// So often within that time an object is mended at once; more is a quarrel with someone (another server on the
/// same store, with another authority), which must not become a loop.
const CALM: (usize, Duration) = (5, Duration::from_secs(60));

/// The object, by plural of the core group and name, and who makes it.
pub struct PerNamespace {
    /// The name of upstream's controller: a service account in kube-system.
    pub controller: &'static str,
    pub plural: &'static str,
    pub name: &'static str,
    /// A new one.
    pub fresh: Value,
    pub mended: Mended,
}

/// What the object must become; `None`: it is as it should be.
pub type Mended = Box<dyn Fn(&Value) -> Option<Value> + Send + Sync>;

impl PerNamespace {
    /// Runs until shutdown.
    pub async fn keep(self, api: Arc<Api>) {
        let mut follow = Follow::new(&api, &[("", "namespaces"), ("", self.plural)]).named(self.name);
        let mut due: BTreeSet<String> = BTreeSet::new();
        let mut mended = BTreeMap::new();
        let mut again = AGAIN.0;
        loop {
            let wait = (!due.is_empty()).then_some(again);
            let Some(changes) = follow.changes(wait).await else { return };
            for change in changes {
                let obj = &change.obj;
                if obj.namespace().is_empty() {
                    due.insert(obj.name().to_owned());
                } else {
                    due.insert(obj.namespace().to_owned());
                }
            }
            let mut failed = BTreeSet::new();
            for namespace in std::mem::take(&mut due) {
                match self.ensure(&api, &namespace, &mut mended).await {
                    Ok(true) => {}
                    Ok(false) => {
                        failed.insert(namespace);
                    }
                    Err(status) => {
                        let (what, why) = (self.name, status.message);
                        tracing::warn!(
                            namespace,
                            what,
                            error = why,
                            "a namespace lacks an object it should have"
                        );
                        failed.insert(namespace);
                    }
                }
            }
            again = if failed.is_empty() { AGAIN.0 } else { (again * 2).min(AGAIN.1) };
            due = failed;
        }
    }

    /// `false`: not now.
    async fn ensure(
        &self,
        api: &Arc<Api>,
        namespace: &str,
        mended: &mut BTreeMap<String, (Instant, usize)>,
    ) -> Result<bool, Status> {
        let table = api.registry().table();
        let catalog = table.catalog();
        let stored = |plural: &str| {
            let resource = catalog.find("", "v1", plural)?;
            Some((resource, catalog.storage(resource.storage?)))
        };
        let (Some((_, namespaces)), Some((resource, storage))) = (stored("namespaces"), stored(self.plural))
        else {
            return Ok(true);
        };
        let active =
            table.get(namespaces.id, &namespaces.key("", namespace)).is_some_and(|ns| !ns.deleting());
        if !active {
            mended.remove(namespace);
            return Ok(true);
        }
        let user = UserInfo::service_account("kube-system", self.controller, "");
        let request = |name| Request { user: &user, resource, subresource: None, namespace, name };
        let options = WriteOptions { field_validation: FieldValidation::Ignore, ..WriteOptions::default() };
        let result = match table.get(storage.id, &storage.key(namespace, self.name)) {
            None => api.registry().create(&request(""), self.fresh.clone(), options).await,
            Some(there) => {
                let there = json::parse(there.body(), None)
                    .map_err(|e| Status::internal(format!("the stored object cannot be read: {e}")))?;
                match (self.mended)(&there) {
                    None => return Ok(true),
                    Some(right) => {
                        let now = api.registry().env().monotonic();
                        let (since, times) = mended.entry(namespace.to_owned()).or_insert((now, 0));
                        if now - *since > CALM.1 {
                            (*since, *times) = (now, 0);
                        }
                        if *times >= CALM.0 {
                            return Ok(false);
                        }
                        *times += 1;
                        api.registry().update(&request(self.name), right, options).await
                    }
                }
            }
        };
        match result {
            Ok(_) => Ok(true),
            // The namespace or the object is going, or someone was faster: that change wakes us again.
            Err(status) if matches!(status.code, 404 | 409) || is_terminating(&status) => Ok(true),
            Err(status) => Err(status),
        }
    }
}

fn is_terminating(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
