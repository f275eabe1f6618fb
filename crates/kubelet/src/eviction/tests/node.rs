//! A node with real files and a runtime that says what it is told to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::{
    Answer, Client, DeleteOptions, List, ListOptions, Obj, Patch, Status, Target, Watch, WatchOptions,
    WriteOptions,
};
use cri::Call;
use env::Env;
use node::machine::{Describe, NodeIdentity};
use node::pod::Pod;
use object::Value;
use runtime::{ObjectRef, Stopper};
use tokio::sync::mpsc;

use crate::config::Config;
use crate::eviction::Evictor;
use crate::hooks::Hooks;
use crate::images::{ImageOptions, Images};
use crate::machine::{Facts, LocalMachine};
use crate::objects::Objects;
use crate::pods::{self, Changes, NodeEvents, Parts, Pods};
use crate::volumes::Volumes;

/// Uid and working set in bytes of pods that run.
struct Host {
    root: String,
    pods: Vec<(&'static str, u64)>,
}

impl cri::PartialRuntime for Host {
    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        let sandbox = |uid: &str| cri::PodSandbox {
            id: format!("sandbox-{uid}"),
            metadata: Some(cri::PodSandboxMetadata {
                name: uid.to_owned(),
                namespace: "d".to_owned(),
                uid: uid.to_owned(),
                attempt: 0,
            }),
            ..Default::default()
        };
        let items = self.pods.iter().map(|(uid, _)| sandbox(uid)).collect();
        Box::pin(async { Ok(cri::ListPodSandboxResponse { items }) })
    }

    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        Box::pin(async { Ok(cri::ListContainersResponse { containers: Vec::new() }) })
    }

    fn list_pod_sandbox_stats(
        &self,
        _: cri::ListPodSandboxStatsRequest,
    ) -> Call<'_, cri::ListPodSandboxStatsResponse> {
        let stats = self.pods.iter().map(|(uid, bytes)| {
            let working_set_bytes = Some(cri::UInt64Value { value: *bytes });
            let memory = Some(cri::MemoryUsage { working_set_bytes, ..Default::default() });
            let linux = Some(cri::LinuxPodSandboxStats { memory, ..Default::default() });
            let id = format!("sandbox-{uid}");
            let attributes = Some(cri::PodSandboxAttributes { id, ..Default::default() });
            cri::PodSandboxStats { attributes, linux }
        });
        let stats = stats.collect();
        Box::pin(async { Ok(cri::ListPodSandboxStatsResponse { stats }) })
    }

    fn image_fs_info(&self, _: cri::ImageFsInfoRequest) -> Call<'_, cri::ImageFsInfoResponse> {
        let fs_id = Some(cri::FilesystemIdentifier { mountpoint: self.root.clone() });
        let image_filesystems = vec![cri::FilesystemUsage { fs_id, ..Default::default() }];
        Box::pin(async {
            Ok(cri::ImageFsInfoResponse { image_filesystems, container_filesystems: Vec::new() })
        })
    }
}

/// A server that has nothing.
struct Server;

fn missing<T: Send + 'static>() -> Answer<'static, T> {
    Box::pin(async { Err(Status::no_such_resource()) })
}

impl Client for Server {
    fn catalog(&self) -> Arc<catalog::Catalog> {
        Arc::new(catalog::Catalog::builtin())
    }
    fn get<'a>(&'a self, _: Target<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn list<'a>(&'a self, _: Target<'a>, _: ListOptions) -> Answer<'a, List> {
        missing()
    }
    fn watch<'a>(&'a self, _: Target<'a>, _: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        missing()
    }
    fn create<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn update<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn patch<'a>(&'a self, _: Target<'a>, _: Patch, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn delete<'a>(&'a self, _: Target<'a>, _: DeleteOptions) -> Answer<'a, ()> {
        missing()
    }
    fn delete_collection<'a>(&'a self, _: Target<'a>, _: DeleteOptions, _: ListOptions) -> Answer<'a, ()> {
        missing()
    }
    fn act<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, ()> {
        missing()
    }
}

