//! The disk engine keeps the contract, and its data.

use std::path::PathBuf;
use std::sync::Arc;

use store::testing::{MapState, contract_suite, reopen_suite};
use store::{BoxFuture, DiskEngine, DiskOptions, Engine};

fn open_in(
    dir: PathBuf,
    options: DiskOptions,
) -> impl Fn(Arc<MapState>) -> BoxFuture<'static, Arc<dyn Engine>> {
    move |state| {
        let (dir, options) = (dir.clone(), options.clone());
        Box::pin(async move { DiskEngine::open(&dir, state, options).unwrap() })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_engine_passes_the_contract_suite() {
    let dir = tempfile::tempdir().unwrap();
    contract_suite(open_in(dir.path().join("data"), DiskOptions::default()), "/registry/disk").await;
    reopen_suite(open_in(dir.path().join("data"), DiskOptions::default()), "/registry/again").await;
}

#[tokio::test]
async fn disk_engine_passes_the_contract_suite_with_a_snapshot_after_every_few_commits() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions { snapshot_log_bytes: 500, ..DiskOptions::default() };
    contract_suite(open_in(dir.path().join("data"), options.clone()), "/registry/disk").await;
    reopen_suite(open_in(dir.path().join("data"), options), "/registry/again").await;
}

#[tokio::test]
async fn disk_engine_passes_the_contract_suite_without_waiting_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions { snapshot_log_bytes: 2000, sync: false, ..DiskOptions::default() };
    contract_suite(open_in(dir.path().join("data"), options.clone()), "/registry/disk").await;
    reopen_suite(open_in(dir.path().join("data"), options), "/registry/again").await;
}
