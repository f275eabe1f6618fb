//! Request bodies as trees: JSON, YAML or protobuf, with upstream's messages for what cannot be decoded.

use catalog::{Catalog, Schema, TypeId};
use codec::protobuf::ProtobufError;
use codec::yaml::YamlError;
use codec::{json, protobuf, yaml};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use object::{Map, Status, Value};

/// A decoded body, and the duplicate fields strict validation reports.
pub struct Decoded {
    pub value: Value,
    /// The YAML parser's report of duplicate keys; those of JSON are still in the tree.
    pub duplicates: Option<String>,
}

/// Decodes a body by its content type. `kind` is for error messages, `hint` the type of a body that names none.
pub fn decode(
    catalog: &Catalog,
    headers: &HeaderMap,
    body: &[u8],
    kind: &str,
    hint: Option<(&Schema, TypeId)>,
) -> Result<Decoded, Status> {
    let ty = hint.map(|(_, ty)| ty);
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let media = content_type.split(';').next().unwrap_or("").trim();
    let unreadable = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(body)
        ))
    };
    let unrecognized = |why: String| unreadable(format!("couldn't get version/kind; {why}"));
    let mut duplicates = None;
    let value = match media {
        "" | "application/json" => {
            json::parse(body, hint).map_err(|e| unrecognized(format!("json parse error: {e}")))?
        }
        "application/yaml" => {
            let document = yaml::parse_document(body).map_err(|e| match e {
                YamlError::TooDeepForJson { .. } => unrecognized(e.to_string()),
                _ => unreadable(e.to_string()),
            })?;
            duplicates = document.duplicates;
            document.value
        }
        "application/vnd.kubernetes.protobuf" => {
            let find = |api_version: &str, kind: &str| find_type(catalog, api_version, kind);
            match protobuf::decode(catalog.schema(), body, &find, ty) {
                // Only its name is known, which is all the refusal needs.
                Err(ProtobufError::UnknownKind { api_version, kind }) => {
                    let mut named = Map::default();
                    named.set("kind", kind);
                    named.set("apiVersion", api_version);
                    Value::Map(named)
                }
                Err(why) => {
                    return Err(match protobuf_name(catalog, body, ty) {
                        Some((named, version)) => Status::bad_request(format!(
                            "{named} in version \"{version}\" cannot be handled as a {kind}: {why}"
                        )),
                        None => unreadable(why.to_string()),
                    });
                }
                Ok(value) => value,
            }
        }
        _ => {
            return Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    // Null is an object without members, as in Go.
    let value = if matches!(value, Value::Null) { Value::map() } else { value };
    if !matches!(value, Value::Map(_)) {
        let go = "json parse error: json: cannot unmarshal";
        let into = "into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
        return Err(unrecognized(format!("{go} {} {into}", value.json_type())));
    }
    match registry::unreadable_type(&value) {
        Some(why) => Err(unreadable(why)),
        None => Ok(Decoded { value, duplicates }),
    }
}

/// The type a protobuf body names. Options have the version of the group they are sent to.
fn find_type(catalog: &Catalog, api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let shared =
        || kind.ends_with("Options").then(|| catalog.schema().find(&format!("meta.v1.{kind}"))).flatten();
    catalog.find_type(group, version, kind).or_else(shared)
}

/// Kind and version of a protobuf body with a valid envelope; `ty` is its type if it names none.
fn protobuf_name(catalog: &Catalog, body: &[u8], ty: Option<TypeId>) -> Option<(String, String)> {
    let sealed = protobuf::open(body).ok()?;
    let (_, usual, kind) = catalog.schema().get(ty?).gvk.as_ref()?;
    let said = |text: &str, usual: &str| if text.is_empty() { usual.to_owned() } else { text.to_owned() };
    let version = sealed.api_version.rsplit('/').next().unwrap_or("");
    Some((said(sealed.kind, kind), said(version, usual)))
}

/// The start of an invalid body, as upstream shows it: as text or hexadecimal, by its first character.
fn summary(body: &[u8]) -> String {
    const SHOWN_BYTES: usize = 30;
    let shown = &body[..body.len().min(SHOWN_BYTES)];
    let more = if body.len() > SHOWN_BYTES { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|b| format!("{b:02x}")).collect::<String>() + more,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn decoded(content_type: &'static str, body: &[u8]) -> Result<Decoded, Status> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        decode(&Catalog::builtin(), &headers, body, "Pod", None)
    }

    #[test]
    fn the_content_type_decides_how_a_body_is_decoded() {
        for (content_type, body) in [
            ("", "{\"kind\":\"Pod\"}"),
            ("application/json; charset=utf-8", "{\"kind\":\"Pod\"}"),
            ("application/yaml", "kind: Pod"),
        ] {
            let value = decoded(content_type, body.as_bytes()).map(|decoded| decoded.value);
            assert_eq!(value.unwrap().str_at(&["kind"]), Some("Pod"), "{content_type}");
        }
        assert_eq!(decoded("text/html", b"{}").err().map(|status| status.code), Some(415));
    }

    #[test]
    fn null_is_an_empty_object_and_a_list_is_none() {
        assert_eq!(decoded("", b"null").unwrap().value, Value::map());
        assert_eq!(decoded("", b"[]").err().map(|status| status.code), Some(400));
    }

    #[test]
    fn duplicate_keys_of_yaml_are_reported() {
        assert!(decoded("application/yaml", b"a: 1\na: 2").unwrap().duplicates.is_some());
        assert!(decoded("application/yaml", b"a: 1\nb: 2").unwrap().duplicates.is_none());
    }

    #[test]
    fn an_invalid_body_is_summarized() {
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"{a"), "{a");
        assert_eq!(summary(b"ab"), "6162");
        assert_eq!(summary(&[b'{'; 31]), format!("{} ...", "{".repeat(30)));
    }
}
