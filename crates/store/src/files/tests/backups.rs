//! Backups are whole or refused, are made under a running writer, and come back at a higher revision.

use std::sync::atomic::AtomicU64;

use super::*;

fn backup() -> Backup {
    let Loaded { revision, entries, .. } = expected(LAST);
    let file =
        |name: &str, content: &[u8]| BackupFile { name: name.into(), mode: 0o600, content: content.into() };
    Backup { revision, entries, files: vec![file("pki/ca.key", b"secret"), file("pki/empty", b"")] }
}

#[test]
fn a_backup_comes_back_past_what_was_handed_out() {
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
        assert!(at.0 >= LAST + step::STEP && at.0 > highest);
        highest = at.0;
        assert_eq!(open(&dir).unwrap(), Loaded { revision: at, ..expected(LAST) });
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
        assert!(message.contains("nothing of this one was used"), "{what}: {message}");
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

#[test]
#[allow(clippy::disallowed_methods, reason = "a reader beside a writer, in one process")]
fn a_store_is_read_while_it_is_written_and_folded() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_owned();
    // A snapshot every few records, so that files come and go under the reader.
    let mut files = Files::open(&dir, 4000).unwrap();
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
        for n in 0..40 {
            // A busy machine lets the writer come to nothing otherwise.
            while written.load(Ordering::Acquire) < n * 10 {
                std::thread::yield_now();
            }
            let acknowledged = written.load(Ordering::Acquire);
            let loaded = read_unlocked(&dir).unwrap();
            assert!(loaded.revision.0 >= acknowledged, "{} after {acknowledged}", loaded.revision);
            assert_eq!(loaded, expected(loaded.revision.0));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(read_unlocked(&dir.join("none")).unwrap_err().to_string().contains("is missing"));
}

#[test]
fn what_is_written_under_a_reader_is_no_damage() {
    let home = tempfile::tempdir().unwrap();
    let mut files = Files::open(home.path(), 1 << 30).unwrap();
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
#[allow(clippy::disallowed_methods, reason = "a reader beside a writer, in one process")]
fn a_busy_log_is_read_at_the_first_attempt() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_owned();
    let mut files = Files::open(&dir, 1 << 30).unwrap();
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
        let manifest = Manifest::read(&dir).unwrap();
        let mut outcome = Ok(());
        for n in 0..200 {
            while written.load(Ordering::Acquire) < n {
                std::thread::yield_now();
            }
            let acknowledged = written.load(Ordering::Acquire);
            match read::chain(&dir, &manifest, Reading::Live) {
                Ok(chain) if chain.loaded.revision.0 >= acknowledged => {}
                Ok(chain) => outcome = Err(format!("{} after {acknowledged}", chain.loaded.revision)),
                Err(error) => outcome = Err(error.to_string()),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(outcome, Ok(()));
    });
}

#[test]
fn a_backup_of_a_damaged_store_does_not_advise_to_repair_it() {
    let home = tempfile::tempdir().unwrap();
    let mut damaged = small_store(home.path());
    let end = damaged[&segment(15)].len();
    damaged.get_mut(&segment(15)).unwrap()[end - 2 * frame::SECTOR + 20] ^= 4;
    lay_out(home.path(), &damaged);
    let message = read_unlocked(home.path()).unwrap_err().to_string();
    assert!(message.contains("is damaged at byte") && message.contains("nothing was saved"), "{message}");
    assert!(!message.contains("setpoint repair"), "{message}");
}
