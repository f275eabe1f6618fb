//! What a converged cluster must look like, for each kind, from the stored objects alone.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::TestCluster;

use crate::device_steps::{self, Uses};
use crate::volume_steps;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
    /// Suspended in the end.
    CronJob,
    Service,
    Budget,
    Claim,
    /// Of the workload with the same name, which has as many replicas as this says, whatever people ask for.
    Autoscaler,
}

impl Kind {
    pub fn has_replicas(self) -> bool {
        matches!(self, Kind::Deployment | Kind::ReplicaSet | Kind::ReplicationController | Kind::StatefulSet)
    }

    pub fn has_pods(self) -> bool {
        self.has_replicas() || matches!(self, Kind::DaemonSet | Kind::Job | Kind::CronJob)
    }
}

/// Something somebody declared and did not take back.
#[derive(Clone, Debug)]
pub struct Item {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    /// Replicas; completions of a Job; the least available pods of a budget.
    pub count: u64,
    pub devices: Uses,
}

impl Item {
    pub fn collection(&self) -> String {
        let namespace = &self.namespace;
        match self.kind {
            Kind::Deployment => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            Kind::ReplicaSet => format!("/apis/apps/v1/namespaces/{namespace}/replicasets"),
            Kind::ReplicationController => format!("/api/v1/namespaces/{namespace}/replicationcontrollers"),
            Kind::StatefulSet => format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"),
            Kind::DaemonSet => format!("/apis/apps/v1/namespaces/{namespace}/daemonsets"),
            Kind::CronJob => format!("/apis/batch/v1/namespaces/{namespace}/cronjobs"),
            Kind::Job => format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
            Kind::Service => format!("/api/v1/namespaces/{namespace}/services"),
            Kind::Budget => format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
            Kind::Claim => volume_steps::claims(namespace),
            Kind::Autoscaler => {
                format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")
            }
        }
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// As it is first declared; services, budgets and autoscalers still lack whom they are for.
    pub fn body(&self) -> Value {
        let (name, count) = (&self.name, self.count);
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": self.pod_spec("v")});
        let spec = match self.kind {
            Kind::Deployment | Kind::ReplicaSet => {
                json!({"replicas": count, "selector": {"matchLabels": labels}, "template": template})
            }
            Kind::StatefulSet => {
                // Both ways of managing pods, by chance.
                let policy = if count % 2 == 0 { "Parallel" } else { "OrderedReady" };
                json!({"replicas": count, "podManagementPolicy": policy, "selector": {"matchLabels": labels},
                    "template": template})
            }
            Kind::DaemonSet => json!({"selector": {"matchLabels": labels}, "template": template}),
            Kind::CronJob => {
                let work = json!({"name": "c", "image": "v", "command": ["sleep", "5"]});
                let spec = self.with_devices(json!({"restartPolicy": "Never", "containers": [work]}));
                let policy = ["Allow", "Forbid", "Replace"][count as usize % 3];
                json!({"schedule": "* * * * *", "concurrencyPolicy": policy,
                    "jobTemplate": {"spec": {"backoffLimit": 100, "template": {"spec": spec}}}})
            }
            Kind::ReplicationController => {
                json!({"replicas": count, "selector": labels, "template": template})
            }
            Kind::Job => {
                let work = json!({"name": "c", "image": "v", "command": ["sleep", "15"]});
                let spec = self.with_devices(json!({"restartPolicy": "Never", "containers": [work]}));
                // Pods that people delete count as failures.
                json!({"completions": count, "parallelism": 2, "backoffLimit": 100, "template": {"spec": spec}})
            }
            Kind::Service => json!({"ports": [{"port": 80}]}),
            Kind::Budget => json!({"minAvailable": count}),
            Kind::Claim => return volume_steps::claim(name, name),
            Kind::Autoscaler => json!({"minReplicas": count, "maxReplicas": count}),
        };
        json!({"metadata": {"name": name}, "spec": spec})
    }

    /// Of one that runs for ever.
    pub fn pod_spec(&self, image: &str) -> Value {
        self.with_devices(json!({"containers": [{"name": "c", "image": image}]}))
    }

    fn with_devices(&self, mut spec: Value) -> Value {
        self.devices.add_to(&mut spec, &self.name);
        spec
    }
}

/// Panics with `run` and the object that is not as it should be.
pub async fn converged(cluster: &TestCluster, declared: &[Item], gone: &[String], run: &str) {
    let all = Everything::read(cluster).await;
    for node in &all.nodes {
        assert_eq!(condition(node, "Ready"), "True", "{run}: {node:#}");
        assert!(node["spec"].get("taints").is_none(), "{run}: {node:#}");
    }
    for pod in &all.pods {
        let place = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        assert!(place.starts_with("sim-"), "{run}: {pod:#}");
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{run}: {pod:#}");
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        assert!(ended || condition(pod, "Ready") == "True", "{run}: {pod:#}");
        assert!(!all.owners_of(pod).is_empty(), "{run}: nobody wants this pod: {pod:#}");
    }
    device_steps::devices_are_in_use(&all.pods, &all.resource_claims, run);
    for item in declared {
        let object = cluster.get(item.path()).await.ok(200);
        match item.kind {
            Kind::Deployment => deployment(&all, item, &object, run),
            Kind::ReplicaSet | Kind::ReplicationController => replicas(&all, item, &object, run),
            Kind::StatefulSet => stateful(&all, item, &object, run),
            Kind::DaemonSet => daemons(&all, &object, run),
            Kind::CronJob => cron_job(&all, &object, run),
            Kind::Job => job(&all, item, &object, run),
            Kind::Service => service(&all, &object, run),
            Kind::Budget => budget(&all, item, &object, run),
            Kind::Autoscaler => {
                assert_eq!(object["status"]["currentReplicas"], item.count, "{run}: {object:#}");
            }
            Kind::Claim => {
                assert_eq!(object["status"]["phase"], "Bound", "{run}: {object:#}");
                assert_eq!(object["spec"]["volumeName"], *item.name, "{run}: {object:#}");
            }
        }
    }
    // One whose claim was deleted before it was bound is still free.
    let (bound, free): (Vec<&Value>, Vec<&Value>) =
        all.volumes.iter().partition(|volume| volume["status"]["phase"] == "Bound");
    for volume in free {
        assert_eq!(volume["status"]["phase"], "Available", "{run}: {volume:#}");
    }
    // Nothing but what was declared, and what that needs.
    let of = |kind: Kind| declared.iter().filter(|item| item.kind == kind).count();
    let owned = |set: &&Value| set["metadata"]["ownerReferences"].is_null();
    assert_eq!(all.sets.iter().filter(owned).count(), of(Kind::ReplicaSet), "{run}: replica sets");
    assert_eq!(bound.len(), of(Kind::Claim), "{run}: volumes");
    let replicas: u64 = declared.iter().filter(|item| item.kind.has_replicas()).map(|item| item.count).sum();
    let replicas = replicas + (of(Kind::DaemonSet) * all.nodes.len()) as u64;
    let standing = all.pods.iter().filter(|pod| !is_of_job(pod)).count() as u64;
    assert_eq!(standing, replicas, "{run}: pods");
    for namespace in gone {
        cluster.get(format!("/api/v1/namespaces/{namespace}")).await.ok(404);
        let left = all.keys.iter().filter(|key| key.contains(&format!("/{namespace}/")));
        let left: Vec<&String> = left.filter(|key| !key.starts_with("/registry/events/")).collect();
        assert!(left.is_empty(), "{run}: left of {namespace}: {left:?}");
    }
}

/// The cluster as it stands.
struct Everything {
    nodes: Vec<Value>,
    pods: Vec<Value>,
    sets: Vec<Value>,
    jobs: Vec<Value>,
    slices: Vec<Value>,
    endpoints: Vec<Value>,
    volumes: Vec<Value>,
    resource_claims: Vec<Value>,
    /// Of all objects, as stored.
    keys: Vec<String>,
}

impl Everything {
    async fn read(cluster: &TestCluster) -> Everything {
        let list = |path: &'static str| async move {
            cluster.get(path).await.ok(200)["items"].as_array().cloned().unwrap_or_default()
        };
        let table = cluster.api().registry().table();
        let mut keys = Vec::new();
        for storage in table.catalog().storages() {
            let everything = table::Selection::everything(table::Scope::All);
            let page = table.list(storage.id, &everything, None, None, 0).expect("the present is readable");
            keys.extend(page.items.iter().map(|obj| obj.key().to_owned()));
        }
        Everything {
            nodes: list("/api/v1/nodes").await,
            pods: list("/api/v1/pods").await,
            sets: list("/apis/apps/v1/replicasets").await,
            jobs: list("/apis/batch/v1/jobs").await,
            slices: list("/apis/discovery.k8s.io/v1/endpointslices").await,
            endpoints: list("/api/v1/endpoints").await,
            volumes: list(volume_steps::VOLUMES).await,
            resource_claims: list("/apis/resource.k8s.io/v1/resourceclaims").await,
            keys,
        }
    }

    fn owners_of(&self, object: &Value) -> Vec<String> {
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.iter().filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect()
    }

    fn owned<'a>(&'a self, by: &Value, of: &'a [Value]) -> Vec<&'a Value> {
        let uid = by["metadata"]["uid"].as_str().expect("a uid").to_owned();
        of.iter().filter(|object| self.owners_of(object).contains(&uid)).collect()
    }

    /// Ready pods somebody selects, by name.
    fn ready(&self, namespace: &Value, labels: &Value) -> BTreeSet<String> {
        let labels = labels.as_object().expect("a selector");
        let selected = self.pods.iter().filter(|pod| {
            pod["metadata"]["namespace"] == *namespace
                && labels.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value)
                && condition(pod, "Ready") == "True"
        });
        selected.map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }
}

