//! The contract suite: what [`Engine`] promises, checked from outside.
//!
//! It assumes nothing about how an engine works: revisions may jump (others may write to the same store),
//! foreign keys may appear, expiry may happen by itself a little late. All keys are under `prefix`, which
//! must be new to the store. Panics at the first violation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{MapState, Rng};
use crate::contract::{BoxFuture, Commit, CommitError, Engine, Guard, Key, Op, Revision};

/// Everything that needs no restart. `make` opens an engine on the given state; it is called once per case.
pub async fn contract_suite(
    make: impl Fn(Arc<MapState>) -> BoxFuture<'static, Arc<dyn Engine>>,
    prefix: &str,
) {
    macro_rules! run {
        ($($case:ident),* $(,)?) => {$(
            let case = Case::open(&make, prefix, stringify!($case)).await;
            $case(&case).await;
            case.finish().await;
        )*};
    }
    run!(
        guards_decide,
        several_keys_are_one_revision,
        a_conflict_leaves_nothing,
        answers_can_be_read_at_once,
        a_conflict_can_be_read_at_once,
        deleted_keys_can_be_created_again,
        deleting_nothing_changes_nothing,
        guards_without_operations_only_check,
        empty_and_big_values_survive,
        odd_keys_survive,
        many_keys_survive,
        concurrent_counters_lose_no_increment,
        concurrent_creates_have_one_winner,
        the_log_is_complete_and_in_order,
        barrier_is_not_older_than_what_was_acknowledged,
        expired_keys_are_deleted_by_a_commit,
        compaction_changes_nothing,
        a_closed_engine_refuses,
    );
}

/// For engines that keep their data: `make` must open the same store each time.
pub async fn reopen_suite(make: impl Fn(Arc<MapState>) -> BoxFuture<'static, Arc<dyn Engine>>, prefix: &str) {
    let case = Case::open(&make, prefix, "reopen").await;
    let mut rng = Rng(11);
    for i in 0..200u64 {
        let key = case.key(&format!("k{:02}", rng.below(40)));
        let op = match (rng.below(4), case.state.get(&key)) {
            (0, Some(_)) => Op::Delete,
            (1, _) => Op::Put { value: value(i), expires_at: Some(4_000_000_000 + i) },
            _ => put(value(i)),
        };
        case.commit(&[], &[(key, op)]).await.expect("no guard, so no conflict");
    }
    // The store's revision must survive also when no entry carries it.
    case.put("gone", "x").await;
    let last = case.commit(&[], &[(case.key("gone"), Op::Delete)]).await.expect("no guard");
    let before = case.state.entries(&case.prefix);
    case.finish().await;

    let again = Case::open(&make, prefix, "reopen").await;
    assert_eq!(again.state.entries(&again.prefix), before, "reopened with other entries");
    assert!(again.state.revision() >= last, "the store's revision went back over a restart");
    let next = again.put("after", "x").await;
    assert!(next > last, "a revision was given out twice: {next} after {last}");
    let mine = again.key(&before[0].key[again.prefix.len()..]);
    let stale = again.commit(&[(mine.clone(), Guard::At(next))], &[(mine.clone(), put("y"))]).await;
    assert!(matches!(stale, Err(CommitError::Conflict { .. })), "{stale:?}");
    again
        .commit(&[(mine.clone(), Guard::At(before[0].revision))], &[(mine, put("y"))])
        .await
        .expect("a guard with the revision of before the restart holds");
    again.finish().await;
    // More than any engine reads at once.
    let many = Case::open(&make, prefix, "reopen-many").await;
    put_many(&many, 2_500).await;
    let before = many.state.entries(&many.prefix);
    many.finish().await;
    let again = Case::open(&make, prefix, "reopen-many").await;
    assert!(again.state.entries(&again.prefix) == before && before.len() == 2_500);
    again.finish().await;
}

struct Case {
    engine: Arc<dyn Engine>,
    state: Arc<MapState>,
    prefix: String,
    name: &'static str,
}

impl Case {
    async fn open(
        make: &impl Fn(Arc<MapState>) -> BoxFuture<'static, Arc<dyn Engine>>,
        prefix: &str,
        name: &'static str,
    ) -> Case {
        let state = Arc::new(MapState::default());
        let engine = make(state.clone()).await;
        assert!(state.reloads() >= 1, "{name}: the state was not loaded when the engine was there");
        assert_eq!(engine.health(), Ok(()), "{name}");
        Case { engine, state, prefix: format!("{}/{name}/", prefix.trim_end_matches('/')), name }
    }

