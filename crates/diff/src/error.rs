//! Errors that end a comparison early, each with a hint how to fix it.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    #[error(transparent)]
    Server(#[from] bench::BenchError),

    #[error("invalid case in line {line}: {problem}")]
    Case { line: usize, problem: String },

    #[error("invalid entry in line {line} of the known differences: {problem}")]
    Explained { line: usize, problem: String },

    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },

    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },

    #[error("no cases for resource {0}; use a name such as \"apps/v1 deployments\" or \"deployments\"")]
    Nothing(String),

    #[error("the scenarios cannot be read: {problem}")]
    Scenario { problem: String },

    #[error("no scenario is called {0}; crates/diff/data/pods.yaml has their names")]
    NoScenario(String),

    #[error("{request}: {message}")]
    Refused { request: String, message: String },

    #[error("there is no {what} after {seconds} s; are the controllers running?")]
    Late { what: String, seconds: u64 },

    #[error("{0} unexplained differences")]
    Different(usize),

    #[error("the client thread of a server panicked; see its message above")]
    Panicked,
}
