//! A node put together by its configuration, with a runtime that has no containers.

use client::ListOptions;
use client::resources::{EVENTS, LEASES};
use cri::Call;
use runtime::Stopper;
use testkit::TestCluster;

use super::*;

mod behind;
mod life;

/// All that the runtime has.
const IMAGE: &str = "r.io/app:1";

struct Empty {
    /// `None`: it does not know the question.
    driver: Option<cri::CgroupDriver>,
}

macro_rules! answered {
    ($($method:ident($request:ident) -> $answer:ident;)*) => {
        $(fn $method(&self, _: cri::$request) -> Call<'_, cri::$answer> {
            Box::pin(async { Ok(Default::default()) })
        })*
    };
}

impl cri::PartialRuntime for Empty {
    answered! {
        version(VersionRequest) -> VersionResponse;
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
        list_containers(ListContainersRequest) -> ListContainersResponse;
    }

    fn status(&self, _: cri::StatusRequest) -> Call<'_, cri::StatusResponse> {
        Box::pin(async { Ok(crate::runtime_state::tests::status("", "")) })
    }

    fn list_images(&self, _: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        let image =
            cri::Image { id: "sha256:1".to_owned(), repo_tags: vec![IMAGE.to_owned()], ..Default::default() };
        Box::pin(async { Ok(cri::ListImagesResponse { images: vec![image] }) })
    }

    fn runtime_config(&self, _: cri::RuntimeConfigRequest) -> Call<'_, cri::RuntimeConfigResponse> {
        let unknown = cri::Error::new(cri::Code::Unimplemented, "unknown method RuntimeConfig");
        let linux = self.driver.map(|driver| cri::LinuxRuntimeConfiguration { cgroup_driver: driver.into() });
        let answer = match linux {
            Some(linux) => Ok(cri::RuntimeConfigResponse { linux: Some(linux) }),
            None => Err(unknown),
        };
        Box::pin(async { answer })
    }
}

/// Nothing of this machine is touched but the folder, and no port is opened; it may be short of anything.
const APART: &str = "\
enableServer: false
healthzPort: 0
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%, pid.available: 0%}
";

async fn start(
    cluster: &TestCluster,
    root: &Path,
    fields: &str,
    driver: Option<cri::CgroupDriver>,
) -> Result<(Kubelet, Stopper), StartError> {
    start_on(cluster, root, fields, Arc::new(Empty { driver })).await
}

async fn start_on(
    cluster: &TestCluster,
    root: &Path,
    fields: &str,
    cri: Arc<dyn cri::Runtime>,
) -> Result<(Kubelet, Stopper), StartError> {
    let file =
        format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{APART}{fields}\n");
    let config = Config::new("n", root.to_owned()).with_file(file.as_bytes()).unwrap();
    let settings = Settings {
        config,
        client: cluster.local_clients().user("system:node:n", &["system:nodes"]),
        cri,
        hostname: "n".to_owned(),
        node_ip: "127.0.0.1".to_owned(),
        listener: None,
        client_ca: Arc::new(auth::CaBundle::new(&[])),
        certificates: certificates::Store::new(root),
        flags: BTreeMap::new(),
    };
    let (stopper, stop) = Stopper::new();
    let started = Kubelet::start(cluster.env(), settings, &Arc::default(), stop).await;
    started.map(|kubelet| (kubelet, stopper))
}