    async fn finish(self) {
        self.engine.close().await;
        assert_eq!(self.state.contract_violations(), Vec::<String>::new(), "{}", self.name);
    }

    fn key(&self, name: &str) -> Key {
        format!("{}{name}", self.prefix).into()
    }

    async fn commit(&self, guards: &[(Key, Guard)], ops: &[(Key, Op)]) -> Result<Revision, CommitError> {
        self.engine.commit(Commit { guards: guards.to_vec(), ops: ops.to_vec(), removal: false }).await
    }

    /// Writes without a guard.
    async fn put(&self, name: &str, value: &str) -> Revision {
        let answer = self.commit(&[], &[(self.key(name), put(value.to_owned()))]).await;
        answer.unwrap_or_else(|e| panic!("{}: put {name}: {e}", self.name))
    }

    fn value(&self, name: &str) -> Option<Bytes> {
        self.state.get(&self.key(name)).map(|e| e.value)
    }
}

fn put(value: impl Into<Bytes>) -> Op {
    Op::Put { value: value.into(), expires_at: None }
}

fn value(i: u64) -> Bytes {
    format!("{{\"value\":{i}}}").into()
}

#[track_caller]
fn assert_conflict(answer: Result<Revision, CommitError>, on: &Key) {
    match answer {
        Err(CommitError::Conflict { key }) => assert_eq!(key, *on, "conflict on another key"),
        other => panic!("expected a conflict on {on}, got {other:?}"),
    }
}

async fn guards_decide(c: &Case) {
    let (a, b) = (c.key("a"), c.key("b"));
    assert_conflict(c.commit(&[(a.clone(), Guard::Present)], &[(a.clone(), put("0"))]).await, &a);
    assert_conflict(c.commit(&[(a.clone(), Guard::At(Revision(1)))], &[(a.clone(), put("0"))]).await, &a);
    let first = c.commit(&[(a.clone(), Guard::Absent)], &[(a.clone(), put("1"))]).await.expect("absent");
    assert_conflict(c.commit(&[(a.clone(), Guard::Absent)], &[(a.clone(), put("2"))]).await, &a);
    let second =
        c.commit(&[(a.clone(), Guard::At(first))], &[(a.clone(), put("3"))]).await.expect("at first");
    assert!(second > first);
    assert_conflict(c.commit(&[(a.clone(), Guard::At(first))], &[(a.clone(), put("4"))]).await, &a);
    let third = c.commit(&[(a.clone(), Guard::Present)], &[(a.clone(), put("5"))]).await.expect("present");
    // A guard may be on a key that is not written, and the failing one is named.
    let guards = [(a.clone(), Guard::At(third)), (b.clone(), Guard::Present)];
    assert_conflict(c.commit(&guards, &[(a.clone(), put("6"))]).await, &b);
    let guards = [(a.clone(), Guard::At(third)), (b.clone(), Guard::Absent)];
    c.commit(&guards, &[(b.clone(), put("7"))]).await.expect("both guards hold");
    assert_conflict(c.commit(&[(a.clone(), Guard::At(first))], &[(a.clone(), Op::Delete)]).await, &a);
    c.commit(&[(a.clone(), Guard::At(third))], &[(a.clone(), Op::Delete)]).await.expect("delete at third");
    assert_conflict(c.commit(&[(a.clone(), Guard::Present)], &[(a.clone(), put("8"))]).await, &a);
    assert_conflict(c.commit(&[(a.clone(), Guard::At(third))], &[(a.clone(), put("8"))]).await, &a);
    assert_eq!(c.state.entries(&c.prefix).len(), 1);
}

async fn several_keys_are_one_revision(c: &Case) {
    let old = c.put("old", "x").await;
    let ops = [(c.key("p"), put("1")), (c.key("q"), put("2")), (c.key("old"), Op::Delete)];
    let revision = c.commit(&[(c.key("old"), Guard::At(old))], &ops).await.expect("the guard holds");
    let log: Vec<_> = c.state.log(&c.prefix).into_iter().filter(|ch| ch.revision == revision).collect();
    let keys: BTreeSet<_> = log.iter().map(|ch| ch.key.clone()).collect();
    assert_eq!(keys, BTreeSet::from([c.key("p"), c.key("q"), c.key("old")]));
    assert_eq!(log.len(), 3);
    for name in ["p", "q"] {
        assert_eq!(c.state.get(&c.key(name)).expect("written").revision, revision);
    }
    assert_eq!(c.value("old"), None);
}

