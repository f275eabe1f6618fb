//! A node's signs of life: it registers once, renews its lease four times within it, and reports its status when that changed.
//!
//! Differs from kubelet, which repeats an unchanged status every five minutes: the lease says that the node lives, and while nothing
//! changes nothing else is written.
//!
//! ```text
//! Unregistered ── created, or found ──> Beating <── the object is back, speaks again ── Quiet
//!                                          └───── the object is gone, or is unreachable ────^
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use client::resources::{LEASES, NODES};
use client::{Patch, WriteOptions};
use object::{Map, Obj, Revision, Status, Value, time};
use runtime::{Key, ObjectRef, ReconcileRequest, Severity};

use super::{Again, Agent, FindPod};
use crate::admit;
use crate::container_runtime::{Health, Millis};
use crate::machine::status_differs;

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// How often a node says that it lives, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatPeriods {
    /// Without a renewal within these, the node counts as gone.
    pub lease_seconds: i64,
    /// A status that changed is not written more often than this.
    pub status: Duration,
}

impl Default for HeartbeatPeriods {
    fn default() -> HeartbeatPeriods {
        HeartbeatPeriods { lease_seconds: 40, status: Duration::from_secs(10) }
    }
}

impl HeartbeatPeriods {
    /// A quarter of the lease, so that a renewal or two may fail.
    fn renew_millis(&self) -> Millis {
        self.lease_seconds.saturating_mul(1000) / 4
    }

    /// At least a second: a look at the machine is not free.
    fn status_millis(&self) -> Millis {
        Millis::try_from(self.status.as_millis()).unwrap_or(Millis::MAX / 2).max(1000)
    }
}

#[derive(Default)]
pub(super) struct Heartbeat {
    registered: bool,
    /// The node has a taint that pods must stand to be taken.
    pub evicts: bool,
    /// The revision of our last write of the object.
    written: Revision,
    /// The revision of the object that was last looked at.
    seen: Revision,
    lease_due: Millis,
    /// Nothing to say about the status before this, unless the object changes.
    status_due: Millis,
    reported: Millis,
    /// As the object said last.
    unschedulable: bool,
    /// People were told that its pods have other addresses than the object says.
    told_cidrs: bool,
}

/// A status to write, and what people should be told of it.
struct Report {
    tree: Value,
    told: Vec<Told>,
}

