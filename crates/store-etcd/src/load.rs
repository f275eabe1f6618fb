//! Reads everything under the prefix at one revision, and hands it on page by page.

use bytes::Bytes;
use grpc::CallError;
use store::{Entry, Key, Reload, Revision};

use crate::client::{Client, header, revision};
use crate::lease::Leases;
use crate::proto::{KeyValue, RangeRequest};

/// Keys of a page; fewer when values are so large that a page would not fit an answer.
const PAGE_KEYS: i64 = 1000;

/// What was read, and as of when.
pub struct Loaded {
    pub cluster: u64,
    pub revision: u64,
    /// How many entries.
    pub keys: usize,
}

/// Adds everything under a prefix, in key order. Fails with a compaction's error when history at the first page's
/// revision goes away meanwhile: begin again, with another reload.
pub async fn load(
    client: &Client,
    leases: &Leases,
    prefix: &str,
    reload: &mut dyn Reload,
) -> Result<Loaded, CallError> {
    let mut request = RangeRequest {
        key: Bytes::copy_from_slice(prefix.as_bytes()),
        range_end: prefix_end(prefix),
        limit: PAGE_KEYS,
        ..Default::default()
    };
    let mut loaded: Option<Loaded> = None;
    loop {
        let page = match client.range(&request).await {
            Err(CallError::Oversized) if request.limit > 1 => {
                request.limit = (request.limit / 8).max(1);
                continue;
            }
            page => page?,
        };
        let (cluster, at) = header(page.header)?;
        let into = loaded.get_or_insert(Loaded { cluster, revision: at, keys: 0 });
        // Pages must fit together: all further ones are read as of the first.
        request.revision = into.revision.cast_signed();
        if let Some(last) = page.kvs.last() {
            request.key = Bytes::from([last.key.as_slice(), b"\0"].concat());
        }
        let more = page.more && !page.kvs.is_empty();
        for kv in page.kvs {
            let (at, lease) = (revision(kv.mod_revision)?, kv.lease);
            if let Some((key, value)) = key_and_value(kv) {
                let expires_at = leases.expires_at(lease).await;
                reload.add(Entry { key, value, revision: Revision(at), expires_at });
                into.keys += 1;
            }
        }
        if !more {
            return loaded.ok_or_else(|| CallError::Protocol("no page".into()));
        }
    }
}

/// The first key after all that begin with `prefix`.
fn prefix_end(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    // UTF-8 has no byte 0xff, so the last one can always grow.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    Bytes::from(end)
}

/// `None` for a key that is not text: no server of ours or upstream's writes such keys.
pub fn key_of(key: &[u8]) -> Option<Key> {
    match std::str::from_utf8(key) {
        Ok(key) => Some(Key::from(key)),
        Err(_) => {
            tracing::warn!(key = %key.escape_ascii(), "ignoring a key that is not UTF-8");
            None
        }
    }
}

fn key_and_value(kv: KeyValue) -> Option<(Key, Bytes)> {
    Some((key_of(&kv.key)?, Bytes::from(kv.value)))
}