fn is_of_job(pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
}

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}

fn counts(object: &Value, fields: &[&str], wanted: u64, run: &str) {
    for field in fields {
        assert_eq!(object["status"][field].as_u64().unwrap_or(0), wanted, "{run}: {field} of {object:#}");
    }
}

fn is_observed(object: &Value, run: &str) {
    let (now, seen) = (&object["metadata"]["generation"], &object["status"]["observedGeneration"]);
    assert_eq!(now, seen, "{run}: {object:#}");
}

fn deployment(all: &Everything, item: &Item, object: &Value, run: &str) {
    is_observed(object, run);
    counts(object, &["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"], item.count, run);
    counts(object, &["unavailableReplicas", "terminatingReplicas"], 0, run);
    for kind in ["Available", "Progressing"] {
        assert_eq!(condition(object, kind), "True", "{run}: {kind} of {object:#}");
    }
    let sets = all.owned(object, &all.sets);
    let template = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let (new, old): (Vec<&Value>, Vec<&Value>) =
        sets.into_iter().partition(|set| template(set) == template(object));
    assert_eq!(new.len(), 1, "{run}: the new sets of {object:#}");
    let new_item = Item { kind: Kind::ReplicaSet, ..item.clone() };
    replicas(all, &new_item, new[0], run);
    for set in old {
        replicas(all, &Item { count: 0, ..new_item.clone() }, set, run);
    }
}

