//! Whether they may: each request is access to a subresource of this node, which the API server decides on, unless the configuration
//! allows everything.

use std::sync::Arc;
use std::time::Duration;

use auth::UserInfo;
use client::resources::SUBJECT_ACCESS_REVIEWS;
use client::{Answer as ApiAnswer, Client, Map, Status, Value};
use env::Env;
use http::{Method, StatusCode};

use super::answer::{self, Answer};
use super::cache::Cache;
use crate::config::Authorization;

const CAPACITY: usize = 8192;
/// Of a user's name, groups and extra: what is longer is asked anew each time.
const MAX_CACHED: usize = 10_000;

/// How often, and after what pauses, a review is asked for when the API server is in trouble.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

pub struct Authorizer {
    env: Env,
    client: Arc<dyn Client>,
    node_name: String,
    settings: Authorization,
    decisions: Cache<bool>,
}

impl Authorizer {
    pub fn new(env: &Env, client: Arc<dyn Client>, node_name: &str, settings: Authorization) -> Authorizer {
        let node_name = node_name.to_owned();
        Authorizer { env: env.clone(), client, node_name, settings, decisions: Cache::new(CAPACITY) }
    }

    /// The refusal, if it is one. One of the subresources is enough.
    pub async fn authorize(&self, user: &UserInfo, method: &Method, path: &str) -> Result<(), Answer> {
        if !self.settings.webhook {
            return Ok(());
        }
        let (verb, subresources) = (verb(method), subresources(path));
        let name = &user.name;
        for subresource in &subresources {
            match self.allowed(user, verb, subresource).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(status) => {
                    tracing::error!(
                        user = name,
                        verb,
                        subresource,
                        message = status.message,
                        "authorization failed"
                    );
                    let message = format!(
                        "Authorization error (user={name}, verb={verb}, resource=nodes, subresource={subresource})"
                    );
                    return Err(answer::text(StatusCode::INTERNAL_SERVER_ERROR, message));
                }
            }
        }
        tracing::debug!(user = name, verb, ?subresources, "forbidden");
        let message = format!(
            "Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
            subresources.join(" ")
        );
        Err(answer::text(StatusCode::FORBIDDEN, message))
    }

    async fn allowed(&self, user: &UserInfo, verb: &str, subresource: &str) -> Result<bool, Status> {
        let review = self.review(user, verb, subresource);
        let question = codec::json::to_vec(&review);
        let key = Cache::<bool>::key(&question);
        if let Some(decision) = self.decisions.get(&self.env, &key) {
            return Ok(decision);
        }
        let ask = || self.client.review(SUBJECT_ACCESS_REVIEWS.everywhere(), review.clone());
        let answer = retried(&self.env, ask).await?;
        let is = |name: &str| answer.at(&["status", name]).and_then(Value::as_bool).unwrap_or(false);
        let allowed = is("allowed") && !is("denied");
        if question.len() <= MAX_CACHED {
            let Authorization { cache_authorized_ttl, cache_unauthorized_ttl, .. } = self.settings;
            let lifetime = if allowed { cache_authorized_ttl } else { cache_unauthorized_ttl };
            self.decisions.put(&self.env, key, allowed, lifetime);
        }
        Ok(allowed)
    }

    fn review(&self, user: &UserInfo, verb: &str, subresource: &str) -> Value {
        let mut attributes = Map::with_capacity(5);
        attributes.set("verb", verb);
        attributes.set("version", "v1");
        attributes.set("resource", "nodes");
        attributes.set("subresource", subresource);
        attributes.set("name", self.node_name.as_str());
        let mut spec = Map::with_capacity(5);
        spec.set("resourceAttributes", attributes);
        spec.set("user", user.name.as_str());
        let texts =
            |texts: &[String]| texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>();
        spec.set("groups", texts(&user.groups));
        if !user.extra.is_empty() {
            let mut extra = Map::with_capacity(user.extra.len());
            for (name, values) in &user.extra {
                extra.set(name.clone(), texts(values));
            }
            spec.set("extra", extra);
        }
        if !user.uid.is_empty() {
            spec.set("uid", user.uid.as_str());
        }
        let mut review = Map::with_capacity(1);
        review.set("spec", spec);
        Value::Map(review)
    }
}

/// Asks again while the API server cannot answer.
pub async fn retried<'a>(env: &Env, ask: impl Fn() -> ApiAnswer<'a, Value>) -> Result<Value, Status> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match ask().await {
            Err(status) if matches!(status.code, 429 | 500 | 503 | 504) => {
                // Some 20 % more, so that not all nodes ask at once.
                env.sleep(pause + pause.mul_f64(env.random_below(200) as f64 / 1000.0)).await;
                pause = pause.mul_f64(1.5);
            }
            answer => return answer,
        }
    }
    ask().await
}

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The narrow one first; where there was none before, `proxy` still does.
fn subresources(path: &str) -> Vec<&'static str> {
    let below =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let own = [
        ("/stats", "stats"),
        ("/metrics", "metrics"),
        ("/logs", "log"),
        ("/checkpoint", "checkpoint"),
        ("/statusz", "statusz"),
        ("/flagz", "configz"),
    ];
    if let Some((_, subresource)) = own.iter().find(|(root, _)| below(root)) {
        return vec![subresource];
    }
    let fine =
        [("/pods", "pods"), ("/healthz", "healthz"), ("/configz", "configz"), ("/runningpods", "pods")];
    let fine = fine.iter().find(|(root, _)| below(root)).map(|(_, subresource)| *subresource);
    fine.into_iter().chain(["proxy"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_subresources_of_the_node() {
        let cases: [(&str, &[&str]); 12] = [
            ("/stats/summary", &["stats"]),
            ("/metrics", &["metrics"]),
            ("/metrics/resource", &["metrics"]),
            ("/metricsx", &["proxy"]),
            ("/logs/messages", &["log"]),
            ("/checkpoint/a/b/c", &["checkpoint"]),
            ("/pods", &["pods", "proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/exec/a/b/c", &["proxy"]),
            ("/containerLogs/a/b/c", &["proxy"]),
        ];
        for (path, expected) in cases {
            assert_eq!(subresources(path), expected, "{path}");
        }
        let verbs = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map(|m| verb(&m.parse().unwrap()));
        assert_eq!(verbs, ["get", "create", "update", "patch", "delete", ""]);
    }
}
