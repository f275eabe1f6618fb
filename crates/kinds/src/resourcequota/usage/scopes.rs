//! Which objects a quota with scopes is about.

use object::Value;

/// What scopes can ask about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Facts {
    Pod {
        terminating: bool,
        best_effort: bool,
        /// Its affinity looks at other namespaces.
        crosses_namespaces: bool,
        priority_class: String,
    },
    /// The volume attributes classes a claim refers to.
    Claim { classes: Vec<String> },
    /// Everything else fits no scope.
    #[default]
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub scope: String,
    pub operator: String,
    pub values: Vec<String>,
}

impl Selector {
    /// All selectors of a quota: plain scopes are "exists".
    pub fn all_of(quota: &Value) -> Vec<Selector> {
        let scopes = quota.at(&["spec", "scopes"]).and_then(Value::as_list).unwrap_or_default();
        let plain = scopes.iter().filter_map(Value::as_str).map(|scope| Selector {
            scope: scope.to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let expressions = quota.at(&["spec", "scopeSelector", "matchExpressions"]);
        let expressions = expressions.and_then(Value::as_list).unwrap_or_default();
        plain.chain(expressions.iter().map(Selector::read)).collect()
    }

    fn read(expression: &Value) -> Selector {
        let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let values = expression.get("values").and_then(Value::as_list).unwrap_or_default();
        Selector {
            scope: text("scopeName"),
            operator: text("operator"),
            values: values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    pub fn matches(&self, facts: &Facts) -> bool {
        match facts {
            Facts::Pod { terminating, best_effort, crosses_namespaces, priority_class } => {
                match self.scope.as_str() {
                    "Terminating" => *terminating,
                    "NotTerminating" => !terminating,
                    "BestEffort" => *best_effort,
                    "NotBestEffort" => !best_effort,
                    "CrossNamespacePodAffinity" => *crosses_namespaces,
                    "PriorityClass" => {
                        self.selects(Some(priority_class.as_str()).filter(|class| !class.is_empty()))
                    }
                    _ => false,
                }
            }
            Facts::Claim { classes } if self.scope == "VolumeAttributesClass" => match classes.as_slice() {
                [] => self.selects(None),
                classes => classes.iter().any(|class| self.selects(Some(class))),
            },
            Facts::Claim { .. } | Facts::Other => false,
        }
    }

    /// As a label selector would on a label that has this value, or is absent.
    fn selects(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.iter().any(|v| v == value));
        match self.operator.as_str() {
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    }
}

/// As Go prints it in messages.
impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.scope, self.operator, self.values.join(" "))
    }
}
