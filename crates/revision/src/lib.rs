//! [`Revision`], the one word that the store and the API share: a crate of its own, so that the store knows nothing of Kubernetes and
//! clients nothing of the store.

/// A point in the one ordered log; grows by one with every commit, also across restarts. As text it is a `resourceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
