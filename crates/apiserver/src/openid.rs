//! The issuer of service accounts' tokens as others see it: its OpenID configuration and its keys.

use codec::json;
use http::header::{CACHE_CONTROL, HeaderValue};
use object::{Map, Status, Value};

use crate::api::Api;
use crate::respond::{self, Answer};

pub const CONFIGURATION: &str = "/.well-known/openid-configuration";
pub const KEYS: &str = "/openid/v1/jwks";

/// `None` when the path is neither document, or the issuer is none that can be looked up.
pub fn serve(api: &Api, path: &str, method: &http::Method) -> Option<Result<Answer, Status>> {
    let accounts = api.token_authenticator.service_accounts();
    let (content_type, document) = match path {
        CONFIGURATION => ("application/json", configuration(api)),
        KEYS => ("application/jwk-set+json", accounts.keys().to_jwks()),
        _ => return None,
    };
    // The specification asks for https without a query or a fragment; upstream leaves the paths out otherwise.
    let issuer = accounts.issuer();
    if !issuer.starts_with("https://") || issuer.contains(['?', '#']) {
        return None;
    }
    if method != http::Method::GET {
        return Some(Err(Status::method_not_allowed()));
    }
    let mut answer = respond::answer(200, content_type, json::to_vec(&document).into());
    // Keys are no secret, and everybody who checks tokens asks for them.
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Some(Ok(answer))
}

fn configuration(api: &Api) -> Value {
    let accounts = api.token_authenticator.service_accounts();
    let list = |items: &[&str]| Value::List(items.iter().map(|i| Value::from(*i)).collect());
    let keys = match api.token_authenticator.external_address() {
        Some(address) => format!("https://{address}{KEYS}"),
        // Without a socket of its own the server is known by its issuer's name only.
        None => format!("{}{KEYS}", accounts.issuer().trim_end_matches('/')),
    };
    let mut out = Map::default();
    out.set("issuer", accounts.issuer());
    out.set("jwks_uri", keys);
    out.set("response_types_supported", list(&["id_token"]));
    out.set("subject_types_supported", list(&["public"]));
    out.set("id_token_signing_alg_values_supported", list(&accounts.keys().algorithms()));
    Value::Map(out)
}
