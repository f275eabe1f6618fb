//! ResourceQuota: how much a namespace may use. What an object uses is charged in the commit that stores it.
//!
//! ```text
//! quotas of the namespace ─ those about this object ─ used + what it adds ≤ hard? ─ new status joins the commit
//!                                                                                   guarded by the quota as read
//! ```
//! Two writes that charge the same quota cannot both pass their guard, so what is used never passes what is
//! allowed, on however many servers. What becomes free is counted by a controller (`controllers::resourcequota`).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use kinds::resourcequota::usage::{
    self, Evaluator, List, Lookup, Measured, Quota, Selector, evaluators, is_terminating,
};
use object::{Obj, Status, Value};
use table::{Scope, Selection};

use crate::{Attempt, Effects, Operation, Plugin, Refusal, list_newest};

/// What may be used only where a quota covers it.
#[derive(Clone, Debug, Default)]
pub struct Limited {
    pub group: String,
    pub plural: String,
    /// Parts of resource names.
    pub names: Vec<String>,
    pub scopes: Vec<Selector>,
}

#[derive(Default)]
pub struct ResourceQuota {
    pub limited: Vec<Limited>,
}

/// A quota that is about the object.
struct Charge {
    obj: Arc<Obj>,
    quota: Quota,
    /// What it may not pass, and what is added.
    delta: List,
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn validate(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let Some(new) = new.filter(|_| !attempt.namespace.is_empty()) else { return Ok(()) };
        let quotas = attempt.all("", "resourcequotas", attempt.namespace)?;
        if quotas.is_empty() && self.limited.is_empty() {
            return Ok(());
        }
        let Some(evaluator) = Evaluator::of(attempt.storage) else { return Ok(()) };
        if !handles(&evaluator, attempt, new) {
            return Ok(());
        }
        let charges = self.charges(attempt, &evaluator, new, quotas)?;
        if attempt.dry_run {
            return Ok(());
        }
        let Some(storage) = attempt.stored("", "resourcequotas") else { return Ok(()) };
        for Charge { obj, mut quota, delta } in charges {
            usage::add(&mut quota.used, &delta);
            effects.replace(&obj, quota.encode(storage));
        }
        Ok(())
    }
}

impl ResourceQuota {
    /// The quotas the object is charged to, when it fits into all of them.
    fn charges(
        &self,
        attempt: &Attempt<'_>,
        evaluator: &Evaluator,
        new: &Value,
        quotas: Vec<Arc<Obj>>,
    ) -> Result<Vec<Charge>, Status> {
        let now = attempt.env.now_seconds() as i64;
        let measured = evaluator.measure(new, now, &InTable(attempt));
        let before = attempt.old.map(|old| evaluator.measure(old, now, &InTable(attempt)));
        let mut restricted: BTreeSet<String> = BTreeSet::new();
        let mut covered: Vec<String> = Vec::new();
        let mut about = Vec::new();
        for obj in quotas {
            let mut quota = Quota::of(attempt.tree(&obj));
            // Differs from kube-apiserver, which lets everything pass until its controller has counted: a quota
            // counts from the moment it exists.
            if quota.is_unsettled(attempt.catalog) {
                let counted = count(attempt, &quota, now)?;
                quota.settle(counted);
            }
            let matched = quota.selectors.iter().filter(|s| s.matches(&measured.facts));
            covered.extend(matched.map(|s| s.scope.clone()));
            if !quota.covers(evaluator, &measured.facts) {
                continue;
            }
            let counted = || quota.hard.keys().map(String::as_str).filter(|name| evaluator.counts(name));
            evaluator
                .check(new, counted())
                .map_err(|missing| attempt.forbidden(format!("failed quota: {}: {missing}", quota.name())))?;
            restricted.extend(counted().map(str::to_owned));
            about.push((obj, quota));
        }
        let negative: Vec<&str> =
            measured.used.iter().filter(|(_, a)| a.sign() < 0).map(|(n, _)| n.as_str()).collect();
        if !negative.is_empty() {
            let names = negative.join(",");
            return Err(attempt.forbidden(format!("quota usage is negative for resource(s): {names}")));
        }
        // An object that was covered before is charged what it grew by.
        let nothing = List::new();
        let grown = |covered_before: bool| match &before {
            Some(before) if covered_before && attempt.operation == Operation::Update => {
                usage::growth(&measured.used, &before.used)
            }
            _ => usage::growth(&measured.used, &nothing),
        };
        let mut charges: Vec<Charge> = Vec::new();
        let anything = if about.is_empty() { !grown(true).is_empty() } else { false };
        for (obj, quota) in about {
            let covered_before = before.as_ref().is_some_and(|b| quota.covers(evaluator, &b.facts));
            let delta = grown(covered_before);
            if !delta.is_empty() {
                charges.push(Charge { obj, quota, delta });
            }
        }
        if charges.is_empty() && !anything {
            return Ok(charges);
        }
        self.check_limited(attempt, &measured, &restricted, &covered)?;
        for charge in &mut charges {
            charge.fit(attempt)?;
        }
        charges.retain(|charge| !charge.delta.is_empty());
        Ok(charges)
    }

