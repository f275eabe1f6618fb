//! Flow schemas: which requests belong to which priority level. The two mandatory ones are fixed.

mod columns;
mod defaults;

use object::Value;

use crate::check::internal::{Field, Go, NULL, TEXT, internal};
use crate::check::{Errors, Path, Raw, Seen, flag, int, items, member, text, texts};
use crate::generic::GenericKind;
use crate::rules::{Generation, Rules, StatusMeta};
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::KeepWhole),
    check,
)
.with_defaults(defaults::apply)
.with_printer(&columns::PRINTER);

const PRECEDENCE_MAX: i64 = 10_000;
#[rustfmt::skip]
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const KINDS: [&str; 3] = ["Group", "ServiceAccount", "User"];

const EXEMPT: &str = r#"{"priorityLevelConfiguration":{"name":"exempt"},"matchingPrecedence":1,"rules":[{"subjects":[{"kind":"Group","group":{"name":"system:masters"}}],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}"#;
const CATCH_ALL: &str = r#"{"priorityLevelConfiguration":{"name":"catch-all"},"matchingPrecedence":10000,"distinguisherMethod":{"type":"ByUser"},"rules":[{"subjects":[{"kind":"Group","group":{"name":"system:unauthenticated"}},{"kind":"Group","group":{"name":"system:authenticated"}}],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}"#;

const METHOD: [Field; 1] = [("type", "Type", TEXT)];
const NAMED: [Field; 1] = [("name", "Name", TEXT)];
const SCHEMA: [Field; 4] = [
    ("priorityLevelConfiguration", "PriorityLevelConfiguration", Go::Struct(&NAMED)),
    ("matchingPrecedence", "MatchingPrecedence", Go::Leaf("0")),
    ("distinguisherMethod", "DistinguisherMethod", Go::Pointer(&METHOD)),
    ("rules", "Rules", Go::List(&RULE)),
];
const RULE: [Field; 3] = [
    ("subjects", "Subjects", Go::List(&SUBJECT)),
    ("resourceRules", "ResourceRules", Go::List(&RESOURCE)),
    ("nonResourceRules", "NonResourceRules", Go::List(&URLS)),
];
const SUBJECT: [Field; 4] = [
    ("kind", "Kind", TEXT),
    ("user", "User", Go::Pointer(&NAMED)),
    ("group", "Group", Go::Pointer(&NAMED)),
    ("serviceAccount", "ServiceAccount", Go::Pointer(&ACCOUNT)),
];
const ACCOUNT: [Field; 2] = [("namespace", "Namespace", TEXT), ("name", "Name", TEXT)];
const RESOURCE: [Field; 5] = [
    ("verbs", "Verbs", NULL),
    ("apiGroups", "APIGroups", NULL),
    ("resources", "Resources", NULL),
    ("clusterScope", "ClusterScope", Go::Leaf("false")),
    ("namespaces", "Namespaces", NULL),
];
const URLS: [Field; 2] = [("verbs", "Verbs", NULL), ("nonResourceURLs", "NonResourceURLs", NULL)];

fn check(write: &Write<'_>, errors: &mut Errors) {
    if !write.is_status() {
        write.check_whole_metadata(errors);
        let name = write.new.str_at(&["metadata", "name"]).unwrap_or_default();
        let spec = write.spec();
        check_spec(name, spec, errors);
        let fixed = match name {
            "exempt" => Some(EXEMPT),
            "catch-all" => Some(CATCH_ALL),
            _ => None,
        };
        if fixed.is_some_and(|fixed| !is(spec, fixed)) {
            let detail = format!("spec of '{name}' must equal the fixed value");
            errors.invalid(&SPEC, Raw(&internal(Some(spec), &SCHEMA)), detail);
        }
    }
    check_conditions(write.status(), errors);
}

/// Whether it is what this JSON says.
pub(crate) fn is(spec: &Value, fixed: &str) -> bool {
    codec::json::parse(fixed.as_bytes(), None).is_ok_and(|fixed| crate::same(Some(spec), Some(&fixed)))
}

/// Conditions of flow control: a type each, none twice.
pub(crate) fn check_conditions(status: &Value, errors: &mut Errors) {
    let list = STATUS.child("conditions");
    let conditions = items(status, "conditions");
    let mut seen = Seen::default();
    for (i, condition) in conditions.iter().enumerate() {
        let at = list.index(i);
        let kind = text(condition, "type");
        if seen.again(kind) {
            errors.duplicate(&at.child("type"), kind);
        }
        errors.need(&at, condition, "type");
    }
}

