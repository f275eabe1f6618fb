//! Every field of every type, once, with a value that its schema may refuse.

use catalog::{Field, Resource, Schema, Shape, TypeId};

use crate::case::{APPLY, Fnv, Scenario, Step, text_of};
use crate::generate::fields::Walked;
use crate::generate::path::{PathElement, set};
use crate::kinds::{Sample, Target};

/// Fields deeper than this are of types that nest in themselves.
const DEEPEST: usize = 24;

pub fn scenario(sample: &Sample, resource: &Resource, schema: &Schema, walked: &mut Walked) -> Scenario {
    let target = Target::from(resource);
    let mut walk = Walk {
        schema,
        base: sample.object(&target, "y"),
        path: format!("{}/{}?fieldManager=one&dryRun=All", target.collection(), sample.name(&target, "y")),
        walked,
        steps: Vec::new(),
    };
    walk.fields_of(resource.ty, &mut Vec::new());
    Scenario {
        name: format!("{} apply fields", sample.resource),
        resource: sample.resource.clone(),
        custom: false,
        steps: walk.steps,
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    base: object::Value,
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
            if place.is_empty() && matches!(field.name.as_str(), "kind" | "apiVersion") {
                continue;
            }
            place.push(PathElement::Member(field.name.clone()));
            self.values(field, place);
            let depth = place.len();
            if let Some(ty) = PathElement::push_inside(&field.shape, place) {
                self.fields_of(ty, place);
            }
            place.truncate(depth - 1);
        }
    }

    /// One of the values for scalars, the same one every time; all of them for lists, whose kinds differ.
    fn values(&mut self, field: &Field, place: &[PathElement]) {
        let (values, all): (&[&str], bool) = match &field.shape {
            Shape::String => (&["1", "true", "{}", "[]", "null", "\"ok\"", "\"\""], false),
            Shape::Bool => (&["\"yes\"", "1", "{}", "true", "null"], false),
            // No number above 64 bits: what Go makes of one depends on the processor.
            Shape::Int32 | Shape::Int64 => {
                (&["\"text\"", "1.5", "{}", "true", "7", "0", "null", "2147483648"], false)
            }
            Shape::Float64 => (&["\"text\"", "{}", "1"], false),
            Shape::Bytes => (&["\"!!!\"", "5", "\"YQ==\""], false),
            Shape::Time | Shape::MicroTime => {
                (&["\"yesterday\"", "5", "\"2020-01-01T00:00:00Z\"", "null"], false)
            }
            Shape::Duration => (&["\"long\"", "5", "\"1h\""], false),
            Shape::Quantity => (&["\"1x\"", "{}", "true", "1", "0.5", "\"1.5Gi\""], false),
            Shape::IntOrString => (&["true", "{}", "[]", "1.5", "\"x\"", "1"], false),
            Shape::Struct(_) => (&["\"text\"", "[]", "{\"bogus\":1}", "null", "{}"], false),
            Shape::List(of) => match **of {
                Shape::String => (&["[1]", "\"x\"", "[\"a\",\"a\"]", "[null]", "[]"], true),
                Shape::Struct(_) => {
                    (&["{}", "[\"x\"]", "[{}]", "[{},{}]", "[null]", "[]", "[{\"bogus\":1}]"], true)
                }
                _ => (&["{}", "[[]]", "[1,1]", "[null]"], true),
            },
            Shape::Map(of) => match **of {
                Shape::String => (&["{\"k\":1}", "[]", "\"x\"", "{\"k\":null}"], true),
                Shape::Quantity => (&["{\"cpu\":\"1x\"}", "[]", "{\"cpu\":true}", "{\"cpu\":1}"], true),
                _ => (&["[]", "{\"k\":true}", "{\"k\":null}"], true),
            },
            Shape::Any => (&["{\"a\":1}", "null", "5", "[{\"a\":[1]}]"], true),
        };
        let path = PathElement::text(place);
        let pick = Fnv::of(&format!("apply {path} {}", self.path)).number() as usize % values.len();
        for (at, text) in values.iter().enumerate() {
            if !all && at != pick {
                continue;
            }
            let Some(value) = crate::case::parse(text) else { continue };
            let mut body = self.base.clone();
            set(&mut body, place, value);
            self.steps.push(Step::text(format!("{path}={text}"), "PATCH", &self.path, APPLY, text_of(&body)));
        }
    }
}
