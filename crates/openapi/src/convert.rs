//! A Swagger 2.0 document as OpenAPI 3.0, for servers that know only the former. What 3.0 says in more words is lost, as with upstream.

use object::{Map, Value, deep};

/// How many media types of a body are kept: each gets the whole schema, and a hostile document could name very many.
/// Differs from kube-apiserver, which keeps all.
const MAX_MEDIA_TYPES: usize = 16;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

pub(crate) fn document(v2: &Value) -> Value {
    let mut out = Map::default();
    out.set("openapi", "3.0.0");
    keep(v2, &mut out, &["info"]);
    let mut components = Map::default();
    if let Some(definitions) = v2.get("definitions").and_then(Value::as_map) {
        components.set("schemas", each(definitions, schema));
    }
    if let Some(schemes) = v2.get("securityDefinitions").and_then(Value::as_map) {
        components.set("securitySchemes", each(schemes, security_scheme));
    }
    if let Some(responses) = v2.get("responses").and_then(Value::as_map) {
        let produces = media_types(v2, "produces");
        components.set("responses", each(responses, |value| response(value, &produces)));
    }
    if let Some(paths) = v2.get("paths").and_then(Value::as_map) {
        out.set("paths", each(paths, path_item));
    }
    if !components.is_empty() {
        out.set("components", components);
    }
    if let Some(documentation) = v2.get("externalDocs") {
        out.set("externalDocs", external_docs(documentation));
    }
    Value::Map(out)
}

fn each(map: &Map, convert: impl Fn(&Value) -> Value) -> Map {
    map.iter().map(|(name, value)| (name.clone(), convert(value))).collect()
}

