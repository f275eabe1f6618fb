//! The object in a webhook's answer, read as upstream's decoder reads it.

use object::patch::{duplicate_fields, keep_last_fields};
use object::{Value, quote};

/// The kind of review that was sent, and so is expected back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// `apiextensions.k8s.io`, `admission.k8s.io`.
    pub group: &'static str,
    /// `v1`, `v1beta1`.
    pub version: &'static str,
    /// `ConversionReview`, `AdmissionReview`.
    pub kind: &'static str,
}

impl Expected {
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Whether the answer names itself so. Decoding is content with less.
    pub fn check_named(&self, review: &Value) -> Result<(), String> {
        let text = |name| review.get(name).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = parse_group_version(text("apiVersion")).unwrap_or_default();
        let kind = text("kind");
        if (group, version, kind) == (self.group, self.version, self.kind) {
            return Ok(());
        }
        let Expected { group: g, version: v, kind: k } = self;
        Err(format!("expected webhook response of {g}/{v}, Kind={k}, got {group}/{version}, Kind={kind}"))
    }
}

/// JSON where it looks like an object, else YAML. Of duplicate names the last one stays.
pub(crate) fn parse(body: &[u8]) -> Result<Value, String> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return codec::yaml::parse(body).map_err(|error| error.to_string());
    }
    let mut value = codec::json::parse(body, None)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    if !duplicate_fields(&value).is_empty() {
        keep_last_fields(&mut value);
    }
    Ok(value)
}

/// An object that is of that kind, or says nothing against it. Errors are upstream's.
pub fn decode(body: &[u8], expected: &Expected) -> Result<Value, String> {
    let review = parse(body)?;
    let into = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let found = match &review {
        Value::Map(_) => None,
        // Go leaves what null is read into as it was.
        Value::Null => return Ok(Value::map()),
        other => Some(other.json_type()),
    };
    if let Some(found) = found {
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into {into}"
        ));
    }
    let text = |name: &str| match review.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::Str(text)) => Ok(text.as_str()),
        Some(other) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{name} of type string",
            other.json_type()
        )),
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let (mut group, mut version) = parse_group_version(api_version)
        .ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?;
    let kind = if kind.is_empty() { expected.kind } else { kind };
    if version.is_empty() && (group.is_empty() || group == expected.group) {
        (group, version) = (expected.group, expected.version);
    }
    if (group, version, kind) == (expected.group, expected.version, expected.kind) {
        return Ok(review);
    }
    let known = (group == expected.group && matches!(version, "v1" | "v1beta1") && kind == expected.kind)
        || (group, version, kind) == ("", "v1", "Status");
    let Expected { version: v, kind: k, .. } = expected;
    Err(if known {
        format!("converting ({version}.{kind}) to ({v}.{k}): unknown conversion")
    } else {
        let named = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let scheme = "k8s.io/apiserver/pkg/util/webhook/client.go:71";
        format!(
            "no kind {} is registered for version {} in scheme {}",
            quote(kind),
            quote(&named),
            quote(scheme)
        )
    })
}

/// Group and version; `None` if it is neither `version` nor `group/version`.
pub(crate) fn parse_group_version(api_version: &str) -> Option<(&str, &str)> {
    match api_version.split_once('/') {
        None => Some(("", api_version)),
        Some(("", "")) => Some(("", "")),
        Some((group, version)) if !version.contains('/') => Some((group, version)),
        Some(_) => None,
    }
}

/// The member, of a JSON type; absent and null are `None`. `of` and `ty` are what Go's decoder calls the member and its type.
pub(crate) fn member<'a>(
    value: &'a Value,
    name: &str,
    json_type: &str,
    of: &str,
    ty: &str,
) -> Result<Option<&'a Value>, String> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(member) if member.json_type() == json_type => Ok(Some(member)),
        Some(member) => Err(format!(
            "json: cannot unmarshal {} into Go struct field {of}.{name} of type {ty}",
            member.json_type()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONVERSION: Expected =
        Expected { group: "apiextensions.k8s.io", version: "v1", kind: "ConversionReview" };

    /// Recorded from kube-apiserver v1.36.4 and a webhook that answers so.
    #[test]
    fn what_is_no_review_is_told_as_upstream_does() {
        let into = r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let json = "couldn't get version/kind; json parse error: ";
        let scheme = r#"in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71""#;
        for (body, expected) in [
            ("<html>hi</html>", format!("{json}json: cannot unmarshal string into {into}")),
            ("[1]", format!("{json}json: cannot unmarshal array into {into}")),
            (r#""x""#, format!("{json}json: cannot unmarshal string into {into}")),
            (r#"{"kind":"ConversionReview","response":{"#, format!("{json}unexpected end of JSON input")),
            ("{}x", format!("{json}invalid character 'x' after top-level value")),
            (
                r#"{"kind":3}"#,
                format!("{json}json: cannot unmarshal number into Go struct field .kind of type string"),
            ),
            (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c".to_owned()),
            (
                r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"Foo"}"#,
                format!(r#"no kind "Foo" is registered for version "apiextensions.k8s.io/v1" {scheme}"#),
            ),
            (
                r#"{"apiVersion":"apiextensions.k8s.io/v9","kind":"ConversionReview"}"#,
                format!(
                    r#"no kind "ConversionReview" is registered for version "apiextensions.k8s.io/v9" {scheme}"#
                ),
            ),
            (
                r#"{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}"#,
                "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion"
                    .to_owned(),
            ),
            (
                r#"{"apiVersion":"v1","kind":"Status","status":"Failure"}"#,
                "converting (v1.Status) to (v1.ConversionReview): unknown conversion".to_owned(),
            ),
        ] {
            assert_eq!(decode(body.as_bytes(), &CONVERSION).unwrap_err(), expected, "{body}");
        }
    }

    #[test]
    fn what_names_itself_badly_decodes_and_is_told_apart() {
        for (body, got) in [
            ("null", "/, Kind="),
            ("{}", "/, Kind="),
            (r#"{"apiVersion":"apiextensions.k8s.io/v1"}"#, "apiextensions.k8s.io/v1, Kind="),
            (r#"{"kind":"ConversionReview"}"#, "/, Kind=ConversionReview"),
        ] {
            let review = decode(body.as_bytes(), &CONVERSION).unwrap();
            let expected =
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got ";
            assert_eq!(CONVERSION.check_named(&review).unwrap_err(), format!("{expected}{got}"), "{body}");
        }
        let yaml = "apiVersion: apiextensions.k8s.io/v1\nkind: ConversionReview\n";
        CONVERSION.check_named(&decode(yaml.as_bytes(), &CONVERSION).unwrap()).unwrap();
    }

    #[test]
    fn of_duplicate_names_the_last_stays() {
        let review = parse(br#"{"a":{"b":1,"b":2},"a":{"b":3,"b":4}}"#).unwrap();
        assert_eq!(codec::json::to_vec(&review), br#"{"a":{"b":4}}"#);
    }
}