async fn refused(fields: &str, driver: Option<cri::CgroupDriver>) -> String {
    let (cluster, folder) = (TestCluster::simulated(7).await, tempfile::tempdir().unwrap());
    match start(&cluster, folder.path(), fields, driver).await {
        Ok(_) => panic!("{fields} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_or_configuration_with_systemds_driver_is_refused() {
    let told = refused("", Some(cri::CgroupDriver::Systemd)).await;
    assert!(told.contains("set SystemdCgroup = false in containerd's configuration"), "{told}");
    let told = refused("cgroupDriver: systemd", None).await;
    assert!(told.contains("set cgroupDriver to cgroupfs in the configuration"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn the_lease_lasts_as_long_as_the_configuration_says() {
    let (cluster, folder) = (TestCluster::simulated(8).await, tempfile::tempdir().unwrap());
    // kubeadm writes the driver everywhere; the embedded runtime has its own.
    let fields = "nodeLeaseDurationSeconds: 8\ncgroupDriver: systemd";
    let started = start(&cluster, folder.path(), fields, Some(cri::CgroupDriver::Cgroupfs)).await;
    let (kubelet, stopper) = started.unwrap();
    assert_eq!(kubelet.config.in_force().get("cgroupDriver"), Some(&"cgroupfs".into()), "the runtime's");
    let admin = cluster.local_clients().user("admin", &["system:masters"]);
    let lease = async || {
        let lease = admin.get(LEASES.at("kube-node-lease", "n")).await.ok()?;
        let spec = runtime::tree(&lease).get("spec")?.clone();
        Some((spec.get("leaseDurationSeconds")?.as_int()?, spec.str_at(&["renewTime"])?.to_owned()))
    };
    let mut renewals = Vec::new();
    for _ in 0..20 {
        cluster.env().sleep(Duration::from_millis(500)).await;
        if let Some((seconds, renewed)) = lease().await {
            assert_eq!(seconds, 8);
            renewals.push(renewed);
        }
    }
    renewals.dedup();
    // Of ten seconds; the first falls somewhere within its two.
    assert!((4..=6).contains(&renewals.len()), "every two seconds: {renewals:?}");
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        let events = admin.list(EVENTS.everywhere(), ListOptions::default()).await.unwrap();
        let events: Vec<Value> = events.items.iter().map(|event| runtime::tree(event)).collect();
        let told = events.iter().find(|event| event.str_at(&["reason"]) == Some("CgroupV1"));
        let told = told.unwrap_or_else(|| panic!("{events:?}"));
        assert_eq!(told.str_at(&["message"]), Some(CGROUP_V1_WARNING));
        assert_eq!(told.str_at(&["involvedObject", "kind"]), Some("Node"));
    }
    stopper.stop();
    kubelet.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_pods_have_is_closed_to_other_users_of_the_machine() {
    use std::os::unix::fs::PermissionsExt;
    let (cluster, folder) = (TestCluster::simulated(10).await, tempfile::tempdir().unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    // As an earlier version left it.
    let old = folder.path().join("old");
    for there in [old.join("pods"), old.join("logs")] {
        std::fs::create_dir_all(&there).unwrap();
        for path in [&there, &old] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    for root in [old, folder.path().join("new")] {
        let (kubelet, stopper) = start(&cluster, &root, "", None).await.unwrap();
        for path in [root.clone(), root.join("pods"), root.join("logs")] {
            assert_eq!(mode(&path) & 0o027, 0, "{}", path.display());
        }
        stopper.stop();
        kubelet.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_whose_pull_was_cut_off_is_known_before_any_pod_may_use_it() {
    let (cluster, folder) = (TestCluster::simulated(9).await, tempfile::tempdir().unwrap());
    let records = folder.path().join("image_manager");
    std::fs::create_dir_all(records.join("pulling")).unwrap();
    let intent = format!(r#"{{"kind": "ImagePullIntent", "image": "{IMAGE}"}}"#);
    std::fs::write(records.join("pulling/sha256-0"), intent).unwrap();
    let (kubelet, stopper) = start(&cluster, folder.path(), "", None).await.unwrap();
    let pulled = std::fs::read_dir(records.join("pulled")).unwrap().map(|entry| entry.unwrap().path());
    let pulled: Vec<String> = pulled.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(matches!(&*pulled, [one] if one.contains(r#""imageRef":"sha256:1""#)), "{pulled:?}");
    stopper.stop();
    kubelet.stopped().await;
}
