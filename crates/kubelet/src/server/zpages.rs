//! `/statusz`: since when the node runs, what it is, and what else it can be asked; for people, or as an object of config.k8s.io.

use http::header::WARNING;
use http::{HeaderValue, StatusCode};
use node::machine::KUBELET_VERSION;
use object::{Map, Value, time};

use super::Context;
use super::answer::{self, Answer};

const GROUP: &str = "config.k8s.io";
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// Which of the two was asked for is no secret, but the older one is on its way out.
const DEPRECATED: &str =
    "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\"";
/// The first parts of all paths, in their order.
const PATHS: [&str; 14] = [
    "/attach",
    "/checkpoint",
    "/configz",
    "/containerLogs",
    "/debug",
    "/exec",
    "/healthz",
    "/logs",
    "/metrics",
    "/pods",
    "/portForward",
    "/run",
    "/runningpods",
    "/stats",
];

pub fn statusz(context: &Context, accept: Option<&HeaderValue>) -> Answer {
    let now = context.env.now_seconds();
    let up = now.saturating_sub(context.started_at);
    let version = KUBELET_VERSION.trim_start_matches('v');
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let started = time::format_seconds(i64::try_from(context.started_at).unwrap_or(0));
    match wanted(accept) {
        Some(Form::Text) => answer::text(
            StatusCode::OK,
            format!(
                "\nkubelet statusz\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n\nStarted: {started}\nUp: {} hr {:02} min {:02} sec\nGo version: \nBinary version: {version}\nEmulation version: {minor}\nPaths: {}\n",
                up / 3600,
                up / 60 % 60,
                up % 60,
                PATHS.join(" ")
            ),
        ),
        Some(Form::Object(of, encode)) => {
            let mut status = Map::default();
            status.set("kind", "Statusz");
            status.set("apiVersion", format!("{GROUP}/{of}"));
            let mut metadata = Map::default();
            metadata.set("name", "kubelet");
            status.set("metadata", metadata);
            status.set("startTime", started);
            status.set("uptimeSeconds", Value::Int(i64::try_from(up).unwrap_or(i64::MAX)));
            status.set("goVersion", "");
            status.set("binaryVersion", version);
            status.set("emulationVersion", minor);
            status.set("paths", PATHS.map(Value::from).to_vec());
            let mut answer = encode(&Value::Map(status));
            if of != VERSIONS[0] {
                answer.headers_mut().insert(WARNING, HeaderValue::from_static(DEPRECATED));
            }
            answer
        }
        None => answer::text(
            StatusCode::NOT_ACCEPTABLE,
            "only the following media types are accepted: application/json, application/yaml, text/plain",
        ),
    }
}

enum Form {
    Text,
    /// In a version, as JSON or YAML.
    Object(&'static str, Encode),
}

type Encode = fn(&Value) -> Answer;

/// The first that can be had of what is accepted.
fn wanted(accept: Option<&HeaderValue>) -> Option<Form> {
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
            (_, Some(encode), Some("Statusz"), Some(GROUP), Some(version)) => {
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
            ("application/json", None),
            ("application/yaml", None),
            ("application/json, */*", Some(("text/plain; charset=utf-8", ""))),
        ] {
            let found = wanted(Some(&accept.parse().unwrap())).map(|form| match form {
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
