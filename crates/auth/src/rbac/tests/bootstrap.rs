//! The roles every cluster starts with: loaded whole, they allow what they should and no more.

use super::*;
use object::Value;

/// What the server creates on its first start.
const OBJECTS: &str = include_str!("../../../../apiserver/data/bootstrap.jsonl");

fn objects() -> Vec<Value> {
    OBJECTS.lines().map(|line| codec::json::parse(line.as_bytes(), None).expect("JSON")).collect()
}

fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    object.str_at(path).unwrap_or_default()
}

fn policy(objects: &[Value]) -> Policy {
    let mut policy = Policy::new();
    for object in objects {
        let (namespace, name) =
            (text(object, &["metadata", "namespace"]), text(object, &["metadata", "name"]));
        policy.upsert(text(object, &["kind"]), namespace, name, object);
    }
    policy
}

#[test]
fn every_object_is_complete_and_in_order() {
    let objects = objects();
    let order = [
        "Namespace",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "FlowSchema",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ];
    let mut last = 0;
    let mut seen = std::collections::BTreeSet::new();
    for object in &objects {
        let kind = text(object, &["kind"]);
        let at = order.iter().position(|k| *k == kind).expect("a kind we know");
        assert!(at >= last, "{kind} comes too late");
        last = at;
        assert!(!text(object, &["apiVersion"]).is_empty());
        let key = (kind, text(object, &["metadata", "namespace"]), text(object, &["metadata", "name"]));
        assert!(!key.2.is_empty() && seen.insert(key), "{key:?}");
        if at >= 4 {
            let label = object.at(&["metadata", "labels"]).and_then(|l| l.get("kubernetes.io/bootstrapping"));
            assert_eq!(label, Some(&Value::from("rbac-defaults")), "{key:?}");
        }
    }
    assert_eq!(seen.len(), 162);
}

#[test]
fn every_binding_finds_its_role() {
    let objects = objects();
    let policy = policy(&objects);
    for object in objects.iter().filter(|o| text(o, &["kind"]).ends_with("Binding")) {
        let (kind, name) = (text(object, &["roleRef", "kind"]), text(object, &["roleRef", "name"]));
        let rules = policy.role_rules(kind, name, text(object, &["metadata", "namespace"]));
        assert!(rules.is_ok_and(|r| !r.is_empty()), "{name}");
    }
}

#[test]
fn aggregated_roles_hold_what_aggregation_gives() {
    let objects = objects();
    let roles: Vec<_> = objects.iter().filter(|o| text(o, &["kind"]) == "ClusterRole").collect();
    let mut found = 0;
    for role in &roles {
        let Some(selectors) = selectors_of(role).expect("valid") else { continue };
        let own = text(role, &["metadata", "name"]);
        let all =
            roles.iter().map(|r| RoleForAggregation { name: text(r, &["metadata", "name"]), object: r });
        let rules = aggregated_rules(own, all, &selectors);
        assert_eq!(rules, Rule::list_of(role), "{own}");
        found += 1;
    }
    assert_eq!(found, 3);
}

#[test]
fn system_users_may_do_their_work_and_no_more() {
    let policy = policy(&objects());
    let may = |user: &UserInfo, wanted: Attributes<'_>| policy.authorize(user, &wanted).allowed;
    let nobody = UserInfo::anonymous();
    assert!(may(&nobody, Attributes::path("get", "/healthz")));
    assert!(may(&nobody, Attributes::path("get", "/version")));
    assert!(!may(&nobody, Attributes::path("get", "/metrics")));
    assert!(!may(&nobody, Attributes::path("get", "/api")));
    assert!(!may(&nobody, wants("list", "", "pods", "default")));

    let jane = UserInfo::new("jane", &[groups::AUTHENTICATED]);
    assert!(may(&jane, Attributes::path("get", "/apis/apps/v1")));
    assert!(may(&jane, wants("create", "authorization.k8s.io", "selfsubjectaccessreviews", "")));
    assert!(!may(&jane, wants("get", "", "secrets", "default")));

    let scheduler = UserInfo::new("system:kube-scheduler", &[groups::AUTHENTICATED]);
    assert!(may(&scheduler, wants("create", "", "pods/binding", "default")));
    assert!(may(&scheduler, wants("update", "coordination.k8s.io", "leases", "kube-system")));
    assert!(!may(&scheduler, wants("update", "coordination.k8s.io", "leases", "default")));

    let deployments = UserInfo::service_account("kube-system", "deployment-controller", "");
    assert!(may(&deployments, wants("create", "apps", "replicasets", "default")));
    assert!(!may(&deployments, wants("create", "", "secrets", "default")));
    // Nodes are authorised by their own authorizer; the role is bound to nobody.
    assert!(!may(&UserInfo::new("system:node:n", &[groups::NODES]), wants("list", "", "pods", "")));
}
