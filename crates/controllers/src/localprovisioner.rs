//! The provisioner `setpoint.dev/local`: a claim gets a directory on the node its first pod is scheduled to.
//!
//! ```text
//! claim (provisioner, selected-node) ──> volume: hostPath below /var/lib/setpoint/volumes, with affinity to the node ──> the binder
//! volume Released, policy Delete ──────> deleted ──> the node removes the directory
//! ```
//! The directory is made by the node that mounts it, and removed by it once the volume is gone: this controller touches no machine.
//!
//! It acts as the binder, whose role is that of provisioners built into Kubernetes.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::{NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use client::{Client, DeleteOptions, WriteOptions};
use futures_util::future::BoxFuture;
use object::Obj;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, tree,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::volumes::{claim_view, volume_view};
use plan::{ForClaim, NotProvisioned, PROVISIONER, awaits, is_released, volume_name};

pub use plan::storage_class;

pub const NAME: &str = "local-volume-provisioner-controller";
/// A claim that cannot have a volume is looked at that often: its class may come, or change.
const AGAIN: Duration = Duration::from_secs(15);

struct Local {
    client: Arc<dyn Client>,
    recorder: Recorder,
    claims: Arc<Informer>,
    volumes: Arc<Informer>,
    classes: Arc<Informer>,
    nodes: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller("persistent-volume-binder");
    let (recorder, task) = Recorder::start(&context.env, client.clone(), PROVISIONER, context.stop.clone());
    let of = |resource| context.informers.of(resource);
    let local = Arc::new(Local {
        client,
        recorder,
        claims: of(&PERSISTENT_VOLUME_CLAIMS),
        volumes: of(&PERSISTENT_VOLUMES),
        classes: of(&STORAGE_CLASSES),
        nodes: of(&NODES),
    });
    // Claims have a namespace, volumes have none: one queue holds both.
    let controller = Controller::new(&context.env, NAME).workers(4).max_retries(None);
    let controller = controller.watches(&local.claims, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if awaits(&claim_view(event.obj())) => vec![Key::of(event.obj())],
        _ => Vec::new(),
    });
    let controller = controller.watches(&local.volumes, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if is_released(&volume_view(event.obj())) => vec![Key::of(event.obj())],
        _ => Vec::new(),
    });
    let controller = controller.reads(&local.classes).reads(&local.nodes);
    let mut tasks = controller.start(&context.controllers, local, context.stop.clone());
    tasks.push(task);
    tasks
}

impl Reconcile for Local {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            if request.key.namespace().is_empty() {
                self.delete(&request).await?;
                return Ok(Action::AwaitChange);
            }
            self.provision(&request).await
        })
    }
}

impl Local {
    async fn provision(&self, request: &ReconcileRequest<'_>) -> Result<Action, Failure> {
        let Some(claim) = self.claims.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
        let view = claim_view(&claim);
        // Made before: the binder does the rest.
        if !awaits(&view) || self.volumes.store().get("", &volume_name(claim.uid())).is_some() {
            return Ok(Action::AwaitChange);
        }
        let class = self.classes.store().get("", view.class_name()).map(|class| tree(&class));
        let node = view.selected_node.as_deref().and_then(|node| self.nodes.store().get("", node));
        let node = node.map(|node| tree(&node));
        match plan::provision(&tree(&claim), &view, class.as_ref(), node.as_ref()) {
            ForClaim::Nothing => Ok(Action::Requeue(AGAIN)),
            ForClaim::Refuse(NotProvisioned { why, try_elsewhere }) => {
                request.plan(|| format!("refuse: {why}"));
                let message =
                    format!("failed to provision volume with StorageClass \"{}\": {why}", view.class_name());
                self.tell(&claim, Severity::Warning, "ProvisioningFailed", message);
                if !try_elsewhere {
                    return Ok(Action::Requeue(AGAIN));
                }
                self.reschedule(&claim).await?;
                Ok(Action::AwaitChange)
            }
            ForClaim::Create(volume) => {
                request.plan(|| format!("create volume {}", volume_name(claim.uid())));
                let begins =
                    format!("External provisioner is provisioning volume for claim \"{}\"", request.key);
                self.tell(&claim, Severity::Normal, "Provisioning", begins);
                let made = self
                    .client
                    .create(PERSISTENT_VOLUMES.everywhere(), volume, WriteOptions::default())
                    .await;
                match made {
                    // By this controller, before it was started again.
                    Err(status) if status.reason == "AlreadyExists" => return Ok(Action::AwaitChange),
                    made => drop(made?),
                }
                let done = format!("Successfully provisioned volume {}", volume_name(claim.uid()));
                self.tell(&claim, Severity::Normal, "ProvisioningSucceeded", done);
                Ok(Action::AwaitChange)
            }
        }
    }

    /// The scheduler chooses again.
    async fn reschedule(&self, claim: &Obj) -> Result<(), Failure> {
        let body = plan::without_node(tree(claim));
        let target = PERSISTENT_VOLUME_CLAIMS.of(claim);
        match self.client.update(target, body, WriteOptions::default()).await {
            Err(status) if status.code != 404 => Err(status.into()),
            _ => Ok(()),
        }
    }

    async fn delete(&self, request: &ReconcileRequest<'_>) -> Result<(), Failure> {
        let volume = self.volumes.store().get_key(request.key);
        let volume = volume.filter(|volume| !volume.deleting() && is_released(&volume_view(volume)));
        let Some(volume) = volume else { return Ok(()) };
        request.plan(|| "delete it".to_owned());
        // As it was looked at: somebody may have decided to keep it.
        let mut options = DeleteOptions::exactly(&volume);
        options.preconditions.resource_version = Some(volume.revision().to_string());
        match self.client.delete(PERSISTENT_VOLUMES.of(&volume), options).await {
            Err(status) if status.code != 404 => Err(status.into()),
            _ => Ok(()),
        }
    }

    fn tell(&self, claim: &Obj, severity: Severity, reason: &str, message: String) {
        self.recorder.event(&PERSISTENT_VOLUME_CLAIMS, claim, severity, reason, message);
    }
}
