//! Pods and containers, as the spec has them and as the runtime does.

use std::collections::BTreeMap;

use cri::{
    Container, ContainerFilter, ContainerState, ContainerStateValue, ListContainersRequest,
    ListPodSandboxRequest, PodSandbox, PodSandboxFilter, PodSandboxState, PodSandboxStateValue, Runtime,
};
use object::{Map, Value};

use super::routes::ContainerPath;

pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// The container of that name in a pod's spec, of any kind.
pub fn spec_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    lists.iter().find_map(|list| {
        let containers = pod.at(&["spec", list])?.as_list()?;
        containers.iter().find(|spec| spec.str_at(&["name"]) == Some(container))
    })
}

/// The labels both sandboxes and containers are found by.
fn selector(path: &ContainerPath) -> BTreeMap<String, String> {
    let labels = [
        (POD_NAME, &path.pod),
        (POD_NAMESPACE, &path.namespace),
        (POD_UID, &path.uid),
        (CONTAINER_NAME, &path.container),
    ];
    let given = labels.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// The id of a container that runs. Of two pods of one name, of which one is on its way out, the newer counts.
pub async fn running(runtime: &dyn Runtime, path: &ContainerPath) -> Result<Option<String>, cri::Error> {
    let found = running_containers(runtime, selector(path)).await?;
    Ok(found.into_iter().max_by_key(|container| container.created_at).map(|container| container.id))
}

pub async fn running_containers(
    runtime: &dyn Runtime,
    label_selector: BTreeMap<String, String>,
) -> Result<Vec<Container>, cri::Error> {
    let state = Some(ContainerStateValue { state: ContainerState::Running as i32 });
    let filter = ContainerFilter { state, label_selector, ..ContainerFilter::default() };
    Ok(runtime.list_containers(ListContainersRequest { filter: Some(filter) }).await?.containers)
}

pub async fn ready_sandboxes(
    runtime: &dyn Runtime,
    label_selector: BTreeMap<String, String>,
) -> Result<Vec<PodSandbox>, cri::Error> {
    let state = Some(PodSandboxStateValue { state: PodSandboxState::Ready as i32 });
    let filter = PodSandboxFilter { state, label_selector, ..PodSandboxFilter::default() };
    Ok(runtime.list_pod_sandbox(ListPodSandboxRequest { filter: Some(filter) }).await?.items)
}

/// The id of a pod's sandbox; the newest.
pub async fn sandbox(runtime: &dyn Runtime, path: &ContainerPath) -> Result<Option<String>, cri::Error> {
    let found = ready_sandboxes(runtime, selector(path)).await?;
    Ok(found.into_iter().max_by_key(|sandbox| sandbox.created_at).map(|sandbox| sandbox.id))
}

pub fn pod_list(pods: Vec<Value>) -> Value {
    let mut list = Map::with_capacity(4);
    list.set("kind", "PodList");
    list.set("apiVersion", "v1");
    list.set("metadata", Value::map());
    list.set("items", pods);
    Value::Map(list)
}

/// What the runtime runs, as pods: names and images, by namespace and name.
pub async fn running_pods(runtime: &dyn Runtime) -> Result<Vec<Value>, cri::Error> {
    let sandboxes = ready_sandboxes(runtime, BTreeMap::new()).await?;
    let containers = running_containers(runtime, BTreeMap::new()).await?;
    let mut pods: BTreeMap<[String; 3], Vec<Value>> = BTreeMap::new();
    for sandbox in sandboxes {
        let metadata = sandbox.metadata.unwrap_or_default();
        pods.entry([metadata.namespace, metadata.name, metadata.uid]).or_default();
    }
    for container in containers {
        let label = |name: &str| container.labels.get(name).cloned().unwrap_or_default();
        let mut spec = Map::with_capacity(3);
        spec.set("name", container.metadata.as_ref().map(|of| of.name.as_str()).unwrap_or_default());
        spec.set("image", container.image.as_ref().map(|of| of.image.as_str()).unwrap_or_default());
        spec.set("resources", Value::map());
        let pod = [label(POD_NAMESPACE), label(POD_NAME), label(POD_UID)];
        pods.entry(pod).or_default().push(Value::Map(spec));
    }
    let pod = |([namespace, name, uid], containers): ([String; 3], Vec<Value>)| {
        let mut pod = Value::map();
        let metadata = pod.map_at(&["metadata"]);
        metadata.set("name", name);
        metadata.set("namespace", namespace);
        metadata.set("uid", uid);
        metadata.set("creationTimestamp", Value::Null);
        pod.map_at(&["spec"]).set("containers", containers);
        pod.map_at(&["status"]);
        pod
    };
    Ok(pods.into_iter().map(pod).collect())
}
