//! URLs: `url('https://example.com:80/path?x=1').getPort()`.

mod escape;
#[cfg(test)]
mod tests;
mod url;

use std::any::Any;
use std::collections::HashMap;

use super::arguments::{opaque, text};
use super::costs::{self, NOMINAL};
use crate::cost::{CallEstimate, Cost};
use crate::error::Error;
use crate::function::{Function, Native, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::{Opaque, OwnedMap, Val};

pub use url::Url;
pub(super) use url::parse_request_uri;

fn url_type() -> Type {
    Type::object("kubernetes.URL")
}

pub fn library() -> Library {
    let accessor = |name, id, result, call: Native| {
        Function::new(name, [Overload::member(id, [url_type()], result, call)]).cost(NOMINAL)
    };
    let functions = vec![
        Function::new(
            "url",
            [Overload::global("string_to_url", [Type::String], url_type(), |args| {
                let parsed = Url::parse(text(args, 0)?);
                let message = |error| format!("URL parse error during conversion from string: {error}");
                Ok(Val::opaque(parsed.map_err(|error| Error::new(message(error)))?))
            })],
        )
        .cost(URL),
        Function::new(
            "isURL",
            [Overload::global("is_url_string", [Type::String], Type::Bool, |args| {
                Ok(parse_request_uri(text(args, 0)?).is_ok().into())
            })],
        ),
        accessor("getScheme", "url_get_scheme", Type::String, |args| {
            Ok(Val::string(receiver(args)?.scheme.as_str()))
        }),
        accessor("getHost", "url_get_host", Type::String, |args| {
            Ok(Val::string(receiver(args)?.host.as_str()))
        }),
        accessor("getHostname", "url_get_hostname", Type::String, |args| {
            Ok(Val::string(receiver(args)?.hostname()))
        }),
        accessor("getPort", "url_get_port", Type::String, |args| Ok(Val::string(receiver(args)?.port()))),
        accessor("getEscapedPath", "url_get_escaped_path", Type::String, |args| {
            Ok(Val::string(receiver(args)?.path.as_str()))
        }),
        accessor("getQuery", "url_get_query", Type::map(Type::String, Type::list(Type::String)), |args| {
            Ok(query(&receiver(args)?.query))
        }),
    ];
    Library { functions, ..Library::default() }
}

/// The text is read once, and the URL is as long.
const URL: Cost = Cost {
    actual: costs::parse_cost,
    estimate: |call| {
        let [argument] = call.args else { return None };
        let estimate = costs::parse_estimate(call)?;
        Some(CallEstimate { result_size: Some(call.size(argument)), ..estimate })
    },
};

fn receiver<'v>(args: &'v [Val<'_>]) -> Result<&'v Url, Error> {
    opaque(args, 0)
}

/// Values by parameter. What cannot be read is left out.
fn query<'a>(query: &str) -> Val<'a> {
    /// As many as Go reads.
    const MAX_PARAMETERS: usize = 10_000;
    let mut parameters: Vec<(String, Vec<Val<'a>>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let pairs = || query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    if query.bytes().filter(|c| *c == b'&').count() < MAX_PARAMETERS {
        for pair in pairs() {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let unescape = |text: &str| escape::unescape(text, escape::Part::Query).map(escape::lossy);
            let (Ok(name), Ok(value)) = (unescape(name), unescape(value)) else { continue };
            let at = *known.entry(name).or_insert_with_key(|name| {
                parameters.push((name.clone(), Vec::new()));
                parameters.len() - 1
            });
            parameters[at].1.push(Val::string(value));
        }
    }
    let entries = parameters.into_iter().map(|(name, values)| (Val::string(name), Val::list(values)));
    entries.collect::<OwnedMap<'a>>().into()
}

impl Opaque for Url {
    fn ty(&self) -> Type {
        url_type()
    }
    fn equal(&self, other: &Val<'_>) -> Result<bool, Error> {
        let other = other.as_opaque::<Url>().ok_or_else(Error::no_such_overload)?;
        Ok(self.text == other.text)
    }
    fn text(&self) -> String {
        self.text.clone()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
