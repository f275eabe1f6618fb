//! Definitions that are refused or accepted, without being stored: those of `data/definitions.jsonl`, and every keyword of
//! a schema beside every type and in every place.
//!
//! A row has `schema`, that of the member `value`; or `root`, that of the whole object; or `spec`, members of the definition's
//! spec (null takes one away); or `merge`, a merge patch for an existing definition, and nothing else.

use object::Value;

use super::definition::{COLLECTION, ONE, close, of_value, open, widgets, with_schema, with_spec};
use super::{name_of, rows, scenario};
use crate::case::{MERGE, Scenario, Step, parse, text_of};

const ROWS: &str = include_str!("../../../data/definitions.jsonl");

const TYPES: &[&str] = &["object", "array", "string", "integer", "number", "boolean", "null", ""];

/// Members of a schema, one at a time. The keyword decides which types and places have a say in it.
const KEYWORDS: &[&str] = &[
    r#""title":"t""#,
    r#""description":"d""#,
    r#""format":"int32""#,
    r#""format":"date-time""#,
    r#""format":"nonsense""#,
    r#""default":1"#,
    r#""default":"a""#,
    r#""default":{"a":1}"#,
    r#""default":[]"#,
    r#""default":null"#,
    r#""maximum":5,"exclusiveMaximum":true"#,
    r#""minimum":1,"exclusiveMinimum":true"#,
    r#""exclusiveMinimum":true"#,
    r#""maxLength":5"#,
    r#""minLength":-1"#,
    r#""pattern":"^a$""#,
    r#""pattern":"(""#,
    r#""maxItems":3"#,
    r#""minItems":-1"#,
    r#""uniqueItems":true"#,
    r#""uniqueItems":false"#,
    r#""multipleOf":2"#,
    r#""multipleOf":-2"#,
    r#""enum":["a","b"]"#,
    r#""enum":[1,1]"#,
    r#""enum":[]"#,
    r#""maxProperties":2"#,
    r#""minProperties":1"#,
    r#""required":["a"]"#,
    r#""required":["a","a",""]"#,
    r#""items":{"type":"string"}"#,
    r#""items":[{"type":"string"}]"#,
    r#""items":{}"#,
    r#""allOf":[{"minimum":1}]"#,
    r#""allOf":[{"type":"string"}]"#,
    r#""anyOf":[{"type":"integer"},{"type":"string"}]"#,
    r#""oneOf":[{"required":["a"]},{"properties":{"a":{"type":"string"}}}]"#,
    r#""not":{"enum":["a"]}"#,
    r#""not":{"default":1}"#,
    r#""properties":{"a":{"type":"string"}}"#,
    r#""properties":{"a":{}}"#,
    r#""properties":{}"#,
    r#""additionalProperties":{"type":"string"}"#,
    r#""additionalProperties":true"#,
    r#""additionalProperties":false"#,
    r#""additionalProperties":{}"#,
    r#""properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}"#,
    r#""patternProperties":{"a":{"type":"string"}}"#,
    r#""dependencies":{"a":["b"]}"#,
    r#""additionalItems":true"#,
    r#""definitions":{"a":{"type":"string"}}"#,
    r#""$ref":"x""#,
    r#""$schema":"x""#,
    r#""id":"x""#,
    r#""externalDocs":{"url":"u","description":"d"}"#,
    r#""example":{"a":1}"#,
    r#""nullable":true"#,
    r#""x-kubernetes-preserve-unknown-fields":true"#,
    r#""x-kubernetes-preserve-unknown-fields":false"#,
    r#""x-kubernetes-embedded-resource":true"#,
    r#""x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true"#,
    r#""x-kubernetes-int-or-string":true"#,
    r#""x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]"#,
    r#""x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"pattern":"a"}]"#,
    r#""x-kubernetes-list-type":"set""#,
    r#""x-kubernetes-list-type":"atomic""#,
    r#""x-kubernetes-list-type":"map""#,
    r#""x-kubernetes-list-type":"nonsense""#,
    r#""x-kubernetes-list-map-keys":["a"]"#,
    r#""x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#,
    r#""x-kubernetes-map-type":"granular""#,
    r#""x-kubernetes-map-type":"atomic""#,
    r#""x-kubernetes-map-type":"nonsense""#,
    r#""x-kubernetes-validations":[{"rule":"true"}]"#,
    r#""x-kubernetes-validations":[{"rule":"self == 1"}]"#,
    r#""x-kubernetes-validations":[{"rule":"self == oldSelf"}]"#,
    r#""x-kubernetes-validations":[{"rule":"self.a == 'x'"}]"#,
    r#""x-kubernetes-validations":[{"rule":"nonsense("}]"#,
    r#""x-kubernetes-validations":[{"rule":""}]"#,
    r#""x-kubernetes-validations":[{"rule":"true"},{"rule":"true"}]"#,
    r#""x-nonsense":1"#,
    r#""nonsense":1"#,
];

