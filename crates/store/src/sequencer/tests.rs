//! The sequencer by itself: batches, overlays, failures.

use std::sync::Arc;

use bytes::Bytes;

use crate::contract::{Change, Commit, CommitError, Entry, Guard, Key, Op, Revision, State};
use crate::durable::{Durable, DurableError, InMemory, Loaded};
use crate::faulty::{Faulty, Image, Leaves};
use crate::sequencer::{MAX_COMMIT_BYTES, Sequencer};
use crate::testing::{MapState, Rng};

fn put(key: &str, guard: Option<Guard>, value: &'static str) -> Commit {
    let key: Key = key.into();
    Commit {
        guards: guard.map(|g| (key.clone(), g)).into_iter().collect(),
        ops: vec![(key, Op::Put { value: Bytes::from_static(value.as_bytes()), expires_at: None })],
        removal: false,
    }
}

fn delete(key: &str, guard: Guard) -> Commit {
    Commit { guards: vec![(key.into(), guard)], ops: vec![(key.into(), Op::Delete)], removal: false }
}

fn run(sequencer: &mut Sequencer, commits: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
    let (mut commits, mut answers) = (commits, Vec::new());
    sequencer.commit_all(&mut commits, &mut answers);
    assert!(commits.is_empty());
    answers
}

#[test]
fn guards_see_earlier_commits_of_the_same_batch() {
    let state = Arc::new(MapState::default());
    let mut sequencer = Sequencer::start(Box::new(InMemory), state.clone()).unwrap();
    let answers = run(
        &mut sequencer,
        vec![
            put("a", Some(Guard::Absent), "1"),
            put("a", Some(Guard::Absent), "2"),
            put("a", Some(Guard::At(Revision(2))), "3"),
            delete("a", Guard::At(Revision(3))),
            put("a", Some(Guard::Present), "4"),
            put("a", Some(Guard::Absent), "5"),
        ],
    );
    let summary: Vec<_> = answers.iter().map(|a| a.as_ref().ok().map(|r| r.0)).collect();
    assert_eq!(summary, [Some(2), None, Some(3), Some(4), None, Some(5)]);
    assert_eq!(state.get("a").unwrap().value, "5");
    assert_eq!(state.contract_violations(), Vec::<String>::new());
}

#[test]
fn too_large_commits_are_refused_and_the_rest_goes_on() {
    let state = Arc::new(MapState::default());
    let mut sequencer = Sequencer::start(Box::new(InMemory), state).unwrap();
    let huge = Op::Put { value: vec![0; MAX_COMMIT_BYTES].into(), expires_at: None };
    let many = (0..2000).map(|i| (Key::from(i.to_string()), Op::Delete)).collect();
    let answers = run(
        &mut sequencer,
        vec![
            Commit { guards: vec![], ops: vec![("a".into(), huge)], removal: false },
            Commit { guards: vec![], ops: many, removal: false },
            put("a", None, "1"),
        ],
    );
    assert!(matches!(answers[0], Err(CommitError::TooLarge(_))));
    assert!(matches!(answers[1], Err(CommitError::TooLarge(_))));
    assert!(matches!(answers[2], Ok(Revision(2))));
}

#[test]
fn a_key_named_twice_is_one_change_and_the_last_counts() {
    let state = Arc::new(MapState::default());
    let mut sequencer = Sequencer::start(Box::new(InMemory), state.clone()).unwrap();
    let mut commit = put("a", None, "1");
    commit.ops.extend(put("a", None, "2").ops);
    sequencer.commit(commit).unwrap();
    assert_eq!(state.log("").len(), 1);
    assert_eq!(state.get("a").unwrap().value, "2");
}

