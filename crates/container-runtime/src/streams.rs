//! Exec and attach: processes whose streams are descriptors.

mod detach;
mod exec_sync;
mod terminal;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use container::config::Process;
use container::wire::{Reply, Request};
use cri::{Code, Error, Streams};
use env::Env;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

use crate::Inner;
use crate::blocking::block;
use crate::error::{Context, unknown};
use crate::helper::{self, Connection, HelperError};
use crate::pods::Container;

use detach::{Input, Output};
pub use exec_sync::{OutputBudget, exec_sync};
use terminal::Terminal;

/// Sizes of a terminal that wait to be set: the last one counts.
const RESIZES: usize = 8;

/// A process that was started in a container.
struct Exec {
    /// Says how it ended.
    socket: UnixStream,
    id: u64,
    guard: Guard,
    terminal: Option<OwnedFd>,
}

/// Kills the process unless it ended: nobody is there for it.
struct Guard {
    directory: PathBuf,
    exec: u64,
    armed: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (directory, exec) = (std::mem::take(&mut self.directory), self.exec);
        let kill = move || {
            let request = Request::SignalExec { exec, signal: 9 };
            if let Ok(connection) = Connection::open(&directory) {
                let _ = connection.ask(&request, &[]);
            }
        };
        // A helper that is busy is nothing to wait for here; without a runtime the whole program ends.
        match tokio::runtime::Handle::try_current() {
            Ok(_) => image::blocking_pool()(Box::new(kill)),
            Err(_) => kill(),
        }
    }
}

/// Starts one more process, with these three streams; `None` is `/dev/null`.
fn start(
    inner: &Inner,
    container: &Container,
    cmd: Vec<String>,
    terminal: bool,
    streams: [Option<OwnedFd>; 3],
) -> Result<Exec, Error> {
    let mut process = inner.spec_of(container)?.process;
    process.args = cmd;
    if terminal && !process.terminal {
        process.env.insert(0, "TERM=xterm".into());
    }
    let process = Process { terminal, ..process };
    let null = null().context(|| "failed to open /dev/null".to_owned())?;
    let beside: Vec<BorrowedFd<'_>> =
        streams.iter().map(|stream| stream.as_ref().map_or(null.as_fd(), AsFd::as_fd)).collect();
    let directory = &container.sandbox.directory;
    let failed =
        |error: HelperError| unknown(format!("failed to exec in container: failed to start exec: {error}"));
    let connection = Connection::open(directory).map_err(|error| failed(error.into()))?;
    let request = Request::Exec { container: container.id.clone(), process: Box::new(process) };
    let (reply, descriptors) = connection.ask(&request, &beside).map_err(|error| match error {
        HelperError::Refused(why) => unknown(format!(
            "failed to exec in container: failed to start exec: unable to start container process: {why}"
        )),
        silent => failed(silent),
    })?;
    let Reply::Execed { exec: id } = reply else {
        return Err(failed(io::Error::from(io::ErrorKind::InvalidData).into()));
    };
    let guard = Guard { directory: directory.clone(), exec: id, armed: true };
    let socket = connection.into_async().map_err(|error| failed(error.into()))?;
    Ok(Exec { socket, id, guard, terminal: descriptors.into_iter().next() })
}

impl Exec {
    /// Its exit code.
    async fn wait(&mut self) -> Result<i32, Error> {
        loop {
            match helper::next_reply(&mut self.socket).await {
                Ok(Some(Reply::ExecEnded { exec, code })) if exec == self.id => {
                    self.guard.armed = false;
                    return Ok(code);
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    self.guard.armed = false;
                    return Err(Error::new(Code::Unavailable, "the pod ended"));
                }
            }
        }
    }
}

pub async fn exec(inner: Arc<Inner>, request: cri::ExecRequest) -> Result<Streams, Error> {
    let container = running(&inner, &request.container_id)?;
    let (with_terminal, env) = (request.tty, inner.env.clone());
    let (their_stdin, stdin) = pipe(request.stdin && !with_terminal)?;
    let (stdout, their_stdout) = pipe(request.stdout && !with_terminal)?;
    let (stderr, their_stderr) = pipe(request.stderr && !with_terminal)?;
    let mut exec = block(move || {
        let streams = [their_stdin, their_stdout, their_stderr];
        start(&inner, &container, request.cmd, with_terminal, streams)
    })
    .await?;
    let mut streams = match exec.terminal.take() {
        Some(terminal) => of_terminal(&env, terminal, request.stdin, request.stdout)?,
        None => Streams {
            stdin: stdin.map(writer).transpose()?,
            stdout: stdout.map(reader).transpose()?,
            stderr: stderr.map(reader).transpose()?,
            resize: None,
            exit: Box::pin(std::future::pending()),
        },
    };
    streams.exit = Box::pin(async move { exec.wait().await });
    Ok(streams)
}

