//! The bootstrap objects of a cluster: namespaces, default roles and bindings, priority levels, the default ServiceCIDR and the
//! `kubernetes` service. Created when missing, reconciled where upstream reconciles them.

mod reconcile;

use std::sync::Arc;

use codec::json;
use futures_util::stream::{FuturesUnordered, StreamExt};
use object::{Status, Value};

use crate::api::Api;
use crate::controllers::{
    api_service_registration, cluster_authentication_trust, default_service_cidr, flow_schemas,
    kubernetes_service, service_ip_repair,
};
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
use reconcile::{Reconciled, reconcile};

/// One object a line, namespaces first.
const OBJECTS: &str = include_str!("../data/bootstrap.jsonl");

const FLOW_CONTROL: [&str; 2] = ["PriorityLevelConfiguration", "FlowSchema"];

/// The bootstrap of a server that starts, tried until nothing is missing.
pub struct Bootstrap {
    api: Arc<Api>,
    /// What a new cluster begins with. Who deletes it later does not want it again.
    initial: Vec<Value>,
    /// What is still to be created or reconciled: users may change what is done already.
    remaining: Vec<Value>,
    is_new_cluster: bool,
    has_loaded: bool,
}

impl Bootstrap {
    pub fn new(api: &Arc<Api>) -> Result<Bootstrap, Status> {
        let client = LoopbackClient::new(api);
        let is_new_cluster = client.get(("", "namespaces"), "", "kube-system").is_none();
        let initial = if is_new_cluster { api.cluster().initial_objects.clone() } else { Vec::new() };
        let remaining = objects(|_| true)?;
        Ok(Bootstrap { api: api.clone(), initial, remaining, is_new_cluster, has_loaded: false })
    }

    /// Creates missing objects and reconciles the others, with the loopback client. The first time, before anybody is served, it
    /// also loads what defines the API; from then on controllers follow that.
    pub async fn attempt(&mut self) -> Result<(), Status> {
        let api = self.api.clone();
        let client = LoopbackClient::new(&api);
        if !self.has_loaded {
            // Before anybody asks for a custom resource.
            api.custom_resources.define_all(&client)?;
        }
        let done = self.write(&client).await;
        if !self.has_loaded {
            // Before anybody asks for what another server serves.
            api.aggregation.load(&client)?;
            self.has_loaded = true;
        }
        match &done {
            Ok(()) => api.health.set_bootstrapped(),
            Err(status) => api.health.set_incomplete(&status.message),
        }
        done
    }

    async fn write(&mut self, client: &LoopbackClient<'_>) -> Result<(), Status> {
        let mut failed = Failed::default();
        // Before the namespaces, by which a later start knows that they were written.
        self.initial = failed.note_objects(ensure_all(client, std::mem::take(&mut self.initial)).await);
        if !self.initial.is_empty() {
            return failed.result();
        }
        self.remaining = failed.note_objects(ensure_all(client, std::mem::take(&mut self.remaining)).await);
        if let Err(status) = flow_schemas::sync_all(client).await {
            // The controller retries it.
            tracing::warn!(error = status.message, "could not write the status of the first FlowSchemas");
        }
        failed.note(cluster_authentication_trust::sync(client).await);
        failed.note(api_service_registration::register_all(client).await);
        failed.note(default_service_cidr::ensure(client).await);
        if let Err(status) = kubernetes_service::ensure_service(client).await {
            // A range whose first address is taken must not prevent the API from being served.
            tracing::warn!(error = status.message, "could not create the service of the API server");
        }
        // Data of other servers, or of another range, may contradict the services.
        failed.note(service_ip_repair::repair_ports(&self.api).await);
        failed.result()
    }

    /// Whether the server can serve although something is missing: the cluster was there before, and somebody, a webhook perhaps,
    /// refuses what it lacks now. Only who is served can change that.
    pub fn can_serve_incomplete(&self) -> bool {
        !self.is_new_cluster
    }
}

impl Api {
    /// The whole [`Bootstrap`], if nothing refuses any of it.
    pub async fn bootstrap(self: &Arc<Api>) -> Result<(), Status> {
        Bootstrap::new(self)?.attempt().await
    }
}

/// An object that could not be written, and why.
type Refused = (Value, Status);

/// What could not be written. The rest is written all the same: a webhook that refuses one object keeps no other from being there.
#[derive(Default)]
struct Failed {
    first: Option<Status>,
    more: usize,
}

impl Failed {
    fn note(&mut self, done: Result<(), Status>) {
        match (done, &self.first) {
            (Ok(()), _) => {}
            (Err(status), None) => self.first = Some(status),
            (Err(_), Some(_)) => self.more += 1,
        }
    }

    /// The objects that were refused.
    fn note_objects(&mut self, refused: Vec<Refused>) -> Vec<Value> {
        let object = |(object, status)| {
            self.note(Err(status));
            object
        };
        refused.into_iter().map(object).collect()
    }

