//! Exec, attach and run: processes in containers.

use std::sync::Arc;

use cri::{AttachRequest, Code, ExecRequest, ExecSyncRequest, Session, Streams};
use env::Env;
use http::StatusCode;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use object::Value;
use streaming::remotecommand::{self, Negotiated, Options, Outcome, Resizes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::answer::{self, Answer};
use super::handle::{Reply, Streaming};
use super::query::Query;
use super::routes::ContainerPath;
use super::{Context, containers, proxy};

/// Of output on its way.
const PIECE: usize = 32 << 10;

pub async fn exec(context: &Arc<Context>, path: &ContainerPath, request: Streaming) -> Reply {
    let (options, _) = match prepare(context, path, &request) {
        Ok(prepared) => prepared,
        Err(refusal) => return refusal.into(),
    };
    let runtime = context.node.runtime();
    let container_id = match containers::running(&*runtime, path).await {
        Ok(Some(id)) => id,
        Ok(None) => return server_error(format!("container not found ({:?})", path.container)).into(),
        Err(error) => return answer::runtime_error(&error).into(),
    };
    let negotiated = match negotiate(&request) {
        Ok(negotiated) => negotiated,
        Err(refusal) => return refusal.into(),
    };
    let cmd: Vec<String> = request.query.all("command").map(str::to_owned).collect();
    let Options { stdin, stdout, stderr, tty } = options;
    let asked = ExecRequest { container_id, cmd: cmd.clone(), tty, stdin, stdout, stderr };
    let session = runtime.exec(asked).await;
    let outcome = move |ended: Result<i32, cri::Error>| match ended {
        Ok(0) => Outcome::Success,
        Ok(code) => {
            let detail = format!("error executing command [{}], exit code {code}", cmd.join(" "));
            Outcome::Exited { code, detail }
        }
        Err(error) => Outcome::Failed(format!("error executing command in container: {}", error.message)),
    };
    start(context, request, options, negotiated, session, outcome).await
}

pub async fn attach(context: &Arc<Context>, path: &ContainerPath, request: Streaming) -> Reply {
    let (mut options, pod) = match prepare(context, path, &request) {
        Ok(prepared) => prepared,
        Err(refusal) => return refusal.into(),
    };
    let ContainerPath { namespace, pod: name, container, uid } = path;
    let runtime = context.node.runtime();
    let found = match containers::running(&*runtime, path).await {
        Ok(found) => found,
        Err(error) => return answer::runtime_error(&error).into(),
    };
    if !uid.is_empty() && found.is_some() && pod.str_at(&["metadata", "uid"]) != Some(uid) {
        return server_error(format!("pod {name}_{namespace} not found")).into();
    }
    let (Some(container_id), Some(spec)) = (found, containers::spec_of(&pod, container)) else {
        return server_error(format!("container {container} not found in pod {name}_{namespace}")).into();
    };
    // Whether a process has a terminal is settled when it starts.
    options.tty = spec.get("tty").and_then(Value::as_bool).unwrap_or(false);
    if options.tty && options.stderr {
        let error = cri::Error::new(Code::InvalidArgument, "tty and stderr cannot both be true");
        return answer::runtime_error(&error).into();
    }
    let negotiated = match negotiate(&request) {
        Ok(negotiated) => negotiated,
        Err(refusal) => return refusal.into(),
    };
    let Options { stdin, stdout, stderr, tty } = options;
    let session = runtime.attach(AttachRequest { container_id, stdin, tty, stdout, stderr }).await;
    let outcome = |ended: Result<i32, cri::Error>| match ended {
        Ok(_) => Outcome::Success,
        Err(error) => Outcome::Failed(format!("error attaching to container: {}", error.message)),
    };
    start(context, request, options, negotiated, session, outcome).await
}

/// A command to its end; its output is the answer.
pub async fn run(context: &Arc<Context>, path: &ContainerPath, query: &Query) -> Answer {
    if context.node.find(&path.namespace, &path.pod).is_none() {
        return answer::text(StatusCode::NOT_FOUND, "pod does not exist");
    }
    let runtime = context.node.runtime();
    let container_id = match containers::running(&*runtime, path).await {
        Ok(Some(id)) => id,
        Ok(None) => return server_error(format!("container not found ({:?})", path.container)),
        Err(error) => return server_error(error.to_string()),
    };
    let cmd: Vec<String> = query.get("cmd").unwrap_or("").split(' ').map(str::to_owned).collect();
    let words = cmd.join(" ");
    match runtime.exec_sync(ExecSyncRequest { container_id, cmd, timeout: 0 }).await {
        Ok(done) if done.exit_code == 0 => answer::json_bytes([done.stdout, done.stderr].concat()),
        Ok(done) => server_error(format!(
            "command '{words}' exited with {}: {}",
            done.exit_code,
            String::from_utf8_lossy(&done.stderr)
        )),
        Err(error) => server_error(error.to_string()),
    }
}

/// What exec and attach have in common before the runtime is asked.
fn prepare(
    context: &Context,
    path: &ContainerPath,
    request: &Streaming,
) -> Result<(Options, Arc<Value>), Answer> {
    let options = Options::from_query(request.query.pairs())
        .map_err(|message| answer::text(StatusCode::BAD_REQUEST, message))?;
    let pod = context.node.find(&path.namespace, &path.pod);
    Ok((options, pod.ok_or_else(|| answer::text(StatusCode::NOT_FOUND, "pod does not exist"))?))
}

/// Before a process is started: one that nobody is connected to would have to be stopped again.
fn negotiate(request: &Streaming) -> Result<(Negotiated, streaming::upgrade::Accepted), Answer> {
    if let Some(refusal) = request.refusal() {
        return Err(refusal);
    }
    remotecommand::negotiate(&request.parts.method, &request.parts.headers).map_err(answer::refused)
}

async fn start(
    context: &Arc<Context>,
    request: Streaming,
    options: Options,
    (negotiated, accepted): (Negotiated, streaming::upgrade::Accepted),
    session: Result<Session, cri::Error>,
    outcome: impl FnOnce(Result<i32, cri::Error>) -> Outcome + Send + 'static,
) -> Reply {
    let streams = match session {
        Ok(Session::Url(url)) => {
            return proxy::remote_command(context, &url, request, options, negotiated, accepted).await;
        }
        Ok(Session::Streams(streams)) => Ok(streams),
        // The container is there, and the process could not be started: that is told as a status.
        Err(error) if matches!(error.code, Code::Unknown | Code::Internal) => Err(error),
        Err(error) => return answer::runtime_error(&error).into(),
    };
    let (env, on_upgrade) = (context.env.clone(), request.on_upgrade);
    let session = async move { serve(&env, on_upgrade, negotiated, options, streams, outcome).await };
    Reply::Upgrade(answer::switching(accepted), Box::pin(session))
}

async fn serve(
    env: &Env,
    on_upgrade: OnUpgrade,
    negotiated: Negotiated,
    options: Options,
    streams: Result<Streams, cri::Error>,
    outcome: impl FnOnce(Result<i32, cri::Error>) -> Outcome,
) {
    let Ok(io) = on_upgrade.await else { return };
    let io = Box::new(TokioIo::new(io));
    let mut session = match remotecommand::Session::accept(env, io, &negotiated, &options).await {
        Ok(session) => session,
        Err(error) => return tracing::debug!(%error, "session did not begin"),
    };
    let Streams { stdin, stdout, stderr, resize, exit } = match streams {
        Ok(streams) => streams,
        Err(error) => return session.finish(&outcome(Err(error))).await,
    };
    let sizes = session.resize.take();
    let input = async {
        tokio::join!(write_input(session.stdin.as_ref(), stdin), resizes(sizes, resize));
        // Input may end long before the process does.
        std::future::pending::<()>().await
    };
    let output = async {
        let (out, err) =
            (read_output(stdout, session.stdout.as_ref()), read_output(stderr, session.stderr.as_ref()));
        tokio::join!(exit, out, err).0
    };
    let ended = tokio::select! {
        ended = output => Some(ended),
        () = input => None,
        // Dropping the streams kills what was executed.
        () = session.closed() => None,
    };
    if let Some(ended) = ended {
        session.finish(&outcome(ended)).await;
    }
}

/// The client's input to the process. What it does not want any more is read on and dropped: unread it would hold up the rest.
async fn write_input(from: Option<&streaming::Stream>, to: Option<Box<dyn AsyncWrite + Send + Unpin>>) {
    let Some(from) = from else { return };
    let mut to = to;
    while let Ok(piece) = from.chunk().await
        && !piece.is_empty()
    {
        if let Some(process) = &mut to
            && (process.write_all(&piece).await.is_err() || process.flush().await.is_err())
        {
            to = None;
        }
    }
    if let Some(mut process) = to {
        let _ = process.shutdown().await;
    }
}

async fn read_output(from: Option<Box<dyn AsyncRead + Send + Unpin>>, to: Option<&streaming::Stream>) {
    let Some(mut from) = from else { return };
    let mut to = to;
    let mut piece = vec![0; PIECE];
    while let Ok(read) = from.read(&mut piece).await
        && read > 0
    {
        // A client that wants no more of it does not hold up the process.
        if let Some(client) = to
            && client.send(&piece[..read]).await.is_err()
        {
            to = None;
        }
    }
    if let Some(client) = to {
        client.finish();
    }
}

async fn resizes(sizes: Option<Resizes>, terminal: Option<mpsc::Sender<(u16, u16)>>) {
    let (Some(mut sizes), Some(terminal)) = (sizes, terminal) else { return };
    while let Some(size) = sizes.next().await {
        if terminal.send((size.width, size.height)).await.is_err() {
            return;
        }
    }
}

fn server_error(message: String) -> Answer {
    answer::text(StatusCode::INTERNAL_SERVER_ERROR, message)
}
