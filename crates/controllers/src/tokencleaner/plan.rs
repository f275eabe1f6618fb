//! Whether a bootstrap token has expired, or when it will.

use std::time::Duration;

use object::Value;

use crate::bootstrap_token::{Expiration, expiration};

#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// It never expires.
    Keep,
    LookAgain(Duration),
    Delete,
}

pub fn plan(secret: &Value, now_nanos: i128) -> Plan {
    match expiration(secret, now_nanos) {
        Expiration::Never => Plan::Keep,
        Expiration::Past => Plan::Delete,
        Expiration::After { nanos } => Plan::LookAgain(Duration::from_nanos(nanos)),
    }
}
