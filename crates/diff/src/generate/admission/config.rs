//! Webhooks and policies whose rules, selectors and conditions are drawn from pools.

use super::chance::Chance;
use super::steps::Configured;

const WEBHOOKS: usize = 14;
const POLICIES: usize = 8;

const OPERATIONS: &[&str] = &[
    r#"["CREATE"]"#,
    r#"["UPDATE"]"#,
    r#"["DELETE"]"#,
    r#"["CONNECT"]"#,
    r#"["*"]"#,
    r#"["*"]"#,
    r#"["CREATE","UPDATE"]"#,
    r#"["CREATE","DELETE"]"#,
    r#"["UPDATE","CONNECT"]"#,
    r#"["CREATE","UPDATE","DELETE","CONNECT"]"#,
];
/// Groups, versions and resources that belong together, some of them too wide and some too narrow.
const RESOURCES: &[&str] = &[
    r#""apiGroups":["*"],"apiVersions":["*"],"resources":["*"]"#,
    r#""apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]"#,
    r#""apiGroups":["*"],"apiVersions":["v1"],"resources":["*/scale"]"#,
    r#""apiGroups":["*"],"apiVersions":["v1","v2"],"resources":["*/status"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["pods/*"]"#,
    r#""apiGroups":[""],"apiVersions":["*"],"resources":["pods","pods/exec","pods/attach"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["pods/eviction","pods/binding","pods/resize"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps","secrets"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]"#,
    r#""apiGroups":[""],"apiVersions":["v2"],"resources":["configmaps"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["namespaces","nodes"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["namespaces/*","nodes/proxy"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["services","services/proxy","serviceaccounts/token"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["*","*/status"]"#,
    r#""apiGroups":["","apps"],"apiVersions":["v1"],"resources":["deployments","replicationcontrollers","*/scale"]"#,
    r#""apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments/*"]"#,
    r#""apiGroups":["apps"],"apiVersions":["*"],"resources":["*"]"#,
    r#""apiGroups":["autoscaling"],"apiVersions":["v1"],"resources":["horizontalpodautoscalers"]"#,
    r#""apiGroups":["autoscaling"],"apiVersions":["v2"],"resources":["horizontalpodautoscalers","horizontalpodautoscalers/status"]"#,
    r#""apiGroups":["autoscaling"],"apiVersions":["v2beta2"],"resources":["*"]"#,
    r#""apiGroups":["events.k8s.io"],"apiVersions":["v1"],"resources":["events"]"#,
    r#""apiGroups":[""],"apiVersions":["v1"],"resources":["events"]"#,
    r#""apiGroups":["$RUN.example.com"],"apiVersions":["v1"],"resources":["things","gadgets"]"#,
    r#""apiGroups":["$RUN.example.com"],"apiVersions":["v2"],"resources":["things"]"#,
    r#""apiGroups":["$RUN.example.com"],"apiVersions":["v2"],"resources":["things/*"]"#,
    r#""apiGroups":["$RUN.example.com"],"apiVersions":["v1"],"resources":["things/scale","things/status"]"#,
    r#""apiGroups":["authorization.k8s.io","authentication.k8s.io"],"apiVersions":["v1"],"resources":["*"]"#,
    r#""apiGroups":["rbac.authorization.k8s.io","coordination.k8s.io"],"apiVersions":["v1"],"resources":["*"]"#,
    r#""apiGroups":["admissionregistration.k8s.io","apiextensions.k8s.io"],"apiVersions":["*"],"resources":["*"]"#,
];
const SCOPES: &[&str] = &["", "", "", r#","scope":"*""#, r#","scope":"Namespaced""#, r#","scope":"Cluster""#];
const MATCH_POLICIES: &[&str] =
    &["", r#","matchPolicy":"Exact""#, r#","matchPolicy":"Equivalent""#, r#","matchPolicy":"Exact""#];
const SELECTORS: &[&str] = &[
    r#"{"matchLabels":{"app":"one"}}"#,
    r#"{"matchLabels":{"tier":"front"}}"#,
    r#"{"matchExpressions":[{"key":"app","operator":"In","values":["one","two"]}]}"#,
    r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["one"]}]}"#,
    r#"{"matchExpressions":[{"key":"tier","operator":"Exists"}]}"#,
    r#"{"matchExpressions":[{"key":"tier","operator":"DoesNotExist"}]}"#,
    r#"{"matchLabels":{"app":"one"},"matchExpressions":[{"key":"tier","operator":"NotIn","values":["back"]}]}"#,
    "{}",
];
const NAMESPACE_SELECTORS: &[&str] = &[
    r#"{"matchLabels":{"tier":"back"}}"#,
    r#"{"matchLabels":{"tier":"front"}}"#,
    r#"{"matchExpressions":[{"key":"env","operator":"In","values":["prod","test"]}]}"#,
    r#"{"matchExpressions":[{"key":"env","operator":"DoesNotExist"}]}"#,
    r#"{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["$NS"]}]}"#,
    r#"{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["$NS","$NS-x"]}]}"#,
];
/// Some fail for some requests: the failure policy counts.
const CONDITIONS: &[&str] = &[
    "request.operation != 'DELETE'",
    "request.resource.resource == 'configmaps' || request.subResource != ''",
    "request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups",
    "!has(request.dryRun) || !request.dryRun",
    "oldObject == null",
    "object != null && has(object.metadata) && has(object.metadata.labels)",
    "request.?namespace.orValue('') != ''",
    "authorizer.group('').resource('pods').namespace('default').check('create').allowed()",
    "authorizer.requestResource.check('custom').allowed()",
    "request.kind.version == 'v1' && request.requestKind.version == 'v1'",
    "request.name.startsWith('a') || request.name.startsWith('t')",
    "has(request.options) && request.options.kind.endsWith('Options')",
];
const FAILING_CONDITIONS: &[&str] =
    &["object.metadata.labels.app == 'one'", "request.name.indexOf('x') / 0 == 1", "object.spec.size > 1"];

