//! The objects cases start from: the smallest valid one of every stored resource, and richer ones of some.

use catalog::{Catalog, Resource, Verbs};
use object::Value;

use crate::case::parse;

const MINIMAL: &str = include_str!("../data/minimal.jsonl");
const RICH: &str = include_str!("../data/rich.jsonl");

/// What a request must know of a resource, built in or custom.
pub struct Target {
    /// `apps/v1`.
    pub api_version: String,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
    pub status: bool,
    pub scale: bool,
    pub delete_collection: bool,
    pub custom: bool,
}

impl From<&Resource> for Target {
    fn from(resource: &Resource) -> Target {
        Target {
            api_version: resource.api_version(),
            plural: resource.plural.to_string(),
            kind: resource.kind.to_string(),
            namespaced: resource.namespaced,
            status: resource.subresource("status").is_some(),
            scale: resource.subresource("scale").is_some(),
            delete_collection: resource.verbs.contains(Verbs::DELETE_COLLECTION),
            custom: false,
        }
    }
}

impl Target {
    /// The path of the collection; namespaced ones in the scenario's namespace.
    pub fn collection(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let namespace = if self.namespaced { "/namespaces/$NS" } else { "" };
        format!("/{root}/{}{namespace}/{}", self.api_version, self.plural)
    }
}

/// An object as a data file has it.
pub struct Sample {
    /// `apps/v1 deployments`.
    pub resource: String,
    /// What tells two samples of one resource apart; empty for the smallest one.
    pub label: String,
    /// The pattern of its names when not any name will do.
    name: Option<String>,
    pub body: Value,
    pub status: Option<Value>,
}

/// The smallest valid object of every stored resource, in the order of the file.
pub fn minimal() -> Vec<Sample> {
    read(MINIMAL)
}

/// Objects with most of their fields set.
pub fn rich() -> Vec<Sample> {
    read(RICH)
}

fn read(text: &str) -> Vec<Sample> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let row = parse(line)
                .unwrap_or_else(|| panic!("the embedded samples are JSON, a test says so: {line}"));
            let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
            Sample {
                resource: text("resource").expect("every embedded sample names its resource"),
                label: text("label").unwrap_or_default(),
                name: text("name"),
                body: row.get("body").cloned().unwrap_or(Value::map()),
                status: row.get("status").cloned(),
            }
        })
        .collect()
}

impl Sample {
    pub fn new(resource: &str, body: Value, status: Option<Value>) -> Sample {
        Sample { resource: resource.to_owned(), label: String::new(), name: None, body, status }
    }

    pub fn resource<'c>(&self, catalog: &'c Catalog) -> Option<&'c Resource> {
        let (api_version, plural) = self.resource.split_once(' ')?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        catalog.find(group, version, plural).map(|resource| &**resource)
    }

    /// Names of these say what is inside; none can be generated.
    pub fn names_are_given(&self) -> bool {
        self.name.is_some()
    }

    /// What an object with this word as its own part of the name is called.
    pub fn name(&self, target: &Target, word: &str) -> String {
        match &self.name {
            Some(pattern) => marked(pattern, word),
            None if target.namespaced => word.to_owned(),
            None => format!("$RUN-{word}"),
        }
    }

    /// The whole object of that name.
    pub fn object(&self, target: &Target, word: &str) -> Value {
        let mut object = Value::map();
        let map = object.make_map();
        map.set("apiVersion", target.api_version.clone());
        map.set("kind", target.kind.clone());
        let mut metadata = self.body.get("metadata").cloned().unwrap_or(Value::map());
        metadata.make_map().set("name", self.name(target, word));
        map.set("metadata", metadata);
        for (name, value) in self.body.as_map().into_iter().flat_map(|m| m.iter()) {
            if name != "metadata" {
                map.set(name.clone(), replaced(value, word));
            }
        }
        object
    }
}

/// `$WORD` and `$NUMBER` (a number from 1 to 250 that belongs to the word) in names of a fixed form.
fn marked(text: &str, word: &str) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let letters: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
    let number = crate::case::Fnv::of(word).number() % 250 + 1;
    text.replace("$WORD", &letters).replace("$NUMBER", &number.to_string())
}

fn replaced(value: &Value, word: &str) -> Value {
    match value {
        Value::Str(text) => Value::Str(marked(text, word)),
        Value::List(items) => Value::List(items.iter().map(|v| replaced(v, word)).collect()),
        Value::Map(map) => {
            Value::Map(map.iter().map(|(name, v)| (name.clone(), replaced(v, word))).collect())
        }
        other => other.clone(),
    }
}
