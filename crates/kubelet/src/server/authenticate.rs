//! Who asks: a client certificate of the cluster's CA, or a bearer token the API server vouches for. Nobody is anonymous.

use std::sync::Arc;
use std::time::Duration;

use auth::UserInfo;
use auth::x509::{self, ClientCa, X509Error};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::{Client, Gvr, Map, Value};
use env::Env;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderValue};
use rustls_pki_types::CertificateDer;

use super::authorize::retried;
use super::cache::Cache;

static TOKEN_REVIEWS: Gvr = Gvr::new("authentication.k8s.io", "v1", "tokenreviews");
/// Of `authentication.webhook.cacheTTL`.
const LIFETIME: Duration = Duration::from_secs(2 * 60);
/// Of different tokens within that time.
const CAPACITY: usize = 4096;
/// Browsers cannot set headers of a WebSocket: the token comes as a subprotocol.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The client's certificate, verified once for a connection.
#[derive(Clone)]
pub enum Certificate {
    None,
    Valid { user: Arc<UserInfo>, not_after: u64 },
    Invalid,
}

pub struct Authenticator {
    env: Env,
    client: Arc<dyn Client>,
    client_ca: ClientCa,
    /// `None`: not authenticated.
    tokens: Cache<Option<Arc<UserInfo>>>,
}

impl Authenticator {
    pub fn new(env: &Env, client: Arc<dyn Client>, client_ca: ClientCa) -> Authenticator {
        Authenticator { env: env.clone(), client, client_ca, tokens: Cache::new(CAPACITY) }
    }

    pub fn certificate(&self, chain: Option<&[CertificateDer<'_>]>) -> Certificate {
        let Some(chain) = chain.filter(|chain| !chain.is_empty()) else { return Certificate::None };
        match x509::authenticate(chain, &self.client_ca, self.env.now_seconds()) {
            Ok(who) => {
                Certificate::Valid { user: Arc::new(who.user.authenticated()), not_after: who.not_after }
            }
            Err(X509Error::NoCommonName) => Certificate::None,
            Err(error) => {
                tracing::info!(%error, "client certificate refused");
                Certificate::Invalid
            }
        }
    }

    /// `None`: a 401. A token that came as a subprotocol is taken out of the headers.
    pub async fn authenticate(
        &self,
        certificate: &Certificate,
        headers: &mut HeaderMap,
    ) -> Option<Arc<UserInfo>> {
        if let Certificate::Valid { user, not_after } = certificate
            && self.env.now_seconds() <= *not_after
        {
            return Some(user.clone());
        }
        let token = match bearer_token(headers) {
            Some(token) => token,
            None => subprotocol_token(headers)?,
        };
        let key = Cache::<()>::key(token.as_bytes());
        if let Some(known) = self.tokens.get(&self.env, &key) {
            return known;
        }
        let review = retried(&self.env, || {
            let mut body = Value::map();
            body.map_at(&["spec"]).set("token", token.as_str());
            self.client.review(TOKEN_REVIEWS.everywhere(), body)
        });
        let review = match review.await {
            Ok(review) => review,
            Err(status) => {
                tracing::error!(message = status.message, "token cannot be reviewed");
                return None;
            }
        };
        if let Some(error) = review.str_at(&["status", "error"]).filter(|error| !error.is_empty()) {
            tracing::info!(error, "token refused");
        }
        let user = user_of(&review).map(Arc::new);
        self.tokens.put(&self.env, key, user.clone(), LIFETIME);
        user
    }
}

fn user_of(review: &Value) -> Option<UserInfo> {
    let status = review.get("status")?;
    status.get("authenticated").and_then(Value::as_bool).filter(|yes| *yes)?;
    let user = status.get("user")?;
    let texts = |list: Option<&Value>| -> Vec<String> {
        let list = list.and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let extra = user.get("extra").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let info = UserInfo {
        name: user.str_at(&["username"]).unwrap_or_default().to_owned(),
        uid: user.str_at(&["uid"]).unwrap_or_default().to_owned(),
        groups: texts(user.get("groups")),
        extra: extra.map(|(name, values)| (name.to_string(), texts(Some(values)))).collect(),
    };
    Some(info.authenticated())
}

/// The token of an `Authorization: Bearer` header; any other content of the header is ignored.
fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = text.splitn(3, ' ');
    let scheme = words.next().unwrap_or("");
    let token = words.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())?;
    Some(token.to_owned())
}

/// There must be another subprotocol for the server to choose.
fn subprotocol_token(headers: &mut HeaderMap) -> Option<String> {
    if !streaming::upgrade::is_websocket(headers) {
        return None;
    }
    let values: Vec<String> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .collect();
    let (tokens, others): (Vec<_>, Vec<_>) =
        values.into_iter().partition(|protocol| protocol.starts_with(TOKEN_PROTOCOL));
    let ([token], false) = (tokens.as_slice(), others.is_empty()) else { return None };
    let token = URL_SAFE_NO_PAD.decode(&token[TOKEN_PROTOCOL.len()..]).ok()?;
    let token = String::from_utf8(token).ok().filter(|token| !token.is_empty())?;
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(&others.join(", ")).ok()?);
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_among_subprotocols_is_taken_out() {
        let mut headers = streaming::upgrade::websocket_request(&Env::machine(), &["v5.channel.k8s.io"]);
        let token = format!("{TOKEN_PROTOCOL}{}", URL_SAFE_NO_PAD.encode("secret"));
        assert_eq!(subprotocol_token(&mut headers), None);
        headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(&token).unwrap());
        assert_eq!(subprotocol_token(&mut headers).as_deref(), Some("secret"));
        assert_eq!(headers[SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io");
        let mut alone = streaming::upgrade::websocket_request(&Env::machine(), &[&token]);
        assert_eq!(subprotocol_token(&mut alone), None, "nothing would be left to agree on");
    }
}
