//! `/statusz`: since when the node runs, what it is, and what else it can be asked. `/flagz`: the flags it was started with. Both for
//! people, or as an object of config.k8s.io.

use http::header::WARNING;
use http::{HeaderValue, StatusCode};
use node::machine::KUBELET_VERSION;
use object::{Map, Value, time};

use super::Context;
use super::answer::{self, Answer};

const GROUP: &str = "config.k8s.io";
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// The first parts of the paths that kubelet lists: those that belong to no resource.
const PATHS: [&str; 5] = ["/configz", "/debug", "/flagz", "/healthz", "/metrics"];
const NOTE: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

pub fn statusz(context: &Context, accept: Option<&HeaderValue>) -> Answer {
    let now = context.env.now_seconds();
    let up = now.saturating_sub(context.started_at);
    let version = KUBELET_VERSION.trim_start_matches('v');
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let started = time::format_seconds(i64::try_from(context.started_at).unwrap_or(0));
    match wanted(accept, "Statusz") {
        Some(Form::Text) => answer::text(
            StatusCode::OK,
            format!(
                "\nkubelet statusz\n{NOTE}\n\nStarted: {started}\nUp: {} hr {:02} min {:02} sec\nGo version: \nBinary version: {version}\nEmulation version: {minor}\nPaths: {}\n",
                up / 3600,
                up / 60 % 60,
                up % 60,
                PATHS.join(" ")
            ),
        ),
        Some(Form::Object(of, encode)) => {
            let mut status = object("Statusz", of);
            status.set("startTime", started);
            status.set("uptimeSeconds", Value::Int(i64::try_from(up).unwrap_or(i64::MAX)));
            status.set("goVersion", "");
            status.set("binaryVersion", version);
            status.set("emulationVersion", minor);
            status.set("paths", PATHS.map(Value::from).to_vec());
            versioned(status, "statusz", of, encode)
        }
        None => not_acceptable(),
    }
}

pub fn flagz(context: &Context, accept: Option<&HeaderValue>) -> Answer {
    match wanted(accept, "Flagz") {
        Some(Form::Text) => {
            let mut text = format!("\nkubelet flagz\n{NOTE}\n");
            for (name, value) in &context.flags {
                text += &format!("{name}={value}\n");
            }
            answer::text(StatusCode::OK, text)
        }
        Some(Form::Object(of, encode)) => {
            let mut page = object("Flagz", of);
            let flags = context.flags.iter().map(|(name, value)| (name.clone().into(), value.clone().into()));
            page.set("flags", Value::Map(flags.collect()));
            versioned(page, "flagz", of, encode)
        }
        None => not_acceptable(),
    }
}

fn object(kind: &str, version: &str) -> Map {
    let mut metadata = Map::default();
    metadata.set("name", "kubelet");
    let mut object = Map::default();
    object.set("kind", kind);
    object.set("apiVersion", format!("{GROUP}/{version}"));
    object.set("metadata", metadata);
    object
}

/// Which of the versions was asked for is no secret, but the older one is on its way out.
fn versioned(object: Map, endpoint: &str, version: &str, encode: Encode) -> Answer {
    let mut answer = encode(&Value::Map(object));
    if version != VERSIONS[0] {
        let warning = format!(
            "299 - \"This version of the {endpoint} endpoint is deprecated. Please use a newer version.\""
        );
        if let Ok(warning) = HeaderValue::from_str(&warning) {
            answer.headers_mut().insert(WARNING, warning);
        }
    }
    answer
}

fn not_acceptable() -> Answer {
    let message =
        "only the following media types are accepted: application/json, application/yaml, text/plain";
    answer::text(StatusCode::NOT_ACCEPTABLE, message)
}

enum Form {
    Text,
    /// In a version, as JSON or YAML.
    Object(&'static str, Encode),
}

type Encode = fn(&Value) -> Answer;

/// The first that can be had of what is accepted.
fn wanted(accept: Option<&HeaderValue>, object: &str) -> Option<Form> {
    let accept = accept.and_then(|accept| accept.to_str().ok()).unwrap_or("");
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    accept.split(',').find_map(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let of = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let encode: Option<Encode> = match kind {
            "*/*" | "application/*" | "application/json" => Some(answer::json),
            "application/yaml" => Some(answer::yaml),
            _ => None,
        };
        match (kind, encode, of("as"), of("g"), of("v")) {
            ("*/*" | "text/*" | "text/plain", _, None, ..) => Some(Form::Text),
            (_, Some(encode), Some(kind), Some(GROUP), Some(version)) if kind == object => {
                VERSIONS.into_iter().find(|known| *known == version).map(|known| Form::Object(known, encode))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_get_text_and_programs_what_they_name() {
        for (accept, form) in [
            ("", Some(("text/plain; charset=utf-8", ""))),
            ("*/*", Some(("text/plain; charset=utf-8", ""))),
            ("text/html,text/plain;q=0.5", Some(("text/plain; charset=utf-8", ""))),
            ("application/json;as=Statusz;g=config.k8s.io;v=v1beta1", Some(("application/json", "v1beta1"))),
            (
                "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz",
                Some(("application/json", "v1alpha1")),
            ),
            ("application/yaml;as=Statusz;g=config.k8s.io;v=v1beta1", Some(("application/yaml", "v1beta1"))),
            ("application/json;as=Statusz;g=config.k8s.io;v=v1", None),
            ("application/json;as=Flagz;g=config.k8s.io;v=v1beta1", None),
            ("application/json", None),
            ("application/yaml", None),
            ("application/json, */*", Some(("text/plain; charset=utf-8", ""))),
        ] {
            let found = wanted(Some(&accept.parse().unwrap()), "Statusz").map(|form| match form {
                Form::Text => (answer::text(StatusCode::OK, ""), ""),
                Form::Object(version, encode) => (encode(&Value::map()), version),
            });
            let found = found.as_ref().map(|(answer, version)| {
                (answer.headers()[http::header::CONTENT_TYPE].to_str().unwrap(), *version)
            });
            assert_eq!(found, form, "{accept}");
        }
    }
}
