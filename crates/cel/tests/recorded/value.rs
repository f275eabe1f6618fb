//! Values of cases: their inputs, and results as the cases write them.

use std::sync::Arc;

use cel::value::OwnedMap;
use cel::{Environment, Map, Timestamp, Type, Val};
use serde_json::{Value as Json, json};

/// `list(string)`, `map(int,dyn)`, `quantity`.
pub fn parse_type(text: &str) -> Type {
    let inner = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(')'));
    if let Some(element) = inner("list(") {
        return Type::list(parse_type(element));
    }
    if let Some(value) = inner("optional(") {
        return Type::optional(parse_type(value));
    }
    if let Some(entry) = inner("map(") {
        let (key, value) = entry.split_once(',').unwrap();
        return Type::map(parse_type(key.trim()), parse_type(value.trim()));
    }
    match text {
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "bool" => Type::Bool,
        "null" => Type::Null,
        "dyn" => Type::Dyn,
        "any" => Type::Any,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "quantity" => Type::object("kubernetes.Quantity"),
        "url" => Type::object("kubernetes.URL"),
        "semver" => Type::object("kubernetes.Semver"),
        "format" => Type::object("kubernetes.NamedFormat"),
        "ip" => Type::opaque("net.IP", []),
        "cidr" => Type::opaque("net.CIDR", []),
        other => panic!("type {other}"),
    }
}

pub fn to_object(json: &Json) -> object::Value {
    match json {
        Json::Null => object::Value::Null,
        Json::Bool(b) => object::Value::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(i) => object::Value::Int(i),
            None => object::Value::Float(n.as_f64().unwrap()),
        },
        Json::String(s) => object::Value::Str(s.clone()),
        Json::Array(items) => object::Value::List(items.iter().map(to_object).collect()),
        Json::Object(members) => object::Value::Map(
            members.iter().map(|(name, value)| (name.clone().into(), to_object(value))).collect(),
        ),
    }
}

/// The value of a variable that has a type instead of a schema.
pub fn typed_value<'a>(base: &Environment, json: &Json, object: &'a object::Value, ty: &str) -> Val<'a> {
    match ty {
        "dyn" | "any" => Val::dynamic(object),
        _ => from_json(base, json, &parse_type(ty)),
    }
}

fn from_json<'a>(base: &Environment, json: &Json, ty: &Type) -> Val<'a> {
    let text = || match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let made_by = |function: &str| {
        let expression = format!("{function}({})", json);
        let checked = base.compile(&expression).unwrap();
        let value = base.program(&checked).unwrap();
        match value.eval(&()).result.unwrap() {
            Val::Opaque(value) => Val::Opaque(value),
            other => panic!("{other:?}"),
        }
    };
    if let Some(inner) = ty.as_optional() {
        let value = json.as_array().unwrap().first().map(|value| from_json(base, value, inner));
        return Val::Optional(value.map(Arc::new));
    }
    match ty {
        Type::Int => Val::Int(text().parse().unwrap()),
        Type::Uint => Val::Uint(text().parse().unwrap()),
        Type::Double => Val::Double(match text().as_str() {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            other => other.parse().unwrap(),
        }),
        Type::String => Val::string(json.as_str().unwrap()),
        Type::Bytes => Val::bytes(decode_base64(json.as_str().unwrap())),
        Type::Bool => Val::Bool(json.as_bool().unwrap()),
        Type::Null => Val::Null,
        Type::Dyn | Type::Any => own_json(json),
        Type::Duration => Val::Duration(object::time::parse_duration(json.as_str().unwrap()).unwrap()),
        Type::Timestamp => Val::Timestamp(Timestamp::parse(json.as_str().unwrap()).unwrap()),
        Type::Type(_) => Val::Type(parse_type(json.as_str().unwrap())),
        Type::List(element) => {
            Val::list(json.as_array().unwrap().iter().map(|item| from_json(base, item, element)).collect())
        }
        Type::Map(entry) => match json {
            Json::Object(members) => members
                .iter()
                .map(|(name, value)| (Val::string(name.as_str()), from_json(base, value, &entry[1])))
                .collect::<OwnedMap>()
                .into(),
            pairs => pairs
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| (from_json(base, &pair[0], &entry[0]), from_json(base, &pair[1], &entry[1])))
                .collect::<OwnedMap>()
                .into(),
        },
        other => made_by(match other.name() {
            "kubernetes.Quantity" => "quantity",
            "kubernetes.URL" => "url",
            "kubernetes.Semver" => "semver",
            "net.IP" => "ip",
            "net.CIDR" => "cidr",
            name => panic!("a value of {name}"),
        }),
    }
}

