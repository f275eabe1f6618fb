//! Files that were truncated, corrupted, lost, or written by others: refused, or harmless, never served.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::directory::Name;
use super::identity::Identity;
use super::manifest::Manifest;
use super::read::Reading;
use super::*;
use crate::contract::Key;
use crate::durable::FIRST_REVISION;
use crate::testing::load_whole;

mod backups;
mod jumps;
mod torn;
mod truncated;

/// A directory's files, so that each test case starts from the same bytes. Without those that say where it lies:
/// laid out again, they would say that it is a copy.
type Contents = BTreeMap<String, Vec<u8>>;

fn contents(dir: &Path) -> Contents {
    let read = |path: PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())
    };
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|p| !is_incidental(p))
        .map(read)
        .collect()
}

/// Also the reserved space, whose content means nothing.
fn is_incidental(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.starts_with("place-") || name == directory::RESERVE_FILE
}

fn lay_out(dir: &Path, files: &Contents) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if !is_incidental(&path) && !files.contains_key(path.file_name().unwrap().to_str().unwrap()) {
            std::fs::remove_file(path).unwrap();
        }
    }
    for (name, bytes) in files {
        let path = dir.join(name);
        match std::fs::read(&path) {
            Ok(found) if found == *bytes => {}
            // In place: ext4 flushes a file that was emptied and written again, and there are thousands of them.
            Ok(found) if found.len() == bytes.len() => {
                OpenOptions::new().write(true).open(path).unwrap().write_all(bytes).unwrap()
            }
            _ => std::fs::write(path, bytes).unwrap(),
        }
    }
}

fn change(revision: u64, key: &str, value: Option<&[u8]>) -> Change {
    let expires_at = (value.is_some() && revision.is_multiple_of(3)).then_some(revision % 1_000_000 * 1000);
    let value = value.map(Bytes::copy_from_slice);
    Change { revision: Revision(revision), key: Key::from(key), value, expires_at }
}

/// One record for the revision; its keys overlap with others'.
fn record(revision: u64) -> Vec<Change> {
    let key = format!("/k/{}", revision % 5);
    let other = format!("/other/{}", revision % 3);
    match revision % 4 {
        0 => vec![change(revision, &key, None)],
        // Ends in zeros, which must not pass for a torn write.
        1 => vec![change(revision, &key, Some(b"v\0\0\0\0\0\0\0")), change(revision, &other, Some(b"w"))],
        2 => vec![change(revision, &key, Some(b""))],
        _ => vec![change(revision, &key, Some(revision.to_string().as_bytes()))],
    }
}

/// Everything a directory holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Whole {
    revision: Revision,
    entries: Vec<Entry>,
}

fn expected(upto: u64) -> Whole {
    let mut entries = BTreeMap::new();
    for change in (2..=upto).flat_map(record) {
        let (key, revision, expires_at) = (change.key, change.revision, change.expires_at);
        match change.value {
            Some(value) => entries.insert(key.clone(), Entry { key, value, revision, expires_at }),
            None => entries.remove(&key),
        };
    }
    Whole { revision: Revision(upto), entries: entries.into_values().collect() }
}

