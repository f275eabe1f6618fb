//! `Impersonate-User` and the like: acting as somebody else, who then is the user for every layer below.

use std::sync::Arc;

use auth::{Attributes, UserInfo, impersonation};
use http::HeaderMap;
use http::request::Parts;
use object::Status;

use crate::api::Api;

pub(crate) fn impersonate(
    api: &Api,
    user: Arc<UserInfo>,
    parts: &Parts,
    attributes: &Attributes<'_>,
) -> Result<Arc<UserInfo>, Status> {
    let headers = impersonation_headers(&parts.headers)?;
    if headers.is_empty() {
        return Ok(user);
    }
    let Some(requested) = impersonation::requested(headers.into_iter())? else { return Ok(user) };
    let authorize = |user: &UserInfo, wanted: &Attributes<'_>| api.authorizer.authorize(user, wanted);
    Ok(Arc::new(impersonation::impersonate(&requested, &user, attributes, &authorize)?.user))
}

fn impersonation_headers(headers: &HeaderMap) -> Result<Vec<(&str, &str)>, Status> {
    let all = headers.iter().filter(|(name, _)| impersonation::is_impersonation_header(name.as_str()));
    all.map(|(name, value)| {
        // Names need not be ASCII; one that cannot be read must not be taken for none.
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| Status::bad_request(format!("the header {name} is not UTF-8")))?;
        Ok((name.as_str(), text))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(all: &[(&'static str, &[u8])]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &[u8])| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        };
        all.iter().map(header).collect()
    }

    #[test]
    fn only_impersonation_headers_are_read() {
        let headers = headers(&[("impersonate-user", "jäne".as_bytes()), ("x-user", b"\xff")]);
        assert_eq!(impersonation_headers(&headers).unwrap(), [("impersonate-user", "jäne")]);
    }

    #[test]
    fn an_unreadable_name_is_a_bad_request() {
        let status = impersonation_headers(&headers(&[("impersonate-group", b"\xff")])).unwrap_err();
        assert_eq!((status.code, &*status.message), (400, "the header impersonate-group is not UTF-8"));
    }
}
