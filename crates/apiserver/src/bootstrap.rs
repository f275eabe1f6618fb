//! What a fresh cluster creates for itself: namespaces, default roles and bindings, priority levels.

use std::sync::Arc;

use auth::{UserInfo, groups, names};
use codec::json;
use futures_util::stream::{FuturesUnordered, StreamExt};
use object::{Status, Value};
use registry::{Request, WriteOptions};

use crate::chain::Api;

/// One object a line, namespaces first.
const OBJECTS: &str = include_str!("../data/bootstrap.jsonl");

impl Api {
    /// Creates what is missing, as the API server's own identity, through the same chain as everyone.
    pub async fn bootstrap(self: &Arc<Api>) -> Result<(), Status> {
        let user = UserInfo::new(names::API_SERVER, &[groups::MASTERS, groups::AUTHENTICATED]);
        let objects: Vec<Value> = OBJECTS
            .lines()
            .filter(|l| !l.trim().is_empty())
            .map(|l| {
                json::parse(l.as_bytes(), None).map_err(|e| Status::internal(format!("bootstrap data: {e}")))
            })
            .collect::<Result<_, _>>()?;
        let (namespaces, rest): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|o| o.str_at(&["kind"]) == Some("Namespace"));
        // Concurrently, so that a disk sees a few large batches; namespaces first, the others live in them.
        for batch in [namespaces, rest] {
            let mut writes: FuturesUnordered<_> = batch.into_iter().map(|o| self.ensure(&user, o)).collect();
            while let Some(done) = writes.next().await {
                done?;
            }
        }
        self.health.set_bootstrapped();
        Ok(())
    }

    async fn ensure(&self, user: &UserInfo, object: Value) -> Result<(), Status> {
        let text = |path: &[&str]| object.str_at(path).unwrap_or("").to_owned();
        let api_version = text(&["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let (kind, name, namespace) =
            (text(&["kind"]), text(&["metadata", "name"]), text(&["metadata", "namespace"]));
        let resource = self.registry.catalog().find_kind(group, version, &kind);
        let resource = resource
            .ok_or_else(|| Status::internal(format!("bootstrap data: no kind {api_version}/{kind}")))?;
        let mut request = Request { user, resource, subresource: None, namespace: &namespace, name: &name };
        if self.registry.get(&request, "0").await.is_ok() {
            return Ok(());
        }
        request.name = "";
        match self.registry.create(&request, object, WriteOptions::default()).await {
            Ok(_) => Ok(()),
            // Another server on the same store was faster.
            Err(status) if status.reason == "AlreadyExists" => Ok(()),
            Err(status) => Err(status),
        }
    }
}
