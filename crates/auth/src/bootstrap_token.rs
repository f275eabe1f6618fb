//! Bootstrap tokens: `id.secret`, stored in Secrets `bootstrap-token-<id>` of kube-system, with which a new node
//! joins the cluster.
//!
//! A token works both ways: the cluster knows the node by it, and the node the cluster, whose `cluster-info` is signed with the secret.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::{Value, time};
use ring::digest::{SHA256, digest};
use ring::hmac;

use crate::UserInfo;
use crate::service_account::data;

pub const NAMESPACE: &str = "kube-system";
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const DEFAULT_GROUP: &str = "system:bootstrappers";

/// The name of the Secret for this token; `None` if it is not formatted as a bootstrap token.
pub fn secret_name(token: &str) -> Option<String> {
    split(token).map(|(id, _)| format!("bootstrap-token-{id}"))
}

/// The user of a token, if this Secret is valid for it now. The reason for a failure is only logged.
pub fn authenticate(token: &str, secret: &Value, now_nanos: u128) -> Option<UserInfo> {
    let (id, text) = split(token)?;
    let value = |key: &str| data(secret, key).unwrap_or_default();
    let says = |key: &str, wanted: &str| value(key) == wanted.as_bytes();
    if secret.at(&["metadata", "deletionTimestamp"]).is_some()
        || secret.str_at(&["type"]) != Some(SECRET_TYPE)
    {
        return None;
    }
    if !same_text(&value("token-secret"), text.as_bytes()) || !says("token-id", id) {
        return None;
    }
    if has_expired(&value("expiration"), now_nanos) || !says("usage-bootstrap-authentication", "true") {
        return None;
    }
    let mut groups = vec![DEFAULT_GROUP.to_owned()];
    let extra = String::from_utf8(value("auth-extra-groups")).ok()?;
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        // One invalid group invalidates the token: its permissions would not be the intended ones.
        if !is_group(group) {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort();
    groups.dedup();
    Some(UserInfo { name: format!("system:bootstrap:{id}"), groups, ..UserInfo::default() })
}

/// A JWS with detached content (RFC 7515, appendix F), as `jws-kubeconfig-ID` of `cluster-info` has it.
pub fn sign(content: &str, id: &str, secret: &str) -> String {
    // Ids are letters and digits: nothing to escape.
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
}

/// Whether whoever signed the content knows the token.
pub fn is_signed(content: &str, signature: &str, token: &str) -> bool {
    let Some((id, secret)) = split(token) else { return false };
    same_text(signature.as_bytes(), sign(content, id, secret).as_bytes())
}

/// Compares hashes, so that timing reveals nothing about the secret.
pub(crate) fn same_text(a: &[u8], b: &[u8]) -> bool {
    digest(&SHA256, a).as_ref() == digest(&SHA256, b).as_ref()
}

/// Without an expiration it never expires; one that cannot be parsed counts as expired.
fn has_expired(expiration: &[u8], now_nanos: u128) -> bool {
    if expiration.is_empty() {
        return false;
    }
    let parsed = std::str::from_utf8(expiration).ok().and_then(time::parse);
    parsed.is_none_or(|(seconds, nanos)| {
        let ends = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        ends <= i128::try_from(now_nanos).unwrap_or(i128::MAX)
    })
}

/// Id and secret: six and sixteen lower-case letters and digits.
pub fn split(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    (id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)).then_some((id, secret))
}

/// `system:bootstrappers:` and up to 256 of `[a-z0-9:-]`, the last one a letter or digit.
pub fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else { return false };
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=256).contains(&rest.len())
        && rest.bytes().all(|b| letter(b) || b == b':' || b == b'-')
        && rest.bytes().next_back().is_some_and(letter)
}
