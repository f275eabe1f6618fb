//! Impersonation: what headers mean, who may, and what becomes of groups.

use std::cell::RefCell;

use super::*;
use crate::Policy;
use crate::rbac::tests::{binding, role, rule};

fn want(headers: &[(&str, &str)]) -> Result<Option<UserInfo>, Status> {
    requested(headers.iter().copied())
}

fn pods() -> Attributes<'static> {
    Attributes { verb: "list", resource: "pods", namespace: "a", ..Attributes::default() }
}

fn allow(_: &UserInfo, _: &Attributes<'_>) -> Decision {
    Decision { allowed: true, reason: String::new() }
}

fn legacy_only(_: &UserInfo, wanted: &Attributes<'_>) -> Decision {
    Decision { allowed: wanted.verb == "impersonate", reason: String::new() }
}

fn act_as(headers: &[(&str, &str)]) -> UserInfo {
    let wanted = want(headers).expect("valid").expect("asked");
    impersonate(&wanted, &UserInfo::new("admin", &[]), &pods(), &legacy_only).expect("allowed").user
}

#[test]
fn without_headers_nobody_is_impersonated() {
    assert_eq!(want(&[("accept", "x"), ("impersonate", "y")]), Ok(None));
    assert_eq!(want(&[("impersonate-user", "")]), Ok(None));
}

