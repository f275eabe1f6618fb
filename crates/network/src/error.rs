use std::io;

/// What could not be done to the network, and why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to {what}: {source}")]
    Kernel { what: String, source: io::Error },
    #[error("no free address in {0}")]
    Full(String),
    #[error("invalid CIDR {0:?}")]
    Cidr(String),
}

/// Says what was tried.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Kernel { what: what(), source: error.into() })
    }
}
