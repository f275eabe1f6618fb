//! What a node has of it all: images, statistics, limits, and nothing when it is reset.

use std::path::Path;

use container_runtime::Embedded;
use cri::*;

use crate::Test;
use crate::image::NAME;
use crate::node::{Node, container, limited};

pub const TESTS: &[Test] = &[
    ("images_are_listed_and_removed", images_are_listed_and_removed),
    ("many_pulls_are_one_with_a_password", many_pulls_are_one_with_a_password),
    ("limits_are_changed_and_use_is_counted", limits_are_changed_and_use_is_counted),
    ("a_log_is_reopened", a_log_is_reopened),
    ("ranges_may_come_later", ranges_may_come_later),
    ("pods_do_not_wait_for_each_other", pods_do_not_wait_for_each_other),
    ("reset_leaves_nothing", reset_leaves_nothing),
];

fn spec(name: &str) -> Option<ImageSpec> {
    Some(ImageSpec { image: name.to_owned(), ..Default::default() })
}

fn images_are_listed_and_removed() {
    let node = Node::new();
    let all = node.wait(node.runtime().list_images(ListImagesRequest::default())).unwrap().images;
    assert_eq!(all[0].repo_tags, [NAME]);
    assert_eq!((all[0].uid.clone(), &*all[0].username), (None, "web"));
    let status = |name: &str| {
        let request = ImageStatusRequest { image: spec(name), verbose: false };
        node.wait(node.runtime().image_status(request)).unwrap().image
    };
    assert_eq!(status(&all[0].id).unwrap().id, all[0].id);
    assert_eq!(status(NAME).unwrap().id, all[0].id);
    assert_eq!(status("registry.test/none:1"), None);
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.create(&sandbox, container("main", "true")).unwrap();
    let remove = || node.wait(node.runtime().remove_image(RemoveImageRequest { image: spec(NAME) }));
    assert_eq!(remove().unwrap_err().code, Code::FailedPrecondition);
    let usage = node.wait(node.runtime().image_fs_info(ImageFsInfoRequest {})).unwrap();
    assert!(usage.image_filesystems[0].used_bytes.as_ref().unwrap().value > 1_000_000, "{usage:?}");
    node.remove(&id);
    remove().unwrap();
    remove().unwrap();
    assert_eq!(status(NAME), None);
    let request = PullImageRequest { image: spec("127.0.0.1:1/none:1"), ..Default::default() };
    let error = node.wait(node.runtime().pull_image(request)).unwrap_err();
    assert!(error.message.contains("failed to pull and unpack image \"127.0.0.1:1/none:1\""), "{error}");
    let request = PullImageRequest { image: spec("NOT VALID"), ..Default::default() };
    assert_eq!(node.wait(node.runtime().pull_image(request)).unwrap_err().code, Code::InvalidArgument);
}

fn many_pulls_are_one_with_a_password() {
    let node = Node::empty();
    let registry = crate::registry::serve();
    let name = format!("127.0.0.1:{}/own:1", registry.port);
    let pull = |auth: Option<AuthConfig>| {
        node.runtime().pull_image(PullImageRequest { image: spec(&name), auth, sandbox_config: None })
    };
    let error = node.wait(pull(None)).unwrap_err();
    assert!(error.message.contains(&name), "{error}");
    let auth = AuthConfig { username: "user".to_owned(), password: "pass".to_owned(), ..Default::default() };
    let pulls = (0..5).map(|_| pull(Some(auth.clone())));
    let pulled = node.wait(futures_util::future::join_all(pulls));
    let all = node.wait(node.runtime().list_images(ListImagesRequest::default())).unwrap().images;
    assert_eq!(all.iter().map(|image| &image.repo_tags[0]).collect::<Vec<_>>(), [&name]);
    for one in pulled {
        assert_eq!(one.unwrap().image_ref, all[0].id);
    }
    assert_eq!(registry.downloads.load(std::sync::atomic::Ordering::Relaxed), 1);
}

