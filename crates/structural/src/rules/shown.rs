//! A schema the way upstream's messages show one: its own struct, with Go's names and a zero for what is absent.

use object::{Value, deep};

use crate::read::member;
use crate::show::show;

/// A schema of one empty member takes a thousand bytes to show: larger ones are shown as they were written.
const MAX_SCHEMAS: usize = 2000;

/// How Go holds a member.
#[derive(Clone, Copy)]
enum Held {
    Text,
    Flag,
    /// As JSON shows it; `null` when it is absent.
    Plain,
    Schema,
    Schemas,
    /// By name.
    Named,
    SchemaOrBool,
    SchemaOrList,
    /// By name, schemas or lists of names.
    Dependencies,
    Docs,
    Rules,
}

/// JSON's name and Go's, in Go's order.
const FIELDS: [(&str, &str, Held); 44] = [
    ("id", "ID", Held::Text),
    ("$schema", "Schema", Held::Text),
    ("$ref", "Ref", Held::Plain),
    ("description", "Description", Held::Text),
    ("type", "Type", Held::Text),
    ("nullable", "Nullable", Held::Flag),
    ("format", "Format", Held::Text),
    ("title", "Title", Held::Text),
    ("default", "Default", Held::Plain),
    ("maximum", "Maximum", Held::Plain),
    ("exclusiveMaximum", "ExclusiveMaximum", Held::Flag),
    ("minimum", "Minimum", Held::Plain),
    ("exclusiveMinimum", "ExclusiveMinimum", Held::Flag),
    ("maxLength", "MaxLength", Held::Plain),
    ("minLength", "MinLength", Held::Plain),
    ("pattern", "Pattern", Held::Text),
    ("maxItems", "MaxItems", Held::Plain),
    ("minItems", "MinItems", Held::Plain),
    ("uniqueItems", "UniqueItems", Held::Flag),
    ("multipleOf", "MultipleOf", Held::Plain),
    ("enum", "Enum", Held::Plain),
    ("maxProperties", "MaxProperties", Held::Plain),
    ("minProperties", "MinProperties", Held::Plain),
    ("required", "Required", Held::Plain),
    ("items", "Items", Held::SchemaOrList),
    ("allOf", "AllOf", Held::Schemas),
    ("oneOf", "OneOf", Held::Schemas),
    ("anyOf", "AnyOf", Held::Schemas),
    ("not", "Not", Held::Schema),
    ("properties", "Properties", Held::Named),
    ("additionalProperties", "AdditionalProperties", Held::SchemaOrBool),
    ("patternProperties", "PatternProperties", Held::Named),
    ("dependencies", "Dependencies", Held::Dependencies),
    ("additionalItems", "AdditionalItems", Held::SchemaOrBool),
    ("definitions", "Definitions", Held::Named),
    ("externalDocs", "ExternalDocs", Held::Docs),
    ("example", "Example", Held::Plain),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", Held::Plain),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", Held::Flag),
    ("x-kubernetes-int-or-string", "XIntOrString", Held::Flag),
    ("x-kubernetes-list-map-keys", "XListMapKeys", Held::Plain),
    ("x-kubernetes-list-type", "XListType", Held::Plain),
    ("x-kubernetes-map-type", "XMapType", Held::Plain),
    ("x-kubernetes-validations", "XValidations", Held::Rules),
];

pub(super) fn schema(value: &Value) -> String {
    let mut room = MAX_SCHEMAS;
    one(value, &mut room).unwrap_or_else(|| show(value))
}

/// `items` with several schemas.
pub(super) fn items(value: &Value) -> String {
    let mut room = MAX_SCHEMAS;
    field(Some(value), Held::SchemaOrList, &mut room).unwrap_or_else(|| show(value))
}

/// `None` when there are too many.
fn one(schema: &Value, room: &mut usize) -> Option<String> {
    *room = room.checked_sub(1)?;
    let mut members = Vec::with_capacity(FIELDS.len());
    for (json, go, held) in FIELDS {
        members.push(format!("\"{go}\":{}", deep(|| field(member(schema, json), held, room))?));
    }
    Some(format!("{{{}}}", members.join(",")))
}

fn field(value: Option<&Value>, held: Held, room: &mut usize) -> Option<String> {
    let Some(value) = value else {
        let zero = match held {
            Held::Text => "\"\"",
            Held::Flag => "false",
            _ => "null",
        };
        return Some(zero.to_owned());
    };
    Some(match held {
        Held::Text | Held::Flag | Held::Plain => show(value),
        Held::Schema => one(value, room)?,
        Held::Schemas => list(value, room)?,
        Held::Named => named(value, room, one)?,
        Held::SchemaOrBool => match value {
            Value::Bool(allowed) => format!("{{\"Allows\":{allowed},\"Schema\":null}}"),
            schema => format!("{{\"Allows\":true,\"Schema\":{}}}", one(schema, room)?),
        },
        Held::SchemaOrList => match value {
            Value::List(_) => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(value, room)?),
            schema => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", one(schema, room)?),
        },
        Held::Dependencies => named(value, room, |value, room| {
            Some(match value {
                Value::List(_) => format!("{{\"Schema\":null,\"Property\":{}}}", show(value)),
                schema => format!("{{\"Schema\":{},\"Property\":null}}", one(schema, room)?),
            })
        })?,
        Held::Docs => {
            let text = |name| member(value, name).map_or_else(|| "\"\"".to_owned(), show);
            format!("{{\"Description\":{},\"URL\":{}}}", text("description"), text("url"))
        }
        Held::Rules => {
            let rules = value.as_list().unwrap_or_default().iter().map(rule);
            format!("[{}]", rules.collect::<Vec<_>>().join(","))
        }
    })
}

fn list(value: &Value, room: &mut usize) -> Option<String> {
    let all = value.as_list().unwrap_or_default().iter().map(|schema| one(schema, room));
    Some(format!("[{}]", all.collect::<Option<Vec<_>>>()?.join(",")))
}

fn named(
    value: &Value,
    room: &mut usize,
    one: impl Fn(&Value, &mut usize) -> Option<String>,
) -> Option<String> {
    let mut all = Vec::new();
    for (name, value) in value.as_map().into_iter().flat_map(|map| map.iter()) {
        all.push((&**name, one(value, room)?));
    }
    all.sort_by_key(|(name, _)| *name);
    let all: Vec<String> =
        all.into_iter().map(|(name, value)| format!("{}:{value}", show(&Value::from(name)))).collect();
    Some(format!("{{{}}}", all.join(",")))
}

fn rule(rule: &Value) -> String {
    let or = |name, zero: &str| member(rule, name).map_or_else(|| zero.to_owned(), show);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        or("rule", "\"\""),
        or("message", "\"\""),
        or("messageExpression", "\"\""),
        or("reason", "null"),
        or("fieldPath", "\"\""),
        or("optionalOldSelf", "null"),
    )
}
