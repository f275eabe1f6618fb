//! A commit as etcd's transaction, and its outcome as the contract's.

use bytes::Bytes;
use grpc::{CallError, code};
use store::{Commit, CommitError, Guard, Key, Op, Revision};

use crate::client::header;
use crate::proto::*;

/// `leases` has one entry per op, 0 where it has none.
pub fn request(commit: &Commit, leases: &[i64]) -> TxnRequest {
    let ops = commit.ops.iter().zip(leases);
    TxnRequest {
        compare: commit.guards.iter().map(|(key, guard)| compare(key, *guard)).collect(),
        success: ops.map(|((key, op), lease)| operation(key, op, *lease)).collect(),
        // The current values of the guarded keys tell which guard failed.
        failure: commit.guards.iter().map(|(key, _)| read_key(key)).collect(),
    }
}

/// What etcd made of a transaction.
#[derive(Debug)]
pub enum Outcome {
    Committed {
        revision: u64,
    },
    /// `revision` is the store's at that moment.
    Refused {
        key: Key,
        revision: u64,
    },
}

pub fn outcome(commit: &Commit, answer: TxnResponse) -> Result<Outcome, CommitError> {
    // Without a header nobody knows what happened.
    let (_, revision) = header(answer.header).map_err(|e| CommitError::Unknown(e.to_string()))?;
    if answer.succeeded {
        return Ok(Outcome::Committed { revision });
    }
    let current = answer.responses.iter().map(|r| {
        let kv = r.range.as_ref().and_then(|range| range.kvs.first());
        kv.map(|kv| kv.mod_revision.cast_unsigned())
    });
    let failed = commit.guards.iter().zip(current).find(|((_, guard), current)| !holds(*guard, *current));
    match failed.map(|((key, _), _)| key).or(commit.guards.first().map(|(key, _)| key)) {
        Some(key) => Ok(Outcome::Refused { key: key.clone(), revision }),
        None => Err(CommitError::Unknown("etcd refused a transaction without conditions".into())),
    }
}

/// What a failed call means for the commit. Only what certainly did not happen may be told as such.
pub fn failure(error: CallError) -> CommitError {
    let nothing = |why: &dyn std::fmt::Display| CommitError::Stopped(format!("nothing was written: {why}"));
    let CallError::Status { code, message } = &error else {
        return match error {
            CallError::NotSent(_) => nothing(&error),
            _ => CommitError::Unknown(error.to_string()),
        };
    };
    match *code {
        code::INVALID_ARGUMENT
            if message.contains("too large") || message.contains("too many operations") =>
        {
            CommitError::TooLarge(message.clone())
        }
        // gRPC's own limit, before etcd looks at the request.
        code::RESOURCE_EXHAUSTED if message.contains("larger than max") => {
            CommitError::TooLarge(message.clone())
        }
        code::RESOURCE_EXHAUSTED if message.contains("space exceeded") => CommitError::NoSpace(
            "compact and defragment etcd, or give it a larger quota, then disarm its NOSPACE alarm"
                .to_owned(),
        ),
        // The member says so before it looks at the request.
        code::UNAVAILABLE if message == "etcdserver: no leader" => nothing(&error),
        code::INVALID_ARGUMENT
        | code::NOT_FOUND
        | code::PERMISSION_DENIED
        | code::RESOURCE_EXHAUSTED
        | code::FAILED_PRECONDITION
        | code::UNAUTHENTICATED => nothing(&error),
        _ => CommitError::Unknown(error.to_string()),
    }
}

fn holds(guard: Guard, current: Option<u64>) -> bool {
    match guard {
        Guard::Absent => current.is_none(),
        Guard::At(revision) => current == Some(revision.0),
        Guard::Present => current.is_some(),
    }
}

fn compare(key: &Key, guard: Guard) -> Compare {
    let key = bytes_of(key);
    let (result, target, version, mod_revision) = match guard {
        Guard::Absent => (EQUAL, TARGET_VERSION, Some(0), None),
        Guard::Present => (GREATER, TARGET_VERSION, Some(0), None),
        Guard::At(revision) => (EQUAL, TARGET_MOD, None, Some(mod_revision(revision))),
    };
    Compare { result, target, key, version, mod_revision }
}

/// No key has -1. For 0 it stands too, which to etcd would mean "absent".
fn mod_revision(revision: Revision) -> i64 {
    i64::try_from(revision.0).ok().filter(|r| *r != 0).unwrap_or(-1)
}

fn operation(key: &Key, op: &Op, lease: i64) -> RequestOp {
    let key = bytes_of(key);
    match op {
        Op::Put { value, .. } => {
            RequestOp { put: Some(PutRequest { key, value: value.clone(), lease }), ..Default::default() }
        }
        Op::Delete => RequestOp { delete: Some(DeleteRangeRequest { key }), ..Default::default() },
    }
}

fn read_key(key: &Key) -> RequestOp {
    let range = RangeRequest { key: bytes_of(key), keys_only: true, ..Default::default() };
    RequestOp { range: Some(range), ..Default::default() }
}

fn bytes_of(key: &Key) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}

#[cfg(test)]
mod tests;