fn replicas(all: &Everything, item: &Item, object: &Value, run: &str) {
    is_observed(object, run);
    assert_eq!(object["spec"]["replicas"].as_u64(), Some(item.count), "{run}: {object:#}");
    counts(
        object,
        &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        item.count,
        run,
    );
    let pods = all.owned(object, &all.pods);
    assert_eq!(pods.len() as u64, item.count, "{run}: pods of {object:#}");
    assert!(pods.iter().all(|pod| condition(pod, "Ready") == "True"), "{run}: pods of {object:#}");
}

fn stateful(all: &Everything, item: &Item, object: &Value, run: &str) {
    is_observed(object, run);
    let fields = ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"];
    counts(object, &fields, item.count, run);
    let revision = &object["status"]["updateRevision"];
    assert_eq!(*revision, object["status"]["currentRevision"], "{run}: {object:#}");
    let pods = all.owned(object, &all.pods);
    let names: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    let wanted: Vec<String> = (0..item.count).map(|ordinal| format!("{}-{ordinal}", item.name)).collect();
    assert_eq!(names, wanted.iter().map(String::as_str).collect(), "{run}: pods of {object:#}");
    let image = |spec: &Value| spec["containers"][0]["image"].clone();
    for pod in pods {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], *revision, "{run}: {pod:#}");
        assert_eq!(image(&pod["spec"]), image(&object["spec"]["template"]["spec"]), "{run}: {pod:#}");
    }
}

