//! Whether a request is signed, and for how long.

use auth::pki::{SigningRequest, YEAR_SECONDS, request_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use crate::csr::{has, is_issued, signer, signers, usages, with_condition};

/// The minimum lifetime of a certificate, twice what it is backdated by.
const SHORTEST_SECONDS: u64 = 600;

#[derive(Debug)]
pub enum Plan {
    Nothing,
    /// Its signer's rules forbid it.
    Refuse(String),
    Sign {
        signed: SigningRequest,
        lifetime_seconds: u64,
    },
}

pub fn plan(csr: &Value) -> Plan {
    if is_issued(csr) || !has(csr, "Approved") || has(csr, "Denied") || has(csr, "Failed") {
        return Plan::Nothing;
    }
    // Validation accepts no such request; one that is stored nevertheless stays as it is.
    let Ok(signed) = request_of(csr) else { return Plan::Nothing };
    match signers::check(signer(csr), &signed, &usages(csr)) {
        None => Plan::Nothing,
        Some(Err(why)) => Plan::Refuse(why),
        Some(Ok(())) => Plan::Sign { signed, lifetime_seconds: lifetime(csr) },
    }
}

fn lifetime(csr: &Value) -> u64 {
    let wanted = csr.at(&["spec", "expirationSeconds"]).and_then(Value::as_int);
    wanted.map_or(YEAR_SECONDS, |seconds| (seconds.max(0) as u64).clamp(SHORTEST_SECONDS, YEAR_SECONDS))
}

pub fn issued(csr: &Value, pem: &str) -> Value {
    let mut csr = csr.clone();
    csr.map_at(&["status"]).set("certificate", STANDARD.encode(pem));
    csr
}

pub fn failed(csr: &Value, why: &str, now: i64) -> Value {
    with_condition(csr, "Failed", "SignerValidationFailure", why, Some(now))
}
