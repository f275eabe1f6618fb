//! Aggregated ClusterRoles: the rules of all roles matched by their selectors.

use object::Value;
use object::selector::LabelSelector;

use super::rule::Rule;

/// The parts of a ClusterRole that aggregation uses.
#[derive(Clone, Debug)]
pub struct RoleForAggregation<'a> {
    pub name: &'a str,
    pub object: &'a Value,
}

/// The selectors of a ClusterRole; `None` if it is not aggregated. An unknown operator is an
/// error: ignoring it would widen or narrow what the role grants.
pub fn selectors_of(cluster_role: &Value) -> Result<Option<Vec<LabelSelector>>, String> {
    let Some(rule) = cluster_role.get("aggregationRule").filter(|r| !r.is_null()) else { return Ok(None) };
    let items = rule.get("clusterRoleSelectors").and_then(Value::as_list).unwrap_or_default();
    items.iter().map(LabelSelector::from_label_selector).collect::<Result<Vec<_>, _>>().map(Some)
}

/// The rules for the role `own_name`: those of every other matched role, in selector order,
/// then by role name, without duplicates.
pub fn aggregated_rules<'a>(
    own_name: &str,
    roles: impl Iterator<Item = RoleForAggregation<'a>>,
    selectors: &[LabelSelector],
) -> Vec<Rule> {
    let mut roles: Vec<_> = roles.filter(|r| r.name != own_name).collect();
    roles.sort_by_key(|r| r.name);
    let mut out: Vec<Rule> = Vec::new();
    for selector in selectors {
        for role in &roles {
            if !selector.matches_map(role.object.at(&["metadata", "labels"])) {
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
