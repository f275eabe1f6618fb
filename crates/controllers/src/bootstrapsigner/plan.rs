//! Which tokens sign, and the ConfigMap with their signatures.

use std::collections::BTreeMap;

use auth::bootstrap_token::sign;
use object::Value;

use crate::bootstrap_token::{Expiration, data, expiration};

const KUBECONFIG: &str = "kubeconfig";
const SIGNATURE: &str = "jws-kubeconfig-";

/// Secrets of tokens that are good for signing, by id; and the nanoseconds until the first of them expires.
pub fn tokens(secrets: &[(String, Value)], now_nanos: i128) -> (BTreeMap<String, String>, Option<u64>) {
    let (mut tokens, mut next) = (BTreeMap::new(), None);
    for (name, secret) in secrets {
        let (id, text) = (data(secret, "token-id"), data(secret, "token-secret"));
        let named = name.strip_prefix("bootstrap-token-").filter(|id| is_id(id));
        if named != Some(id.as_str()) || text.is_empty() || data(secret, "usage-bootstrap-signing") != "true"
        {
            continue;
        }
        match expiration(secret, now_nanos) {
            Expiration::Past => continue,
            Expiration::Never => {}
            Expiration::After { nanos } => next = Some(next.map_or(nanos, |least: u64| least.min(nanos))),
        }
        tokens.insert(id, text);
    }
    (tokens, next)
}

/// The ConfigMap with the signatures of exactly these tokens; `None`: it has them, or nothing to sign.
pub fn plan(mut map: Value, tokens: &BTreeMap<String, String>) -> Option<Value> {
    let content = map.str_at(&["data", KUBECONFIG])?.to_owned();
    let before = map.clone();
    let entries = map.map_at(&["data"]);
    entries.retain(|name, _| name.strip_prefix(SIGNATURE).is_none_or(|id| tokens.contains_key(id)));
    for (id, text) in tokens {
        entries.set(format!("{SIGNATURE}{id}"), sign(&content, id, text));
    }
    (map != before).then_some(map)
}

fn is_id(id: &str) -> bool {
    id.len() == 6 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}
