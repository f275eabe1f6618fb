//! What to do about a Job now: nothing, wait, or delete it.

use std::time::Duration;

use object::Obj;

use crate::job::{Job, job_view};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    Nothing,
    Wait(Duration),
    Delete,
}

pub fn plan(job: &Obj, now_nanos: u128) -> Plan {
    step(expires_at(job), now_nanos)
}

/// When the Job is to be deleted, in Unix seconds; one that goes already never is.
pub fn expires_at(job: &Obj) -> Option<i64> {
    if job.deleting() { None } else { expiry(&job_view(job)) }
}

pub fn expiry(job: &Job) -> Option<i64> {
    let over = |kind: &str| matches!(kind, "Complete" | "Failed");
    let end = job.status.conditions.iter().find(|c| over(&c.kind) && c.status == "True")?;
    end.since?.checked_add(job.spec.ttl_seconds?)
}

pub fn step(expires_at: Option<i64>, now_nanos: u128) -> Plan {
    let Some(at) = expires_at else { return Plan::Nothing };
    match at.saturating_mul(1000) - (now_nanos / 1_000_000) as i64 {
        left if left > 0 => Plan::Wait(Duration::from_millis(left.unsigned_abs())),
        _ => Plan::Delete,
    }
}
