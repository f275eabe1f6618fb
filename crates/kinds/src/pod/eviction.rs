//! Evicting a pod: whether its disruption budget allows it.

use object::{About, Cause, Status, Value};

use crate::conditions::{self, Condition};

/// Evictions a budget remembers until its controller has seen them.
const MAX_DISRUPTED_PODS: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const BUDGETS: About<'_> = About { group: "policy", resource: "poddisruptionbudget" };

/// The budget does not apply: the pod has finished, never ran, or is already being deleted.
pub fn needs_no_budget(pod: &Value) -> bool {
    is_over(pod) || pod.str_at(&["status", "phase"]) == Some("Pending")
}

/// Nothing that happens to the pod meanwhile can make its deletion a disruption.
pub fn is_over(pod: &Value) -> bool {
    let phase = pod.str_at(&["status", "phase"]).unwrap_or("");
    matches!(phase, "Succeeded" | "Failed")
        || pod.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null())
}

/// A pod that is not ready may go without being counted, when the budget allows that.
pub fn may_go_unhealthy(pod: &Value, budget: &Value) -> bool {
    if conditions::is_true(pod, "Ready") {
        return false;
    }
    if budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow") {
        return true;
    }
    let desired = number(budget, "desiredHealthy");
    number(budget, "currentHealthy") >= desired && desired > 0
}

/// Takes one disruption from the budget, or refuses.
pub fn take(budget: &mut Value, pod: &str, now: i64) -> Result<(), Status> {
    let name = budget.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
    let generation = budget.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
    if number(budget, "observedGeneration") < generation {
        return Err(still_processed(&name));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return Err(Status::forbidden(BUDGETS, &name, "pdb disruptions allowed is negative"));
    }
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_map).map_or(0, |m| m.len());
    if disrupted > MAX_DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(BUDGETS, &name, why));
    }
    if allowed == 0 {
        return Err(refusal(0, exhausted(budget, &name)));
    }
    budget.map_at(&["status"]).set("disruptionsAllowed", allowed - 1);
    if allowed == 1 {
        let observed_generation = Some(number(budget, "observedGeneration"));
        let condition = Condition {
            kind: "DisruptionAllowed",
            status: "False",
            reason: "InsufficientPods",
            message: "",
            observed_generation,
        };
        conditions::set(budget, &condition, now);
    }
    let time = object::time::format_seconds(now);
    budget.map_at(&["status", "disruptedPods"]).set(pod.to_owned(), time);
    Ok(())
}

/// The budget's controller has not caught up; or another eviction was faster.
pub fn still_processed(budget: &str) -> Status {
    refusal(10, format!("The disruption budget {budget} is still being processed by the server."))
}

/// Sets the pod's disruption condition.
pub fn mark(pod: &mut Value, now: i64) {
    let condition = Condition {
        kind: "DisruptionTarget",
        status: "True",
        reason: "EvictionByEvictionAPI",
        message: "Eviction API: evicting",
        observed_generation: None,
    };
    conditions::set(pod, &condition, now);
}

fn number(budget: &Value, member: &str) -> i64 {
    budget.at(&["status", member]).and_then(Value::as_int).unwrap_or(0)
}

fn refusal(retry_after_seconds: u32, message: String) -> Status {
    let mut status = Status::too_many_requests(REFUSED, retry_after_seconds);
    let details = status.details.get_or_insert_default();
    details.causes.push(Cause { reason: "DisruptionBudget", message, field: String::new() });
    status
}

fn exhausted(budget: &Value, name: &str) -> String {
    let condition = conditions::find(budget, "DisruptionAllowed")
        .filter(|c| c.str_at(&["status"]) == Some("False"))
        .map(|c| (c.str_at(&["reason"]).unwrap_or(""), c.str_at(&["message"]).unwrap_or("")))
        .filter(|(_, message)| !message.is_empty());
    let (desired, current) = (number(budget, "desiredHealthy"), number(budget, "currentHealthy"));
    match condition {
        // First: after a failed sync the numbers mean nothing.
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some((reason, message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}
