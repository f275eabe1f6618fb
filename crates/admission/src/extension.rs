//! What users extend admission by: policies and webhooks. An extension may wait, so nothing of ours is locked or reserved while it
//! is asked; and its word is final: what it refuses is not tried again behind the client's back.
//!
//! ```text
//! mutating    built-in plugins ─ extensions ─ built-in plugins again ─ extensions again, those that want it and only if something changed
//! validating  built-in plugins ─ extensions ─ quota
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::Resource;
use object::{Status, Value};
use store::BoxFuture;

use crate::{Attempt, Effects, Phase};

/// A plugin that asks what users configured.
pub trait Extension: Send + Sync {
    /// Upstream's name, as the flags use it.
    fn name(&self) -> &'static str;

    fn phase(&self) -> Phase;

    /// Whether anything may concern the request, by resource and operation alone. Asked for every write: it must cost next to nothing
    /// where nothing is configured.
    fn concerns(&self, attempt: &Attempt<'_>) -> bool;

    /// What is configured and has no rule about the request: for people who ask why nobody was asked.
    fn unmatched(&self, _attempt: &Attempt<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Changes the object, or refuses it. `new` is `None` for a deletion.
    fn mutate<'a>(
        &'a self,
        _attempt: &'a Attempt<'a>,
        _new: Option<&'a mut Value>,
        _invocations: &'a mut Invocations,
        _effects: &'a mut Effects,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The last word on an object that is complete and valid.
    fn validate<'a>(
        &'a self,
        _attempt: &'a Attempt<'a>,
        _new: Option<&'a Value>,
        _effects: &'a mut Effects,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What one mutating extension did to an object so far: the reinvocation policy IfNeeded decides by it.
#[derive(Debug, Default)]
pub struct Invocations {
    /// The second round: whoever was not called in the first is not called now.
    pub is_reinvocation: bool,
    /// Something changed the object: the built-in plugins and this extension are asked once more.
    pub needs_reinvocation: bool,
    /// The object as the extension left it in the first round.
    last_output: Option<Value>,
    invoked: BTreeSet<String>,
    due: BTreeSet<String>,
}

impl Invocations {
    /// Is this webhook or policy to be called in this round?
    pub fn is_due(&self, id: &str) -> bool {
        !self.is_reinvocation || self.due.contains(id)
    }

    /// One that is called again if another changes the object after it.
    pub fn add_reinvocable(&mut self, id: &str) {
        self.invoked.insert(id.to_owned());
    }

    /// The object was changed: those before are due again.
    pub fn object_changed(&mut self) {
        self.needs_reinvocation = true;
        self.due.append(&mut self.invoked);
    }

    /// The second round begins: what others changed since the end of the first counts too.
    pub(crate) fn begin_reinvocation(&mut self, new: Option<&Value>) {
        self.is_reinvocation = true;
        if self.last_output.as_ref() != new {
            self.due.append(&mut self.invoked);
        }
    }
}

/// What becomes of fields that a type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    Dropped,
    Refused,
}

/// Objects in other versions than the one admission has at hand, for those who asked for another.
pub trait Versions: Send + Sync {
    /// The object as `resource` serves it.
    fn to_version<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Status>>;

    /// Decodes an object of `resource` that somebody outside changed: canonical, with defaults. Fields its type does not have are
    /// dropped or refused.
    fn decode<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        object: Value,
        unknown: UnknownFields,
    ) -> BoxFuture<'a, Result<Value, Status>>;

    /// The object of `resource` as admission has it.
    #[allow(clippy::wrong_self_convention)] // The pair of `to_version`; `self` is who converts.
    fn from_version<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        object: Value,
    ) -> BoxFuture<'a, Result<Value, Status>>;
}

/// Nothing is converted: for those who have one version only.
impl Versions for () {
    fn to_version<'a>(
        &'a self,
        _: &'a Attempt<'a>,
        _: &'a Arc<Resource>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(std::future::ready(Ok(object.clone())))
    }

    fn decode<'a>(
        &'a self,
        _: &'a Attempt<'a>,
        _: &'a Arc<Resource>,
        object: Value,
        _: UnknownFields,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(std::future::ready(Ok(object)))
    }

    fn from_version<'a>(
        &'a self,
        _: &'a Attempt<'a>,
        _: &'a Arc<Resource>,
        object: Value,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(std::future::ready(Ok(object)))
    }
}

impl Invocations {
    /// The extension is done with the first round.
    pub(crate) fn ended(&mut self, new: Option<&Value>) {
        // Only who could be called again needs to know what it left.
        if !self.invoked.is_empty() || !self.due.is_empty() {
            self.last_output = new.cloned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reinvocable_one_is_due_again_once_the_object_changed_after_it() {
        let object = Value::from("a");
        let mut invocations = Invocations::default();
        assert!(invocations.is_due("first") && invocations.is_due("second"));
        invocations.add_reinvocable("first");
        invocations.object_changed();
        invocations.add_reinvocable("second");
        invocations.ended(Some(&object));
        invocations.begin_reinvocation(Some(&object));
        assert!(invocations.is_due("first"));
        assert!(!invocations.is_due("second") && !invocations.is_due("never called"));
    }

    #[test]
    fn what_others_changed_between_the_rounds_counts() {
        let mut invocations = Invocations::default();
        invocations.add_reinvocable("one");
        invocations.ended(Some(&Value::from("a")));
        invocations.begin_reinvocation(Some(&Value::from("b")));
        assert!(invocations.is_due("one"));
    }
}
