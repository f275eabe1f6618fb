//! Volumes that are emptied and used again: a pod deletes their files, on whichever node it comes to.
//!
//! ```text
//! Released ── no pod ──> make it ── runs ── Succeeded ──> delete it ──> Available
//!                ^                          Failed ─────> delete it ──> Failed, and once more later
//! ```
//! The pod goes before its volume is free: one that is there is always of this release.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::resources::PODS;
use client::{DeleteOptions, WriteOptions};
use kinds::persistentvolume::view::VolumeSource;
use object::{Map, Obj, Value};
use runtime::{Action, Failure, InformerEvent, Key, Severity, tree};

use super::Binder;
use crate::volumes::{pods, volume_view};

const NAMESPACE: &str = "default";
const PREFIX: &str = "recycler-for-";
const FAILED: &str = "VolumeFailedRecycle";
const CONTAINER: &str = "pv-recycler";
/// Of which volume and whose claim: kube-controller-manager deletes a pod that is there already, we go on with our own.
const RELEASE: &str = "setpoint.dev/recycles";
const IMAGE: &str = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6";
const SCRIPT: &str =
    r#"test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1"#;

/// How long a pod may take: so many seconds for each GiB, and at least so many.
struct Patience {
    least: i64,
    per_gib: i64,
}

impl Binder {
    /// The volume a pod empties.
    pub(super) fn recycler_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let pod = event.obj();
        let volume = pod.name().strip_prefix(PREFIX).filter(|_| pod.namespace() == NAMESPACE);
        volume.map(|name| Key::new("", name)).into_iter().collect()
    }

    /// The volume is gone: so is its pod, once it has ended.
    pub(super) async fn abandon(&self, volume: &str) -> Result<(), Failure> {
        self.resting.lock().remove(volume);
        let Some(pod) = self.pods.store().get(NAMESPACE, &format!("{PREFIX}{volume}")) else { return Ok(()) };
        let body = tree(&pod);
        let containers = body.at(&["spec", "containers"]).and_then(Value::as_list).unwrap_or_default();
        let is_ours = containers.iter().any(|container| container.str_at(&["name"]) == Some(CONTAINER));
        if is_ours && pods::is_terminated(&body) && !pod.deleting() {
            self.drop_recycler(&pod).await?;
        }
        Ok(())
    }

    /// Differs from kube-controller-manager: the events of the pod are not told of the volume as well.
    pub(super) async fn recycle(&self, volume: Arc<Obj>) -> Result<Action, Failure> {
        let view = volume_view(&volume);
        let Some(named) = &view.claim else { return Ok(Action::AwaitChange) };
        let key = Key::new(&named.namespace, &named.name);
        let users = self.users(&key);
        // Pods of a claim that is there use another volume.
        if !users.is_empty() && self.claims.get(&key).is_none() {
            let users: Vec<String> = users.into_iter().collect();
            let why = format!("Volume is used by pods: {}", users.join(","));
            self.tell_volume(&volume, Severity::Normal, FAILED, why);
            return Ok(Action::Requeue(self.sync_period));
        }
        let gib = view.capacity.as_i64() >> 30;
        let release = format!("{}/{}", volume.uid(), named.uid);
        let Some(body) = recycler(volume.name(), &tree(&volume), &view.source, gib, &release) else {
            self.fail(volume, FAILED, "No recycler plugin found for the volume!".to_owned()).await?;
            return Ok(Action::AwaitChange);
        };
        // Of an old one that is still seen nothing may be concluded: the server is asked.
        let name = format!("{PREFIX}{}", volume.name());
        let pod = match self.client.get(PODS.at(NAMESPACE, &name)).await {
            Ok(pod) => pod,
            Err(status) if status.code == 404 => {
                let until = self.resting.lock().get(volume.name()).copied();
                let left = until.map_or(Duration::ZERO, |until| until - self.env.monotonic());
                if !left.is_zero() {
                    return Ok(Action::Requeue(left));
                }
                return self.begin(volume, body).await;
            }
            Err(status) => return Err(status.into()),
        };
        let status = tree(&pod);
        match status.str_at(&["status", "phase"]) {
            // What comes of it is waited for; it goes, and then there is none.
            _ if pod.deleting() => Ok(Action::AwaitChange),
            // Of another volume of this name, of another release, or somebody's own: it says nothing of this one.
            _ if !is_same_work(&status, &body) => {
                self.drop_recycler(&pod).await?;
                Ok(Action::AwaitChange)
            }
            Some("Succeeded") => {
                self.resting.lock().remove(volume.name());
                self.drop_recycler(&pod).await?;
                self.tell_volume(&volume, Severity::Normal, "VolumeRecycled", "Volume recycled".to_owned());
                self.unbind(volume).await?;
                Ok(Action::AwaitChange)
            }
            Some("Failed") => {
                let until = self.env.monotonic() + self.sync_period;
                self.resting.lock().insert(volume.name().to_owned(), until);
                self.drop_recycler(&pod).await?;
                let said = status.str_at(&["status", "message"]).filter(|said| !said.is_empty());
                let said = said.unwrap_or("pod failed, pod.Status.Message unknown");
                self.fail(volume, FAILED, format!("Recycle failed: failed to recycle volume: {said}"))
                    .await?;
                Ok(Action::Requeue(self.sync_period))
            }
            _ => Ok(Action::AwaitChange),
        }
    }

    async fn begin(&self, volume: Arc<Obj>, body: Value) -> Result<Action, Failure> {
        match self.client.create(PODS.within(NAMESPACE), body, WriteOptions::default()).await {
            Ok(_) => Ok(Action::AwaitChange),
            Err(refused) => {
                let why = format!("unexpected error creating recycler pod:  {}", refused.message);
                self.fail(volume, FAILED, format!("Recycle failed: {why}")).await?;
                Ok(Action::Requeue(self.sync_period))
            }
        }
    }

    async fn drop_recycler(&self, pod: &Arc<Obj>) -> Result<(), Failure> {
        match self.client.delete(PODS.of(pod), DeleteOptions::exactly(pod)).await {
            Err(status) if status.code != 404 => Err(status.into()),
            _ => Ok(()),
        }
    }

    fn users(&self, claim: &Key) -> BTreeSet<String> {
        let pods = pods::of_claim(&self.pods, claim);
        let alive = pods.iter().filter(|pod| !pods::is_terminated(&tree(pod)));
        alive.map(|pod| pod.path().to_owned()).collect()
    }
}

