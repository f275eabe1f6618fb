//! Every value of an object taken away, broken, and changed afterwards: what validation and immutability are made of.

use object::Value;

use super::path::{PathElement, paths, remove, set};
use crate::case::{Fnv, Scenario, Step};
use crate::kinds::{Sample, Target};

pub fn scenario(sample: &Sample, target: &Target) -> Scenario {
    let label =
        if sample.label.is_empty() { "leaves".to_owned() } else { format!("{} leaves", sample.label) };
    Scenario {
        name: format!("{} {label}", sample.resource),
        resource: sample.resource.clone(),
        custom: false,
        steps: steps(sample, target),
    }
}

pub fn steps(sample: &Sample, target: &Target) -> Vec<Step> {
    // Cluster-wide objects of two samples must not meet.
    let label: String = sample.label.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = if label.is_empty() { "l".to_owned() } else { format!("l-{label}") };
    let body = sample.object(target, &word);
    let all = target.collection();
    let one = format!("{all}/{}", sample.name(target, &word));
    let mut steps = Vec::new();
    for (path, value) in content(&body) {
        let at = PathElement::text(&path);
        for (what, broken) in broken(&body, &path, &value) {
            steps.push(Step::with(
                format!("create, {at} {what}"),
                "POST",
                format!("{all}?dryRun=All"),
                &broken,
            ));
        }
    }
    steps.push(Step::with("create", "POST", &all, &body));
    steps.push(Step::new("get", "GET", &one));
    steps.push(Step::new("get as Table", "GET", &one).accept(crate::case::TABLE));
    for (path, value) in content(&body) {
        let at = PathElement::text(&path);
        for (what, mut changed) in changed(&body, &path, &value) {
            changed.map_at(&["metadata"]).set("resourceVersion", "$RV");
            steps.push(Step::with(
                format!("update, {at} {what}"),
                "PUT",
                format!("{one}?dryRun=All"),
                &changed,
            ));
        }
    }
    if let Some(status) = sample.status.as_ref().filter(|_| target.status) {
        let mut body = body;
        body.map_at(&["metadata"]).set("resourceVersion", "$RV");
        body.make_map().set("status", status.clone());
        let status_path = format!("{one}/status?dryRun=All");
        steps.push(Step::with("status", "PUT", &status_path, &body));
        for (path, value) in
            paths(&body).into_iter().filter(|(p, _)| p[0] == PathElement::Member("status".into()))
        {
            let at = PathElement::text(&path);
            for (what, broken) in broken(&body, &path, &value) {
                steps.push(Step::with(format!("status, {at} {what}"), "PUT", &status_path, &broken));
            }
        }
    }
    steps
}

/// What a case may change: not what says which object it is.
pub fn content(body: &Value) -> Vec<(Vec<PathElement>, Value)> {
    let own = |path: &[PathElement]| {
        path[0] == PathElement::Member("apiVersion".into())
            || path[0] == PathElement::Member("kind".into())
            || PathElement::text(path) == "metadata"
            || PathElement::text(path) == "metadata.name"
    };
    paths(body).into_iter().filter(|(path, _)| !own(path)).collect()
}

pub fn broken(body: &Value, path: &[PathElement], value: &Value) -> Vec<(String, Value)> {
    let mut out = vec![("removed".to_owned(), {
        let mut body = body.clone();
        remove(&mut body, path);
        body
    })];
    let texts: Vec<&str> = match value {
        Value::Str(text) if text.parse::<f64>().is_ok() => vec!["\"\"", "\"-1\"", "\"0\""],
        Value::Str(_) => vec!["\"\"", "\"Bad Value!\""],
        Value::Int(_) => vec!["0", "-1", "2147483647"],
        Value::Map(_) => vec!["{}"],
        Value::List(_) => vec!["[]"],
        Value::Bool(true) => vec!["false"],
        Value::Bool(false) => vec!["true"],
        _ => vec![],
    };
    // One of them, the same one every time: all would be several thousand requests more.
    let pick = Fnv::of(&PathElement::text(path)).number() as usize;
    if let Some(text) = texts.get(pick % texts.len().max(1)) {
        let mut body = body.clone();
        if let Some(value) = crate::case::parse(text).filter(|v| v != value) {
            set(&mut body, path, value);
            out.push((format!("={text}"), body));
        }
    }
    if let Value::List(items) = value
        && let Some(first) = items.first()
    {
        let mut body = body.clone();
        let doubled: Vec<Value> = std::iter::once(first.clone()).chain(items.iter().cloned()).collect();
        set(&mut body, path, doubled.into());
        out.push(("doubled".to_owned(), body));
    }
    out
}

pub fn changed(body: &Value, path: &[PathElement], value: &Value) -> Vec<(String, Value)> {
    let other: Value = match value {
        Value::Str(text) => format!("{text}x").into(),
        Value::Int(number) => (number + 1).into(),
        Value::Bool(flag) => (!flag).into(),
        _ => {
            let mut body = body.clone();
            remove(&mut body, path);
            return vec![("removed".to_owned(), body)];
        }
    };
    let mut body = body.clone();
    set(&mut body, path, other);
    vec![("changed".to_owned(), body)]
}
