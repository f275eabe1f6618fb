//! Every value of an object: changed by another manager, forced, given up by its own, and null.

use object::Value;

use super::Applies;
use crate::case::{Scenario, Step};
use crate::generate::leaves::{changed, content};
use crate::generate::path::{PathElement, paths, remove, set};
use crate::kinds::{Sample, Target};

pub fn scenario(sample: &Sample, target: &Target) -> Scenario {
    let label = if sample.label.is_empty() { String::new() } else { format!("{} ", sample.label) };
    Scenario {
        name: format!("{} {label}apply leaves", sample.resource),
        resource: sample.resource.clone(),
        custom: false,
        steps: steps(sample, target),
    }
}

pub fn steps(sample: &Sample, target: &Target) -> Vec<Step> {
    // Cluster-wide objects of two samples must not meet.
    let label: String = sample.label.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = if label.is_empty() { "w".to_owned() } else { format!("w-{label}") };
    let mut applies = Applies::new(sample, target, &word);
    let body = applies.object();
    applies.apply("create", "one", &body);
    applies.get("get");
    for (path, value) in content(&body) {
        let at = PathElement::text(&path);
        let is_leaf = !matches!(value, Value::Map(_) | Value::List(_));
        if is_leaf {
            for (what, changed) in changed(&body, &path, &value) {
                applies.apply(format!("{at} {what} by another"), "two&dryRun=All", &changed);
                applies.apply(format!("{at} {what}, forced"), "two&dryRun=All&force=true", &changed);
            }
        }
        let mut without = body.clone();
        remove(&mut without, &path);
        applies.apply(format!("{at} given up"), "one&dryRun=All", &without);
        let mut null = body.clone();
        set(&mut null, &path, Value::Null);
        applies.apply(format!("{at} null"), "one&dryRun=All", &null);
        if let Value::List(items) = &value {
            applies.lists(&at, &body, &path, items);
        }
    }
    applies.apply("all of it by another", "two", &body);
    applies.apply("given up by the first", "one", &applies.bare(&[]));
    applies.get("get after the first gave up");
    applies.apply("given up by both", "two", &applies.bare(&[]));
    if let Some(status) = sample.status.as_ref().filter(|_| target.status) {
        applies.statuses(status);
    }
    applies.steps
}

impl Applies<'_> {
    fn lists(&mut self, at: &str, body: &Value, path: &[PathElement], items: &[Value]) {
        let mut with = |what: &str, items: Vec<Value>| {
            let mut other = body.clone();
            set(&mut other, path, items.into());
            self.apply(format!("{at} {what}"), "one&dryRun=All", &other);
        };
        let Some(first) = items.first() else { return };
        with("doubled", std::iter::once(first.clone()).chain(items.iter().cloned()).collect());
        with("with null", items.iter().cloned().chain([Value::Null]).collect());
        if items.len() > 1 {
            with("reversed", items.iter().rev().cloned().collect());
        }
        if first.as_map().is_some() {
            with("with an empty item", items.iter().cloned().chain([Value::map()]).collect());
        }
    }

    fn statuses(&mut self, status: &Value) {
        let mut body = self.bare(&[]);
        body.make_map().set("status", status.clone());
        let send = |applies: &mut Self, name: String, query: &str, body: &Value| {
            applies.apply_to(name, "/status", query, crate::case::text_of(body));
        };
        send(self, "status".to_owned(), "stat", &body);
        let is_status =
            |path: &[PathElement]| path[0] == PathElement::Member("status".into()) && path.len() > 1;
        for (path, value) in paths(&body).into_iter().filter(|(path, _)| is_status(path)) {
            let at = PathElement::text(&path);
            for (what, changed) in changed(&body, &path, &value) {
                send(self, format!("{at} {what} by another"), "stat2&dryRun=All", &changed);
            }
            let mut without = body.clone();
            remove(&mut without, &path);
            send(self, format!("{at} given up"), "stat&dryRun=All", &without);
        }
    }
}
