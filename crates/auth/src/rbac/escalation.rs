//! Privilege escalation prevention: nobody may grant permissions they do not have.

use std::collections::{BTreeMap, BTreeSet};

use object::{About, Status, Value, quote};

use super::policy::Policy;
use super::rule::{Rule, has, has_or_star, quoted_list, url_covers};
use crate::{Attributes, UserInfo, groups};

/// Whether `owner` covers all of `requested`; if not, the uncovered permissions, each one verb on one resource or path.
///
/// Every requested rule is broken down into its smallest parts, so that each part is covered by one owner rule
/// or by none. A role can contain billions of parts: after [`MAX_PARTS`] the rest counts as uncovered.
pub fn covers(owner: &[Rule], requested: &[Rule]) -> Result<(), Vec<Rule>> {
    let (mut uncovered, mut visited) = (Vec::new(), 0);
    for rule in requested {
        // The common case, which avoids breaking down a huge rule.
        if owner.iter().any(|o| covers_whole(o, rule)) {
            continue;
        }
        break_down(rule, &mut |part| {
            visited += 1;
            if visited > MAX_PARTS || !owner.iter().any(|o| covers_part(o, &part)) {
                uncovered.push(part.to_rule());
            }
            visited <= MAX_PARTS && uncovered.len() < MAX_UNCOVERED
        });
        if visited > MAX_PARTS || uncovered.len() >= MAX_UNCOVERED {
            break;
        }
    }
    if uncovered.is_empty() { Ok(()) } else { Err(uncovered) }
}

/// The message for a rejected grant, worded as in kube-apiserver.
pub fn escalation_message(user: &UserInfo, uncovered: &[Rule], unresolved: &[String]) -> String {
    let described: BTreeSet<String> = compacted(uncovered).iter().map(Rule::compact).collect();
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        quoted_list(&user.groups),
        described.into_iter().collect::<Vec<_>>().join("\n")
    );
    if !unresolved.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", unresolved.join(" ")));
    }
    message
}

/// Whether `user` may write this Role or ClusterRole. `resource` is `roles` or `clusterroles`; `requested_name` is the
/// name in the request's path (empty for a create), `old` the stored object on an update.
pub fn check_role_write(
    policy: &Policy,
    user: &UserInfo,
    resource: &str,
    namespace: &str,
    requested_name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let escalate = Attributes {
        verb: "escalate",
        group: super::GROUP,
        resource,
        name: requested_name,
        namespace,
        ..Attributes::default()
    };
    if user.is_in(groups::MASTERS) || policy.authorize(user, &escalate).allowed {
        return Ok(());
    }
    if old.is_some_and(|old| only_garbage_collection_differs(old, new)) {
        return Ok(());
    }
    let name = new.str_at(&["metadata", "name"]).unwrap_or_default();
    let refuse = |why: String| Status::forbidden(About { group: super::GROUP, resource }, name, why);
    confirm_held(policy, user, namespace, &Rule::list_of(new)).map_err(refuse)?;
    // An aggregation rule can match any role, so it requires permission for everything.
    if aggregates(new) || old.is_some_and(aggregates) {
        let star = || vec!["*".to_owned()];
        let everything = [
            Rule { verbs: star(), api_groups: star(), resources: star(), ..Rule::default() },
            Rule { verbs: star(), non_resource_urls: star(), ..Rule::default() },
        ];
        confirm_held(policy, user, namespace, &everything).map_err(|_| {
            refuse("must have cluster-admin privileges to use the aggregationRule".to_owned())
        })?;
    }
    Ok(())
}

/// Whether `user` may write this RoleBinding or ClusterRoleBinding. `resource` is `rolebindings` or
/// `clusterrolebindings`; `namespace` is empty for the latter.
pub fn check_binding_write(
    policy: &Policy,
    user: &UserInfo,
    resource: &str,
    namespace: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if user.is_in(groups::MASTERS) || old.is_some_and(|old| only_garbage_collection_differs(old, new)) {
        return Ok(());
    }
    let text = |path: &[&str]| new.str_at(path).unwrap_or_default();
    let (kind, role) = (text(&["roleRef", "kind"]), text(&["roleRef", "name"]));
    let bound = match kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => "",
    };
    let bind = Attributes {
        verb: "bind",
        group: text(&["roleRef", "apiGroup"]),
        resource: bound,
        name: role,
        namespace,
        ..Attributes::default()
    };
    if !bound.is_empty() && policy.authorize(user, &bind).allowed {
        return Ok(());
    }
    let rules = policy.role_rules(kind, role, namespace).map_err(|why| match bound {
        "" => Status::unknown(why),
        // A Role is looked up in the binding's namespace, and a ClusterRoleBinding has none.
        "roles" if namespace.is_empty() => Status::bad_request("Namespace parameter required."),
        _ if role.is_empty() => Status::bad_request("Name parameter required."),
        // kube-apiserver reports the resource of the request, not the missing role.
        _ => Status::check_key_name(role)
            .err()
            .unwrap_or_else(|| Status::not_found(About { group: super::GROUP, resource }, role)),
    })?;
    confirm_held(policy, user, namespace, rules).map_err(|why| {
        Status::forbidden(About { group: super::GROUP, resource }, text(&["metadata", "name"]), why)
    })
}

