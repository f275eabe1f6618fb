//! What a registry wants to see: nothing, a password, or a token from its token server.
//!
//! ```text
//! 401, WWW-Authenticate: Bearer realm="…",service="…",scope="…" ── realm ── token
//!                        Basic                                  ── user and password
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::RegistryError;
use super::connect::Connector;
use super::http_client::Client;
use super::url::Url;
use crate::keyring::Login;

const CLIENT_ID: &str = "setpoint";
const MAX_TOKEN_RESPONSE: u64 = 1 << 20;

/// The value of an `Authorization` header. A secret, so it does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Authorization(String);

impl Authorization {
    pub fn header(&self) -> Result<HeaderValue, String> {
        let mut value =
            HeaderValue::from_str(&self.0).map_err(|_| "the credentials do not fit a header".to_owned())?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn basic(login: &Login) -> Authorization {
        Authorization(format!("Basic {}", STANDARD.encode(format!("{}:{}", login.username, login.password))))
    }

    fn bearer(token: &str) -> Authorization {
        Authorization(format!("Bearer {token}"))
    }
}

/// A 401, and what there is to answer it with.
pub(crate) struct Asked<'a> {
    pub headers: &'a HeaderMap,
    pub url: &'a Url,
    /// The scope to ask for if the registry names none.
    pub scope: &'a str,
    pub login: Option<&'a Login>,
    /// What was shown and not good enough.
    pub refused: Option<&'a Authorization>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    fn get(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value.as_str())
    }
}

pub(crate) async fn authorize(
    client: &Client,
    connector: &Connector,
    asked: Asked<'_>,
) -> Result<Authorization, RegistryError> {
    let denied = |problem: &str| RegistryError::Denied(problem.to_owned());
    let challenges: Vec<Challenge> = (asked.headers.get_all(WWW_AUTHENTICATE).iter())
        .filter_map(|value| value.to_str().ok())
        .flat_map(parse)
        .collect();
    let login = asked.login.filter(|login| **login != Login::default());
    let given = if let Some(login) = login.filter(|login| !login.registry_token.is_empty()) {
        Authorization::bearer(&login.registry_token)
    } else if let Some(challenge) = challenges.iter().find(|challenge| challenge.scheme == "bearer") {
        let error = challenge.get("error");
        if asked.refused.is_some() && !matches!(error, "" | "invalid_token") {
            return Err(denied(&format!("server message: {error}: authorization failed")));
        }
        fetch_token(client, connector, challenge, &asked, login).await?
    } else if challenges.iter().any(|challenge| challenge.scheme == "basic") {
        let login = login.filter(|login| !login.username.is_empty() && !login.password.is_empty());
        Authorization::basic(login.ok_or_else(|| denied("authorization failed: no basic auth credentials"))?)
    } else {
        return Err(denied("authorization failed"));
    };
    if asked.refused == Some(&given) {
        return Err(denied("authorization failed"));
    }
    Ok(given)
}

async fn fetch_token(
    client: &Client,
    connector: &Connector,
    challenge: &Challenge,
    asked: &Asked<'_>,
    login: Option<&Login>,
) -> Result<Authorization, RegistryError> {
    let failed = |problem: String| match login {
        Some(_) => RegistryError::Token(problem),
        None => RegistryError::AnonymousToken(problem),
    };
    let realm = Url::parse(challenge.get("realm"))
        .ok_or_else(|| failed("no realm specified for token auth challenge".to_owned()))?;
    if login.is_some() && asked.url.https && !realm.https {
        // Differs from containerd, which would send the password in the clear because the registry says so.
        return Err(failed(format!("the token server {realm} would get the credentials without TLS")));
    }
    let service = challenge.get("service");
    let scope = match challenge.get("scope") {
        "" => asked.scope,
        scope => scope,
    };
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    if let Some(login) = login {
        // OAuth first: an identity token goes no other way. Registries that know only the older way say so.
        let grant = if login.identity_token.is_empty() {
            let (user, password) = (encode(&login.username), encode(&login.password));
            format!("grant_type=password&username={user}&password={password}")
        } else {
            format!("grant_type=refresh_token&refresh_token={}", encode(&login.identity_token))
        };
        let form =
            format!("{grant}&service={}&scope={}&client_id={CLIENT_ID}", encode(service), encode(scope));
        let mut response = client.post_form(connector, &realm, form).await.map_err(failed)?;
        if response.status == StatusCode::OK {
            return token(
                &response.body.whole(MAX_TOKEN_RESPONSE).await.map_err(|e| failed(e.unwrap_or_default()))?,
            )
            .map_err(failed);
        }
        let older = matches!(
            response.status,
            StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::NOT_FOUND
                | StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::BAD_REQUEST
        );
        if !older || !login.identity_token.is_empty() {
            return Err(failed(format!(
                "unexpected status from POST request to {realm}: {}",
                response.status
            )));
        }
    }
    let separator = if realm.path.contains('?') { '&' } else { '?' };
    let mut query = format!("{separator}scope={}", encode(scope));
    if !service.is_empty() {
        query.push_str(&format!("&service={}", encode(service)));
    }
    let url = Url { path: format!("{}{query}", realm.path), ..realm };
    let basic = login.map(Authorization::basic);
    let mut response =
        client.get(connector, &url, &HeaderMap::new(), basic.as_ref()).await.map_err(failed)?;
    match response.status {
        StatusCode::OK => {
            let body = response
                .body
                .whole(MAX_TOKEN_RESPONSE)
                .await
                .map_err(|error| failed(error.unwrap_or_default()))?;
            token(&body).map_err(failed)
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let status = response.status;
            Err(RegistryError::Denied(format!(
                "authorization server: unexpected status from GET request to {url}: {status}"
            )))
        }
        status => Err(failed(format!("unexpected status from GET request to {url}: {status}"))),
    }
}