/// The streams of the container's own first process, from now on.
pub async fn attach(inner: Arc<Inner>, request: cri::AttachRequest) -> Result<Streams, Error> {
    let container = running(&inner, &request.container_id)?;
    let (mut phase, env) = (container.phase.subscribe(), inner.env.clone());
    let (with_terminal, stdin_once) = {
        let record = container.record.lock();
        record.config.as_ref().map_or((false, false), |config| (config.tty, config.stdin_once))
    };
    let (stdout, their_stdout) = pipe(request.stdout)?;
    let (stderr, their_stderr) = pipe(request.stderr && !with_terminal)?;
    let input = block(move || {
        let failed = || "failed to attach container".to_owned();
        let null = null().context(failed)?;
        let beside = [&their_stdout, &their_stderr].map(|end| end.as_ref().map_or(null.as_fd(), AsFd::as_fd));
        let connection = Connection::open(&container.sandbox.directory).context(failed)?;
        let request = Request::Attach { container: container.id.clone(), stdin: request.stdin };
        let (_, descriptors) = connection.ask(&request, &beside).context(failed)?;
        Ok(descriptors.into_iter().next())
    })
    .await?;
    let mut streams = match input.filter(|_| with_terminal || request.stdin) {
        Some(terminal) if with_terminal => of_terminal(&env, terminal, request.stdin, false)?,
        input => Streams {
            stdin: input.map(writer).transpose()?,
            stdout: None,
            stderr: stderr.map(reader).transpose()?,
            resize: None,
            exit: Box::pin(std::future::pending()),
        },
    };
    // Also with a terminal: the helper reads that, and gives a copy of everything to who is attached.
    streams.stdout = stdout.map(reader).transpose()?;
    let mut detached = None;
    if let Some(stdin) = streams.stdin.take_if(|_| !with_terminal && !stdin_once) {
        let (stdin, left) = Input::new(stdin);
        let until = |from| Box::new(Output::new(from, left.clone())) as Box<dyn AsyncRead + Send + Unpin>;
        streams.stdin = Some(Box::new(stdin));
        streams.stdout = streams.stdout.map(until);
        streams.stderr = streams.stderr.map(until);
        detached = Some(left);
    }
    streams.exit = Box::pin(async move {
        let detached = async {
            match detached {
                Some(detached) => detached.await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            biased;
            ended = phase.wait_for(|phase| !phase.is_running()) => ended,
            () = detached => return Ok(0),
        };
        ended.map(|_| 0).map_err(|_| Error::new(Code::Canceled, "the runtime was shut down"))
    });
    Ok(streams)
}

fn running(inner: &Inner, id: &str) -> Result<Arc<Container>, Error> {
    let container = inner.container(id)?;
    let phase = container.phase.borrow().name();
    let is_running = container.phase.borrow().is_running();
    if is_running { Ok(container) } else { Err(unknown(format!("container is in {phase} state"))) }
}

/// Two ends to read from and to write to, if wanted.
fn pipe(wanted: bool) -> Result<(Option<OwnedFd>, Option<OwnedFd>), Error> {
    if !wanted {
        return Ok((None, None));
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).context(|| "failed to create a pipe".to_owned())?;
    Ok((Some(read), Some(write)))
}

fn null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::options().read(true).write(true).open("/dev/null")?.into())
}

fn reader(end: OwnedFd) -> Result<Box<dyn AsyncRead + Send + Unpin>, Error> {
    let end = Receiver::from_owned_fd(end).context(|| "failed to open a stream".to_owned())?;
    Ok(Box::new(end))
}

fn writer(end: OwnedFd) -> Result<Box<dyn AsyncWrite + Send + Unpin>, Error> {
    let end = Sender::from_owned_fd(end).context(|| "failed to open a stream".to_owned())?;
    Ok(Box::new(end))
}

fn of_terminal(env: &Env, terminal: OwnedFd, stdin: bool, stdout: bool) -> Result<Streams, Error> {
    let terminal = Terminal::new(terminal).context(|| "failed to open the terminal".to_owned())?;
    let (resize, mut sizes) = mpsc::channel(RESIZES);
    let sized = terminal.clone();
    // Ends with its sender, which is the client's.
    drop(env.spawn("terminal-size", async move {
        while let Some((width, height)) = sizes.recv().await {
            sized.resize(width, height);
        }
    }));
    Ok(Streams {
        stdin: stdin.then(|| Box::new(terminal.clone()) as Box<dyn AsyncWrite + Send + Unpin>),
        stdout: stdout.then(|| Box::new(terminal) as Box<dyn AsyncRead + Send + Unpin>),
        stderr: None,
        resize: Some(resize),
        exit: Box::pin(std::future::pending()),
    })
}
