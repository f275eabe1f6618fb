//! What can end a comparison early, each with the way to mend it.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    #[error(transparent)]
    Server(#[from] bench::BenchError),

    #[error("line {line} of the cases does not do: {problem}")]
    Case { line: usize, problem: String },

    #[error("line {line} of the explained differences does not do: {problem}")]
    Explained { line: usize, problem: String },

    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },

    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },

    #[error(
        "no case is of {0}; name a resource as its API does, such as \"apps/v1 deployments\" or \"deployments\""
    )]
    Nothing(String),

    #[error("{0} differences are not explained")]
    Different(usize),

    #[error("the thread that spoke to a server panicked; its message stands above")]
    Panicked,
}