/// Where a schema can stand, around `SCHEMA`.
const PLACES: &[(&str, &str)] = &[
    ("a property", r#"{"type":"object","properties":{"p":SCHEMA}}"#),
    ("items", r#"{"type":"array","items":SCHEMA}"#),
    ("bounded items", r#"{"type":"array","maxItems":3,"items":SCHEMA}"#),
    ("set items", r#"{"type":"array","x-kubernetes-list-type":"set","items":SCHEMA}"#),
    ("additional properties", r#"{"type":"object","additionalProperties":SCHEMA}"#),
    ("allOf", r#"{"type":"string","allOf":[SCHEMA]}"#),
    ("anyOf", r#"{"type":"string","anyOf":[SCHEMA]}"#),
    ("oneOf", r#"{"type":"string","oneOf":[SCHEMA]}"#),
    ("not", r#"{"type":"string","not":SCHEMA}"#),
    (
        "a preserved object",
        r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"p":SCHEMA}}"#,
    ),
    (
        "an embedded resource",
        r#"{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"metadata":SCHEMA}}"#,
    ),
    (
        "a nullable property",
        r#"{"type":"object","nullable":true,"properties":{"p":SCHEMA},"default":{"p":"a"}}"#,
    ),
];

pub fn scenarios() -> Vec<Scenario> {
    let mut written = open(&with_spec(&Value::map()), &widgets("v1", true)).to_vec();
    for row in rows(ROWS) {
        let name = name_of(&row);
        if let Some(patch) = row.get("merge") {
            written.push(Step::text(name, "PATCH", format!("{ONE}?dryRun=All"), MERGE, text_of(patch)));
            continue;
        }
        let definition = match (row.get("schema"), row.get("root"), row.get("spec")) {
            (Some(schema), ..) => with_schema(&of_value(schema)),
            (_, Some(root), _) => with_schema(root),
            (.., spec) => with_spec(spec.unwrap_or(&Value::Null)),
        };
        written.extend(both(&name, definition));
    }
    written.push(close());
    let types = TYPES.iter().flat_map(|ty| {
        KEYWORDS.iter().map(move |keyword| match *ty {
            "" => format!("{{{keyword}}}"),
            ty => format!(r#"{{"type":"{ty}",{keyword}}}"#),
        })
    });
    let places = PLACES.iter().flat_map(|(_, around)| {
        KEYWORDS.iter().map(move |keyword| around.replace("SCHEMA", &format!("{{{keyword}}}")))
    });
    let product = |name: &str, schemas: &mut dyn Iterator<Item = String>| {
        let step = |text: String| {
            let schema = parse(&text).unwrap_or_else(|| panic!("schemas are JSON, a test says so: {text}"));
            let definition = fresh(with_schema(&of_value(&schema)));
            Step::with(text, "POST", format!("{COLLECTION}?dryRun=All"), &definition)
        };
        scenario(name, schemas.map(step).collect())
    };
    vec![
        scenario("definitions", written),
        product("keywords by type", &mut { types }),
        product("keywords by place", &mut { places }),
    ]
}

/// A definition as a new one, and as a change of the one there is. A scope and a group never change.
fn both(name: &str, definition: Value) -> [Step; 2] {
    let mut changed = definition.clone();
    changed.map_at(&["metadata"]).set("resourceVersion", "$RV");
    [
        Step::with(format!("create, {name}"), "POST", format!("{COLLECTION}?dryRun=All"), &fresh(definition)),
        Step::with(format!("change, {name}"), "PUT", format!("{ONE}?dryRun=All"), &changed),
    ]
}

/// Under a name that is not taken.
fn fresh(definition: Value) -> Value {
    let text = text_of(&definition).replace("$NS.example.com", "$NS.example.org");
    parse(&text).unwrap_or(definition)
}