fn token(body: &[u8]) -> Result<Authorization, String> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer: Answer =
        serde_json::from_slice(body).map_err(|_| "unable to decode token response".to_owned())?;
    let token = answer.token.filter(|token| !token.is_empty()).or(answer.access_token);
    match token.filter(|token| !token.is_empty()) {
        Some(token) => Ok(Authorization::bearer(&token)),
        None => Err("authorization server did not include a token in the response".to_owned()),
    }
}

/// `code: message` of the first error a registry names.
pub(crate) fn server_message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Problem>,
    }
    #[derive(Deserialize)]
    struct Problem {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let errors: Errors = serde_json::from_slice(body).ok()?;
    let first = errors.errors.into_iter().next()?;
    let text = if first.message.is_empty() {
        first.code
    } else {
        format!("{}: {}", first.code.to_lowercase(), first.message)
    };
    // For an event: a line, not a page.
    Some(text.chars().filter(|c| !c.is_control()).take(300).collect())
}

/// The challenges of one header: schemes, each with `key=value` or `key="value"`, all separated by commas.
pub(super) fn parse(header: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = header.trim_start_matches([' ', ',']);
    while !rest.is_empty() {
        let end = rest.find([' ', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let value = after.trim_start().strip_prefix('=');
        rest = match value {
            Some(value) => {
                let (value, rest) = parameter(value.trim_start());
                if let Some(challenge) = challenges.last_mut() {
                    challenge.parameters.push((word.to_lowercase(), value));
                }
                rest
            }
            None => {
                if !word.is_empty() {
                    challenges.push(Challenge { scheme: word.to_lowercase(), parameters: Vec::new() });
                }
                after
            }
        };
        rest = rest.trim_start_matches([' ', ',']);
    }
    challenges
}

/// A value, quoted or not, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let show = |header: &str| {
            let list = parse(header).into_iter().map(|challenge| {
                let parameters: Vec<String> =
                    challenge.parameters.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("{} {}", challenge.scheme, parameters.join("|"))
            });
            list.collect::<Vec<_>>()
        };
        for (header, read) in [
            (
                r#"Bearer realm="https://a.io/token",service="r.io",scope="repository:a:pull,push""#,
                vec!["bearer realm=https://a.io/token|service=r.io|scope=repository:a:pull,push"],
            ),
            (
                r#"Basic realm="x y", Bearer realm=u , scope="s""#,
                vec!["basic realm=x y", "bearer realm=u|scope=s"],
            ),
            (r#"Bearer realm="a\"b", error="x"#, vec!["bearer realm=a\"b|error=x"]),
            ("Basic", vec!["basic "]),
            ("", vec![]),
            (",,, ", vec![]),
            ("=", vec![]),
            ("realm=\"x\"", vec![]),
            ("Negotiate, NTLM", vec!["negotiate ", "ntlm "]),
        ] {
            assert_eq!(show(header), read, "{header}");
        }
    }

    #[test]
    fn a_token_answer_has_one_of_two_names() {
        for (body, said) in [
            (r#"{"token": "t"}"#, Some("Bearer t")),
            (r#"{"access_token": "a", "expires_in": 60}"#, Some("Bearer a")),
            (r#"{"token": "", "access_token": "a"}"#, Some("Bearer a")),
            ("{}", None),
            ("", None),
        ] {
            assert_eq!(token(body.as_bytes()).ok().map(|authorization| authorization.0).as_deref(), said);
        }
    }

    #[test]
    fn a_registrys_message_is_one_short_line() {
        let body = format!(r#"{{"errors": [{{"code": "DENIED", "message": "no\n{}"}}]}}"#, "x".repeat(1000));
        let message = server_message(body.as_bytes()).unwrap();
        assert!(message.starts_with("denied: nox") && message.len() == 300);
        assert_eq!(server_message(b"<html>"), None);
    }
}