/// Far above any real role; a larger one requires the `escalate` verb.
const MAX_PARTS: usize = 1_000_000;
/// More would only make the message longer.
const MAX_UNCOVERED: usize = 1000;

fn confirm_held(policy: &Policy, user: &UserInfo, namespace: &str, requested: &[Rule]) -> Result<(), String> {
    let (held, unresolved) = policy.rules_for(user, namespace);
    covers(&held, requested).map_err(|uncovered| escalation_message(user, &uncovered, &unresolved))
}

fn aggregates(role: &Value) -> bool {
    let selectors = role.at(&["aggregationRule", "clusterRoleSelectors"]);
    selectors.and_then(Value::as_list).is_some_and(|s| !s.is_empty())
}

/// The garbage collector may lack the permissions of a role, yet must be able to remove it.
fn only_garbage_collection_differs(old: &Value, new: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(meta) =
            object.as_map_mut().and_then(|m| m.get_mut("metadata")).and_then(Value::as_map_mut)
        {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                meta.remove(field);
            }
        }
        object
    };
    bare(old) == bare(new)
}

/// One verb on one resource (and name) or on one path.
struct Part<'a> {
    verb: &'a str,
    target: Target<'a>,
}

enum Target<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Url(&'a str),
}

impl Part<'_> {
    fn to_rule(&self) -> Rule {
        let one = |text: &str| vec![text.to_owned()];
        let verbs = one(self.verb);
        match self.target {
            Target::Resource { group, resource, name } => Rule {
                verbs,
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                ..Rule::default()
            },
            Target::Url(url) => Rule { verbs, non_resource_urls: one(url), ..Rule::default() },
        }
    }
}

/// Visits every part in kube-apiserver's order until `visit` returns that it is done.
fn break_down<'a>(rule: &'a Rule, visit: &mut dyn FnMut(Part<'a>) -> bool) {
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let mut send =
                    |name| visit(Part { verb, target: Target::Resource { group, resource, name } });
                let go_on = match rule.resource_names.as_slice() {
                    [] => send(None),
                    names => names.iter().all(|name| send(Some(name.as_str()))),
                };
                if !go_on {
                    return;
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            if !visit(Part { verb, target: Target::Url(url) }) {
                return;
            }
        }
    }
}

fn covers_part(owner: &Rule, part: &Part<'_>) -> bool {
    has_or_star(&owner.verbs, part.verb)
        && match part.target {
            Target::Url(url) => {
                // A part without a name needs an owner rule without names, for paths too.
                owner.resource_names.is_empty() && owner.non_resource_urls.iter().any(|u| url_covers(u, url))
            }
            Target::Resource { group, resource, name } => {
                has_or_star(&owner.api_groups, group)
                    && resource_covers(&owner.resources, resource)
                    && (owner.resource_names.is_empty()
                        || name.is_some_and(|n| has(&owner.resource_names, n)))
            }
        }
}

/// Whether `owner` alone covers every part of `rule`: true only if breaking it down would agree.
fn covers_whole(owner: &Rule, rule: &Rule) -> bool {
    let names_covered = owner.resource_names.is_empty()
        || (!rule.resource_names.is_empty()
            && rule.non_resource_urls.is_empty()
            && rule.resource_names.iter().all(|n| has(&owner.resource_names, n)));
    names_covered
        && rule.verbs.iter().all(|v| has_or_star(&owner.verbs, v))
        && rule.api_groups.iter().all(|g| has_or_star(&owner.api_groups, g))
        && rule.resources.iter().all(|r| resource_covers(&owner.resources, r))
        && rule.non_resource_urls.iter().all(|url| owner.non_resource_urls.iter().any(|u| url_covers(u, url)))
}

/// `*`, the same text, or `*/scale` for `deployments/scale`.
fn resource_covers(owner: &[String], resource: &str) -> bool {
    has_or_star(owner, resource)
        || resource
            .split_once('/')
            .is_some_and(|(_, sub)| owner.iter().any(|o| o.strip_prefix("*/").is_some_and(|s| s == sub)))
}

/// Merges parts that differ only by verb, for a readable message.
fn compacted(rules: &[Rule]) -> Vec<Rule> {
    let mut by_target: BTreeMap<(&str, &str, Option<&str>), Rule> = BTreeMap::new();
    let mut out = Vec::new();
    for rule in rules {
        match (rule.api_groups.as_slice(), rule.resources.as_slice()) {
            ([group], [resource]) if rule.resource_names.len() < 2 && rule.non_resource_urls.is_empty() => {
                let key =
                    (group.as_str(), resource.as_str(), rule.resource_names.first().map(String::as_str));
                match by_target.get_mut(&key) {
                    Some(known) => known.verbs.extend_from_slice(&rule.verbs),
                    None => {
                        by_target.insert(key, rule.clone());
                    }
                }
            }
            _ => out.push(rule.clone()),
        }
    }
    out.extend(by_target.into_values());
    out
}
