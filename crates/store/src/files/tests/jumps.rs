//! A directory that was copied, restored, or repaired advances its revision; no other does.

use std::process::Command;

use super::*;

/// Everything of a directory as `cp -a` copies it, over what is there.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(done.success());
}

/// A store with revisions up to `LAST`, after a clean shutdown.
fn store(dir: &Path) {
    let mut files = writer(dir, 1 << 30).unwrap();
    files.append(&(2..=LAST).flat_map(record).collect::<Vec<_>>()).unwrap();
}

/// Such a store, and the path of a directory beside it that is not there yet. They last as long as the first value.
fn store_and_other() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let (dir, other) = (home.path().join("store"), home.path().join("other"));
    store(&dir);
    (home, dir, other)
}

fn revision(dir: &Path) -> u64 {
    writer(dir, 1 << 30).unwrap().revision.0
}

/// The same entries as a store that goes on after `target`.
fn write_at(dir: &Path, target: Revision) {
    let entries = expected(LAST).entries;
    revision_jump::write(dir, target, |out| entries.iter().try_for_each(|entry| out.put(&entry.into())))
        .unwrap();
}

/// The same entries at another revision.
fn jumped(loaded: Whole) {
    assert!(loaded.revision.0 >= LAST + revision_jump::JUMP, "{}", loaded.revision);
    assert_eq!(Whole { revision: Revision(LAST), ..loaded }, expected(LAST));
}

#[test]
fn a_copy_jumps_once_and_has_no_log_before() {
    let (_home, dir, other) = store_and_other();
    copy(&dir, &other);
    let mut entries = Vec::new();
    let opened = open::open(&other, 1 << 30, Purpose::Use, &mut |entry| entries.push(entry)).unwrap();
    let (mut files, loaded) = (opened.writer, opened.loaded);
    assert_eq!(loaded.changes, vec![], "who watches from before is told to begin anew");
    let at = loaded.revision;
    jumped(Whole { revision: at, entries });
    // It goes on from there, over a restart and a snapshot too.
    files.append(&record(at.0 + 1)).unwrap();
    files.begin_snapshot().unwrap();
    files.append(&record(at.0 + 2)).unwrap();
    drop(files);
    assert_eq!(revision(&other), at.0 + 2);
    assert_eq!(revision(&other), at.0 + 2);
    assert_eq!(revision(&dir), LAST, "the original did not jump");
}

#[test]
fn a_renamed_directory_stays_as_it_is() {
    let (_home, dir, other) = store_and_other();
    std::fs::rename(&dir, &other).unwrap();
    assert_eq!(revision(&other), LAST);
}

/// Of a store that itself jumped a moment before, and whatever the clock says.
#[test]
fn two_jumps_of_one_state_never_meet() {
    // More than any disk takes in a second.
    const COMMITS: u64 = 500_000;
    let second = std::time::Duration::from_secs(1);
    let year = 365 * 86_400 * second;
    for now in [7 * year, 100 * year, 500 * year] {
        for before in [LAST, 1 << 40, revision_jump::target_at(Revision(LAST), now - second).0, 1 << 62] {
            for backup_after in [second / 500, second, 3600 * second] {
                let jumped = revision_jump::target_at(Revision(before), now);
                let (at, kept) = (now + backup_after, Revision(jumped.0 + 20));
                for apart in [second / 1000, second, 5 * second, 86_400 * second] {
                    let (first, again) =
                        (revision_jump::target_at(kept, at), revision_jump::target_at(kept, at + apart));
                    let written = COMMITS * apart.as_millis() as u64 / 1000;
                    let capped = at.as_nanos() > i64::MAX as u128 / 2;
                    assert!(capped || again.0 > first.0 + written, "{first} {again} {apart:?}");
                    assert!(
                        first.0 > kept.0 + revision_jump::MARGIN && again.0 < i64::MAX as u64,
                        "{first} {again}"
                    );
                }
            }
        }
    }
    assert_eq!(revision_jump::target_at(Revision(u64::MAX - 1), second).0, u64::MAX, "no overflow");
}