fn limits_are_changed_and_use_is_counted() {
    let mut node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let script = "head -c 100000 /dev/zero > /tmp/file; echo ready; while true; do true; done";
    let config = limited(container("main", script), |limits| {
        limits.memory_limit_in_bytes = 64 << 20;
        limits.cpu_shares = 512;
    });
    let id = node.launch(&sandbox, config);
    node.until(|| node.log(&id).contains("ready").then_some(()));
    let request = UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(LinuxContainerResources { cpu_shares: 256, ..Default::default() }),
        ..Default::default()
    };
    node.wait(node.runtime().update_container_resources(request)).unwrap();
    node.restart();
    let limits = node.status(&id).resources.unwrap().linux.unwrap();
    assert_eq!((limits.cpu_shares, limits.memory_limit_in_bytes), (256, 64 << 20));
    let shares = format!("/sys/fs/cgroup/cpu{}/kubepods/podweb/{id}/cpu.shares", node.cgroup.display());
    if Path::new(&shares).exists() {
        assert_eq!(std::fs::read_to_string(shares).unwrap(), "256\n");
    }
    let weight = format!("/sys/fs/cgroup{}/kubepods/podweb/{id}/cpu.weight", node.cgroup.display());
    if Path::new(&weight).exists() {
        assert_eq!(std::fs::read_to_string(weight).unwrap(), "35\n");
    }
    let stats = || {
        let all = node.wait(node.runtime().list_container_stats(ListContainerStatsRequest::default()));
        all.unwrap().stats.remove(0)
    };
    let used =
        |stats: &ContainerStats| stats.cpu.as_ref().unwrap().usage_core_nano_seconds.clone().unwrap().value;
    let first = stats();
    let second = node.until(|| Some(stats()).filter(|second| used(second) > used(&first)));
    assert!(second.cpu.unwrap().usage_nano_cores.unwrap().value > 0);
    let memory = second.memory.unwrap();
    assert!(memory.working_set_bytes.unwrap().value > 0 && memory.available_bytes.unwrap().value < 64 << 20);
    assert!(memory.rss_bytes.unwrap().value > 0 && memory.page_faults.unwrap().value > 0);
    assert!(second.writable_layer.unwrap().used_bytes.unwrap().value >= 100_000);
    let pods =
        node.wait(node.runtime().list_pod_sandbox_stats(ListPodSandboxStatsRequest::default())).unwrap();
    let linux = pods.stats[0].linux.clone().unwrap();
    assert_eq!(linux.network.unwrap().default_interface.unwrap().name, "eth0");
    assert!(linux.cpu.unwrap().usage_core_nano_seconds.unwrap().value > 0 && linux.containers.len() == 1);
}

fn a_log_is_reopened() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "while true; do echo line; sleep 0.01; done"));
    node.until(|| node.log(&id).contains("line").then_some(()));
    let path = node.status(&id).log_path;
    std::fs::rename(&path, format!("{path}.old")).unwrap();
    let request = ReopenContainerLogRequest { container_id: id.clone() };
    node.wait(node.runtime().reopen_container_log(request)).unwrap();
    node.until(|| node.log(&id).contains("line").then_some(()));
    node.stop(&id, 0);
    let request = ReopenContainerLogRequest { container_id: id };
    assert!(node.wait(node.runtime().reopen_container_log(request)).is_err());
}

