//! What stands between a verb and its commit: plugins that complete an object, refuse it, or add to its commit.
//!
//! ```text
//! verb ─ mutate (plugins, extensions) ─ reserve ─ strategy ─ validate the object ─ validate (plugins, extensions, quota) ─ guard ─ commit
//!                                                                                                   effects join the commit
//! removal of an object ─ released ─ commit
//! ```
//! A plugin reads the table through its [`Attempt`] and never waits; an [`Extension`] (a policy, a webhook) may. What it wants written together with the
//! object (a quota's new usage, a service's address) it puts into [`Effects`]: guarded, in the same commit, so
//! that it happens exactly when the object does. A guard that no longer holds makes the write start again.

mod always_pull_images;
mod amounts;
mod attempt;
pub mod certificates;
mod chain;
mod default_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod extension;
mod idle;
mod limit_pod_hard_anti_affinity;
mod limit_ranger;
mod list;
mod memo;
mod namespace_lifecycle;
mod node_restriction;
mod observe;
mod owner_references;
mod persistent_volume_claim_resize;
mod pod_resize;
mod pod_security;
mod pod_topology_labels;
mod priority;
mod request;
pub mod resource_quota;
mod runtime_class;
mod service_account;
pub mod service_addresses;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod trace;
mod tree;

pub use attempt::{Attempt, Body, Operation};
pub use chain::{Authorize, BadChoice, Chain, Choice, NOT_BUILT, PluginSettings, plugin_names};
pub use extension::{Extension, Invocations, UnknownFields, Versions};
pub use list::{list_newest, list_readable};
pub use memo::Memo;
pub use observe::{Observer, Phase};
pub use pod_security::{PodSecurityConfiguration, is_unrestricted};
pub use request::{LeaderFence, RequestContext, Seats};
pub use trace::{Mark, Noted, Step, Trace, changes};

use object::{Status, Value};
use store::{Commit, Guard, Key, Op};

/// One thing a cluster insists on. Every method may run more than once for one request: each starts from what
/// the attempt shows and must be idempotent on the object.
pub trait Plugin: Send + Sync {
    /// Upstream's name, as the flags use it.
    fn name(&self) -> &'static str;

    /// Completes or refuses a new object (in the storage version) before its strategy and validation see it.
    fn mutate(&self, _attempt: &Attempt<'_>, _new: &mut Value, effects: &mut Effects) -> Result<(), Refusal> {
        effects.passed_over = true;
        Ok(())
    }

    /// The last word on a write, its object complete and valid; `None` for a deletion.
    fn validate(
        &self,
        _attempt: &Attempt<'_>,
        _new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        effects.passed_over = true;
        Ok(())
    }

    /// What must still hold when the object is committed. Taken last, after everything that may wait.
    fn guard(&self, _attempt: &Attempt<'_>, _effects: &mut Effects) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Gives objects of one kind something that only one object may have, such as an address.
pub trait Allocator: Send + Sync {
    /// After mutation, before the strategy: sets what is missing in `new` and reserves it in `effects`.
    fn reserve(&self, attempt: &Attempt<'_>, new: &mut Value, effects: &mut Effects) -> Result<(), Refusal>;

    /// The object goes away with this commit, and what it held becomes free.
    fn released(&self, attempt: &Attempt<'_>, old: &Value, effects: &mut Effects);
}

/// What a write brings along: it joins the object's commit.
#[derive(Debug, Default)]
pub struct Effects {
    pub guards: Vec<(Key, Guard)>,
    pub ops: Vec<(Key, Op)>,
    pub warnings: Vec<String>,
    /// The plugin asked last has nothing to do with this phase: no use in timing it.
    pub(crate) passed_over: bool,
}

impl Effects {
    /// The commit of an object, with everything that comes along.
    pub fn join(mut self, key: &Key, guard: Guard, op: Op) -> Commit {
        self.guards.insert(0, (key.clone(), guard));
        self.ops.insert(0, (key.clone(), op));
        Commit { guards: self.guards, ops: self.ops, removal: false }
    }

    /// `key` must still be as it was when it was read.
    pub fn unchanged(&mut self, obj: &object::Obj) {
        self.guards.push((obj.key().into(), Guard::At(obj.revision())));
    }

    /// Writes another object with this one, provided that it is still as it was read.
    pub fn replace(&mut self, obj: &object::Obj, value: Vec<u8>) {
        self.unchanged(obj);
        self.ops.push((obj.key().into(), Op::Put { value: value.into(), expires_at: obj.expires_at() }));
    }

    /// Creates another object with this one.
    pub fn create(&mut self, key: Key, value: Vec<u8>) {
        self.guards.push((key.clone(), Guard::Absent));
        self.ops.push((key, Op::Put { value: value.into(), expires_at: None }));
    }

    /// Deletes another object with this one.
    pub fn remove(&mut self, obj: &object::Obj) {
        self.unchanged(obj);
        self.ops.push((obj.key().into(), Op::Delete));
    }
}

/// A plugin's no.
#[derive(Debug)]
pub struct Refusal {
    pub status: Status,
    /// What was missing is about to come (the default service account of a new namespace): the write waits for
    /// it a little while before it is refused.
    pub may_pass_soon: bool,
    /// Said by an extension: nobody asks it again for this request.
    pub is_final: bool,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal { status, may_pass_soon: false, is_final: false }
    }
}