fn check_spec(name: &str, spec: &Value, errors: &mut Errors) {
    let at = SPEC.child("matchingPrecedence");
    let precedence = int(spec, "matchingPrecedence").unwrap_or(0);
    if precedence <= 0 {
        errors.invalid(&at, precedence, "must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        errors.invalid(&at, precedence, format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && name != "exempt" {
        errors.invalid(&at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = member(spec, "distinguisherMethod")
        && !["ByNamespace", "ByUser"].contains(&text(method, "type"))
    {
        let at = SPEC.child("distinguisherMethod");
        let shown = internal(Some(method), &METHOD);
        errors.not_supported(&at.child("type"), Raw(&shown), &["ByNamespace", "ByUser"]);
    }
    let at = SPEC.child("priorityLevelConfiguration");
    let none = Value::Null;
    match text(spec.get("priorityLevelConfiguration").unwrap_or(&none), "name") {
        "" => errors.required(&at.child("name"), "must reference a priority level"),
        level => errors.subdomain(&at.child("name"), level),
    }
    for (i, rule) in items(spec, "rules").iter().enumerate() {
        check_rule(rule, &SPEC.child("rules").index(i), errors);
    }
}

fn check_rule(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    if items(rule, "subjects").is_empty() {
        errors.required(&at.child("subjects"), "subjects must contain at least one value");
    }
    for (i, subject) in items(rule, "subjects").iter().enumerate() {
        check_subject(subject, &at.child("subjects").index(i), errors);
    }
    if items(rule, "resourceRules").is_empty() && items(rule, "nonResourceRules").is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.required(at, detail);
    }
    for (i, rule) in items(rule, "resourceRules").iter().enumerate() {
        check_resources(rule, &at.child("resourceRules").index(i), errors);
    }
    for (i, rule) in items(rule, "nonResourceRules").iter().enumerate() {
        check_urls(rule, &at.child("nonResourceRules").index(i), errors);
    }
}

fn check_subject(subject: &Value, at: &Path<'_>, errors: &mut Errors) {
    let kind = text(subject, "kind");
    // Upstream looks at its own kind first, then at the others in this order.
    let members = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let Some((_, own)) = members.iter().find(|(k, _)| *k == kind) else {
        return errors.not_supported(&at.child("kind"), kind, &KINDS);
    };
    let own_at = at.child(own);
    match member(subject, own) {
        None => errors.required(&own_at, &format!("{own} is required when subject kind is '{kind}'")),
        Some(account) if kind == "ServiceAccount" => {
            match text(account, "name") {
                "" => errors.required(&own_at.child("name"), ""),
                "*" => {}
                name => errors.subdomain(&own_at.child("name"), name),
            }
            match text(account, "namespace") {
                "" => {
                    let detail = "must specify namespace for service account";
                    errors.required(&own_at.child("namespace"), detail);
                }
                namespace => errors.dns_label(&own_at.child("namespace"), namespace),
            }
        }
        Some(named) => errors.need(&own_at, named, "name"),
    }
    for (of, name) in members.iter().filter(|(_, name)| name != own && member(subject, name).is_some()) {
        let detail = format!("{name} is forbidden when subject kind is not '{of}'");
        errors.forbidden(&at.child(name), detail);
    }
}

fn check_verbs(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let verbs: Vec<&str> = texts(rule, "verbs").collect();
    let at = at.child("verbs");
    if verbs.is_empty() {
        errors.required(&at, "verbs must contain at least one value");
    } else if verbs.contains(&"*") {
        if verbs.len() > 1 {
            errors.invalid(&at, rule.get("verbs"), "if '*' is present, must not specify other verbs");
        }
    } else if verbs.iter().any(|verb| !VERBS.contains(verb)) {
        errors.not_supported(&at, rule.get("verbs"), &VERBS);
    }
}

fn check_urls(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    check_verbs(rule, at, errors);
    let at = at.child("nonResourceURLs");
    let urls: Vec<&str> = texts(rule, "nonResourceURLs").collect();
    if urls.is_empty() {
        return errors.required(&at, "nonResourceURLs must contain at least one value");
    }
    if urls.contains(&"*") {
        if urls.len() > 1 {
            let detail = "if '*' is present, must not specify other non-resource URLs";
            errors.invalid(&at, rule.get("nonResourceURLs"), detail);
        }
        return;
    }
    for (i, url) in urls.iter().enumerate() {
        let stars = url.matches('*').count();
        let problem = match *url {
            "" => "must not be empty",
            "/" => continue,
            url if !url.starts_with('/') => "must start with slash",
            url if url.contains(' ') => "must not contain white-space",
            url if url.contains("//") => "must not contain double slash",
            url if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
                "wildcard can only do suffix matching"
            }
            _ => continue,
        };
        errors.invalid(&at.index(i), *url, problem);
    }
}

fn check_resources(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    check_verbs(rule, at, errors);
    for (name, one, words) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let all = items(rule, name);
        if all.is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.required(&at.child(name), &detail);
        } else if all.len() > 1 && all.iter().any(|v| v.as_str() == Some("*")) {
            let detail = format!("if '*' is present, must not specify other {words}");
            errors.invalid(&at.child(name), rule.get(name), detail);
        }
    }
    let at = at.child("namespaces");
    let namespaces: Vec<&str> = texts(rule, "namespaces").collect();
    if namespaces.is_empty() && !flag(rule, "clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(&at, detail);
    } else if namespaces.contains(&"*") {
        if namespaces.len() > 1 {
            let detail = "if '*' is present, must not specify other namespaces";
            errors.invalid(&at, rule.get("namespaces"), detail);
        }
    } else {
        for (i, namespace) in namespaces.iter().enumerate() {
            for problem in object::validate_text::dns1123_label(namespace) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                errors.invalid(&at.index(i), *namespace, detail);
            }
        }
    }
}
