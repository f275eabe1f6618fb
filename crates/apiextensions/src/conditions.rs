//! Conditions of a definition. The plans here read a definition and return its new status; nothing else of it is copied.

use catalog::Name;
use kinds::conditions::{self, Condition};
use object::{Map, Value};

pub(crate) use kinds::conditions::{find, is_true};

pub(crate) const NAMES_ACCEPTED: &str = "NamesAccepted";
pub(crate) const ESTABLISHED: &str = "Established";
pub(crate) const NON_STRUCTURAL_SCHEMA: &str = "NonStructuralSchema";
pub(crate) const API_APPROVAL: &str = "KubernetesAPIApprovalPolicyConformant";
pub(crate) const TERMINATING: &str = "Terminating";

/// A status in the making.
pub(crate) struct Draft {
    /// Of a definition only its `status`.
    draft: Value,
    now: i64,
}

impl Draft {
    pub fn of(definition: &Value, now: i64) -> Draft {
        let status = definition.get("status").cloned().unwrap_or_else(Value::map);
        Draft { draft: Value::Map(Map::from_iter([(Name::Static("status"), status)])), now }
    }

    /// Its `observedGeneration` stays what it was: no loop of upstream v1.36 writes one.
    pub fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let observed_generation =
            find(&self.draft, kind).and_then(|c| c.get("observedGeneration")).and_then(Value::as_int);
        let condition = Condition { kind, status, reason, message, observed_generation };
        conditions::set(&mut self.draft, &condition, self.now);
    }

    pub fn remove(&mut self, kind: &str) {
        if let Some(Value::List(list)) = self.draft.map_at(&["status"]).get_mut("conditions") {
            list.retain(|c| c.str_at(&["type"]) != Some(kind));
        }
    }

    pub fn status(&mut self) -> &mut Map {
        self.draft.map_at(&["status"])
    }

    pub fn finish(mut self) -> Value {
        std::mem::take(self.status()).into()
    }

    /// The new status, if it is another.
    pub fn changed(self, definition: &Value) -> Option<Value> {
        let status = self.finish();
        (definition.get("status") != Some(&status)).then_some(status)
    }
}

/// Whether a condition says this already. When it came to say so makes no difference.
pub(crate) fn says(condition: Option<&Value>, status: &str, reason: &str, message: &str) -> bool {
    let text = |name| condition.and_then(|c| c.get(name)).and_then(Value::as_str).unwrap_or_default();
    condition.is_some() && (text("status"), text("reason"), text("message")) == (status, reason, message)
}

/// Several errors in one message, each once.
pub(crate) fn aggregate(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::with_capacity(errors.len());
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct[..] {
        [one] => one.to_owned(),
        _ => format!("[{}]", distinct.join(", ")),
    }
}
