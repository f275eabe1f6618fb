//! Adoption and release: which of the objects a selector might mean belong to an owner, as upstream decides it.
//!
//! ```text
//! candidate has a controller? ── another ──────────────────────────────> not ours
//!        │                   └── this owner ── matches ────────────────> ours
//!        │                                 └── does not ── owner lives ──> release
//!        └── none ── matches, neither is being deleted, same namespace ──> adopt
//! ```

use std::sync::Arc;

use client::{Client, Gvr, Patch, WriteOptions};
use object::{Map, Obj, Status, Value};

use super::{controller_of, controller_ref};

/// What becomes of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ours,
    Adopt,
    Release,
    NotOurs,
}

/// Who claims.
#[derive(Clone, Copy)]
pub struct Claimant<'a> {
    pub resource: &'a Gvr,
    pub api_version: &'a str,
    pub kind: &'a str,
    pub owner: &'a Obj,
    /// Put on what is adopted and taken off what is released; a Job's tracking finalizer.
    pub finalizer: Option<&'a str>,
}

/// Decides over one candidate; `matches`: the owner's selector means it.
pub fn verdict(owner: &Obj, candidate: &Obj, matches: bool) -> Verdict {
    match controller_of(candidate) {
        Some(controller) if controller.uid != owner.uid() => Verdict::NotOurs,
        // Also of an owner that is going: it still has to know what it had.
        Some(_) if matches => Verdict::Ours,
        Some(_) if owner.deleting() => Verdict::NotOurs,
        Some(_) => Verdict::Release,
        None if !matches || owner.deleting() || candidate.deleting() => Verdict::NotOurs,
        None if !owner.namespace().is_empty() && owner.namespace() != candidate.namespace() => {
            Verdict::NotOurs
        }
        None => Verdict::Adopt,
    }
}

/// Decides over all candidates, in their order.
pub fn decide(
    owner: &Obj,
    candidates: impl IntoIterator<Item = Arc<Obj>>,
    matches: impl Fn(&Obj) -> bool,
) -> Vec<(Arc<Obj>, Verdict)> {
    let decided = candidates.into_iter().map(|candidate| {
        let verdict = verdict(owner, &candidate, matches(&candidate));
        (candidate, verdict)
    });
    decided.collect()
}

/// Carries a decision out and tells what the owner has now, in the candidates' order, as it is after adoption.
/// Every candidate is tried; then the first failure counts. `wrote` hears of every write, whatever fails after it.
pub async fn apply(
    client: &dyn Client,
    claimant: &Claimant<'_>,
    resource: &Gvr,
    decided: Vec<(Arc<Obj>, Verdict)>,
    wrote: &mut (dyn FnMut(Verdict, &Obj) + Send),
) -> Result<Vec<Arc<Obj>>, Status> {
    let (mut ours, mut failed) = (Vec::new(), None);
    // The owner is read again at most once, and only if something is to be adopted.
    let mut may_adopt: Option<Result<(), Status>> = None;
    for (candidate, verdict) in decided {
        match verdict {
            Verdict::Ours => ours.push(candidate),
            Verdict::NotOurs => {}
            Verdict::Release => {
                let patch = release_patch(claimant, &candidate);
                match client
                    .patch(resource.of(&candidate), Patch::Strategic(patch), WriteOptions::default())
                    .await
                {
                    Ok(released) => wrote(verdict, &released),
                    // Gone, or without owners, or another object of that name: released it is.
                    Err(status) if is_gone(&status) || status.code == 422 => {}
                    Err(status) => failed = failed.or(Some(status)),
                }
            }
            Verdict::Adopt => {
                if may_adopt.is_none() {
                    may_adopt = Some(can_adopt(client, claimant).await);
                }
                if let Some(Err(why)) = &may_adopt {
                    let Status { code, reason, .. } = why;
                    let message = format!("can't adopt {}: {}", describe(&candidate), why.message);
                    failed.get_or_insert(Status { code: *code, reason, message, ..why.clone() });
                    continue;
                }
                let patch = adopt_patch(claimant, &candidate);
                match client
                    .patch(resource.of(&candidate), Patch::Strategic(patch), WriteOptions::default())
                    .await
                {
                    Ok(adopted) => {
                        wrote(verdict, &adopted);
                        ours.push(adopted);
                    }
                    Err(status) if is_gone(&status) => {}
                    Err(status) => failed = failed.or(Some(status)),
                }
            }
        }
    }
    failed.map_or(Ok(ours), Err)
}

/// Decides and carries out.
pub async fn claim(
    client: &dyn Client,
    claimant: &Claimant<'_>,
    resource: &Gvr,
    candidates: impl IntoIterator<Item = Arc<Obj>>,
    matches: impl Fn(&Obj) -> bool,
) -> Result<Vec<Arc<Obj>>, Status> {
    let decided = decide(claimant.owner, candidates, matches);
    apply(client, claimant, resource, decided, &mut |_, _| {}).await
}

/// An owner in a cache may be gone: one that is must not adopt, for the garbage collector would take it all.
async fn can_adopt(client: &dyn Client, claimant: &Claimant<'_>) -> Result<(), Status> {
    let Claimant { resource, kind, owner, .. } = claimant;
    let cannot = |why: &str| format!("can't recheck DeletionTimestamp: {why}");
    let fresh = client.get(resource.of(owner)).await;
    let fresh = fresh.map_err(|status| Status { message: cannot(&status.message), ..status })?;
    if fresh.uid() != owner.uid() {
        let message = format!(
            "original {kind} {}/{} is gone: got uid {}, wanted {}",
            owner.namespace(),
            owner.name(),
            fresh.uid(),
            owner.uid()
        );
        return Err(Status::unknown(cannot(&message)));
    }
    if fresh.deleting() {
        let at = crate::tree(&fresh);
        let at = at.str_at(&["metadata", "deletionTimestamp"]).unwrap_or("an unknown time");
        let message = format!("{}/{} has just been deleted at {at}", fresh.namespace(), fresh.name());
        return Err(Status::unknown(message));
    }
    Ok(())
}

fn adopt_patch(claimant: &Claimant<'_>, candidate: &Obj) -> Value {
    let reference = controller_ref(claimant.api_version, claimant.kind, claimant.owner);
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", candidate.uid());
    metadata.set("ownerReferences", vec![reference]);
    if let Some(finalizer) = claimant.finalizer {
        metadata.set("finalizers", vec![Value::from(finalizer)]);
    }
    patch
}

fn release_patch(claimant: &Claimant<'_>, candidate: &Obj) -> Value {
    let mut reference = Map::default();
    reference.set("$patch", "delete");
    reference.set("uid", claimant.owner.uid());
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", candidate.uid());
    metadata.set("ownerReferences", vec![Value::Map(reference)]);
    if let Some(finalizer) = claimant.finalizer {
        metadata.set("$deleteFromPrimitiveList/finalizers", vec![Value::from(finalizer)]);
    }
    patch
}

/// The very object is not there any more, or another has its name: a patch that names the uid it saw is then refused
/// as invalid, an update as a conflict.
/// Differs from upstream: there such an adoption fails the reconcile, which then finds the same in a fresher cache.
fn is_gone(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        404 => true,
        409 => status.message.contains("UID in precondition"),
        422 => causes.into_iter().any(|cause| cause.field == "metadata.uid"),
        _ => false,
    }
}

fn describe(obj: &Obj) -> String {
    let tree = crate::tree(obj);
    let kind = tree.str_at(&["kind"]).unwrap_or("object");
    format!("{kind} {}/{} ({})", obj.namespace(), obj.name(), obj.uid())
}