async fn a_conflict_leaves_nothing(c: &Case) {
    c.put("a", "1").await;
    let before = c.state.log(&c.prefix);
    let ops = [(c.key("new"), put("x")), (c.key("a"), Op::Delete)];
    let guards = [(c.key("new"), Guard::Absent), (c.key("a"), Guard::Absent)];
    assert_conflict(c.commit(&guards, &ops).await, &c.key("a"));
    c.engine.barrier().await.expect("healthy");
    assert_eq!(c.state.log(&c.prefix), before);
    assert_eq!((c.value("new"), c.value("a")), (None, Some("1".into())));
}

async fn answers_can_be_read_at_once(c: &Case) {
    for i in 0..50 {
        let revision = c.put("a", &i.to_string()).await;
        let entry = c.state.get(&c.key("a")).expect("the state shows it before the answer");
        assert_eq!((entry.revision, entry.value), (revision, i.to_string().into()));
        assert!(c.state.revision() >= revision);
    }
}

async fn a_conflict_can_be_read_at_once(c: &Case) {
    // Each loser must find, right after its answer, something newer than what it tried to replace.
    let first = c.put("a", "0").await;
    let mut tasks = JoinSet::new();
    for i in 0..16 {
        let (engine, state, key) = (c.engine.clone(), c.state.clone(), c.key("a"));
        tasks.spawn(async move {
            let ops = vec![(key.clone(), put(i.to_string()))];
            let answer = engine
                .commit(Commit { guards: vec![(key.clone(), Guard::At(first))], ops, removal: false })
                .await;
            let now = state.get(&key).expect("never deleted").revision;
            match answer {
                Ok(revision) => assert!(now >= revision),
                Err(CommitError::Conflict { .. }) => {
                    assert!(now > first, "conflict, but nothing newer to see")
                }
                Err(other) => panic!("{other}"),
            }
        });
    }
    join(tasks).await;
    assert_eq!(c.state.log(&c.prefix).len(), 2, "exactly one of the sixteen won");
}

async fn deleted_keys_can_be_created_again(c: &Case) {
    let key = c.key("a");
    let mut last = Revision(0);
    for round in 0..5 {
        let absent = [(key.clone(), Guard::Absent)];
        let created = c.commit(&absent, &[(key.clone(), put(round.to_string()))]).await.expect("absent");
        let deleted = c
            .commit(&[(key.clone(), Guard::At(created))], &[(key.clone(), Op::Delete)])
            .await
            .expect("there");
        assert!(last < created && created < deleted);
        assert_eq!(c.state.get(&key), None);
        last = deleted;
    }
    let values: Vec<_> = c.state.log(&c.prefix).into_iter().map(|ch| ch.value.is_some()).collect();
    assert_eq!(values, [true, false].repeat(5));
}

async fn deleting_nothing_changes_nothing(c: &Case) {
    c.commit(&[], &[(c.key("none"), Op::Delete)]).await.expect("no guard");
    let revision =
        c.commit(&[], &[(c.key("none"), Op::Delete), (c.key("a"), put("1"))]).await.expect("no guard");
    let log = c.state.log(&c.prefix);
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].key.clone(), log[0].revision), (c.key("a"), revision));
}

async fn guards_without_operations_only_check(c: &Case) {
    let at = c.put("a", "1").await;
    let seen = c.commit(&[(c.key("a"), Guard::At(at))], &[]).await.expect("holds");
    assert!(seen >= at);
    assert_conflict(c.commit(&[(c.key("a"), Guard::Absent)], &[]).await, &c.key("a"));
    assert_eq!(c.state.log(&c.prefix).len(), 1);
}

async fn empty_and_big_values_survive(c: &Case) {
    c.put("empty", "").await;
    assert_eq!(c.value("empty"), Some(Bytes::new()));
    // Below etcd's usual limit of 1.5 MiB a request.
    let big = Bytes::from(Rng(5).bytes(1 << 20));
    c.commit(&[], &[(c.key("big"), put(big.clone()))]).await.expect("a megabyte is fine");
    assert_eq!(c.value("big"), Some(big));
    let zeros = Bytes::from(vec![0u8; 10_000]);
    c.commit(&[], &[(c.key("zeros"), put(zeros.clone()))]).await.expect("zeros are bytes too");
    assert_eq!(c.value("zeros"), Some(zeros));
}

