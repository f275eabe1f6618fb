//! RBAC: what rules match, what bindings reach whom, and what nobody may hand out.

mod bootstrap;

use super::*;
use crate::{Attributes, UserInfo, groups};
use object::{Map, Value};

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(|w| if w == "''" { String::new() } else { w.to_owned() }).collect()
}

/// `rule("get list", "apps", "deployments", "")`; `''` is the core group.
pub(crate) fn rule(verbs: &str, api_groups: &str, resources: &str, names: &str) -> Rule {
    Rule {
        verbs: words(verbs),
        api_groups: words(api_groups),
        resources: words(resources),
        resource_names: words(names),
        non_resource_urls: Vec::new(),
    }
}

fn urls(verbs: &str, urls: &str) -> Rule {
    Rule { verbs: words(verbs), non_resource_urls: words(urls), ..Rule::default() }
}

pub(crate) fn role(rules: &[Rule]) -> Value {
    let mut out = Map::default();
    out.set("rules", rules.iter().map(Rule::to_value).collect::<Vec<_>>());
    Value::Map(out)
}

fn text_map(pairs: &[(&'static str, &str)]) -> Value {
    Value::Map(pairs.iter().map(|(k, v)| ((*k).into(), Value::from(*v))).collect())
}

/// Subjects as `("Group", "devs", "")`, the last being a service account's namespace.
pub(crate) fn binding(role_kind: &str, role: &str, subjects: &[(&str, &str, &str)]) -> Value {
    let mut out = Map::default();
    out.set("roleRef", text_map(&[("apiGroup", GROUP), ("kind", role_kind), ("name", role)]));
    let subject = |s: &(&str, &str, &str)| text_map(&[("kind", s.0), ("name", s.1), ("namespace", s.2)]);
    out.set("subjects", subjects.iter().map(subject).collect::<Vec<_>>());
    Value::Map(out)
}

fn wants<'a>(verb: &'a str, group: &'a str, resource: &'a str, namespace: &'a str) -> Attributes<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes { verb, group, resource, subresource, namespace, ..Attributes::default() }
}

#[test]
fn rules_match_verbs_groups_resources_and_names() {
    let table: &[(Rule, Attributes<'_>, bool)] = &[
        (rule("get", "''", "pods", ""), wants("get", "", "pods", "a"), true),
        (rule("get", "''", "pods", ""), wants("list", "", "pods", "a"), false),
        (rule("get", "''", "pods", ""), wants("get", "apps", "pods", "a"), false),
        (rule("*", "*", "*", ""), wants("anything", "any", "thing/sub", ""), true),
        (rule("get", "''", "pods", ""), wants("get", "", "pods/log", "a"), false),
        (rule("get", "''", "pods/log", ""), wants("get", "", "pods/log", "a"), true),
        (rule("get", "''", "pods/log", ""), wants("get", "", "pods", "a"), false),
        (rule("get", "*", "*/scale", ""), wants("get", "apps", "deployments/scale", "a"), true),
        (rule("get", "*", "*/scale", ""), wants("get", "apps", "deployments/autoscale", "a"), false),
        (rule("get", "*", "*/scale", ""), wants("get", "apps", "deployments", "a"), false),
        (rule("get", "*", "pods/*", ""), wants("get", "", "pods/log", "a"), false),
        (rule("get", "''", "pods", "web"), Attributes { name: "web", ..wants("get", "", "pods", "a") }, true),
        (rule("get", "''", "pods", "web"), Attributes { name: "db", ..wants("get", "", "pods", "a") }, false),
        (rule("list create", "''", "pods", "web"), wants("list", "", "pods", "a"), false),
        (rule("create", "''", "pods", "web"), wants("create", "", "pods", "a"), false),
        (
            rule("impersonate", "x", "userextras/acme.io/team", ""),
            Attributes {
                resource: "userextras",
                subresource: "acme.io/team",
                ..wants("impersonate", "x", "", "")
            },
            true,
        ),
        (urls("get", "/healthz/*"), Attributes::path("get", "/healthz/ping"), true),
        (urls("get", "/healthz/*"), Attributes::path("get", "/healthz"), false),
        (urls("get", "*"), Attributes::path("get", "/x"), true),
        (urls("get", "/metrics"), Attributes::path("post", "/metrics"), false),
        (urls("*", "/metrics"), Attributes::path("post", "/metrics"), true),
        (urls("*", "*"), wants("get", "", "pods", ""), false),
        (rule("*", "*", "*", ""), Attributes::path("get", "/metrics"), false),
        (Rule::default(), wants("", "", "", ""), false),
    ];
    for (rule, wanted, expected) in table {
        assert_eq!(rule.allows(wanted), *expected, "{rule:?} {wanted:?}");
    }
}

fn small_policy() -> Policy {
    let mut policy = Policy::new();
    policy.upsert("ClusterRole", "", "cluster-admin", &role(&[rule("*", "*", "*", ""), urls("*", "*")]));
    policy.upsert("ClusterRole", "", "view", &role(&[rule("get list", "''", "pods", "")]));
    policy.upsert("Role", "a", "local", &role(&[rule("get", "''", "secrets", "")]));
    policy.upsert(
        "ClusterRoleBinding",
        "",
        "ops",
        &binding("ClusterRole", "cluster-admin", &[("Group", "ops", "")]),
    );
    policy.upsert(
        "RoleBinding",
        "a",
        "viewers",
        &binding(
            "ClusterRole",
            "view",
            &[("Group", "devs", ""), ("User", "jane", ""), ("ServiceAccount", "bot", "")],
        ),
    );
    policy.upsert(
        "RoleBinding",
        "a",
        "readers",
        &binding("Role", "local", &[("ServiceAccount", "bot", "b")]),
    );
    policy
}

#[test]
fn bindings_reach_users_groups_and_service_accounts_in_their_scope() {
    let policy = small_policy();
    let ask = |name: &str, groups: &[&str], wanted| policy.authorize(&UserInfo::new(name, groups), &wanted);
    let pods = |namespace| wants("list", "", "pods", namespace);
    assert_eq!(
        ask("x", &["ops"], pods("")).reason,
        r#"RBAC: allowed by ClusterRoleBinding "ops" of ClusterRole "cluster-admin" to Group "ops""#
    );
    assert_eq!(
        ask("jane", &[], pods("a")).reason,
        r#"RBAC: allowed by RoleBinding "viewers/a" of ClusterRole "view" to User "jane""#
    );
    // The first subject of the binding is named, however the user was found.
    assert!(ask("jane", &["devs"], pods("a")).reason.ends_with(r#"to Group "devs""#));
    assert!(!ask("jane", &[], pods("b")).allowed);
    assert!(!ask("jane", &[], pods("")).allowed);
    // A subject without a namespace is in the binding's.
    let local = ask("system:serviceaccount:a:bot", &[], pods("a"));
    assert!(local.reason.ends_with(r#"to ServiceAccount "bot/a""#), "{}", local.reason);
    assert!(!ask("system:serviceaccount:b:bot", &[], pods("a")).allowed);
    assert!(ask("system:serviceaccount:b:bot", &[], wants("get", "", "secrets", "a")).allowed);
    assert!(ask("anyone", &[groups::MASTERS], Attributes::path("delete", "/everything")).allowed);
}

#[test]
fn changes_take_effect_and_leave_nothing_behind() {
    let mut policy = small_policy();
    let jane = UserInfo::new("jane", &[]);
    let wanted = wants("list", "", "pods", "a");
    policy.upsert("RoleBinding", "a", "viewers", &binding("ClusterRole", "view", &[("User", "joe", "")]));
    assert!(!policy.authorize(&jane, &wanted).allowed);
    policy.upsert("RoleBinding", "a", "viewers", &binding("ClusterRole", "view", &[("User", "jane", "")]));
    assert!(policy.authorize(&jane, &wanted).allowed);
    policy.remove("ClusterRole", "", "view");
    let refused = policy.authorize(&jane, &wanted);
    assert_eq!(refused.reason, r#"RBAC: clusterrole.rbac.authorization.k8s.io "view" not found"#);
    policy.remove("RoleBinding", "a", "viewers");
    policy.remove("RoleBinding", "a", "readers");
    policy.remove("RoleBinding", "a", "never-was");
    assert_eq!(policy.authorize(&jane, &wanted), crate::Decision::default());
    policy.upsert(
        "RoleBinding",
        "a",
        "odd",
        &binding("Role", "gone", &[("User", "jane", ""), ("User", "jane", "")]),
    );
    policy.upsert("RoleBinding", "a", "odder", &binding("Thing", "x", &[("User", "jane", "")]));
    assert_eq!(
        policy.authorize(&jane, &wanted).reason,
        r#"RBAC: [role.rbac.authorization.k8s.io "gone" not found, unsupported role reference kind: "Thing"]"#
    );
}

#[test]
fn malformed_objects_grant_nothing() {
    let mut policy = Policy::new();
    for odd in [Value::Null, Value::from("x"), Value::map(), Value::from(vec![Value::Null])] {
        for kind in ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Pod"] {
            policy.upsert(kind, "a", "x", &odd);
        }
        let mut object = Map::default();
        for field in ["rules", "subjects", "roleRef"] {
            object.set(field, odd.clone());
        }
        policy.upsert("ClusterRoleBinding", "", "y", &Value::Map(object));
    }
    assert!(!policy.authorize(&UserInfo::new("x", &["x"]), &wants("get", "", "pods", "a")).allowed);
}

#[test]
fn rules_for_lists_each_binding_once() {
    let policy = small_policy();
    let (rules, missing) = policy.rules_for(&UserInfo::new("jane", &["devs"]), "a");
    assert_eq!((rules, missing), (vec![rule("get list", "''", "pods", "")], vec![]));
    assert_eq!(policy.rules_for(&UserInfo::new("jane", &["devs"]), "").0, vec![]);
}

#[test]
fn owners_cover_their_own_rules_only() {
    let table: &[(&[Rule], &[Rule], bool)] = &[
        (&[rule("get list", "''", "pods", "")], &[rule("get", "''", "pods", "")], true),
        // Two rules together cover a third.
        (
            &[rule("get", "''", "pods", ""), rule("list", "''", "pods", "")],
            &[rule("get list", "''", "pods", "")],
            true,
        ),
        (&[rule("get", "''", "pods", "")], &[rule("*", "''", "pods", "")], false),
        (&[rule("*", "*", "*", "")], &[rule("*", "*", "*", "")], true),
        (&[rule("*", "*", "*", "")], &[rule("get", "apps", "deployments/scale", "x")], true),
        (&[rule("*", "*", "*", "")], &[urls("get", "/x")], false),
        (&[rule("get", "''", "pods", "a b")], &[rule("get", "''", "pods", "a")], true),
        (&[rule("get", "''", "pods", "a")], &[rule("get", "''", "pods", "a b")], false),
        (
            &[rule("get", "''", "pods", "a"), rule("get", "''", "pods", "b")],
            &[rule("get", "''", "pods", "a b")],
            true,
        ),
        (&[rule("get", "''", "pods", "a")], &[rule("get", "''", "pods", "")], false),
        (&[rule("get", "''", "pods", "")], &[rule("get", "''", "pods", "a")], true),
        (&[rule("get", "*", "*/scale", "")], &[rule("get", "apps", "deployments/scale", "")], true),
        (&[rule("get", "*", "*/scale", "")], &[rule("get", "apps", "deployments", "")], false),
        (&[rule("get", "*", "deployments/scale", "")], &[rule("get", "apps", "*/scale", "")], false),
        (&[rule("get", "*", "*", "")], &[rule("get", "apps", "*/scale", "")], true),
        (&[urls("get", "/a/*")], &[urls("get", "/a/b /a/b/*")], true),
        (&[urls("get", "/a/*")], &[urls("get", "/a")], false),
        (&[urls("get", "/a/b")], &[urls("get", "/a/*")], false),
        (&[urls("*", "*")], &[urls("get post", "/ /x")], true),
        (&[], &[], true),
        (&[], &[rule("", "''", "pods", "")], true),
    ];
    for (owner, requested, expected) in table {
        assert_eq!(covers(owner, requested).is_ok(), *expected, "{owner:?} {requested:?}");
    }
}

#[test]
fn a_rule_of_billions_of_parts_is_refused_in_bounded_time() {
    let many = |what: &str| (0..3000).map(|i| format!("{what}{i}")).collect::<Vec<_>>();
    let huge = Rule { verbs: many("v"), api_groups: many("g"), resources: many("r"), ..Rule::default() };
    // Covered by two rules together, so it cannot be answered without breaking it down.
    let owner =
        [rule("*", "*", "r0", ""), Rule { resources: many("r")[1..].to_vec(), ..rule("*", "*", "", "") }];
    assert!(covers(&[rule("*", "*", "*", "")], std::slice::from_ref(&huge)).is_ok());
    let uncovered = covers(&owner, &[huge.clone(), huge]).expect_err("too many parts to prove");
    assert_eq!(uncovered.len(), 1);
}

#[test]
fn escalation_gets_upstreams_error() {
    let mut policy = small_policy();
    let jane = UserInfo::new("jane", &["devs", "system:authenticated"]);
    let mut wanted = role(&[rule("get list delete", "''", "pods", ""), urls("get", "/metrics")]);
    wanted.map_at(&["metadata"]).set("name", "mine");
    let refused = check_role_write(&policy, &jane, "roles", "a", "", &wanted, None).expect_err("not held");
    assert_eq!(
        refused.message,
        "roles.rbac.authorization.k8s.io \"mine\" is forbidden: user \"jane\" (groups=[\"devs\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}\n\
         {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}"
    );
    // The same object again, or one that only the garbage collector changed, grants nothing new.
    let mut touched = wanted.clone();
    touched.map_at(&["metadata"]).set("finalizers", vec![Value::from("x")]);
    assert!(check_role_write(&policy, &jane, "roles", "a", "mine", &touched, Some(&wanted)).is_ok());
    assert!(
        check_role_write(&policy, &UserInfo::new("x", &[groups::MASTERS]), "roles", "a", "", &wanted, None)
            .is_ok()
    );
    // The verb escalate lifts it, for the named role only.
    policy.upsert("Role", "a", "up", &role(&[rule("escalate", GROUP, "roles", "mine")]));
    policy.upsert("RoleBinding", "a", "up", &binding("Role", "up", &[("User", "jane", "")]));
    assert!(check_role_write(&policy, &jane, "roles", "a", "mine", &wanted, Some(&Value::map())).is_ok());
    assert!(check_role_write(&policy, &jane, "roles", "a", "", &wanted, None).is_err());
}

#[test]
fn binding_needs_the_bind_verb_or_all_rules_of_the_role() {
    let mut policy = small_policy();
    let jane = UserInfo::new("jane", &[]);
    let bind = |policy: &Policy, role_name: &str| {
        let object = binding("ClusterRole", role_name, &[("User", "joe", "")]);
        check_binding_write(policy, &jane, "rolebindings", "a", &object, None)
    };
    assert!(bind(&policy, "view").is_ok());
    assert_eq!(bind(&policy, "cluster-admin").expect_err("not held").code, 403);
    let missing = bind(&policy, "nope").expect_err("no such role");
    assert_eq!(missing.message, "rolebindings.rbac.authorization.k8s.io \"nope\" not found");
    policy.upsert(
        "ClusterRole",
        "",
        "binder",
        &role(&[rule("bind", GROUP, "clusterroles", "cluster-admin")]),
    );
    policy.upsert("RoleBinding", "a", "binder", &binding("ClusterRole", "binder", &[("User", "jane", "")]));
    assert!(bind(&policy, "cluster-admin").is_ok());
    // Not in other namespaces.
    let object = binding("ClusterRole", "cluster-admin", &[]);
    assert!(check_binding_write(&policy, &jane, "clusterrolebindings", "", &object, None).is_err());
}

#[test]
fn an_aggregation_rule_needs_full_permissions() {
    let policy = small_policy();
    let mut wanted = role(&[]);
    wanted.map_at(&["aggregationRule"]).set("clusterRoleSelectors", vec![Value::map()]);
    let write = |user: &UserInfo| check_role_write(&policy, user, "clusterroles", "", "", &wanted, None);
    let refused = write(&UserInfo::new("jane", &["devs"])).expect_err("holds little");
    assert!(refused.message.ends_with("must have cluster-admin privileges to use the aggregationRule"));
    assert!(write(&UserInfo::new("x", &["ops"])).is_ok());
}

#[test]
fn aggregated_roles_gather_selected_rules_once() {
    let labelled = |label: &'static str, rules: &[Rule]| {
        let mut out = role(rules);
        out.map_at(&["metadata", "labels"]).set(label, "true");
        out
    };
    let (get, list) = (rule("get", "''", "pods", ""), rule("list", "''", "pods", ""));
    let mut own = labelled("view", &[rule("old", "x", "x", "")]);
    let mut selector = Value::map();
    selector.map_at(&["matchLabels"]).set("view", "true");
    let mut exists = Map::default();
    exists.set("key", "edit");
    exists.set("operator", "Exists");
    let mut by_expression = Value::map();
    by_expression.make_map().set("matchExpressions", vec![Value::Map(exists)]);
    own.map_at(&["aggregationRule"]).set("clusterRoleSelectors", vec![selector, by_expression]);

    let b = labelled("view", &[list.clone(), get.clone()]);
    let a = labelled("view", std::slice::from_ref(&get));
    let c = labelled("edit", &[get.clone(), rule("edit", "''", "pods", "")]);
    let other = labelled("other", &[rule("no", "x", "x", "")]);
    let roles = [("own", &own), ("b", &b), ("a", &a), ("c", &c), ("other", &other)];
    let roles = roles.into_iter().map(|(name, object)| RoleForAggregation { name, object });
    let selectors = selectors_of(&own).expect("valid").expect("aggregated");
    let rules = aggregated_rules("own", roles, &selectors);
    assert_eq!(rules, [get, list, rule("edit", "''", "pods", "")]);
    assert_eq!(selectors_of(&a), Ok(None));
}

#[test]
fn thousands_of_bindings_do_not_slow_down_a_check() {
    let mut policy = small_policy();
    for i in 0..5000 {
        let (user, name) = (format!("user{i}"), format!("b{i}"));
        policy.upsert("RoleBinding", "a", &name, &binding("ClusterRole", "view", &[("User", &user, "")]));
        policy.upsert(
            "ClusterRoleBinding",
            "",
            &name,
            &binding("ClusterRole", "view", &[("User", &user, "")]),
        );
    }
    let user = UserInfo::new("user4999", &["devs", groups::AUTHENTICATED]);
    // A count of bindings looked at, not a time: the index hands out only the user's own.
    assert!(policy.authorize(&user, &wants("list", "", "pods", "a")).allowed);
    assert_eq!(policy.rules_for(&user, "a").0.len(), 3);
}

/// `cargo test -p auth --release -- --ignored --nocapture cost` prints what a question costs.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods)]
fn cost_of_a_check() {
    let mut policy = small_policy();
    for i in 0..5000 {
        let user = format!("user{i}");
        policy.upsert("RoleBinding", "a", &user, &binding("ClusterRole", "view", &[("User", &user, "")]));
    }
    for (what, user) in [
        ("master", UserInfo::new("admin", &[groups::MASTERS, groups::AUTHENTICATED])),
        ("cluster-admin by group", UserInfo::new("x", &["ops", groups::AUTHENTICATED])),
        ("one of 5000", UserInfo::new("user77", &["devs", groups::AUTHENTICATED])),
        ("nobody", UserInfo::anonymous()),
    ] {
        let start = std::time::Instant::now();
        let n = 200_000;
        for _ in 0..n {
            std::hint::black_box(
                policy.authorize(&user, std::hint::black_box(&wants("list", "", "pods", "a"))),
            );
        }
        println!("{what}: {} ns", start.elapsed().as_nanos() / n);
    }
}