#[test]
fn a_failed_append_is_unknown_then_stopped_and_publishes_nothing() {
    let image = Image::default();
    let state = Arc::new(MapState::default());
    let durable = Faulty::new(Box::new(image), 2, Leaves::Nothing);
    let mut sequencer = Sequencer::start(Box::new(durable), state.clone()).unwrap();
    sequencer.commit(put("a", None, "1")).unwrap();
    let answers = run(
        &mut sequencer,
        vec![put("a", None, "2"), put("a", Some(Guard::At(Revision(2))), "3"), put("b", None, "1")],
    );
    assert!(matches!(answers[0], Err(CommitError::Unknown(_))));
    // This conflict rests on a change that was never acknowledged.
    assert!(matches!(answers[1], Err(CommitError::Stopped(_))), "{:?}", answers[1]);
    assert!(matches!(answers[2], Err(CommitError::Unknown(_))));
    assert!(matches!(sequencer.commit(put("c", None, "1")), Err(CommitError::Stopped(_))));
    assert!(matches!(sequencer.expire(u64::MAX), Err(CommitError::Stopped(_))));
    assert!(sequencer.stopped().is_some());
    assert_eq!(state.log("").len(), 1);
    assert_eq!(sequencer.revision(), Revision(2));
}

#[test]
fn whatever_a_failing_disk_keeps_every_acknowledged_commit_is_found_again() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let image = Image::default();
        let leaves = [Leaves::Nothing, Leaves::Part(1), Leaves::Part(2), Leaves::All][rng.below(4) as usize];
        let faulty = Faulty::new(Box::new(image.clone()), 1 + rng.below(12), leaves);
        let state = Arc::new(MapState::default());
        let mut sequencer = Sequencer::start(Box::new(faulty), state.clone()).unwrap();
        let mut acknowledged = 0;
        for _ in 0..40 {
            let batch = (0..1 + rng.below(4))
                .map(|_| match rng.below(5) {
                    0 => delete(["a", "b", "c"][rng.below(3) as usize], Guard::Present),
                    _ => put(["a", "b", "c"][rng.below(3) as usize], None, "v"),
                })
                .collect();
            for revision in run(&mut sequencer, batch).into_iter().flatten() {
                assert!(sequencer.stopped().is_none(), "seed {seed}: acknowledged after the failure");
                acknowledged = acknowledged.max(revision.0);
            }
        }
        assert!(sequencer.stopped().is_some(), "seed {seed}");
        let published = state.log("");
        let found = image.changes();
        assert_eq!(found[..published.len()], published[..], "seed {seed}");
        let again = Arc::new(MapState::default());
        let sequencer = Sequencer::start(Box::new(image), again.clone()).unwrap();
        assert!(sequencer.revision().0 >= acknowledged, "seed {seed}");
        if leaves == Leaves::Nothing {
            assert_eq!(again.entries(""), state.entries(""), "seed {seed}");
        }
    }
}

#[test]
fn many_expired_keys_go_in_rounds_and_updates_move_the_end() {
    let state = Arc::new(MapState::default());
    let mut sequencer = Sequencer::start(Box::new(InMemory), state.clone()).unwrap();
    for i in 0..1000u64 {
        let op = |expires_at| Op::Put { value: Bytes::new(), expires_at };
        let key: Key = format!("{i:04}").into();
        let commit = |op| Commit { guards: vec![], ops: vec![(key.clone(), op)], removal: false };
        sequencer.commit(commit(op(Some(100)))).unwrap();
        if i % 10 == 0 {
            sequencer.commit(commit(op(Some(200)))).unwrap();
        }
    }
    sequencer.expire(99).unwrap();
    assert_eq!(state.entries("").len(), 1000);
    sequencer.expire(100).unwrap();
    assert_eq!(state.entries("").len(), 100);
    sequencer.expire(200).unwrap();
    assert_eq!(state.entries("").len(), 0);
    assert_eq!(state.current("0000"), None);
    assert_eq!(state.contract_violations(), Vec::<String>::new());
}

/// A disk with space for that many changes, and that much reserved for removals.
#[derive(Clone, Default)]
struct Small {
    image: Image,
    space: Arc<parking_lot::Mutex<(usize, usize)>>,
    full: bool,
}

impl Durable for Small {
    fn load(&mut self, each: &mut dyn FnMut(Entry)) -> Result<Loaded, DurableError> {
        self.image.load(each)
    }

    fn append(&mut self, batch: &[Change]) -> Result<(), DurableError> {
        let mut space = self.space.lock();
        let left = if self.full { &mut space.1 } else { &mut space.0 };
        match left.checked_sub(batch.len()) {
            Some(rest) => *left = rest,
            None => {
                self.full = true;
                return Err(DurableError::NoSpace("full, as it was told to".to_owned()));
            }
        }
        self.image.append(batch)
    }

