//! A runtime whose containers are this machine: what is executed in them are processes of its own.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cri::*;
use env::Env;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

pub struct Host {
    env: Env,
    pub containers: Mutex<Vec<Container>>,
    pub sandboxes: Mutex<Vec<PodSandbox>>,
    pub statuses: Mutex<BTreeMap<String, ContainerStatus>>,
    pub pod_stats: Mutex<Option<Vec<PodSandboxStats>>>,
    pub container_stats: Mutex<Vec<cri::ContainerStats>>,
    /// Of terminals.
    pub sizes: Mutex<Vec<(u16, u16)>>,
    /// How many processes were cut off.
    pub killed: watch::Sender<usize>,
    /// Streams are at a server of the runtime's own.
    pub url: Mutex<Option<String>>,
    /// So many times it does not answer how a container is.
    pub away: watch::Sender<usize>,
    /// Those asked for, by a runtime that can.
    pub checkpoints: Mutex<Option<Vec<CheckpointContainerRequest>>>,
}

impl Host {
    pub fn new(env: &Env) -> Arc<Host> {
        let labels: BTreeMap<String, String> = [
            ("io.kubernetes.pod.name", "web"),
            ("io.kubernetes.pod.namespace", "default"),
            ("io.kubernetes.pod.uid", "u1"),
            ("io.kubernetes.container.name", "app"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let metadata = PodSandboxMetadata {
            name: "web".to_owned(),
            uid: "u1".to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let container = Container {
            id: "c1".to_owned(),
            pod_sandbox_id: "s1".to_owned(),
            metadata: Some(ContainerMetadata { name: "app".to_owned(), attempt: 0 }),
            image: Some(ImageSpec { image: "busybox".to_owned(), ..ImageSpec::default() }),
            state: ContainerState::Running as i32,
            created_at: 1_700_000_000_000_000_000,
            labels: labels.clone(),
            ..Container::default()
        };
        let mut of_pod = labels;
        of_pod.remove("io.kubernetes.container.name");
        let sandbox = PodSandbox {
            id: "s1".to_owned(),
            metadata: Some(metadata),
            state: PodSandboxState::Ready as i32,
            created_at: 1_600_000_000_000_000_000,
            labels: of_pod,
            ..PodSandbox::default()
        };
        Arc::new(Host {
            env: env.clone(),
            containers: Mutex::new(vec![container]),
            sandboxes: Mutex::new(vec![sandbox]),
            statuses: Mutex::default(),
            pod_stats: Mutex::default(),
            container_stats: Mutex::default(),
            sizes: Mutex::default(),
            killed: watch::Sender::new(0),
            url: Mutex::default(),
            away: watch::Sender::new(0),
            checkpoints: Mutex::default(),
        })
    }

    fn spawn(self: &Arc<Self>, request: &ExecRequest) -> Result<Streams, Error> {
        let (program, args) =
            request.cmd.split_first().ok_or(Error::new(Code::InvalidArgument, "no command"))?;
        let piped = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
        let mut command = Command::new("/bin/busybox");
        command.arg(program).args(args);
        command.stdin(piped(request.stdin)).stdout(piped(request.stdout)).stderr(piped(request.stderr));
        let mut child = command.spawn().map_err(|error| Error::new(Code::Unknown, error.to_string()))?;
        let stdin = child.stdin.take().map(|stdin| writer(stdin.into()));
        let stdout = child.stdout.take().map(|stdout| reader(stdout.into()));
        let stderr = child.stderr.take().map(|stderr| reader(stderr.into()));
        let (resize, mut sizes) = mpsc::channel(4);
        let host = self.clone();
        let mut process = Process { child, killed: self.killed.clone(), ended: false };
        let exit = async move {
            loop {
                while let Ok(size) = sizes.try_recv() {
                    host.sizes.lock().push(size);
                }
                if let Some(code) = process.exit_code() {
                    return Ok(code);
                }
                // Nothing tells of another process' end but asking.
                host.env.sleep(Duration::from_millis(2)).await;
            }
        };
        let resize = request.tty.then_some(resize);
        Ok(Streams { stdin, stdout, stderr, resize, exit: Box::pin(exit) })
    }
}

struct Process {
    child: Child,
    killed: watch::Sender<usize>,
    ended: bool,
}

impl Process {
    fn exit_code(&mut self) -> Option<i32> {
        let status = self.child.try_wait().unwrap()?;
        self.ended = true;
        Some(status.code().unwrap_or(137))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.killed.send_modify(|killed| *killed += 1);
        }
    }
}

fn reader(fd: OwnedFd) -> Box<dyn AsyncRead + Send + Unpin> {
    Box::new(pipe::Receiver::from_owned_fd(fd).unwrap())
}

fn writer(fd: OwnedFd) -> Box<dyn AsyncWrite + Send + Unpin> {
    Box::new(pipe::Sender::from_owned_fd(fd).unwrap())
}

fn matches(wanted: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// The trait is implemented for what is shared: processes outlive calls.
#[derive(Clone)]
pub struct Shared(pub Arc<Host>);

impl PartialRuntime for Shared {
    fn list_containers(&self, request: ListContainersRequest) -> Call<'_, ListContainersResponse> {
        let filter = request.filter.unwrap_or_default();
        let mut containers = self.0.containers.lock().clone();
        containers.retain(|of| {
            filter.state.as_ref().is_none_or(|wanted| wanted.state == of.state)
                && matches(&filter.label_selector, &of.labels)
        });
        Box::pin(async move { Ok(ListContainersResponse { containers }) })
    }
    fn list_pod_sandbox(&self, request: ListPodSandboxRequest) -> Call<'_, ListPodSandboxResponse> {
        let filter = request.filter.unwrap_or_default();
        let mut items = self.0.sandboxes.lock().clone();
        items.retain(|of| matches(&filter.label_selector, &of.labels));
        Box::pin(async move { Ok(ListPodSandboxResponse { items }) })
    }
    fn container_status(&self, request: ContainerStatusRequest) -> Call<'_, ContainerStatusResponse> {
        let mut is_away = false;
        self.0.away.send_modify(|times| {
            is_away = *times > 0;
            *times = times.saturating_sub(1);
        });
        if is_away {
            return Box::pin(async { Err(Error::new(Code::Unavailable, "no socket")) });
        }
        let status = self.0.statuses.lock().get(&request.container_id).cloned();
        let missing = Error::new(Code::NotFound, format!("no container {:?}", request.container_id));
        Box::pin(async move {
            let status = Some(status.ok_or(missing)?);
            Ok(ContainerStatusResponse { status, ..ContainerStatusResponse::default() })
        })
    }
    fn checkpoint_container(
        &self,
        request: CheckpointContainerRequest,
    ) -> Call<'_, CheckpointContainerResponse> {
        match &mut *self.0.checkpoints.lock() {
            Some(asked) => {
                asked.push(request);
                Box::pin(async { Ok(CheckpointContainerResponse {}) })
            }
            None => Box::pin(async { Err(cri::no_checkpoints()) }),
        }
    }
    fn exec_sync(&self, request: ExecSyncRequest) -> Call<'_, ExecSyncResponse> {
        let done = Command::new("/bin/busybox").args(&request.cmd).output();
        Box::pin(async move {
            let done = done.map_err(|error| Error::new(Code::Unknown, error.to_string()))?;
            let exit_code = done.status.code().unwrap_or(137);
            Ok(ExecSyncResponse { stdout: done.stdout, stderr: done.stderr, exit_code })
        })
    }
    fn exec(&self, request: ExecRequest) -> Call<'_, Session> {
        Box::pin(async move {
            if let Some(url) = self.0.url.lock().clone() {
                return Ok(Session::Url(url));
            }
            if request.cmd == ["gone"] {
                return Err(Error::new(Code::NotFound, "container is gone"));
            }
            if request.cmd == ["missing"] {
                return Err(Error::new(
                    Code::Unknown,
                    "exec: \"missing\": executable file not found in $PATH",
                ));
            }
            self.0.spawn(&request).map(Session::Streams)
        })
    }
    /// The container's process is `cat`.
    fn attach(&self, request: AttachRequest) -> Call<'_, Session> {
        let AttachRequest { stdin, stdout, stderr, tty, .. } = request;
        let cmd = vec!["cat".to_owned()];
        let request = ExecRequest { container_id: String::new(), cmd, tty, stdin, stdout, stderr };
        Box::pin(async move { self.0.spawn(&request).map(Session::Streams) })
    }
    fn port_forward(&self, _: PortForwardRequest) -> Call<'_, PortForward> {
        let connect: Arc<Connect> = Arc::new(|port| {
            Box::pin(async move {
                let connected = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
                let tcp =
                    connected.map_err(|error: io::Error| Error::new(Code::Unknown, error.to_string()))?;
                Ok(Box::new(tcp) as streaming::Io)
            })
        });
        let url = self.0.url.lock().clone();
        Box::pin(async move { Ok(url.map_or(PortForward::Connect(connect), PortForward::Url)) })
    }
    fn list_pod_sandbox_stats(&self, _: ListPodSandboxStatsRequest) -> Call<'_, ListPodSandboxStatsResponse> {
        let stats = self.0.pod_stats.lock().clone();
        let missing = Error::new(Code::Unimplemented, "unknown method");
        Box::pin(async move { Ok(ListPodSandboxStatsResponse { stats: stats.ok_or(missing)? }) })
    }
    fn list_container_stats(&self, _: ListContainerStatsRequest) -> Call<'_, ListContainerStatsResponse> {
        let stats = self.0.container_stats.lock().clone();
        Box::pin(async move { Ok(ListContainerStatsResponse { stats }) })
    }
    fn image_fs_info(&self, _: ImageFsInfoRequest) -> Call<'_, ImageFsInfoResponse> {
        let fs = FilesystemUsage {
            timestamp: 1_700_000_000_000_000_000,
            fs_id: Some(FilesystemIdentifier { mountpoint: "/".to_owned() }),
            used_bytes: Some(UInt64Value { value: 4096 }),
            inodes_used: None,
        };
        Box::pin(async move { Ok(ImageFsInfoResponse { image_filesystems: vec![fs], ..Default::default() }) })
    }
}
