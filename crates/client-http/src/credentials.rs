//! Who we say we are with each request: a token, a password, somebody else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use env::Env;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use object::{Status, Value};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio::time::Instant;

use crate::exec::{Exec, Given, Plugin};

/// What goes into the Authorization header. A client certificate is shown by TLS instead.
#[derive(Clone, Default, PartialEq)]
pub enum Credentials {
    #[default]
    None,
    Token(String),
    /// Read again from time to time: whoever writes it replaces the token before it ends.
    TokenFile(PathBuf),
    Basic {
        user: String,
        password: String,
    },
    /// A program gives a token, a client certificate, or both.
    Plugin(Plugin),
}

/// Secrets are not for logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::None => f.write_str("None"),
            Credentials::Token(_) => f.write_str("Token(..)"),
            Credentials::TokenFile(path) => write!(f, "TokenFile({})", path.display()),
            Credentials::Basic { user, .. } => write!(f, "Basic({user}, ..)"),
            Credentials::Plugin(plugin) => plugin.fmt(f),
        }
    }
}

/// Somebody to act as; the user of the connection must be allowed to impersonate them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    pub user: String,
    /// Empty: not said.
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

impl Impersonate {
    pub fn user(name: &str, groups: &[&str]) -> Impersonate {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Impersonate { user: name.to_owned(), groups, ..Impersonate::default() }
    }
    /// The server adds an account's groups by itself.
    pub fn service_account(namespace: &str, name: &str) -> Impersonate {
        Impersonate::user(&format!("system:serviceaccount:{namespace}:{name}"), &[])
    }

    /// What a user of a kubeconfig says under `as`, `as-uid`, `as-groups` and `as-user-extra`.
    pub fn of_user(user: &Value) -> Result<Option<Impersonate>, String> {
        crate::config::impersonate(user)
    }

    pub fn headers(&self) -> Result<HeaderMap, Status> {
        let mut headers = HeaderMap::new();
        let value = |text: &str| {
            // Names need not be ASCII; control characters cannot be sent.
            HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
                Status::bad_request(format!("{text:?} cannot be impersonated: no header holds it"))
            })
        };
        headers.append("impersonate-user", value(&self.user)?);
        if !self.uid.is_empty() {
            headers.append("impersonate-uid", value(&self.uid)?);
        }
        for group in &self.groups {
            headers.append("impersonate-group", value(group)?);
        }
        for (key, values) in &self.extra {
            let name =
                format!("impersonate-extra-{}", utf8_percent_encode(key, EXTRA).to_string().to_lowercase());
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| Status::bad_request(format!("{key:?} is no name for an impersonated extra")))?;
            for text in values {
                headers.append(name.clone(), value(text)?);
            }
        }
        Ok(headers)
    }
}

/// What a header's name cannot hold.
const EXTRA: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'%')
    .add(b'/')
    .add(b':')
    .add(b'"')
    .add(b'(')
    .add(b')')
    .add(b',')
    .add(b';')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'@')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'{')
    .add(b'}');

/// A token file is trusted for this long.
const FRESH: Duration = Duration::from_secs(60);

/// What a request was sent with.
pub(crate) enum Used {
    /// Nothing that could be had anew.
    Fixed,
    File(HeaderValue),
    Given(Arc<Given>),
}

/// Makes the Authorization header.
pub(crate) struct Authorization {
    env: Env,
    source: Credentials,
    /// Guards the header read last and when that was; the file is read while it is held, which is short.
    read: Mutex<Option<(Instant, HeaderValue)>>,
    /// Where the credentials come from a plugin.
    exec: Option<Arc<Exec>>,
}

impl Authorization {
    pub fn new(env: Env, source: Credentials) -> Authorization {
        let exec = match &source {
            Credentials::Plugin(plugin) => Some(Exec::new(env.clone(), plugin.clone())),
            _ => None,
        };
        Authorization { env, source, read: Mutex::new(None), exec }
    }

    /// The plugin, for who makes connections: it may give a certificate.
    pub fn plugin(&self) -> Option<&Arc<Exec>> {
        self.exec.as_ref()
    }

