//! What can end a benchmark early, each with the way to mend it.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("cannot read the kubeconfig {}: {source}; give the right path with --kubeconfig", path.display())]
    ReadKubeconfig { path: PathBuf, source: io::Error },

    #[error(transparent)]
    Kubeconfig(#[from] client_http::ConfigError),

    #[error("{server} is not on this machine; a load test of another machine needs --allow-remote")]
    Remote { server: String },

    #[error("cannot find the address of {server}: {source}")]
    Resolve { server: String, source: io::Error },

    #[error("cannot connect to {server}: {source}; is the API server running there?")]
    Connect { server: String, source: io::Error },

    #[error("the connection to {server} failed while {doing}: {source}")]
    Connection { server: String, doing: String, source: io::Error },

    #[error("{server} answered {status} to {doing}: {body}")]
    Refused { server: String, doing: String, status: u16, body: String },

    #[error("{server} did not finish {doing} within {seconds} s")]
    TooSlow { server: String, doing: String, seconds: u64 },

    #[error("{count} connections to {server} broke, the last with: {source}; its log should say why")]
    Unstable { server: String, count: u64, source: io::Error },

    #[error("all {watchers} watches ended before the measurement did; the server may drop slow watchers")]
    WatchesEnded { watchers: usize },

    #[error("process {pid} cannot be measured: {source}; give the server's process ids with {flag}")]
    Process { pid: u32, flag: &'static str, source: io::Error },

    #[error("the event loop failed: {0}")]
    Poll(io::Error),

    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },

    #[error("{0}")]
    Usage(String),
}
