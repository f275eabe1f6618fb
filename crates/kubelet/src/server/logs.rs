//! `/containerLogs`: what a container wrote, and goes on to write.

mod options;
mod which;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use container_log::{Changes, Options, Progress, Reader, follow};
use cri::{ContainerState, ContainerStatus, ContainerStatusRequest};
use http::StatusCode;
use tokio::sync::{mpsc, watch};

use super::answer::{self, Answer};
use super::query::Query;
use super::routes::ContainerPath;
use super::{Context, containers};
use crate::blocking::block;

/// How often the runtime is asked whether a container that is followed still runs.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

pub async fn container_logs(context: &Arc<Context>, path: &ContainerPath, query: &Query) -> Answer {
    let ContainerPath { namespace, pod: name, container, .. } = path;
    let missing = [
        (name, "Missing podID."),
        (container, "Missing container name."),
        (namespace, "Missing podNamespace."),
    ];
    if let Some((_, message)) = missing.iter().find(|(part, _)| part.is_empty()) {
        return bad_request(format!("{{\"message\": \"{message}\"}}"));
    }
    let Ok(asked) = options::parse(query) else {
        return bad_request("{\"message\": \"Unable to decode query.\"}".to_owned());
    };
    if !asked.is_valid() {
        return answer::text(StatusCode::UNPROCESSABLE_ENTITY, "{\"message\": \"Invalid request.\"}");
    }
    let Some(pod) = context.node.find(namespace, name) else {
        return answer::text(StatusCode::NOT_FOUND, format!("pod {name:?} does not exist"));
    };
    if containers::spec_of(&pod, container).is_none() {
        let message = format!("container {container:?} not found in pod {name:?}");
        return answer::text(StatusCode::NOT_FOUND, message);
    }
    // PodLogsQuerySplitStreams is off in v1.36.
    if let Some(stream) = asked.stream.as_deref().filter(|stream| *stream != "All") {
        return bad_request(format!(
            "unable to return the given log stream: {stream:?}. Please enable PodLogsQuerySplitStreams feature gate in kubelet"
        ));
    }
    let container_id = match which::container_id(&pod, container, asked.previous) {
        Ok(id) => id,
        Err(message) => return bad_request(message),
    };
    let now = i128::try_from(context.env.now_nanos()).unwrap_or(i128::MAX);
    match open(context, &container_id, asked.reader_options(now)).await {
        Ok(log) => log.answer(context),
        // The answer has begun at this point: kubelet can only write the reason into it.
        Err(message) => answer::text(StatusCode::OK, message),
    }
}

fn bad_request(message: String) -> Answer {
    answer::text(StatusCode::BAD_REQUEST, message)
}

/// A log that can be read.
struct Log {
    reader: Reader,
    /// While it is followed: what tells of changes, and whose container it is.
    followed: Option<(Changes, String)>,
}

/// `container_id` as a status has it: `TYPE://ID`.
async fn open(context: &Context, container_id: &str, options: Options) -> Result<Log, String> {
    let id = container_id.split_once("://").map_or(container_id, |(_, id)| id);
    let status = status(context, id).await.map_err(|error| {
        tracing::debug!(container_id, %error, "container has no status");
        format!("unable to retrieve container logs for {container_id}")
    })?;
    let status = status.ok_or_else(|| "container status is nil".to_owned())?;
    let follows = options.follow;
    // The log may be a link: changes are those of where it leads.
    let watched = |path: &str| {
        let path = Path::new(path).canonicalize().unwrap_or_else(|_| path.into());
        Changes::watch(&path).map_err(|error| format!("failed to create fsnotify watcher: {error}"))
    };
    let changes = if follows { watched(&status.log_path).map(Some) } else { Ok(None) };
    // Its last lines are looked for from the end of the file.
    let opened = block(move || Reader::open(Path::new(&status.log_path), options)).await;
    let reader = opened.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    Ok(Log { reader, followed: changes?.map(|changes| (changes, id.to_owned())) })
}

async fn status(context: &Context, id: &str) -> Result<Option<ContainerStatus>, cri::Error> {
    let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    Ok(context.node.runtime().container_status(request).await?.status)
}

impl Log {
    fn answer(self, context: &Arc<Context>) -> Answer {
        let Log { reader, followed } = self;
        let Some((changes, id)) = followed else {
            return answer::stream(|pieces| {
                Box::pin(async move {
                    if let Err(error) = read(reader, &pieces).await {
                        let _ = pieces.send(error.to_string().into()).await;
                    }
                })
            });
        };
        let (context, hint) = (context.clone(), context.node.running(&id));
        answer::stream(move |pieces| {
            Box::pin(async move {
                let (ended, polled) = watch::channel(true);
                let (running, asks) = match hint {
                    Some(hint) => (hint, false),
                    None => (polled, true),
                };
                let sender = pieces.clone();
                // Not an async closure: the compiler cannot tell that its futures may be sent between threads.
                let send = move |piece: Bytes| {
                    let sender = sender.clone();
                    async move { sender.send(piece).await.map_err(|_| std::io::ErrorKind::BrokenPipe.into()) }
                };
                let mut lost = None;
                let followed = tokio::select! {
                    followed = follow(reader, changes, running, send) => followed,
                    () = watch_container(&context, &id, &ended, &mut lost), if asks => Ok(()),
                };
                let failure = followed.err().map(|error| error.to_string()).or(lost);
                if let Some(message) = failure {
                    let _ = pieces.send(message.into()).await;
                }
            })
        })
    }
}

async fn read(mut reader: Reader, pieces: &mpsc::Sender<Bytes>) -> Result<(), container_log::ReadError> {
    loop {
        let (again, output, progress) = reader.next().await?;
        reader = again;
        if !output.is_empty() && pieces.send(output).await.is_err() {
            return Ok(());
        }
        if progress != Progress::More {
            return Ok(());
        }
    }
}

/// Tells when a container does not run any more, and waits for ever then: the log is still to be read to its end. `lost`: why the
/// runtime cannot say how it is, which is told after that.
async fn watch_container(
    context: &Context,
    id: &str,
    running: &watch::Sender<bool>,
    lost: &mut Option<String>,
) {
    loop {
        match status(context, id).await {
            Ok(Some(status)) if status.state == ContainerState::Running as i32 => {}
            Ok(Some(_)) => break,
            Ok(None) => {
                *lost = Some("container status is nil".to_owned());
                break;
            }
            // Containers run on while their runtime is away.
            Err(error) if error.code == cri::Code::Unavailable => {}
            Err(error) => {
                *lost = Some(error.to_string());
                break;
            }
        }
        context.env.sleep(CHECK_PERIOD).await;
    }
    running.send_replace(false);
    std::future::pending().await
}