/// An event: about what, its reason, its message, its annotations.
type Told = (ObjectRef, String, String, Vec<(String, String)>);

struct Case {
    pods: Pods,
    machine: Arc<LocalMachine>,
    evictor: Evictor,
    events: mpsc::UnboundedReceiver<Told>,
    _stopper: Stopper,
}

impl Case {
    async fn new(root: &Path, memory: &str, running: Vec<(&'static str, u64)>) -> Case {
        Case::short_of(root, "memory.available", memory, running).await
    }

    /// With that one threshold.
    async fn short_of(root: &Path, signal: &str, least: &str, running: Vec<(&'static str, u64)>) -> Case {
        let hard = vec![(signal.to_owned(), least.to_owned())];
        Case::with(root, running, |config| config.eviction_hard = hard).await
    }

    async fn with(root: &Path, running: Vec<(&'static str, u64)>, change: impl FnOnce(&mut Config)) -> Case {
        let env = Env::machine();
        let mut config = Config::new("n", root.to_owned());
        // Nothing of this machine is touched but the folder.
        (config.enforce_node_allocatable, config.cgroups_per_qos) = (Vec::new(), false);
        change(&mut config);
        let config = Arc::new(config);
        let (stopper, stop) = Stopper::new();
        let (sender, events) = mpsc::unbounded_channel();
        let client: Arc<dyn Client> = Arc::new(Server);
        let cri: Arc<dyn cri::Runtime> =
            Arc::new(Host { root: root.to_string_lossy().into_owned(), pods: running });
        let blocking = image::blocking_pool();
        let (objects, _) = Objects::start(&env, client.clone(), Arc::new(|_: &str| {}), stop);
        let options = ImageOptions { parallel: None, ..ImageOptions::default() };
        let images = Images::new(env.clone(), &config, cri.clone(), blocking.clone(), options).unwrap();
        let none = Arc::new(Value::map);
        let volumes =
            Volumes::new(env.clone(), config.clone(), client.clone(), objects.clone(), blocking, none);
        let parts = Parts {
            env: env.clone(),
            config: config.clone(),
            cri,
            runtime_name: "test".to_owned(),
            objects,
            volumes: Arc::new(volumes),
            images: Arc::new(images),
            hooks: Hooks::new(&env),
            facts: pods::Facts::default(),
            host_ips: Arc::new(Vec::new),
            runtime_state: crate::runtime_state::tests::ready(&env),
            metrics: Arc::default(),
            events: NodeEvents::new("n", move |about, annotations, _, reason, message| {
                drop(sender.send((about, reason.to_owned(), message, annotations)))
            }),
        };
        let pods = Pods::open(parts, &Changes::default()).await.unwrap();
        let machine = LocalMachine::new((*config).clone(), "h", Facts::default(), Vec::new());
        let machine = Arc::new(machine);
        let evictor = Evictor::new(&env, pods.clone(), machine.clone());
        Case { pods, machine, evictor, events, _stopper: stopper }
    }

    fn know(&self, uid: &str, spec: &str) -> Value {
        let text = format!("{{metadata: {{name: {uid}, namespace: d, uid: {uid}}}, spec: {spec}}}");
        let tree = runtime::parse(&text).unwrap();
        self.pods.know(&tree);
        tree
    }

    /// Why the pod ends, and whether others have a part in it.
    fn evicted(&self, tree: &Value) -> Option<(String, i64, bool)> {
        let seen = self.pods.runtime().look(&Pod::read(tree), 0)?.evicted?;
        Some((seen.message, seen.grace_seconds, seen.disruption.is_some()))
    }
}

#[tokio::test]
async fn a_pod_whose_volume_grew_over_its_limit_is_evicted_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(folder.path(), "1", Vec::new()).await;
    let spec = "{containers: [{name: c}], volumes: [{name: x, emptyDir: {sizeLimit: 1Mi}}]}";
    let (large, small) = (case.know("large", spec), case.know("small", spec));
    for (uid, size) in [("large", 2 << 20), ("small", 1 << 10)] {
        let volume = folder.path().join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/x");
        std::fs::create_dir_all(&volume).unwrap();
        std::fs::write(volume.join("file"), vec![1; size]).unwrap();
    }
    assert_eq!(case.evictor.synchronize().await.uids, ["large"]);
    let message = "Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\". ".to_owned();
    assert_eq!(case.evicted(&large), Some((message.clone(), 1, false)));
    assert_eq!(case.evicted(&small), None);
    let (about, reason, told, _) = case.events.recv().await.unwrap();
    assert_eq!((&*about.name, &*reason, told), ("large", "Evicted", message));
    assert_eq!(case.evictor.synchronize().await.uids, [] as [&str; 0], "once");
}

#[tokio::test]
async fn a_volume_counts_however_deep_its_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(folder.path(), "1", Vec::new()).await;
    let spec = "{containers: [{name: c}], volumes: [{name: x, emptyDir: {sizeLimit: 1Mi}}]}";
    let deep = case.know("deep", spec);
    let mut volume = folder.path().join("pods/deep/volumes/kubernetes.io~empty-dir/x");
    for _ in 0..100 {
        volume.push("d");
    }
    for name in 0..150 {
        std::fs::create_dir_all(volume.join(format!("{name}/e"))).unwrap();
    }
    std::fs::write(volume.join("0/e/file"), vec![1; 2 << 20]).unwrap();
    assert_eq!(case.evictor.synchronize().await.uids, ["deep"]);
    assert!(case.evicted(&deep).unwrap().0.starts_with("Usage of EmptyDir volume \"x\" exceeds"));
}

#[tokio::test]
async fn a_pod_that_fills_its_hosts_file_or_its_last_words_is_over_its_limit() {
    for file in ["etc-hosts", "containers/c/00000001"] {
        let folder = tempfile::tempdir().unwrap();
        let mut case = Case::new(folder.path(), "1", vec![("fills", 1 << 20), ("other", 1 << 20)]).await;
        let spec = "{containers: [{name: c, resources: {limits: {ephemeral-storage: 1Mi}}}]}";
        let (fills, other) = (case.know("fills", spec), case.know("other", spec));
        for (uid, size) in [("fills", 2 << 20), ("other", 1 << 10)] {
            let path = folder.path().join("pods").join(uid).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![1; size]).unwrap();
        }
        assert_eq!(case.evictor.synchronize().await.uids, ["fills"], "{file}");
        let (message, ..) = case.evicted(&fills).unwrap();
        assert_eq!(message, "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ");
        assert_eq!(case.evicted(&other), None);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_else_is_ended_while_one_still_has_its_grace() {
    let folder = tempfile::tempdir().unwrap();
    let memory = |value: &str| vec![("memory.available".to_owned(), value.to_owned())];
    let case = Case::with(folder.path(), vec![("little", 1 << 20), ("much", 9 << 20)], |config| {
        config.eviction_hard = memory("1");
        // More than any machine has.
        config.eviction_soft = memory("1Ei");
        config.eviction_soft_grace_period = vec![("memory.available".to_owned(), Duration::from_millis(1))];
        config.eviction_max_pod_grace_period = 200;
    });
    let case = case.await;
    let spec = "{containers: [{name: c}], terminationGracePeriodSeconds: 300}";
    let (little, much) = (case.know("little", spec), case.know("much", spec));
    let env = Env::machine();
    let (stopper, stop) = Stopper::new();
    let evictor = Evictor::new(&env, case.pods.clone(), case.machine.clone());
    let evictions = env.spawn("evictions", evictor.run(stop));
    while case.evicted(&much).is_none() {
        env.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(case.evicted(&much).unwrap().1, 200, "the longest it may have");
    // Half as long again, and then what is left of it is waited for.
    env.sleep(Duration::from_secs(325)).await;
    assert_eq!(case.evicted(&little), None);
    while case.evicted(&little).is_none() {
        env.sleep(Duration::from_secs(1)).await;
    }
    drop(stopper);
    evictions.abort();
}

#[tokio::test]
async fn a_node_short_of_memory_says_so_takes_no_more_and_ends_its_largest_pod() {
    let folder = tempfile::tempdir().unwrap();
    // More than any machine has.
    let mut case = Case::new(folder.path(), "1Ei", vec![("little", 1 << 20), ("much", 9 << 20)]).await;
    let spec = "{containers: [{name: c}]}";
    let (little, much) = (case.know("little", spec), case.know("much", spec));
    assert_eq!(case.evictor.synchronize().await.uids, ["much"]);
    let (message, grace_seconds, disrupted) = case.evicted(&much).unwrap();
    assert!(
        message.starts_with("The node was low on resource: memory. Threshold quantity: 1Ei, available: ")
    );
    assert_eq!((grace_seconds, disrupted), (1, true));
    assert_eq!(case.evicted(&little), None, "one at a time");
    let nobody = NodeIdentity { name: "", ip: "", zone: "" };
    assert!(case.machine.describe(&nobody).pressure.memory);
    let refusal = case.pods.runtime().refuses(&Pod::read(&little)).unwrap();
    assert_eq!(refusal.message, "The node had condition: [MemoryPressure]. ");
    let (about, reason, told, _) = case.events.recv().await.unwrap();
    assert_eq!((&*about.kind, &*about.name, &*reason), ("Node", "n", "EvictionThresholdMet"));
    assert_eq!(told, "Attempting to reclaim memory");
    let (about, reason, _, annotations) = case.events.recv().await.unwrap();
    assert_eq!((&*about.kind, &*about.name, &*reason), ("Pod", "much", "Evicted"));
    assert!(annotations.contains(&("starved_resource".to_owned(), "memory".to_owned())), "{annotations:?}");
    assert_eq!(case.evictor.synchronize().await.uids, ["little"], "the next one");
}

#[tokio::test]
async fn a_node_short_of_disk_or_inodes_ends_the_pod_that_takes_most_of_them() {
    for (signal, resource, files) in
        [("nodefs.available", "ephemeral-storage", [1, 1]), ("nodefs.inodesFree", "inodes", [2, 20])]
    {
        let folder = tempfile::tempdir().unwrap();
        let running = vec![("little", 1 << 20), ("much", 1 << 20)];
        let mut case = Case::short_of(folder.path(), signal, "1Ei", running).await;
        let spec = "{containers: [{name: c}], volumes: [{name: x, emptyDir: {}}]}";
        let (little, much) = (case.know("little", spec), case.know("much", spec));
        for ((uid, size), files) in [("little", 1 << 10), ("much", 1 << 20)].into_iter().zip(files) {
            let volume = folder.path().join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/x");
            std::fs::create_dir_all(&volume).unwrap();
            for file in 0..files {
                std::fs::write(volume.join(file.to_string()), vec![1; size / files]).unwrap();
            }
        }
        assert_eq!(case.evictor.synchronize().await.uids, ["much"], "{signal}");
        let (message, grace_seconds, disrupted) = case.evicted(&much).unwrap();
        let told = format!("The node was low on resource: {resource}. Threshold quantity: ");
        assert!(message.starts_with(&told), "{message}");
        assert_eq!((grace_seconds, disrupted), (1, true));
        assert_eq!(case.evicted(&little), None, "one at a time");
        let nobody = NodeIdentity { name: "", ip: "", zone: "" };
        assert!(case.machine.describe(&nobody).pressure.disk);
        let refusal = case.pods.runtime().refuses(&Pod::read(&little)).unwrap();
        assert_eq!(refusal.message, "The node had condition: [DiskPressure]. ");
        let (_, reason, told, _) = case.events.recv().await.unwrap();
        assert_eq!((&*reason, told), ("EvictionThresholdMet", format!("Attempting to reclaim {resource}")));
        let (about, reason, _, annotations) = case.events.recv().await.unwrap();
        assert_eq!((&*about.name, &*reason), ("much", "Evicted"));
        assert!(
            annotations.contains(&("starved_resource".to_owned(), resource.to_owned())),
            "{annotations:?}"
        );
    }
}