fn own_json<'a>(json: &Json) -> Val<'a> {
    match json {
        Json::Null => Val::Null,
        Json::Bool(b) => Val::Bool(*b),
        Json::Number(n) => n.as_i64().map_or_else(|| Val::Double(n.as_f64().unwrap()), Val::Int),
        Json::String(s) => Val::string(s.as_str()),
        Json::Array(items) => Val::list(items.iter().map(own_json).collect()),
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| (Val::string(name.as_str()), own_json(value)))
            .collect::<OwnedMap>()
            .into(),
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = 0u32;
    let mut count = 0;
    let mut out = Vec::new();
    for c in text.chars().take_while(|c| *c != '=') {
        bits = bits << 6 | digits.find(c).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    out
}

fn encode_base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from(word[0]) << 16 | u32::from(word[1]) << 8 | u32::from(word[2]);
        for i in 0..4 {
            out.push(if i <= chunk.len() {
                digits[(bits >> (18 - 6 * i)) as usize & 63] as char
            } else {
                '='
            });
        }
    }
    out
}

/// A result, as the cases write it.
pub fn typed(value: &Val<'_>) -> Json {
    let or_error = |value: Result<Val<'_>, cel::Error>| match value {
        Ok(value) => typed(&value),
        Err(error) => json!({"error": error.to_string()}),
    };
    match value {
        Val::Null => json!({"null": true}),
        Val::Bool(b) => json!({"bool": b}),
        Val::Int(i) => json!({"int": i.to_string()}),
        Val::Uint(u) => json!({"uint": u.to_string()}),
        Val::Double(d) if d.is_nan() => json!({"double": "NaN"}),
        Val::Double(d) if d.is_infinite() => {
            json!({"double": if *d > 0.0 { "Infinity" } else { "-Infinity" }})
        }
        Val::Double(d) => json!({"double": format!("{d:e}")}),
        Val::Str(text) => json!({"string": &**text}),
        Val::Bytes(bytes) => json!({"bytes": encode_base64(bytes)}),
        Val::Duration(nanos) => json!({"duration": nanos.to_string()}),
        Val::Timestamp(time) => json!({"timestamp": time.text()}),
        Val::List(list) => json!({"list": list.iter().map(or_error).collect::<Vec<_>>()}),
        Val::Map(map) => {
            let mut entries: Vec<Json> =
                map.entries().into_iter().map(|(key, value)| json!([typed(&key), or_error(value)])).collect();
            // Upstream's keys of members without a schema are nothing at all.
            if let Map::View { schema: Some(_), .. } = map {
                let hidden = map.len() - map.keys().len();
                entries.extend((0..hidden).map(|_| json!([{"nil": true}, {"error": "no such overload"}])));
            }
            entries.sort_by_key(|entry| entry[0].to_string());
            json!({"map": entries})
        }
        Val::Type(ty) => json!({"type": ty.name()}),
        Val::Optional(None) => json!({"optional": null}),
        Val::Optional(Some(value)) => json!({"optional": typed(value)}),
        Val::Opaque(value) => json!({"opaque": value.ty().name(), "text": value.text()}),
        Val::Preserved(_) => json!({"preserved": true}),
        Val::Object(object) => json!({"object": &*object.name}),
    }
}

/// Equality, doubles by their value.
pub fn same(want: &Json, got: &Json) -> bool {
    match (want, got) {
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            let number = |json: &serde_json::Map<String, Json>| {
                json.get("double").and_then(Json::as_str).map(|text| match text {
                    "NaN" => f64::NAN.to_bits(),
                    "Infinity" => f64::INFINITY.to_bits(),
                    "-Infinity" => f64::NEG_INFINITY.to_bits(),
                    text => text.parse::<f64>().unwrap().to_bits(),
                })
            };
            if let (Some(a), Some(b)) = (number(a), number(b)) {
                return a == b;
            }
            // Without a text of its own, a value is recorded with its type in Go.
            let go_type = |text: &str| text.starts_with("library.") || text.starts_with("*cel.");
            if a.contains_key("opaque") && a.get("text").and_then(Json::as_str).is_some_and(go_type) {
                return a.get("opaque") == b.get("opaque");
            }
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Lists whose order upstream leaves to chance.
pub fn sort_lists(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(sort_lists),
        Json::Object(members) => {
            members.values_mut().for_each(sort_lists);
            if let Some(Json::Array(items)) = members.get_mut("list") {
                items.sort_by_key(Json::to_string);
            }
        }
        _ => {}
    }
}