    pub async fn add_to(&self, headers: &mut HeaderMap) -> Result<Used, Status> {
        let (header, used) = match &self.source {
            Credentials::None => (None, Used::Fixed),
            Credentials::Token(token) => (Some(bearer(token)?), Used::Fixed),
            Credentials::Basic { user, password } => {
                let login = STANDARD.encode(format!("{user}:{password}"));
                (Some(secret(&format!("Basic {login}"))?), Used::Fixed)
            }
            Credentials::TokenFile(path) => {
                let header = self.read_file(path)?;
                (Some(header.clone()), Used::File(header))
            }
            Credentials::Plugin(_) => match &self.exec {
                Some(exec) => {
                    let given = exec.credentials().await;
                    let given =
                        given.map_err(|why| Status::unavailable(format!("getting credentials: {why}")))?;
                    (given.token.as_deref().map(bearer).transpose()?, Used::Given(given))
                }
                None => (None, Used::Fixed),
            },
        };
        match header {
            Some(header) => drop(headers.insert(AUTHORIZATION, header)),
            None => drop(headers.remove(AUTHORIZATION)),
        }
        Ok(used)
    }

    /// The server did not take what was used; `true`: another may be had, so it is worth another try.
    ///
    /// Many requests may be refused for one token: only the first has it replaced, the others use what came of that.
    pub fn refused(&self, used: &Used) -> bool {
        match (used, &self.exec) {
            (Used::Given(given), Some(exec)) => exec.refused(given),
            (Used::File(header), _) => {
                self.read.lock().take_if(|(_, last)| last == header);
            }
            _ => return false,
        }
        true
    }

    fn read_file(&self, path: &Path) -> Result<HeaderValue, Status> {
        let now = self.env.monotonic();
        let mut read = self.read.lock();
        if let Some((_, header)) = read.as_ref().filter(|(at, _)| now - *at < FRESH) {
            return Ok(header.clone());
        }
        match std::fs::read_to_string(path) {
            Ok(token) => {
                let header = bearer(token.trim())?;
                *read = Some((now, header.clone()));
                Ok(header)
            }
            // An old token is better than none while the file is being replaced.
            Err(error) => match read.as_ref() {
                Some((_, header)) => Ok(header.clone()),
                None => {
                    Err(Status::unavailable(format!("cannot read the token in {}: {error}", path.display())))
                }
            },
        }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Status> {
    secret(&format!("Bearer {token}"))
}

fn secret(text: &str) -> Result<HeaderValue, Status> {
    let mut header = HeaderValue::from_str(text)
        .map_err(|_| Status::bad_request("the credentials hold characters no header can have"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_file_is_read_again_after_a_minute_or_a_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let env = Env::simulated(1);
        let authorization = Authorization::new(env.clone(), Credentials::TokenFile(path.clone()));
        let sent = async || {
            let mut headers = HeaderMap::new();
            let added = authorization.add_to(&mut headers).await;
            added.map(|used| (headers[AUTHORIZATION].to_str().unwrap().to_owned(), used))
        };
        assert!(sent().await.is_err_and(|status| status.code == 503));
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(sent().await.unwrap().0, "Bearer one");
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(sent().await.unwrap().0, "Bearer one");
        env.sleep(Duration::from_secs(61)).await;
        let (token, two) = sent().await.unwrap();
        assert_eq!(token, "Bearer two");
        std::fs::write(&path, "three\n").unwrap();
        assert!(authorization.refused(&two));
        assert_eq!(sent().await.unwrap().0, "Bearer three");
        // Refused late, for the token before: it is worth another try, and the new token stays.
        std::fs::write(&path, "four\n").unwrap();
        assert!(authorization.refused(&two));
        assert_eq!(sent().await.unwrap().0, "Bearer three");
        // Without the file the last token goes on.
        std::fs::remove_file(&path).unwrap();
        env.sleep(Duration::from_secs(61)).await;
        assert_eq!(sent().await.unwrap().0, "Bearer three");
    }

    #[test]
    fn impersonation_says_name_groups_and_extras() {
        let who = Impersonate {
            extra: vec![("example.com/Key".to_owned(), vec!["v".to_owned()])],
            ..Impersonate::user("jane", &["a", "b"])
        };
        let headers = who.headers().unwrap();
        assert_eq!(headers["impersonate-user"], "jane");
        assert_eq!(headers.get_all("impersonate-group").iter().count(), 2);
        assert_eq!(headers["impersonate-extra-example.com%2fkey"], "v");
        assert!(Impersonate::user("a\nb", &[]).headers().is_err());
    }
}
