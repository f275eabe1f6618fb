//! Admission of requests into nodes and pods: policies and webhooks see their options as an object, and may change them.

use std::borrow::Cow;

use object::{Status, Value, parse_int};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Connect;
use crate::request_info::Query;

/// The options of a subresource in its query: names and forms.
enum Form {
    Flag,
    Text,
    Texts,
    Numbers,
}

fn fields(subresource: &str) -> &'static [(&'static str, Form)] {
    use Form::{Flag, Numbers, Text, Texts};
    match subresource {
        "exec" => &[
            ("stdin", Flag),
            ("stdout", Flag),
            ("stderr", Flag),
            ("tty", Flag),
            ("container", Text),
            ("command", Texts),
        ],
        "attach" => {
            &[("stdin", Flag), ("stdout", Flag), ("stderr", Flag), ("tty", Flag), ("container", Text)]
        }
        "portforward" => &[("ports", Numbers)],
        _ => &[],
    }
}

impl Connect<'_> {
    /// Asks whoever is to be asked. Returns the query with what they changed, and warnings.
    pub(super) async fn admit(&self, subresource: &str) -> Result<(Option<String>, Vec<String>), Status> {
        let asked = self.options(subresource);
        let mut options = asked.clone();
        let warnings = self.api.registry.admit_connect(self.request, &mut options).await?;
        let changed = options != asked && !fields(subresource).is_empty();
        Ok((changed.then(|| to_query(subresource, &options)), warnings))
    }

    /// `PodExecOptions` and its like.
    fn options(&self, subresource: &str) -> Value {
        let mut out = Value::map();
        let map = out.make_map();
        let sub = self.request.resource.subresource(subresource);
        map.set("kind", sub.map_or("", |sub| sub.kind.as_str()));
        map.set("apiVersion", "v1");
        let query: &Query<'_> = self.query;
        for (name, form) in fields(subresource) {
            match form {
                Form::Flag if query.flag(name) => map.set(*name, true),
                Form::Text => {
                    if let Some(text) = query.find(name).filter(|text| !text.is_empty()) {
                        map.set(*name, text);
                    }
                }
                // Upstream's `command` is never left out.
                Form::Texts => {
                    let words: Vec<Value> = query.all(name).map(Value::from).collect();
                    map.set(*name, if words.is_empty() { Value::Null } else { words.into() });
                }
                Form::Numbers => {
                    let numbers =
                        query.all(name).flat_map(|text| text.split(',')).filter_map(|n| parse_int(n).ok());
                    let numbers: Vec<Value> = numbers.map(Value::from).collect();
                    if !numbers.is_empty() {
                        map.set(*name, numbers);
                    }
                }
                Form::Flag => {}
            }
        }
        if subresource == "proxy" {
            let path = self.backend_path(self.parts.uri.path().as_bytes());
            map.set("path", String::from_utf8_lossy(&path).into_owned());
        }
        out
    }
}

fn to_query(subresource: &str, options: &Value) -> String {
    let mut pairs: Vec<(&str, Cow<'_, str>)> = Vec::new();
    for (name, form) in fields(subresource) {
        let Some(value) = options.get(name) else { continue };
        match form {
            Form::Flag if value.as_bool() == Some(true) => pairs.push((name, "true".into())),
            Form::Flag => {}
            Form::Text => pairs.push((name, value.as_str().unwrap_or_default().into())),
            Form::Texts => {
                let words = value.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
                pairs.extend(words.map(|word| (*name, Cow::Borrowed(word))));
            }
            Form::Numbers => {
                let numbers = value.as_list().unwrap_or_default().iter().filter_map(Value::as_int);
                pairs.extend(numbers.map(|number| (*name, Cow::Owned(number.to_string()))));
            }
        }
    }
    let escaped =
        pairs.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    escaped.collect::<Vec<_>>().join("&")
}
