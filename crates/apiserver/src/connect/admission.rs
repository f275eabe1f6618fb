//! Admission of requests into nodes and pods: policies and webhooks see their options as an object, and may change them.

use std::borrow::Cow;

use object::{Status, Value, parse_int};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

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

/// What admission made of the options, where it changed them.
#[derive(Default)]
pub(super) struct Changed {
    pub query: Option<String>,
    /// Of a proxied request.
    pub path: Option<String>,
}

impl Connect<'_> {
    /// Asks whoever is to be asked.
    pub(super) async fn admit(
        &self,
        subresource: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Changed, Status> {
        let asked = self.options(subresource);
        let mut options = asked.clone();
        self.api.registry.admit_connect(self.request, &mut options, warnings).await?;
        Ok(match options != asked {
            false => Changed::default(),
            true if subresource == "proxy" => {
                let path = options.str_at(&["path"]).unwrap_or_default().to_owned();
                Changed { path: Some(path), query: None }
            }
            true => Changed { query: Some(to_query(subresource, &options)), path: None },
        })
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
            let whole: Vec<u8> = percent_decode_str(self.parts.uri.path()).collect();
            map.set("path", String::from_utf8_lossy(&self.asked_path(&whole)).into_owned());
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
