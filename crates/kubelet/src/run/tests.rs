//! A node put together by its configuration, with a runtime that has no containers.

use client::ListOptions;
use client::resources::{EVENTS, LEASES};
use cri::Call;
use runtime::Stopper;
use testkit::TestCluster;

use super::*;

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
        status(StatusRequest) -> StatusResponse;
        list_images(ListImagesRequest) -> ListImagesResponse;
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
        list_containers(ListContainersRequest) -> ListContainersResponse;
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

/// Nothing of this machine is touched but the folder, and no port is opened.
const APART: &str = "enableServer: false\nhealthzPort: 0\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\nfailSwapOn: false\n";

async fn start(
    cluster: &TestCluster,
    root: &Path,
    fields: &str,
    driver: Option<cri::CgroupDriver>,
) -> Result<(Kubelet, Stopper), StartError> {
    let file =
        format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{APART}{fields}\n");
    let config = Config::new("n", root.to_owned()).with_file(file.as_bytes()).unwrap();
    let settings = Settings {
        config,
        client: cluster.local_clients().user("system:node:n", &["system:nodes"]),
        cri: Arc::new(Empty { driver }),
        hostname: "n".to_owned(),
        node_ip: "127.0.0.1".to_owned(),
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
