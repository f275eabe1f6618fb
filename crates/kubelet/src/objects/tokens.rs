//! The service account tokens of pods: asked for once, renewed in time, forgotten with the pod.

use std::collections::BTreeMap;
use std::time::Duration;

use client::Client;
use client::resources::SERVICE_ACCOUNTS;
use env::Env;
use object::{Map, Value, time};
use parking_lot::Mutex;

/// No token is used for longer.
const MAX_SECONDS: i64 = 24 * 3600;
/// So that the pods of a node that started together do not renew together.
const JITTER_SECONDS: u64 = 10;
/// So long the API server may know less of a pod than a watch of it has told.
const BEHIND: Duration = Duration::from_secs(1);
/// Until it is asked again at first; then twice as long each time.
const AGAIN: Duration = Duration::from_millis(10);

/// A token of a service account, good while the pod exists.
#[derive(Clone, Copy, Debug)]
pub struct TokenWanted<'a> {
    pub namespace: &'a str,
    pub account: &'a str,
    pub pod_name: &'a str,
    pub pod_uid: &'a str,
    /// Empty: the API server's own.
    pub audience: &'a str,
    pub expiration_seconds: Option<i64>,
}

/// In kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("failed to fetch token: {0}")]
    Fetch(String),
    #[error("token {key} expired and refresh failed: {message}")]
    Expired { key: String, message: String },
}

#[derive(Default)]
pub(super) struct Tokens {
    /// Guards the tokens there are; not held while one is asked for, so two readers may ask twice.
    cache: Mutex<BTreeMap<Key, Token>>,
}

/// The pod first: its tokens lie beside each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pod_uid: String,
    namespace: String,
    account: String,
    audience: String,
    expiration_seconds: Option<i64>,
}

#[derive(Clone)]
struct Token {
    text: String,
    /// Unix seconds.
    expires: i64,
    lifetime_seconds: i64,
}

impl Tokens {
    pub(super) async fn get(
        &self,
        env: &Env,
        client: &dyn Client,
        wanted: &TokenWanted<'_>,
    ) -> Result<String, TokenError> {
        let key = Key {
            pod_uid: wanted.pod_uid.to_owned(),
            namespace: wanted.namespace.to_owned(),
            account: wanted.account.to_owned(),
            audience: wanted.audience.to_owned(),
            expiration_seconds: wanted.expiration_seconds,
        };
        let now = i64::try_from(env.now_seconds()).unwrap_or(i64::MAX);
        let jitter = i64::try_from(env.random_below(JITTER_SECONDS)).unwrap_or(0);
        let old = self.cache.lock().get(&key).cloned();
        if let Some(token) = old.as_ref().filter(|token| !token.is_due(now, jitter)) {
            return Ok(token.text.clone());
        }
        let patience = if old.is_none() { BEHIND } else { Duration::ZERO };
        match (ask(env, client, wanted, patience).await, old) {
            (Ok(token), _) => {
                let text = token.text.clone();
                let mut cache = self.cache.lock();
                // Those of pods nobody forgot.
                cache.retain(|_, token| token.expires > now);
                cache.insert(key, token);
                Ok(text)
            }
            (Err(message), None) => Err(TokenError::Fetch(message)),
            (Err(message), Some(old)) if old.expires < now => {
                Err(TokenError::Expired { key: wanted.described(), message })
            }
            (Err(message), Some(old)) => {
                tracing::error!(key = wanted.described(), message, "failed to renew token");
                Ok(old.text)
            }
        }
    }

    /// When the first of the pod's tokens is due, in Unix seconds.
    pub(super) fn due(&self, pod_uid: &str) -> Option<i64> {
        let cache = self.cache.lock();
        cache.iter().filter(|(key, _)| key.pod_uid == pod_uid).map(|(_, token)| token.due()).min()
    }

    pub(super) fn forget(&self, pod_uid: &str) {
        self.cache.lock().retain(|key, _| key.pod_uid != pod_uid);
    }
}