/// Rules and selectors of a webhook, or of a policy, whose `rules` are called so.
fn criteria(chance: &mut Chance, rules: &str, named: bool) -> String {
    let count = 1 + chance.below(3);
    let rule = |chance: &mut Chance| {
        let names = match named && chance.happens(15) {
            true => r#","resourceNames":["a","p","t","h1","$NS-n"]"#,
            false => "",
        };
        let (operations, resources, scope) =
            (chance.pick(OPERATIONS), chance.pick(RESOURCES), chance.pick(SCOPES));
        format!(r#"{{"operations":{operations},{resources}{scope}{names}}}"#)
    };
    let list: Vec<String> = (0..count).map(|_| rule(chance)).collect();
    let mut out = format!(r#""{rules}":[{}]"#, list.join(","));
    if named && chance.happens(35) {
        out.push_str(&format!(r#","excludeResourceRules":[{}]"#, rule(chance)));
    }
    out.push_str(chance.pick(MATCH_POLICIES));
    if chance.happens(35) {
        out.push_str(&format!(r#","namespaceSelector":{}"#, chance.pick(NAMESPACE_SELECTORS)));
    }
    if chance.happens(35) {
        out.push_str(&format!(r#","objectSelector":{}"#, chance.pick(SELECTORS)));
    }
    out
}

fn conditions(chance: &mut Chance, percent: usize) -> String {
    if !chance.happens(percent) {
        return String::new();
    }
    let count = 1 + chance.below(2);
    let list: Vec<String> = (0..count)
        .map(|n| format!(r#"{{"name":"c{n}","expression":"{}"}}"#, chance.pick(CONDITIONS)))
        .collect();
    format!(r#","matchConditions":[{}]"#, list.join(","))
}

pub fn webhooks(number: u64) -> Configured {
    let mut chance = Chance::of(&format!("webhooks {number}"));
    let mut configured = Configured::default();
    // Two configurations of each kind: what is called first goes by their names.
    for half in ["b", "a"] {
        for (phase, kind, plural) in [
            ("m", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
            ("v", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        ] {
            let hooks: Vec<String> = (0..WEBHOOKS / 2)
                .map(|n| webhook(&mut chance, phase, &format!("{phase}{half}{n}")))
                .collect();
            configured.add(
                kind,
                plural,
                &format!("$RUN-{half}"),
                &format!(r#""webhooks":[{}]"#, hooks.join(",")),
            );
        }
    }
    configured
}

fn webhook(chance: &mut Chance, phase: &str, name: &str) -> String {
    let criteria = criteria(chance, "rules", false);
    let mutating = phase == "m";
    let behaviour = if mutating && chance.happens(40) { "label" } else { "allow" };
    let reinvocation =
        if mutating && chance.happens(40) { r#","reinvocationPolicy":"IfNeeded""# } else { "" };
    let versions = chance.pick(&[
        r#"["v1"]"#,
        r#"["v1"]"#,
        r#"["v1","v1beta1"]"#,
        r#"["v1beta1","v1"]"#,
        r#"["v9","v1"]"#,
    ]);
    let side_effects = chance.pick(&["None", "NoneOnDryRun"]);
    // One of many has a condition that cannot be evaluated for most requests; it does not matter, or few requests would pass.
    let (conditions, failure) = match chance.happens(12) {
        true => {
            let failing = chance.pick(FAILING_CONDITIONS);
            (format!(r#","matchConditions":[{{"name":"f","expression":"{failing}"}}]"#), "Ignore")
        }
        false => (conditions(chance, 35), chance.pick(&["Fail", "Ignore"])),
    };
    format!(
        r#"{{"name":"{name}.example.com","clientConfig":{{"url":"$HOOK/{name}/{behaviour}","caBundle":"$CA"}},{criteria}{conditions}{reinvocation},"failurePolicy":"{failure}","sideEffects":"{side_effects}","admissionReviewVersions":{versions}}}"#
    )
}

pub fn validating(number: u64) -> Configured {
    let mut chance = Chance::of(&format!("validating {number}"));
    let mut configured = Configured::default();
    for n in 0..POLICIES {
        let name = format!("$RUN-p{n}");
        let criteria = criteria(&mut chance, "resourceRules", true);
        let conditions = conditions(&mut chance, 30);
        // Who warns shows what it saw.
        let message = chance.pick(&[
            "request.operation + ' ' + request.resource.resource + '.' + request.resource.version + ' ' + request.kind.kind",
            "string(object == null) + string(oldObject == null) + ' ' + request.requestKind.kind + ' ' + request.?subResource.orValue('')",
            "namespaceObject == null ? 'cluster' : string(has(namespaceObject.metadata.labels)) + ' ' + request.?namespace.orValue('none')",
            "request.?name.orValue('none') + ' ' + string(request.?dryRun.orValue(false)) + ' ' + string(has(request.options))",
        ]);
        let failure = chance.pick(&["Fail", "Ignore"]);
        configured.add(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            &name,
            &format!(
                r#""spec":{{"failurePolicy":"{failure}","matchConstraints":{{{criteria}}}{conditions},"validations":[{{"expression":"false","messageExpression":"{message}"}}]}}"#
            ),
        );
        bindings(
            &mut chance,
            &mut configured,
            "Validating",
            &name,
            r#","validationActions":["Warn","Audit"]"#,
        );
    }
    configured
}

pub fn mutating(number: u64) -> Configured {
    let mut chance = Chance::of(&format!("mutating {number}"));
    let mut configured = Configured::default();
    for n in 0..POLICIES {
        let name = format!("$RUN-p{n}");
        let criteria = criteria(&mut chance, "resourceRules", true);
        let conditions = conditions(&mut chance, 30);
        let reinvocation = chance.pick(&["Never", "IfNeeded"]);
        let mutation = match chance.happens(50) {
            true => format!(
                r#"{{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"Object{{metadata: Object.metadata{{annotations: {{'p{n}': request.operation}}}}}}"}}}}"#
            ),
            false => format!(
                r#"{{"patchType":"JSONPatch","jsonPatch":{{"expression":"has(object.metadata) && !has(object.metadata.annotations) ? [JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{'p{n}': 'yes'}}}}] : [JSONPatch{{op: 'add', path: '/metadata/annotations/p{n}', value: 'yes'}}]"}}}}"#
            ),
        };
        // Mutations that do not fit what they are about are not to refuse it.
        configured.add(
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            &name,
            &format!(
                r#""spec":{{"failurePolicy":"Ignore","reinvocationPolicy":"{reinvocation}","matchConstraints":{{{criteria}}}{conditions},"mutations":[{mutation}]}}"#
            ),
        );
        bindings(&mut chance, &mut configured, "Mutating", &name, "");
    }
    configured
}

/// One or two, with more to be met or not.
fn bindings(chance: &mut Chance, configured: &mut Configured, phase: &str, policy: &str, actions: &str) {
    let plural = format!("{}admissionpolicybindings", phase.to_lowercase());
    for n in 0..1 + chance.below(2) {
        let matched = match chance.below(4) {
            0 => format!(r#","matchResources":{{{}}}"#, criteria(chance, "resourceRules", true)),
            1 => format!(r#","matchResources":{{"namespaceSelector":{}}}"#, chance.pick(NAMESPACE_SELECTORS)),
            2 => format!(r#","matchResources":{{"objectSelector":{}}}"#, chance.pick(SELECTORS)),
            _ => String::new(),
        };
        configured.add(
            &format!("{phase}AdmissionPolicyBinding"),
            &plural,
            &format!("{policy}-{n}"),
            &format!(r#""spec":{{"policyName":"{policy}"{actions}{matched}}}"#),
        );
    }
}
