//! A runtime whose calls are counted and timed, by the names kubelet has for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cri::Call;
use env::Env;
use futures_util::stream::BoxStream;
use metrics::{Bounds, Histogram, header};
use parking_lot::Mutex;
use tokio::time::Instant;

const MICROSECOND: u64 = 1_000;
/// From 5 ms, each two and a half times the one before.
const DURATION: Bounds<14> = Bounds {
    values: [
        5_000 * MICROSECOND,
        12_500 * MICROSECOND,
        31_250 * MICROSECOND,
        78_125 * MICROSECOND,
        195_312_500,
        488_281_250,
        1_220_703_125,
        3_051_757_812,
        7_629_394_531,
        19_073_486_328,
        47_683_715_820,
        119_209_289_550,
        298_023_223_876,
        745_058_059_692,
    ],
    labels: [
        "0.005",
        "0.0125",
        "0.03125",
        "0.078125",
        "0.1953125",
        "0.48828125",
        "1.220703125",
        "3.0517578125",
        "7.62939453125",
        "19.073486328125",
        "47.6837158203125",
        "119.20928955078125",
        "298.0232238769531",
        "745.0580596923828",
    ],
    per_unit: 1_000_000 * MICROSECOND,
};

pub struct MeasuredRuntime {
    env: Env,
    inner: Arc<dyn cri::Runtime>,
    /// Guards which there are: as many as CRI has methods; held to find one.
    operations: Mutex<BTreeMap<&'static str, Arc<Operation>>>,
}

#[derive(Default)]
struct Operation {
    calls: AtomicU64,
    errors: AtomicU64,
    duration: Histogram<14>,
}

/// Counted when it is dropped: one that is given up before its end has failed, as kubelet's have whose deadline is over.
struct BegunCall<'a> {
    env: &'a Env,
    operation: Arc<Operation>,
    at: Instant,
    succeeded: bool,
}

