//! CRI's calls, each to where it is answered.

use std::sync::Arc;

use cri::{
    Call, CgroupDriver, Error, PortForward, Runtime, RuntimeCondition, RuntimeFeatures, RuntimeHandler,
    RuntimeHandlerFeatures, Session,
};
use futures_util::stream::BoxStream;
use network::addresses::Cidr;

use crate::blocking::block;
use crate::error::{Context, invalid};
use crate::{Embedded, Inner, containers, events, forward, images, status, streams};

/// What kubelet shows with a Node: `setpoint://VERSION`.
const NAME: &str = "setpoint";

impl Embedded {
    /// On a thread that may block, to its end.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Inner>) -> Result<T, Error> + Send + 'static,
    ) -> Call<'_, T> {
        let inner = self.inner.clone();
        Box::pin(block(move || work(&inner)))
    }

    /// What needs no waiting.
    fn ready<T: Send + 'static>(&self, done: Result<T, Error>) -> Call<'_, T> {
        Box::pin(std::future::ready(done))
    }
}

impl Runtime for Embedded {
    fn version(&self, _: cri::VersionRequest) -> Call<'_, cri::VersionResponse> {
        self.ready(Ok(cri::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: NAME.to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    fn status(&self, _: cri::StatusRequest) -> Call<'_, cri::StatusResponse> {
        let network_ready = self.inner.network.is_ready();
        let condition = |kind: &str, status, reason: &str, message: &str| RuntimeCondition {
            r#type: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let network = if network_ready {
            condition("NetworkReady", true, "", "")
        } else {
            let message = format!("Network plugin returns error: {}", crate::pod_network::NO_RANGE);
            condition("NetworkReady", false, "NetworkPluginNotReady", &message)
        };
        let features = RuntimeHandlerFeatures {
            recursive_read_only_mounts: true,
            user_namespaces: has_user_namespaces(),
        };
        self.ready(Ok(cri::StatusResponse {
            status: Some(cri::RuntimeStatus {
                conditions: vec![condition("RuntimeReady", true, "", ""), network],
            }),
            runtime_handlers: vec![RuntimeHandler { name: String::new(), features: Some(features) }],
            features: Some(RuntimeFeatures {
                supplemental_groups_policy: true,
                user_namespaces_host_network: false,
            }),
            ..Default::default()
        }))
    }

    fn runtime_config(&self, _: cri::RuntimeConfigRequest) -> Call<'_, cri::RuntimeConfigResponse> {
        let cgroup_driver = CgroupDriver::Cgroupfs.into();
        self.ready(Ok(cri::RuntimeConfigResponse {
            linux: Some(cri::LinuxRuntimeConfiguration { cgroup_driver }),
        }))
    }