/// Differs from kubelet: a pod that the server refuses, or does not know, is asked for again for a moment. kube-apiserver decides
/// about tokens by a cache of its own, and this node may have heard of the pod before it; kubelet tells of a failed mount then.
async fn ask(
    env: &Env,
    client: &dyn Client,
    wanted: &TokenWanted<'_>,
    patience: Duration,
) -> Result<Token, String> {
    let target = SERVICE_ACCOUNTS.at(wanted.namespace, wanted.account).sub("token");
    let begun = env.monotonic();
    let mut pause = AGAIN;
    loop {
        let refused = match client.review(target, wanted.body()).await {
            Ok(answer) => return Token::read(&answer),
            Err(refused) => refused,
        };
        if !matches!(refused.code, 403 | 404) || begun.elapsed() + pause > patience {
            return Err(refused.message);
        }
        env.sleep(pause).await;
        pause *= 2;
    }
}

impl Token {
    fn read(answer: &Value) -> Result<Token, String> {
        let text = answer.str_at(&["status", "token"]).filter(|text| !text.is_empty());
        let expires = answer.str_at(&["status", "expirationTimestamp"]).and_then(time::parse);
        let lifetime = answer.at(&["spec", "expirationSeconds"]).and_then(Value::as_int);
        match (text, expires) {
            (Some(text), Some((expires, _))) => Ok(Token {
                text: text.to_owned(),
                expires,
                lifetime_seconds: lifetime.unwrap_or(MAX_SECONDS),
            }),
            _ => Err("the server answered without a token".to_owned()),
        }
    }

    /// The second in which it is older than four fifths of its life, or than a day.
    fn due(&self) -> i64 {
        let issued = self.expires - self.lifetime_seconds;
        (issued + MAX_SECONDS).min(self.expires - self.lifetime_seconds * 20 / 100) + 1
    }

    fn is_due(&self, now: i64, jitter: i64) -> bool {
        now + jitter >= self.due()
    }
}

impl TokenWanted<'_> {
    fn body(&self) -> Value {
        let mut pod = Map::default();
        pod.set("kind", "Pod");
        pod.set("apiVersion", "v1");
        pod.set("name", self.pod_name);
        pod.set("uid", self.pod_uid);
        let mut body = Value::map();
        body.make_map().set("kind", "TokenRequest");
        body.make_map().set("apiVersion", "authentication.k8s.io/v1");
        let spec = body.map_at(&["spec"]);
        if !self.audience.is_empty() {
            spec.set("audiences", vec![Value::from(self.audience)]);
        }
        if let Some(seconds) = self.expiration_seconds {
            spec.set("expirationSeconds", seconds);
        }
        spec.set("boundObjectRef", pod);
        body
    }

    /// As kubelet's logs and messages name a token.
    fn described(&self) -> String {
        let audiences = match self.audience {
            "" => "[]string(nil)".to_owned(),
            audience => format!("[]string{{{audience:?}}}"),
        };
        format!(
            "{:?}/{:?}/{audiences}/{}/v1.BoundObjectReference{{Kind:\"Pod\", APIVersion:\"v1\", Name:{:?}, UID:{:?}}}/\"\"",
            self.account,
            self.namespace,
            self.expiration_seconds.unwrap_or(0),
            self.pod_name,
            self.pod_uid,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_due_at_four_fifths_of_its_life_or_after_a_day() {
        let hour = Token { text: String::new(), expires: 3600, lifetime_seconds: 3600 };
        assert!(!hour.is_due(2880, 0));
        assert!(hour.is_due(2881, 0));
        assert!(hour.is_due(2875, 9), "jitter only makes it earlier");
        let year = Token { text: String::new(), expires: 365 * 86_400, lifetime_seconds: 365 * 86_400 };
        assert!(!year.is_due(86_400, 0));
        assert!(year.is_due(86_401, 0));
    }
}
