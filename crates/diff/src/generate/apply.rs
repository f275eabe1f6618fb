//! Server-side apply of one object: how it is created, refused, changed and given up, and who manages which field afterwards.
//!
//! ```text
//! requests     bodies and options that are refused, dry runs, field validation; the object is created
//! owners       two managers share fields, give them up, quarrel and force; updates and patches in between
//! managers     managedFields that clients send: cleared, broken, old; more of them than are kept
//! subresources status and scale
//! leaves       every value of an object changed by another manager, forced, given up, null
//! fields       every field of every type with a value that may not fit
//! versions     one object in two versions of its kind
//! ```

pub mod fields;
pub mod leaves;
mod managers;
mod owners;
mod requests;
mod subresources;
pub mod versions;

use object::Value;

use crate::case::{APPLY, MERGE, Scenario, Step, parse, text_of};
use crate::kinds::{Sample, Target};

pub fn scenario(sample: &Sample, target: &Target) -> Scenario {
    Scenario {
        name: format!("{} apply", sample.resource),
        resource: sample.resource.clone(),
        custom: false,
        steps: steps(sample, target),
    }
}

pub fn steps(sample: &Sample, target: &Target) -> Vec<Step> {
    let mut applies = Applies::new(sample, target, "p");
    applies.refusals();
    applies.creation();
    applies.owners();
    applies.quarrels();
    applies.updates_in_between();
    applies.metadata();
    applies.subresources();
    applies.sent_managers();
    applies.cleared_managers();
    applies.client_side();
    applies.many_managers();
    applies.end();
    applies.steps
}

/// A literal.
fn json(text: &str) -> Value {
    parse(text).expect("the literals of this module are JSON: a test makes every case")
}

/// The applies of one object.
struct Applies<'a> {
    sample: &'a Sample,
    target: &'a Target,
    /// The word its name is made from.
    word: String,
    /// The object's path.
    one: String,
    steps: Vec<Step>,
}

impl<'a> Applies<'a> {
    fn new(sample: &'a Sample, target: &'a Target, word: &str) -> Applies<'a> {
        let one = format!("{}/{}", target.collection(), sample.name(target, word));
        Applies { sample, target, word: word.to_owned(), one, steps: Vec::new() }
    }

    fn object(&self) -> Value {
        self.sample.object(self.target, &self.word)
    }

    /// The object with these labels.
    fn labelled(&self, labels: &[(&'static str, &str)]) -> Value {
        let mut object = self.object();
        for (name, value) in labels {
            object.map_at(&["metadata", "labels"]).set(*name, (*value).to_owned());
        }
        object
    }

    /// Only what says which object it is, and these labels.
    fn bare(&self, labels: &[(&'static str, &str)]) -> Value {
        let object = self.object();
        let mut bare = Value::map();
        for name in ["apiVersion", "kind"] {
            bare.make_map().set(name, object.get(name).cloned().unwrap_or(Value::Null));
        }
        bare.map_at(&["metadata"]).set("name", self.sample.name(self.target, &self.word));
        for (name, value) in labels {
            bare.map_at(&["metadata", "labels"]).set(*name, (*value).to_owned());
        }
        bare
    }

    /// `query` is what stands behind the manager's name: `two&force=true`.
    fn apply(&mut self, name: impl Into<String>, query: &str, body: &Value) {
        self.apply_to(name, "", query, text_of(body));
    }

    fn apply_to(&mut self, name: impl Into<String>, subresource: &str, query: &str, body: String) {
        let path = format!("{}{subresource}?fieldManager={query}", self.one);
        self.steps.push(Step::text(name, "PATCH", path, APPLY, body));
    }

    fn merge(&mut self, name: impl Into<String>, query: &str, body: &str) {
        let path = format!("{}?fieldManager={query}", self.one);
        self.steps.push(Step::text(name, "PATCH", path, MERGE, body));
    }

    fn put(&mut self, name: impl Into<String>, query: &str, body: &Value) {
        let mut body = body.clone();
        body.map_at(&["metadata"]).set("resourceVersion", "$RV");
        self.steps.push(Step::with(name, "PUT", format!("{}?fieldManager={query}", self.one), &body));
    }

    fn get(&mut self, name: impl Into<String>) {
        self.steps.push(Step::new(name, "GET", &self.one));
    }

    fn end(&mut self) {
        let body = self.labelled(&[("end", "1")]);
        // After all others in the alphabet: of changes within a second those are the oldest.
        self.merge("finalizer", "zz", r#"{"metadata":{"finalizers":["example.com/keep"]}}"#);
        self.steps.push(Step::new("delete", "DELETE", &self.one));
        self.apply("apply while dying", "late", &body);
        let mut more = body.clone();
        let finalizers: Vec<Value> = vec!["example.com/more".into()];
        more.map_at(&["metadata"]).set("finalizers", finalizers);
        self.apply("apply of a finalizer while dying", "late", &more);
        self.merge("last finalizer", "zz", r#"{"metadata":{"finalizers":null}}"#);
        self.steps.push(Step::text(
            "delete for good",
            "DELETE",
            &self.one,
            crate::case::JSON,
            r#"{"gracePeriodSeconds":0}"#,
        ));
        let mut gone = body;
        gone.map_at(&["metadata"]).set("uid", "$UID");
        self.apply("apply of what is gone, with its uid", "late", &gone);
    }
}
