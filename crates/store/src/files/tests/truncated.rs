//! A log that lost its end after a clean shutdown: refused, with what was lost and what to do about it.

use super::*;

/// The file, cut to a length; the rest as it was.
fn cut(dir: &Path, good: &Contents, name: &str, length: usize) {
    let mut bad = good.clone();
    bad.get_mut(name).unwrap().truncate(length);
    lay_out(dir, &bad);
}

#[test]
fn after_a_clean_shutdown_a_log_cut_at_any_length_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    for name in [segment(15), segment(10)] {
        for length in (0..good[&name].len()).filter(|at| at % 7 == 0 || (at + 2) % 256 < 4) {
            cut(dir.path(), &good, &name, length);
            // Again and again: a refused start changes nothing.
            for _ in 0..2 {
                let message = open(dir.path()).unwrap_err().to_string();
                assert!(message.contains(&name) && !message.contains('\n'), "{length}: {message}");
                assert!(message.contains("setpoint restore"), "{length}: {message}");
            }
            assert_eq!(contents(dir.path())[&name].len(), length);
        }
        lay_out(dir.path(), &good);
        assert_eq!(open(dir.path()).unwrap(), expected(LAST));
    }
}

#[test]
fn the_message_says_what_was_lost_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let tail = segment(15);
    let whole = good[&tail].len();
    cut(dir.path(), &good, &tail, whole - frame::SECTOR);
    let message = open(dir.path()).unwrap_err().to_string();
    let now = whole - frame::SECTOR;
    for part in [
        format!("{tail} was truncated"),
        format!("had {whole} bytes and ended with revision 18"),
        format!("now it has {now} bytes and ends with revision 17"),
        "revision 18 is lost".to_owned(),
        "discard everything after revision 17 with `setpoint repair`".to_owned(),
    ] {
        assert!(message.contains(&part), "{message} does not say {part:?}");
    }
    cut(dir.path(), &good, &tail, frame::SECTOR);
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("revisions 15 to 18 are lost"), "{message}");
    // Bytes without a revision in them.
    cut(dir.path(), &good, &tail, whole - 1);
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("no revision is lost"), "{message}");
    // As long as before, but not as far.
    let mut bad = good.clone();
    bad.get_mut(&tail).unwrap()[whole - frame::SECTOR..].fill(0);
    lay_out(dir.path(), &bad);
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("revision 18 is lost"), "{message}");
}

#[test]
fn a_backup_of_a_cut_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let tail = segment(15);
    for length in [0, frame::SECTOR, good[&tail].len() - 1] {
        cut(dir.path(), &good, &tail, length);
        assert!(read_unlocked(dir.path()).is_err(), "{length}");
    }
}

#[test]
fn a_repair_keeps_what_is_left_and_jumps_past_what_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let tail = segment(15);
    for length in [0, 100, frame::SECTOR, frame::SECTOR * 2, good[&tail].len() - frame::SECTOR] {
        cut(dir.path(), &good, &tail, length);
        let repaired = repair(dir.path()).unwrap();
        assert!((14..LAST).contains(&repaired.kept.0), "{length}: {repaired:?}");
        assert!(repaired.revision.0 > LAST, "{length}: {repaired:?}");
        let loaded = open(dir.path()).unwrap();
        assert_eq!(loaded.revision, repaired.revision);
        assert_eq!(loaded.entries, expected(repaired.kept.0).entries, "{length}");
    }
}

/// What a clean shutdown said holds for every process after it, however that ended.
#[test]
fn a_log_cut_below_the_last_clean_shutdown_is_refused_after_a_kill_too() {
    let dir = tempfile::tempdir().unwrap();
    small_store(dir.path());
    let mut files = writer(dir.path(), 1 << 30).unwrap();
    files.append(&record(LAST + 1)).unwrap();
    let left = contents(dir.path());
    drop(files);
    let tail = segment(15);
    let closed_at =
        left[&tail].len() - left[&tail].iter().rev().take_while(|b| **b == 0).count() - frame::SECTOR;
    for length in [closed_at, closed_at + 20] {
        cut(dir.path(), &left, &tail, length);
        assert_eq!(open(dir.path()).unwrap(), expected(LAST), "{length}: torn, and never acknowledged");
    }
    cut(dir.path(), &left, &tail, closed_at - 1);
    assert!(open(dir.path()).is_err());
}

#[test]
fn a_close_without_a_write_and_one_after_a_recovery_say_where_the_log_ends() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let closed = &good["LOCK"];
    drop(writer(dir.path(), 1 << 30).unwrap());
    assert_eq!(&contents(dir.path())["LOCK"], closed);
    // Without a word of where it ended, as after a first kill, or closed by an earlier program.
    for lock in [&b"pid 1          \n"[..], b"closed         \n", b""] {
        let mut earlier = good.clone();
        earlier.insert("LOCK".into(), lock.to_vec());
        lay_out(dir.path(), &earlier);
        drop(writer(dir.path(), 1 << 30).unwrap());
        assert_eq!(&contents(dir.path())["LOCK"], closed);
    }
    // A new store, and a new one where only the lock of another is left.
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(empty.path().join("LOCK"), closed).unwrap();
    drop(writer(empty.path(), 1 << 30).unwrap());
    assert_eq!(open(empty.path()).unwrap().revision, FIRST_REVISION);
    std::fs::write(empty.path().join(segment(2)), b"").unwrap();
    assert!(open(empty.path()).is_err());
}

/// The segment it names may have been compacted since: what counts then is the revision.
#[test]
fn a_log_that_was_compacted_since_the_last_clean_shutdown_opens() {
    let dir = tempfile::tempdir().unwrap();
    small_store(dir.path());
    let mut files = writer(dir.path(), 0).unwrap();
    files.append(&record(LAST + 1)).unwrap();
    files.finish_snapshot();
    let left = contents(dir.path());
    drop(files);
    assert!(!left.contains_key(&segment(15)), "{:?}", left.keys());
    lay_out(dir.path(), &left);
    assert_eq!(open(dir.path()).unwrap(), expected(LAST + 1));
}