    fn result(self) -> Result<(), Status> {
        let Some(mut first) = self.first else { return Ok(()) };
        if self.more > 0 {
            first.message = format!("{}; and {} more", first.message, self.more);
        }
        Err(first)
    }
}

/// The system namespaces.
pub(crate) async fn ensure_namespaces(client: &LoopbackClient<'_>) -> Result<(), Status> {
    ensured(ensure_all(client, objects(|kind| kind == "Namespace")?).await)
}

/// The default FlowSchemas and priority levels, unless users have taken them over.
pub(crate) async fn ensure_flow_control(client: &LoopbackClient<'_>) -> Result<(), Status> {
    ensured(ensure_all(client, objects(|kind| FLOW_CONTROL.contains(&kind))?).await)
}

fn ensured(refused: Vec<Refused>) -> Result<(), Status> {
    let mut failed = Failed::default();
    failed.note_objects(refused);
    failed.result()
}

/// The objects that were defaults of another version, and that no user has taken over.
pub(crate) fn outdated(objects_there: Vec<Value>) -> Result<Vec<Value>, Status> {
    fn identity(object: &Value) -> (Option<&str>, Option<&str>) {
        (object.str_at(&["kind"]), object.str_at(&["metadata", "name"]))
    }
    let ours = objects(|kind| FLOW_CONTROL.contains(&kind))?;
    let wanted = |object: &Value| ours.iter().any(|one| identity(one) == identity(object));
    let gone = |object: &Value| reconcile::is_auto_updated(object) && !wanted(object);
    Ok(objects_there.into_iter().filter(gone).collect())
}

fn objects(wanted: impl Fn(&str) -> bool) -> Result<Vec<Value>, Status> {
    let parse = |line: &str| {
        json::parse(line.as_bytes(), None).map_err(|e| Status::internal(format!("bootstrap data: {e}")))
    };
    // The kind is at the same position in each line, which saves parsing most lines.
    let kind = |line: &str| line.split('"').nth(7).unwrap_or_default().to_owned();
    OBJECTS.lines().filter(|line| wanted(&kind(line))).map(parse).collect()
}

async fn ensure_all(client: &LoopbackClient<'_>, objects: Vec<Value>) -> Vec<Refused> {
    let (namespaces, rest): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|o| o.str_at(&["kind"]) == Some("Namespace"));
    // Concurrently, so that the disk sees a few large batches; namespaces first, as the others need them.
    let mut refused = Vec::new();
    for batch in [namespaces, rest] {
        let one = async |object: Value| match ensure(client, object.clone()).await {
            Ok(()) => None,
            Err(status) => Some((object, status)),
        };
        let mut writes: FuturesUnordered<_> = batch.into_iter().map(one).collect();
        while let Some(done) = writes.next().await {
            refused.extend(done);
        }
    }
    refused
}

async fn ensure(client: &LoopbackClient<'_>, object: Value) -> Result<(), Status> {
    let text = |path: &[&str]| object.str_at(path).unwrap_or("").to_owned();
    let (kind, name, namespace) =
        (text(&["kind"]), text(&["metadata", "name"]), text(&["metadata", "namespace"]));
    let plural = resource_of_kind(&kind).ok_or_else(|| {
        Status::internal(format!("bootstrap data: {kind} is not among the kinds written here"))
    })?;
    let written = match client.get(plural, &namespace, &name) {
        None => client.create(plural, &namespace, object).await,
        Some(existing) => match reconcile(&existing, object) {
            Reconciled::Unchanged => Ok(()),
            Reconciled::Update(new) => client.update(plural, new).await,
            Reconciled::Recreate(new) => {
                client.delete(plural, &existing).await?;
                client.create(plural, &namespace, new).await
            }
        },
    };
    match written {
        // Another server on the same store was faster.
        Err(status) if lost_race(&status) => Ok(()),
        Err(mut status) => {
            status.message = format!("{kind} {name:?}: {}", status.message);
            Err(status)
        }
        Ok(()) => Ok(()),
    }
}

fn resource_of_kind(kind: &str) -> Option<GroupResource> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    const FLOW: &str = "flowcontrol.apiserver.k8s.io";
    Some(match kind {
        "Namespace" => ("", "namespaces"),
        "StorageClass" => ("storage.k8s.io", "storageclasses"),
        "PriorityClass" => ("scheduling.k8s.io", "priorityclasses"),
        "PriorityLevelConfiguration" => (FLOW, "prioritylevelconfigurations"),
        "FlowSchema" => (FLOW, "flowschemas"),
        "ClusterRole" => (RBAC, "clusterroles"),
        "ClusterRoleBinding" => (RBAC, "clusterrolebindings"),
        "Role" => (RBAC, "roles"),
        "RoleBinding" => (RBAC, "rolebindings"),
        _ => return None,
    })
}