async fn odd_keys_survive(c: &Case) {
    let long = "k".repeat(1000);
    let names =
        ["sp ace", "per%cent", "ünïcode-\u{1F980}", "nul\0inside", "new\nline", "a//b", "~", long.as_str()];
    for name in names {
        c.put(name, name).await;
    }
    for name in names {
        assert_eq!(c.value(name), Some(name.to_owned().into()), "{name:?}");
    }
    let keys: Vec<_> = c.state.entries(&c.prefix).into_iter().map(|e| e.key).collect();
    assert!(keys.is_sorted() && keys.len() == names.len());
}

async fn many_keys_survive(c: &Case) {
    put_many(c, 1000).await;
    assert_eq!(c.state.entries(&c.prefix).len(), 1000);
}

/// New keys, several writers at a time.
async fn put_many(c: &Case, count: usize) {
    const WRITERS: usize = 20;
    let mut tasks = JoinSet::new();
    for task in 0..WRITERS {
        let (engine, prefix) = (c.engine.clone(), c.prefix.clone());
        tasks.spawn(async move {
            for i in 0..count / WRITERS {
                let key: Key = format!("{prefix}{task}-{i:03}").into();
                let commit = Commit {
                    guards: vec![(key.clone(), Guard::Absent)],
                    ops: vec![(key, put(i.to_string()))],
                    removal: false,
                };
                engine.commit(commit).await.expect("each key is new");
            }
        });
    }
    join(tasks).await;
}