impl Drop for BegunCall<'_> {
    fn drop(&mut self) {
        let Operation { calls, errors, duration } = &*self.operation;
        calls.fetch_add(1, Ordering::Relaxed);
        duration.took(&DURATION, self.env.monotonic() - self.at);
        if !self.succeeded {
            errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl MeasuredRuntime {
    pub fn new(env: &Env, inner: Arc<dyn cri::Runtime>) -> MeasuredRuntime {
        MeasuredRuntime { env: env.clone(), inner, operations: Mutex::default() }
    }

    fn measure<'a, T: 'a>(&'a self, name: &'static str, call: Call<'a, T>) -> Call<'a, T> {
        let operation = self.operations.lock().entry(name).or_default().clone();
        Box::pin(async move {
            let mut begun =
                BegunCall { env: &self.env, operation, at: self.env.monotonic(), succeeded: false };
            let done = call.await;
            begun.succeeded = done.is_ok();
            done
        })
    }

    pub fn write(&self, out: &mut String) {
        let operations = self.operations.lock().clone();
        let failed = |operation: &Operation| operation.errors.load(Ordering::Relaxed);
        let name = "kubelet_runtime_operations_duration_seconds";
        let help = "[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.";
        header(out, name, "histogram", help);
        for (kind, operation) in &operations {
            operation.duration.write(out, name, &format!("operation_type=\"{kind}\""), &DURATION, 0);
        }
        let name = "kubelet_runtime_operations_errors_total";
        let help = "[ALPHA] Cumulative number of runtime operation errors by operation type.";
        header(out, name, "counter", help);
        for (kind, operation) in operations.iter().filter(|(_, operation)| failed(operation) > 0) {
            *out += &format!("{name}{{operation_type=\"{kind}\"}} {}\n", failed(operation));
        }
        let name = "kubelet_runtime_operations_total";
        header(out, name, "counter", "[ALPHA] Cumulative number of runtime operations by operation type.");
        for (kind, operation) in &operations {
            let calls = operation.calls.load(Ordering::Relaxed);
            *out += &format!("{name}{{operation_type=\"{kind}\"}} {calls}\n");
        }
    }
}

macro_rules! measured {
    ($($method:ident($request:ty) -> $response:ty, $name:literal;)*) => {
        impl cri::Runtime for MeasuredRuntime {
            $(fn $method(&self, request: $request) -> Call<'_, $response> {
                self.measure($name, self.inner.$method(request))
            })*
        }
    };
}

measured! {
    version(cri::VersionRequest) -> cri::VersionResponse, "version";
    status(cri::StatusRequest) -> cri::StatusResponse, "status";
    runtime_config(cri::RuntimeConfigRequest) -> cri::RuntimeConfigResponse, "runtime_config";
    update_runtime_config(cri::UpdateRuntimeConfigRequest) -> cri::UpdateRuntimeConfigResponse, "update_runtime_config";
    run_pod_sandbox(cri::RunPodSandboxRequest) -> cri::RunPodSandboxResponse, "run_podsandbox";
    stop_pod_sandbox(cri::StopPodSandboxRequest) -> cri::StopPodSandboxResponse, "stop_podsandbox";
    remove_pod_sandbox(cri::RemovePodSandboxRequest) -> cri::RemovePodSandboxResponse, "remove_podsandbox";
    pod_sandbox_status(cri::PodSandboxStatusRequest) -> cri::PodSandboxStatusResponse, "podsandbox_status";
    list_pod_sandbox(cri::ListPodSandboxRequest) -> cri::ListPodSandboxResponse, "list_podsandbox";
    update_pod_sandbox_resources(cri::UpdatePodSandboxResourcesRequest) -> cri::UpdatePodSandboxResourcesResponse, "update_podsandbox_resources";
    create_container(cri::CreateContainerRequest) -> cri::CreateContainerResponse, "create_container";
    start_container(cri::StartContainerRequest) -> cri::StartContainerResponse, "start_container";
    stop_container(cri::StopContainerRequest) -> cri::StopContainerResponse, "stop_container";
    remove_container(cri::RemoveContainerRequest) -> cri::RemoveContainerResponse, "remove_container";
    list_containers(cri::ListContainersRequest) -> cri::ListContainersResponse, "list_containers";
    container_status(cri::ContainerStatusRequest) -> cri::ContainerStatusResponse, "container_status";
    update_container_resources(cri::UpdateContainerResourcesRequest) -> cri::UpdateContainerResourcesResponse, "update_container";
    reopen_container_log(cri::ReopenContainerLogRequest) -> cri::ReopenContainerLogResponse, "reopen_container_log";
    checkpoint_container(cri::CheckpointContainerRequest) -> cri::CheckpointContainerResponse, "checkpoint_container";
    exec_sync(cri::ExecSyncRequest) -> cri::ExecSyncResponse, "exec_sync";
    exec(cri::ExecRequest) -> cri::Session, "exec";
    attach(cri::AttachRequest) -> cri::Session, "attach";
    port_forward(cri::PortForwardRequest) -> cri::PortForward, "port_forward";
    list_container_stats(cri::ListContainerStatsRequest) -> cri::ListContainerStatsResponse, "list_container_stats";
    list_pod_sandbox_stats(cri::ListPodSandboxStatsRequest) -> cri::ListPodSandboxStatsResponse, "list_podsandbox_stats";
    container_events(cri::GetEventsRequest) -> BoxStream<'static, Result<cri::ContainerEventResponse, cri::Error>>, "get_container_events";
    list_images(cri::ListImagesRequest) -> cri::ListImagesResponse, "list_images";
    image_status(cri::ImageStatusRequest) -> cri::ImageStatusResponse, "image_status";
    pull_image(cri::PullImageRequest) -> cri::PullImageResponse, "pull_image";
    remove_image(cri::RemoveImageRequest) -> cri::RemoveImageResponse, "remove_image";
    image_fs_info(cri::ImageFsInfoRequest) -> cri::ImageFsInfoResponse, "image_fs_info";
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cri::Runtime;

    use super::*;

    struct Half;

    impl cri::PartialRuntime for Half {
        fn version(&self, _: cri::VersionRequest) -> Call<'_, cri::VersionResponse> {
            Box::pin(async { Ok(cri::VersionResponse::default()) })
        }
        fn exec_sync(&self, _: cri::ExecSyncRequest) -> Call<'_, cri::ExecSyncResponse> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_and_failures_are_counted_by_kubelets_names() {
        let runtime = MeasuredRuntime::new(&Env::simulated(1), Arc::new(Half));
        runtime.version(cri::VersionRequest::default()).await.unwrap();
        for _ in 0..2 {
            runtime.run_pod_sandbox(cri::RunPodSandboxRequest::default()).await.unwrap_err();
        }
        let mut out = String::new();
        runtime.write(&mut out);
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"version\"} 1\n",
            "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 2\n",
            "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 2\n",
            "kubelet_runtime_operations_duration_seconds_count{operation_type=\"version\"} 1\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
        assert!(!out.contains("errors_total{operation_type=\"version\"}"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_has_failed() {
        let env = Env::simulated(2);
        let runtime = MeasuredRuntime::new(&env, Arc::new(Half));
        let call = runtime.exec_sync(cri::ExecSyncRequest::default());
        env.timeout(Duration::from_secs(30), call).await.unwrap_err();
        let mut out = String::new();
        runtime.write(&mut out);
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"exec_sync\"} 1\n",
            "kubelet_runtime_operations_errors_total{operation_type=\"exec_sync\"} 1\n",
            "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"exec_sync\"} 30\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
    }
}