/// One of the present template on every node.
fn daemons(all: &Everything, object: &Value, run: &str) {
    is_observed(object, run);
    let nodes = all.nodes.len() as u64;
    for field in ["desired", "current", "updated"] {
        counts(object, &[&format!("{field}NumberScheduled")], nodes, run);
    }
    counts(object, &["numberReady", "numberAvailable"], nodes, run);
    counts(object, &["numberUnavailable", "numberMisscheduled"], 0, run);
    let pods = all.owned(object, &all.pods);
    let places: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!((pods.len() as u64, places.len() as u64), (nodes, nodes), "{run}: pods of {object:#}");
    let image = |spec: &Value| spec["containers"][0]["image"].clone();
    let wanted = image(&object["spec"]["template"]["spec"]);
    assert!(pods.iter().all(|pod| image(&pod["spec"]) == wanted), "{run}: pods of {object:#}");
}

/// Nothing runs, and no more Jobs are left than the history keeps.
fn cron_job(all: &Everything, object: &Value, run: &str) {
    assert!(object["status"]["active"].is_null(), "{run}: {object:#}");
    let jobs = all.owned(object, &all.jobs);
    assert!(jobs.len() <= 4, "{run}: {} Jobs of {object:#}", jobs.len());
    for job in jobs {
        let ended = ["Complete", "Failed"].iter().any(|end| condition(job, end) == "True");
        assert!(ended, "{run}: {job:#}");
    }
}

fn job(all: &Everything, item: &Item, object: &Value, run: &str) {
    assert_eq!(condition(object, "Complete"), "True", "{run}: {object:#}");
    counts(object, &["succeeded"], item.count, run);
    counts(object, &["active", "ready", "terminating"], 0, run);
    assert!(object["status"]["completionTime"].is_string(), "{run}: {object:#}");
    let uncounted = &object["status"]["uncountedTerminatedPods"];
    assert!(uncounted.as_object().is_none_or(|lists| lists.is_empty()), "{run}: {object:#}");
    for pod in all.owned(object, &all.pods) {
        assert!(pod["metadata"]["finalizers"].is_null(), "{run}: still tracked: {pod:#}");
        assert_ne!(pod["status"]["phase"], "Running", "{run}: {pod:#}");
    }
}

/// The same addresses in slices and in Endpoints: those of the ready pods.
fn service(all: &Everything, object: &Value, run: &str) {
    let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
    let ready = all.ready(namespace, &object["spec"]["selector"]);
    let target = |endpoint: &Value| endpoint["targetRef"]["name"].as_str().unwrap_or("nobody").to_owned();
    let slices = all.owned(object, &all.slices);
    assert!(!slices.is_empty(), "{run}: no slice of {object:#}");
    let in_slices =
        slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let in_slices: Vec<Value> = in_slices.collect();
    assert!(in_slices.iter().all(|e| e["conditions"]["ready"] == true), "{run}: {in_slices:#?}");
    assert_eq!(in_slices.len(), ready.len(), "{run}: {in_slices:#?}");
    assert_eq!(in_slices.iter().map(target).collect::<BTreeSet<_>>(), ready, "{run}: slices of {name}");
    let same = |e: &&Value| e["metadata"]["name"] == *name && e["metadata"]["namespace"] == *namespace;
    let endpoints =
        all.endpoints.iter().find(same).unwrap_or_else(|| panic!("{run}: no Endpoints of {name}"));
    let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
    assert!(subsets.iter().all(|subset| subset["notReadyAddresses"].is_null()), "{run}: {endpoints:#}");
    let addresses =
        subsets.iter().flat_map(|subset| subset["addresses"].as_array().cloned().unwrap_or_default());
    assert_eq!(addresses.map(|a| target(&a)).collect::<BTreeSet<_>>(), ready, "{run}: {endpoints:#}");
}

fn budget(all: &Everything, item: &Item, object: &Value, run: &str) {
    is_observed(object, run);
    let selector = &object["spec"]["selector"]["matchLabels"];
    let healthy = all.ready(&object["metadata"]["namespace"], selector).len() as u64;
    counts(object, &["currentHealthy", "expectedPods"], healthy, run);
    counts(object, &["desiredHealthy"], item.count, run);
    counts(object, &["disruptionsAllowed"], healthy.saturating_sub(item.count), run);
    assert!(
        object["status"]["disruptedPods"].as_object().is_none_or(|pods| pods.is_empty()),
        "{run}: {object:#}"
    );
    let allowed = if healthy > item.count { "True" } else { "False" };
    assert_eq!(condition(object, "DisruptionAllowed"), allowed, "{run}: {object:#}");
}