fn keep(from: &Value, to: &mut Map, names: &[&'static str]) {
    for name in names {
        if let Some(value) = from.get(name) {
            to.set(*name, value.clone());
        }
    }
}

fn extensions(from: &Value, to: &mut Map) {
    let all = from.as_map().into_iter().flat_map(Map::iter);
    for (name, value) in all.filter(|(name, _)| name.starts_with("x-")) {
        to.push(name.clone(), value.clone());
    }
}

fn media_types<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    let list = value.get(name).and_then(Value::as_list).unwrap_or_default();
    let mut found = Vec::new();
    for text in list.iter().filter_map(Value::as_str) {
        if found.len() == MAX_MEDIA_TYPES {
            break;
        }
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

fn external_docs(value: &Value) -> Map {
    let mut out = Map::default();
    keep(value, &mut out, &["description", "url"]);
    out
}

fn schema(v2: &Value) -> Value {
    let Value::Map(map) = v2 else { return v2.clone() };
    let mut out = Map::default();
    for (name, value) in map.iter() {
        let converted = deep(|| match (&**name, value) {
            ("$ref", Value::Str(text)) => {
                Value::from(text.replacen("#/definitions/", "#/components/schemas/", 1))
            }
            ("properties", Value::Map(properties)) => Value::Map(each(properties, schema)),
            ("items" | "allOf", Value::List(list)) => Value::List(list.iter().map(schema).collect()),
            ("items" | "additionalProperties" | "additionalItems", value) => schema(value),
            (_, value) => value.clone(),
        });
        out.push(name.clone(), converted);
    }
    // What stands beside a reference counts for nothing there.
    if out.len() > 1
        && let Some(reference) = out.remove("$ref")
    {
        let mut only = Map::default();
        only.set("$ref", reference);
        out.set("allOf", vec![Value::Map(only)]);
    }
    Value::Map(out)
}

fn security_scheme(v2: &Value) -> Value {
    let mut out = Map::default();
    keep(v2, &mut out, &["type", "description", "name", "in"]);
    if let Some(flow) = v2.str_at(&["flow"]).filter(|flow| !flow.is_empty()) {
        let (mut one, mut flows) = (Map::default(), Map::default());
        for (to, from) in
            [("authorizationUrl", "authorizationUrl"), ("tokenUrl", "tokenUrl"), ("scopes", "scopes")]
        {
            if let Some(value) = v2.get(from) {
                one.set(to, value.clone());
            }
        }
        flows.push(flow.to_owned().into(), Value::Map(one));
        out.set("flows", flows);
    }
    extensions(v2, &mut out);
    Value::Map(out)
}

fn path_item(v2: &Value) -> Value {
    let mut out = Map::default();
    keep(v2, &mut out, &["$ref"]);
    for method in METHODS {
        if let Some(value) = v2.get(method).filter(|value| !value.is_null()) {
            out.set(method, operation(value));
        }
    }
    if let Some(parameters) = v2.get("parameters").and_then(Value::as_list) {
        out.set("parameters", parameters.iter().map(parameter).collect::<Vec<_>>());
    }
    extensions(v2, &mut out);
    Value::Map(out)
}

fn operation(v2: &Value) -> Value {
    let mut out = Map::default();
    keep(v2, &mut out, &["tags", "summary", "description", "operationId", "deprecated"]);
    if let Some(documentation) = v2.get("externalDocs") {
        out.set("externalDocs", external_docs(documentation));
    }
    let mut parameters = Vec::new();
    for value in v2.get("parameters").and_then(Value::as_list).unwrap_or_default() {
        match value.get("schema").filter(|_| value.str_at(&["name"]) == Some("body")) {
            Some(of_body) => {
                let mut body = Map::default();
                body.set("content", content(of_body, &media_types(v2, "consumes")));
                out.set("requestBody", body);
            }
            None => parameters.push(parameter(value)),
        }
    }
    if !parameters.is_empty() {
        out.set("parameters", parameters);
    }
    if let Some(responses) = v2.get("responses").and_then(Value::as_map) {
        let produces = media_types(v2, "produces");
        let convert = |(name, value): (&catalog::Name, &Value)| match name.starts_with("x-") {
            true => (name.clone(), value.clone()),
            false => (name.clone(), response(value, &produces)),
        };
        out.set("responses", responses.iter().map(convert).collect::<Map>());
    }
    extensions(v2, &mut out);
    Value::Map(out)
}

/// The schema, under each media type.
fn content(of: &Value, media_types: &[&str]) -> Map {
    let entry = |media: &&str| {
        let mut one = Map::default();
        one.set("schema", schema(of));
        ((*media).to_owned().into(), Value::Map(one))
    };
    media_types.iter().map(entry).collect()
}

fn response(v2: &Value, produces: &[&str]) -> Value {
    let mut out = Map::default();
    if let Some(reference) = v2.str_at(&["$ref"]) {
        out.set("$ref", reference.replacen("#/responses/", "#/components/responses/", 1));
        return Value::Map(out);
    }
    keep(v2, &mut out, &["description"]);
    if let Some(of) = v2.get("schema") {
        out.set("content", content(of, produces));
    }
    extensions(v2, &mut out);
    Value::Map(out)
}

fn parameter(v2: &Value) -> Value {
    let mut out = Map::default();
    if let Some(reference) = v2.str_at(&["$ref"]) {
        out.set("$ref", reference.replacen("#/parameters/", "#/components/parameters/", 1));
        return Value::Map(out);
    }
    keep(v2, &mut out, &["name", "in", "description", "required", "allowEmptyValue"]);
    let of = match v2.get("schema") {
        Some(of) => schema(of),
        None => {
            let mut simple = Map::default();
            keep(v2, &mut simple, &["type", "format", "uniqueItems"]);
            Value::Map(simple)
        }
    };
    out.set("schema", of);
    extensions(v2, &mut out);
    Value::Map(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(v2: &str) -> String {
        let v2 = codec::json::parse(v2.as_bytes(), None).unwrap();
        String::from_utf8(codec::json::to_vec(&document(&v2))).unwrap()
    }

    #[test]
    fn operations_name_the_media_types_of_their_bodies() {
        let v2 = r##"{"swagger":"2.0","info":{"title":"t","version":"1"},"paths":{"/a":{"post":{"operationId":"o",
            "consumes":["application/json"],"produces":["application/json","application/yaml"],
            "parameters":[{"in":"body","name":"body","required":true,"schema":{"$ref":"#/definitions/T"}},
                {"in":"query","name":"q","type":"integer","uniqueItems":true},{"$ref":"#/parameters/p"}],
            "responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/T"}},"401":{"description":"no"}},
            "x-kubernetes-action":"post"}}}}"##;
        let body = r##"{"schema":{"$ref":"#/components/schemas/T"}}"##;
        let v3 = format!(
            r##"{{"openapi":"3.0.0","info":{{"title":"t","version":"1"}},"paths":{{"/a":{{"post":{{"operationId":"o",\
"requestBody":{{"content":{{"application/json":{body}}}}},\
"parameters":[{{"name":"q","in":"query","schema":{{"type":"integer","uniqueItems":true}}}},{{"$ref":"#/components/parameters/p"}}],\
"responses":{{"200":{{"description":"OK","content":{{"application/json":{body},"application/yaml":{body}}}}},"401":{{"description":"no"}}}},\
"x-kubernetes-action":"post"}}}}}}}}"##
        );
        assert_eq!(converted(v2), v3.replace("\\\n", ""));
    }

    #[test]
    fn schemas_refer_to_components() {
        let v2 = r##"{"definitions":{"T":{"type":"object","properties":{"a":{"description":"d","$ref":"#/definitions/U"},
            "b":{"type":"array","items":{"$ref":"#/definitions/U"}},"c":{"additionalProperties":{"$ref":"#/definitions/U"}}}}}}"##;
        let u = r##"{"$ref":"#/components/schemas/U"}"##;
        let v3 = format!(
            r##"{{"openapi":"3.0.0","components":{{"schemas":{{"T":{{"type":"object","properties":{{"a":{{"description":"d","allOf":[{u}]}},\
"b":{{"type":"array","items":{u}}},"c":{{"additionalProperties":{u}}}}}}}}}}}}}"##
        );
        assert_eq!(converted(v2), v3.replace("\\\n", ""));
    }

    #[test]
    fn media_types_without_end_take_no_memory() {
        let many = (0..100_000).map(|n| format!(r#""a/{n}""#)).collect::<Vec<_>>().join(",");
        let v2 = format!(
            r#"{{"paths":{{"/a":{{"get":{{"produces":["a/0",{many}],"responses":{{"200":{{"schema":{{"type":"string"}}}}}}}}}}}}}}"#
        );
        let v3 = converted(&v2);
        assert_eq!(
            (v3.matches("a/0").count(), v3.matches(r#"{"type":"string"}"#).count()),
            (1, MAX_MEDIA_TYPES)
        );
    }
}
