//! Random histories against a plain map, with restarts and copies taken while the engine runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use store::faulty::{Faulty, Leaves};
use store::testing::{MapState, Rng, load_whole};
use store::{
    Commit, CommitError, DiskEngine, DiskOptions, Durable, Engine, Entry, Files, Guard, Key, MemoryEngine,
    Op, Revision, Sequencer,
};

#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    entries: BTreeMap<Key, Entry>,
    revision: u64,
}

impl Model {
    /// What the contract says about this commit.
    fn commit(&mut self, commit: &Commit) -> Result<u64, Key> {
        for (key, guard) in &commit.guards {
            let current = self.entries.get(key).map(|e| e.revision);
            let holds = match guard {
                Guard::Absent => current.is_none(),
                Guard::Present => current.is_some(),
                Guard::At(revision) => current == Some(*revision),
            };
            if !holds {
                return Err(key.clone());
            }
        }
        let next = Revision(self.revision + 1);
        let mut changed = false;
        for (key, op) in &commit.ops {
            changed |= match op {
                Op::Put { value, expires_at } => {
                    let (key, value, expires_at) = (key.clone(), value.clone(), *expires_at);
                    self.entries.insert(key.clone(), Entry { key, value, revision: next, expires_at });
                    true
                }
                Op::Delete => self.entries.remove(key).is_some(),
            };
        }
        self.revision += u64::from(changed);
        Ok(self.revision)
    }

    fn expire(&mut self, now: u64) {
        let before = self.entries.len();
        self.entries.retain(|_, e| e.expires_at.is_none_or(|time| time > now));
        self.revision += (before - self.entries.len()) as u64;
    }

    fn assert_is(&self, state: &MapState, context: &str) {
        assert_eq!(state.revision().0, self.revision, "{context}");
        let expected: Vec<Entry> = self.entries.values().cloned().collect();
        assert_eq!(state.entries(""), expected, "{context}");
        assert_eq!(state.contract_violations(), Vec::<String>::new(), "{context}");
    }
}

fn random_commit(rng: &mut Rng, model: &Model) -> Commit {
    let key = |rng: &mut Rng| -> Key { format!("/k/{}", rng.below(30)).into() };
    let mut commit = Commit::default();
    for _ in 0..rng.below(3) {
        let key = key(rng);
        let guard = match (rng.below(3), model.entries.get(&key)) {
            (0, _) => Guard::Absent,
            (1, Some(entry)) => Guard::At(entry.revision),
            (1, None) => Guard::At(Revision(rng.below(50))),
            _ => Guard::Present,
        };
        commit.guards.push((key, guard));
    }
    for _ in 0..1 + rng.below(3) {
        let key = key(rng);
        if commit.ops.iter().any(|(k, _)| *k == key) {
            continue;
        }
        let longest = if rng.below(20) == 0 { 20_000 } else { 200 };
        let length = rng.below(longest) as usize;
        let op = match rng.below(4) {
            0 => Op::Delete,
            1 => Op::Put { value: rng.bytes(length).into(), expires_at: Some(rng.below(1000)) },
            _ => Op::Put { value: Bytes::from(vec![0; length]), expires_at: None },
        };
        commit.ops.push((key, op));
    }
    commit
}

