//! Files of the store, and values that another server wrote.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use catalog::Catalog;
use codec::json;
use env::Env;
use fuzz::Fuzz;
use store::testing::load_whole;
use store::{Backup, Change, Durable, Entry, Files, Revision, State};
use table::Table;

use crate::samples;

fn changes(revision: u64, keys: &[(&str, Option<&str>)]) -> Vec<Change> {
    let one = |(key, value): &(&str, Option<&str>)| Change {
        revision: Revision(revision),
        key: (*key).into(),
        value: value.map(|text| text.to_owned().into()),
        expires_at: revision.is_multiple_of(2).then_some(5),
    };
    keys.iter().map(one).collect()
}

/// The state after each revision of the store below.
fn history() -> Vec<Vec<Change>> {
    let large = "x".repeat(1500);
    vec![
        changes(2, &[("/registry/a", Some("1"))]),
        changes(3, &[("/registry/b", Some("2")), ("/registry/c", Some(""))]),
        changes(4, &[("/registry/a", None)]),
        changes(5, &[("/registry/d", Some(&large))]),
        changes(6, &[("/registry/b", Some("3"))]),
    ]
}

/// Corrects the checksums of a file's frames, so that mutated payloads are read.
fn with_checksums(mut file: Vec<u8>) -> Vec<u8> {
    const HEADER: usize = 16;
    let mut at = 0;
    while at + HEADER <= file.len() {
        let length = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let Some(end) = at.checked_add(HEADER + length).filter(|end| *end <= file.len()) else { break };
        let sum = crc32c::crc32c(&file[at + HEADER..end]);
        file[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        let own = crc32c::crc32c(&file[at..at + 12]);
        file[at + 12..at + 16].copy_from_slice(&own.to_le_bytes());
        at = end + 4;
        // The next frame, or the next batch.
        if file.get(at).is_some_and(|byte| *byte == 0xb9) {
            at = at.next_multiple_of(512);
        }
    }
    file
}

#[test]
fn disk_log() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let mut states: Vec<Vec<Entry>> = Vec::new();
    {
        let mut files = Files::new(&made, u64::MAX);
        states.push(load_whole(&mut files).unwrap().1);
        let mut entries = BTreeMap::new();
        for batch in history() {
            files.append(&batch).unwrap();
            for Change { revision, key, value, expires_at } in batch {
                match value {
                    Some(value) => entries.insert(key.clone(), Entry { key, value, revision, expires_at }),
                    None => entries.remove(&key),
                };
            }
            states.push(entries.values().cloned().collect());
        }
    }
    // By name: a segment, the manifest, and what else there is.
    let template: BTreeMap<String, Vec<u8>> = std::fs::read_dir(&made)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    let names: Vec<&String> = template.keys().collect();
    let choose = |index: usize| if names[index].contains("log") { 3 } else { 1 };
    let seeds: Vec<Vec<u8>> = (0..names.len())
        .flat_map(|index| (0..choose(index)).map(move |fix| (index, fix)))
        .map(|(index, fix)| [&[index as u8, fix as u8], template[names[index]].as_slice()].concat())
        .collect();
    let dir = folder.path().join("tried");
    let load = |dir: &Path| -> Result<(Revision, Vec<Entry>), String> {
        load_whole(&mut Files::new(dir, u64::MAX)).map_err(|error| error.to_string())
    };
    Fuzz::new("disk_log").seeds(seeds).max_len(16 << 10).allocates(3 << 20, 100).inputs(150).run(|input| {
        let [which, fix, content @ ..] = input else { return "empty".to_owned() };
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        let changed = names[usize::from(*which) % names.len()];
        let forged = fix % 4 == 1;
        for (name, bytes) in &template {
            let content = if forged { with_checksums(content.to_vec()) } else { content.to_vec() };
            std::fs::write(dir.join(name), if name == changed { &content } else { bytes }).unwrap();
        }
        let loaded = match load(&dir) {
            Ok(loaded) => loaded,
            Err(why) => return why.replace(&dir.display().to_string(), ""),
        };
        assert_eq!(load(&dir).as_ref(), Ok(&loaded), "the same at the next start");
        if !forged {
            assert!(states.contains(&loaded.1), "a state that never was: {loaded:?}");
        }
        "ok".into()
    });
}

