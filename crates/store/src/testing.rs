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
mod reload;
mod rng;
mod suite;

pub use map_state::MapState;
pub use reload::reload_suite;
pub use rng::Rng;
pub use suite::{contract_suite, reopen_suite};

use crate::{Durable, DurableError, Entry, Revision, State};

/// Everything a durable layer holds, its last changes applied, and its revision.
pub fn load_whole(durable: &mut dyn Durable) -> Result<(Revision, Vec<Entry>), DurableError> {
    let state = MapState::default();
    let mut reload = state.reload();
    let loaded = durable.load(&mut |entry| reload.add(entry))?;
    reload.finish(loaded.before_changes());
    state.publish(loaded.changes, loaded.revision);
    assert_eq!(state.contract_violations(), Vec::<String>::new());
    Ok((loaded.revision, state.entries("")))
}