    fn update_runtime_config(
        &self,
        request: cri::UpdateRuntimeConfigRequest,
    ) -> Call<'_, cri::UpdateRuntimeConfigResponse> {
        self.run(move |inner| {
            let config = request.runtime_config.and_then(|config| config.network_config).unwrap_or_default();
            let texts = config.pod_cidr.split(',').map(str::trim).filter(|text| !text.is_empty());
            let ranges = texts.map(Cidr::parse).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
            if !ranges.is_empty() {
                let set = inner.network.set_ranges(&ranges);
                set.context(|| "failed to set up the network".to_owned())?;
            }
            Ok(cri::UpdateRuntimeConfigResponse {})
        })
    }

    fn run_pod_sandbox(&self, request: cri::RunPodSandboxRequest) -> Call<'_, cri::RunPodSandboxResponse> {
        self.run(move |inner| {
            inner.run_sandbox(request).map(|pod_sandbox_id| cri::RunPodSandboxResponse { pod_sandbox_id })
        })
    }

    fn stop_pod_sandbox(&self, request: cri::StopPodSandboxRequest) -> Call<'_, cri::StopPodSandboxResponse> {
        self.run(move |inner| {
            inner.stop_sandbox(&request.pod_sandbox_id).map(|()| cri::StopPodSandboxResponse {})
        })
    }

    fn remove_pod_sandbox(
        &self,
        request: cri::RemovePodSandboxRequest,
    ) -> Call<'_, cri::RemovePodSandboxResponse> {
        self.run(move |inner| {
            inner.remove_sandbox(&request.pod_sandbox_id).map(|()| cri::RemovePodSandboxResponse {})
        })
    }

    fn pod_sandbox_status(
        &self,
        request: cri::PodSandboxStatusRequest,
    ) -> Call<'_, cri::PodSandboxStatusResponse> {
        let shown = self.inner.sandbox(&request.pod_sandbox_id).map(|sandbox| {
            let containers = self.inner.pods.lock().containers_of(&sandbox.record.id);
            cri::PodSandboxStatusResponse {
                status: Some(status::of_sandbox(&sandbox)),
                containers_statuses: containers.iter().map(|one| status::of_container(one)).collect(),
                timestamp: self.inner.now(),
                ..Default::default()
            }
        });
        self.ready(shown)
    }

    fn list_pod_sandbox(&self, request: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        self.ready(Ok(cri::ListPodSandboxResponse { items: self.inner.list_sandboxes(request) }))
    }

    fn update_pod_sandbox_resources(
        &self,
        request: cri::UpdatePodSandboxResourcesRequest,
    ) -> Call<'_, cri::UpdatePodSandboxResourcesResponse> {
        // The pod's own limits are kubelet's to write: a sandbox has none beside them.
        let found = self.inner.sandbox(&request.pod_sandbox_id);
        self.ready(found.map(|_| cri::UpdatePodSandboxResourcesResponse {}))
    }

    fn create_container(
        &self,
        request: cri::CreateContainerRequest,
    ) -> Call<'_, cri::CreateContainerResponse> {
        self.run(move |inner| {
            inner.create_container(request).map(|container_id| cri::CreateContainerResponse { container_id })
        })
    }

    fn start_container(&self, request: cri::StartContainerRequest) -> Call<'_, cri::StartContainerResponse> {
        self.run(move |inner| {
            inner.start_container(&request.container_id).map(|()| cri::StartContainerResponse {})
        })
    }

    fn stop_container(&self, request: cri::StopContainerRequest) -> Call<'_, cri::StopContainerResponse> {
        let inner = self.inner.clone();
        Box::pin(async move {
            containers::stop(inner, request.container_id, request.timeout).await?;
            Ok(cri::StopContainerResponse {})
        })
    }

    fn remove_container(
        &self,
        request: cri::RemoveContainerRequest,
    ) -> Call<'_, cri::RemoveContainerResponse> {
        self.run(move |inner| {
            inner.remove_container(&request.container_id).map(|()| cri::RemoveContainerResponse {})
        })
    }

    fn list_containers(&self, request: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        self.ready(Ok(cri::ListContainersResponse { containers: self.inner.list_containers(request) }))
    }

    fn container_status(
        &self,
        request: cri::ContainerStatusRequest,
    ) -> Call<'_, cri::ContainerStatusResponse> {
        let found = self.inner.container(&request.container_id);
        self.ready(found.map(|container| cri::ContainerStatusResponse {
            status: Some(status::of_container(&container)),
            ..Default::default()
        }))
    }

    fn update_container_resources(
        &self,
        request: cri::UpdateContainerResourcesRequest,
    ) -> Call<'_, cri::UpdateContainerResourcesResponse> {
        self.run(move |inner| {
            inner.update_resources(request).map(|()| cri::UpdateContainerResourcesResponse {})
        })
    }

    fn reopen_container_log(
        &self,
        request: cri::ReopenContainerLogRequest,
    ) -> Call<'_, cri::ReopenContainerLogResponse> {
        self.run(move |inner| {
            inner.reopen_log(&request.container_id).map(|()| cri::ReopenContainerLogResponse {})
        })
    }

    fn checkpoint_container(
        &self,
        _: cri::CheckpointContainerRequest,
    ) -> Call<'_, cri::CheckpointContainerResponse> {
        Box::pin(async { Err(cri::no_checkpoints()) })
    }

    fn exec_sync(&self, request: cri::ExecSyncRequest) -> Call<'_, cri::ExecSyncResponse> {
        Box::pin(streams::exec_sync(self.inner.clone(), request))
    }

    fn exec(&self, request: cri::ExecRequest) -> Call<'_, Session> {
        let inner = self.inner.clone();
        Box::pin(async move { streams::exec(inner, request).await.map(Session::Streams) })
    }

    fn attach(&self, request: cri::AttachRequest) -> Call<'_, Session> {
        let inner = self.inner.clone();
        Box::pin(async move { streams::attach(inner, request).await.map(Session::Streams) })
    }

    fn port_forward(&self, request: cri::PortForwardRequest) -> Call<'_, PortForward> {
        self.ready(forward::port_forward(&self.inner, &request).map(PortForward::Connect))
    }

    fn list_container_stats(
        &self,
        request: cri::ListContainerStatsRequest,
    ) -> Call<'_, cri::ListContainerStatsResponse> {
        self.run(move |inner| {
            Ok(cri::ListContainerStatsResponse { stats: inner.container_stats(request.filter) })
        })
    }

    fn list_pod_sandbox_stats(
        &self,
        request: cri::ListPodSandboxStatsRequest,
    ) -> Call<'_, cri::ListPodSandboxStatsResponse> {
        self.run(move |inner| {
            Ok(cri::ListPodSandboxStatsResponse { stats: inner.sandbox_stats(request.filter) })
        })
    }

    fn container_events(
        &self,
        _: cri::GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<cri::ContainerEventResponse, Error>>> {
        self.ready(Ok(events::stream(self.inner.events.subscribe())))
    }

    fn list_images(&self, request: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        self.run(move |inner| inner.list_images(request).map(|images| cri::ListImagesResponse { images }))
    }

    fn image_status(&self, request: cri::ImageStatusRequest) -> Call<'_, cri::ImageStatusResponse> {
        self.run(move |inner| inner.image_status(&request))
    }

    fn pull_image(&self, request: cri::PullImageRequest) -> Call<'_, cri::PullImageResponse> {
        let inner = self.inner.clone();
        Box::pin(async move {
            images::pull(inner, request).await.map(|image_ref| cri::PullImageResponse { image_ref })
        })
    }

    fn remove_image(&self, request: cri::RemoveImageRequest) -> Call<'_, cri::RemoveImageResponse> {
        self.run(move |inner| inner.remove_image(&request).map(|()| cri::RemoveImageResponse {}))
    }

    fn image_fs_info(&self, _: cri::ImageFsInfoRequest) -> Call<'_, cri::ImageFsInfoResponse> {
        self.run(move |inner| inner.image_fs_info())
    }
}

/// The kernel may have none, or people may have forbidden them.
fn has_user_namespaces() -> bool {
    let most = std::fs::read_to_string("/proc/sys/user/max_user_namespaces");
    most.is_ok_and(|most| most.trim().parse::<u64>().is_ok_and(|most| most > 0))
}
