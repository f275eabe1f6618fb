//! Failures in the terms of CRI.

use std::fmt::Display;
use std::io;
use std::path::Path;

use cri::{Code, Error};

pub fn unknown(message: impl Display) -> Error {
    Error::new(Code::Unknown, message.to_string())
}

pub fn invalid(message: impl Display) -> Error {
    Error::new(Code::InvalidArgument, message.to_string())
}

pub fn no_container(id: &str) -> Error {
    Error::new(Code::NotFound, format!("an error occurred when try to find container {id:?}: not found"))
}

pub fn no_sandbox(id: &str) -> Error {
    Error::new(Code::NotFound, format!("an error occurred when try to find sandbox {id:?}: not found"))
}

/// Says what was tried.
pub trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| unknown(format!("{}: {error}", what())))
    }
}

/// What is gone already is removed.
pub fn unless_missing(removed: io::Result<()>, path: &Path) -> Result<(), Error> {
    env::file::unless_missing(removed).context(|| format!("failed to remove {}", path.display()))
}
