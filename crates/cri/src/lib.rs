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

/// Both traits from one list, so that neither has a method the other has not.
macro_rules! services {
    ($($(#[$about:meta])* fn $method:ident($request:ty) -> $response:ty;)*) => {
        /// RuntimeService and ImageService, method by method as the protocol has them.
        pub trait Runtime: Send + Sync {
            $($(#[$about])* fn $method(&self, request: $request) -> Call<'_, $response>;)*
        }

        /// For tests: a runtime with some of the methods. What it does not have is answered as a gRPC server does.
        pub trait PartialRuntime: Send + Sync {
            $(fn $method(&self, _: $request) -> Call<'_, $response> {
                Box::pin(async { Err(Error::new(Code::Unimplemented, "method not implemented")) })
            })*
        }

        impl<T: PartialRuntime> Runtime for T {
            $(fn $method(&self, request: $request) -> Call<'_, $response> {
                PartialRuntime::$method(self, request)
            })*
        }
    };
}

services! {
    fn version(VersionRequest) -> VersionResponse;
    fn status(StatusRequest) -> StatusResponse;
    fn runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse;
    /// The pod CIDR of the node, once it is known.
    fn update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse;

    fn run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
    fn stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
    fn remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
    fn pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse;
    fn list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
    fn update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse;

    fn create_container(CreateContainerRequest) -> CreateContainerResponse;
    fn start_container(StartContainerRequest) -> StartContainerResponse;
    fn stop_container(StopContainerRequest) -> StopContainerResponse;
    fn remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
    fn list_containers(ListContainersRequest) -> ListContainersResponse;
    fn container_status(ContainerStatusRequest) -> ContainerStatusResponse;
    fn update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse;
    fn reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse;
    fn checkpoint_container(CheckpointContainerRequest) -> CheckpointContainerResponse;

    fn exec_sync(ExecSyncRequest) -> ExecSyncResponse;
    fn exec(ExecRequest) -> Session;
    fn attach(AttachRequest) -> Session;
    fn port_forward(PortForwardRequest) -> PortForward;

    fn list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse;
    fn list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse;
    /// Containers that were created, started, ended, removed. Ends when the runtime goes away.
    fn container_events(GetEventsRequest) -> BoxStream<'static, Result<ContainerEventResponse, Error>>;

    fn list_images(ListImagesRequest) -> ListImagesResponse;
    fn image_status(ImageStatusRequest) -> ImageStatusResponse;
    fn pull_image(PullImageRequest) -> PullImageResponse;
    fn remove_image(RemoveImageRequest) -> RemoveImageResponse;
    fn image_fs_info(ImageFsInfoRequest) -> ImageFsInfoResponse;
}

/// Of a runtime without checkpoints, in the words of containerd before version 2.
pub fn no_checkpoints() -> Error {
    Error::new(Code::Unimplemented, "method CheckpointContainer not implemented")
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
