//! Who asks: a client certificate, or a bearer token, or nobody.

use std::borrow::Cow;
use std::sync::Arc;

use auth::UserInfo;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use object::Status;

use crate::api::Api;
use crate::respond::{self, Answer};
use crate::upgrade::PendingUpgrade;
use crate::websocket;

const SPACE_BEFORE_TOKEN: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// The client, as its connection knows it.
#[derive(Clone, Debug)]
pub enum Caller {
    /// No client certificate: a token, or anonymous.
    Unknown,
    /// Authenticated by a client certificate, or a component of this process.
    Known(Arc<UserInfo>),
    /// An invalid client certificate: refused, unless a token is valid.
    Refused,
    /// The certificate of a front proxy: its headers say who asks. Without them it is what the certificate makes it otherwise.
    FrontProxy(Box<Caller>),
}

/// Who asks, and what they are told of their credentials, whatever comes of the request.
pub(crate) struct Identity {
    pub user: Arc<UserInfo>,
    pub warning: Option<&'static str>,
}

impl From<Arc<UserInfo>> for Identity {
    fn from(user: Arc<UserInfo>) -> Identity {
        Identity { user, warning: None }
    }
}

pub(crate) async fn authenticate(api: &Api, caller: &Caller, parts: &Parts) -> Result<Identity, Status> {
    let begun = api.registry.env().monotonic();
    let identity = identify(api, caller, parts).await;
    let took = api.registry.env().monotonic() - begun;
    let name = identity.as_ref().ok().map(|identity| &*identity.user.name);
    api.metrics.auth().authenticated(name, took);
    identity
}

/// A certificate, then tokens. Without credentials a client is anonymous; with invalid ones it is refused.
async fn identify(api: &Api, caller: &Caller, parts: &Parts) -> Result<Identity, Status> {
    let caller = match caller {
        Caller::FrontProxy(otherwise) => {
            let sent = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            let sent: Vec<(&str, &[u8])> = sent.collect();
            match api.cluster().request_headers.as_ref().and_then(|headers| headers.user(&sent)) {
                Some(user) => return Ok(Arc::new(user).into()),
                None => otherwise,
            }
        }
        caller => caller,
    };
    if let Caller::Known(user) = caller {
        return Ok(user.clone().into());
    }
    let upgrade = PendingUpgrade::of(parts).filter(|_| websocket::is_requested(&parts.headers));
    let (token, upgrade) = match (bearer_token(&parts.headers), upgrade) {
        (Some(token), _) => (Cow::Borrowed(token), None),
        // Browsers cannot set headers of a WebSocket: the token comes as a subprotocol.
        (None, Some(upgrade)) => match websocket::token(&parts.headers) {
            Ok(token) => (Cow::Owned(token.unwrap_or_default()), Some(upgrade)),
            Err(why) => {
                tracing::debug!(why, "bearer token refused");
                return Err(Status::unauthorized());
            }
        },
        (None, None) => (Cow::Borrowed(""), None),
    };
    if token.is_empty() {
        return match caller {
            Caller::Refused => Err(Status::unauthorized()),
            _ if api.cluster().refuse_anonymous => Err(Status::unauthorized()),
            _ => Ok(Arc::new(UserInfo::anonymous()).into()),
        };
    }
    let audiences = api.token_authenticator.service_accounts().audiences();
    match api.token_authenticator.authenticate(&api.registry, &token, audiences).await {
        Ok(bearer) => {
            if let Some(upgrade) = upgrade {
                upgrade.token_used();
            }
            Ok(Identity { user: bearer.user, warning: bearer.warning })
        }
        Err(why) => {
            tracing::debug!(why, "bearer token refused");
            Err(Status::unauthorized())
        }
    }
}

/// The token of an `Authorization: Bearer` header; any other content of the header is ignored.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    // What is not UTF-8 is an invalid token rather than none.
    let text = headers.get(AUTHORIZATION)?;
    let text = std::str::from_utf8(text.as_bytes()).unwrap_or("bearer ?").trim();
    let mut words = text.splitn(3, ' ');
    let scheme = words.next().unwrap_or("");
    words.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// A mistake worth a warning: the client believes it sent a token.
pub(crate) fn warn_about_ignored_token(caller: &Caller, headers: &HeaderMap, answer: &mut Answer) {
    if !matches!(caller, Caller::Known(_)) && has_space_before_token(headers) {
        respond::warn_first(answer, SPACE_BEFORE_TOKEN);
    }
}

/// `Bearer  x`: what follows the first space is empty, and so no token.
fn has_space_before_token(headers: &HeaderMap) -> bool {
    let text = headers.get(AUTHORIZATION).and_then(|text| std::str::from_utf8(text.as_bytes()).ok());
    let mut words = text.unwrap_or("").trim().splitn(3, ' ');
    let bearer = words.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    bearer && words.next() == Some("") && words.next().is_some()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn a_bearer_token_is_the_word_behind_the_scheme() {
        let cases: [(&[u8], Option<&str>); 9] = [
            (b"Bearer abc", Some("abc")),
            (b"bearer abc", Some("abc")),
            (b" BEARER abc ", Some("abc")),
            (b"Bearer abc def", Some("abc")),
            (b"Bearer  abc", None),
            (b"Bearer", None),
            (b"Basic abc", None),
            (b"", None),
            // Refused, instead of taken for a client without a token.
            (b"Bearer \xff", Some("?")),
        ];
        for (value, token) in cases {
            assert_eq!(bearer_token(&headers(value)), token, "{:?}", String::from_utf8_lossy(value));
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[test]
    fn a_token_that_is_ignored_for_a_space_is_warned_about() {
        let cases =
            [("Bearer  abc", true), ("bearer  a b", true), ("Bearer abc", false), ("Basic  abc", false)];
        for (value, warned) in cases {
            let mut answer = respond::page_not_found();
            warn_about_ignored_token(&Caller::Unknown, &headers(value.as_bytes()), &mut answer);
            assert_eq!(answer.headers().contains_key(http::header::WARNING), warned, "{value}");
        }
        let (known, mut answer) = (Caller::Known(Arc::new(UserInfo::anonymous())), respond::page_not_found());
        warn_about_ignored_token(&known, &headers(b"Bearer  abc"), &mut answer);
        assert!(!answer.headers().contains_key(http::header::WARNING), "the certificate was enough");
    }
}
