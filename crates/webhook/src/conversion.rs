//! Conversion of custom resources by a webhook.
//!
//! ```text
//! objects ── those not yet in the desired version ── question (one review, up to 4 MiB) ── POST
//!                                                                                          │
//! converted objects, in their places <── metadata restored <── judge (uid, result, count, each object) <┘
//! ```

mod judge;
mod metadata;
mod question;

use std::sync::Arc;
use std::time::Duration;

use object::{Status, Value};

use crate::client::{Call, Clock, WebhookClient};
use crate::config::{ClientConfig, ConfigError};
use crate::metrics::{ConversionMetrics, FailureType};
use crate::review::parse_group_version;

pub use judge::{Failure, judge};
pub use question::{ReviewVersion, question};

/// How long upstream waits for one answer.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Objects are sent together until the question is so large; then the next one begins.
const QUESTION_BYTES: usize = 4 << 20;
/// An answer may be larger than its question by the fields a newer version has.
const ANSWER_FACTOR: usize = 4;
const ANSWER_BYTES: usize = 8 << 20;

/// A CRD's conversion webhook.
#[derive(Clone, Debug)]
pub struct Converter {
    crd: Arc<str>,
    config: ClientConfig,
    /// `None`: it knows none that we know.
    version: Option<ReviewVersion>,
}

/// Whose conversion it is, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// Objects by themselves, however many are sent together: the message is about the one that failed, or the first.
    Objects,
    /// The items of a list of this apiVersion and kind.
    List { api_version: &'a str, kind: &'a str },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConversionError {
    /// Upstream's, with what it is about.
    pub message: String,
    pub failure: Option<FailureType>,
}

impl ConversionError {
    /// What the client gets: a 500 without a reason.
    pub fn to_status(&self) -> Status {
        Status::unknown(self.message.clone())
    }
}

impl Converter {
    /// Of a CRD; `None` if it does not convert by webhook.
    pub fn from_crd(crd: &Value) -> Result<Option<Converter>, ConfigError> {
        let Some(conversion) = crd.at(&["spec", "conversion"]) else { return Ok(None) };
        if conversion.get("strategy").and_then(Value::as_str) != Some("Webhook") {
            return Ok(None);
        }
        let config = conversion.at(&["webhook", "clientConfig"]).ok_or(ConfigError::NoTarget)?;
        let versions = conversion.at(&["webhook", "conversionReviewVersions"]).and_then(Value::as_list);
        let versions = versions.unwrap_or_default().iter().filter_map(Value::as_str);
        Ok(Some(Converter {
            crd: crd.str_at(&["metadata", "name"]).unwrap_or_default().into(),
            config: ClientConfig::from_value(config)?,
            version: ReviewVersion::choose(versions),
        }))
    }

    /// The objects in the desired apiVersion, in their order. `timeout` is for all of it, and each call has at most [`TIMEOUT`] of it.
    pub async fn convert(
        &self,
        client: &WebhookClient,
        metrics: &ConversionMetrics,
        mut objects: Vec<Value>,
        desired: &str,
        subject: Subject<'_>,
        timeout: Duration,
    ) -> Result<Vec<Value>, ConversionError> {
        let begun = client.env().monotonic();
        let from = subject_of(subject, objects.first());
        let converted = self.convert_rest(client, &mut objects, desired, subject, timeout).await;
        let failure = match &converted {
            Ok(()) => None,
            Err(ConversionError { failure: None, .. }) => return converted.map(|()| objects),
            Err(ConversionError { failure, .. }) => *failure,
        };
        let version = |api_version| parse_group_version(api_version).unwrap_or_default().1;
        let took = client.env().monotonic().saturating_duration_since(begun);
        metrics.observe(&self.crd, (version(&from.0), version(desired)), failure, took);
        converted.map(|()| objects)
    }

    /// Converts in place.
    async fn convert_rest(
        &self,
        client: &WebhookClient,
        objects: &mut [Value],
        desired: &str,
        subject: Subject<'_>,
        timeout: Duration,
    ) -> Result<(), ConversionError> {
        let deadline = client.env().monotonic() + timeout;
        let mut waiting = Vec::new();
        for (at, object) in objects.iter_mut().enumerate() {
            if api_version(object) == desired {
                continue;
            }
            if is_empty(object) {
                set_api_version(object, desired);
                continue;
            }
            waiting.push(at);
        }
        let unsupported = || ConversionError {
            message: "no supported conversion review versions".to_owned(),
            failure: None,
        };
        let mut sent = 0;
        while sent < waiting.len() {
            let version = self.version.ok_or_else(unsupported)?;
            let uid = client.env().uuid();
            let rest = &waiting[sent..];
            let (body, count) =
                question(version, &uid, desired, rest.iter().map(|at| &objects[*at]), QUESTION_BYTES);
            let batch = &rest[..count];
            let remaining = deadline.saturating_duration_since(client.env().monotonic());
            let max_response_bytes = body.len() * ANSWER_FACTOR + ANSWER_BYTES;
            let call = Call::new(&self.config, body, remaining.min(TIMEOUT));
            let call = Call { max_response_bytes, clock: Clock::Client, ..call };
            let failed = |failure: Failure| {
                let about = subject_of(subject, batch.get(failure.at()).map(|at| &objects[*at]));
                failure.of(subject, about, sent)
            };
            let answer = client.post(call).await.map_err(|error| failed(Failure::Call(error.to_string())))?;
            let originals: Vec<&Value> = batch.iter().map(|at| &objects[*at]).collect();
            let converted = judge(version, &uid, &originals, desired, &answer.body).map_err(failed)?;
            for (at, object) in batch.iter().zip(converted) {
                object::discard(std::mem::replace(&mut objects[*at], object));
            }
            sent += count;
        }
        Ok(())
    }
}

/// apiVersion and kind of what a message is about.
fn subject_of(subject: Subject<'_>, object: Option<&Value>) -> (String, String) {
    let text = |name| object.and_then(|object| object.get(name)).and_then(Value::as_str).unwrap_or_default();
    match subject {
        Subject::Objects => (text("apiVersion").to_owned(), text("kind").to_owned()),
        Subject::List { api_version, kind } => (api_version.to_owned(), kind.to_owned()),
    }
}

fn api_version(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}

fn set_api_version(object: &mut Value, desired: &str) {
    object.make_map().set("apiVersion", desired);
}

/// Nothing but an apiVersion and a kind: there is nothing to convert.
fn is_empty(object: &Value) -> bool {
    object.as_map().is_some_and(|map| map.len() == 2 && map.contains("kind") && map.contains("apiVersion"))
}

#[cfg(test)]
mod tests;
