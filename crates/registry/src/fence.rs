//! Writes of a leader: each is guarded by its lease, so that no write of a deposed leader is committed.
//!
//! ```text
//! commit = what the request changes ── guarded by what was read
//!                                   └─ and, behind a fence, by the lease at the revision that names its holder
//! ```
//! A leader that was stopped for a while (by the kernel, by a debugger) does not know yet that another took over; by its own clock
//! it may even have time left. The store knows.

use admission::LeaderFence;
use catalog::Catalog;
use codec::json;
use object::{Status, Value};
use store::{Commit, Guard, Revision};

use crate::{Registry, RequestContext};

const GROUP: &str = "coordination.k8s.io";

impl Registry {
    /// Guards a commit by the request's fence, if it has one; refused where the lease is another's already. A renewal that comes
    /// between the two is a conflict like any other: the caller looks again.
    pub(crate) fn guard_by_fence(
        &self,
        request: &RequestContext<'_>,
        commit: &mut Commit,
    ) -> Result<(), Status> {
        let Some(fence) = request.fence else { return Ok(()) };
        match self.lease_of(request.catalog, fence) {
            Ok((key, revision)) => {
                commit.guards.push((key.into(), Guard::At(revision)));
                Ok(())
            }
            Err(over) => Err(Status::conflict(request.about(), request.name, &over)),
        }
    }

    /// For a write that ends in another store: whether the term goes on, now. Nothing guards what happens until the write is done.
    pub fn check_fence(&self, fence: &LeaderFence) -> Result<(), Status> {
        match self.lease_of(&self.catalog(), fence) {
            Ok(_) => Ok(()),
            Err(over) => Err(Status { code: 409, reason: "Conflict", ..Status::unknown(over) }),
        }
    }

    /// The key of the lease and the revision at which it names the holder; the error says that the term is over.
    fn lease_of(&self, catalog: &Catalog, fence: &LeaderFence) -> Result<(String, Revision), String> {
        let over = |who: &str| {
            let LeaderFence { namespace, lease, holder } = fence;
            Err(format!("the term of {holder:?} is over: lease {namespace}/{lease} is held by {who}"))
        };
        let Some(storage) = catalog.find_storage(GROUP, "leases") else { return over("nobody") };
        let key = storage.key(&fence.namespace, &fence.lease);
        let Some(lease) = self.table().get(storage.id, &key) else { return over("nobody") };
        let tree = json::parse(lease.body(), None).unwrap_or(Value::Null);
        match tree.str_at(&["spec", "holderIdentity"]) {
            Some(holder) if holder == fence.holder => Ok((key, lease.revision())),
            other => over(&other.map_or("nobody".to_owned(), |other| format!("{other:?}"))),
        }
    }
}
