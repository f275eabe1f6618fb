//! Which answers complete a revision, and which break the watch.

use super::*;
use crate::proto::KeyValue;

fn answer(fragment: bool, events: &[(i64, &str)]) -> WatchResponse {
    let events = events.iter().map(|(revision, key)| Event {
        kind: 0,
        kv: Some(KeyValue {
            key: key.as_bytes().to_vec(),
            mod_revision: *revision,
            value: vec![1],
            lease: 0,
        }),
    });
    WatchResponse { fragment, events: events.collect(), ..Default::default() }
}

fn keys(batch: Option<Batch>) -> (String, u64) {
    let batch = batch.expect("a batch");
    (
        batch.events.iter().map(|e| format!("{}@{} ", String::from_utf8_lossy(&e.key), e.revision)).collect(),
        batch.upto,
    )
}

#[test]
fn an_answer_without_fragments_is_whole() {
    let mut a = Assembler::new(4);
    assert_eq!(
        keys(a.take(answer(false, &[(5, "a"), (5, "b"), (6, "a")])).unwrap()),
        ("a@5 b@5 a@6 ".into(), 6)
    );
    assert_eq!(keys(a.take(answer(false, &[(7, "c")])).unwrap()), ("c@7 ".into(), 7));
}

#[test]
fn a_revision_split_over_fragments_leaves_once_and_whole() {
    let mut a = Assembler::new(4);
    assert_eq!(a.take(answer(true, &[(5, "a"), (6, "a")])).unwrap(), None);
    assert_eq!(a.take(answer(true, &[(6, "b")])).unwrap(), None);
    assert_eq!(
        keys(a.take(answer(false, &[(6, "c"), (7, "a")])).unwrap()),
        ("a@5 a@6 b@6 c@6 a@7 ".into(), 7)
    );
}

#[test]
fn an_answer_without_events_completes_nothing() {
    let mut a = Assembler::new(4);
    assert_eq!(a.take(answer(false, &[])).unwrap(), None);
}

#[test]
fn a_missing_revision_breaks_the_watch() {
    assert!(Assembler::new(4).take(answer(false, &[(6, "a")])).is_err());
    assert!(Assembler::new(4).take(answer(false, &[(5, "a"), (7, "a")])).is_err());
}

#[test]
fn a_repeated_revision_breaks_the_watch() {
    let mut a = Assembler::new(4);
    assert!(a.take(answer(false, &[(4, "a")])).is_err());
    let mut a = Assembler::new(4);
    a.take(answer(false, &[(5, "a")])).unwrap();
    assert!(a.take(answer(false, &[(5, "b")])).is_err());
}

#[test]
fn a_delete_has_no_value() {
    let kv = KeyValue { key: b"a".to_vec(), mod_revision: 5, ..Default::default() };
    let response =
        WatchResponse { events: vec![Event { kind: EVENT_DELETE, kv: Some(kv) }], ..Default::default() };
    let batch = Assembler::new(4).take(response).unwrap().unwrap();
    assert_eq!(batch.events[0].value, None);
}
