//! A node of a test: its identity, its directory, and the pods bound to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::resources::PODS;
use client::{Client, Value};
use kubelet::config::Config;
use kubelet::objects::Objects;
use kubelet::volumes::{MountedVolume, Volumes};
use parking_lot::Mutex;
use runtime::{Stopper, tree};
use serde_json::{Value as Json, json};
use testkit::TestCluster;

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";

pub type Job = Box<dyn FnOnce() + Send>;

pub struct TestNode {
    pub cluster: TestCluster,
    pub client: Arc<dyn Client>,
    pub objects: Arc<Objects>,
    pub volumes: Volumes,
    /// Pods that were told of a change.
    pub told: Arc<Mutex<Vec<String>>>,
    /// What is to be done on another thread, while a test holds it back.
    pub held: Arc<Mutex<Option<Vec<Job>>>>,
    folder: tempfile::TempDir,
    _stopper: Stopper,
}

impl TestNode {
    pub async fn new(seed: u64) -> TestNode {
        let cluster = TestCluster::simulated(seed).await;
        let client = cluster.local_clients().user("system:node:n1", &["system:nodes"]);
        TestNode::with(cluster, client)
    }

    pub fn with(cluster: TestCluster, client: Arc<dyn Client>) -> TestNode {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (stopper, stop) = Stopper::new();
        let tell = told.clone();
        let changed = Arc::new(move |uid: &str| tell.lock().push(uid.to_owned()));
        let (objects, _) = Objects::start(cluster.env(), client.clone(), changed, stop);
        let folder = tempfile::tempdir().unwrap();
        let held: Arc<Mutex<Option<Vec<Job>>>> = Arc::default();
        let hold = held.clone();
        let config = Arc::new(Config::new("n1", folder.path().join("root")));
        let volumes = Volumes::new(
            cluster.env().clone(),
            config,
            client.clone(),
            objects.clone(),
            Arc::new(move |job: Job| match &mut *hold.lock() {
                Some(held) => held.push(job),
                None => job(),
            }),
            Arc::new(|| runtime::parse("{cpu: '4', memory: 1Gi}").unwrap_or_else(|_| Value::map())),
        )
        .provisioned_at(folder.path().join("volumes"));
        TestNode { cluster, client, objects, volumes, told, held, folder, _stopper: stopper }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A pod on the node with these volumes, each mounted at its name.
    pub async fn pod(&self, name: &str, volumes: Json) -> Value {
        self.pod_with(name, volumes, json!({})).await
    }

    pub async fn pod_with(&self, name: &str, volumes: Json, spec: Json) -> Value {
        let mount = |volume: &Json| {
            let name = volume["name"].as_str().unwrap_or_default();
            json!({"name": name, "mountPath": format!("/{name}")})
        };
        let mounts: Vec<Json> = volumes.as_array().into_iter().flatten().map(mount).collect();
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "nodeName": "n1",
                "automountServiceAccountToken": false,
                "volumes": volumes,
                "containers": [{"name": "main", "image": "busybox", "volumeMounts": mounts}],
            },
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        self.cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
        let pod = self.read(name).await;
        self.objects.register(&pod);
        pod
    }

    pub async fn read(&self, name: &str) -> Value {
        tree(&self.client.get(PODS.at("default", name)).await.unwrap_or_else(|s| panic!("{}", s.message)))
    }

    /// The one volume of the pod.
    pub async fn mount(&self, pod: &Value) -> MountedVolume {
        let mounted = self.volumes.mount(pod).await.unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(mounted.len(), 1);
        mounted.into_values().next().unwrap()
    }

    /// What kubelet would say in events.
    pub async fn refused(&self, pod: &Value) -> Vec<String> {
        let error = self.volumes.mount(pod).await.unwrap_err();
        error.events().map(str::to_owned).collect()
    }

    pub async fn config_map(&self, name: &str, data: Json) {
        let body = json!({"metadata": {"name": name}, "data": data});
        self.cluster.post(CONFIG_MAPS, body).await.ok(201);
    }

    pub async fn until_told(&self, uid: &str) {
        self.cluster
            .until("the pod is told", || async { self.told.lock().iter().any(|told| told == uid) })
            .await;
        self.told.lock().clear();
    }

    pub async fn end(self, pods: &[&Value]) {
        for pod in pods {
            self.volumes.remove(uid(pod)).await.unwrap();
        }
        assert_eq!(mounts_below(self.path()), Vec::<PathBuf>::new());
        self.cluster.shutdown().await;
    }
}

pub fn uid(pod: &Value) -> &str {
    pod.str_at(&["metadata", "uid"]).unwrap()
}

pub fn text(folder: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(file)).ok()
}

/// Mounts need root; without it a test says so and ends.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: mounts need root");
    }
    root
}

/// Runs the test where mounts are shared, as on most machines, and nobody else's.
pub fn on_shared_mounts<T: Future<Output = ()>>(test: impl FnOnce() -> T + Send + 'static) {
    if !is_root() {
        return;
    }
    #[allow(clippy::disallowed_methods, reason = "a namespace is a thread's")]
    let thread = std::thread::spawn(|| {
        #[allow(deprecated)]
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
        use rustix::mount::MountPropagationFlags as Propagation;
        for kind in [Propagation::PRIVATE, Propagation::SHARED] {
            rustix::mount::mount_change("/", kind | Propagation::REC).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(test());
    });
    thread.join().unwrap();
}

/// A tmpfs with a file.
pub fn mount_disk(at: &Path) {
    std::fs::create_dir_all(at).unwrap();
    rustix::mount::mount("none", at, "tmpfs", rustix::mount::MountFlags::empty(), c"").unwrap();
    std::fs::write(at.join("precious"), "x").unwrap();
}

pub fn unmount(at: &Path) {
    rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH).unwrap();
}

pub fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    places.filter(|place| place.starts_with(folder)).collect()
}
