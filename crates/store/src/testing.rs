//! For tests and tools: a plain [`MapState`], and the suite that every engine must pass.
//!
//! ```
//! # use std::sync::Arc;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! store::testing::contract_suite(
//!     |state| Box::pin(async move { store::MemoryEngine::open(state) }),
//!     "/registry/test",
//! )
//! .await;
//! # });
//! ```

mod map_state;
mod rng;
mod suite;

pub use map_state::MapState;
pub use rng::Rng;
pub use suite::{contract_suite, reopen_suite};
