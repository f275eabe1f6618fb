//! A node with the embedded runtime, and the calls that kubelet makes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use container_runtime::{Embedded, Settings, Spawner};
use cri::*;
use env::Env;
use network::addresses::Cidr;

use crate::image;

static COUNT: AtomicU32 = AtomicU32::new(0);

pub struct Node {
    pub directory: tempfile::TempDir,
    pub settings: Settings,
    tokio: tokio::runtime::Runtime,
    embedded: Option<Embedded>,
    spawner: Option<Spawner>,
    pub cgroup: PathBuf,
}

impl Node {
    pub fn new() -> Node {
        let node = Node::empty();
        let file = image::archive(node.directory.path());
        let options = ::image::ImportOptions { name: None, platform: ::image::Platform::current() };
        ::image::import(node.runtime().images(), &file, &options).unwrap();
        node
    }

    /// Without an image.
    pub fn empty() -> Node {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // In memory where there is such a place: images are synced, and a test does not lose power.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let cgroup = PathBuf::from(format!("/setpoint-crt-{}-{number}", std::process::id()));
        let settings = Settings {
            directory: directory.path().join("run"),
            bridge: format!("sp-crt{number}"),
            table: format!("sp-crt{number}"),
            pod_ranges: vec![
                Cidr::parse(&format!("10.88.{number}.0/24")).unwrap(),
                Cidr::parse(&format!("fd88:{number:x}::/64")).unwrap(),
            ],
            cluster_ranges: Vec::new(),
            redirects: Vec::new(),
            mtu: 1500,
            registry_hosts: directory.path().join("certs.d"),
            parallel_pulls: 1,
            cgroup: cgroup.join("runtime"),
            cdi_directories: vec![directory.path().join("cdi")],
            machine_root: PathBuf::from("/"),
        };
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut node = Node { directory, settings, tokio, embedded: None, spawner: None, cgroup };
        node.open();
        node
    }

    fn open(&mut self) {
        let _inside = self.tokio.enter();
        let spawner = self.spawner.get_or_insert_with(|| Spawner::start().unwrap()).clone();
        self.embedded = Some(Embedded::open(&Env::machine(), self.settings.clone(), spawner).unwrap());
    }

    pub fn runtime(&self) -> &Embedded {
        self.embedded.as_ref().unwrap()
    }

    /// The agent ends.
    pub fn leave(&mut self) {
        let embedded = self.embedded.take().unwrap();
        self.tokio.block_on(embedded.shutdown());
        self.spawner = None;
    }

    /// The agent comes back at once, and with the spawner it had: its program is large here, and copied each time.
    pub fn reopen(&mut self) {
        drop(self.embedded.take());
        self.open();
    }

    /// And comes back.
    pub fn come_back(&mut self) {
        self.open();
    }

