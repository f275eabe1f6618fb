//! What a process finds that comes after another.

use std::sync::Arc;

use cri::Call;
use node::container_runtime::Container;
use node::pod::{Pod, short_uid};
use parking_lot::Mutex;
use testkit::TestCluster;

use super::open;
use crate::pods::Changes;

const UID: &str = "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d13";

/// A pod whose container ended, and was made anew; `started` by the time somebody looks at it.
struct Interrupted {
    started: bool,
    removed: Mutex<Vec<String>>,
}

fn metadata() -> std::collections::BTreeMap<String, String> {
    let both = [("io.kubernetes.pod.uid", UID), ("io.kubernetes.container.name", "c")];
    both.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

impl cri::PartialRuntime for Interrupted {
    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        let of_pod = cri::PodSandboxMetadata {
            name: "web".to_owned(),
            namespace: "d".to_owned(),
            ..Default::default()
        };
        let sandbox = cri::PodSandbox {
            id: "s-1".to_owned(),
            metadata: Some(of_pod),
            labels: metadata(),
            ..Default::default()
        };
        Box::pin(async { Ok(cri::ListPodSandboxResponse { items: vec![sandbox] }) })
    }

    fn pod_sandbox_status(&self, _: cri::PodSandboxStatusRequest) -> Call<'_, cri::PodSandboxStatusResponse> {
        Box::pin(async { Ok(cri::PodSandboxStatusResponse::default()) })
    }

    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        let states = [("first", cri::ContainerState::Exited), ("second", cri::ContainerState::Created)];
        let container = |(id, state): (&str, cri::ContainerState)| cri::Container {
            id: id.to_owned(),
            pod_sandbox_id: "s-1".to_owned(),
            labels: metadata(),
            state: state as i32,
            ..Default::default()
        };
        Box::pin(async move { Ok(cri::ListContainersResponse { containers: states.map(container).into() }) })
    }

    fn container_status(
        &self,
        request: cri::ContainerStatusRequest,
    ) -> Call<'_, cri::ContainerStatusResponse> {
        let (state, attempt) = match (&*request.container_id, self.started) {
            ("first", _) => (cri::ContainerState::Exited, "0"),
            (_, false) => (cri::ContainerState::Created, "1"),
            (_, true) => (cri::ContainerState::Running, "1"),
        };
        let restarts = ("io.kubernetes.container.restartCount".to_owned(), attempt.to_owned());
        let status = cri::ContainerStatus {
            id: request.container_id,
            state: state as i32,
            started_at: 1,
            annotations: [restarts].into(),
            ..Default::default()
        };
        Box::pin(async { Ok(cri::ContainerStatusResponse { status: Some(status), ..Default::default() }) })
    }

    fn remove_container(
        &self,
        request: cri::RemoveContainerRequest,
    ) -> Call<'_, cri::RemoveContainerResponse> {
        self.removed.lock().push(request.container_id);
        Box::pin(async { Ok(cri::RemoveContainerResponse {}) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_was_made_and_never_started_is_no_restart() {
    for started in [false, true] {
        let cluster = TestCluster::simulated(44).await;
        let runtime = Arc::new(Interrupted { started, removed: Mutex::default() });
        let directory = tempfile::tempdir().unwrap();
        let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
        let changes = Changes::default();
        let opened = open(directory.path(), &cluster, client, runtime.clone(), &changes, |_| ());
        let (pods, _stopper) = opened.await;
        let removed: &[&str] = if started { &[] } else { &["second"] };
        assert_eq!(*runtime.removed.lock(), removed);
        let tree = runtime::parse(&format!(
            "{{metadata: {{name: web, namespace: d, uid: {UID}}}, spec: {{containers: [{{name: c}}]}}}}"
        ));
        let tree = tree.unwrap();
        let seen = pods.runtime().look(&Pod::read(&tree), 0).unwrap();
        let container = seen.container(0).unwrap();
        assert_eq!(container.attempt, u32::from(started), "{:?}", container.state);
        assert_eq!(matches!(container.state, Container::Running { .. }), started);
        assert!(pods.runtime().list().iter().any(|held| held.uid == short_uid(UID)));
    }
}
