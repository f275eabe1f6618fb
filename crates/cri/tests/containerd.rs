//! The client against Debian's containerd and runc: pods, containers, their logs and ends.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "another program is waited for")]

#[path = "containerd/daemon.rs"]
#[allow(dead_code, reason = "other crates' tests include it too")]
mod daemon;
#[path = "containerd/fixture.rs"]
mod fixture;

use cri::*;
use fixture::{Containerd, IMAGE};
use futures_util::StreamExt;

fn pod(containerd: &Containerd) -> PodSandboxConfig {
    let name = |text: &str| text.to_owned();
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: name("p"),
            uid: name("u-1"),
            namespace: name("ns"),
            attempt: 0,
        }),
        hostname: name("host-of-p"),
        log_directory: containerd.path().join("logs").display().to_string(),
        labels: [(name("app"), name("x"))].into(),
        linux: Some(LinuxPodSandboxConfig { cgroup_parent: containerd.cgroup(), ..Default::default() }),
        ..Default::default()
    }
}

fn image() -> Option<ImageSpec> {
    Some(ImageSpec { image: IMAGE.to_owned(), ..Default::default() })
}

/// A container that runs a script.
async fn start(client: &Client, pod: &PodSandboxConfig, sandbox: &str, name: &str, script: &str) -> String {
    let config = ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.to_owned(), attempt: 0 }),
        image: image(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        envs: vec![KeyValue { key: "WHO".to_owned(), value: b"world".to_vec() }],
        log_path: format!("{name}.log"),
        linux: Some(LinuxContainerConfig::default()),
        ..Default::default()
    };
    let request = CreateContainerRequest {
        pod_sandbox_id: sandbox.to_owned(),
        config: Some(config),
        sandbox_config: Some(pod.clone()),
    };
    let id = client.create_container(request).await.unwrap().container_id;
    client.start_container(StartContainerRequest { container_id: id.clone() }).await.unwrap();
    id
}

async fn status(client: &Client, id: &str) -> Result<ContainerStatus, Error> {
    let request = ContainerStatusRequest { container_id: id.to_owned(), ..Default::default() };
    Ok(client.container_status(request).await?.status.unwrap_or_default())
}

async fn ended(containerd: &Containerd, id: &str) -> ContainerStatus {
    containerd
        .eventually("the container ended", async |client| {
            let status = status(client, id).await.unwrap();
            (status.state == ContainerState::Exited as i32).then_some(status)
        })
        .await
}

async fn exec(client: &Client, id: &str, script: &str, timeout: i64) -> Result<ExecSyncResponse, Error> {
    let cmd = ["/bin/sh", "-c", script].map(str::to_owned).into();
    client.exec_sync(ExecSyncRequest { container_id: id.to_owned(), cmd, timeout }).await
}

