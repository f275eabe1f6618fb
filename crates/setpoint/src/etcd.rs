//! This program under the name `etcd`: what envtest needs of it. It is healthy at once, and says where objects are to be stored;
//! `kube-apiserver` beside it stores them there.

mod flags;
mod http;

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use env::Env;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::parent::Parent;
use flags::Settings;

/// The name it is started by.
pub const NAME: &str = "etcd";
/// The version that is reported: one that kube-apiserver v1.36 is used with.
const VERSION: &str = "3.6.8";
/// Where `kube-apiserver` asks for the data directory.
pub const STORE_PATH: &str = "/setpoint/store";
/// In the data directory, while this runs: proves that it is this one's.
pub const TOKEN_FILE: &str = "setpoint.token";

pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let settings = match flags::parse(args) {
        Ok(flags::Asked::Run(settings)) => settings,
        Ok(flags::Asked::Help) => {
            print!("{}", flags::help());
            return ExitCode::SUCCESS;
        }
        Ok(flags::Asked::Version) => {
            println!("etcd Version: {VERSION}\nA stand-in: setpoint {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{NAME}: {error}; see `etcd --help`");
            return ExitCode::from(2);
        }
    };
    match run(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{NAME}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Settings) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .context("cannot start the tokio runtime")?
        .block_on(serve(settings, Parent::of_process_group_leader()))
}

async fn serve(settings: &Settings, parent: Option<Parent>) -> Result<()> {
    let env = Env::machine();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let token = Token::write(&settings.data_dir, &env)?;
    let answers = http::Answers::new(&token, settings.sync);
    let mut listeners = Vec::new();
    for address in &settings.listen {
        listeners.push(listen(*address).await?);
    }
    let serving = listeners.into_iter().map(|listener| {
        let (env, answers) = (env.clone(), answers.clone());
        env.clone().spawn("etcd", http::serve(env, listener, answers))
    });
    let serving: Vec<_> = serving.collect();
    let orphaned = async {
        match parent {
            Some(parent) => parent.gone(&env).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = orphaned => {}
    }
    serving.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}; choose another with --listen-client-urls"))
}

/// The data directory, and the file in it that proves whose it is; the file is removed when this is dropped.
pub struct Token {
    pub dir: PathBuf,
    pub text: String,
}

impl Token {
    fn write(dir: &Path, env: &Env) -> Result<Token> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(|| format!("cannot create the data directory {}", dir.display()))?;
        let dir = std::fs::canonicalize(dir).with_context(|| format!("cannot find {}", dir.display()))?;
        if dir.join("member").exists() {
            bail!("{} has the data of a real etcd; choose another directory with --data-dir", dir.display());
        }
        if dir.to_str().is_none() {
            bail!("{} is not a name in UTF-8; choose another directory with --data-dir", dir.display());
        }
        let (path, text) = (dir.join(TOKEN_FILE), env.uuid());
        env::file::unless_missing(std::fs::remove_file(&path))
            .map_err(|error| anyhow!("cannot replace {}: {error}", path.display()))?;
        // Always a new file: what somebody else put there is not written to.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Token { dir, text })
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.dir.join(TOKEN_FILE));
    }
}