fn ranges_may_come_later() {
    let mut node = Node::new();
    let ranges = std::mem::take(&mut node.settings.pod_ranges);
    node.restart();
    let is_ready = |node: &Node| {
        let status = node.wait(node.runtime().status(StatusRequest::default())).unwrap().status.unwrap();
        let condition = status.conditions.into_iter().find(|one| one.r#type == "NetworkReady").unwrap();
        assert_eq!(condition.status, !condition.message.contains("--pod-cidr"), "it says what is to be done");
        condition.status
    };
    assert!(!is_ready(&node));
    let error = node.try_run(node.sandbox_config("web")).unwrap_err();
    assert!(error.message.contains("cni plugin not initialized"), "{error}");
    let pod_cidr = ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let request = UpdateRuntimeConfigRequest {
        runtime_config: Some(RuntimeConfig { network_config: Some(NetworkConfig { pod_cidr }) }),
    };
    node.wait(node.runtime().update_runtime_config(request)).unwrap();
    assert!(is_ready(&node));
    let sandbox = node.run(node.sandbox_config("web"));
    assert!(node.sandbox_status(&sandbox).network.unwrap().ip.starts_with("10.88."));
}

fn pods_do_not_wait_for_each_other() {
    let node = Node::new();
    let ids: Vec<String> = node.wait(async {
        let runs = (0..10).map(|at| {
            let config = node.sandbox_config(&format!("web-{at}"));
            let runtime = node.runtime();
            async move {
                let request = RunPodSandboxRequest { config: Some(config), runtime_handler: String::new() };
                let sandbox = runtime.run_pod_sandbox(request).await.unwrap().pod_sandbox_id;
                let request = CreateContainerRequest {
                    pod_sandbox_id: sandbox.clone(),
                    config: Some(container("main", "sleep 1000")),
                    sandbox_config: None,
                };
                let container_id = runtime.create_container(request).await.unwrap().container_id;
                runtime.start_container(StartContainerRequest { container_id }).await.unwrap();
                sandbox
            }
        });
        futures_util::future::join_all(runs).await
    });
    let addresses: std::collections::BTreeSet<String> =
        ids.iter().map(|id| node.sandbox_status(id).network.unwrap().ip).collect();
    assert_eq!(addresses.len(), 10);
    node.wait(futures_util::future::join_all(ids.iter().map(|id| {
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.clone() };
        node.runtime().remove_pod_sandbox(request)
    })));
    let all = node.wait(node.runtime().list_containers(ListContainersRequest::default())).unwrap().containers;
    assert!(all.is_empty());
}

/// Mounts, interfaces, cgroups and tables of this test, and helpers of any.
fn left(node: &Node) -> (usize, Vec<String>, Vec<String>, usize) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let mut groups = Vec::new();
    // Version 2 has one tree, version 1 many.
    let root = Path::new("/sys/fs/cgroup");
    let trees = std::fs::read_dir(root).unwrap().flatten().map(|tree| tree.path());
    for tree in trees.chain([root.to_owned()]) {
        let own = tree.join(node.cgroup.strip_prefix("/").unwrap());
        for name in ["runtime", "kubepods/podweb"] {
            if own.join(name).exists() {
                groups.push(own.join(name).to_str().unwrap().to_owned());
            }
        }
    }
    let tables = network::rules::tables().unwrap().into_iter();
    groups.extend(tables.filter(|table| table.starts_with(&node.settings.table)));
    let helpers = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let environ = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        environ.contains(node.cgroup.to_str().unwrap())
    });
    (mounts, network::node::interfaces().unwrap(), groups, helpers.count())
}

fn reset_leaves_nothing() {
    let mut node = Node::empty();
    node.leave();
    node.wait(Embedded::reset(node.settings.clone())).unwrap();
    let before = left(&node);
    assert_eq!((&*before.2, before.3), (&[] as &[String], 0));
    node.come_back();
    let file = crate::image::archive(node.directory.path());
    let options = image::ImportOptions { name: None, platform: image::Platform::current() };
    image::import(node.runtime().images(), &file, &options).unwrap();
    let mut config = node.sandbox_config("web");
    config.port_mappings = vec![PortMapping { container_port: 80, host_port: 18081, ..Default::default() }];
    let sandbox = node.run(config);
    let stubborn = "trap '' TERM; sleep 1000 & sleep 1000";
    node.launch(&sandbox, container("main", stubborn));
    node.launch(&sandbox, container("other", stubborn));
    node.create(&sandbox, container("created", "true")).unwrap();
    let mut config = node.sandbox_config("bare");
    config.linux.as_mut().unwrap().cgroup_parent = String::new();
    let bare = node.run(config);
    node.launch(&bare, container("main", stubborn));
    node.stop_sandbox(&bare);
    let during = left(&node);
    assert!(during.3 > 4 && during.1.len() > before.1.len(), "{during:?}");
    assert_eq!(during.0, before.0, "nothing is mounted on the host");
    node.leave();
    node.wait(Embedded::reset(node.settings.clone())).unwrap();
    assert_eq!(left(&node), before);
    assert!(!node.settings.directory.exists());
    node.wait(Embedded::reset(node.settings.clone())).unwrap();
}
