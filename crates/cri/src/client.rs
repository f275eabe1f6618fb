//! A runtime that serves the protocol on a Unix socket, such as containerd.
//!
//! One connection for all calls, made when it is needed; a runtime that was restarted is dialled again by the next call. Timeouts are kubelet's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures_util::stream::{self, BoxStream};
use grpc::{Answers, CallError, Connection, Options};
use http::Uri;
use prost::Message;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::*;

const OPTIONS: Options = Options { max_answer_bytes: 16 << 20, ping: None, headers: &[] };

/// Of most calls.
const LIMIT: Duration = Duration::from_secs(120);
/// A sandbox may need its image, and its network.
const SANDBOX_LIMIT: Duration = Duration::from_secs(240);
const DIAL_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not an endpoint of a container runtime: write it as unix:///run/containerd/containerd.sock"
)]
pub struct EndpointError(String);

pub struct Client {
    channel: Arc<Channel>,
}

struct Channel {
    env: Env,
    socket: PathBuf,
    /// The connection in use. Held while dialling, on purpose: all who wait need the outcome of that same dial.
    current: Mutex<Option<Arc<Connection>>>,
}

impl Client {
    /// `endpoint`: `unix:///path`, or the path alone. Nothing is dialled yet.
    pub fn new(env: &Env, endpoint: &str) -> Result<Client, EndpointError> {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        if !path.starts_with('/') {
            return Err(EndpointError(endpoint.to_owned()));
        }
        let channel = Channel { env: env.clone(), socket: path.into(), current: Mutex::new(None) };
        Ok(Client { channel: Arc::new(channel) })
    }

    fn call<A: Message + Default + 'static>(
        &self,
        method: &'static str,
        request: impl Message + 'static,
    ) -> Call<'_, A> {
        self.call_within(Some(LIMIT), method, request)
    }

    fn call_within<A: Message + Default + 'static>(
        &self,
        limit: Option<Duration>,
        method: &'static str,
        request: impl Message + 'static,
    ) -> Call<'_, A> {
        Box::pin(async move {
            let call = self.channel.unary(method, &request);
            let answer = match limit {
                Some(limit) => {
                    self.channel.env.timeout(limit, call).await.unwrap_or(Err(CallError::Timeout(limit)))
                }
                None => call.await,
            };
            answer.map_err(refused)
        })
    }
}

impl Channel {
    async fn unary<A: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
    ) -> Result<A, CallError> {
        let connection = self.connection().await?;
        match connection.unary(method, request).await {
            // The runtime went away since the last call, and is perhaps back.
            Err(CallError::NotSent(_)) => self.redial(&connection).await?.unary(method, request).await,
            answer => answer,
        }
    }

    async fn server_stream(&self, method: &str, request: &impl Message) -> Result<Streaming, CallError> {
        let connection = self.connection().await?;
        let (answers, connection) = match connection.server_stream(method, request).await {
            Err(CallError::NotSent(_)) => {
                let connection = self.redial(&connection).await?;
                (connection.server_stream(method, request).await?, connection)
            }
            answers => (answers?, connection),
        };
        Ok(Streaming { answers, _connection: connection })
    }

    async fn connection(&self) -> Result<Arc<Connection>, CallError> {
        let mut current = self.current.lock().await;
        if let Some(connection) = current.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        let connection = Arc::new(self.dial().await?);
        *current = Some(connection.clone());
        Ok(connection)
    }

    async fn redial(&self, failed: &Arc<Connection>) -> Result<Arc<Connection>, CallError> {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, failed)) {
            *current = None;
        }
        drop(current);
        self.connection().await
    }

    async fn dial(&self) -> Result<Connection, CallError> {
        let failed = |why: String| {
            let socket = self.socket.display();
            CallError::NotSent(format!("transport: Error while dialing: dial unix {socket}: {why}"))
        };
        let dial = async {
            let socket =
                UnixStream::connect(&self.socket).await.map_err(|error| failed(error.to_string()))?;
            Connection::handshake(&self.env, socket, Uri::from_static("http://localhost"), OPTIONS).await
        };
        let late = |_| Err(failed("i/o timeout".to_owned()));
        self.env.timeout(DIAL_LIMIT, dial).await.unwrap_or_else(late)
    }
}

/// Answers that come as long as the connection stands.
struct Streaming {
    answers: Answers,
    _connection: Arc<Connection>,
}

/// As gRPC's own client reports it.
fn refused(error: CallError) -> Error {
    match error {
        CallError::Status { code, message } => Error::new(Code::of(code), message),
        CallError::NotSent(why) => {
            Error::new(Code::Unavailable, format!("connection error: desc = \"{why}\""))
        }
        CallError::Lost(why) => Error::new(Code::Unavailable, format!("error reading from server: {why}")),
        CallError::Timeout(_) => Error::new(Code::DeadlineExceeded, "context deadline exceeded"),
        CallError::Oversized => {
            let max = OPTIONS.max_answer_bytes;
            Error::new(Code::ResourceExhausted, format!("grpc: received message larger than max ({max})"))
        }
        CallError::Protocol(why) => Error::new(Code::Internal, why),
    }
}

/// A method of the runtime's service, or of the images'.
macro_rules! method {
    (runtime $name:literal) => {
        concat!("/runtime.v1.RuntimeService/", $name)
    };
    (image $name:literal) => {
        concat!("/runtime.v1.ImageService/", $name)
    };
}

