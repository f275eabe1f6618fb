//! Who the API server is to webhooks: the users of a kubeconfig, named after the servers they are for.
//!
//! ```text
//! users: hook.example.com:8443   exactly this server           tried in this order, with the port;
//!        *.example.com:8443      longer suffixes first         for port 443 once more without it
//!        *                       everybody else
//!        (current-context)       if there is no `*`
//! ```
//! A user may be a credential plugin (`exec`), and may act as somebody else (`as`). Files that a user names are read again after a minute: tokens and certificates are replaced while the server runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client_http::{Exec, Given, Impersonate, Plugin};
use env::Env;
use object::Value;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::{ClientConfig, Credentials};

/// Larger than any kubeconfig.
const MAX_BYTES: u64 = 4 << 20;
/// Servers one plugin gives credentials for, each told of its own.
const MAX_TOLD: usize = 512;
/// What was read from files is trusted for this long, as client-go does with tokens.
const FRESH: Duration = Duration::from_secs(60);

/// The users of one kubeconfig.
pub struct Kubeconfig {
    users: BTreeMap<String, User>,
    /// The user of the current context.
    current: Option<String>,
}

struct User {
    /// What the Authorization header is made of.
    secret: Secret,
    /// Certificate chain and key.
    certificate: Option<(Pem, Pem)>,
    /// Headers that name somebody to act as.
    impersonate: Vec<(String, Vec<u8>)>,
    /// Only where nothing else is said, as with client-go.
    plugin: Option<ExecPlugin>,
    /// Guards what was read last, and when; files are read while it is held, once a minute.
    read: Mutex<Option<(Instant, Arc<Credentials>)>>,
}

struct ExecPlugin {
    plugin: Plugin,
    /// It is told whom its credentials are for.
    told_server: bool,
    /// Guards what runs it, by the server it is told of; held to find one.
    running: Mutex<BTreeMap<String, Arc<Exec>>>,
}

enum Secret {
    None,
    /// A whole header.
    Header(String),
    /// A token in a file; one that is written down as well counts while the file cannot be read.
    File(PathBuf, Option<String>),
}

enum Pem {
    Data(Vec<u8>),
    File(PathBuf),
}

/// A kubeconfig that cannot be used: the message says which, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct KubeconfigError {
    path: PathBuf,
    problem: String,
}

impl Kubeconfig {
    /// Reads it with everything it names, so that what is wrong shows when the server starts.
    pub fn load(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
        let wrong = |problem: String| KubeconfigError { path: path.to_owned(), problem };
        let text = env::file::read_limited(path, MAX_BYTES).map_err(|error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => wrong(format!("it is larger than {} MiB", MAX_BYTES >> 20)),
            _ => wrong(error.to_string()),
        })?;
        Kubeconfig::parse(&text, path.parent().unwrap_or(Path::new(""))).map_err(wrong)
    }

    /// `folder`: where files with relative names are.
    fn parse(text: &[u8], folder: &Path) -> Result<Kubeconfig, String> {
        let root =
            codec::yaml::parse(text).map_err(|error| format!("it is neither YAML nor JSON: {error}"))?;
        let mut users = BTreeMap::new();
        for entry in list(&root, "users") {
            let name = entry.str_at(&["name"]).unwrap_or_default();
            let nobody = Value::map();
            let user = User::parse(entry.get("user").unwrap_or(&nobody), folder)
                .map_err(|problem| format!("user {name:?}: {problem}"))?;
            // As client-go: the first of a name counts.
            users.entry(name.to_owned()).or_insert(user);
        }
        let context = root.str_at(&["current-context"]).filter(|name| !name.is_empty());
        let context = context.and_then(|name| {
            list(&root, "contexts").iter().find(|entry| entry.str_at(&["name"]) == Some(name))
        });
        let current = context.and_then(|context| context.str_at(&["context", "user"]));
        Ok(Kubeconfig { users, current: current.map(str::to_owned) })
    }

    /// The configuration with what this server shows there.
    pub async fn authenticate(
        &self,
        env: &Env,
        config: &ClientConfig,
    ) -> Result<Authenticated, CredentialsError> {
        let Some(user) = self.user(&config.target.host_port()) else {
            return Ok(Authenticated { config: config.clone(), given: None });
        };
        let known = user.credentials(env).map_err(CredentialsError::Unreadable)?;
        let Some(plugin) = &user.plugin else {
            return Ok(Authenticated { config: config.clone().with_shared(known), given: None });
        };
        let exec = plugin.running(env, config);
        let given = exec.credentials().await.map_err(CredentialsError::Plugin)?;
        let known = Credentials {
            authorization: given.token.as_ref().map(|token| format!("Bearer {token}")),
            certificate_pem: given.certificate.clone(),
            ..Credentials::clone(&known)
        };
        let config = config.clone().with_credentials(known);
        Ok(Authenticated { config, given: Some((exec, given)) })
    }

    /// Upstream's precedence; `target` has a port.
    fn user(&self, target: &str) -> Option<&User> {
        let with_suffixes = |target: &str| {
            self.users.get(target).or_else(|| {
                let dots = target.match_indices('.');
                dots.map(|(at, _)| format!("*{}", &target[at..])).find_map(|name| self.users.get(&name))
            })
        };
        with_suffixes(target)
            .or_else(|| target.strip_suffix(":443").and_then(with_suffixes))
            .or_else(|| self.users.get("*"))
            .or_else(|| self.users.get(self.current.as_ref()?))
    }
}

