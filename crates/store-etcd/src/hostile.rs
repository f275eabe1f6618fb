//! Bytes that are no etcd's: messages, and the watch that is put together of them. The engine and its words are `fuzz`'s.

use bytes::BytesMut;
use fuzz::Fuzz;
use grpc::{CallError, next_message};
use prost::Message;
use store::{Commit, Guard, Revision};

use crate::assemble::Assembler;
use crate::channel::MAX_ANSWER_BYTES;
use crate::client::header;
use crate::proto::{Event, KeyValue, RangeResponse, ResponseHeader, ResponseOp, TxnResponse, WatchResponse};
use crate::txn;

fn pair(key: &str, revision: i64) -> KeyValue {
    KeyValue { key: key.into(), mod_revision: revision, value: b"{}".to_vec(), lease: 7 }
}

fn framed(kind: u8, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![kind];
    for message in messages {
        out.push(0);
        out.extend((message.len() as u32).to_be_bytes());
        out.extend(message);
    }
    out
}

fn seeds() -> Vec<Vec<u8>> {
    let header = Some(ResponseHeader { cluster_id: 5, revision: 9 });
    let range = RangeResponse {
        header: header.clone(),
        kvs: vec![pair("/registry/a", 3), pair("/registry/b", 4)],
        more: true,
    };
    let txn = TxnResponse {
        header,
        succeeded: false,
        responses: vec![ResponseOp { range: Some(range.clone()) }, ResponseOp { range: None }],
    };
    let event = |kind, revision| Event { kind, kv: Some(pair("/registry/a", revision)) };
    let watch = |fragment, events| WatchResponse { created: true, fragment, events, ..Default::default() };
    let parts =
        [watch(true, vec![event(0, 5)]), watch(false, vec![event(0, 5), event(1, 6)]), watch(false, vec![])];
    let parts = parts.map(|part| part.encode_to_vec());
    vec![
        framed(0, &[range.encode_to_vec()]),
        framed(1, &[txn.encode_to_vec()]),
        framed(2, &parts),
        framed(2, &[]),
    ]
}

/// What a message says is what its bytes say when it is written again.
fn read<M: Message + Default + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Result<M, String> {
    let message = M::decode(bytes).map_err(|error| error.to_string())?;
    assert_eq!(M::decode(message.encode_to_vec().as_slice()).as_ref(), Ok(&message));
    Ok(message)
}

#[test]
fn etcd_messages() {
    // Two guards, and what an answer makes of them.
    let commit = Commit {
        removal: false,
        guards: vec![("/registry/a".into(), Guard::At(Revision(3))), ("/registry/b".into(), Guard::Absent)],
        ops: Vec::new(),
    };
    // A length that lies may reserve what an answer may hold.
    Fuzz::new("etcd_messages").seeds(seeds()).allocates(65 << 20, 200).inputs(2000).run(|input| {
        let Some((kind, bytes)) = input.split_first() else { return "empty".to_owned() };
        let mut buffer = BytesMut::from(bytes);
        let mut assembler = Assembler::new(4);
        let mut said = String::new();
        loop {
            let message = match next_message(&mut buffer, MAX_ANSWER_BYTES) {
                Ok(Some(message)) => message,
                Ok(None) => return said + " end",
                Err(error) => return format!("{said} {error}"),
            };
            let outcome = match kind % 3 {
                0 => read::<RangeResponse>(&message)
                    .and_then(|answer| header(answer.header).map_err(|error: CallError| error.to_string()))
                    .map(|_| "range".to_owned()),
                1 => read::<TxnResponse>(&message).map(|answer| match txn::outcome(&commit, answer) {
                    Ok(txn::Outcome::Committed { .. }) => "committed".into(),
                    Ok(txn::Outcome::Refused { key, .. }) => format!("refused {key}"),
                    Err(error) => error.to_string(),
                }),
                _ => read::<WatchResponse>(&message).map(|answer| match assembler.take(answer) {
                    Ok(Some(batch)) => {
                        // Whole revisions, without a gap, from the one after the last.
                        assert!(batch.events.is_sorted_by_key(|told| told.revision));
                        assert_eq!(batch.events.last().map(|told| told.revision), Some(batch.upto));
                        "batch".into()
                    }
                    Ok(None) => "more".into(),
                    Err(broken) => broken.to_string(),
                }),
            };
            match outcome {
                Ok(outcome) => said.push_str(&outcome),
                Err(why) => return format!("{said} {why}"),
            }
        }
    });
}
