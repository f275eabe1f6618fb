//! The memory engine keeps the contract.

use store::MemoryEngine;
use store::testing::contract_suite;

#[tokio::test]
async fn memory_engine_passes_the_contract_suite() {
    contract_suite(|state| Box::pin(async move { MemoryEngine::open(state) }), "/registry/memory").await;
}

#[tokio::test(start_paused = true)]
async fn memory_engine_passes_the_contract_suite_in_virtual_time() {
    contract_suite(|state| Box::pin(async move { MemoryEngine::open(state) }), "/registry/virtual").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_engine_passes_the_contract_suite_on_threads() {
    contract_suite(|state| Box::pin(async move { MemoryEngine::open(state) }), "/registry/threads").await;
}
