//! Every field of every type, once: with a value of a wrong type, and with a value of the right type that is odd.

use std::collections::BTreeSet;

use catalog::{Field, Resource, Schema, Shape, TypeId};
use object::Value;

use super::path::{PathElement, set};
use crate::case::{Fnv, Scenario, Step};
use crate::kinds::{Sample, Target};

/// Fields deeper than this are of types that nest in themselves.
const DEEPEST: usize = 24;

/// Types whose fields have had their turn, in whatever resource came first.
#[derive(Default)]
pub struct Walked(BTreeSet<TypeId>);

impl Walked {
    /// Whether this type has not had its turn.
    pub fn first(&mut self, ty: TypeId) -> bool {
        self.0.insert(ty)
    }
}

pub fn scenario(sample: &Sample, resource: &Resource, schema: &Schema, walked: &mut Walked) -> Scenario {
    let target = Target::from(resource);
    let mut walk = Walk {
        schema,
        base: sample.object(&target, "f"),
        path: format!("{}?dryRun=All", target.collection()),
        walked,
        steps: Vec::new(),
    };
    walk.fields_of(resource.ty, &mut Vec::new());
    Scenario {
        name: format!("{} fields", sample.resource),
        resource: sample.resource.clone(),
        custom: false,
        steps: walk.steps,
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    base: Value,
    path: String,
    walked: &'a mut Walked,
    steps: Vec<Step>,
}

impl Walk<'_> {
    fn fields_of(&mut self, ty: TypeId, place: &mut Vec<PathElement>) {
        if place.len() > DEEPEST || !self.walked.first(ty) {
            return;
        }
        for field in &self.schema.get(ty).fields {
            if place.is_empty() && matches!(field.name.as_str(), "kind" | "apiVersion")
                || field.name == *"managedFields"
            {
                continue;
            }
            place.push(PathElement::Member(field.name.clone()));
            // Decoding is one piece of code for all types: every third field shows it.
            if Fnv::of(&PathElement::text(place)).number().is_multiple_of(3) {
                self.wrong(field, place);
            }
            if place[0] != PathElement::Member("status".into()) {
                self.odd(field, place);
            }
            let depth = place.len();
            if let Some(ty) = PathElement::push_inside(&field.shape, place) {
                self.fields_of(ty, place);
            }
            place.truncate(depth - 1);
        }
    }

    fn wrong(&mut self, field: &Field, place: &[PathElement]) {
        let values: &[&str] = match &field.shape {
            Shape::String => &["1", "true", "{}", "[]"],
            Shape::Bool => &["\"yes\"", "1", "{}"],
            Shape::Int32 | Shape::Int64 => &["\"text\"", "1.5", "{}", "true", "99999999999999999999"],
            Shape::Float64 => &["\"text\"", "{}"],
            Shape::Bytes => &["\"!!!\"", "5"],
            Shape::Time | Shape::MicroTime => &["\"yesterday\"", "5", "\"2020-13-01T00:00:00Z\""],
            Shape::Duration => &["\"long\"", "5"],
            Shape::Quantity => &["\"1x\"", "{}", "true"],
            Shape::IntOrString => &["true", "{}", "[]"],
            Shape::Struct(_) => &["\"text\"", "[]", "5"],
            Shape::List(of) => match **of {
                Shape::String => &["[1]", "\"x\"", "{}", "[{}]"],
                Shape::Struct(_) => &["{}", "[1]", "[\"x\"]", "\"x\""],
                _ => &["{}", "\"x\"", "[[]]"],
            },
            Shape::Map(of) => match **of {
                Shape::String => &["{\"k\":1}", "[]", "\"x\"", "{\"k\":{}}"],
                Shape::Quantity => &["{\"cpu\":\"1x\"}", "[]", "\"x\""],
                _ => &["[]", "\"x\"", "{\"k\":true}"],
            },
            Shape::Any => return,
        };
        self.step("wrong", place, values);
    }

    fn odd(&mut self, field: &Field, place: &[PathElement]) {
        let values: &[&str] = match &field.shape {
            Shape::String if !field.values.is_empty() => &["\"Nonsense\"", "\"\""],
            Shape::String => &["\"Bad Value!\"", "\"\"", "\"ok\"", "\"a.b/c\"", "\"-x\""],
            Shape::Bool => &["true"],
            Shape::Int32 => &["-1", "2147483647", "0", "65536"],
            Shape::Int64 => &["-1", "9223372036854775807", "0"],
            Shape::Float64 => &["0.5"],
            Shape::Bytes => &["\"YQ==\"", "\"\""],
            Shape::Time => &["\"2020-01-01T00:00:00Z\"", "null"],
            Shape::MicroTime => &["\"2020-01-01T00:00:00.000000Z\"", "null"],
            Shape::Duration => &["\"1h\"", "\"-5s\""],
            Shape::Quantity => &["\"-1\"", "\"1.5Gi\"", "0.1", "\"0\""],
            Shape::IntOrString => &["\"150%\"", "-1", "\"x\"", "0"],
            Shape::Struct(_) => &["{}", "null", "{\"bogus\":1}"],
            Shape::List(of) => match **of {
                Shape::String => &["[\"\"]", "[\"a\",\"a\"]", "[\"Bad Value!\"]", "[]"],
                Shape::Struct(_) => &["[{}]", "[{},{}]", "[]", "[null]"],
                _ => &["[]"],
            },
            Shape::Map(of) => match **of {
                Shape::String => {
                    &["{\"bad key!\":\"v\"}", "{\"k\":\"bad value!\"}", "{\"\":\"\"}", "{\"k\":null}"]
                }
                Shape::Quantity => &["{\"cpu\":\"-1\"}", "{\"nonsense\":\"1\"}", "{\"memory\":\"1.5\"}"],
                Shape::Bytes => &["{\"bad key!\":\"YQ==\"}", "{\"k\":\"\"}"],
                _ => &["{}", "{\"bad key!\":{}}"],
            },
            Shape::Any => &["{\"a\":1}", "null"],
        };
        self.step("odd", place, values);
    }

    /// One of the values, the same one every time.
    fn step(&mut self, what: &str, place: &[PathElement], values: &[&str]) {
        let path = PathElement::text(place);
        let pick = Fnv::of(&format!("{what} {path} {}", self.path)).number() as usize % values.len();
        let mut body = self.base.clone();
        let Some(value) = crate::case::parse(values[pick]) else { return };
        set(&mut body, place, value);
        self.steps.push(Step::with(format!("{what} {path}={}", values[pick]), "POST", &self.path, &body));
    }
}