fn open(dir: &Path) -> Result<Whole, OpenError> {
    match load_whole(&mut Files::new(dir, 1 << 30)) {
        Ok((revision, entries)) => Ok(Whole { revision, entries }),
        Err(DurableError::Open(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

/// For whoever only writes.
fn writer(dir: &Path, snapshot_log_bytes: u64) -> Result<Writer, OpenError> {
    open::open(dir, snapshot_log_bytes, Purpose::Use, &mut |_| {}).map(|opened| opened.writer)
}

/// As the durable layer tells it: entries, and changes after them.
fn load(dir: &Path) -> (Vec<Entry>, Loaded) {
    let mut entries = Vec::new();
    let loaded = Files::new(dir, 1 << 30).load(&mut |entry| entries.push(entry)).unwrap();
    (entries, loaded)
}

const LAST: u64 = 18;

/// Bytes after the record's end mark, in a batch of its own.
fn padding_of(revision: u64) -> usize {
    let mut buffer = Vec::new();
    super::record::encode_batch(&mut buffer, &record(revision));
    let end = buffer.windows(frame::END.len()).rposition(|bytes| bytes == frame::END).unwrap();
    buffer.len() - end - frame::END.len()
}

/// A snapshot, a closed segment that is not compacted yet, and a last segment with several records.
fn small_store(dir: &Path) -> Contents {
    let mut files = writer(dir, 1 << 30).unwrap();
    let mut write = |batches: &[std::ops::RangeInclusive<u64>], snapshot: bool| {
        for batch in batches {
            files.append(&batch.clone().flat_map(record).collect::<Vec<_>>()).unwrap();
        }
        if snapshot {
            files.begin_snapshot().unwrap();
        }
        files.finish_snapshot();
        assert_eq!(files.shared.lock().failure, None);
        // The next one is given up at once, as if the process had been killed.
        files.cancelled.store(true, Ordering::Relaxed);
    };
    write(&[2..=9], true);
    write(&[10..=13, 14..=14], true);
    write(&[15..=16, 17..=LAST - 1, LAST..=LAST], false);
    drop(files);
    let files = contents(dir);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let [log_10, log_15, snapshot] = [segment(10), segment(15), format!("snapshot-{:020}", 9)];
    assert_eq!(names, ["FORMAT", "LOCK", "MANIFEST", &log_10, &log_15, &snapshot]);
    files
}

/// The same as a process leaves it that is killed: nobody has said where the log ends.
fn killed(mut files: Contents) -> Contents {
    files.insert("LOCK".into(), b"pid 1          \n".to_vec());
    files
}

/// The same, damaged inside the batch before the last.
fn damaged_store(dir: &Path) -> Contents {
    let mut files = small_store(dir);
    let last = files.get_mut(&segment(15)).unwrap();
    let end = last.len();
    last[end - 2 * frame::SECTOR + 20] ^= 4;
    lay_out(dir, &files);
    files
}

fn segment(first: u64) -> String {
    format!("log-{first:020}")
}

#[test]
fn everything_is_loaded_again() {
    let dir = tempfile::tempdir().unwrap();
    small_store(dir.path());
    assert_eq!(open(dir.path()).unwrap(), expected(LAST));
}

#[test]
fn a_flipped_byte_anywhere_is_refused_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let mut refused = 0;
    for (name, bytes) in &good {
        for (at, byte) in bytes.iter().enumerate() {
            for flipped in [byte ^ 0xff, byte ^ 1, 0, b'\n'] {
                if flipped == *byte {
                    continue;
                }
                let mut bad = good.clone();
                bad.get_mut(name).unwrap()[at] = flipped;
                lay_out(dir.path(), &bad);
                match open(dir.path()) {
                    Ok(loaded) => {
                        assert_eq!(loaded, expected(LAST), "{name}[{at}]");
                        assert_eq!(name, "LOCK", "byte {at}: why is it there if it does not matter?");
                    }
                    Err(error) => {
                        let message = error.to_string();
                        let said = message.contains(name.as_str()) || message.contains("format");
                        assert!(said && !message.contains('\n'), "{name}[{at}]: {message}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn a_cut_file_loses_at_most_the_end_of_the_log_of_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let good = killed(small_store(dir.path()));
    let tail = segment(15);
    for (name, bytes) in &good {
        for length in 0..bytes.len() {
            let mut bad = good.clone();
            bad.get_mut(name).unwrap().truncate(length);
            lay_out(dir.path(), &bad);
            match open(dir.path()) {
                Ok(loaded) if *name == tail => {
                    // A prefix, record by record.
                    let cut_in_padding = length + padding_of(LAST) >= bytes.len();
                    assert_eq!(loaded.revision.0 == LAST, cut_in_padding, "{length}");
                    assert!((14..=LAST).contains(&loaded.revision.0), "{length}");
                    assert_eq!(loaded, expected(loaded.revision.0), "{length}");
                    // And it stays that prefix: the torn end is gone from the disk.
                    assert_eq!(open(dir.path()).unwrap(), loaded);
                }
                Ok(loaded) => assert_eq!((loaded, name.as_str()), (expected(LAST), "LOCK"), "{length}"),
                Err(error) => assert!(!error.to_string().contains("truncate "), "{error}"),
            }
        }
    }
}

#[test]
fn a_lost_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    for name in good.keys().filter(|name| *name != "LOCK") {
        let mut bad = good.clone();
        bad.remove(name);
        lay_out(dir.path(), &bad);
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("missing") || message.contains("no FORMAT file"), "{name}: {message}");
    }
}

#[test]
fn records_that_were_swapped_or_repeated_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let (tail, closed) = (segment(15), segment(10));
    let frame = |revision| {
        let mut buffer = Vec::new();
        super::record::encode_batch(&mut buffer, &record(revision));
        buffer
    };
    for extra in [frame(LAST), frame(LAST + 2), frame(2)] {
        let mut bad = good.clone();
        bad.get_mut(&tail).unwrap().extend(extra);
        lay_out(dir.path(), &bad);
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("does not follow"), "{message}");
    }
    // A closed segment must reach the next one, and cannot be exchanged for it.
    let mut bad = good.clone();
    let length = bad[&closed].len() - frame(14).len();
    bad.get_mut(&closed).unwrap().truncate(length);
    lay_out(dir.path(), &bad);
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("ends with revision 13): revision 14 is lost"), "{message}");
    let mut bad = good.clone();
    bad.insert(closed, good[&tail].clone());
    lay_out(dir.path(), &bad);
    assert!(open(dir.path()).is_err());
}

#[test]
fn an_old_manifest_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let old = writer(dir.path(), 1 << 30).map(|_| contents(dir.path())).unwrap();
    let mut good = small_store(dir.path());
    good.insert("MANIFEST".into(), old["MANIFEST"].clone());
    lay_out(dir.path(), &good);
    assert!(open(dir.path()).is_err());
    // Also when the segment it names is there.
    good.insert(segment(2), old[&segment(2)].clone());
    lay_out(dir.path(), &good);
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("not listed in MANIFEST"), "{message}");
}

#[test]
fn leftovers_of_an_interrupted_snapshot_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let mut left = good.clone();
    left.insert("snapshot-00000000000000000014.tmp".into(), b"half".to_vec());
    left.insert("MANIFEST.tmp".into(), b"half".to_vec());
    left.insert(segment(2), b"compacted into the snapshot".to_vec());
    left.insert("snapshot-00000000000000000005".into(), b"older".to_vec());
    left.insert("snapshot-00000000000000000014".into(), b"never put to use".to_vec());
    left.insert(segment(LAST + 1), good[&segment(15)][..empty_segment_bytes() as usize].to_vec());
    lay_out(dir.path(), &left);
    assert_eq!(open(dir.path()).unwrap(), expected(LAST));
    assert_eq!(contents(dir.path()).keys().collect::<Vec<_>>(), good.keys().collect::<Vec<_>>());
}

/// Everything is read before anything is tidied up: whoever looks for what is lost finds all that was there.
#[test]
fn a_damaged_snapshot_is_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let mut bad = killed(small_store(dir.path()));
    let snapshot = bad.get_mut(&format!("snapshot-{:020}", 9)).unwrap();
    let last = snapshot.len() - 1;
    snapshot[last] ^= 1;
    bad.insert(segment(2), b"compacted".to_vec());
    lay_out(dir.path(), &bad);
    for opened in [open(dir.path()).map(drop), repair(dir.path()).map(drop)] {
        let message = opened.unwrap_err().to_string();
        assert!(message.contains("snapshot-"), "{message}");
        let mut left = contents(dir.path());
        left.insert("LOCK".into(), bad["LOCK"].clone());
        assert!(left == bad, "{:?}", left.keys());
    }
}

