//! etcd's calls by name, and what their outcomes say about its health.

use std::sync::Arc;

use bytes::Bytes;
use grpc::{CallError, code};

use crate::channel::{Channel, Repeat};
use crate::proto::*;
use crate::shared::Shared;

/// What keeps a record of how far history is compacted; upstream's servers use the same key.
pub const COMPACT_KEY: &[u8] = b"compact_rev_key";

pub const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
const COMPACT: &str = "/etcdserverpb.KV/Compact";
const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
pub const WATCH: &str = "/etcdserverpb.Watch/Watch";

pub struct Client {
    channel: Channel,
    shared: Arc<Shared>,
}

impl Client {
    pub fn new(channel: Channel, shared: Arc<Shared>) -> Client {
        Client { channel, shared }
    }

    pub async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, CallError> {
        self.noted(self.channel.call(RANGE, request, Repeat::Allowed).await)
    }

    /// Sent once: a second one could happen after the first.
    pub async fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, CallError> {
        self.noted(self.channel.call(TXN, request, Repeat::Never).await)
    }

    /// The revision of the last commit of anyone that was acknowledged before this call.
    pub async fn revision(&self) -> Result<u64, CallError> {
        let answer = self.range(&head_request()).await?;
        Ok(header(answer.header)?.1)
    }

    pub async fn compact(&self, revision: u64) -> Result<(), CallError> {
        let request = CompactionRequest { revision: revision.cast_signed() };
        let done: Result<CompactionResponse, _> = self.channel.call(COMPACT, &request, Repeat::Allowed).await;
        match self.noted(done) {
            Err(e) if !is_compacted(&e) => Err(e),
            // Another server was there first.
            _ => Ok(()),
        }
    }

    /// Makes a lease of `ttl` seconds under this number, if there is none yet.
    pub async fn lease_grant(&self, id: i64, ttl: u64) -> Result<(), CallError> {
        let request = LeaseGrantRequest { ttl: ttl.cast_signed(), id };
        let done: Result<LeaseGrantResponse, _> =
            self.channel.call(LEASE_GRANT, &request, Repeat::Allowed).await;
        match self.noted(done) {
            Err(CallError::Status { code: code::FAILED_PRECONDITION, message })
                if message.contains("exists") =>
            {
                Ok(())
            }
            done => done.map(drop),
        }
    }

    /// Seconds left; `None` for a lease that is gone.
    pub async fn lease_seconds_left(&self, id: i64) -> Result<Option<u64>, CallError> {
        let request = LeaseTimeToLiveRequest { id };
        let answer: LeaseTimeToLiveResponse =
            self.noted(self.channel.call(LEASE_TIME_TO_LIVE, &request, Repeat::Allowed).await)?;
        Ok(u64::try_from(answer.ttl).ok())
    }

    pub async fn close(&self) {
        self.channel.close().await;
    }

    fn noted<T>(&self, outcome: Result<T, CallError>) -> Result<T, CallError> {
        match &outcome {
            Err(e) if e.is_passing() => self.shared.call_failed(e),
            _ => self.shared.call_answered(),
        }
        outcome
    }
}

/// A linearizable read that carries nothing but the header.
pub fn head_request() -> RangeRequest {
    RangeRequest { key: Bytes::from_static(b"\0"), count_only: true, ..Default::default() }
}

/// Cluster and revision of an answer.
pub fn header(header: Option<ResponseHeader>) -> Result<(u64, u64), CallError> {
    let header = header.ok_or_else(|| CallError::Protocol("an answer without a header".into()))?;
    Ok((header.cluster_id, revision(header.revision)?))
}

pub fn revision(number: i64) -> Result<u64, CallError> {
    u64::try_from(number).map_err(|_| CallError::Protocol(format!("{number} as a revision")))
}

/// History at the asked revision is gone.
pub fn is_compacted(error: &CallError) -> bool {
    matches!(error, CallError::Status { code: code::OUT_OF_RANGE, message } if message.contains("compacted"))
}