    /// What is limited everywhere needs a quota that covers it.
    fn check_limited(
        &self,
        attempt: &Attempt<'_>,
        measured: &Measured,
        restricted: &BTreeSet<String>,
        covered: &[String],
    ) -> Result<(), Status> {
        let ours = self
            .limited
            .iter()
            .filter(|l| l.plural == *attempt.resource.plural && l.group == *attempt.resource.group);
        let names: BTreeSet<&String> = ours
            .flat_map(|limited| {
                let used = measured.used.iter().filter(|(_, amount)| amount.sign() > 0);
                used.map(|(name, _)| name)
                    .filter(|name| limited.names.iter().any(|n| name.contains(n.as_str())))
            })
            .filter(|name| !restricted.contains(*name))
            .collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
            return Err(attempt.forbidden(format!("insufficient quota to consume: {}", names.join(","))));
        }
        let uncovered: Vec<String> = self
            .limited
            .iter()
            .flat_map(|limited| &limited.scopes)
            .filter(|s| s.matches(&measured.facts) && !covered.contains(&s.scope))
            .map(Selector::to_string)
            .collect();
        if uncovered.is_empty() {
            return Ok(());
        }
        // Upstream's answer is no Forbidden either.
        Err(Status::unknown(format!("insufficient quota to match these scopes: [{}]", uncovered.join(" "))))
    }
}

/// Can this write make the object use more?
fn handles(evaluator: &Evaluator, attempt: &Attempt<'_>, new: &Value) -> bool {
    let create = attempt.operation == Operation::Create;
    let update = attempt.operation == Operation::Update;
    match (evaluator, attempt.subresource) {
        (Evaluator::Pods, None) => {
            // A deadline that comes or goes moves the pod from one quota to another.
            let moves = attempt.old.is_some_and(|o| is_terminating(o) != is_terminating(new));
            create || (update && moves)
        }
        (Evaluator::Pods, Some("resize")) => update,
        (Evaluator::VolumeClaims, Some("status")) => update,
        (_, Some(_)) => false,
        (Evaluator::Count(_), None) => create,
        (_, None) => create || update,
    }
}

/// Other objects as the table shows them now.
struct InTable<'a>(&'a Attempt<'a>);

impl InTable<'_> {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let storage = self.0.stored(group, plural)?;
        let obj = self.0.table.get(storage.id, &storage.key(namespace, name))?;
        Some(self.0.tree(&obj))
    }
}

impl Lookup for InTable<'_> {
    fn device_class(&self, name: &str) -> Option<Value> {
        self.get("resource.k8s.io", "deviceclasses", "", name)
    }
    fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        self.get("", "pods", namespace, name)
    }
    /// Looks at the owners of all there are, and reads only those it is after.
    fn claims_of_pod(&self, namespace: &str, uid: &str) -> Vec<Value> {
        let Some(storage) = self.0.stored("resource.k8s.io", "resourceclaims") else { return Vec::new() };
        let all = Selection::everything(Scope::Namespace(namespace.into()));
        let Ok(found) = list_newest(self.0.table, storage.id, &all) else { return Vec::new() };
        let owned =
            |obj: &&Arc<Obj>| obj.owners().windows(uid.len().max(1)).any(|text| text == uid.as_bytes());
        found.items.iter().filter(owned).map(|obj| self.0.tree(obj)).collect()
    }
}

/// Counts everything a quota is about, as the table shows it now. Where it cannot be read now nothing is counted.
fn count(attempt: &Attempt<'_>, quota: &Quota, now: i64) -> Result<List, Status> {
    let mut counted = List::new();
    for (storage, evaluator) in evaluators(&attempt.table.catalog(), &quota.wanted) {
        let namespace = Selection::everything(Scope::Namespace(quota.namespace().into()));
        let mut sum = quota.nothing(&evaluator);
        for obj in list_newest(attempt.table, storage, &namespace)?.items {
            quota.sum(&mut sum, &evaluator.measure(&attempt.tree(&obj), now, &InTable(attempt)));
        }
        usage::add(&mut counted, &sum);
    }
    Ok(counted)
}

impl Charge {
    /// Keeps what the quota counts of `delta`; a refusal when it is too much.
    fn fit(&mut self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let quota = &self.quota;
        self.delta.retain(|name, _| quota.hard.contains_key(name));
        // What a status says has happened already.
        if attempt.subresource == Some("status") {
            return Ok(());
        }
        let (mut requested, mut used, mut limited) = (List::new(), List::new(), List::new());
        for (name, more) in &self.delta {
            let Some(hard) = quota.hard.get(name) else { continue };
            let before = quota.used.get(name);
            if before.map_or(*more, |before| *before + *more) > *hard {
                requested.insert(name.clone(), *more);
                used.extend(before.map(|before| (name.clone(), *before)));
                limited.insert(name.clone(), *hard);
            }
        }
        if requested.is_empty() {
            return Ok(());
        }
        Err(attempt.forbidden(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            usage::show(&requested),
            usage::show(&used),
            usage::show(&limited)
        )))
    }
}
