//! An object that fits a schema, as far as one can tell without running its rules.

use object::{Map, Value};
use structural::Pattern;

/// Of what is deeper than this only what is required is made.
const RICH_DEPTH: usize = 3;
/// Schemas deeper than this are cut off: JSON nests no schema for ever, but bodies have bounds.
const DEEPEST: usize = 24;

/// Tried in turn where a string must match a pattern.
const TEXTS: &[&str] = &[
    "a",
    "abc",
    "a-b",
    "1",
    "10",
    "v1",
    "1h",
    "1h30m",
    "10m0s",
    "5m",
    "1Gi",
    "100m",
    "1.5",
    "50%",
    "example.com",
    "a.example.com",
    "https://example.com",
    "http://example.com/a",
    "example.com/a",
    "/a",
    "/",
    "a=b",
    "a/b",
    "A",
    "Abc",
    "true",
    "10.0.0.0/8",
    "10.0.0.1",
    "fd00::1",
    "2020-01-01T00:00:00Z",
    "2020-01-01",
    "* * * * *",
    "arn:aws:iam::123456789012:role/a",
    "i-0123456789",
    "sha256:0123456789012345678901234567890123456789012345678901234567890123",
    "00:11:22:33:44:55",
    "1.2.3",
    "v1.2.3",
    "a@example.com",
    "ssh://git@example.com/a",
    "oci://example.com/a",
    "5a5f7f3e-0000-4000-8000-000000000000",
    "AES",
    "80",
    "a:1",
    "example.com:443",
    "*.example.com",
    "UTC",
    "a_b",
    "ABC_DEF",
    "{}",
    "1d",
    "1s",
    "1ms",
    "0",
    "#",
    "a:b",
    "a b",
    "us-east-1",
    "subnet-0123456789",
    "vpc-0123456789",
    "ami-0123456789",
];

/// With what is required and nothing else.
pub fn required(schema: &Value) -> Value {
    root(schema, 0)
}

/// With every member of the upper levels.
pub fn rich(schema: &Value) -> Value {
    root(schema, RICH_DEPTH)
}

fn root(schema: &Value, rich: usize) -> Value {
    let mut object = value_of(schema, rich, 0);
    for own in ["apiVersion", "kind", "metadata", "status"] {
        object.make_map().remove(own);
    }
    object
}

fn value_of(schema: &Value, rich: usize, depth: usize) -> Value {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool) == Some(true);
    if let Some(first) = schema.get("enum").and_then(Value::as_list).and_then(|values| values.first()) {
        return first.clone();
    }
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if flag("x-kubernetes-int-or-string") {
        return 1i64.into();
    }
    match schema.str_at(&["type"]).unwrap_or("object") {
        _ if depth > DEEPEST => Value::Null,
        "string" => text_of(schema).into(),
        "integer" | "number" => number_of(schema),
        "boolean" => true.into(),
        "array" => {
            let least = schema.get("minItems").and_then(Value::as_int).unwrap_or(0).clamp(0, 4);
            let count = least.max(i64::from(rich > 0));
            let empty = Value::map();
            let items = schema.get("items").unwrap_or(&empty);
            (0..count).map(|_| value_of(items, rich.saturating_sub(1), depth + 1)).collect::<Vec<_>>().into()
        }
        _ => Value::Map(members_of(schema, rich, depth, flag("x-kubernetes-embedded-resource"))),
    }
}

fn members_of(schema: &Value, rich: usize, depth: usize, embedded: bool) -> Map {
    let mut members = Map::default();
    let properties = schema.get("properties").and_then(Value::as_map);
    let required = names_required(schema);
    for (name, property) in properties.into_iter().flat_map(|properties| properties.iter()) {
        if rich > 0 || required.contains(&name.as_str()) {
            members.set(name.clone(), value_of(property, rich.saturating_sub(1), depth + 1));
        }
    }
    if let Some(others) = schema.get("additionalProperties").filter(|others| others.as_map().is_some()) {
        let least = schema.get("minProperties").and_then(Value::as_int).unwrap_or(0).clamp(0, 4);
        for at in 0..least.max(i64::from(rich > 0)) {
            members.set(format!("k{at}"), value_of(others, rich.saturating_sub(1), depth + 1));
        }
    }
    if embedded {
        members.set("apiVersion", "v1");
        members.set("kind", "ConfigMap");
        let mut metadata = Map::default();
        metadata.set("name", "embedded");
        members.set("metadata", metadata);
    }
    members
}

/// What the schema requires, and what the first of its alternatives does.
fn names_required(schema: &Value) -> Vec<&str> {
    let alternatives = ["oneOf", "anyOf"].into_iter().filter_map(|name| schema.get(name)?.as_list()?.first());
    let all = schema.get("allOf").and_then(Value::as_list).unwrap_or_default();
    [schema]
        .into_iter()
        .chain(alternatives)
        .chain(all)
        .filter_map(|schema| schema.get("required")?.as_list())
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn text_of(schema: &Value) -> String {
    let bound = |name: &str| schema.get(name).and_then(Value::as_int).and_then(|n| usize::try_from(n).ok());
    let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength").unwrap_or(usize::MAX));
    let by_format = match schema.str_at(&["format"]).unwrap_or_default() {
        "date-time" => "2020-01-01T00:00:00Z",
        "date" => "2020-01-01",
        "duration" => "1h",
        "byte" => "YQ==",
        "email" => "a@example.com",
        "hostname" => "example.com",
        "ipv4" => "10.0.0.1",
        "ipv6" => "fd00::1",
        "cidr" => "10.0.0.0/8",
        "uri" => "https://example.com",
        "uuid" => "5a5f7f3e-0000-4000-8000-000000000000",
        _ => "a",
    };
    if let Some(pattern) = schema.str_at(&["pattern"]) {
        let pattern = Pattern::shared(pattern);
        let fits = |text: &&&str| (least..=most).contains(&text.len()) && pattern.is_match(text);
        return TEXTS.iter().find(fits).copied().unwrap_or("a").to_owned();
    }
    if by_format.len() >= least { by_format.to_owned() } else { "a".repeat(least.min(4096)) }
}

fn number_of(schema: &Value) -> Value {
    let least = schema.get("minimum").cloned();
    let most = schema.get("maximum").and_then(Value::as_int);
    let exclusive = schema.get("exclusiveMinimum").and_then(Value::as_bool) == Some(true);
    match least {
        Some(Value::Int(least)) => least.saturating_add(i64::from(exclusive)).into(),
        Some(least) => least,
        None => most.map_or(1, |most| most.min(1)).into(),
    }
}