/// Calls whose answers are passed on as they are.
macro_rules! passed_on {
    ($($service:ident $name:literal $call:ident($request:ty) -> $answer:ty $(, $limit:expr)?;)*) => {
        $(fn $call(&self, request: $request) -> Call<'_, $answer> {
            passed_on!(@call self, method!($service $name), request $(, $limit)?)
        })*
    };
    (@call $self:ident, $method:expr, $request:ident) => { $self.call($method, $request) };
    (@call $self:ident, $method:expr, $request:ident, $limit:expr) => {
        $self.call_within($limit(&$request), $method, $request)
    };
}

impl Runtime for Client {
    passed_on! {
        runtime "Version" version(VersionRequest) -> VersionResponse;
        runtime "Status" status(StatusRequest) -> StatusResponse;
        runtime "RuntimeConfig" runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse;
        runtime "UpdateRuntimeConfig" update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse;
        runtime "RunPodSandbox" run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse, |_| Some(SANDBOX_LIMIT);
        runtime "StopPodSandbox" stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
        runtime "RemovePodSandbox" remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
        runtime "PodSandboxStatus" pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse;
        runtime "ListPodSandbox" list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
        runtime "UpdatePodSandboxResources"
            update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse;
        runtime "CreateContainer" create_container(CreateContainerRequest) -> CreateContainerResponse;
        runtime "StartContainer" start_container(StartContainerRequest) -> StartContainerResponse;
        runtime "StopContainer" stop_container(StopContainerRequest) -> StopContainerResponse,
            |request: &StopContainerRequest| Some(beyond(request.timeout));
        runtime "RemoveContainer" remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
        runtime "ListContainers" list_containers(ListContainersRequest) -> ListContainersResponse;
        runtime "ContainerStatus" container_status(ContainerStatusRequest) -> ContainerStatusResponse;
        runtime "UpdateContainerResources"
            update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse;
        runtime "ReopenContainerLog" reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse;
        runtime "ExecSync" exec_sync(ExecSyncRequest) -> ExecSyncResponse,
            |request: &ExecSyncRequest| (request.timeout > 0).then(|| beyond(request.timeout));
        runtime "ListContainerStats" list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse;
        runtime "ListPodSandboxStats" list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse;
        image "ListImages" list_images(ListImagesRequest) -> ListImagesResponse;
        image "ImageStatus" image_status(ImageStatusRequest) -> ImageStatusResponse;
        // Pulls take as long as they take; who does not want to wait drops the call, which ends them.
        image "PullImage" pull_image(PullImageRequest) -> PullImageResponse, |_| None;
        image "RemoveImage" remove_image(RemoveImageRequest) -> RemoveImageResponse;
        image "ImageFsInfo" image_fs_info(ImageFsInfoRequest) -> ImageFsInfoResponse;
    }

    /// The runtime has at least as long as any other call.
    fn checkpoint_container(
        &self,
        mut request: CheckpointContainerRequest,
    ) -> Call<'_, CheckpointContainerResponse> {
        let limit = LIMIT.max(seconds(request.timeout));
        request.timeout = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        self.call_within(Some(limit), method!(runtime "CheckpointContainer"), request)
    }

    fn exec(&self, request: ExecRequest) -> Call<'_, Session> {
        Box::pin(async move {
            let answer: ExecResponse = self.call(method!(runtime "Exec"), request).await?;
            url(answer.url).map(Session::Url)
        })
    }

    fn attach(&self, request: AttachRequest) -> Call<'_, Session> {
        Box::pin(async move {
            let answer: AttachResponse = self.call(method!(runtime "Attach"), request).await?;
            url(answer.url).map(Session::Url)
        })
    }

    fn port_forward(&self, request: PortForwardRequest) -> Call<'_, PortForward> {
        Box::pin(async move {
            let answer: PortForwardResponse = self.call(method!(runtime "PortForward"), request).await?;
            url(answer.url).map(PortForward::Url)
        })
    }

    /// A runtime may not say a word before the first event, so that it has none is the first item, not the call's error.
    fn container_events(
        &self,
        request: GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<ContainerEventResponse, Error>>> {
        enum At {
            Start(Arc<Channel>, GetEventsRequest),
            Under(Streaming),
            End,
        }
        let next = |at: At| async move {
            let mut streaming = match at {
                At::Start(channel, request) => {
                    let started =
                        channel.server_stream(method!(runtime "GetContainerEvents"), &request).await;
                    match started {
                        Ok(streaming) => streaming,
                        Err(error) => return Some((Err(refused(error)), At::End)),
                    }
                }
                At::Under(streaming) => streaming,
                At::End => return None,
            };
            match streaming.answers.next::<ContainerEventResponse>().await {
                Ok(Some(event)) => Some((Ok(event), At::Under(streaming))),
                Ok(None) => None,
                Err(error) => Some((Err(refused(error)), At::End)),
            }
        };
        let start = At::Start(self.channel.clone(), request);
        Box::pin(std::future::ready(Ok(Box::pin(stream::unfold(start, next)) as BoxStream<'static, _>)))
    }
}

/// What the runtime has beside the time that was asked for.
fn beyond(asked: i64) -> Duration {
    LIMIT.saturating_add(seconds(asked))
}

fn seconds(asked: i64) -> Duration {
    Duration::from_secs(u64::try_from(asked).unwrap_or(0))
}

fn url(url: String) -> Result<String, Error> {
    if url.is_empty() { Err(Error::new(Code::Unknown, "URL is not set")) } else { Ok(url) }
}

#[cfg(test)]
mod tests;
