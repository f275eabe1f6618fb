//! A conversion webhook for tests: it converts, or answers as it is told, and notes what it was asked.
//!
//! Version v1 has `spec.hostPort`, all others have `spec.host` and `spec.port`.

use serde_json::{Value, json};

pub use crate::webhook_server::Reply;
use crate::webhook_server::WebhookServer;

pub struct Hook(WebhookServer);

/// A question: the version wanted, and the objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub path: String,
    pub desired: String,
    pub objects: Vec<Value>,
}

impl Hook {
    /// Valid for 127.0.0.1 and for the Service `hook` of the default namespace.
    pub async fn start() -> Hook {
        Hook(WebhookServer::start(|_, review| Reply::Review(converted(review))).await)
    }

    /// Listens, where it did before.
    pub async fn up(&mut self) {
        self.0.up().await;
    }

    /// Connections are refused, and those there are end.
    pub async fn down(&mut self) {
        self.0.down().await;
    }

    /// From now on; it is given the review the webhook would send.
    pub fn answers(&self, answer: impl Fn(Value) -> Reply + Send + Sync + 'static) {
        self.0.answers(move |_, review| answer(converted(review)));
    }

    pub fn converts(&self) {
        self.answers(Reply::Review);
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Question> {
        let question = |(path, review): (String, Value)| Question {
            path,
            desired: review["request"]["desiredAPIVersion"].as_str().unwrap().to_owned(),
            objects: review["request"]["objects"].as_array().unwrap().clone(),
        };
        self.0.asked().into_iter().map(question).collect()
    }

    pub async fn is_asked(&self) {
        self.0.is_asked().await;
    }

    pub fn port(&self) -> u16 {
        self.0.port()
    }

    pub fn url(&self) -> String {
        self.0.url("/convert")
    }

    pub fn ca_bundle(&self) -> String {
        self.0.ca_bundle()
    }

    /// The `clientConfig` that leads here.
    pub fn config(&self) -> Value {
        self.0.config("/convert")
    }
}

fn converted(review: &Value) -> Value {
    let desired = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects = review["request"]["objects"].as_array().unwrap();
    let converted: Vec<Value> = objects.iter().map(|object| convert(object, desired)).collect();
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
        "uid": review["request"]["uid"], "convertedObjects": converted, "result": {"status": "Success"}}})
}

fn convert(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(desired);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    if desired.ends_with("/v1") {
        if let Some(host) = spec.remove("host") {
            let port = spec.remove("port").unwrap_or_default();
            let text = format!("{}:{}", host.as_str().unwrap(), port.as_str().unwrap_or_default());
            spec.insert("hostPort".to_owned(), json!(text));
        }
    } else if let Some(both) = spec.remove("hostPort") {
        let (host, port) = both.as_str().unwrap().split_once(':').unwrap();
        spec.insert("host".to_owned(), json!(host));
        spec.insert("port".to_owned(), json!(port));
    }
    object
}
