//! What becomes of a history: which revision an owner is at, and which ones nobody needs.

use super::Revision;

/// How a history comes to hold what its owner wants now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The newest, at this place, is it.
    Keep {
        at: usize,
    },
    /// The one at this place is it, and becomes the newest: a rollback.
    Renumber {
        at: usize,
        number: i64,
    },
    Create {
        number: i64,
    },
}

/// `revisions` are sorted; `means_the_same`: the newest differs in its bytes alone.
pub(crate) fn change(
    revisions: &[Revision],
    data: &[u8],
    means_the_same: impl FnOnce(&Revision) -> bool,
) -> Change {
    let Some(newest) = revisions.last() else { return Change::Create { number: 1 } };
    let (last, number) = (revisions.len() - 1, newest.number().saturating_add(1));
    match revisions.iter().rposition(|revision| revision.data() == data) {
        Some(at) if at == last => Change::Keep { at },
        Some(at) => Change::Renumber { at, number },
        None if means_the_same(newest) => Change::Keep { at: last },
        None => Change::Create { number },
    }
}

/// Those beyond the limit, oldest first. What lives does not count against it; a negative limit means no limit.
pub(crate) fn surplus(revisions: &[Revision], limit: i64, lives: impl Fn(&str) -> bool) -> Vec<&Revision> {
    let mut old: Vec<&Revision> = revisions.iter().filter(|revision| !lives(revision.name())).collect();
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    old.truncate(old.len().saturating_sub(limit));
    old
}