/// A configuration with credentials.
pub struct Authenticated {
    pub config: ClientConfig,
    /// Who gave them, and what.
    given: Option<(Arc<Exec>, Arc<Given>)>,
}

impl Authenticated {
    /// The webhook answered 401: a plugin is asked again before the next call.
    pub fn refused(&self) {
        if let Some((exec, given)) = &self.given {
            exec.refused(given);
        }
    }
}

/// There is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error("{0}")]
    Unreadable(String),
    #[error("getting credentials: {0}")]
    Plugin(String),
}

impl ExecPlugin {
    fn parse(exec: &Value, folder: &Path) -> Result<ExecPlugin, String> {
        let told_server = exec.get("provideClusterInfo").and_then(Value::as_bool) == Some(true);
        Ok(ExecPlugin { plugin: Plugin::parse(exec, folder)?, told_server, running: Mutex::default() })
    }

    fn running(&self, env: &Env, config: &ClientConfig) -> Arc<Exec> {
        let server = if self.told_server { config.target.authority() } else { String::new() };
        let mut running = self.running.lock();
        if running.len() >= MAX_TOLD && !running.contains_key(&server) {
            running.pop_first();
        }
        let new = || {
            let cluster = self.told_server.then(|| config.cluster_info());
            Exec::new(env.clone(), Plugin { cluster, ..self.plugin.clone() })
        };
        running.entry(server).or_insert_with(new).clone()
    }
}

fn list<'a>(root: &'a Value, name: &str) -> &'a [Value] {
    root.get(name).and_then(Value::as_list).unwrap_or_default()
}

