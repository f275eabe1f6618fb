//! The calls the collector makes, each safe against what changed meanwhile.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, DeleteOptions, Patch, Propagation, Target, WriteOptions};
use env::Env;
use object::{Map, Obj, Status, Value};
use runtime::{Failure, tree};

use super::identity::Identity;
use super::kinds::{Mapping, mapping};
use super::plan;

/// After a conflict: so many tries, the wait five times longer each time.
const TRIES: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Where an object is on the server.
pub enum Located {
    At(Mapping),
    /// Something without a namespace says its owner has one: no such owner can be found, now or later.
    Nowhere,
}

pub struct Calls {
    pub env: Env,
    pub client: Arc<dyn Client>,
}

impl Calls {
    pub fn locate(&self, identity: &Identity) -> Result<Located, Failure> {
        let Identity { api_version, kind, .. } = identity;
        let aggregated = || self.client.aggregated();
        let Some(found) = mapping(&self.client.catalog(), aggregated, api_version, kind) else {
            return Err(Failure::Other(format!("unable to get REST mapping for {api_version}/{kind}.")));
        };
        let nowhere = found.namespaced && identity.namespace.is_empty();
        Ok(if nowhere { Located::Nowhere } else { Located::At(found) })
    }

    /// The object as it is now; `None`: it does not exist, or another has its name.
    pub async fn live(&self, at: &Mapping, identity: &Identity) -> Result<Option<Arc<Obj>>, Status> {
        match self.client.get(target(at, identity)).await {
            Ok(obj) => Ok(Some(obj).filter(|obj| obj.uid() == identity.uid)),
            Err(status) if is_gone(&status) => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Deletes the object as it was read; `false`: it is gone already.
    pub async fn delete(
        &self,
        at: &Mapping,
        identity: &Identity,
        read: &Obj,
        propagation: Propagation,
    ) -> Result<bool, Status> {
        let mut options =
            DeleteOptions { propagation_policy: Some(propagation), ..DeleteOptions::exactly(read) };
        options.preconditions.resource_version = Some(read.revision().to_string());
        let deleted = match self.client.delete(target(at, identity), options.clone()).await {
            Err(conflict) if conflict.code == 409 => {
                let Some(now) = self.live(at, identity).await? else { return Ok(false) };
                // Somebody may have said meanwhile what is to become of its dependents: that is decided anew.
                let finalizers = super::graph::finalizers;
                if now.revision() == read.revision()
                    || now.owners() != read.owners()
                    || now.deleting() != read.deleting()
                    || finalizers(&now) != finalizers(read)
                {
                    return Err(conflict);
                }
                // It changed, but nothing that matters here: what is written often must not live on for that.
                options.preconditions.resource_version = None;
                self.client.delete(target(at, identity), options).await
            }
            deleted => deleted,
        };
        match deleted {
            Ok(()) => Ok(true),
            Err(status) if is_gone(&status) => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Takes references to `owners` off the object.
    pub async fn let_go(&self, at: &Mapping, identity: &Identity, owners: &[String]) -> Result<(), Status> {
        let strategic = plan::let_go(&identity.uid, owners);
        let stays = |reference: &mut Map| {
            let uid = reference.get("uid").and_then(Value::as_str);
            !owners.iter().any(|owner| Some(owner.as_str()) == uid)
        };
        self.patch_references(at, identity, strategic, &stays).await.map(|_| ())
    }

    /// No reference of the object blocks its owner any more; the object after that.
    pub async fn unblock(&self, at: &Mapping, identity: &Identity, read: &Obj) -> Result<Arc<Obj>, Status> {
        let strategic = plan::unblock(&identity.uid, &runtime::owners::owners_of(read));
        let change = |reference: &mut Map| {
            reference.set("blockOwnerDeletion", false);
            true
        };
        self.patch_references(at, identity, strategic, &change).await
    }

    async fn patch_references(
        &self,
        at: &Mapping,
        identity: &Identity,
        strategic: Value,
        change: &(dyn Fn(&mut Map) -> bool + Send + Sync),
    ) -> Result<Arc<Obj>, Status> {
        match self
            .client
            .patch(target(at, identity), Patch::Strategic(strategic), WriteOptions::default())
            .await
        {
            // Kinds the server has no types for.
            Err(unsupported) if unsupported.code == 415 => {
                let now = self.client.get(target(at, identity)).await?;
                let patch = plan::merged_references(&tree(&now), change);
                self.client.patch(target(at, identity), Patch::Merge(patch), WriteOptions::default()).await
            }
            answer => answer,
        }
    }

    /// Takes a finalizer off the object, if `may` still says so after it was read; the object may go with that. `false`: it
    /// did not say so. No error if either is gone.
    pub async fn remove_finalizer(
        &self,
        at: &Mapping,
        identity: &Identity,
        finalizer: &str,
        may: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<bool, Status> {
        let mut wait = FIRST_WAIT;
        let mut tries = 1;
        loop {
            let Some(now) = self.live(at, identity).await? else { return Ok(true) };
            let Some(patch) = plan::without_finalizer(&tree(&now), finalizer) else { return Ok(true) };
            if !may() {
                return Ok(false);
            }
            match self.client.patch(target(at, identity), Patch::Merge(patch), WriteOptions::default()).await
            {
                Ok(_) => return Ok(true),
                Err(status) if is_gone(&status) => return Ok(true),
                Err(status) if status.code == 409 && tries < TRIES => {
                    self.env.sleep(wait).await;
                    wait *= 5;
                    tries += 1;
                }
                Err(status) => return Err(status),
            }
        }
    }
}

fn target<'a>(at: &'a Mapping, identity: &'a Identity) -> Target<'a> {
    let namespace = if at.namespaced { identity.namespace.as_str() } else { "" };
    let target = at.resource.at(namespace, &identity.name);
    // Of what other servers have nothing else is known, and all of it comes over the network.
    if at.aggregated { target.metadata() } else { target }
}

/// The server says that there is no such object.
// Differs from upstream, which believes any 404: a server that does not serve the resource (any more, or yet) has said nothing about
// its objects.
pub fn is_gone(status: &Status) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}