#[tokio::test]
async fn containerd_runs_pods() {
    let Some(mut containerd) = Containerd::start("containerd_runs_pods").await else { return };
    let client = &containerd.client;
    let version = client.version(VersionRequest::default()).await.unwrap();
    assert_eq!((version.runtime_name.as_str(), version.runtime_api_version.as_str()), ("containerd", "v1"));
    containerd
        .eventually("the network is ready", async |client| {
            let status = client.status(StatusRequest::default()).await.unwrap().status.unwrap();
            status.conditions.iter().all(|condition| condition.status).then_some(())
        })
        .await;

    // Images.
    let found = client.image_status(ImageStatusRequest { image: image(), verbose: false }).await.unwrap();
    assert_eq!(found.image.unwrap().repo_tags, [IMAGE]);
    let absent = ImageSpec { image: "test.local/absent:1".to_owned(), ..Default::default() };
    let status_of_absent = ImageStatusRequest { image: Some(absent.clone()), verbose: false };
    assert_eq!(client.image_status(status_of_absent).await.unwrap().image, None);
    let pull = client.pull_image(PullImageRequest { image: Some(absent), ..Default::default() }).await;
    assert!(pull.unwrap_err().message.contains("test.local/absent:1"));

    // A sandbox with an address of its own.
    let config = pod(&containerd);
    let run = RunPodSandboxRequest { config: Some(config.clone()), runtime_handler: String::new() };
    let sandbox = client.run_pod_sandbox(run).await.unwrap().pod_sandbox_id;
    let asked = PodSandboxStatusRequest { pod_sandbox_id: sandbox.clone(), verbose: false };
    let seen = client.pod_sandbox_status(asked.clone()).await.unwrap().status.unwrap();
    assert_eq!(seen.state, PodSandboxState::Ready as i32);
    assert_eq!(seen.metadata, config.metadata);
    assert_eq!(seen.labels, config.labels);
    let address = seen.network.unwrap().ip;
    assert!(address.starts_with("10.241."), "{address}");

    // A container that ends by itself, with its log.
    let short = start(client, &config, &sandbox, "short", "echo hello $WHO; echo oops >&2; exit 3").await;
    let over = ended(&containerd, &short).await;
    assert_eq!((over.exit_code, over.reason.as_str()), (3, "Error"));
    assert!(over.created_at > 0 && over.finished_at >= over.created_at);
    let log = std::fs::read_to_string(containerd.path().join("logs/short.log")).unwrap();
    let mut lines: Vec<_> =
        log.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["stderr F oops", "stdout F hello world"]);

    // Commands in one that goes on.
    let long =
        start(client, &config, &sandbox, "long", "trap '' TERM; while :; do busybox sleep 1; done").await;
    assert_eq!(status(client, &long).await.unwrap().state, ContainerState::Running as i32);
    let done = exec(client, &long, "busybox hostname; echo no >&2; exit 5", 30).await.unwrap();
    assert_eq!((done.exit_code, done.stdout, done.stderr), (5, b"host-of-p\n".to_vec(), b"no\n".to_vec()));
    let late = exec(client, &long, "busybox sleep 100", 1).await.unwrap_err();
    assert_eq!(late.code, Code::DeadlineExceeded, "{late}");
    let session = ExecRequest {
        container_id: long.clone(),
        cmd: vec!["/bin/sh".to_owned()],
        stdout: true,
        ..Default::default()
    };
    assert!(
        matches!(client.exec(session).await, Ok(Session::Url(url)) if url.starts_with("http://127.0.0.1:"))
    );
    let forward = PortForwardRequest { pod_sandbox_id: sandbox.clone(), port: vec![80] };
    assert!(matches!(client.port_forward(forward).await, Ok(PortForward::Url(_))));

    // Checkpoints, which containerd has since 2.0, where CRIU is installed.
    let location = containerd.path().join("checkpoint.tar").display().to_string();
    let request = CheckpointContainerRequest { container_id: long.clone(), location, timeout: 0 };
    if let Err(error) = client.checkpoint_container(request).await
        && error.code == Code::Unimplemented
    {
        let why = "method CheckpointContainer not implemented";
        assert_eq!(error.message, why);
    }

    // What is there, and what it uses.
    let of_pod = ContainerFilter { pod_sandbox_id: sandbox.clone(), ..Default::default() };
    let list = client.list_containers(ListContainersRequest { filter: Some(of_pod) }).await.unwrap();
    assert_eq!(list.containers.len(), 2);
    let stats = client.list_container_stats(ListContainerStatsRequest::default()).await.unwrap().stats;
    assert!(stats.iter().any(|stats| stats.attributes.as_ref().is_some_and(|of| of.id == long)));
    let info = client.image_fs_info(ImageFsInfoRequest::default()).await.unwrap();
    assert!(!info.image_filesystems.is_empty());

    // Events, which containerd has since 1.7.
    let mut events = client.container_events(GetEventsRequest::default()).await.unwrap();
    let stop = StopContainerRequest { container_id: long.clone(), timeout: 1 };
    let (event, stopped) = tokio::join!(events.next(), client.stop_container(stop));
    stopped.unwrap();
    match event.unwrap() {
        Ok(event) => assert_eq!(event.container_id, long),
        Err(error) => assert_eq!(error.code, Code::Unimplemented),
    }
    drop(events);
    assert_eq!(ended(&containerd, &long).await.exit_code, 137, "it did not listen to SIGTERM");

    // A runtime that is restarted finds them all, and the client finds the runtime.
    let third = start(client, &config, &sandbox, "third", "exec busybox sleep 1000").await;
    containerd.kill();
    let gone = containerd.client.version(VersionRequest::default()).await.unwrap_err();
    assert_eq!(gone.code, Code::Unavailable);
    containerd.run().await;
    let client = &containerd.client;
    assert_eq!(status(client, &third).await.unwrap().state, ContainerState::Running as i32);
    assert_eq!(status(client, &short).await.unwrap().exit_code, 3);

    // The end of it.
    client.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() }).await.unwrap();
    for id in [&short, &long, &third] {
        client.remove_container(RemoveContainerRequest { container_id: id.clone() }).await.unwrap();
        assert_eq!(status(client, id).await.unwrap_err().code, Code::NotFound);
    }
    client.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id: sandbox.clone() }).await.unwrap();
    assert_eq!(client.pod_sandbox_status(asked).await.unwrap_err().code, Code::NotFound);
    assert_eq!(client.list_pod_sandbox(ListPodSandboxRequest::default()).await.unwrap().items, []);
    client.remove_image(RemoveImageRequest { image: image() }).await.unwrap();
}
