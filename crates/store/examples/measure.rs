//! Measures the disk engine: `measure DIR [MEGABYTES [SNAPSHOT_LOG_BYTES]]`. Numbers in docs/adr/0003-disk-log.md come from here.

// A measuring program reads the machine's clock.
#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::{
    Change, Commit, DiskEngine, DiskOptions, Engine, Entry, Guard, Key, Op, Reload, Revision, State,
};

const VALUE: usize = 1200;

/// What a real state costs besides is not ours to measure: this one keeps no log and checks nothing.
struct Plain(parking_lot::RwLock<Values>);

type Values = std::collections::HashMap<Key, (Revision, Bytes)>;

struct PlainReload<'a> {
    state: &'a Plain,
    values: Values,
}

impl Reload for PlainReload<'_> {
    fn add(&mut self, entry: Entry) {
        self.values.insert(entry.key, (entry.revision, entry.value));
    }
    fn finish(self: Box<Self>, _: Revision) {
        *self.state.0.write() = self.values;
    }
}

impl State for Plain {
    fn current(&self, key: &str) -> Option<Revision> {
        self.0.read().get(key).map(|(revision, _)| *revision)
    }
    fn reload(&self) -> Box<dyn Reload + '_> {
        Box::new(PlainReload { state: self, values: Values::new() })
    }
    fn publish(&self, changes: Vec<Change>, _: Revision) {
        let mut map = self.0.write();
        for change in changes {
            match change.value {
                Some(value) => map.insert(change.key, (change.revision, value)),
                None => map.remove(&change.key),
            };
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = Path::new(&args[1]);
    let megabytes: usize = args.get(2).and_then(|a| a.parse().ok()).unwrap_or(100);
    let mut options = DiskOptions::default();
    options.snapshot_log_bytes =
        args.get(3).and_then(|a| a.parse().ok()).unwrap_or(options.snapshot_log_bytes);
    let open = || {
        let state = Arc::new(Plain(Default::default()));
        let begun = Instant::now();
        let engine = DiskEngine::open(dir, state.clone(), options.clone()).expect("a usable directory");
        println!("open: {:?}, {} entries", begun.elapsed(), state.0.read().len());
        engine
    };
    let engine = open();
    run("lone writer", &engine, 1, 2_000, "lone").await;
    for callers in [16, 64, 256] {
        run(&format!("{callers} callers"), &engine, callers, 40_000 / callers, &format!("c{callers}")).await;
    }
    let keys = megabytes * 1_000_000 / VALUE;
    println!("-- filling up to {megabytes} MB, then overwriting it: snapshots are written meanwhile");
    run("fill", &engine, 64, keys / 64, "state").await;
    for _ in 0..2 {
        run("overwrite", &engine, 64, keys / 64, "state").await;
    }
    println!("memory: {}", memory());
    engine.close().await;
    drop(engine);
    open().close().await;
}

async fn run(what: &str, engine: &Arc<dyn Engine>, callers: usize, each: usize, prefix: &str) {
    let cpu = cpu_time();
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let (engine, prefix) = (engine.clone(), prefix.to_owned());
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(each);
            for n in 0..each {
                let key: Key = format!("/registry/configmaps/{prefix}/{caller}-{n}").into();
                let value = Bytes::from(vec![b'x'; VALUE]);
                let guards = if prefix == "state" { vec![] } else { vec![(key.clone(), Guard::Absent)] };
                let begun = Instant::now();
                let ops = vec![(key, Op::Put { value, expires_at: None })];
                if let Err(error) = engine.commit(Commit { guards, ops, removal: false }).await {
                    panic!("{error}: measure in an empty directory");
                }
                times.push(begun.elapsed());
            }
            times
        });
    }
    let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    let (took, cpu) = (begun.elapsed(), cpu_time() - cpu);
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{what}: {:.0}/s, cpu {:.1} us each, p50 {:?} p99 {:?} p99.9 {:?} max {:?}",
        times.len() as f64 / took.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / times.len() as f64,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
    );
}

/// User and system time of this process, callers included.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|i| fields.get(*i)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS")).collect::<Vec<_>>().join(" ")
}
