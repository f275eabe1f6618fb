use std::io::Read;

use super::*;
use crate::{Stream, Writer};

const SECOND: i128 = 1_000_000_000;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn oldest_files_go_and_all_but_the_last_rotated_are_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut writer = Writer::open(&path).unwrap();
    for n in 0..6 {
        writer.write(Stream::Stdout, 0, format!("{n}\n").as_bytes()).unwrap();
        make_room(&path, 4).unwrap();
        writer.rotate(n * SECOND).unwrap();
    }
    assert_eq!(
        names(folder.path()),
        ["0.log", "0.log.19700101-000003.gz", "0.log.19700101-000004.gz", "0.log.19700101-000005"]
    );
    let gz = File::open(folder.path().join("0.log.19700101-000004.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(gz).read_to_string(&mut text).unwrap();
    assert!(text.ends_with("stdout F 4\n"), "{text}");
    let all: Vec<_> = all_logs(&path).unwrap();
    assert_eq!(all.len(), 4);
    assert_eq!(all[3], path);
}

#[test]
fn leftovers_of_a_rotation_that_was_cut_off_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    for name in ["0.log", "0.log.1.tmp", "0.log.2", "0.log.2.gz", "0.log.3", "10.log", "0.logs"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    rotate(&path, 10, 0, || fs::write(&path, "new")).unwrap();
    assert_eq!(
        names(folder.path()),
        ["0.log", "0.log.19700101-000000", "0.log.2.gz", "0.log.3.gz", "0.logs", "10.log"]
    );
}

#[test]
fn rotation_whose_writer_does_not_follow_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    fs::write(&path, "text").unwrap();
    assert!(rotate(&path, 5, 0, || Err(io::Error::other("the runtime is away"))).is_err());
    assert_eq!(names(folder.path()), ["0.log"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
}

#[test]
fn second_rotation_in_a_second_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut writer = Writer::open(&path).unwrap();
    for text in ["first\n", "second\n", "third\n"] {
        writer.write(Stream::Stdout, 0, text.as_bytes()).unwrap();
        writer.rotate(0).unwrap();
    }
    let all: Vec<String> =
        all_logs(&path).unwrap().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all.concat().lines().count(), 3);
    writer.rotate(SECOND).unwrap();
    assert_eq!(all_logs(&path).unwrap().len(), 3);
}

#[test]
fn log_is_removed_with_all_its_files_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["0.log", "0.log.1.gz", "0.log.2", "0.log.2.gz", "0.log.3.tmp", "1.log", "10.log"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    for _ in 0..2 {
        remove(&folder.path().join("0.log")).unwrap();
        assert_eq!(names(folder.path()), ["1.log", "10.log"]);
    }
    remove(&folder.path().join("gone/0.log")).unwrap();
}