#[test]
fn the_revision_survives_when_only_deletions_came_last() {
    for snapshot_log_bytes in [0, 1 << 30] {
        let dir = tempfile::tempdir().unwrap();
        let mut files = writer(dir.path(), snapshot_log_bytes).unwrap();
        files.append(&[change(2, "a", Some(b"1"))]).unwrap();
        files.finish_snapshot();
        files.append(&[change(3, "a", None)]).unwrap();
        files.finish_snapshot();
        drop(files);
        assert_eq!(open(dir.path()).unwrap(), Whole { revision: Revision(3), ..Whole::default() });
    }
}

#[test]
fn compaction_deletes_what_it_replaces_and_keeps_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = writer(dir.path(), 100).unwrap();
    for revision in 2..200 {
        files.append(&record(revision)).unwrap();
        if revision % 7 == 0 {
            files.finish_snapshot();
        }
    }
    files.finish_snapshot();
    drop(files);
    let found = contents(dir.path());
    assert!(found.keys().filter(|name| name.starts_with("snapshot-")).count() == 1, "{:?}", found.keys());
    assert!(found.values().map(Vec::len).sum::<usize>() < 5_000);
    assert_eq!(open(dir.path()).unwrap(), expected(199));
}

#[test]
fn damage_found_while_compacting_stops_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = writer(dir.path(), 1 << 30).unwrap();
    for revision in 2..10 {
        files.append(&record(revision)).unwrap();
    }
    let path = dir.path().join(segment(2));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    files.snapshot_log_bytes = 0;
    files.append(&record(10)).unwrap();
    files.finish_snapshot();
    let refused = files.append(&record(11)).unwrap_err();
    assert!(
        matches!(&refused, DurableError::NotWritten(why) if why.contains("damaged at byte")),
        "{refused}"
    );
}