    fn full(&mut self) -> Option<String> {
        self.full &= self.space.lock().0 == 0;
        self.full.then(|| "full, as it was told to".to_owned())
    }
}

#[test]
fn on_a_full_disk_puts_are_refused_and_removals_accepted_until_there_is_space() {
    let disk = Small::default();
    *disk.space.lock() = (3, 3);
    let state = Arc::new(MapState::default());
    let mut sequencer = Sequencer::start(Box::new(disk.clone()), state.clone()).unwrap();
    run(&mut sequencer, vec![put("a", None, "1"), put("b", None, "1"), put("c", None, "1")]);
    assert_eq!(sequencer.full(), None);
    // A batch that does not fit is refused as a whole, and so is a conflict with what nobody will see.
    let refused = run(&mut sequencer, vec![put("d", None, "1"), put("d", Some(Guard::Absent), "2")]);
    assert!(refused.iter().all(|a| matches!(a, Err(CommitError::NoSpace(_)))), "{refused:?}");
    assert!(sequencer.full().is_some() && sequencer.stopped().is_none());
    assert_eq!((sequencer.revision(), state.get("d")), (Revision(4), None));
    // Deletions, and what is said to be one, are taken; among others too; guards are still looked at.
    let mut mark = put("a", Some(Guard::Present), "going");
    mark.removal = true;
    let answers = run(
        &mut sequencer,
        vec![delete("b", Guard::Present), put("e", None, "1"), mark, put("a", Some(Guard::Absent), "1")],
    );
    assert!(matches!(answers[0], Ok(Revision(5))) && matches!(answers[2], Ok(Revision(6))), "{answers:?}");
    assert!(matches!(answers[1], Err(CommitError::NoSpace(_))), "{answers:?}");
    assert!(matches!(answers[3], Err(CommitError::Conflict { .. })), "{answers:?}");
    // Also these come to an end.
    sequencer.commit(delete("c", Guard::Present)).unwrap();
    assert!(matches!(sequencer.commit(delete("a", Guard::Present)), Err(CommitError::NoSpace(_))));
    assert!(matches!(sequencer.commit(delete("x", Guard::Absent)), Ok(Revision(7))), "nothing to write");
    disk.space.lock().0 = 10;
    assert!(matches!(sequencer.commit(put("d", None, "1")), Ok(Revision(8))));
    assert_eq!(sequencer.full(), None);
    assert_eq!(disk.image.changes(), state.log(""));
    assert_eq!(state.contract_violations(), Vec::<String>::new());
}

#[test]
fn a_deletion_that_is_the_first_to_find_the_disk_full_uses_the_reserved_space() {
    let disk = Small::default();
    *disk.space.lock() = (1, 1);
    let state = Arc::new(MapState::default());
    let mut sequencer = Sequencer::start(Box::new(disk), state).unwrap();
    sequencer.commit(put("a", None, "1")).unwrap();
    assert!(matches!(sequencer.commit(delete("a", Guard::Present)), Ok(Revision(3))));
}

/// A disk that cannot be read to its end.
struct Unreadable;

impl Durable for Unreadable {
    fn load(&mut self, each: &mut dyn FnMut(Entry)) -> Result<Loaded, DurableError> {
        let (key, value) = (Key::from("b"), Bytes::new());
        each(Entry { key, value, revision: Revision(9), expires_at: None });
        Err(DurableError::NotWritten("unreadable, as it was told to".to_owned()))
    }

    fn append(&mut self, _: &[Change]) -> Result<(), DurableError> {
        unreachable!("it was never loaded")
    }
}

#[test]
fn a_load_that_fails_half_way_leaves_the_state_as_it_was() {
    let state = Arc::new(MapState::default());
    let mut sequencer = Sequencer::start(Box::new(InMemory), state.clone()).unwrap();
    sequencer.commit(put("a", None, "1")).unwrap();
    assert!(Sequencer::start(Box::new(Unreadable), state.clone()).is_err());
    assert_eq!((state.revision(), state.reloads()), (Revision(2), 1));
    assert!(state.get("a").is_some() && state.get("b").is_none());
}