async fn concurrent_counters_lose_no_increment(c: &Case) {
    const TASKS: u64 = 8;
    const EACH: u64 = 25;
    c.put("n", "0").await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (engine, state, key) = (c.engine.clone(), c.state.clone(), c.key("n"));
        tasks.spawn(async move {
            let mut done = 0;
            while done < EACH {
                let old = state.get(&key).expect("never deleted");
                let n: u64 = std::str::from_utf8(&old.value).expect("ours").parse().expect("a number");
                let guards = vec![(key.clone(), Guard::At(old.revision))];
                let ops = vec![(key.clone(), put((n + 1).to_string()))];
                match engine.commit(Commit { guards, ops, removal: false }).await {
                    Ok(_) => done += 1,
                    Err(CommitError::Conflict { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    join(tasks).await;
    assert_eq!(c.value("n"), Some((TASKS * EACH).to_string().into()));
    assert_eq!(c.state.log(&c.prefix).len() as u64, 1 + TASKS * EACH);
}

async fn concurrent_creates_have_one_winner(c: &Case) {
    for round in 0..10 {
        let key = c.key(&format!("r{round}"));
        let mut tasks = JoinSet::new();
        for i in 0..8 {
            let (engine, key) = (c.engine.clone(), key.clone());
            tasks.spawn(async move {
                let guards = vec![(key.clone(), Guard::Absent)];
                engine
                    .commit(Commit { guards, ops: vec![(key, put(i.to_string()))], removal: false })
                    .await
                    .is_ok()
            });
        }
        let won = join(tasks).await.into_iter().filter(|ok| *ok).count();
        assert_eq!(won, 1, "round {round}");
    }
}

async fn the_log_is_complete_and_in_order(c: &Case) {
    // Tasks write at random; the log must hold each acknowledged commit once, whole, and in its place.
    let mut tasks = JoinSet::new();
    for task in 0..8u64 {
        let (engine, prefix) = (c.engine.clone(), c.prefix.clone());
        tasks.spawn(async move {
            let mut rng = Rng(100 + task);
            let mut acknowledged = Vec::new();
            for i in 0..40 {
                let mut ops: Vec<(Key, Op)> = Vec::new();
                for _ in 0..=rng.below(3) {
                    let key: Key = format!("{prefix}{}", rng.below(12)).into();
                    if ops.iter().all(|(k, _)| *k != key) {
                        ops.push((key, put(format!("{task}-{i}"))));
                    }
                }
                let revision = engine
                    .commit(Commit { guards: vec![], ops: ops.clone(), removal: false })
                    .await
                    .expect("no guard");
                let mut keys: Vec<Key> = ops.into_iter().map(|(key, _)| key).collect();
                keys.sort();
                acknowledged.push((revision, keys, Bytes::from(format!("{task}-{i}"))));
            }
            assert!(acknowledged.is_sorted_by(|a, b| a.0 < b.0), "a later commit got an earlier revision");
            acknowledged
        });
    }
    let mut expected: Vec<_> = join(tasks).await.into_iter().flatten().collect();
    expected.sort();
    let log = c.state.log(&c.prefix);
    assert!(log.is_sorted_by_key(|ch| ch.revision));
    let published: Vec<_> = log
        .chunk_by(|a, b| a.revision == b.revision)
        .map(|record| {
            let mut keys: Vec<Key> = record.iter().map(|ch| ch.key.clone()).collect();
            keys.sort();
            (record[0].revision, keys, record[0].value.clone().expect("only puts"))
        })
        .collect();
    assert_eq!(published, expected);
}

async fn barrier_is_not_older_than_what_was_acknowledged(c: &Case) {
    for i in 0..20 {
        let revision = c.put("a", &i.to_string()).await;
        let barrier = c.engine.barrier().await.expect("healthy");
        assert!(barrier >= revision, "barrier {barrier} after {revision} was acknowledged");
        assert!(c.state.revision() >= barrier, "the state has not seen barrier {barrier}");
    }
}

// The machine's clock on purpose: an engine may expire keys by itself, in real time.
#[allow(clippy::disallowed_methods)]
async fn expired_keys_are_deleted_by_a_commit(c: &Case) {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("the clock is after 1970")
        .as_secs();
    let short = Op::Put { value: "short".into(), expires_at: Some(now + 2) };
    let long = Op::Put { value: "long".into(), expires_at: Some(now + 3600) };
    let made =
        c.commit(&[], &[(c.key("short"), short.clone()), (c.key("long"), long)]).await.expect("no guard");
    c.put("forever", "x").await;
    // Written again without an end, and given one later on.
    c.commit(&[], &[(c.key("kept"), short.clone())]).await.expect("no guard");
    c.put("kept", "x").await;
    c.put("late", "x").await;
    c.commit(&[], &[(c.key("late"), short)]).await.expect("no guard");
    c.engine.expire(now - 1).await.expect("healthy");
    assert_eq!(c.state.get(&c.key("long")).expect("not yet").expires_at, Some(now + 3600));

    c.engine.expire(now + 3).await.expect("healthy");
    let gone = |s: &MapState| s.get(&c.key("short")).is_none() && s.get(&c.key("late")).is_none();
    assert!(c.state.wait_until(Duration::from_secs(30), gone).await, "not deleted after 30 s");
    let log = c.state.log(&c.prefix);
    let deleted: Vec<_> = log.iter().filter(|ch| ch.value.is_none()).collect();
    assert_eq!(deleted.len(), 2, "{deleted:?}");
    assert!(deleted.iter().all(|ch| ch.revision > made), "a deletion is a commit with its own revision");
    let left: Vec<_> = c.state.entries(&c.prefix).into_iter().map(|e| e.key).collect();
    assert_eq!(left, [c.key("forever"), c.key("kept"), c.key("long")]);
    // A recreated key does not inherit the old end.
    c.put("short", "again").await;
    c.engine.expire(now + 3).await.expect("healthy");
    assert_eq!(c.value("short"), Some("again".into()));
}

async fn compaction_changes_nothing(c: &Case) {
    let first = c.put("a", "1").await;
    let second = c.put("a", "2").await;
    let before = c.state.entries(&c.prefix);
    c.engine.compact(first).await.expect("healthy");
    assert_eq!(c.state.entries(&c.prefix), before);
    c.commit(&[(c.key("a"), Guard::At(second))], &[(c.key("a"), put("3"))]).await.expect("guards still hold");
}

async fn a_closed_engine_refuses(c: &Case) {
    c.put("a", "1").await;
    c.engine.close().await;
    let answer = c.commit(&[], &[(c.key("a"), put("2"))]).await;
    assert!(matches!(answer, Err(CommitError::Stopped(_))), "{answer:?}");
    assert!(c.engine.health().is_err());
    assert_eq!(c.value("a"), Some("1".into()));
}

async fn join<T: 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(value) => all.push(value),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    all
}
