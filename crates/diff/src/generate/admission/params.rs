//! Parameters of policies: of built-in and custom kinds, named and selected, there and missing; and what policies do with a verdict.

use super::steps::{self, Configured};
use crate::case::{MERGE, Scenario, Step};

/// `paramRef` of a binding, and a word for it.
const REFERENCES: &[(&str, &str)] = &[
    ("own", r#"{"name":"settings","parameterNotFoundAction":"Deny"}"#),
    ("named", r#"{"name":"settings","namespace":"$NS-b","parameterNotFoundAction":"Deny"}"#),
    ("missing-allow", r#"{"name":"none","parameterNotFoundAction":"Allow"}"#),
    ("missing-deny", r#"{"name":"none","parameterNotFoundAction":"Deny"}"#),
    ("selected", r#"{"selector":{"matchLabels":{"role":"param"}},"parameterNotFoundAction":"Deny"}"#),
    (
        "selected-there",
        r#"{"selector":{"matchLabels":{"role":"param"}},"namespace":"$NS-b","parameterNotFoundAction":"Deny"}"#,
    ),
    ("selected-none", r#"{"selector":{"matchLabels":{"role":"nothing"}},"parameterNotFoundAction":"Allow"}"#),
    (
        "selected-none-deny",
        r#"{"selector":{"matchLabels":{"role":"nothing"}},"parameterNotFoundAction":"Deny"}"#,
    ),
];
const KINDS: &[(&str, &str, &str)] = &[
    ("configmap", "v1", "ConfigMap"),
    ("clusterrole", "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("thing", "$RUN.example.com/v2", "Thing"),
    ("unknown", "none.example.com/v1", "Nothing"),
];
/// Spec of a policy besides its constraints, actions of its binding.
const VERDICTS: &[(&str, &str, &str)] = &[
    ("deny", r#""validations":[{"expression":"false"}]"#, r#"["Deny"]"#),
    (
        "message",
        r#""validations":[{"expression":"object.data.k == '2'","message":"k must be two"}]"#,
        r#"["Deny"]"#,
    ),
    ("reason", r#""validations":[{"expression":"false","reason":"RequestEntityTooLarge"}]"#, r#"["Deny"]"#),
    (
        "forbidden",
        r#""validations":[{"expression":"false","reason":"Forbidden","messageExpression":"'no ' + object.metadata.name"}]"#,
        r#"["Deny"]"#,
    ),
    ("unauthorized", r#""validations":[{"expression":"false","reason":"Unauthorized"}]"#, r#"["Deny"]"#),
    ("invalid", r#""validations":[{"expression":"false","reason":"Invalid"}]"#, r#"["Deny","Audit"]"#),
    (
        "two",
        r#""validations":[{"expression":"false","message":"first"},{"expression":"false","message":"second"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "warn",
        r#""validations":[{"expression":"false","message":"first"},{"expression":"false","message":"second"}]"#,
        r#"["Warn"]"#,
    ),
    (
        "audit",
        r#""validations":[{"expression":"false"}],"auditAnnotations":[{"key":"a","valueExpression":"'x' + object.metadata.name"}]"#,
        r#"["Audit"]"#,
    ),
    ("error", r#""validations":[{"expression":"object.data.none == 'x'"}]"#, r#"["Deny"]"#),
    (
        "error-ignored",
        r#""failurePolicy":"Ignore","validations":[{"expression":"object.data.none == 'x'"}]"#,
        r#"["Deny"]"#,
    ),
    ("error-warn", r#""validations":[{"expression":"object.data.none == 'x'"}]"#, r#"["Warn"]"#),
    (
        "divided",
        r#""validations":[{"expression":"1 / size(object.data.k.substring(1)) == 1"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "message-error",
        r#""validations":[{"expression":"false","message":"plain","messageExpression":"object.data.none"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "message-empty",
        r#""validations":[{"expression":"false","message":"plain","messageExpression":"' '"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "message-lines",
        r#""validations":[{"expression":"false","messageExpression":"'a\\nb'"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "variables",
        r#""variables":[{"name":"k","expression":"object.data.k"},{"name":"both","expression":"variables.k + variables.k"}],"validations":[{"expression":"variables.both != '11'","messageExpression":"'is ' + variables.both"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "variable-error",
        r#""variables":[{"name":"k","expression":"object.data.none"}],"validations":[{"expression":"variables.k == '1'"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "condition-error",
        r#""matchConditions":[{"name":"c","expression":"object.data.none == 'x'"}],"validations":[{"expression":"false"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "condition-error-ignored",
        r#""failurePolicy":"Ignore","matchConditions":[{"name":"c","expression":"object.data.none == 'x'"}],"validations":[{"expression":"false"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "condition-no",
        r#""matchConditions":[{"name":"c","expression":"object.data.k == '2'"}],"validations":[{"expression":"false"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "annotation-error",
        r#""validations":[{"expression":"true"}],"auditAnnotations":[{"key":"a","valueExpression":"object.data.none"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "annotation-null",
        r#""validations":[{"expression":"true"}],"auditAnnotations":[{"key":"a","valueExpression":"null"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "authorizer",
        r#""validations":[{"expression":"authorizer.group('apps').resource('deployments').check('create').allowed() && authorizer.path('/metrics').check('get').allowed() && !authorizer.requestResource.check('delete').errored()"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "namespace",
        r#""validations":[{"expression":"namespaceObject.metadata.labels['tier'] != 'back'","messageExpression":"namespaceObject.metadata.name.size() > 0 ? 'in ' + namespaceObject.metadata.labels.tier : 'none'"}]"#,
        r#"["Deny"]"#,
    ),
    (
        "quota",
        r#""validations":[{"expression":"object.data.all(a, object.data.all(b, a == b))","message":"one only"}]"#,
        r#"["Deny"]"#,
    ),
];

pub fn all() -> Vec<Scenario> {
    let mut scenarios = vec![verdicts()];
    scenarios.extend(KINDS.iter().map(|(name, version, kind)| params(name, version, kind)));
    scenarios
}

const MAPS: &str = r#""resourceRules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]"#;

fn policy(configured: &mut Configured, name: &str, constraints: &str, spec: &str, binding: &str) {
    let spec = format!(r#""spec":{{"matchConstraints":{{{constraints}}},{spec}}}"#);
    configured.add(
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        &format!("$RUN-{name}"),
        &spec,
    );
    let binding = format!(r#""spec":{{"policyName":"$RUN-{name}",{binding}}}"#);
    let plural = "validatingadmissionpolicybindings";
    configured.add("ValidatingAdmissionPolicyBinding", plural, &format!("$RUN-{name}"), &binding);
}

/// Each for the object that is labelled for it: policies are asked in no order.
fn tried(word: &str) -> String {
    format!(r#"{MAPS},"objectSelector":{{"matchLabels":{{"try":"{word}"}}}}"#)
}

fn create(word: &str, namespace: &str) -> Step {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m-{word}","labels":{{"try":"{word}"}}}},"data":{{"k":"1"}}}}"#
    );
    Step::text(format!("create {word} in {namespace}"), "POST", path, "application/json", body)
}

fn verdicts() -> Scenario {
    let mut configured = Configured::default();
    let mut requests = Vec::new();
    for (name, spec, actions) in VERDICTS {
        policy(&mut configured, name, &tried(name), spec, &format!(r#""validationActions":{actions}"#));
        let path = format!("/api/v1/namespaces/$NS-b/configmaps/m-{name}");
        requests.push(create(name, "$NS"));
        requests.push(create(name, "$NS-b"));
        requests.push(Step::text(
            format!("change {name}"),
            "PATCH",
            path.clone(),
            MERGE,
            r#"{"data":{"k":"2"}}"#,
        ));
        requests.push(Step::new(format!("delete {name}"), "DELETE", path));
    }
    steps::scenario("verdicts", configured, &requests)
}

fn params(word: &str, version: &str, kind: &str) -> Scenario {
    let mut configured = Configured::default();
    let mut requests: Vec<Step> =
        ["$NS-b", "$NS"].iter().flat_map(|namespace| parameters(namespace)).collect();
    let shown =
        "params == null ? 'nothing' : params.metadata.name + ' ' + string(has(params.metadata.namespace))";
    for (name, reference) in REFERENCES {
        let spec = format!(
            r#""paramKind":{{"apiVersion":"{version}","kind":"{kind}"}},"validations":[{{"expression":"false","messageExpression":"{shown}"}}]"#
        );
        let reference = format!(r#""validationActions":["Warn"],"paramRef":{reference}"#);
        // All of them warn, but those that cannot be evaluated deny; so each has an object of its own.
        policy(&mut configured, name, &tried(name), &spec, &reference);
    }
    // A policy with a kind whose binding names nothing, and one without a kind whose binding names something.
    let bare = r#""validations":[{"expression":"false","messageExpression":"string(params == null)"}]"#;
    policy(
        &mut configured,
        "useless",
        &tried("useless"),
        bare,
        r#""validationActions":["Warn"],"paramRef":{"name":"settings","parameterNotFoundAction":"Deny"}"#,
    );
    let spec = format!(r#""paramKind":{{"apiVersion":"{version}","kind":"{kind}"}},{bare}"#);
    policy(&mut configured, "unbound", &tried("unbound"), &spec, r#""validationActions":["Warn"]"#);
    let words: Vec<&str> = REFERENCES.iter().map(|(name, _)| *name).chain(["useless", "unbound"]).collect();
    // Informers of parameters begin with the first policy that needs them.
    let path = "/api/v1/namespaces/$NS/configmaps?dryRun=All";
    let probe = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m-own","labels":{"try":"own"}},"data":{"k":"1"}}"#;
    let (status, effective) =
        if word == "unknown" { (422, "failed to configure policy") } else { (201, "m-own") };
    for n in 0..4 {
        let wait = Step::text(format!("parameters are known {n}"), "POST", path, "application/json", probe);
        requests.push(wait.until(status, effective));
    }
    for name in words {
        requests.push(create(name, "$NS"));
        requests.push(create(name, "$NS-b"));
    }
    steps::scenario(&format!("params {word}"), configured, &requests)
}

/// Objects of every kind that may be a parameter.
fn parameters(namespace: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (name, labels) in
        [("other", "{}"), ("more", r#"{"role":"param"}"#), ("settings", r#"{"role":"param"}"#)]
    {
        let map = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{labels}}},"data":{{"max":"3"}}}}"#
        );
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        steps.push(Step::text(format!("map {name} in {namespace}"), "POST", path, "application/json", map));
        let thing = format!(
            r#"{{"apiVersion":"$RUN.example.com/v1","kind":"Thing","metadata":{{"name":"{name}","labels":{labels}}},"spec":{{"size":3}}}}"#
        );
        let path = format!("/apis/$RUN.example.com/v1/namespaces/{namespace}/things");
        steps.push(Step::text(
            format!("thing {name} in {namespace}"),
            "POST",
            path,
            "application/json",
            thing,
        ));
    }
    let role = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"settings","labels":{"role":"param"}},"rules":[]}"#;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    steps.push(
        Step::text(format!("role for {namespace}"), "POST", path, "application/json", role)
            .until(409, "exists"),
    );
    steps
}
