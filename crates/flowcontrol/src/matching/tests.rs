use auth::UserInfo;

use super::*;

fn schema(spec: &str) -> FlowSchema {
    let object = format!(r#"{{"metadata":{{"name":"s","uid":"u"}},"spec":{spec}}}"#);
    FlowSchema::read(&codec::json::parse(object.as_bytes(), None).unwrap())
}

fn resource<'a>(
    user: &'a UserInfo,
    verb: &'a str,
    resource: &'a str,
    namespace: &'a str,
) -> RequestDigest<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let resource = ResourceDigest { group: "", resource, subresource, namespace };
    RequestDigest { user, verb, resource: Some(resource), path: "/x" }
}

#[test]
fn a_rule_matches_by_subject_verb_resource_and_namespace() {
    let schema = schema(
        r#"{"distinguisherMethod":{"type":"ByNamespace"},"matchingPrecedence":7,"priorityLevelConfiguration":{"name":"l"},
            "rules":[{"subjects":[{"kind":"Group","group":{"name":"g"}},{"kind":"ServiceAccount","serviceAccount":{"namespace":"n","name":"*"}}],
            "resourceRules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","nodes/status"],"namespaces":["a"],"clusterScope":true}]}]}"#,
    );
    assert_eq!((schema.matching_precedence, &*schema.level), (7, "l"));
    let member = UserInfo::new("m", &["g"]);
    let account = UserInfo::new("system:serviceaccount:n:x", &[]);
    let similar = UserInfo::new("system:serviceaccount:n2:x", &[]);
    let cases = [
        (&member, "get", "pods", "a", true),
        (&account, "list", "pods", "a", true),
        (&similar, "list", "pods", "a", false),
        (&member, "watch", "pods", "a", false),
        (&member, "get", "pods/status", "a", false),
        (&member, "get", "nodes/status", "", true),
        (&member, "get", "nodes", "", false),
        (&member, "get", "pods", "b", false),
    ];
    for (user, verb, what, namespace, expected) in cases {
        let request = resource(user, verb, what, namespace);
        assert_eq!(schema.matches(&request), expected, "{} {verb} {what} {namespace}", user.name);
        assert_eq!(schema.flow(&request), namespace);
    }
    let path = RequestDigest { user: &member, verb: "get", resource: None, path: "/healthz" };
    assert!(!schema.matches(&path));
}

#[test]
fn a_non_resource_url_may_end_in_a_wildcard() {
    for (url, path, expected) in [
        ("*", "/x", true),
        ("/healthz", "/healthz", true),
        ("/healthz", "/healthz/ping", true),
        ("/healthz", "/healthzz", false),
        ("/healthz/*", "/healthz/ping", true),
        ("/healthz/*", "/healthz", false),
        ("/a*", "/a/b", true),
        ("/a*", "/ab", false),
        ("/", "/anything", true),
    ] {
        assert_eq!(is_below(url, path), expected, "{url} {path}");
    }
}
