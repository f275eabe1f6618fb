//! What can be said about a pod that cannot be made, or only half as asked.

use runtime::Severity;

/// Why a configuration cannot be made; the reason is that of the waiting container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GenerateError {
    pub reason: &'static str,
    pub message: String,
}

impl GenerateError {
    /// Of a container whose configuration cannot be made.
    pub(super) fn config(message: impl Into<String>) -> GenerateError {
        GenerateError { reason: "CreateContainerConfigError", message: message.into() }
    }
    pub(crate) fn sandbox(message: impl Into<String>) -> GenerateError {
        GenerateError { reason: "CreatePodSandboxError", message: message.into() }
    }
}

/// Something to tell people though the pod goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: About,
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Pod,
    Node,
}

impl Event {
    pub(super) fn warning(about: About, reason: &'static str, message: String) -> Event {
        Event { about, severity: Severity::Warning, reason, message }
    }
}