/// Does a pod that is there do what `wanted` would?
fn is_same_work(pod: &Value, wanted: &Value) -> bool {
    let container = |pod: &Value, part: &str| -> Option<Value> {
        let all = pod.at(&["spec", "containers"]).and_then(Value::as_list)?;
        all.first()?.get(part).cloned()
    };
    // Defaults are added to what was written, never to these.
    let same = |part: &str| container(pod, part) == container(wanted, part);
    let directory = |pod: &Value| -> Option<(Option<String>, Option<String>)> {
        let all = pod.at(&["spec", "volumes"]).and_then(Value::as_list)?;
        let volume = all.iter().find(|volume| volume.str_at(&["name"]) == Some("vol"))?;
        let text = |path: &[&str]| volume.str_at(path).map(str::to_owned);
        Some((text(&["hostPath", "path"]).or_else(|| text(&["nfs", "path"])), text(&["nfs", "server"])))
    };
    let release = |pod: &Value| pod.str_at(&["metadata", "annotations", RELEASE]).map(str::to_owned);
    release(pod) == release(wanted)
        && ["image", "command", "args"].into_iter().all(same)
        && directory(pod) == directory(wanted)
}

/// The pod that empties a volume of so many GiB; there is one for directories and NFS only. `release` is its own mark.
pub(super) fn recycler(
    name: &str,
    volume: &Value,
    source: &VolumeSource,
    gib: i64,
    release: &str,
) -> Option<Value> {
    let (kind, members, patience): (_, &[&str], _) = match source {
        VolumeSource::HostPath(_) => ("hostPath", &["path"], Patience { least: 60, per_gib: 30 }),
        VolumeSource::Nfs => ("nfs", &["server", "path"], Patience { least: 300, per_gib: 30 }),
        VolumeSource::Csi | VolumeSource::Other => return None,
    };
    let mut of = Map::default();
    for member in members {
        of.set(*member, volume.str_at(&["spec", kind, *member]).unwrap_or("").to_owned());
    }
    let mut source = Map::default();
    source.set("name", "vol");
    source.set(kind, Value::Map(of));
    let mut mount = Map::default();
    mount.set("name", "vol");
    mount.set("mountPath", "/scrub");
    let mut container = Map::default();
    container.set("name", CONTAINER);
    container.set("image", IMAGE);
    container.set("command", vec![Value::from("/bin/sh")]);
    container.set("args", vec![Value::from("-c"), Value::from(SCRIPT)]);
    container.set("volumeMounts", vec![Value::Map(mount)]);
    let mut pod = Value::map();
    let metadata = pod.map_at(&["metadata"]);
    metadata.set("name", format!("{PREFIX}{name}"));
    metadata.set("namespace", NAMESPACE);
    let mut annotations = Map::default();
    annotations.set(RELEASE, release.to_owned());
    metadata.set("annotations", annotations);
    let spec = pod.map_at(&["spec"]);
    spec.set("activeDeadlineSeconds", gib.saturating_mul(patience.per_gib).max(patience.least));
    spec.set("restartPolicy", "Never");
    spec.set("volumes", vec![Value::Map(source)]);
    spec.set("containers", vec![Value::Map(container)]);
    Some(pod)
}