#[test]
fn a_copy_in_the_same_place_is_noticed_even_with_the_same_inodes() {
    let (_home, dir, backup) = store_and_other();
    copy(&dir, &backup);
    let mut highest = 0;
    // File systems give the inodes of deleted files to the next ones. Each time it must be higher, though the
    // copy is the same.
    for _ in 0..3 {
        std::fs::remove_dir_all(&dir).unwrap();
        copy(&backup, &dir);
        let at = revision(&dir);
        assert!(at >= LAST + revision_jump::JUMP && at > highest, "{at} after {highest}");
        highest = at;
    }
}

#[test]
fn an_older_copy_laid_over_the_directory_is_noticed() {
    let (_home, dir, backup) = store_and_other();
    copy(&dir, &backup);
    let mut files = writer(&dir, 1 << 30).unwrap();
    files.append(&record(LAST + 1)).unwrap();
    drop(files);
    // Into the files that are there: they keep their inodes.
    copy(&backup, &dir);
    jumped(open(&dir).unwrap());
}

#[test]
fn newer_files_that_an_older_copy_was_laid_over_are_deleted() {
    let (_home, dir, backup) = store_and_other();
    copy(&dir, &backup);
    let mut files = writer(&dir, 1 << 30).unwrap();
    files.append(&record(LAST + 1)).unwrap();
    files.begin_snapshot().unwrap();
    files.append(&record(LAST + 2)).unwrap();
    drop(files);
    assert!(dir.join(segment(LAST + 2)).exists());
    copy(&backup, &dir);
    jumped(open(&dir).unwrap());
    assert!(!dir.join(segment(LAST + 2)).exists());
}

#[test]
fn a_pending_jump_that_was_copied_is_not_resumed() {
    let (_home, dir, other) = store_and_other();
    let target = Revision(LAST + 5 * revision_jump::JUMP);
    revision_jump::begin(&dir, target).unwrap();
    // As far as a snapshot of it that is not in use yet.
    let manifest = Manifest::read(&dir).unwrap();
    write_at(&dir, target);
    manifest.write(&dir).unwrap();
    copy(&dir, &other);
    assert_eq!(revision(&dir), target.0);
    let at = revision(&other);
    assert!(at > target.0, "{at}: the other one writes on from {target}");
    assert_eq!(revision(&other), at);
    assert!(!other.join("MOVE").exists());
}

