//! Backups are whole or refused, are made under a running writer, and come back at a higher revision.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

fn backup() -> Backup {
    let Whole { revision, entries } = expected(LAST);
    let file =
        |name: &str, content: &[u8]| BackupFile { name: name.into(), mode: 0o600, content: content.into() };
    Backup { revision, entries, files: vec![file("pki/ca.key", b"secret"), file("pki/empty", b"")] }
}

#[test]
fn a_restored_backup_starts_above_all_served_revisions() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("backup");
    assert_eq!(backup().write(&path).unwrap(), std::fs::metadata(&path).unwrap().len());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let read = Backup::read(&path).unwrap();
    assert_eq!(read, backup());
    let mut highest = 0;
    for name in ["a", "b"] {
        let dir = home.path().join(name);
        let at = read.restore(&dir).unwrap();
        assert!(at.0 >= LAST + revision_jump::JUMP && at.0 > highest);
        highest = at.0;
        assert_eq!(open(&dir).unwrap(), Whole { revision: at, ..expected(LAST) });
        let refused = read.restore(&dir).unwrap_err().to_string();
        assert!(refused.contains("choose an empty directory"), "{refused}");
    }
}

#[test]
fn a_damaged_backup_is_refused_whole() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("backup");
    backup().write(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&path, bytes).unwrap();
        let message = Backup::read(&path).expect_err(what).to_string();
        assert!(message.contains("nothing of this one was restored"), "{what}: {message}");
    };
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes, &format!("byte {at}"));
        refused(&good[..at], &format!("cut to {at}"));
    }
    refused(&[&good[..], b"\0"].concat(), "one more");
    refused(&[&good[..], &good[..]].concat(), "twice");
    // Whole frames left out, which their checksums do not tell: only the first and the last one.
    let (first, last) = (frame::HEADER + 24 + frame::END.len(), frame::HEADER + 9 + frame::END.len());
    refused(&[&good[..first], &good[good.len() - last..]].concat(), "without entries");
}

#[test]
fn an_interrupted_restore_is_not_opened() {
    let home = tempfile::tempdir().unwrap();
    backup().restore(home.path()).unwrap();
    std::fs::remove_file(home.path().join("FORMAT")).unwrap();
    assert!(matches!(open(home.path()), Err(OpenError::NotOurs { .. })));
}

/// Somebody writes one revision after the other while `read` reads. What that is given waits until so many are
/// acknowledged, as a busy machine lets the writer come to nothing otherwise, and tells how many are.
#[allow(clippy::disallowed_methods, reason = "a reader beside a writer, in one process")]
fn under_a_writer(mut files: Writer, read: impl FnOnce(&dyn Fn(u64) -> u64)) {
    /// A reader that panics ends the writer too: a scope waits for all its threads.
    struct StopOnDrop<'a>(&'a AtomicBool);
    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (written, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut revision = 1;
            while !stop.load(Ordering::Relaxed) {
                revision += 1;
                files.append(&record(revision)).unwrap();
                written.store(revision, Ordering::Release);
            }
        });
        let _stop = StopOnDrop(&stop);
        read(&|least| {
            while written.load(Ordering::Acquire) < least {
                std::thread::yield_now();
            }
            written.load(Ordering::Acquire)
        });
    });
}

#[test]
fn a_store_is_read_while_it_is_written_and_compacted() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    // A snapshot every few records, so that files come and go under the reader.
    let files = writer(dir, 4000).unwrap();
    under_a_writer(files, |acknowledged| {
        for n in 0..40 {
            let acknowledged = acknowledged(n * 10);
            let (revision, entries) = read_unlocked(dir).unwrap();
            assert!(revision.0 >= acknowledged, "{revision} after {acknowledged}");
            assert_eq!(entries, expected(revision.0).entries);
        }
    });
    assert!(read_unlocked(&dir.join("none")).unwrap_err().to_string().contains("is missing"));
}

#[test]
fn what_is_written_under_a_reader_is_no_damage() {
    let home = tempfile::tempdir().unwrap();
    let mut files = writer(home.path(), 1 << 30).unwrap();
    files.append(&record(2)).unwrap();
    let mut reader = read::SegmentReader::open(home.path().join(segment(2)), Revision(2)).unwrap();
    assert!(reader.next_live(|_, _, _, _| {}).unwrap());
    // The reader has read the space after it, and that it was empty.
    for revision in 3..=9 {
        files.append(&record(revision)).unwrap();
    }
    assert!(!reader.next_live(|_, _, _, _| {}).unwrap(), "it ends with what was written meanwhile");
    assert!((2..=9).contains(&reader.revision.0));
}

/// Without one repetition of the whole.
#[test]
fn a_busy_log_is_read_at_the_first_attempt() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let files = writer(dir, 1 << 30).unwrap();
    under_a_writer(files, |acknowledged| {
        let manifest = Manifest::read(dir).unwrap();
        for n in 0..200 {
            let acknowledged = acknowledged(n);
            let revision = read::log(dir, &manifest, Reading::Live, 0).unwrap().revision;
            assert!(revision.0 >= acknowledged, "{revision} after {acknowledged}");
        }
    });
}

#[test]
fn a_backup_of_a_damaged_store_does_not_advise_to_repair_it() {
    let home = tempfile::tempdir().unwrap();
    damaged_store(home.path());
    let message = read_unlocked(home.path()).unwrap_err().to_string();
    assert!(message.contains("is damaged at byte") && message.contains("nothing was saved"), "{message}");
    assert!(!message.contains("setpoint repair"), "{message}");
}

/// With the right checksums, as no program of ours writes them: refused, not counted with.
#[test]
fn revisions_no_store_can_reach_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("backup");
    for revision in [u64::MAX, u64::MAX - 1, i64::MAX as u64] {
        Backup { revision: Revision(revision), ..Backup::default() }.write(&path).unwrap();
        let refused = Backup::read(&path).unwrap_err().to_string();
        assert!(refused.contains("nothing of this one was restored"), "{refused}");
    }
    let dir = home.path().join("store");
    drop(writer(&dir, u64::MAX).unwrap());
    for (snapshot, first) in
        [(None, 0), (None, u64::MAX), (Some(0), 1), (Some(u64::MAX), 2), (Some(u64::MAX), 0)]
    {
        let manifest = Manifest { snapshot: snapshot.map(Revision), segments: vec![Revision(first)] };
        manifest.write(&dir).unwrap();
        let refused = writer(&dir, u64::MAX).map(drop).unwrap_err().to_string();
        assert!(refused.contains("MANIFEST"), "{snapshot:?} {first}: {refused}");
    }
}