#[test]
fn backup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup");
    let entry = |key: &str, value: &str| Entry {
        key: key.into(),
        value: value.to_owned().into(),
        revision: Revision(3),
        expires_at: None,
    };
    let made = Backup {
        revision: Revision(9),
        entries: vec![entry("/registry/a", "1"), entry("/registry/b", "")],
        ..Backup::default()
    };
    made.write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let seeds = [[b"0", bytes.as_slice()].concat(), [b"1", bytes.as_slice()].concat()];
    let tried = folder.path().join("tried");
    Fuzz::new("backup").seeds(seeds).allocates(1 << 20, 100).inputs(600).run(|input| {
        let Some((fix, content)) = input.split_first() else { return "empty".to_owned() };
        let forged = fix & 1 == 1;
        let content = if forged { with_checksums(content.to_vec()) } else { content.to_vec() };
        std::fs::write(&tried, &content).unwrap();
        match Backup::read(&tried) {
            Ok(read) => {
                assert!(
                    forged || read.entries == made.entries && read.revision == made.revision,
                    "nobody wrote this"
                );
                "ok".into()
            }
            Err(error) => error.to_string().replace(&tried.display().to_string(), ""),
        }
    });
}

#[test]
fn stored_value() {
    let catalog = Arc::new(Catalog::builtin());
    let keys = ["/registry/pods/default/a", "/registry/secrets/default/a", "/registry/leases/default/a"];
    let seeds: Vec<String> = [samples::POD, samples::SECRET, samples::LEASE]
        .iter()
        .enumerate()
        .flat_map(|(index, text)| {
            let (_, value) = samples::canonical(&catalog, text);
            [format!("{index}{text}"), format!("{index}{}", String::from_utf8(json::to_vec(&value)).unwrap())]
        })
        .collect();
    let table = Table::new(catalog.clone(), Env::simulated(1));
    let growth = [
        fuzz::Growth::new("1", "{\"kind\":", "", 5000),
        fuzz::Growth::new("1{", "\"k{i}\":1,", "\"kind\":\"Secret\"}", 10_000),
        fuzz::Growth::new(
            "1{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{",
            "\"k{i}\":\"v\",",
            "\"z\":\"\"}}}",
            10_000,
        ),
    ];
    Fuzz::new("stored_value")
        .seeds(seeds)
        .tokens(samples::WORDS)
        .allocates(256 << 10, 200)
        .holds_state()
        .grows(&growth)
        .inputs(2000)
        .run(|input| {
            let Some((first, value)) = input.split_first() else { return "empty" };
            let key = keys[usize::from(*first) % keys.len()];
            let entry = Entry {
                key: key.into(),
                value: value.to_vec().into(),
                revision: Revision(7),
                expires_at: None,
            };
            table.reset(Revision(8), vec![]);
            table.reset(Revision(9), vec![entry]);
            let storage = catalog.storage_of_key(key).unwrap();
            match table.get(storage.id, key) {
                Some(object) => {
                    let read = match json::parse(object.body(), None) {
                        // Numbers are passed on as they stand.
                        Err(error) if error.to_string().contains("into Go value of type float64") => {
                            return "number";
                        }
                        read => read,
                    };
                    let read = read.unwrap_or_else(|error| {
                        panic!("served, but no JSON: {error}: {}", String::from_utf8_lossy(object.body()))
                    });
                    assert_eq!(read.str_at(&["metadata", "resourceVersion"]), Some("7"));
                    assert_eq!(read.str_at(&["kind"]), Some(&*storage.kind));
                    let _ = (
                        object.uid(),
                        object.label("app"),
                        object.field(0),
                        object.deleting(),
                        object.owners(),
                    );
                    object.at_revision(storage, Revision(8));
                    "ok"
                }
                None => {
                    assert!(table.unreadable_at(key).is_some(), "an unreadable value is reported");
                    "unreadable"
                }
            }
        });
}