impl User {
    fn parse(user: &Value, folder: &Path) -> Result<User, String> {
        let text = |name: &str| user.str_at(&[name]).filter(|text| !text.is_empty());
        if user.get("auth-provider").is_some_and(|value| !value.is_null()) {
            return Err("auth provider not supported: use exec, token, tokenFile, or client-certificate and client-key".to_owned());
        }
        let somebody = Impersonate::of_user(user)?.map(|somebody| somebody.headers()).transpose();
        let somebody = somebody.map_err(|status| status.message)?.unwrap_or_default();
        let somebody = somebody.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let exec = user.get("exec").filter(|exec| !exec.is_null());
        let plugin = exec.map(|exec| ExecPlugin::parse(exec, folder)).transpose()?;
        let bearer = text("token").map(|token| format!("Bearer {token}"));
        let login = (text("username"), text("password"));
        let secret = match (text("tokenFile"), bearer, login) {
            (Some(_), _, (Some(_), _) | (_, Some(_))) | (_, Some(_), (Some(_), _) | (_, Some(_))) => {
                return Err("username/password or bearer token may be set, but not both".to_owned());
            }
            (Some(file), token, _) => Secret::File(folder.join(file), token),
            (None, Some(header), _) => Secret::Header(header),
            (None, None, (None, None)) => Secret::None,
            (None, None, (name, password)) => {
                let login = format!("{}:{}", name.unwrap_or_default(), password.unwrap_or_default());
                Secret::Header(format!("Basic {}", STANDARD.encode(login)))
            }
        };
        let certificate = pem(user, "client-certificate", folder)?;
        let certificate = match (certificate, pem(user, "client-key", folder)?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err("client-certificate needs a client-key".to_owned()),
            (None, Some(_)) => return Err("client-key needs a client-certificate".to_owned()),
        };
        let alone = matches!(secret, Secret::None) && certificate.is_none();
        let user = User {
            secret,
            certificate,
            impersonate: somebody.collect(),
            plugin: plugin.filter(|_| alone),
            read: Mutex::new(None),
        };
        let known = user.read()?;
        if let Some((certificate, key)) = &known.certificate_pem {
            check(certificate, key)?;
        }
        Ok(user)
    }

    /// What it shows now.
    fn credentials(&self, env: &Env) -> Result<Arc<Credentials>, String> {
        let now = env.monotonic();
        let mut read = self.read.lock();
        match &*read {
            Some((at, known)) if !self.has_files() || now.saturating_duration_since(*at) < FRESH => {
                return Ok(known.clone());
            }
            _ => {}
        }
        let known = match (self.read(), &*read) {
            // Equal ones share their connections.
            (Ok(known), Some((_, before))) if known == **before => before.clone(),
            (Ok(known), _) => Arc::new(known),
            // Old ones are better than none while files are being replaced.
            (Err(error), Some((_, before))) => {
                tracing::warn!(error, "credentials for webhooks cannot be read: the last ones are used");
                before.clone()
            }
            (Err(error), None) => return Err(error),
        };
        *read = Some((now, known.clone()));
        Ok(known)
    }

    fn has_files(&self) -> bool {
        matches!(self.secret, Secret::File(..))
            || matches!(&self.certificate, Some((Pem::File(_), _) | (_, Pem::File(_))))
    }

    fn read(&self) -> Result<Credentials, String> {
        let authorization = match &self.secret {
            Secret::None => None,
            Secret::Header(header) => Some(header.clone()),
            Secret::File(path, written) => match (read_file(path), written) {
                (Ok(token), _) => Some(format!("Bearer {}", String::from_utf8_lossy(&token).trim())),
                (Err(_), Some(written)) => Some(written.clone()),
                (Err(error), None) => return Err(error),
            },
        };
        let certificate_pem = match &self.certificate {
            Some((certificate, key)) => Some((certificate.read()?, key.read()?)),
            None => None,
        };
        Ok(Credentials { authorization, certificate_pem, impersonate: self.impersonate.clone() })
    }
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Pem::Data(data) => Ok(data.clone()),
            Pem::File(path) => read_file(path),
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    env::file::read_limited(path, MAX_BYTES)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// `KEY-data` in base64, or the file `KEY`.
fn pem(user: &Value, key: &str, folder: &Path) -> Result<Option<Pem>, String> {
    let text = |name: &str| user.str_at(&[name]).filter(|text| !text.is_empty());
    if let Some(data) = text(&format!("{key}-data")) {
        let compact: String = data.split_whitespace().collect();
        let data = STANDARD.decode(compact).map_err(|error| format!("{key}-data is not base64: {error}"))?;
        return Ok(Some(Pem::Data(data)));
    }
    Ok(text(key).map(|path| Pem::File(folder.join(path))))
}

/// A certificate that belongs to its key.
fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let certificate_pem = Some((certificate.to_vec(), key.to_vec()));
    let config = client_http::Config { certificate_pem, skip_verify: true, ..client_http::Config::default() };
    let provider = rustls::crypto::ring::default_provider();
    client_http::tls::client_config(&config, provider, &[]).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
