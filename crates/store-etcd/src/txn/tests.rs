//! Which guard is named, and which failures are certain.

use super::*;

fn guarded(guards: &[(&str, Guard)]) -> Commit {
    Commit { guards: guards.iter().map(|(k, g)| (Key::from(*k), *g)).collect(), ops: vec![], removal: false }
}

fn refused(revision: i64, stands: &[Option<i64>]) -> TxnResponse {
    let responses = stands.iter().map(|at| {
        let kvs = at.iter().map(|at| KeyValue { mod_revision: *at, ..Default::default() }).collect();
        ResponseOp { range: Some(RangeResponse { kvs, ..Default::default() }) }
    });
    let header = Some(ResponseHeader { cluster_id: 1, revision });
    TxnResponse { header, succeeded: false, responses: responses.collect() }
}

#[test]
fn the_first_guard_that_does_not_hold_is_named() {
    let commit = guarded(&[("a", Guard::At(Revision(3))), ("b", Guard::Absent), ("c", Guard::Present)]);
    for (stands, named) in [
        ([Some(4), None, Some(9)], "a"),
        ([None, None, Some(9)], "a"),
        ([Some(3), Some(7), None], "b"),
        ([Some(3), None, None], "c"),
    ] {
        match outcome(&commit, refused(11, &stands)) {
            Ok(Outcome::Refused { key, revision: 11 }) => assert_eq!(&*key, named),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_guard_at_revision_zero_never_means_absent() {
    assert!(!holds(Guard::At(Revision(0)), None));
    assert_eq!(compare(&Key::from("a"), Guard::At(Revision(0))).mod_revision, Some(-1));
}

#[test]
fn only_certain_failures_say_that_nothing_was_written() {
    let status = |code, message: &str| CallError::Status { code, message: message.into() };
    for error in [
        CallError::NotSent("refused".into()),
        status(code::UNAVAILABLE, "etcdserver: no leader"),
        status(code::PERMISSION_DENIED, "etcdserver: permission denied"),
    ] {
        assert!(matches!(failure(error.clone()), CommitError::Stopped(_)), "{error}");
    }
    let full = status(code::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded");
    assert!(matches!(failure(full), CommitError::NoSpace(why) if why.contains("NOSPACE alarm")));
    for error in [
        CallError::Lost("reset".into()),
        CallError::Timeout(std::time::Duration::from_secs(1)),
        CallError::Oversized,
        CallError::Protocol("?".into()),
        status(code::UNAVAILABLE, "etcdserver: request timed out"),
        status(code::UNAVAILABLE, "etcdserver: leader changed"),
        status(2, "?"),
    ] {
        assert!(matches!(failure(error.clone()), CommitError::Unknown(_)), "{error}");
    }
    for error in [
        status(code::INVALID_ARGUMENT, "etcdserver: request is too large"),
        status(code::INVALID_ARGUMENT, "etcdserver: too many operations in txn request"),
        status(code::RESOURCE_EXHAUSTED, "grpc: received message larger than max (3 vs. 2)"),
    ] {
        assert!(matches!(failure(error.clone()), CommitError::TooLarge(_)), "{error}");
    }
}
