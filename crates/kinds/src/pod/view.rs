//! What controllers read of a pod: a few hundred bytes, made once per revision and shared.

use object::{Value, time};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    #[default]
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// The state of a pod. Labels, owners, uid and deletion are in the object's header already.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    pub phase: Phase,
    pub ready: bool,
    /// Unix seconds of the last change of the Ready condition; 0: unknown.
    pub ready_since: i64,
    pub created: i64,
    /// Unix seconds of status.startTime; 0: not started.
    pub started: i64,
    /// Unix seconds; 0: not being deleted.
    pub deletion: i64,
    pub deletion_grace_seconds: i64,
    /// Empty: not bound.
    pub node: Box<str>,
    pub nominated_node: Box<str>,
    /// `controller.kubernetes.io/pod-deletion-cost`, 0 if absent or no number.
    pub deletion_cost: i32,
    /// Of the container that restarted most.
    pub max_restarts: i64,
    /// Of the sidecar that restarted most.
    pub max_sidecar_restarts: i64,
    /// Sum over containers.
    pub restarts: i64,
    pub host_ip: Box<str>,
    pub ips: Box<[Box<str>]>,
    pub hostname: Box<str>,
    pub subdomain: Box<str>,
    pub host_network: bool,
    pub priority: i64,
    /// "Always", "OnFailure", "Never".
    pub restart_policy: Box<str>,
    pub ports: Box<[PortView]>,
    pub reason: Box<str>,
    pub finalizers: Box<[Box<str>]>,
    /// `batch.kubernetes.io/job-completion-index`: its index in an indexed Job.
    pub completion_index: Option<u32>,
    /// Sum over init containers.
    pub init_restarts: i64,
    /// Unix seconds since which it is a disruption target, set by others than its node; 0: it is not.
    pub disrupted_since: i64,
    /// Volumes that are claims: the volume's name and the claim's.
    pub claims: Box<[(Box<str>, Box<str>)]>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortView {
    pub name: Box<str>,
    pub number: i64,
    pub protocol: Box<str>,
}

impl PodView {
    pub fn read(pod: &Value) -> PodView {
        let text = |path: &[&str]| Box::<str>::from(pod.str_at(path).unwrap_or(""));
        let moment = |value: Option<&str>| value.and_then(time::parse).map_or(0, |(seconds, _)| seconds);
        let list = |path: &[&str]| pod.at(path).and_then(Value::as_list).unwrap_or_default();
        let int = |path: &[&str]| pod.at(path).and_then(Value::as_int).unwrap_or(0);
        let ready = list(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == Some("Ready"));
        let restarts = |c: &Value| c.get("restartCount").and_then(Value::as_int).unwrap_or(0);
        let counts = || list(&["status", "containerStatuses"]).iter().map(restarts);
        let cost = pod
            .at(&["metadata", "annotations"])
            .and_then(|a| a.str_at(&["controller.kubernetes.io/pod-deletion-cost"]));
        PodView {
            phase: match pod.str_at(&["status", "phase"]) {
                Some("Running") => Phase::Running,
                Some("Succeeded") => Phase::Succeeded,
                Some("Failed") => Phase::Failed,
                Some("Unknown") => Phase::Unknown,
                _ => Phase::Pending,
            },
            ready: ready.is_some_and(|c| c.str_at(&["status"]) == Some("True")),
            ready_since: moment(ready.and_then(|c| c.str_at(&["lastTransitionTime"]))),
            created: moment(pod.str_at(&["metadata", "creationTimestamp"])),
            started: moment(pod.str_at(&["status", "startTime"])),
            deletion: moment(pod.str_at(&["metadata", "deletionTimestamp"])),
            deletion_grace_seconds: int(&["metadata", "deletionGracePeriodSeconds"]),
            node: text(&["spec", "nodeName"]),
            nominated_node: text(&["status", "nominatedNodeName"]),
            deletion_cost: cost.and_then(|c| c.parse().ok()).unwrap_or(0),
            max_restarts: counts().max().unwrap_or(0),
            max_sidecar_restarts: sidecar_restarts(pod),
            restarts: counts().sum(),
            host_ip: text(&["status", "hostIP"]),
            ips: list(&["status", "podIPs"])
                .iter()
                .filter_map(|ip| ip.str_at(&["ip"]))
                .map(Box::from)
                .collect(),
            hostname: text(&["spec", "hostname"]),
            subdomain: text(&["spec", "subdomain"]),
            host_network: pod.at(&["spec", "hostNetwork"]).and_then(Value::as_bool).unwrap_or(false),
            priority: int(&["spec", "priority"]),
            restart_policy: text(&["spec", "restartPolicy"]),
            ports: ports(pod),
            reason: text(&["status", "reason"]),
            finalizers: list(&["metadata", "finalizers"])
                .iter()
                .filter_map(Value::as_str)
                .map(Box::from)
                .collect(),
            completion_index: completion_index(pod),
            init_restarts: list(&["status", "initContainerStatuses"]).iter().map(restarts).sum(),
            disrupted_since: list(&["status", "conditions"])
                .iter()
                .find(|c| {
                    c.str_at(&["type"]) == Some("DisruptionTarget")
                        && c.str_at(&["status"]) == Some("True")
                        && c.str_at(&["reason"]) != Some("TerminationByKubelet")
                })
                .map_or(0, |c| moment(c.str_at(&["lastTransitionTime"])).max(1)),
            claims: list(&["spec", "volumes"])
                .iter()
                .filter_map(|volume| {
                    let claim = volume.str_at(&["persistentVolumeClaim", "claimName"])?;
                    Some((volume.str_at(&["name"])?.into(), claim.into()))
                })
                .collect(),
        }
    }

