//! Adoption and release: an owner takes orphans its selector matches, and lets go of what it no longer matches.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use client::{Client, Gvr, Patch};
use object::selector::LabelSelector;
use object::{Map, Value};
use runtime::Failure;
use runtime::owners::{self, Verdict, verdict};
use table::Obj;

/// Who claims, and what.
pub(crate) struct Claim<'a> {
    pub client: &'a dyn Client,
    pub owner: &'a Obj,
    pub owner_resource: Gvr,
    pub api_version: &'static str,
    pub kind: &'static str,
    pub selector: &'a LabelSelector,
    /// What is claimed, and what one of it is called.
    pub resource: Gvr,
    pub called: &'static str,
}

pub(crate) fn matches(selector: &LabelSelector, obj: &Obj) -> bool {
    selector.matches(&|name| obj.label(name))
}

impl Claim<'_> {
    /// The owner's own among the candidates, after adoptions and releases; all are tried before the first failure is told.
    pub(crate) async fn claim(&self, candidates: Vec<Arc<Obj>>) -> Result<Vec<Arc<Obj>>, Failure> {
        let (mut ours, mut failed) = (Vec::with_capacity(candidates.len()), None);
        // Asked of the server before the first adoption, and once: the owner may be going without our knowing.
        let mut may_adopt: Option<Result<(), String>> = None;
        for obj in candidates {
            let done = match verdict(self.owner, &obj, matches(self.selector, &obj)) {
                Verdict::Ours => Ok(true),
                Verdict::NotOurs => Ok(false),
                Verdict::Release => self.release(&obj).await.map(|()| false),
                Verdict::Adopt => {
                    if may_adopt.is_none() {
                        may_adopt = Some(self.recheck().await);
                    }
                    match &may_adopt {
                        Some(Err(why)) => Err(self.cannot_adopt(&obj, why)),
                        _ => self.adopt(&obj).await,
                    }
                }
            };
            match done {
                Ok(true) => ours.push(obj),
                Ok(false) => {}
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        failed.map_or(Ok(ours), Err)
    }

    async fn recheck(&self) -> Result<(), String> {
        let owner = self.owner;
        let (namespace, name) = (owner.namespace(), owner.name());
        let fresh = self.client.get(self.owner_resource.of(owner)).await;
        let fresh = fresh.map_err(|status| format!("can't recheck DeletionTimestamp: {}", status.message))?;
        if fresh.uid() != owner.uid() {
            return Err(format!(
                "can't recheck DeletionTimestamp: original {} {namespace}/{name} is gone: got uid {}, wanted {}",
                self.kind,
                fresh.uid(),
                owner.uid()
            ));
        }
        if fresh.deleting() {
            return Err(format!("{namespace}/{name} has just been deleted"));
        }
        Ok(())
    }

    fn cannot_adopt(&self, obj: &Obj, why: &str) -> Failure {
        let Claim { called, .. } = self;
        Failure::Other(format!(
            "can't adopt {called} {}/{} ({}): {why}",
            obj.namespace(),
            obj.name(),
            obj.uid()
        ))
    }

    /// `false`: it is gone.
    async fn adopt(&self, obj: &Obj) -> Result<bool, Failure> {
        let reference = owners::controller_ref(self.api_version, self.kind, self.owner);
        match self.client.patch(self.resource.of(obj), owners_patch(obj, reference)).await {
            Ok(_) => Ok(true),
            Err(status) if status.code == 404 => Ok(false),
            Err(status) => Err(status.into()),
        }
    }

    async fn release(&self, obj: &Obj) -> Result<(), Failure> {
        let mut reference = Map::default();
        reference.set("$patch", "delete");
        reference.set("uid", self.owner.uid().to_owned());
        match self.client.patch(self.resource.of(obj), owners_patch(obj, Value::Map(reference))).await {
            Ok(_) => Ok(()),
            // Gone, or another of the same name: nothing is left to let go of.
            Err(status) if status.code == 404 || status.code == 422 => Ok(()),
            Err(status) => Err(status.into()),
        }
    }
}

/// A change of the owners of this very object: the uid refuses another of the same name.
fn owners_patch(obj: &Obj, reference: Value) -> Patch {
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", obj.uid().to_owned());
    metadata.set("ownerReferences", Value::List(vec![reference]));
    Patch::Strategic(patch)
}
