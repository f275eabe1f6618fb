//! Names shared by all schemas: a thousand definitions have the same few thousand property names.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use catalog::Name;
use parking_lot::Mutex;

/// Guards nothing but itself; held for one lookup or one sweep.
static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Names {
    known: HashSet<Arc<str>>,
    /// When so many are known, those that no schema has any more go.
    sweep_at: usize,
}

const SWEEP_FROM: usize = 4096;

pub(crate) fn intern(text: &str) -> Name {
    let mut names = NAMES.lock();
    if let Some(name) = names.known.get(text) {
        return Name::Shared(name.clone());
    }
    if names.known.len() >= names.sweep_at.max(SWEEP_FROM) {
        names.known.retain(|name| Arc::strong_count(name) > 1);
        names.sweep_at = 2 * names.known.len();
    }
    let name: Arc<str> = text.into();
    names.known.insert(name.clone());
    Name::Shared(name)
}
