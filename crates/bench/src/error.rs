//! Errors that end a benchmark early, each with a hint how to fix it.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("cannot read the kubeconfig {}: {source}; check --kubeconfig", path.display())]
    ReadKubeconfig { path: PathBuf, source: io::Error },

    #[error(transparent)]
    Kubeconfig(#[from] client_http::ConfigError),

    #[error("{server} is not on this machine; pass --allow-remote to load-test another machine")]
    Remote { server: String },

    #[error("cannot resolve {server}: {source}")]
    Resolve { server: String, source: io::Error },

    #[error("cannot connect to {server}: {source}; is the API server running there?")]
    Connect { server: String, source: io::Error },

    #[error("the connection to {server} failed while {doing}: {source}")]
    Connection { server: String, doing: String, source: io::Error },

    #[error("{server} answered {status} to {doing}: {body}")]
    Refused { server: String, doing: String, status: u16, body: String },

    #[error("{server} did not finish {doing} within {seconds} s")]
    TooSlow { server: String, doing: String, seconds: u64 },

    #[error("{count} connections to {server} failed, the last with: {source}; see the server's log")]
    Unstable { server: String, count: u64, source: io::Error },

    #[error("all {watchers} watches ended before the measurement did; the server may drop slow watchers")]
    WatchesEnded { watchers: usize },

    #[error("cannot measure process {pid}: {source}; pass the server's PIDs with {flag}")]
    Process { pid: u32, flag: &'static str, source: io::Error },

    #[error("the event loop failed: {0}")]
    Poll(io::Error),

    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },

    #[error("{0}")]
    Usage(String),
}
