//! What every [`State`] promises of a reload, checked from outside.

use crate::contract::{Entry, Revision, State};

/// `entry` makes the n-th entry in key order, at a revision, with a value that the state can read. The state is a new one.
/// Panics at the first violation.
pub fn reload_suite(state: &dyn State, entry: impl Fn(usize, Revision) -> Entry) {
    let at = |n: usize| state.current(&entry(n, Revision(1)).key).map(|revision| revision.0);
    let all = || [at(0), at(1), at(2), at(3)];
    let add = |entries: &[(usize, u64)]| {
        let mut reload = state.reload();
        entries.iter().for_each(|(n, revision)| reload.add(entry(*n, Revision(*revision))));
        reload
    };
    add(&[(0, 2), (1, 3), (2, 4)]).finish(Revision(5));
    assert_eq!(all(), [Some(2), Some(3), Some(4), None], "the first load");

    let half_way = add(&[(0, 6), (3, 7)]);
    assert_eq!(all(), [Some(2), Some(3), Some(4), None], "nothing shows before the end");
    drop(half_way);
    assert_eq!(all(), [Some(2), Some(3), Some(4), None], "a reload that was dropped");

    add(&[(0, 2), (2, 8), (3, 7)]).finish(Revision(9));
    assert_eq!(all(), [Some(2), None, Some(8), Some(7)], "kept, gone, changed and new");

    add(&[]).finish(Revision(10));
    assert_eq!(all(), [None; 4], "an empty store");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MapState;

    #[test]
    fn a_map_passes_the_reload_suite() {
        let state = MapState::default();
        reload_suite(&state, |n, revision| Entry {
            key: n.to_string().into(),
            value: "1".into(),
            revision,
            expires_at: None,
        });
        assert_eq!((state.reloads(), state.contract_violations()), (3, vec![]));
    }
}
