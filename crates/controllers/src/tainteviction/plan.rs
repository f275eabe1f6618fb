//! How long a pod may stay on a node with NoExecute taints.

use object::Value;

use crate::nodelifecycle::node::{NO_EXECUTE, NodeFacts, Taint};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
    pub seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    Forever,
    Seconds(i64),
    /// Not at all: some taint is not tolerated.
    No,
}

/// The taints that send pods away.
pub fn no_execute(node: &NodeFacts) -> Vec<Taint> {
    node.taints.iter().filter(|taint| taint.effect == NO_EXECUTE).cloned().collect()
}

pub fn tolerations(pod: &Value) -> Vec<Toleration> {
    let read = |toleration: &Value| {
        let text = |name: &str| toleration.str_at(&[name]).unwrap_or("").to_owned();
        Toleration {
            key: text("key"),
            operator: text("operator"),
            value: text("value"),
            effect: text("effect"),
            seconds: toleration.get("tolerationSeconds").and_then(Value::as_int),
        }
    };
    let list = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().map(read).collect()
}

/// The shortest of the tolerations used; the first that tolerates a taint is the one used.
pub fn stay(taints: &[Taint], tolerations: &[Toleration]) -> Stay {
    let mut least: Option<i64> = None;
    for taint in taints {
        let Some(used) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
            return Stay::No;
        };
        if let Some(seconds) = used.seconds {
            let seconds = seconds.max(0);
            least = Some(least.map_or(seconds, |least| least.min(seconds)));
        }
    }
    least.map_or(Stay::Forever, Stay::Seconds)
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            // Lt and Gt are behind a gate that is off.
            _ => false,
        }
    }
}
