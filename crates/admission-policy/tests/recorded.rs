//! Replays what upstream v1.36 made of policies: decisions, messages, audit annotations, costs and mutated objects have to be the same.
//!
//! `data/` has the inputs, the policies and the answers, one a line; `POLICY_ONLY` names one policy.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use admission_policy::{
    Action, Annotated, Authorization, Evaluation, Inputs, MutatingPolicy, MutationError, Outcome,
    ValidatingPolicy,
};
use cel::library::authz::{Attributes, Authorizer, Decision as Allowed, RequestResource, Subject, Target};
use managed_fields::TypeRef;
use object::Value;

/// Policies and inputs whose answers differ, and why.
const DIFFERENT: [(&str, &str, &str); 6] = [
    ("m041", "configmap", "Go prints the time with its fields"),
    ("m043", "configmap", "Go prints bytes in hexadecimal"),
    ("m050", "", "upstream names the type uint64, which no tree has"),
    ("m019", "generate", NIL),
    ("m020", "generate", NIL),
    ("m070", "generate", NIL),
];
const NIL: &str = "Go writes a list without elements as null, until the object is decoded again";

struct Case(Value);

impl Authorization for Case {
    fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::new(Rules)
    }
    fn request_resource(&self) -> RequestResource<'_> {
        let resource = self.0.get("resource").and_then(Value::as_list).unwrap();
        RequestResource {
            group: resource[0].as_str().unwrap(),
            resource: resource[2].as_str().unwrap(),
            subresource: self.0.str_at(&["subresource"]).unwrap_or_default(),
            namespace: self.0.str_at(&["namespace"]).unwrap_or_default(),
            name: self.0.str_at(&["name"]).unwrap_or_default(),
        }
    }
}

impl Case {
    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            request: self.0.get("request").unwrap(),
            object: self.0.get("object"),
            old_object: self.0.get("oldObject"),
            params: self.0.get("params"),
            namespace_object: self.0.get("namespaceObject").map(|value| value as _),
            authorizer: Some(self),
            interrupted: None,
        }
    }
}

/// `get` is allowed, `fail` fails.
struct Rules;

impl Authorizer for Rules {
    fn authorize(&self, attributes: &Attributes<'_>) -> Allowed {
        let what = match &attributes.target {
            Target::Path(path) => (*path).to_owned(),
            Target::Resource(r) => [r.group, r.resource, r.subresource, r.namespace, r.name].join("|"),
        };
        let user = match attributes.subject {
            Subject::User => "alice".to_owned(),
            Subject::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        };
        Allowed {
            allowed: attributes.verb == "get",
            reason: format!("{user} {} {what}", attributes.verb),
            error: (attributes.verb == "fail").then(|| "broken authorizer".to_owned()),
        }
    }
}

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| codec::json::parse(line.as_bytes(), None).unwrap()).collect()
}

fn by_id<T>(name: &str, make: impl Fn(&Value) -> T) -> HashMap<String, T> {
    lines(name).iter().map(|line| (line.str_at(&["id"]).unwrap().to_owned(), make(line))).collect()
}

fn text(value: &Value) -> String {
    String::from_utf8(codec::json::to_vec(value)).unwrap()
}

