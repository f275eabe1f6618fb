//! How a session ended, as it is written to its error stream.

use serde_json::Value;

/// How a process, or the attempt to run it, ended: what a server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// `detail` is the runtime's word on it, which follows "command terminated with non-zero exit code: ".
    Exited {
        code: i32,
        detail: String,
    },
    /// Why there was nothing to run or to attach to, as `error executing command in container: …`.
    Failed(String),
}

/// What a client makes of the status it got.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("command terminated with exit code {0}")]
    Exited(u8),
    #[error("{0}")]
    Message(String),
}

impl Outcome {
    /// As the error stream has it; none where nothing is written.
    pub(super) fn encode(&self, with_exit_code: bool) -> Option<Vec<u8>> {
        if !with_exit_code {
            return self.message().map(String::into_bytes);
        }
        Some(match self {
            Outcome::Success => br#"{"status":"Success"}"#.to_vec(),
            Outcome::Exited { code, .. } => {
                exited(*code, &self.message().unwrap_or_default(), "").into_bytes()
            }
            Outcome::Failed(_) => {
                let message = quoted(&self.message().unwrap_or_default());
                format!(r#"{{"status":"Failure","message":{message},"reason":"InternalError","code":500}}"#)
                    .into_bytes()
            }
        })
    }

    fn message(&self) -> Option<String> {
        match self {
            Outcome::Success => None,
            Outcome::Exited { detail, .. } => {
                Some(format!("command terminated with non-zero exit code: {detail}"))
            }
            Outcome::Failed(reason) => Some(format!("Internal error occurred: {reason}")),
        }
    }
}

/// The `metav1.Status` an API server writes for what it got from a node.
pub(crate) fn api_status(result: &Result<(), Failure>) -> String {
    match result {
        Ok(()) => r#"{"metadata":{},"status":"Success"}"#.to_owned(),
        Err(failure @ Failure::Exited(code)) => {
            let message = format!("command terminated with non-zero exit code: {failure}");
            exited(i32::from(*code), &message, r#""metadata":{},"#)
        }
        Err(Failure::Message(reason)) => {
            let message = quoted(&format!("Internal error occurred: {reason}"));
            let cause = quoted(reason);
            format!(
                r#"{{"metadata":{{}},"status":"Failure","message":{message},"reason":"InternalError","details":{{"causes":[{{"message":{cause}}}]}},"code":500}}"#
            )
        }
    }
}

fn exited(code: i32, message: &str, before: &str) -> String {
    let message = quoted(message);
    format!(
        r#"{{{before}"status":"Failure","message":{message},"reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
    )
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Reads an error stream of version 4 or later.
pub(super) fn decode_status(message: &[u8]) -> Result<(), Failure> {
    let protocol_error = |what: String| Err(Failure::Message(format!("error stream protocol error: {what}")));
    let status: Value = match serde_json::from_slice(message) {
        Ok(status) => status,
        Err(error) => return protocol_error(format!("{error} in {:?}", String::from_utf8_lossy(message))),
    };
    match status["status"].as_str() {
        Some("Success") => return Ok(()),
        Some("Failure") => {}
        _ => return protocol_error("unknown error".to_owned()),
    }
    if status["reason"] != "NonZeroExitCode" {
        return Err(Failure::Message(status["message"].as_str().unwrap_or_default().to_owned()));
    }
    if !status["details"].is_object() {
        return protocol_error("details must be set".to_owned());
    }
    let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(cause) = causes.iter().find(|cause| cause["reason"] == "ExitCode") else {
        return protocol_error("no ExitCode cause given".to_owned());
    };
    let code = cause["message"].as_str().unwrap_or_default();
    match code.parse() {
        Ok(code) => Err(Failure::Exited(code)),
        Err(_) => protocol_error(format!("invalid exit code value {code:?}")),
    }
}
