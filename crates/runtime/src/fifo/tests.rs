//! The rules of both queues, by hand.

use super::*;
use crate::testing::{map, map_with};

/// Deltas in short: `A`dded, `U`pdated, `D`eleted (`?` unknown), `L`isted, `S`ynced, `R`eplaced, `*` sync, `B`ookmark.
fn short(deltas: &[Delta]) -> String {
    let one = |delta: &Delta| match delta {
        Delta::Added(o) => format!("A{}@{}", o.name(), o.revision()),
        Delta::Updated(o) => format!("U{}@{}", o.name(), o.revision()),
        Delta::Deleted { key, obj, unknown } => {
            let at = obj.as_ref().map_or("-".to_owned(), |o| o.revision().to_string());
            format!("D{}@{at}{}", key.name(), if *unknown { "?" } else { "" })
        }
        Delta::Replaced { items, revision } => format!("R{}@{revision}", items.len()),
        Delta::Listed(o) => format!("L{}@{}", o.name(), o.revision()),
        Delta::Sync => "*".to_owned(),
        Delta::Synced(o) => format!("S{}@{}", o.name(), o.revision()),
        Delta::Bookmark(revision) => format!("B@{revision}"),
    };
    deltas.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn deleted(obj: Arc<Obj>, unknown: bool) -> Delta {
    Delta::Deleted { key: Key::of(&obj), obj: Some(obj), unknown }
}

fn replaced(items: Vec<Arc<Obj>>, revision: u64) -> Delta {
    Delta::Replaced { items, revision: Revision(revision) }
}

fn knows(objects: &[Arc<Obj>]) -> Indexer {
    let known = Indexer::default();
    for obj in objects {
        known.begin().put(obj.clone());
    }
    known
}

fn pops(fifo: &mut dyn Fifo) -> Vec<String> {
    std::iter::from_fn(|| Some(fifo.pop()).filter(|batch| !batch.is_empty()).map(|b| short(&b))).collect()
}

#[test]
fn a_key_is_queued_once_with_all_its_deltas() {
    let (mut fifo, known) = (DeltaFifo::default(), Indexer::default());
    for delta in [
        Delta::Added(map("a", 1)),
        Delta::Added(map("b", 2)),
        Delta::Updated(map("a", 3)),
        deleted(map("a", 4), false),
        Delta::Added(map("a", 5)),
    ] {
        fifo.push(delta, &known);
    }
    assert_eq!(pops(&mut fifo), ["Aa@1 Ua@3 Da@4 Aa@5", "Ab@2"]);
}

#[test]
fn of_two_deletions_the_one_with_the_final_state_stays() {
    let known = knows(&[map("a", 1)]);
    for (first, second, kept) in
        [(true, false, "Da@3"), (false, true, "Da@2"), (true, true, "Da@2?"), (false, false, "Da@2")]
    {
        let mut fifo = DeltaFifo::default();
        fifo.push(deleted(map("a", 2), first), &known);
        fifo.push(deleted(map("a", 3), second), &known);
        assert_eq!(pops(&mut fifo), [kept], "{first} {second}");
    }
}

#[test]
fn updates_are_never_compressed() {
    let (mut fifo, known) = (DeltaFifo::default(), Indexer::default());
    fifo.push(Delta::Updated(map("a", 1)), &known);
    fifo.push(Delta::Updated(map("a", 1)), &known);
    assert_eq!(pops(&mut fifo), ["Ua@1 Ua@1"]);
}

#[test]
fn a_deletion_of_an_unknown_key_is_dropped() {
    let (mut fifo, known) = (DeltaFifo::default(), Indexer::default());
    fifo.push(deleted(map("a", 2), false), &known);
    assert_eq!(pops(&mut fifo), ["B@2"], "only its revision is told");
    // Pending is known too.
    fifo.push(Delta::Added(map("a", 3)), &known);
    fifo.push(deleted(map("a", 4), false), &known);
    assert_eq!(pops(&mut fifo), ["Aa@3 Da@4"]);
}

#[test]
fn a_replacement_deletes_missing_keys_with_final_state_unknown() {
    let known = knows(&[map("gone", 1), map("kept", 2)]);
    let mut fifo = DeltaFifo::default();
    fifo.push(Delta::Added(map("pending", 5)), &known);
    fifo.push(Delta::Updated(map("gone", 6)), &known);
    fifo.push(replaced(vec![map("kept", 2), map("new", 7)], 9), &known);
    assert_eq!(pops(&mut fifo), ["Apending@5 Dpending@5?", "Ugone@6 Dgone@6?", "Lkept@2", "Lnew@7", "B@9"]);
}

#[test]
fn a_replacement_does_not_delete_twice() {
    let known = knows(&[map("gone", 1)]);
    let mut fifo = DeltaFifo::default();
    fifo.push(deleted(map("gone", 4), false), &known);
    fifo.push(replaced(vec![], 9), &known);
    assert_eq!(pops(&mut fifo), ["Dgone@4", "B@9"]);
}

#[test]
fn a_resync_notifies_known_keys_without_pending_deltas() {
    let known = knows(&[map("a", 1), map("b", 2)]);
    let mut fifo = DeltaFifo::default();
    fifo.push(Delta::Updated(map("b", 3)), &known);
    fifo.push(Delta::Sync, &known);
    assert_eq!(pops(&mut fifo), ["Ub@3", "Sa@1"]);
}

#[test]
fn a_delta_fifo_has_synced_when_the_first_replacement_was_popped() {
    let (mut fifo, known) = (DeltaFifo::default(), Indexer::default());
    assert!(!fifo.has_synced());
    fifo.push(Delta::Added(map("early", 1)), &known);
    fifo.push(replaced(vec![map("a", 2), map("b", 3)], 3), &known);
    fifo.push(Delta::Added(map("late", 4)), &known);
    let mut history = Vec::new();
    while !fifo.pop().is_empty() {
        history.push(fifo.has_synced());
    }
    // early (gone again by the list), a, b, late, the bookmark.
    assert_eq!(history, [false, false, true, true, true]);
    let mut empty = DeltaFifo::default();
    empty.push(replaced(vec![], 3), &known);
    assert!(empty.has_synced(), "nothing to wait for");
}

#[test]
fn a_real_fifo_keeps_every_notification_in_order_in_batches_of_distinct_keys() {
    let (mut fifo, known) = (RealFifo::default(), Indexer::default());
    for delta in [
        Delta::Added(map("a", 1)),
        Delta::Added(map("b", 2)),
        Delta::Updated(map("a", 3)),
        deleted(map("unknown", 4), false),
        Delta::Bookmark(Revision(5)),
        Delta::Updated(map("a", 6)),
        Delta::Sync,
        replaced(vec![map("c", 7)], 8),
        Delta::Added(map("d", 9)),
    ] {
        fifo.push(delta, &known);
    }
    assert_eq!(pops(&mut fifo), ["Aa@1 Ab@2", "Ua@3 Dunknown@4", "B@5", "Ua@6", "*", "R1@8", "Ad@9"]);
}

#[test]
fn a_real_fifo_batches_at_most_a_thousand() {
    let (mut fifo, known) = (RealFifo::default(), Indexer::default());
    let template = map_with("x", "u", 1, "");
    for n in 0..1500 {
        let key = Key::new("default", &format!("k{n}"));
        fifo.push(Delta::Deleted { key, obj: Some(template.clone()), unknown: false }, &known);
    }
    assert_eq!((fifo.pop().len(), fifo.pop().len(), fifo.pop().len()), (1000, 500, 0));
}

#[test]
fn a_real_fifo_has_synced_when_the_first_replacement_was_popped() {
    let (mut fifo, known) = (RealFifo::default(), Indexer::default());
    fifo.push(Delta::Added(map("a", 1)), &known);
    fifo.push(replaced(vec![map("a", 2)], 3), &known);
    fifo.pop();
    assert!(!fifo.has_synced());
    fifo.pop();
    assert!(fifo.has_synced());
}