/// Names sorted, so that equal trees are equal texts.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Map(entries.into_iter().collect())
        }
        Value::List(list) => Value::List(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// What came of it, in the form of the record.
fn shown(
    matched: Result<bool, admission_policy::Decision>,
    validate: impl FnOnce() -> Outcome,
) -> (Value, bool) {
    let mut out = Value::map();
    let (outcome, no_match) = match matched {
        Ok(true) => (validate(), false),
        Ok(false) => (Outcome::default(), true),
        Err(decision) => (Outcome { decisions: vec![decision], ..Outcome::default() }, false),
    };
    let decisions = outcome.decisions.iter().map(|decision| {
        let mut one = Value::map();
        let map = one.make_map();
        map.set("index", decision.index as i64);
        map.set("action", if decision.action == Action::Deny { "deny" } else { "admit" });
        let denied = decision.evaluation == Evaluation::Deny;
        map.set("evaluation", if denied { "deny" } else { "error" });
        map.set("message", decision.message.as_str());
        if denied {
            map.set("reason", decision.reason.as_str());
        }
        one
    });
    let decisions: Vec<Value> = decisions.collect();
    if !decisions.is_empty() {
        out.make_map().set("decisions", Value::List(decisions));
    }
    let annotations = outcome.annotations.iter().map(|annotation| {
        let mut one = Value::map();
        let map = one.make_map();
        map.set("key", &*annotation.key);
        match &annotation.value {
            Annotated::Publish(value) => {
                map.set("action", "publish");
                map.set("value", value.as_str());
            }
            Annotated::Error(error) => {
                map.set("action", "error");
                map.set("error", error.as_str());
            }
        }
        one
    });
    let annotations: Vec<Value> = annotations.collect();
    if !annotations.is_empty() {
        out.make_map().set("annotations", Value::List(annotations));
    }
    (out, no_match)
}

fn report(failures: &[String], total: usize) {
    for failure in failures.iter().take(25) {
        println!("{failure}\n");
    }
    assert!(failures.is_empty(), "{} of {total} differ", failures.len());
}

fn is_wanted(policy: &str) -> bool {
    std::env::var("POLICY_ONLY").map_or(true, |only| only == policy)
}

#[test]
fn validating_policies_say_what_upstream_says() {
    let inputs = by_id("inputs.jsonl", |line| Case(line.clone()));
    let policies = by_id("validating-policies.jsonl", |line| {
        let spec = line.get("spec").unwrap();
        (ValidatingPolicy::compile(spec), spec.clone())
    });
    let (mut failures, mut total) = (Vec::new(), 0);
    for want in lines("validating.jsonl") {
        let (id, input) = (want.str_at(&["policy"]).unwrap(), want.str_at(&["input"]).unwrap());
        if !is_wanted(id) {
            continue;
        }
        total += 1;
        let (policy, spec) = &policies[id];
        let inputs = inputs[input].inputs();
        let budget = |name| want.get(name).and_then(Value::as_int).map(|budget| budget as u64);
        let limit = budget("budget").unwrap_or(admission_policy::BUDGET);
        let run = |limit| shown(policy.matches(&inputs), || policy.validate_within(&inputs, limit));
        let (got, no_match) = run(limit);
        let mut wrong = Vec::new();
        for name in ["decisions", "annotations"] {
            let (want, got) = (want.get(name).map(sorted), got.get(name).map(sorted));
            if want != got {
                let show =
                    |value: Option<Value>| value.map_or_else(|| "nothing".to_owned(), |value| text(&value));
                wrong.push(format!("{name}: want {}\n  got {}", show(want), show(got)));
            }
        }
        let has_validations =
            spec.get("validations").and_then(Value::as_list).is_some_and(|list| !list.is_empty());
        if want.get("noMatch").is_some() != (no_match && has_validations) {
            wrong.push(format!("no match: {no_match}"));
        }
        // The validations run out of any smaller budget.
        if let Some(cost) = budget("cost") {
            let out =
                |limit| text(&run(limit).0).contains("\"validation failed due to running out of cost budget");
            if out(cost) {
                wrong.push(format!("costs more than {cost}"));
            }
            if cost > 0 && !out(cost - 1) {
                wrong.push(format!("costs less than {cost}"));
            }
        }
        if !wrong.is_empty() {
            failures.push(format!("{id} {input} {}: {}", text(spec), wrong.join("; ")));
        }
    }
    assert!(total > 0);
    report(&failures, total);
}

#[test]
fn mutating_policies_make_what_upstream_makes() {
    let inputs = by_id("inputs.jsonl", |line| Case(line.clone()));
    let catalog = catalog::Catalog::builtin();
    let policies =
        by_id("mutating-policies.jsonl", |line| MutatingPolicy::compile(line.get("spec").unwrap()));
    let (mut failures, mut total) = (Vec::new(), 0);
    for want in lines("mutating.jsonl") {
        let (id, input) = (want.str_at(&["policy"]).unwrap(), want.str_at(&["input"]).unwrap());
        if !is_wanted(id)
            || DIFFERENT.iter().any(|(policy, of, _)| id == *policy && (of.is_empty() || input == *of))
        {
            continue;
        }
        total += 1;
        let (policy, case) = (&policies[id], &inputs[input]);
        let kind = case.0.get("kind").and_then(Value::as_list).unwrap();
        let kind = |at: usize| kind[at].as_str().unwrap();
        let ty = catalog.find_type(kind(0), kind(1), kind(2)).unwrap();
        let ty = TypeRef::built_in(catalog.schema(), ty);
        let before = case.0.get("object").unwrap();
        let got = match policy.matches(&case.inputs()) {
            Err(error) => Err(format!("match: {error}")),
            Ok(false) => Ok(None),
            Ok(true) => {
                let mut object = before.clone();
                let all = (0..policy.len()).try_for_each(|mutation| {
                    let inputs = Inputs { object: Some(&object), ..case.inputs() };
                    if let Some(changed) = policy.mutate(mutation, &inputs, ty)? {
                        object = changed;
                    }
                    Ok(())
                });
                all.map(|()| Some(object)).map_err(|error| match error {
                    MutationError::Failed(error) => error,
                    MutationError::Internal(error) => format!("Internal error occurred: {error}"),
                })
            }
        };
        let want_error = want.str_at(&["error"]);
        let same = match (&got, want_error) {
            // The rest is the object's text.
            (Err(got), Some(want)) if want.contains("Object 'Kind' is missing") => {
                want.starts_with(got.as_str())
            }
            (Err(got), Some(want)) => got == want,
            (Ok(None), None) => want.get("noMatch").is_some(),
            (Ok(Some(got)), None) => {
                let want = want.get("object").unwrap_or(before);
                text(&sorted(got)) == text(&sorted(want))
            }
            _ => false,
        };
        if !same {
            let got = match got {
                Ok(object) => text(&object.unwrap_or(Value::Null)),
                Err(error) => error,
            };
            failures.push(format!("{id} {input}: want {}\n  got {got}", text(&want)));
        }
    }
    assert!(total > 0);
    report(&failures, total);
}