/// With reason and message.
type Told = (Severity, &'static str, String);

impl Agent {
    /// `obj` is the node's own object, where there is one. Tells of the pods that waited for this node, too.
    pub async fn sync_node(
        &self,
        request: &ReconcileRequest<'_>,
        obj: Option<&Obj>,
        find: &FindPod<'_>,
    ) -> (Again, BTreeSet<Key>) {
        if let Some(observer) = &self.observer {
            observer.turn();
        }
        if !self.inner.lock().heartbeat.registered {
            request.plan(|| "register".to_owned());
            return match self.register().await {
                // The object that comes back asks for the next reconcile; so does this, should it be here already.
                Ok(()) => (Again::At(self.now() + 1), BTreeSet::new()),
                Err(status) => {
                    let (node, error) = (&*self.name, status.message);
                    tracing::warn!(node, error, "failed to register node, retrying");
                    (Again::Soon, BTreeSet::new())
                }
            };
        }
        if let Some(obj) = obj.filter(|obj| self.only_lease(obj)) {
            request.plan(|| "renew the lease if it is due".to_owned());
            return (self.beat(obj, None).await, BTreeSet::new());
        }
        let tree = obj.map(runtime::tree);
        // What shows a static pod is not a pod of its own.
        let find = |key: &Key| find(key).filter(|obj| !self.is_mirror(obj));
        let (static_pods, now) = (self.static_pods.as_deref(), self.now());
        let (health, awake) = self.inner.lock().hear(tree.as_ref(), static_pods, &find, now);
        let (Some(obj), Some(tree)) = (obj, tree) else {
            request.plan(|| "nothing: the node's object is gone".to_owned());
            return (Again::OnChange, awake);
        };
        if health == Health::Unreachable {
            request.plan(|| "nothing: the node is unreachable".to_owned());
            return (Again::OnChange, awake);
        }
        self.tell_of_node(self.turned(obj, &tree));
        self.tell_of_node(self.other_cidrs(obj, &tree));
        let report = self.report(obj, tree, &health);
        request.plan(|| {
            let status = if report.is_some() { "report the status, " } else { "" };
            format!("{status}renew the lease if it is due")
        });
        (self.beat(obj, report).await, awake)
    }

    /// Only the lease can be due: not worth reading the object.
    fn only_lease(&self, obj: &Obj) -> bool {
        let inner = self.inner.lock();
        !inner.quiet
            && !inner.sweep_due
            && inner.heartbeat.seen == obj.revision()
            && self.now() < inner.heartbeat.status_due
    }

    async fn register(&self) -> Result<(), Status> {
        let health = self.inner.lock().runtime.health();
        let created = if self.machine.registers() {
            let node = self.machine.node(&self.identity(), &health, self.now());
            Some(self.client.create(NODES.everywhere(), node, WriteOptions::default()).await)
        } else {
            None
        };
        let written = match created {
            Some(Ok(obj)) => obj.revision(),
            // Somebody else makes the object, and says what it is labelled with.
            None => self.client.get(NODES.at("", &self.name)).await?.revision(),
            // Who may not make it may still be the one it was made for.
            Some(Err(status)) if matches!(status.reason, "AlreadyExists" | "Forbidden") => {
                let obj = match self.client.get(NODES.at("", &self.name)).await {
                    Err(missing) if missing.code == 404 => return Err(status),
                    found => found?,
                };
                match self.machine.missing(&self.identity(), &runtime::tree(&obj)) {
                    Some(patch) => self
                        .client
                        .patch(NODES.at("", &self.name), Patch::Merge(patch), WriteOptions::default())
                        .await?
                        .revision(),
                    None => obj.revision(),
                }
            }
            Some(Err(status)) => return Err(status),
        };
        let now = self.now();
        {
            let mut inner = self.inner.lock();
            inner.heartbeat.registered = true;
            inner.heartbeat.written = written;
            inner.heartbeat.reported = now;
        }
        // Of thousands of simulated nodes nobody wants to hear that.
        if self.machine.changes() {
            let status = self.machine.status(&self.identity(), &Value::map(), &health, now);
            let all = told(&self.name, None, &status).into_iter();
            // Whether it is ready is told when that changes.
            self.tell_of_node(all.filter(|(_, reason, _)| !READY.contains(reason)));
        }
        Ok(())
    }

    /// Somebody made the node schedulable, or not. What is older than our own write says nothing.
    fn turned(&self, obj: &Obj, tree: &Value) -> Option<Told> {
        let unschedulable = tree.at(&["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or(false);
        let heartbeat = &mut self.inner.lock().heartbeat;
        if obj.revision() < heartbeat.written
            || std::mem::replace(&mut heartbeat.unschedulable, unschedulable) == unschedulable
        {
            return None;
        }
        let reason = if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
        Some((Severity::Normal, reason, now_is(&self.name, reason)))
    }

    /// Others route to ranges that are not those of its pods: somebody must choose one of them. Told once.
    fn other_cidrs(&self, obj: &Obj, tree: &Value) -> Option<Told> {
        if obj.revision() < self.inner.lock().heartbeat.written {
            return None;
        }
        let other = self.machine.other_pod_cidrs(&self.identity(), tree);
        let told_before = std::mem::replace(&mut self.inner.lock().heartbeat.told_cidrs, other.is_some());
        let (said, used) = other.filter(|_| !told_before)?;
        tracing::error!(node = &*self.name, said, used, "the Node's podCIDRs are not those of its pods");
        let message = format!(
            "Node {} has podCIDRs {said}, but its pods get addresses of {used}: start it with --pod-cidr={said}, or delete the Node and start it again",
            self.name
        );
        Some((Severity::Warning, "PodCIDRMismatch", message))
    }

    fn tell_of_node(&self, told: impl IntoIterator<Item = Told>) {
        for (severity, reason, message) in told {
            let about = ObjectRef {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                namespace: String::new(),
                name: self.name.to_string(),
                // Kubelet knows itself by name only.
                uid: self.name.to_string(),
                resource_version: String::new(),
                field_path: String::new(),
            };
            self.tell(about, severity, reason, message);
        }
    }

    /// The status to write now, if any.
    fn report(&self, obj: &Obj, mut tree: Value, health: &Health) -> Option<Report> {
        let now = self.now();
        let mut inner = self.inner.lock();
        let heartbeat = &mut inner.heartbeat;
        heartbeat.evicts = admit::no_execute(&tree).next().is_some();
        heartbeat.seen = obj.revision();
        if obj.revision() < heartbeat.written {
            // What is older than our own write says nothing; the write itself is on its way here.
            heartbeat.status_due = Millis::MAX;
            return None;
        }
        let wanted = self.machine.status(&self.identity(), &tree, health, now);
        let old = tree.get("status");
        let changed = status_differs(old, &wanted);
        heartbeat.status_due = match changed {
            true => heartbeat.reported.min(now).saturating_add(self.periods.status_millis()),
            false => self.status_again(now),
        };
        if !changed || now < heartbeat.status_due {
            return None;
        }
        let told = told(&self.name, old, &wanted);
        tree.make_map().set("status", wanted);
        Some(Report { tree, told })
    }

    /// When to look whether the status changed, if it is now as it was written.
    fn status_again(&self, now: Millis) -> Millis {
        if self.machine.changes() { now.saturating_add(self.periods.status_millis()) } else { Millis::MAX }
    }

    /// The runtime has news of the node itself: they are not put off.
    pub fn node_awake(&self) {
        let mut inner = self.inner.lock();
        inner.heartbeat.seen = Revision(0);
        inner.heartbeat.reported = 0;
        // The runtime may have found what nobody asked for.
        inner.sweep_due = true;
    }

    /// Writes what is due; tells when the next is.
    async fn beat(&self, node: &Obj, report: Option<Report>) -> Again {
        match self.try_beat(node, report).await {
            Ok(()) => {
                let renew = self.periods.renew_millis();
                let inner = self.inner.lock();
                Again::At(
                    inner
                        .heartbeat
                        .lease_due
                        .min(self.now().saturating_add(renew))
                        .min(inner.heartbeat.status_due),
                )
            }
            Err(status) => {
                // Whatever was wanted is looked at anew.
                self.inner.lock().heartbeat.seen = Revision(0);
                let (again, node, error) = (Again::after(&status), &*self.name, &status.message);
                if again == Again::Later {
                    tracing::warn!(node, error, "failed to report node status");
                } else {
                    tracing::debug!(node, error, "heartbeat failed, retrying");
                }
                again
            }
        }
    }

    async fn try_beat(&self, node: &Obj, report: Option<Report>) -> Result<(), Status> {
        let (lease_due, renew) = (self.inner.lock().heartbeat.lease_due, self.periods.renew_millis());
        // A clock that was set back must not silence the node.
        if lease_due <= self.now() || lease_due > self.now().saturating_add(renew) {
            self.renew(node).await?;
            // Where in its period a node beats is drawn once, so that thousands do not beat together.
            let first = lease_due == 0;
            let wait = if first { self.env.random_below(renew.max(1) as u64) as Millis } else { renew };
            self.inner.lock().heartbeat.lease_due = self.now().saturating_add(wait.max(1));
        }
        let Some(Report { tree, told }) = report else { return Ok(()) };
        let written =
            self.client.update(NODES.at("", &self.name).sub("status"), tree, WriteOptions::default()).await?;
        {
            let now = self.now();
            let mut inner = self.inner.lock();
            let heartbeat = &mut inner.heartbeat;
            heartbeat.written = written.revision();
            heartbeat.reported = now;
            heartbeat.status_due = self.status_again(now);
        }
        self.tell_of_node(told);
        Ok(())
    }

    async fn renew(&self, node: &Obj) -> Result<(), Status> {
        let nanos = self.env.now_nanos();
        let at = time::format_micros((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32);
        let mut lease = Value::map();
        let spec = lease.map_at(&["spec"]);
        spec.set("holderIdentity", &*self.name);
        spec.set("leaseDurationSeconds", Value::Int(self.periods.lease_seconds));
        spec.set("renewTime", at);
        let target = LEASES.at(LEASE_NAMESPACE, &self.name);
        match self.client.patch(target, Patch::Merge(lease.clone()), WriteOptions::default()).await {
            Err(status) if status.code == 404 => {}
            other => return other.map(|_| ()),
        }
        let mut owner = Map::with_capacity(4);
        owner.set("apiVersion", "v1");
        owner.set("kind", "Node");
        owner.set("name", &*self.name);
        owner.set("uid", node.uid());
        let metadata = lease.map_at(&["metadata"]);
        metadata.set("name", &*self.name);
        metadata.set("namespace", LEASE_NAMESPACE);
        metadata.set("ownerReferences", Value::List(vec![Value::Map(owner)]));
        self.client.create(LEASES.within(LEASE_NAMESPACE), lease, WriteOptions::default()).await.map(|_| ())
    }
}

/// The conditions whose turns are told: their type, and the reasons for True and False.
const TOLD: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    ("DiskPressure", "NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    ("PIDPressure", "NodeHasInsufficientPID", "NodeHasSufficientPID"),
    ("Ready", READY[0], READY[1]),
];
const READY: [&str; 2] = ["NodeReady", "NodeNotReady"];

/// What is told of a status that follows another.
fn told(name: &str, old: Option<&Value>, new: &Value) -> Vec<Told> {
    let mut told = Vec::new();
    let boot = |status: &Value| status.str_at(&["nodeInfo", "bootID"]).unwrap_or("").to_owned();
    let (before, now) = (old.map(boot).unwrap_or_default(), boot(new));
    if !before.is_empty() && before != now {
        let message = format!("Node {name} has been rebooted, boot id: {now}");
        told.push((Severity::Warning, "Rebooted", message));
    }
    for (kind, yes, no) in TOLD {
        if old.and_then(|old| said(old, kind)) != said(new, kind) {
            let reason = if said(new, kind) == Some("True") { yes } else { no };
            told.push((Severity::Normal, reason, now_is(name, reason)));
        }
    }
    told
}

fn now_is(name: &str, reason: &str) -> String {
    format!("Node {name} status is now: {reason}")
}

/// The status of a condition.
fn said<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let all = status.get("conditions").and_then(Value::as_list).unwrap_or_default();
    all.iter().find(|c| c.str_at(&["type"]) == Some(kind))?.str_at(&["status"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(memory: &str, ready: &str, boot: &str) -> Value {
        let text = format!(
            "{{nodeInfo: {{bootID: '{boot}'}}, conditions: [{{type: MemoryPressure, status: '{memory}'}}, {{type: Ready, status: '{ready}'}}]}}"
        );
        runtime::parse(&text).expect("a status")
    }

    fn reasons(old: &Value, new: &Value) -> Vec<&'static str> {
        told("n", Some(old), new).into_iter().map(|(_, reason, _)| reason).collect()
    }

    #[test]
    fn no_period_makes_a_node_look_without_a_pause() {
        let periods = HeartbeatPeriods { lease_seconds: 1, status: Duration::ZERO };
        assert_eq!((periods.renew_millis(), periods.status_millis()), (250, 1000));
        let usual = HeartbeatPeriods::default();
        assert_eq!((usual.renew_millis(), usual.status_millis()), (10_000, 10_000));
        let endless = HeartbeatPeriods { lease_seconds: i64::MAX, status: Duration::MAX };
        assert!(endless.renew_millis() > 0 && endless.status_millis() > 0);
    }

    #[test]
    fn turns_of_conditions_and_reboots_are_told() {
        let usual = status("False", "True", "a");
        assert!(reasons(&usual, &usual).is_empty());
        assert_eq!(reasons(&usual, &status("True", "True", "a")), ["NodeHasInsufficientMemory"]);
        assert_eq!(reasons(&status("True", "False", "a"), &usual), ["NodeHasSufficientMemory", "NodeReady"]);
        assert_eq!(reasons(&usual, &status("False", "False", "b")), ["Rebooted", "NodeNotReady"]);
        assert!(
            reasons(&status("False", "True", ""), &usual).is_empty(),
            "it has not said before how it was booted"
        );
    }
}
