//! What a Job says about pods that fail, and about what is enough to succeed.

use object::Value;

use super::indexes::Indexes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    FailJob,
    FailIndex,
    Ignore,
    Count,
}

/// `spec.podFailurePolicy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailurePolicy {
    rules: Vec<FailureRule>,
}

#[derive(Clone, Debug, PartialEq)]
struct FailureRule {
    action: Option<Action>,
    on: On,
}

#[derive(Clone, Debug, PartialEq)]
enum On {
    ExitCodes {
        /// `None`: any container.
        container: Option<String>,
        within: bool,
        values: Vec<i64>,
    },
    /// Type and status.
    Conditions(Vec<(String, String)>),
    Nothing,
}

/// What the policy says of one failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The Job fails, with this message.
    pub fail_job: Option<String>,
    /// The failure counts against the limits.
    pub counts: bool,
    pub action: Option<Action>,
}

impl FailurePolicy {
    pub fn read(policy: &Value) -> FailurePolicy {
        let rules = policy.get("rules").and_then(Value::as_list).unwrap_or_default();
        FailurePolicy { rules: rules.iter().map(FailureRule::read).collect() }
    }

    /// The first rule that matches decides; without one the failure counts.
    pub fn judge(&self, pod: &Value) -> Verdict {
        let mut verdict = Verdict { fail_job: None, counts: true, action: None };
        for (at, rule) in self.rules.iter().enumerate() {
            let (Some(action), Some(what)) = (rule.action, rule.on.matches(pod)) else { continue };
            verdict.action = Some(action);
            verdict.counts = action != Action::Ignore;
            if action == Action::FailJob {
                verdict.fail_job = Some(format!("{what} matching FailJob rule at index {at}"));
            }
            break;
        }
        verdict
    }
}

impl FailureRule {
    fn read(rule: &Value) -> FailureRule {
        let action = match rule.str_at(&["action"]) {
            Some("FailJob") => Some(Action::FailJob),
            Some("FailIndex") => Some(Action::FailIndex),
            Some("Ignore") => Some(Action::Ignore),
            Some("Count") => Some(Action::Count),
            _ => None,
        };
        let codes = rule.get("onExitCodes").filter(|v| !v.is_null());
        let conditions = rule.get("onPodConditions").and_then(Value::as_list);
        let on = match (codes, conditions) {
            (Some(codes), _) => {
                let values = codes.get("values").and_then(Value::as_list).unwrap_or_default();
                On::ExitCodes {
                    container: codes.str_at(&["containerName"]).map(str::to_owned),
                    within: codes.str_at(&["operator"]) == Some("In"),
                    values: values.iter().filter_map(Value::as_int).collect(),
                }
            }
            (None, Some(patterns)) => {
                let text = |p: &Value, name: &str| p.str_at(&[name]).unwrap_or("").to_owned();
                On::Conditions(patterns.iter().map(|p| (text(p, "type"), text(p, "status"))).collect())
            }
            (None, None) => On::Nothing,
        };
        FailureRule { action, on }
    }
}

impl On {
    /// What in the pod matches, in words.
    fn matches(&self, pod: &Value) -> Option<String> {
        let list = |path: &[&str]| pod.at(path).and_then(Value::as_list).unwrap_or_default();
        let namespace = pod.str_at(&["metadata", "namespace"]).unwrap_or("");
        let name = pod.str_at(&["metadata", "name"]).unwrap_or("");
        match self {
            On::ExitCodes { container, within, values } => {
                let statuses = list(&["status", "containerStatuses"]);
                let inits = list(&["status", "initContainerStatuses"]);
                statuses.iter().chain(inits).find_map(|status| {
                    let called = status.str_at(&["name"]).unwrap_or("");
                    let code = status.at(&["state", "terminated", "exitCode"]).and_then(Value::as_int)?;
                    let wanted = container.as_deref().is_none_or(|c| c == called);
                    (wanted && code != 0 && values.contains(&code) == *within).then(|| {
                        format!("Container {called} for pod {namespace}/{name} failed with exit code {code}")
                    })
                })
            }
            On::Conditions(patterns) => list(&["status", "conditions"]).iter().find_map(|condition| {
                let kind = condition.str_at(&["type"]).unwrap_or("");
                let status = condition.str_at(&["status"]).unwrap_or("");
                let matching = patterns.iter().any(|(k, s)| k == kind && s == status);
                matching.then(|| format!("Pod {namespace}/{name} has condition {kind}"))
            }),
            On::Nothing => None,
        }
    }
}

/// `spec.successPolicy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuccessPolicy {
    /// Indexes that must succeed, and how many of them (or of all) are enough.
    rules: Vec<(Option<String>, Option<i64>)>,
}

impl SuccessPolicy {
    pub fn read(policy: &Value) -> SuccessPolicy {
        let rules = policy.get("rules").and_then(Value::as_list).unwrap_or_default();
        let read = |rule: &Value| {
            let indexes = rule.str_at(&["succeededIndexes"]).map(str::to_owned);
            (indexes, rule.get("succeededCount").and_then(Value::as_int))
        };
        SuccessPolicy { rules: rules.iter().map(read).collect() }
    }

    /// Which rule is met, in words.
    pub fn met(&self, succeeded: &Indexes, completions: i64) -> Option<String> {
        if succeeded.is_empty() {
            return None;
        }
        let met = |(indexes, count): &(Option<String>, Option<i64>)| match (indexes, count) {
            (Some(indexes), count) => {
                let required = Indexes::parse(indexes, completions);
                let there = required.overlap(succeeded);
                !required.is_empty() && (there == required.count() || count.is_some_and(|c| there >= c))
            }
            (None, Some(count)) => succeeded.count() >= *count,
            (None, None) => false,
        };
        self.rules.iter().position(met).map(|at| format!("Matched rules at index {at}"))
    }
}
