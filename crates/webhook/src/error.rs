//! Why a call failed. The texts are those of client-go, as a client of kube-apiserver sees them.

use object::quote;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The webhook cannot be called as it is configured.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// No answer came.
    #[error("Post {}: {why}", quote(.url))]
    NoAnswer { url: String, why: String, cause: Cause },
    /// An answer began, and broke off.
    #[error("{why}")]
    Cut { why: String, cause: Cause },
    /// The answer says no: its HTTP status, or the code of the Status in it.
    #[error("{message}")]
    Refused { code: u16, message: String },
    #[error("0-length response with status code: {code} and content type: {content_type}")]
    Empty { code: u16, content_type: String },
    /// Upstream has no limit.
    #[error("webhook response is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("webhook responses under way are larger than {limit} bytes together")]
    TooLargeTogether { limit: usize },
    /// The answer is not what was asked for.
    #[error("{0}")]
    Undecodable(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Failed,
    /// The time was up.
    Deadline,
    /// This process is ending.
    Canceled,
}

impl CallError {
    /// The code upstream's metrics give it: the webhook's own, or 503.
    pub fn code(&self) -> u16 {
        match self {
            CallError::Refused { code, .. } => *code,
            _ => 503,
        }
    }

    pub fn cause(&self) -> Cause {
        match self {
            CallError::NoAnswer { cause, .. } | CallError::Cut { cause, .. } => *cause,
            _ => Cause::Failed,
        }
    }

    /// What admission says of it; becomes an internal error unless the failure policy ignores it.
    pub fn of_admission(&self, webhook: &str) -> String {
        format!("failed calling webhook {}: failed to call webhook: {self}", quote(webhook))
    }
}