    pub fn restart(&mut self) {
        self.leave();
        self.come_back();
    }

    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.tokio.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), work).await.expect("it takes too long")
        })
    }

    pub fn sandbox_config(&self, name: &str) -> PodSandboxConfig {
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                namespace: "default".to_owned(),
                attempt: 0,
            }),
            hostname: name.to_owned(),
            log_directory: self.directory.path().join("logs").to_str().unwrap().to_owned(),
            labels: BTreeMap::from([("app".to_owned(), name.to_owned())]),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent: self
                    .cgroup
                    .join("kubepods")
                    .join(format!("pod{name}"))
                    .to_str()
                    .unwrap()
                    .to_owned(),
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(own_pids()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    pub fn run(&self, config: PodSandboxConfig) -> String {
        self.try_run(config).unwrap()
    }

    pub fn try_run(&self, config: PodSandboxConfig) -> Result<String, Error> {
        let request = RunPodSandboxRequest { config: Some(config), runtime_handler: String::new() };
        self.wait(self.runtime().run_pod_sandbox(request)).map(|response| response.pod_sandbox_id)
    }

    pub fn create(&self, sandbox: &str, config: ContainerConfig) -> Result<String, Error> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: None,
        };
        self.wait(self.runtime().create_container(request)).map(|response| response.container_id)
    }

    pub fn start(&self, id: &str) -> Result<(), Error> {
        let request = StartContainerRequest { container_id: id.to_owned() };
        self.wait(self.runtime().start_container(request)).map(drop)
    }

    /// Created and started.
    pub fn launch(&self, sandbox: &str, config: ContainerConfig) -> String {
        let id = self.create(sandbox, config).unwrap();
        self.start(&id).unwrap();
        id
    }

    pub fn stop(&self, id: &str, timeout: i64) {
        let request = StopContainerRequest { container_id: id.to_owned(), timeout };
        self.wait(self.runtime().stop_container(request)).unwrap();
    }

    pub fn remove(&self, id: &str) {
        self.wait(self.runtime().remove_container(RemoveContainerRequest { container_id: id.to_owned() }))
            .unwrap();
    }

    pub fn stop_sandbox(&self, id: &str) {
        let request = StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.wait(self.runtime().stop_pod_sandbox(request)).unwrap();
    }

    pub fn remove_sandbox(&self, id: &str) {
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.wait(self.runtime().remove_pod_sandbox(request)).unwrap();
    }

    pub fn status(&self, id: &str) -> ContainerStatus {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        self.wait(self.runtime().container_status(request)).unwrap().status.unwrap()
    }

    pub fn sandbox_status(&self, id: &str) -> PodSandboxStatus {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        self.wait(self.runtime().pod_sandbox_status(request)).unwrap().status.unwrap()
    }

    /// Waits for the end, and returns what is told of it.
    pub fn ended(&self, id: &str) -> ContainerStatus {
        self.until(|| Some(self.status(id)).filter(|status| status.state() == ContainerState::Exited))
    }

    pub fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        for _ in 0..6000 {
            if let Some(seen) = look() {
                return seen;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it takes too long");
    }

    /// Runs to its end: the code, and what it wrote.
    pub fn output(&self, sandbox: &str, config: ContainerConfig) -> (i32, String) {
        let id = self.launch(sandbox, config);
        let code = self.ended(&id).exit_code;
        (code, self.log(&id))
    }

    /// Without times and streams.
    pub fn log(&self, id: &str) -> String {
        let text = std::fs::read_to_string(self.status(id).log_path).unwrap_or_default();
        text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap().to_owned() + "\n").collect()
    }

    pub fn exec_sync(&self, id: &str, script: &str, timeout: i64) -> Result<ExecSyncResponse, Error> {
        let request = ExecSyncRequest { container_id: id.to_owned(), cmd: shell(script), timeout };
        self.wait(self.runtime().exec_sync(request))
    }

    /// The process of the helper.
    pub fn helper_pid(&self, sandbox: &str) -> i32 {
        let path = self.settings.directory.join("sandboxes").join(&sandbox[..16]).join("helper.pid");
        std::fs::read_to_string(path).unwrap().parse().unwrap()
    }

    pub fn helper_state(&self, sandbox: &str) -> String {
        let path = self.settings.directory.join("sandboxes").join(&sandbox[..16]).join("state.json");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop((self.embedded.take(), self.spawner.take()));
        let reset = self.tokio.block_on(Embedded::reset(self.settings.clone()));
        if !std::thread::panicking() {
            reset.unwrap();
        }
        let root = std::path::Path::new("/sys/fs/cgroup");
        let trees = std::fs::read_dir(root).unwrap().flatten().map(|tree| tree.path());
        for tree in trees.chain([root.to_owned()]) {
            let group = tree.join(self.cgroup.strip_prefix("/").unwrap());
            // Pods' groups are kubelet's to remove.
            for pod in std::fs::read_dir(group.join("kubepods")).into_iter().flatten().flatten() {
                let _ = std::fs::remove_dir(pod.path());
            }
            let _ = std::fs::remove_dir(group.join("kubepods"));
            let _ = std::fs::remove_dir(group);
        }
    }
}

pub fn own_pids() -> NamespaceOption {
    NamespaceOption { pid: NamespaceMode::Container.into(), ..Default::default() }
}

pub fn shell(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
}

pub fn container(name: &str, script: &str) -> ContainerConfig {
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.to_owned(), attempt: 0 }),
        image: Some(ImageSpec { image: image::NAME.to_owned(), ..Default::default() }),
        command: shell(script),
        log_path: format!("{name}/0.log"),
        labels: BTreeMap::from([("name".to_owned(), name.to_owned())]),
        linux: Some(LinuxContainerConfig {
            resources: None,
            security_context: Some(LinuxContainerSecurityContext {
                namespace_options: Some(own_pids()),
                run_as_user: Some(Int64Value { value: 0 }),
                masked_paths: ["/proc/acpi", "/proc/keys", "/sys/firmware"].map(str::to_owned).to_vec(),
                readonly_paths: ["/proc/bus", "/proc/sys"].map(str::to_owned).to_vec(),
                ..Default::default()
            }),
        }),
        ..Default::default()
    }
}

/// Changes what a container may do.
pub fn secured(
    config: ContainerConfig,
    change: impl FnOnce(&mut LinuxContainerSecurityContext),
) -> ContainerConfig {
    let mut config = config;
    change(config.linux.get_or_insert_default().security_context.get_or_insert_default());
    config
}

pub fn limited(
    config: ContainerConfig,
    change: impl FnOnce(&mut LinuxContainerResources),
) -> ContainerConfig {
    let mut config = config;
    change(config.linux.get_or_insert_default().resources.get_or_insert_default());
    config
}
