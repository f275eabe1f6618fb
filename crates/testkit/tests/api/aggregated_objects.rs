//! The flunders an aggregated server stores: as much of a generic API server as controllers need.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::channel::Sender;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::aggregated_server::{FLUNDERS, ROOT, typed};
use crate::test_kubelet::{Body, streamed, text};

const JSON: &str = "application/json";

#[derive(Default)]
pub struct Objects {
    stored: Mutex<Stored>,
    /// In a list of their own: an event is sent while nothing is locked.
    watches: Mutex<Vec<Sender<Bytes, io::Error>>>,
}

#[derive(Default)]
struct Stored {
    revision: u64,
    by_name: BTreeMap<String, Value>,
}

/// Owners as an object refers to them.
pub fn flunder(name: &str, owners: Value) -> Value {
    json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "spec": {"reference": "x"},
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}"), "ownerReferences": owners}})
}

impl Objects {
    /// Whether a path is about one of them, or all in every namespace.
    pub fn has(path: &str) -> bool {
        let one = path.strip_prefix(FLUNDERS).and_then(|rest| rest.strip_prefix('/'));
        path == format!("{ROOT}/flunders") || one.is_some_and(|name| !name.contains('/'))
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        self.stored.lock().by_name.get(name).cloned()
    }

    /// Stores it, as a user of that server would.
    pub async fn put(&self, mut object: Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let known = {
            let mut stored = self.stored.lock();
            stored.revision += 1;
            object["metadata"]["resourceVersion"] = json!(stored.revision.to_string());
            stored.by_name.insert(name, object.clone()).is_some()
        };
        self.tell(if known { "MODIFIED" } else { "ADDED" }, &object).await;
        object
    }

    pub async fn remove(&self, name: &str) {
        let removed = {
            let mut stored = self.stored.lock();
            stored.revision += 1;
            let revision = stored.revision.to_string();
            stored.by_name.remove(name).map(|mut object| {
                object["metadata"]["resourceVersion"] = json!(revision);
                object
            })
        };
        if let Some(object) = removed {
            self.tell("DELETED", &object).await;
        }
    }

    /// Ends all watches.
    pub fn cut(&self) {
        self.watches.lock().clear();
    }

    async fn tell(&self, kind: &str, object: &Value) {
        let line = Bytes::from(format!("{}\n", json!({"type": kind, "object": object})));
        let watches = std::mem::take(&mut *self.watches.lock());
        for mut watch in watches {
            // Who went away is forgotten.
            if watch.send_data(line.clone()).await.is_ok() {
                self.watches.lock().push(watch);
            }
        }
    }

    pub async fn serve(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or("");
        let name = head.uri.path().strip_prefix(&format!("{FLUNDERS}/")).unwrap_or("").to_owned();
        if name.is_empty() {
            return match (query.contains("sendInitialEvents=true"), query.contains("watch=true")) {
                // As servers without streamed lists.
                (true, _) => refuse(422, "Invalid", "sendInitialEvents is forbidden", ""),
                (_, true) => self.watch(query),
                _ => self.list(),
            };
        }
        let Some(object) = self.get(&name) else {
            return refuse(404, "NotFound", &format!("flunders {name:?} not found"), &name);
        };
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match head.method.as_str() {
            "PATCH" if head.headers["content-type"] != "application/merge-patch+json" => {
                refuse(415, "UnsupportedMediaType", "only merge patches", &name)
            }
            "PATCH" => self.change(object, &body).await,
            "DELETE" => self.delete(object, &body).await,
            _ => typed(JSON, &object),
        }
    }

    fn list(&self) -> Response<Body> {
        let stored = self.stored.lock();
        let items: Vec<&Value> = stored.by_name.values().collect();
        let metadata = json!({"resourceVersion": stored.revision.max(1).to_string()});
        let list = json!({"kind": "FlunderList", "apiVersion": "wardle.example.com/v1alpha1", "metadata": metadata, "items": items});
        typed(JSON, &list)
    }

    /// Nothing is kept of the past: a watch begins where the list ended, or the watcher lists again.
    fn watch(&self, query: &str) -> Response<Body> {
        let stored = self.stored.lock();
        if !query.contains(&format!("resourceVersion={}&", stored.revision.max(1))) {
            return refuse(410, "Expired", "too old resource version", "");
        }
        let (sender, response) = streamed();
        self.watches.lock().push(sender);
        response
    }

    async fn change(&self, mut object: Value, patch: &Value) -> Response<Body> {
        if let Some(response) = precondition(&object, &patch["metadata"]) {
            return response;
        }
        json_patch_merge(&mut object, patch);
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
        if object["metadata"]["deletionTimestamp"].is_string() && !held {
            self.remove(object["metadata"]["name"].as_str().unwrap()).await;
            return typed(JSON, &object);
        }
        typed(JSON, &self.put(object).await)
    }

    async fn delete(&self, mut object: Value, options: &Value) -> Response<Body> {
        if let Some(response) = precondition(&object, &options["preconditions"]) {
            return response;
        }
        let finalizer = match options["propagationPolicy"].as_str() {
            Some("Foreground") => "foregroundDeletion",
            Some("Orphan") => "orphan",
            _ => {
                self.remove(object["metadata"]["name"].as_str().unwrap()).await;
                return typed(JSON, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}));
            }
        };
        object["metadata"]["finalizers"] = json!([finalizer]);
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        typed(JSON, &self.put(object).await)
    }
}

fn precondition(object: &Value, wanted: &Value) -> Option<Response<Body>> {
    let differs = |field: &str| wanted[field].is_string() && wanted[field] != object["metadata"][field];
    let name = object["metadata"]["name"].as_str().unwrap();
    (differs("uid") || differs("resourceVersion")).then(|| refuse(409, "Conflict", "it changed", name))
}

fn json_patch_merge(object: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else { return *object = patch.clone() };
    for (name, value) in members {
        match value {
            Value::Null => _ = object.as_object_mut().unwrap().remove(name),
            _ => json_patch_merge(&mut object[name], value),
        }
    }
}

fn refuse(code: u16, reason: &str, message: &str, name: &str) -> Response<Body> {
    let details = json!({"name": name, "group": "wardle.example.com", "kind": "flunders"});
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message, "details": details});
    let mut response = text(code, &status.to_string());
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(JSON));
    response
}
