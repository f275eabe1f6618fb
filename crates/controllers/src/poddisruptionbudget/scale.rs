//! How many pods the controllers of some pods want in all.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::resources::{DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS};
use client::{Client, Gvr};
use object::{Obj, Value};
use runtime::owners::{Owner, controller_of};
use runtime::{Failure, Informer};

use super::members::Members;

pub struct Scales {
    pub client: Arc<dyn Client>,
    pub replication_controllers: Arc<Informer>,
    pub replica_sets: Arc<Informer>,
    pub deployments: Arc<Informer>,
    pub stateful_sets: Arc<Informer>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// Replicas over all controllers, each once.
    pub expected: i64,
    /// Pods nobody controls.
    pub unmanaged: usize,
}

impl Scales {
    pub async fn of(&self, namespace: &str, pods: &Members) -> Result<Scale, Failure> {
        // By uid of who has the scale: several owners may have one above them.
        let mut scales = BTreeMap::new();
        for owner in pods.controllers() {
            let Some((uid, replicas)) = self.scale_of(owner, namespace).await? else {
                let pod = pods.first_of(owner).unwrap_or_default();
                return Err(Failure::Other(format!("found no controllers for pod {pod:?}")));
            };
            scales.insert(uid, replicas);
        }
        Ok(Scale { expected: scales.values().sum(), unmanaged: pods.unmanaged() })
    }

    /// Who has the scale of a pod's owner, and how many it wants.
    async fn scale_of(&self, owner: &Owner, namespace: &str) -> Result<Option<(String, i64)>, Failure> {
        let (resource, informer) = match (owner.group(), owner.kind.as_str()) {
            ("", "ReplicationController") => (&REPLICATION_CONTROLLERS, &self.replication_controllers),
            ("apps" | "extensions", "ReplicaSet") => (&REPLICA_SETS, &self.replica_sets),
            ("apps" | "extensions", "Deployment") => (&DEPLOYMENTS, &self.deployments),
            ("apps", "StatefulSet") => (&STATEFUL_SETS, &self.stateful_sets),
            _ => return Err(self.no_scale(owner)),
        };
        let Some(found) = self.find(resource, informer, namespace, owner).await? else { return Ok(None) };
        // A replica set of a deployment has the deployment's scale: during a rollout there are two of them.
        if resource == &REPLICA_SETS
            && let Some(above) = controller_of(&found).filter(|above| above.kind == "Deployment")
        {
            let deployment = self.find(&DEPLOYMENTS, &self.deployments, namespace, &above).await?;
            return Ok(deployment.map(|deployment| scale(&deployment)));
        }
        Ok(Some(scale(&found)))
    }

    /// From the informer, or from the server when that has not seen it yet.
    async fn find(
        &self,
        resource: &Gvr,
        informer: &Informer,
        namespace: &str,
        owner: &Owner,
    ) -> Result<Option<Arc<Obj>>, Failure> {
        let same = |obj: &Arc<Obj>| obj.uid() == owner.uid;
        if let Some(known) = informer.store().get(namespace, &owner.name).filter(same) {
            return Ok(Some(known));
        }
        match self.client.get(resource.at(namespace, &owner.name)).await {
            Ok(obj) => Ok(Some(obj).filter(same)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    fn no_scale(&self, owner: &Owner) -> Failure {
        let version = owner.api_version.rsplit_once('/').map_or(&*owner.api_version, |(_, version)| version);
        let catalog = self.client.catalog();
        let known = catalog.find_kind(owner.group(), version, &owner.kind);
        Failure::Other(match known {
            Some(resource) => format!("{} does not implement the scale subresource", resource.qualified()),
            None => format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version),
        })
    }
}

fn scale(obj: &Obj) -> (String, i64) {
    let tree = runtime::tree(obj);
    let replicas = tree.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(1);
    (obj.uid().to_owned(), replicas)
}
