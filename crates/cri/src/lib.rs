//! The Container Runtime Interface, `runtime.v1`: its messages, and its two services as one trait.
//!
//! What implements it: `container-runtime` inside this program, and any runtime that serves the protocol on a socket.

mod client;
mod messages;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

pub use client::{Client, EndpointError};
pub use messages::*;

pub type Call<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// RuntimeService and ImageService, method by method as the protocol has them. What a runtime does not have is answered as a gRPC
/// server does.
pub trait Runtime: Send + Sync {
    fn version(&self, request: VersionRequest) -> Call<'_, VersionResponse> {
        unserved(request)
    }
    fn status(&self, request: StatusRequest) -> Call<'_, StatusResponse> {
        unserved(request)
    }
    fn runtime_config(&self, request: RuntimeConfigRequest) -> Call<'_, RuntimeConfigResponse> {
        unserved(request)
    }
    /// The pod CIDR of the node, once it is known.
    fn update_runtime_config(
        &self,
        request: UpdateRuntimeConfigRequest,
    ) -> Call<'_, UpdateRuntimeConfigResponse> {
        unserved(request)
    }

    fn run_pod_sandbox(&self, request: RunPodSandboxRequest) -> Call<'_, RunPodSandboxResponse> {
        unserved(request)
    }
    fn stop_pod_sandbox(&self, request: StopPodSandboxRequest) -> Call<'_, StopPodSandboxResponse> {
        unserved(request)
    }
    fn remove_pod_sandbox(&self, request: RemovePodSandboxRequest) -> Call<'_, RemovePodSandboxResponse> {
        unserved(request)
    }
    fn pod_sandbox_status(&self, request: PodSandboxStatusRequest) -> Call<'_, PodSandboxStatusResponse> {
        unserved(request)
    }
    fn list_pod_sandbox(&self, request: ListPodSandboxRequest) -> Call<'_, ListPodSandboxResponse> {
        unserved(request)
    }
    fn update_pod_sandbox_resources(
        &self,
        request: UpdatePodSandboxResourcesRequest,
    ) -> Call<'_, UpdatePodSandboxResourcesResponse> {
        unserved(request)
    }

    fn create_container(&self, request: CreateContainerRequest) -> Call<'_, CreateContainerResponse> {
        unserved(request)
    }
    fn start_container(&self, request: StartContainerRequest) -> Call<'_, StartContainerResponse> {
        unserved(request)
    }
    fn stop_container(&self, request: StopContainerRequest) -> Call<'_, StopContainerResponse> {
        unserved(request)
    }
    fn remove_container(&self, request: RemoveContainerRequest) -> Call<'_, RemoveContainerResponse> {
        unserved(request)
    }
    fn list_containers(&self, request: ListContainersRequest) -> Call<'_, ListContainersResponse> {
        unserved(request)
    }
    fn container_status(&self, request: ContainerStatusRequest) -> Call<'_, ContainerStatusResponse> {
        unserved(request)
    }
    fn update_container_resources(
        &self,
        request: UpdateContainerResourcesRequest,
    ) -> Call<'_, UpdateContainerResourcesResponse> {
        unserved(request)
    }
    fn reopen_container_log(
        &self,
        request: ReopenContainerLogRequest,
    ) -> Call<'_, ReopenContainerLogResponse> {
        unserved(request)
    }

    /// In the words of containerd before version 2.
    fn checkpoint_container(&self, _: CheckpointContainerRequest) -> Call<'_, CheckpointContainerResponse> {
        let why = "method CheckpointContainer not implemented";
        Box::pin(async move { Err(Error::new(Code::Unimplemented, why)) })
    }

    fn exec_sync(&self, request: ExecSyncRequest) -> Call<'_, ExecSyncResponse> {
        unserved(request)
    }
    fn exec(&self, request: ExecRequest) -> Call<'_, Session> {
        unserved(request)
    }
    fn attach(&self, request: AttachRequest) -> Call<'_, Session> {
        unserved(request)
    }
    fn port_forward(&self, request: PortForwardRequest) -> Call<'_, PortForward> {
        unserved(request)
    }

    fn list_container_stats(
        &self,
        request: ListContainerStatsRequest,
    ) -> Call<'_, ListContainerStatsResponse> {
        unserved(request)
    }
    fn list_pod_sandbox_stats(
        &self,
        request: ListPodSandboxStatsRequest,
    ) -> Call<'_, ListPodSandboxStatsResponse> {
        unserved(request)
    }
    /// Containers that were created, started, ended, removed. Ends when the runtime goes away.
    fn container_events(
        &self,
        request: GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<ContainerEventResponse, Error>>> {
        unserved(request)
    }

    fn list_images(&self, request: ListImagesRequest) -> Call<'_, ListImagesResponse> {
        unserved(request)
    }
    fn image_status(&self, request: ImageStatusRequest) -> Call<'_, ImageStatusResponse> {
        unserved(request)
    }
    fn pull_image(&self, request: PullImageRequest) -> Call<'_, PullImageResponse> {
        unserved(request)
    }
    fn remove_image(&self, request: RemoveImageRequest) -> Call<'_, RemoveImageResponse> {
        unserved(request)
    }
    fn image_fs_info(&self, request: ImageFsInfoRequest) -> Call<'_, ImageFsInfoResponse> {
        unserved(request)
    }
}

fn unserved<'a, T: Send + 'a>(_: impl Sized) -> Call<'a, T> {
    Box::pin(async { Err(Error::new(Code::Unimplemented, "method not implemented")) })
}

/// Where the streams of an exec or attach are.
pub enum Session {
    /// At the runtime's own server: the client's connection is passed on to it.
    Url(String),
    Streams(Streams),
}

/// The streams of a process; those that were not asked for are `None`.
pub struct Streams {
    /// The terminal, where there is one.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Width and height of the terminal.
    pub resize: Option<mpsc::Sender<(u16, u16)>>,
    /// The exit code of an exec; of an attach, 0 when the container ended or let go. Dropped: an exec's process is killed.
    pub exit: BoxFuture<'static, Result<i32, Error>>,
}

/// How to reach the ports of a pod.
pub enum PortForward {
    Url(String),
    Connect(Arc<Connect>),
}

/// Opens one connection to a port of the pod.
pub type Connect = dyn Fn(u16) -> BoxFuture<'static, Result<streaming::Io, Error>> + Send + Sync;

/// What a call failed with, in gRPC's terms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code:?} desc = {message}")]
pub struct Error {
    pub code: Code,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Canceled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// By its number; those that gRPC does not have are unknown.
    pub fn of(number: u32) -> Code {
        use Code::*;
        let all = [
            Canceled,
            Unknown,
            InvalidArgument,
            DeadlineExceeded,
            NotFound,
            AlreadyExists,
            PermissionDenied,
            ResourceExhausted,
            FailedPrecondition,
            Aborted,
            OutOfRange,
            Unimplemented,
            Internal,
            Unavailable,
            DataLoss,
            Unauthenticated,
        ];
        all.into_iter().find(|code| *code as u32 == number).unwrap_or(Unknown)
    }
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }
}
