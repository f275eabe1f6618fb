//! Aggregated ClusterRoles: the rules of all roles matched by their selectors.

use object::{Map, Value};

use super::rule::{Rule, strings};

/// The parts of a ClusterRole that aggregation uses.
#[derive(Clone, Debug)]
pub struct RoleForAggregation<'a> {
    pub name: &'a str,
    pub object: &'a Value,
}

/// A label selector in `aggregationRule.clusterRoleSelectors`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    equals: Vec<(String, String)>,
    expressions: Vec<Expression>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Expression {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// The selectors of a ClusterRole; `None` if it is not aggregated. An unknown operator is an
/// error: ignoring it would widen or narrow what the role grants.
pub fn selectors_of(cluster_role: &Value) -> Result<Option<Vec<Selector>>, String> {
    let Some(rule) = cluster_role.get("aggregationRule").filter(|r| !r.is_null()) else { return Ok(None) };
    let items = rule.get("clusterRoleSelectors").and_then(Value::as_list).unwrap_or_default();
    items.iter().map(Selector::parse).collect::<Result<Vec<_>, _>>().map(Some)
}

/// The rules for the role `own_name`: those of every other matched role, in selector order,
/// then by role name, without duplicates.
pub fn aggregated_rules<'a>(
    own_name: &str,
    roles: impl Iterator<Item = RoleForAggregation<'a>>,
    selectors: &[Selector],
) -> Vec<Rule> {
    let mut roles: Vec<_> = roles.filter(|r| r.name != own_name).collect();
    roles.sort_by_key(|r| r.name);
    let mut out: Vec<Rule> = Vec::new();
    for selector in selectors {
        for role in &roles {
            let labels = role.object.at(&["metadata", "labels"]).and_then(Value::as_map);
            if !selector.matches(labels) {
                continue;
            }
            for rule in Rule::list_of(role.object) {
                if !out.contains(&rule) {
                    out.push(rule);
                }
            }
        }
    }
    out
}

impl Selector {
    fn parse(value: &Value) -> Result<Selector, String> {
        let labels = value.get("matchLabels").and_then(Value::as_map);
        let equals = labels
            .map(|m| {
                m.iter().map(|(k, v)| (k.to_string(), v.as_str().unwrap_or_default().to_owned())).collect()
            })
            .unwrap_or_default();
        let items = value.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
        let expressions = items.iter().map(Expression::parse).collect::<Result<_, _>>()?;
        Ok(Selector { equals, expressions })
    }

    /// An empty selector matches everything.
    fn matches(&self, labels: Option<&Map>) -> bool {
        let label = |key: &str| labels.and_then(|m| m.get(key)).and_then(Value::as_str);
        self.equals.iter().all(|(key, value)| label(key) == Some(value))
            && self.expressions.iter().all(|e| e.matches(label(&e.key)))
    }
}

impl Expression {
    fn parse(value: &Value) -> Result<Expression, String> {
        let operator = match value.str_at(&["operator"]).unwrap_or_default() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("{} is not a valid label selector operator", object::quote(other))),
        };
        let key = value.str_at(&["key"]).unwrap_or_default().to_owned();
        Ok(Expression { key, operator, values: strings(value.get("values")) })
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let among = label.is_some_and(|l| self.values.iter().any(|v| v == l));
        match self.operator {
            Operator::In => among,
            Operator::NotIn => !among,
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
        }
    }
}
