//! Watches while history goes away under them: the store folds its log, the table forgets, readers are slow.
//!
//! ```text
//!  4 writers ──> disk store (a snapshot every 32 KiB) ──> table (48 KiB of history) ──> 6 watchers
//!                                                           │ floor                       half of them wait until the
//!                                                           └── compacted now and then     floor has passed them
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use catalog::StorageId;
use env::Env;
use serde_json::{Value, json};
use store::{DiskEngine, DiskOptions, Revision};
use table::Table;
use testkit::{Stream, TestCluster};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: u64 = 4;
const WRITES: u64 = 200;
const WATCHERS: u64 = 6;
const HISTORY_BYTES: usize = 48 << 10;

/// Type, name and version of an event.
type Event = (String, String, u64);
/// Versions by name, as a client's cache holds them.
type Cache = BTreeMap<String, u64>;

fn told(event: &Value) -> Event {
    let metadata = &event["object"]["metadata"];
    let version = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
    (event["type"].as_str().unwrap().into(), metadata["name"].as_str().unwrap().into(), version)
}

/// What one watcher saw without a break.
#[derive(Default)]
struct Stretch {
    after: u64,
    events: Vec<Event>,
}

#[derive(Default)]
struct Seen {
    cache: Cache,
    stretches: Vec<Stretch>,
    /// How often it was told 410, and listed anew.
    expired: usize,
    /// How often it left and came back without a loss.
    resumed: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_stay_ordered_unique_and_complete_while_history_is_compacted() {
    let seed: u64 = 27;
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let env = Env::machine();
    let cluster = TestCluster::bare(env.clone(), |config| {
        config.table = Table::with_history_bytes(config.table.catalog(), env.clone(), HISTORY_BYTES);
        let options = DiskOptions { snapshot_log_bytes: 32 << 10, ..DiskOptions::default() };
        config.engine = DiskEngine::open(dir.path(), config.table.clone(), options).unwrap();
    })
    .await;
    let cluster = Arc::new(cluster);
    let table = cluster.api().registry().table().clone();
    let start = table.revision();
    let done = Arc::new(AtomicBool::new(false));

    let watchers: Vec<_> = (0..WATCHERS)
        .map(|w| {
            env.spawn(
                "watcher",
                watch(cluster.clone(), Env::simulated(seed * 1000 + w), w % 2 == 1, done.clone()),
            )
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|w| env.spawn("writer", write(cluster.clone(), Env::simulated(seed + w), w)))
        .collect();
    let mut acknowledged: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for writer in writers {
        for (kind, name, version) in writer.await.unwrap() {
            assert_eq!(acknowledged.insert(version, (kind, name)), None, "revision {version} given twice");
        }
    }
    let (_, wanted) = list(&cluster).await;
    done.store(true, Ordering::Release);
    cluster.post(MAPS, json!({"metadata": {"name": "end"}})).await.ok(201);

    // Compaction was there all the time, in the store and in the table.
    let floor = table.floor(config_maps(&table));
    assert!(floor.0 > start.0 + WRITES, "the floor went from {start} to {floor}");
    // A snapshot is written aside; one that was begun last may still be under way.
    for _ in 0..10_000 {
        if newest_snapshot(dir.path()) > start.0 {
            break;
        }
        env.sleep(Duration::from_millis(1)).await;
    }
    let newest = newest_snapshot(dir.path());
    assert!(newest > start.0, "the last snapshot is of revision {newest}, writes began after {start}");

    let mut seen = Vec::new();
    for watcher in watchers {
        seen.push(watcher.await.unwrap());
    }
    // What anybody was told is what happened: together with what writers know, it leaves out nothing.
    let mut happened = acknowledged;
    for (kind, name, version) in seen.iter().flat_map(|s| &s.stretches).flat_map(|s| &s.events) {
        let same = happened.entry(*version).or_insert_with(|| (kind.clone(), name.clone()));
        assert_eq!(*same, (kind.clone(), name.clone()), "two stories of revision {version}");
    }
    for (w, seen) in seen.iter().enumerate() {
        assert_eq!(seen.cache, wanted, "watcher {w} ends with what a list says");
        for Stretch { after, events } in &seen.stretches {
            let Some((_, _, last)) = events.last() else { continue };
            let versions: Vec<u64> = events.iter().map(|e| e.2).collect();
            let complete: Vec<u64> = happened.range(after + 1..=*last).map(|(version, _)| *version).collect();
            assert_eq!(
                versions, complete,
                "watcher {w} after {after}: all, in order, each once (seed {seed})"
            );
        }
        let events: usize = seen.stretches.iter().map(|s| s.events.len()).sum();
        println!("watcher {w}: {events} events, {} times 410, {} times resumed", seen.expired, seen.resumed);
    }
    assert!(seen.iter().skip(1).step_by(2).all(|s| s.expired > 0), "slow readers were overtaken");
    assert!(seen.iter().map(|s| s.resumed).sum::<usize>() > 0, "somebody came back in time");
    Arc::into_inner(cluster).expect("all tasks have ended").shutdown().await;
}

fn newest_snapshot(dir: &Path) -> u64 {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter_map(|n| n.strip_prefix("snapshot-")?.parse().ok()).max().unwrap_or(0)
}

/// Makes, changes and deletes a few objects; now and then compacts by hand, as the server does by the clock. What was
/// acknowledged with a version.
async fn write(cluster: Arc<TestCluster>, random: Env, writer: u64) -> Vec<Event> {
    let registry = cluster.api().registry();
    let mut acknowledged = Vec::new();
    for n in 0..WRITES {
        let name = format!("k{}", random.random_below(20));
        let path = format!("{MAPS}/{name}");
        let data = json!({"n": format!("{writer}-{n}"), "fill": "x".repeat(400)});
        let (kind, reply) = match random.random_below(4) {
            0 => ("DELETED", cluster.delete(path).await),
            1 => ("ADDED", cluster.post(MAPS, json!({"metadata": {"name": name}, "data": data})).await),
            _ => ("MODIFIED", cluster.merge(path, json!({"data": data})).await),
        };
        match reply.status {
            // The answer to a deletion carries no version.
            200 if kind == "DELETED" => {}
            200 | 201 => acknowledged.push((kind.into(), name, reply.version().parse().unwrap())),
            404 | 409 => {}
            other => panic!("{other}: {}", reply.text()),
        }
        if n % 50 == 49 {
            let upto = Revision(registry.table().revision().0 - 5);
            registry.engine().compact(upto).await.unwrap();
            registry.table().compact(upto);
        }
    }
    acknowledged
}

async fn list(cluster: &TestCluster) -> (u64, Cache) {
    let list = cluster.get(MAPS).await;
    let version = |o: &Value| o["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let json = list.json();
    let items = json["items"].as_array().unwrap().iter();
    let cache = items.map(|o| (o["metadata"]["name"].as_str().unwrap().to_owned(), version(o))).collect();
    (list.version().parse().unwrap(), cache)
}

async fn open(cluster: &TestCluster, from: u64) -> Stream {
    cluster.watch(format!("{MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=600")).await
}

/// Lists and watches as a client does, leaves and comes back, until it sees the object `end`.
async fn watch(cluster: Arc<TestCluster>, random: Env, slow: bool, done: Arc<AtomicBool>) -> Seen {
    let table = cluster.api().registry().table().clone();
    let mut seen = Seen::default();
    let (mut at, cache) = list(&cluster).await;
    seen.cache = cache;
    seen.stretches.push(Stretch { after: at, ..Default::default() });
    let mut held: Option<Stream> = None;
    loop {
        let mut came_back = held.is_none();
        let mut stream = match held.take() {
            Some(stream) => stream,
            None => open(&cluster, at).await,
        };
        let mut ended = false;
        for _ in 0..1 + random.random_below(40) {
            let event = stream.next().await.expect("it goes on until the end is told");
            if event["type"] == "ERROR" {
                assert_eq!(event["object"]["code"], 410, "{event}");
                seen.expired += 1;
                (at, seen.cache) = list(&cluster).await;
                if seen.cache.remove("end").is_some() {
                    return seen;
                }
                seen.stretches.push(Stretch { after: at, ..Default::default() });
                ended = true;
                break;
            }
            if std::mem::take(&mut came_back) && seen.stretches.last().is_some_and(|s| !s.events.is_empty()) {
                seen.resumed += 1;
            }
            let (kind, name, version) = told(&event);
            assert!(version > at, "{version} after {at}: {event}");
            at = version;
            if name == "end" {
                return seen;
            }
            apply(&mut seen.cache, &kind, &name, version);
            seen.stretches.last_mut().expect("one was begun").events.push((kind, name, version));
        }
        // Reads on when what it has not read yet is gone; meanwhile it has left, or stays on the line.
        if slow {
            held = (!ended && random.random_below(2) == 0).then_some(stream);
            while table.floor(config_maps(&table)).0 <= at && !done.load(Ordering::Acquire) {
                cluster.env().sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

fn config_maps(table: &Table) -> StorageId {
    table.catalog().find_storage("", "configmaps").unwrap().id
}

fn apply(cache: &mut Cache, kind: &str, name: &str, version: u64) {
    let old = match kind {
        "DELETED" => cache.remove(name),
        _ => cache.insert(name.to_owned(), version),
    };
    let fits = match kind {
        "ADDED" => old.is_none(),
        _ => old.is_some_and(|old| old < version),
    };
    assert!(fits, "{kind} {name} {version} after {old:?}");
}