#[test]
fn headers_become_a_user() {
    let wanted = want(&[
        ("impersonate-user", "jane"),
        ("impersonate-user", "ignored"),
        ("impersonate-group", "devs"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-acme.io%2fTeam", "x"),
        ("impersonate-extra-acme.io%2Fteam", "y"),
        ("impersonate-extra-100%", "z"),
        ("impersonate-extra-%ff", "raw"),
        ("impersonate-group", ""),
    ]);
    let wanted = wanted.expect("valid").expect("asked");
    assert_eq!((wanted.name.as_str(), wanted.uid.as_str()), ("jane", "1"));
    assert_eq!(wanted.groups, ["devs", ""]);
    assert_eq!(wanted.extra["acme.io/team"], ["x", "y"]);
    assert_eq!(wanted.extra["100%"], ["z"]);
    assert_eq!(wanted.extra["%ff"], ["raw"]);
}

#[test]
fn headers_without_a_user_are_a_bad_request() {
    let refused = want(&[("impersonate-group", "devs"), ("impersonate-extra-k", "v")]).expect_err("no user");
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.message,
        r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string{"k":[]string{"v"}}} without impersonating a user name"#
    );
    let refused = want(&[("impersonate-uid", "1")]).expect_err("no user");
    assert!(refused.message.contains(r#"Groups:[]string(nil), Extra:map[string][]string(nil)}"#));
}

#[test]
fn groups_are_completed() {
    let user = "impersonate-user";
    assert_eq!(act_as(&[(user, "jane")]).groups, [groups::AUTHENTICATED]);
    assert_eq!(act_as(&[(user, "jane"), ("impersonate-group", "x")]).groups, ["x", groups::AUTHENTICATED]);
    let unauthenticated = act_as(&[(user, "jane"), ("impersonate-group", groups::UNAUTHENTICATED)]);
    assert_eq!(unauthenticated.groups, [groups::UNAUTHENTICATED]);
    assert_eq!(act_as(&[(user, names::ANONYMOUS)]).groups, [groups::UNAUTHENTICATED]);
    let account = act_as(&[(user, "system:serviceaccount:ns:bot")]);
    assert_eq!(
        account.groups,
        [groups::SERVICE_ACCOUNTS, "system:serviceaccounts:ns", groups::AUTHENTICATED]
    );
    let account = act_as(&[(user, "system:serviceaccount:ns:bot"), ("impersonate-group", "x")]);
    assert_eq!(account.groups, ["x", groups::AUTHENTICATED]);
}

#[test]
fn every_impersonated_attribute_is_authorized() {
    let asked = RefCell::new(Vec::new());
    let authorize = |_: &UserInfo, a: &Attributes<'_>| {
        asked.borrow_mut().push(format!(
            "{} {}.{}/{} {} {}",
            a.verb, a.resource, a.group, a.subresource, a.namespace, a.name
        ));
        legacy_only(&UserInfo::default(), a)
    };
    let wanted = want(&[
        ("impersonate-user", "system:serviceaccount:ns:bot"),
        ("impersonate-group", "g"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-k", "v"),
    ]);
    let wanted = wanted.expect("valid").expect("asked");
    impersonate(&wanted, &UserInfo::new("admin", &[]), &pods(), &authorize).expect("allowed");
    let expected = [
        "impersonate serviceaccounts./ ns bot",
        "impersonate uids.authentication.k8s.io/  1",
        "impersonate groups./  g",
        "impersonate userextras.authentication.k8s.io/k  v",
    ];
    assert_eq!(*asked.borrow(), expected);
}

#[test]
fn constrained_modes_come_first_and_name_their_constraint() {
    let as_who = |name: &str, requestor: &UserInfo| {
        let wanted = UserInfo::new(name, &[]);
        impersonate(&wanted, requestor, &pods(), &allow).expect("allowed")
    };
    let admin = UserInfo::new("admin", &[]);
    assert_eq!(as_who("jane", &admin).constraint, "impersonate:user-info");
    let node = as_who("system:node:n1", &admin);
    assert_eq!(node.constraint, "impersonate:arbitrary-node");
    assert_eq!(node.user.groups, [groups::NODES, groups::AUTHENTICATED]);
    assert_eq!(as_who("system:serviceaccount:a:b", &admin).constraint, "impersonate:serviceaccount");
    let mut agent = UserInfo::service_account("kube-system", "agent", "");
    agent.extra.insert(names::NODE_NAME_KEY.into(), vec!["n1".into()]);
    assert_eq!(as_who("system:node:n1", &agent).constraint, "impersonate:associated-node");
    assert_eq!(as_who("system:node:n2", &agent).constraint, "impersonate:arbitrary-node");
    // Masters can only be impersonated in the old way.
    let wanted = UserInfo::new("jane", &[groups::MASTERS]);
    assert_eq!(impersonate(&wanted, &admin, &pods(), &allow).expect("legacy").constraint, "");
}

#[test]
fn a_refusal_is_the_first_modes() {
    let mut policy = Policy::new();
    let requestor = UserInfo::new("joe", &[]);
    let ask = |policy: &Policy, wanted: &UserInfo| {
        impersonate(wanted, &requestor, &pods(), &|user, wanted| policy.authorize(user, wanted))
    };
    let jane = UserInfo::new("jane", &[]);
    assert_eq!(
        ask(&policy, &jane).expect_err("no right").message,
        r#"pods is forbidden: User "joe" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "a""#
    );
    policy.upsert("ClusterRole", "", "imp", &role(&[rule("impersonate", "''", "users", "jane")]));
    policy.upsert("ClusterRoleBinding", "", "imp", &binding("ClusterRole", "imp", &[("User", "joe", "")]));
    assert_eq!(ask(&policy, &jane).expect("allowed").constraint, "");
    assert!(ask(&policy, &UserInfo::new("joan", &[])).is_err());
    assert!(ask(&policy, &UserInfo::new("jane", &["ops"])).is_err());
}

#[test]
fn giant_and_odd_headers_never_panic() {
    let giant = "x".repeat(1 << 20);
    let odd = "impersonate-extra-%%%".to_owned() + &giant;
    let wanted = want(&[("impersonate-user", &giant), (&odd, &giant), ("impersonate-extra-", "")]);
    let wanted = wanted.expect("valid").expect("asked");
    let refused = impersonate(&wanted, &UserInfo::default(), &pods(), &|_, _| Decision::default());
    assert_eq!(refused.expect_err("no right").code, 403);
    // The constrained mode refuses such keys, the old one takes them.
    assert_eq!(impersonate(&wanted, &UserInfo::default(), &pods(), &allow).expect("legacy").constraint, "");
}
