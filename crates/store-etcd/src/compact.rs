//! Compaction when several servers do it: one at a time, by a guarded record that upstream's servers share.

use bytes::Bytes;
use grpc::CallError;

use crate::client::{COMPACT_KEY, Client};
use crate::proto::*;

/// Drops history up to `upto`, unless that is done or another server is just doing it.
pub async fn compact(client: &Client, upto: u64) -> Result<(), CallError> {
    let key = Bytes::from_static(COMPACT_KEY);
    let read = client.range(&RangeRequest { key: key.clone(), ..Default::default() }).await?;
    let record = read.kvs.first();
    let recorded = record.and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse::<u64>().ok());
    if recorded.is_some_and(|done| done >= upto) {
        return Ok(());
    }
    let unchanged = Compare {
        result: EQUAL,
        target: TARGET_MOD,
        key: key.clone(),
        version: None,
        // 0 where there is none.
        mod_revision: Some(record.map_or(0, |kv| kv.mod_revision)),
    };
    let put = PutRequest { key, value: Bytes::from(upto.to_string()), lease: 0 };
    let claim = TxnRequest {
        compare: vec![unchanged],
        success: vec![RequestOp { put: Some(put), ..Default::default() }],
        failure: vec![],
    };
    if client.txn(&claim).await?.succeeded { client.compact(upto).await } else { Ok(()) }
}
