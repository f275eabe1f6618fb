//! RuntimeClass: a pod of a class pays its overhead and goes where the class says it can run.

mod tolerations;

use object::{Map, Value, quote};

use crate::amounts::Amounts;
use crate::tree::member;
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Create || !attempt.is("", "pods") {
            return Ok(());
        }
        let Some(class) = class_of(attempt, new)? else { return Ok(()) };
        let spec = new.map_at(&["spec"]);
        if let Some(overhead) = overhead(&class) {
            let own = Amounts::read(spec.get("overhead"));
            if own != Amounts::default() && own != Amounts::read(Some(overhead)) {
                return Err(mismatch(attempt));
            }
            spec.set("overhead", overhead.clone());
        }
        if let Some(scheduling) = member(&class, "scheduling") {
            select_nodes(attempt, spec, scheduling)?;
            tolerations::merge(spec, scheduling);
        }
        Ok(())
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Create || !attempt.is("", "pods") {
            return Ok(());
        }
        let Some(pod) = new else { return Ok(()) };
        let own = pod.get("spec").and_then(|spec| member(spec, "overhead"));
        match class_of(attempt, pod)?.as_ref().and_then(overhead) {
            Some(overhead) if Amounts::read(own) != Amounts::read(Some(overhead)) => Err(mismatch(attempt)),
            None if own.is_some() => {
                let why =
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                Err(attempt.forbidden(why).into())
            }
            _ => Ok(()),
        }
    }
}

fn class_of(attempt: &Attempt<'_>, pod: &Value) -> Result<Option<Value>, Refusal> {
    let Some(name) = pod.str_at(&["spec", "runtimeClassName"]) else { return Ok(None) };
    match attempt.find("node.k8s.io", "runtimeclasses", "", name) {
        Some(class) => Ok(Some(attempt.tree(&class))),
        None => {
            let why = format!("pod rejected: RuntimeClass {} not found", quote(name));
            Err(attempt.forbidden(why).into())
        }
    }
}

/// What a pod of the class costs beyond its containers; a class may say so without naming an amount.
fn overhead(class: &Value) -> Option<&Value> {
    const NOTHING: &Value = &Value::Null;
    member(class, "overhead").map(|overhead| member(overhead, "podFixed").unwrap_or(NOTHING))
}

fn mismatch(attempt: &Attempt<'_>) -> Refusal {
    attempt.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead").into()
}

/// The class's node labels join the pod's.
fn select_nodes(attempt: &Attempt<'_>, spec: &mut Map, scheduling: &Value) -> Result<(), Refusal> {
    let Some(wanted) = member(scheduling, "nodeSelector").and_then(Value::as_map) else { return Ok(()) };
    let selector = spec.entry("nodeSelector".into()).make_map();
    for (label, value) in wanted.iter() {
        let value = value.as_str().unwrap_or_default();
        match selector.get(label).and_then(Value::as_str) {
            Some(own) if own != value => {
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {value}; \
                     pod.spec.nodeSelector[{label}] = {own}"
                );
                return Err(attempt.forbidden(why).into());
            }
            _ => selector.set(label.clone(), value),
        }
    }
    Ok(())
}