    /// Succeeded or failed: it will never run again.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Active: neither finished nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && self.deletion == 0
    }

    /// Ready for at least that long at `now`.
    pub fn is_available(&self, min_ready_seconds: i64, now: i64) -> bool {
        self.ready
            && (min_ready_seconds == 0
                || (self.ready_since != 0 && self.ready_since + min_ready_seconds <= now))
    }
}

/// Of init containers, only those that go on running count.
fn sidecar_restarts(pod: &Value) -> i64 {
    let list = |path: &[&str]| pod.at(path).and_then(Value::as_list).unwrap_or_default();
    let sidecar = |name: Option<&str>| {
        let mut all = list(&["spec", "initContainers"]).iter();
        all.any(|c| c.str_at(&["name"]) == name && c.str_at(&["restartPolicy"]) == Some("Always"))
    };
    let statuses = list(&["status", "initContainerStatuses"]).iter();
    let restarts = statuses
        .filter(|s| sidecar(s.str_at(&["name"])))
        .filter_map(|s| s.get("restartCount").and_then(Value::as_int));
    restarts.max().unwrap_or(0)
}

/// Numbers larger than any Job can have are all out of range.
fn completion_index(pod: &Value) -> Option<u32> {
    let annotations = pod.at(&["metadata", "annotations"])?;
    let index: i64 = annotations.str_at(&["batch.kubernetes.io/job-completion-index"])?.parse().ok()?;
    (index >= 0).then(|| u32::try_from(index).unwrap_or(u32::MAX))
}

/// Named ports of all containers, sidecars included, in order.
fn ports(pod: &Value) -> Box<[PortView]> {
    let list = |name: &str| pod.at(&["spec", name]).and_then(Value::as_list).unwrap_or_default();
    let sidecars = list("initContainers").iter().filter(|c| c.str_at(&["restartPolicy"]) == Some("Always"));
    let of = |container: &Value| {
        let ports = container.get("ports").and_then(Value::as_list).unwrap_or_default();
        let read = |port: &Value| PortView {
            name: port.str_at(&["name"]).unwrap_or("").into(),
            number: port.get("containerPort").and_then(Value::as_int).unwrap_or(0),
            protocol: port.str_at(&["protocol"]).unwrap_or("TCP").into(),
        };
        ports.iter().map(read).collect::<Vec<_>>()
    };
    list("containers").iter().chain(sidecars).flat_map(of).collect()
}