#[tokio::test]
async fn random_histories_with_restarts_match_a_plain_map() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut rng = Rng(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut model = Model { revision: 1, ..Model::default() };
        for restart in 0..8 {
            let context = format!("seed {seed}, restart {restart}");
            let options = DiskOptions { snapshot_log_bytes: 1 << rng.below(18), ..DiskOptions::default() };
            let state = Arc::new(MapState::default());
            let engine = DiskEngine::open(dir.path(), state.clone(), options).unwrap();
            model.assert_is(&state, &context);
            for _ in 0..rng.below(120) {
                if rng.below(20) == 0 {
                    let now = rng.below(300);
                    engine.expire(now).await.unwrap();
                    model.expire(now);
                    continue;
                }
                let commit = random_commit(&mut rng, &model);
                let expected = model.commit(&commit);
                match engine.commit(commit).await {
                    Ok(revision) => assert_eq!(Ok(revision.0), expected, "{context}"),
                    Err(CommitError::Conflict { key }) => assert_eq!(Err(key), expected, "{context}"),
                    Err(other) => panic!("{context}: {other}"),
                }
            }
            model.assert_is(&state, &context);
            match rng.below(2) {
                0 => engine.close().await,
                _ => drop(engine),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_taken_while_it_runs_holds_every_acknowledged_commit() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let state = Arc::new(MapState::default());
    let engine = DiskEngine::open(&data, state.clone(), DiskOptions::default()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8u64 {
        let engine = engine.clone();
        tasks.spawn(async move {
            for n in 0..150u64 {
                let op = Op::Put { value: vec![7; (n * 13 % 700) as usize].into(), expires_at: None };
                engine
                    .commit(Commit {
                        guards: vec![],
                        ops: vec![(format!("{task}/{n}").into(), op)],
                        removal: false,
                    })
                    .await
                    .unwrap();
            }
        });
    }
    let mut copies = Vec::new();
    while !tasks.is_empty() {
        tasks.join_next().await.unwrap().unwrap();
        for _ in 0..3 {
            // Everything the state shows is acknowledged or about to be: it is durable.
            let acknowledged = state.entries("");
            let copy = dir.path().join(format!("copy-{}", copies.len()));
            copy_dir(&data, &copy);
            copies.push((copy, acknowledged));
        }
    }
    engine.close().await;
    for (copy, acknowledged) in copies {
        let found = Arc::new(MapState::default());
        DiskEngine::open(&copy, found.clone(), DiskOptions::default()).unwrap();
        for entry in acknowledged {
            assert_eq!(found.get(&entry.key).as_ref(), Some(&entry), "{}", copy.display());
        }
    }
}

#[test]
fn a_disk_that_fails_at_any_append_keeps_all_that_was_acknowledged() {
    for seed in 0..25 {
        let mut rng = Rng(seed);
        let dir = tempfile::tempdir().unwrap();
        let leaves = [Leaves::Nothing, Leaves::Part(1), Leaves::All][rng.below(3) as usize];
        let files = Files::new(dir.path(), 2_000);
        let faulty = Faulty::new(Box::new(files), 1 + rng.below(30), leaves);
        let state = Arc::new(MapState::default());
        let mut sequencer = Sequencer::start(Box::new(faulty), state.clone()).unwrap();
        let mut model = Model { revision: 1, ..Model::default() };
        let mut acknowledged = model.clone();
        while sequencer.stopped().is_none() {
            let commit = random_commit(&mut rng, &model);
            let _ = model.commit(&commit);
            if sequencer.commit(commit).is_ok() {
                acknowledged = model.clone();
            }
        }
        assert!(sequencer.commit(random_commit(&mut rng, &model)).is_err());
        drop(sequencer);
        let (revision, entries) = load_whole(&mut Files::new(dir.path(), 2_000)).unwrap();
        let found = Model {
            entries: entries.into_iter().map(|e| (e.key.clone(), e)).collect(),
            revision: revision.0,
        };
        // The commit in doubt is there as a whole, or not at all.
        assert!(found == acknowledged || found == model, "seed {seed}, {leaves:?}");
    }
}

#[tokio::test]
async fn engines_over_a_failing_disk_answer_unknown_then_stopped() {
    for threaded in [false, true] {
        let durable = Box::new(Faulty::new(Box::new(store::InMemory), 2, Leaves::Nothing));
        let state = Arc::new(MapState::default());
        let engine: Arc<dyn Engine> = match threaded {
            true => DiskEngine::over(durable, state).unwrap(),
            false => MemoryEngine::over(durable, state).unwrap(),
        };
        let put = || Commit {
            guards: vec![],
            ops: vec![("a".into(), Op::Put { value: Bytes::new(), expires_at: None })],
            removal: false,
        };
        engine.commit(put()).await.unwrap();
        assert!(matches!(engine.commit(put()).await, Err(CommitError::Unknown(_))));
        assert!(matches!(engine.commit(put()).await, Err(CommitError::Stopped(_))));
        assert!(matches!(engine.barrier().await, Err(CommitError::Stopped(_))));
        assert!(matches!(engine.expire(9).await, Err(CommitError::Stopped(_))));
        assert!(matches!(engine.compact(Revision(1)).await, Err(CommitError::Stopped(_))));
        assert!(engine.health().unwrap_err().contains("as it was told to"));
        engine.close().await;
    }
}

/// On whichever thread it happens: the first commits go through the engine's, lone ones are written on the caller's.
#[tokio::test]
async fn after_a_panic_in_the_middle_of_a_commit_nothing_is_committed() {
    struct Panics(u32);
    impl Durable for Panics {
        fn load(&mut self, each: &mut dyn FnMut(Entry)) -> Result<store::Loaded, store::DurableError> {
            store::InMemory.load(each)
        }
        fn append(&mut self, _: &[store::Change]) -> Result<(), store::DurableError> {
            self.0 -= 1;
            assert!(self.0 > 0, "on purpose");
            Ok(())
        }
    }
    let state = Arc::new(MapState::default());
    let engine = DiskEngine::over(Box::new(Panics(4)), state.clone()).unwrap();
    let put = || Commit {
        guards: vec![],
        ops: vec![("a".into(), Op::Put { value: Bytes::new(), expires_at: None })],
        removal: false,
    };
    let mut acknowledged = Revision(1);
    while acknowledged < Revision(4) {
        acknowledged = engine.commit(put()).await.unwrap();
    }
    let ended = engine.commit(put()).await.unwrap_err();
    assert!(matches!(ended, CommitError::Unknown(_)), "{ended}");
    assert!(engine.health().is_err());
    assert!(matches!(engine.expire(9).await, Err(CommitError::Stopped(_))));
    let after = engine.commit(put()).await.unwrap_err();
    assert!(matches!(after, CommitError::Stopped(_)), "{after}");
    assert_eq!(state.revision(), acknowledged);
    engine.close().await;
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
