//! Bootstrap tokens: Secrets in kube-system with which a new node joins the cluster.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::resources::SECRETS;
use object::{Value, time};
use runtime::Scope;

pub(crate) const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Only these Secrets: nobody's others are held, or wake anyone.
pub(crate) fn scope() -> Scope {
    Scope { namespace: NAMESPACE.to_owned(), field_selector: format!("type={TYPE}"), ..Scope::all(&SECRETS) }
}

/// When a token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiration {
    Never,
    /// Or it cannot be read.
    Past,
    After {
        nanos: u64,
    },
}

pub(crate) fn expiration(secret: &Value, now_nanos: i128) -> Expiration {
    let text = data(secret, "expiration");
    if text.is_empty() {
        return Expiration::Never;
    }
    let Some((seconds, nanos)) = time::parse(&text) else { return Expiration::Past };
    let left = i128::from(seconds) * 1_000_000_000 + i128::from(nanos) - now_nanos;
    if left <= 0 {
        return Expiration::Past;
    }
    Expiration::After { nanos: u64::try_from(left).unwrap_or(u64::MAX) }
}

/// A value of the Secret's data; empty if it has none, or one that is no text.
pub(crate) fn data(secret: &Value, key: &str) -> String {
    let encoded = secret.str_at(&["data", key]).unwrap_or("");
    STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}
