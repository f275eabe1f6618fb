//! Reviews: the answers and the refusals, as clients read them.

use super::*;
use crate::Policy;
use crate::rbac::tests::{binding, role, rule};

fn texts(pairs: &[(&'static str, &str)]) -> Value {
    Value::Map(pairs.iter().map(|(k, v)| ((*k).into(), Value::from(*v))).collect())
}

fn review(spec: &[(&'static str, Value)]) -> Value {
    let mut out = Value::map();
    for (name, value) in spec {
        out.map_at(&["spec"]).set(*name, value.clone());
    }
    out
}

fn policy() -> Policy {
    let mut policy = Policy::new();
    policy.upsert("ClusterRole", "", "view", &role(&[rule("get", "''", "pods", "")]));
    policy.upsert("RoleBinding", "a", "view", &binding("ClusterRole", "view", &[("User", "jane", "")]));
    policy
}

fn get_pods() -> Value {
    texts(&[("verb", "get"), ("resource", "pods"), ("namespace", "a")])
}

#[test]
fn a_user_may_review_its_own_access() {
    let policy = policy();
    let ask = |user: &str, spec: &[(&'static str, Value)]| {
        self_subject_access_review(review(spec), &UserInfo::new(user, &[]), &|u, w| policy.authorize(u, w))
    };
    let answer = ask("jane", &[(RESOURCE, get_pods())]).expect("valid");
    assert_eq!(answer.at(&["status", "allowed"]), Some(&Value::Bool(true)));
    let reason = r#"RBAC: allowed by RoleBinding "view/a" of ClusterRole "view" to User "jane""#;
    assert_eq!(answer.str_at(&["status", "reason"]), Some(reason));
    assert_eq!(answer.at(&["spec", RESOURCE]), Some(&get_pods()));
    let answer = ask("joe", &[(NON_RESOURCE, texts(&[("verb", "get"), ("path", "/x")]))]).expect("valid");
    assert_eq!(json(answer.get("status").expect("answered")), r#"{"allowed":false}"#);
}

#[test]
fn exactly_one_target_must_be_given() {
    let ask = |spec: &[(&'static str, Value)]| {
        let refused =
            self_subject_access_review(review(spec), &UserInfo::default(), &|_, _| Decision::default());
        refused.expect_err("invalid").message
    };
    assert_eq!(
        ask(&[]),
        r#".authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"#
    );
    assert_eq!(
        ask(&[(RESOURCE, get_pods()), (NON_RESOURCE, texts(&[("path", "/<")]))]),
        r#".authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/\u003c","Verb":""}: cannot be specified in combination with resourceAttributes"#
    );
}

#[test]
fn subject_reviews_need_a_subject_and_no_metadata() {
    let policy = policy();
    let ask = |review: Value| subject_access_review(review, &|u, w| policy.authorize(u, w));
    let refused = ask(review(&[(RESOURCE, get_pods())])).expect_err("nobody");
    assert!(
        refused
            .message
            .ends_with(r#"spec.user: Invalid value: "": at least one of user or group must be specified"#)
    );
    let mut named = review(&[(RESOURCE, get_pods()), ("user", "jane".into())]);
    assert_eq!(ask(named.clone()).expect("valid").at(&["status", "allowed"]), Some(&Value::Bool(true)));
    named.map_at(&["metadata"]).set("name", "x");
    let refused = ask(named).expect_err("metadata");
    assert!(
        refused.message.ends_with(r#"metadata: Invalid value: {"name":"x"}: must be empty"#),
        "{}",
        refused.message
    );
}

#[test]
fn local_reviews_stay_in_their_namespace() {
    let policy = policy();
    let ask = |review: Value, namespace: &str| {
        local_subject_access_review(review, namespace, &|u, w| policy.authorize(u, w))
    };
    let mut good = review(&[(RESOURCE, get_pods()), ("user", "jane".into())]);
    good.map_at(&["metadata"]).set("namespace", "a");
    assert_eq!(ask(good.clone(), "a").expect("valid").at(&["status", "allowed"]), Some(&Value::Bool(true)));
    assert_eq!(ask(good.clone(), "b").expect_err("other namespace").code, 400);
    good.map_at(&["metadata"]).set("namespace", "b");
    let refused = ask(good, "b").expect_err("other namespace");
    assert!(refused.message.ends_with(
        r#"spec.resourceAttributes.namespace: Invalid value: "a": must match metadata.namespace"#
    ));
}

#[test]
fn unknown_selector_operators_are_reported_but_not_refused() {
    let mut spec = get_pods();
    let requirement = texts(&[("key", "spec.nodeName"), ("operator", "Near")]);
    spec.map_at(&["fieldSelector"]).set("requirements", vec![requirement]);
    let ask = |spec: Value| {
        self_subject_access_review(review(&[(RESOURCE, spec)]), &UserInfo::default(), &|_, _| {
            Decision::default()
        })
    };
    let answer = ask(spec.clone()).expect("valid");
    let expected = "spec.resourceAttributes.fieldSelector ignored due to parse error";
    assert_eq!(answer.str_at(&["status", "evaluationError"]), Some(expected));
    spec.map_at(&["fieldSelector"]).set("rawSelector", "a=b");
    let refused = ask(spec.clone()).expect_err("both");
    assert!(refused.message.contains("may not specified at the same time as requirements"));
    spec.map_at(&["fieldSelector"]).entries_mut().clear();
    assert!(ask(spec).expect_err("neither").message.contains("requirements or rawSelector is required"));
}

#[test]
fn an_invalid_selector_is_left_out_and_reported() {
    let ask = |name: &'static str, raw: &str| {
        let mut spec = review(&[("user", "jane".into())]);
        let attributes = spec.map_at(&["spec", "resourceAttributes"]);
        attributes.set("verb", "list");
        let mut selector = object::Map::default();
        selector.set("rawSelector", raw);
        attributes.set(name, selector);
        let answer = subject_access_review(spec, &|_, _| crate::Decision::default()).expect("valid");
        answer.str_at(&["status", "evaluationError"]).map(str::to_owned)
    };
    let ignored = |name: &str| Some(format!("spec.resourceAttributes.{name} ignored due to parse error"));
    for raw in ["!!", "a=b=c", "a in (", "a!", "a=\\x"] {
        for name in ["fieldSelector", "labelSelector"] {
            assert_eq!(ask(name, raw), ignored(name), "{raw}");
        }
    }
    for raw in ["a", "  ", "!a", "a>1", "x in (a)"] {
        assert_eq!(ask("fieldSelector", raw), ignored("fieldSelector"), "{raw}");
        assert_eq!(ask("labelSelector", raw), None, "{raw}");
    }
    for raw in ["=", "a=b,", "-a=b", ",", "a=(b)"] {
        assert_eq!(ask("labelSelector", raw), ignored("labelSelector"), "{raw}");
        assert_eq!(ask("fieldSelector", raw), None, "{raw}");
    }
    for name in ["fieldSelector", "labelSelector"] {
        assert_eq!(ask(name, "a!=b,c==d"), None);
    }
}

#[test]
fn keys_and_values_of_a_label_selector_are_labels() {
    let ask = |requirement: &str| {
        let mut spec = review(&[("user", "jane".into())]);
        let attributes = spec.map_at(&["spec", "resourceAttributes"]);
        let text = format!(r#"{{"requirements":[{requirement}]}}"#);
        attributes.set("labelSelector", codec::json::parse(text.as_bytes(), None).expect("JSON"));
        let refused = subject_access_review(spec, &|_, _| crate::Decision::default()).expect_err("invalid");
        let causes = refused.details.expect("details").causes;
        causes.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>()
    };
    let at = "spec.resourceAttributes.labelSelector.requirements[0]";
    let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    assert_eq!(
        ask(r#"{"key":"","operator":"In","values":["a"]}"#),
        [
            format!("{at}.key: Invalid value: \"\": name part must be non-empty"),
            format!("{at}.key: Invalid value: \"\": {name}")
        ]
    );
    let both = ask(r#"{"key":"-a","operator":"In","values":["b","-b"]}"#);
    assert_eq!(both[0], format!("{at}.key: Invalid value: \"-a\": {name}"));
    assert!(both[1].starts_with(&format!("{at}.values[1]: Invalid value: \"-b\": a valid label must be")));
    assert_eq!(both.len(), 2);
}

#[test]
fn rules_review_lists_rules_of_a_namespace() {
    let policy = policy();
    let jane = UserInfo::new("jane", &[]);
    let rules_for = |user: &UserInfo, namespace: &str| {
        let (rules, unresolved) = policy.rules_for(user, namespace);
        ResolvedRules { rules, unresolved, incomplete: user.name != "jane" }
    };
    let ask = |review: &Value| self_subject_rules_review(review, &jane, &rules_for);
    assert_eq!(ask(&review(&[])).expect_err("no namespace").message, "no namespace on request");
    let answer = ask(&review(&[("namespace", "a".into())])).expect("valid");
    assert_eq!(
        json(answer.get("status").expect("answered")),
        r#"{"resourceRules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}],"nonResourceRules":[],"incomplete":false}"#
    );
    let other = UserInfo::new("other", &[]);
    let asked = review(&[("namespace", "a".into())]);
    let answer = self_subject_rules_review(&asked, &other, &rules_for).expect("valid");
    assert_eq!(
        json(answer.get("status").expect("answered")),
        r#"{"resourceRules":[],"nonResourceRules":[],"incomplete":true}"#
    );
}

#[test]
fn self_review_names_the_user() {
    let mut jane = UserInfo::new("jane", &["devs"]);
    jane.extra.insert("k".into(), vec!["v".into()]);
    let answer = self_subject_review(&jane, "2026-01-01T00:00:00Z");
    assert_eq!(
        json(&answer),
        r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"},"status":{"userInfo":{"username":"jane","groups":["devs"],"extra":{"k":["v"]}}}}"#
    );
}
