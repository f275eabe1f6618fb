//! Writes that a kill or a power cut tore: what was acknowledged is there, and what was not is no damage.

use super::*;

/// One commit with a value that has whole sectors of zeros, and one without.
fn long_batch(first: u64) -> Vec<Change> {
    vec![change(first, "/zeros", Some(&[0; 1500])), change(first + 1, "/ones", Some(&[1; 900]))]
}

/// What a killed process leaves: two long batches (revisions 2 to 5) and the space written ahead, of which `keep`
/// bytes are kept so that the tests are quick.
fn killed_store(dir: &Path, keep: usize) -> (Contents, [std::ops::Range<usize>; 2]) {
    let mut files = writer(dir, 1 << 30).unwrap();
    files.append(&long_batch(2)).unwrap();
    files.append(&long_batch(4)).unwrap();
    let mut left = contents(dir);
    drop(files);
    let mut batch = Vec::new();
    super::record::encode_batch(&mut batch, &long_batch(2));
    let begin = empty_segment_bytes() as usize;
    let [middle, end] = [begin + batch.len(), begin + 2 * batch.len()];
    let log = left.get_mut(&segment(2)).unwrap();
    assert!(log.len() >= 64 << 10 && log[end..].iter().all(|byte| *byte == 0));
    log.truncate(end + keep);
    assert_eq!(contents(dir)[&segment(2)], log[..end], "a clean shutdown gives the space back");
    (left, [begin..middle, middle..end])
}

fn loaded_revision(dir: &Path) -> Option<u64> {
    open(dir).ok().map(|loaded| loaded.revision.0)
}

#[test]
fn space_written_ahead_is_no_loss_and_no_warning() {
    let dir = tempfile::tempdir().unwrap();
    let (left, [_, last]) = killed_store(dir.path(), 60 << 10);
    lay_out(dir.path(), &left);
    let log = read::log(dir.path(), &Manifest::read(dir.path()).unwrap(), Reading::Locked, 0).unwrap();
    assert_eq!((log.torn_bytes, log.revision.0), (0, 5));
    let mut files = writer(dir.path(), 1 << 30).unwrap();
    assert_eq!(std::fs::metadata(dir.path().join(segment(2))).unwrap().len(), last.end as u64);
    files.append(&long_batch(6)).unwrap();
    drop(files);
    assert_eq!(loaded_revision(dir.path()), Some(7));
}

#[test]
fn whichever_sectors_of_the_last_batch_arrived_the_store_opens() {
    let dir = tempfile::tempdir().unwrap();
    let (left, [first, last]) = killed_store(dir.path(), 2 * frame::SECTOR);
    for batch in [first.clone(), last] {
        let sectors = batch.len() / frame::SECTOR;
        for missing in 1u32..1 << sectors {
            let mut torn = left.clone();
            let log = torn.get_mut(&segment(2)).unwrap();
            for sector in (0..sectors).filter(|sector| missing & (1 << sector) != 0) {
                let at = batch.start + sector * frame::SECTOR;
                log[at..at + frame::SECTOR].fill(0);
            }
            let changed = *log != left[&segment(2)];
            lay_out(dir.path(), &torn);
            match loaded_revision(dir.path()) {
                Some(5) => assert!(!changed, "{missing:b}"),
                // Of the last batch only, and no more than what is cut by the first gap.
                Some(revision) => {
                    assert!(changed && batch != first && (3..5).contains(&revision), "{missing:b}")
                }
                None => assert!(changed && batch == first, "{missing:b} of {batch:?}"),
            }
        }
    }
}

#[test]
fn a_flipped_byte_in_what_a_killed_process_left_never_hides_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (left, [first, last]) = killed_store(dir.path(), 2 * frame::SECTOR);
    for at in 0..left[&segment(2)].len() {
        let byte = left[&segment(2)][at];
        for flipped in [byte ^ 0xff, 0].into_iter().filter(|flipped| *flipped != byte) {
            let mut bad = left.clone();
            bad.get_mut(&segment(2)).unwrap()[at] = flipped;
            lay_out(dir.path(), &bad);
            let found = loaded_revision(dir.path());
            // Behind the last end mark it may be harmless.
            let padding = at >= last.end - frame::SECTOR;
            assert!(found.is_none() || (padding && found == Some(5)), "byte {at}: {found:?}");
            assert!(at >= first.start || found.is_none(), "byte {at}");
        }
    }
}

#[test]
fn damage_before_a_torn_end_is_still_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = small_store(dir.path());
    let tail = segment(15);
    for at in empty_segment_bytes() as usize..good[&tail].len() {
        for more in [5, 100] {
            let mut bad = good.clone();
            let bytes = bad.get_mut(&tail).unwrap();
            bytes[at] ^= 0x40;
            bytes.resize(bytes.len() + more, 0);
            lay_out(dir.path(), &bad);
            assert!(open(dir.path()).is_err(), "byte {at}, {more} zeros after");
        }
    }
}

#[test]
fn after_a_torn_write_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut good = killed(small_store(dir.path()));
    let bytes = good.get_mut(&segment(15)).unwrap();
    bytes.truncate(bytes.len() - padding_of(LAST) - 3);
    lay_out(dir.path(), &good);
    let mut files = writer(dir.path(), 1 << 30).unwrap();
    for revision in LAST..LAST + 10 {
        files.append(&record(revision)).unwrap();
    }
    drop(files);
    assert_eq!(open(dir.path()).unwrap(), expected(LAST + 9));
}

#[test]
fn zeros_at_the_end_are_an_interrupted_write() {
    let dir = tempfile::tempdir().unwrap();
    let good = killed(small_store(dir.path()));
    let tail = segment(15);
    let length = good[&tail].len();
    let last_record = {
        let mut buffer = Vec::new();
        super::record::encode_batch(&mut buffer, &record(LAST));
        length - buffer.len()
    };
    for zeros in [1, 11, 12, 13, 511, 4096, 10_000] {
        let mut torn = good.clone();
        torn.get_mut(&tail).unwrap().resize(length + zeros, 0);
        lay_out(dir.path(), &torn);
        assert_eq!(open(dir.path()).unwrap(), expected(LAST), "{zeros} zeros added");
    }
    for from in last_record..length {
        for more in [0, 100] {
            let mut torn = good.clone();
            let bytes = torn.get_mut(&tail).unwrap();
            bytes[from..].fill(0);
            bytes.resize(length + more, 0);
            lay_out(dir.path(), &torn);
            let end = length - padding_of(LAST);
            match open(dir.path()) {
                Ok(loaded) if from >= end => assert_eq!(loaded, expected(LAST), "zeros from {from}"),
                Ok(loaded) => assert_eq!(loaded, expected(LAST - 1), "zeros from {from}"),
                Err(_) => assert!(from > end - frame::END.len(), "zeros from {from} of {length}"),
            }
        }
    }
    // Zeros that begin in an earlier record, and zeros followed by anything else, are damage.
    let mut damaged = good.clone();
    let end = last_record - padding_of(LAST - 1);
    damaged.get_mut(&tail).unwrap()[end - 20..last_record + 4].fill(0);
    lay_out(dir.path(), &damaged);
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("setpoint repair"), "{message}");
    assert!(message.contains(&format!("after revision {}", LAST - 2)), "{message}");
}
