//! How many of a budget's pods may be disrupted now.

use std::collections::BTreeMap;

use kinds::conditions::{self, Condition};
use object::selector::LabelSelector;
use object::{Map, Obj, Value, time};

use super::members::Members;

/// An eviction that led to nothing by then never will.
pub const DELETION_SECONDS: i64 = 120;
const CONDITION: &str = "DisruptionAllowed";

/// A budget as the controller reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    pub selector: LabelSelector,
    pub selector_text: String,
    pub wanted: Requirement,
    generation: i64,
    observed_generation: i64,
    /// Evicted and not seen going yet, with the time of the eviction.
    disrupted: BTreeMap<String, i64>,
    current: i64,
    desired: i64,
    expected: i64,
    allowed: i64,
    /// Status and reason of the condition.
    said: Option<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    Available(Amount),
    Unavailable(Amount),
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    Count(i64),
    Percent(i64),
}

impl Amount {
    fn read(value: &Value) -> Option<Amount> {
        match value {
            Value::Int(count) => Some(Amount::Count(*count)),
            Value::Str(text) => Some(Amount::Percent(text.strip_suffix('%')?.parse().ok()?)),
            _ => None,
        }
    }
    /// Parts of a pod are whole pods.
    fn of(&self, total: i64) -> i64 {
        match self {
            Amount::Count(count) => *count,
            Amount::Percent(percent) => {
                let hundredths = percent.saturating_mul(total);
                hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) != 0)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub current: i64,
    pub desired: i64,
    pub expected: i64,
    pub allowed: i64,
    pub disrupted: BTreeMap<String, i64>,
    /// Evicted, and there all the same.
    pub not_deleted: Vec<String>,
    pub recheck_in: Option<u64>,
}

impl Budget {
    pub fn read(budget: &Value) -> Budget {
        let null = Value::Null;
        let selector = budget.at(&["spec", "selector"]).unwrap_or(&null);
        let selector_text = selector_text(selector);
        let int = |path: &[&str]| budget.at(path).and_then(Value::as_int).unwrap_or(0);
        let amount = |name: &str| budget.at(&["spec", name]).and_then(Amount::read);
        let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_map);
        let disrupted = disrupted
            .into_iter()
            .flat_map(Map::iter)
            .filter_map(|(name, at)| Some((name.to_string(), time::parse(at.as_str()?)?.0)));
        let text = |c: &Value, name: &str| c.str_at(&[name]).unwrap_or("").to_owned();
        let selector =
            LabelSelector::from_label_selector(selector).unwrap_or_else(|_| LabelSelector::nothing());
        Budget {
            selector_text,
            selector,
            wanted: match (amount("maxUnavailable"), amount("minAvailable")) {
                (Some(amount), _) => Requirement::Unavailable(amount),
                (None, Some(amount)) => Requirement::Available(amount),
                (None, None) => Requirement::Nothing,
            },
            generation: int(&["metadata", "generation"]),
            observed_generation: int(&["status", "observedGeneration"]),
            disrupted: disrupted.collect(),
            current: int(&["status", "currentHealthy"]),
            desired: int(&["status", "desiredHealthy"]),
            expected: int(&["status", "expectedPods"]),
            allowed: int(&["status", "disruptionsAllowed"]),
            said: conditions::find(budget, CONDITION).map(|c| (text(c, "status"), text(c, "reason"))),
        }
    }

    pub fn selects(&self, pod: &Obj) -> bool {
        self.selector.matches(&|name| pod.label(name))
    }

    /// `expected`: what the controllers of the pods want, or how many there are where only a number is asked for.
    pub fn plan(&self, pods: &Members, expected: i64, now: i64) -> Plan {
        let (desired, expected) = match &self.wanted {
            Requirement::Unavailable(amount) => ((expected - amount.of(expected)).max(0), expected),
            Requirement::Available(amount) => (amount.of(expected), expected),
            Requirement::Nothing => (0, 0),
        };
        let (mut disrupted, mut not_deleted, mut recheck) = (BTreeMap::new(), Vec::new(), None);
        let mut current = pods.healthy();
        for (name, &since) in &self.disrupted {
            let Some(pod) = pods.get(name).filter(|pod| !pod.deleting) else { continue };
            let until = since + DELETION_SECONDS;
            if until < now {
                not_deleted.push(name.clone());
            } else {
                disrupted.insert(name.clone(), since);
                recheck = Some(recheck.map_or(until, |at: i64| at.min(until)));
            }
            // Evicted: it is as good as gone.
            current -= i64::from(pod.ready && until > now);
        }
        // A budget without pods allows nothing: its first pods may come before its status.
        let allowed = if expected <= 0 { 0 } else { (current - desired).max(0) };
        // A second later than due, so that it is past then.
        let recheck_in = recheck.map(|at| u64::try_from(at - now + 1).unwrap_or(1));
        Plan { current, desired, expected, allowed, disrupted, not_deleted, recheck_in }
    }

    /// Does the status say all that already?
    pub fn is_told(&self, plan: &Plan) -> bool {
        let (status, reason) = verdict(plan.allowed);
        self.observed_generation == self.generation
            && (self.current, self.desired, self.expected, self.allowed)
                == (plan.current, plan.desired, plan.expected, plan.allowed)
            && self.disrupted == plan.disrupted
            && self.said.as_ref().is_some_and(|(s, r)| s == status && r == reason)
    }

    pub fn tell(&self, plan: &Plan, budget: &mut Value, now: i64) {
        let status = budget.map_at(&["status"]);
        status.set("observedGeneration", self.generation);
        status.remove("disruptedPods");
        if !plan.disrupted.is_empty() {
            let mut disrupted = Map::default();
            for (name, at) in &plan.disrupted {
                disrupted.set(name.clone(), time::format_seconds(*at));
            }
            status.set("disruptedPods", Value::Map(disrupted));
        }
        status.set("disruptionsAllowed", plan.allowed);
        status.set("currentHealthy", plan.current);
        status.set("desiredHealthy", plan.desired);
        status.set("expectedPods", plan.expected);
        let (status, reason) = verdict(plan.allowed);
        set(budget, status, reason, "", self.generation, now);
    }
}

/// Nothing is known for certain: nothing may be disrupted.
pub fn fail_safe(budget: &mut Value, why: &str, now: i64) {
    let observed = budget.at(&["status", "observedGeneration"]).and_then(Value::as_int).unwrap_or(0);
    budget.map_at(&["status"]).set("disruptionsAllowed", Value::Int(0));
    set(budget, "False", "SyncFailed", why, observed, now);
}

/// As Go prints the struct, which is what people search events for.
fn selector_text(selector: &Value) -> String {
    if selector.is_null() {
        return "nil".to_owned();
    }
    let labels = selector.get("matchLabels").and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(Map::iter);
    let labels: String = labels.map(|(k, v)| format!("{k}: {},", v.as_str().unwrap_or(""))).collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
    let expressions = expressions.iter().map(|e| {
        let text = |name: &str| e.str_at(&[name]).unwrap_or("");
        let values = e.get("values").and_then(Value::as_list).unwrap_or_default();
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        let (key, operator, values) = (text("key"), text("operator"), values.join(" "));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn verdict(allowed: i64) -> (&'static str, &'static str) {
    if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") }
}

fn set(budget: &mut Value, status: &str, reason: &str, message: &str, generation: i64, now: i64) {
    let observed_generation = Some(generation);
    conditions::set(
        budget,
        &Condition { kind: CONDITION, status, reason, message, observed_generation },
        now,
    );
}