#[test]
fn a_directory_of_an_earlier_program_is_taken_as_it_is_and_marked() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    store(dir);
    for (path, name) in directory::list(dir).unwrap() {
        if matches!(name, Name::Identity(_)) {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(revision(dir), LAST);
    assert!(Identity::read(dir).unwrap().files.is_empty(), "nothing was written yet");
    writer(dir, 1 << 30).unwrap().append(&record(LAST + 1)).unwrap();
    assert_eq!(Identity::read(dir).unwrap().files.len(), 1);
    assert_eq!(revision(dir), LAST + 1);
    assert_eq!(FORMAT, 2, "it is read because the layout has not changed");
}

#[test]
fn a_start_that_dies_between_two_marks_is_no_copy() {
    let home = tempfile::tempdir().unwrap();
    store(home.path());
    // The new one is there, the old one is not deleted yet.
    let identity = Identity::read(home.path()).unwrap();
    Identity { files: vec![], ..identity }.renew(home.path()).unwrap();
    std::fs::write(home.path().join("place-00000000000000000009.tmp"), "half").unwrap();
    assert_eq!(Identity::read(home.path()).unwrap().files.len(), 2);
    assert_eq!(revision(home.path()), LAST);
    writer(home.path(), 1 << 30).unwrap().append(&record(LAST + 1)).unwrap();
    assert_eq!(Identity::read(home.path()).unwrap().files.len(), 1);
    assert_eq!(revision(home.path()), LAST + 1);
}

#[test]
fn a_damaged_identity_jumps_and_a_damaged_pending_jump_is_refused() {
    let home = tempfile::tempdir().unwrap();
    store(home.path());
    let identity = Identity::read(home.path()).unwrap();
    std::fs::write(&identity.files[0], "inode 1\n").unwrap();
    jumped(open(home.path()).unwrap());
    revision_jump::begin(home.path(), Revision(7)).unwrap();
    let path = home.path().join("MOVE");
    let mut said = std::fs::read(&path).unwrap();
    said[3] ^= 1;
    std::fs::write(&path, said).unwrap();
    assert!(open(home.path()).unwrap_err().to_string().contains("MOVE is damaged"));
}

/// What a power failure leaves, and how it got so far.
type Stage<'a> = (&'a str, &'a dyn Fn(&Path));

/// A power failure at any point of a jump: the next start completes it.
#[test]
fn an_interrupted_jump_is_completed() {
    let home = tempfile::tempdir().unwrap();
    let target = Revision(LAST + 5 * revision_jump::JUMP);
    let stages: [Stage<'_>; 5] = [
        ("begun", &|_| {}),
        ("half a snapshot", &|dir| {
            std::fs::write(directory::snapshot(dir, target).with_extension("7.tmp"), "half").unwrap()
        }),
        ("a snapshot", &|dir| {
            let manifest = Manifest::read(dir).unwrap();
            write_at(dir, target);
            std::fs::remove_file(directory::segment(dir, Revision(target.0 + 1))).unwrap();
            manifest.write(dir).unwrap();
        }),
        ("a segment", &|dir| {
            let manifest = Manifest::read(dir).unwrap();
            write_at(dir, target);
            manifest.write(dir).unwrap();
        }),
        ("a manifest", &|dir| write_at(dir, target)),
    ];
    for (name, interrupted) in stages {
        let dir = home.path().join(name);
        store(&dir);
        revision_jump::begin(&dir, target).unwrap();
        interrupted(&dir);
        let loaded = open(&dir).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(loaded.revision, target, "{name}");
        jumped(loaded);
        assert_eq!(revision(&dir), target.0, "{name}: twice");
        assert!(!dir.join("MOVE").exists(), "{name}");
        let files: Vec<_> = directory::list(&dir).unwrap().into_iter().map(|(_, name)| name).collect();
        assert_eq!(files.iter().filter(|n| matches!(n, Name::Segment(_) | Name::Snapshot(_))).count(), 2);
    }
}

/// A power failure right after a jump may bring `MOVE` back; a copy of such a directory is still a copy.
#[test]
fn a_pending_jump_that_came_back_neither_jumps_again_nor_hides_a_copy() {
    let (_home, dir, other) = store_and_other();
    revision_jump::begin(&dir, Revision(LAST - 1)).unwrap();
    copy(&dir, &other);
    assert_eq!(revision(&dir), LAST);
    assert!(!dir.join("MOVE").exists());
    jumped(open(&other).unwrap());
    // Whoever asks for it gets it, also where one has just ended.
    let (first, second) = (repair(&dir).unwrap(), repair(&dir).unwrap());
    assert!(second.revision.0 > first.revision.0 + revision_jump::MARGIN, "{first:?} {second:?}");
}

#[test]
fn a_repair_truncates_the_damaged_log_and_advances_the_revision() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let damaged = damaged_store(dir);
    let message = open(dir).unwrap_err().to_string();
    assert!(message.contains("setpoint repair") && !message.contains("truncate "), "{message}");
    let repaired = repair(dir).unwrap();
    assert_eq!(repaired.kept, Revision(LAST - 2));
    assert!(repaired.revision.0 >= repaired.kept.0 + revision_jump::JUMP);
    let loaded = open(dir).unwrap();
    assert_eq!(loaded.revision, repaired.revision);
    assert_eq!(loaded.entries, expected(LAST - 2).entries);
    // Nothing is thrown away.
    let kept = repaired.damaged.unwrap();
    assert_eq!(kept, dir.join(format!("{}.damaged", segment(15))));
    assert_eq!(std::fs::read(&kept).unwrap(), damaged[&segment(15)]);
    assert!(!dir.join(segment(15)).exists());
    assert_eq!(repair(dir).unwrap().damaged, None);
    assert_eq!(std::fs::read(&kept).unwrap(), damaged[&segment(15)]);
}

#[test]
fn a_repair_refuses_other_damage_and_directories_without_a_store() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let good = small_store(dir);
    for file in [segment(10), format!("snapshot-{:020}", 9), "MANIFEST".to_owned()] {
        let mut damaged = good.clone();
        damaged.get_mut(&file).unwrap()[30] ^= 4;
        lay_out(dir, &damaged);
        assert!(repair(dir).unwrap_err().to_string().contains("setpoint restore"), "{file}");
    }
    assert!(repair(&dir.join("none")).unwrap_err().to_string().contains("FORMAT is missing"));
}