#[test]
fn a_new_directory_is_private_and_an_interrupted_creation_is_repeated() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b");
    drop(writer(&dir, 0).unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in contents(&dir).keys() {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
    std::fs::remove_file(dir.join("FORMAT")).unwrap();
    std::fs::create_dir(dir.join("lost+found")).unwrap();
    drop(writer(&dir, 0).unwrap());
}

#[test]
fn other_formats_and_other_directories_are_refused_with_the_way_to_fix_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut good = small_store(dir.path());
    good.insert("FORMAT".into(), b"1\n".to_vec());
    lay_out(dir.path(), &good);
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("has format 1, but this program supports format 2 only"), "{message}");

    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("thesis.tex"), "important").unwrap();
    let message = open(foreign.path()).unwrap_err().to_string();
    assert!(message.contains("holds thesis.tex but no FORMAT file"), "{message}");

    let message = open(&foreign.path().join("thesis.tex")).unwrap_err().to_string();
    assert!(message.contains("is not a directory"), "{message}");
    let message = open(&foreign.path().join("thesis.tex/data")).unwrap_err().to_string();
    assert!(message.contains("is not a directory"), "{message}");
}

#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let first = writer(dir.path(), 0).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains(&format!("already in use by pid {}", std::process::id())), "{message}");
    drop(first);
    open(dir.path()).unwrap();
}

#[test]
fn the_log_since_the_snapshot_is_replayed_as_changes() {
    let dir = tempfile::tempdir().unwrap();
    small_store(dir.path());
    let (entries, loaded) = load(dir.path());
    let before = loaded.before_changes().0;
    assert!((2..LAST).contains(&before), "{before}");
    let told: Vec<_> = (before + 1..=LAST).flat_map(record).collect();
    assert_eq!(loaded.changes, told);
    assert_eq!(entries, expected(before).entries);
}

#[test]
fn only_the_end_of_a_long_log_is_replayed_as_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = writer(dir.path(), 1 << 30).unwrap();
    let megabyte = vec![b'x'; 1 << 20];
    let mut last = 1;
    while (last as usize) << 20 < read::RECENT_BYTES + (5 << 20) {
        last += 1;
        // Two changes each: neither is told without the other.
        let key = format!("k{}", last % 3);
        files.append(&[change(last, &key, Some(&megabyte)), change(last, "small", Some(b"1"))]).unwrap();
    }
    drop(files);
    let (entries, loaded) = load(dir.path());
    let told: usize = loaded.changes.iter().filter_map(|c| c.value.as_ref()).map(|v| v.len()).sum();
    assert!((read::RECENT_BYTES / 2..=read::RECENT_BYTES).contains(&told), "{told}");
    let before = loaded.before_changes();
    assert_eq!(loaded.changes.len() as u64, 2 * (last - before.0));
    assert!(entries.iter().all(|e| e.revision <= before) && entries.len() == 4);
    let whole = open(dir.path()).unwrap();
    assert_eq!((whole.revision.0, whole.entries.len()), (last, 4));
    assert!(whole.entries.iter().all(|e| e.revision.0 > last - 3));
}
