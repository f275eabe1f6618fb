//! Which tokens sign, and the ConfigMap with their signatures.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::Value;
use ring::hmac;

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

/// A JWS with detached content (RFC 7515, appendix F).
pub fn sign(content: &str, id: &str, text: &str) -> String {
    // Ids are letters and digits: nothing to escape.
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
}

fn is_id(id: &str) -> bool {
    id.len() == 6 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}
