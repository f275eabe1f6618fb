//! Who asks: a client certificate of a CA that is trusted, a bearer token the API server vouches for, or nobody in particular, as far as
//! the configuration lets them in.

use std::sync::Arc;

use auth::Authorities;
use auth::UserInfo;
use auth::x509::{self, ClientCa, X509Error};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::{Client, Gvr, Map, Value};
use env::Env;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;

use super::authorize::retried;
use super::cache::Cache;
use super::client_ca::ClientCas;
use crate::config::Authentication;

static TOKEN_REVIEWS: Gvr = Gvr::new("authentication.k8s.io", "v1", "tokenreviews");
/// Of different tokens within `authentication.webhook.cacheTTL`.
const CAPACITY: usize = 4096;
/// Browsers cannot set headers of a WebSocket: the token comes as a subprotocol.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// What the client's certificate comes to.
#[derive(Clone)]
pub enum Certificate {
    None,
    Valid { user: Arc<UserInfo>, not_after: u64 },
    Invalid,
}

/// The certificate of a connection: verified once, and again when other CAs are trusted.
pub struct PeerCertificate {
    /// Leaf first.
    chain: Vec<CertificateDer<'static>>,
    /// By which CAs, and what it came to; held to look it up.
    verified: Mutex<Option<(Arc<Authorities>, Certificate)>>,
}

impl PeerCertificate {
    pub fn new(chain: Option<&[CertificateDer<'_>]>) -> PeerCertificate {
        let chain = chain.unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned());
        PeerCertificate { chain: chain.collect(), verified: Mutex::new(None) }
    }
}

pub struct Authenticator {
    env: Env,
    client: Arc<dyn Client>,
    client_cas: Arc<ClientCas>,
    settings: Authentication,
    /// `None`: not authenticated.
    tokens: Cache<Option<Arc<UserInfo>>>,
}

impl Authenticator {
    pub fn new(
        env: &Env,
        client: Arc<dyn Client>,
        client_cas: Arc<ClientCas>,
        settings: Authentication,
    ) -> Authenticator {
        Authenticator { env: env.clone(), client, client_cas, settings, tokens: Cache::new(CAPACITY) }
    }

    pub fn certificate(&self, peer: &PeerCertificate) -> Certificate {
        if peer.chain.is_empty() {
            return Certificate::None;
        }
        let authorities = self.client_cas.current();
        let mut verified = peer.verified.lock();
        if let Some((by, certificate)) = &*verified
            && Arc::ptr_eq(by, &authorities)
        {
            return certificate.clone();
        }
        let certificate = self.verify(&peer.chain, &authorities.ca);
        *verified = Some((authorities, certificate.clone()));
        certificate
    }

    fn verify(&self, chain: &[CertificateDer<'_>], authorities: &ClientCa) -> Certificate {
        match x509::authenticate(chain, authorities, self.env.now_seconds()) {
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

    /// `None`: a 401. A token that came as a subprotocol is taken out of the headers. Only who shows nothing is anonymous: credentials
    /// that are refused are never taken for none.
    pub async fn authenticate(
        &self,
        peer: &PeerCertificate,
        headers: &mut HeaderMap,
    ) -> Option<Arc<UserInfo>> {
        let mut refused = match self.certificate(peer) {
            Certificate::Valid { user, not_after } if self.env.now_seconds() <= not_after => {
                return Some(user);
            }
            Certificate::Valid { .. } | Certificate::Invalid => true,
            Certificate::None => false,
        };
        if self.settings.webhook {
            match token(headers) {
                Token::Given(token) => match self.review(&token).await {
                    Some(user) => return Some(user),
                    None => refused = true,
                },
                Token::Refused => refused = true,
                Token::None => {}
            }
        }
        (self.settings.anonymous && !refused).then(|| Arc::new(UserInfo::anonymous()))
    }

    async fn review(&self, token: &str) -> Option<Arc<UserInfo>> {
        let key = Cache::<()>::key(token.as_bytes());
        if let Some(known) = self.tokens.get(&self.env, &key) {
            return known;
        }
        let review = retried(&self.env, || {
            let mut body = Value::map();
            body.map_at(&["spec"]).set("token", token);
            self.client.review(TOKEN_REVIEWS.everywhere(), body)
        });
        let review = match review.await {
            Ok(review) => review,
            Err(status) => {
                tracing::error!(message = status.message, "token cannot be reviewed");
                return None;
            }
        };
        let user = user_of(&review).map(Arc::new);
        if let Some(error) = review.str_at(&["status", "error"]).filter(|error| !error.is_empty())
            && user.is_none()
        {
            tracing::info!(error, "token refused");
            // Whoever was asked may have failed to find out: the token may be good the next time.
            return None;
        }
        self.tokens.put(&self.env, key, user.clone(), self.settings.webhook_cache_ttl);
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

/// The token of a request.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    None,
    /// There is something like a token, which cannot be one.
    Refused,
    Given(String),
}

fn token(headers: &mut HeaderMap) -> Token {
    match bearer_token(headers) {
        Some(token) => Token::Given(token),
        None => subprotocol_token(headers),
    }
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
fn subprotocol_token(headers: &mut HeaderMap) -> Token {
    if !streaming::upgrade::is_websocket(headers) {
        return Token::None;
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
    let token = match tokens.as_slice() {
        [] => return Token::None,
        [token] => URL_SAFE_NO_PAD.decode(&token[TOKEN_PROTOCOL.len()..]).ok(),
        _ => None,
    };
    let Some(token) = token.and_then(|token| String::from_utf8(token).ok()) else { return Token::Refused };
    if token.is_empty() {
        return Token::None;
    }
    match HeaderValue::from_str(&others.join(", ")) {
        Ok(left) if !others.is_empty() => {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, left);
            Token::Given(token)
        }
        _ => Token::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_among_subprotocols_is_taken_out() {
        let mut headers = streaming::upgrade::websocket_request(&Env::machine(), &["v5.channel.k8s.io"]);
        let token = format!("{TOKEN_PROTOCOL}{}", URL_SAFE_NO_PAD.encode("secret"));
        assert_eq!(subprotocol_token(&mut headers), Token::None);
        headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(&token).unwrap());
        assert_eq!(subprotocol_token(&mut headers), Token::Given("secret".to_owned()));
        assert_eq!(headers[SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io");
        let mut alone = streaming::upgrade::websocket_request(&Env::machine(), &[&token]);
        assert_eq!(subprotocol_token(&mut alone), Token::Refused, "nothing would be left to agree on");
        let odd = format!("{TOKEN_PROTOCOL}***");
        let mut odd = streaming::upgrade::websocket_request(&Env::machine(), &["v5.channel.k8s.io", &odd]);
        assert_eq!(subprotocol_token(&mut odd), Token::Refused, "not base64");
    }
}
