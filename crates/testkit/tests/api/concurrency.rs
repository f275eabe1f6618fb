//! Two writers never both win: successes equal increments, in memory and on disk.

use std::path::Path;
use std::sync::Arc;

use catalog::Catalog;
use env::Env;
use serde_json::json;
use store::{DiskEngine, DiskOptions};
use table::Table;
use tempfile::TempDir;
use testkit::TestCluster;

const MAP: &str = "/api/v1/namespaces/default/configmaps/counter";
const TASKS: usize = 8;
const TRIES: usize = 60;

async fn counted_to(cluster: &TestCluster) -> u64 {
    cluster.get(MAP).await.ok(200)["data"]["n"].as_str().unwrap().parse().unwrap()
}

/// A cluster on one of the engines of this process; the third, etcd, has its own in `setpoint`'s tests.
struct World {
    cluster: Arc<TestCluster>,
    /// Of the engine on disk.
    folder: Option<TempDir>,
}

impl World {
    async fn each() -> [World; 2] {
        let folder = TempDir::new().expect("a folder");
        let on_disk = Arc::new(on_disk(folder.path()).await);
        let in_memory = Arc::new(TestCluster::start().await);
        let worlds =
            [World { cluster: in_memory, folder: None }, World { cluster: on_disk, folder: Some(folder) }];
        for world in &worlds {
            with_counter(&world.cluster).await;
        }
        worlds
    }

    /// What was counted, once more after the server came back from what it stored.
    async fn counted_after_restart(self) -> u64 {
        let counted = counted_to(&self.cluster).await;
        let Some(folder) = self.folder else { return counted };
        let cluster = Arc::try_unwrap(self.cluster).unwrap_or_else(|_| panic!("a writer is still at work"));
        cluster.shutdown().await;
        let again = on_disk(folder.path()).await;
        assert_eq!(counted_to(&again).await, counted, "what was acknowledged is on disk");
        again.shutdown().await;
        counted
    }
}

pub async fn on_disk(folder: &Path) -> TestCluster {
    let env = Env::machine();
    TestCluster::with(env.clone(), |config| {
        config.table = Table::new(Arc::new(Catalog::builtin()), env);
        config.engine =
            DiskEngine::open(folder, config.table.clone(), DiskOptions::default()).expect("a store");
    })
    .await
}

async fn with_counter(cluster: &TestCluster) {
    let body = json!({"metadata": {"name": "counter"}, "data": {"n": "0"}});
    cluster.post("/api/v1/namespaces/default/configmaps", body).await.ok(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successful_puts_equal_increments() {
    for world in World::each().await {
        successful_puts(world).await;
    }
}

async fn successful_puts(world: World) {
    let cluster = world.cluster.clone();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let cluster = cluster.clone();
            cluster.env().clone().spawn("incrementer", async move {
                let (mut won, mut lost) = (0u64, 0u64);
                for _ in 0..TRIES {
                    let mut map = cluster.get(MAP).await.ok(200);
                    let n: u64 = map["data"]["n"].as_str().unwrap().parse().unwrap();
                    map["data"]["n"] = json!((n + 1).to_string());
                    // Others may get in between, whatever the runtime does.
                    tokio::task::yield_now().await;
                    match cluster.put(MAP, map).await.status {
                        200 => won += 1,
                        409 => lost += 1,
                        other => panic!("{other}"),
                    }
                }
                (won, lost)
            })
        })
        .collect();
    let (mut won, mut lost) = (0, 0);
    for task in tasks {
        let (w, l) = task.await.unwrap();
        won += w;
        lost += l;
    }
    drop(cluster);
    assert_eq!(world.counted_after_restart().await, won);
    assert!(won > 0 && lost > 0, "won {won}, lost {lost}: the writers never met");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successful_json_patches_equal_increments() {
    for world in World::each().await {
        successful_json_patches(world).await;
    }
}

async fn successful_json_patches(world: World) {
    let cluster = world.cluster.clone();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let cluster = cluster.clone();
            cluster.env().clone().spawn("incrementer", async move {
                let mut won = 0u64;
                for _ in 0..TRIES {
                    let n = counted_to(&cluster).await;
                    tokio::task::yield_now().await;
                    let patch = json!([
                        {"op": "test", "path": "/data/n", "value": n.to_string()},
                        {"op": "replace", "path": "/data/n", "value": (n + 1).to_string()},
                    ]);
                    let ask =
                        cluster.request("PATCH", MAP).typed("application/json-patch+json", patch.to_string());
                    match ask.send().await.status {
                        200 => won += 1,
                        422 => {}
                        other => panic!("{other}"),
                    }
                }
                won
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += task.await.unwrap();
    }
    drop(cluster);
    assert_eq!(world.counted_after_restart().await, won);
}

/// Patches without a version are applied again to what won: none is lost, none is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blind_patches_all_count() {
    for world in World::each().await {
        blind_patches(&world.cluster).await;
    }
}

async fn blind_patches(cluster: &Arc<TestCluster>) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let cluster = cluster.clone();
            cluster.env().clone().spawn("patcher", async move {
                for n in 0..TRIES {
                    cluster.merge(MAP, json!({"data": {format!("k{task}-{n}"): "1"}})).await.ok(200);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let map = cluster.get(MAP).await.ok(200);
    assert_eq!(map["data"].as_object().unwrap().len(), TASKS * TRIES + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_creators_wins() {
    for world in World::each().await {
        one_of_many_creators(&world.cluster).await;
    }
}

async fn one_of_many_creators(cluster: &Arc<TestCluster>) {
    for round in 0..20 {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let cluster = cluster.clone();
                cluster.env().clone().spawn("creator", async move {
                    let body = json!({"metadata": {"name": format!("one-{round}")}});
                    cluster.post("/api/v1/namespaces/default/configmaps", body).await.status
                })
            })
            .collect();
        let mut statuses = Vec::new();
        for task in tasks {
            statuses.push(task.await.unwrap());
        }
        statuses.sort_unstable();
        assert_eq!(statuses[0], 201);
        assert!(statuses[1..].iter().all(|s| *s == 409), "{statuses:?}");
    }
}
