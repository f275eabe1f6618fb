//! Which requests are old.

use auth::pki::not_after;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::{Value, time};

use crate::csr::conditions;

const DECIDED_SECONDS: i64 = 3600;
const PENDING_SECONDS: i64 = 24 * 3600;

/// Older than a request is kept in its state.
pub fn is_old(csr: &Value, now: i64) -> bool {
    let older = |text: Option<&str>, seconds: i64| {
        text.and_then(time::parse).is_some_and(|(at, _)| now.saturating_sub(at) > seconds)
    };
    let conditions = conditions(csr);
    if conditions.is_empty() {
        return older(csr.str_at(&["metadata", "creationTimestamp"]), PENDING_SECONDS);
    }
    let certificate = csr.str_at(&["status", "certificate"]).unwrap_or("");
    conditions.iter().any(|condition| {
        let updated = condition.str_at(&["lastUpdateTime"]);
        match condition.str_at(&["type"]) {
            Some("Denied" | "Failed") => older(updated, DECIDED_SECONDS),
            Some("Approved") if certificate.is_empty() => older(updated, PENDING_SECONDS),
            Some("Approved") => {
                let ended = STANDARD.decode(certificate).ok().and_then(|pem| not_after(&pem));
                older(updated, DECIDED_SECONDS) || ended.is_some_and(|end| now > end as i64)
            }
            _ => false,
        }
    })
}
