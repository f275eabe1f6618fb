//! Speaks to registries: what a tag means, manifests, blobs.
//!
//! ```text
//! Session (one repository, one login)
//!   │ resolve ── every server that may resolve, in order ── GET manifests/TAG
//!   │ document / blob ── every server that may give content, in order ── GET …/DIGEST
//!   └ 401 ── challenge ── token server ── again with the token (one for each server)
//! ```
//! Nothing is believed before it matches its digest; only what a tag means is the registry's word.

mod auth;
mod connect;
mod http_client;
mod proxy;
mod url;

use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::digest::Digest;
use crate::hosts::Endpoint;
use crate::keyring::Login;
use crate::manifest::{DOCKER_LIST, DOCKER_MANIFEST, Descriptor, MAX_DOCUMENT, OCI_INDEX, OCI_MANIFEST};
use crate::reference::Reference;

use auth::Authorization;
pub(crate) use connect::Connector;
pub use connect::machine_roots;
use http_client::{Client, Response};
pub use proxy::Proxies;
use url::Url;

const ACCEPT_MANIFEST: [&str; 5] = [DOCKER_MANIFEST, DOCKER_LIST, OCI_MANIFEST, OCI_INDEX, "*/*"];
/// Failures in a row without a new byte, after which a blob is given up.
const MAX_FAILURES: u32 = 5;
/// Broken connections of one blob at all.
const MAX_ATTEMPTS: u32 = 200;
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
const MAX_BACK_OFF: Duration = Duration::from_secs(10);
/// What a registry may ask for with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("{0}: not found")]
    NotFound(String),
    #[error("pull access denied, repository does not exist or may require authorization: {0}")]
    Denied(String),
    #[error("failed to do request: Get {url:?}: {problem}")]
    Transport { url: String, problem: String },
    #[error("unexpected status from GET request to {url}: {status}{message}")]
    Status { url: String, status: StatusCode, message: String, retry_after: Option<Duration> },
    #[error("failed to fetch anonymous token: {0}")]
    AnonymousToken(String),
    #[error("failed to fetch oauth token: {0}")]
    Token(String),
    #[error("{0} is not the content it should be")]
    Digest(Digest),
    #[error("the content of {url} is larger than {limit} bytes")]
    TooLarge { url: String, limit: u64 },
    #[error("no server of registry {0:?} may be asked")]
    NoServer(String),
    #[error("the download was given up")]
    Stopped,
}

impl RegistryError {
    /// Whether the same request may succeed a moment later.
    fn is_passing(&self) -> bool {
        match self {
            RegistryError::Transport { .. } => true,
            RegistryError::Status { status, .. } => {
                status.is_server_error()
                    || matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            }
            _ => false,
        }
    }
}

/// One repository at one registry, asked with one login.
pub(crate) struct Session {
    env: Env,
    client: Client,
    servers: Vec<Server>,
    reference: Reference,
    login: Option<Login>,
}

struct Server {
    endpoint: Endpoint,
    connector: Connector,
    /// Guards what this server wants to see with each request, once it has said so.
    authorization: Mutex<Option<Authorization>>,
}

/// A manifest or an index.
pub(crate) struct Fetched {
    pub digest: Digest,
    pub media_type: String,
    pub content: Vec<u8>,
}

impl Session {
    pub fn new(
        env: &Env,
        servers: Vec<(Endpoint, Connector)>,
        reference: &Reference,
        login: Option<Login>,
    ) -> Session {
        let server = |(endpoint, connector)| Server { endpoint, connector, authorization: Mutex::new(None) };
        Session {
            env: env.clone(),
            client: Client::new(env),
            servers: servers.into_iter().map(server).collect(),
            reference: reference.pulled(),
            login,
        }
    }

    /// What the reference means now.
    pub async fn resolve(&self) -> Result<Fetched, RegistryError> {
        match self.reference.digest() {
            Some(digest) => self.manifest(&digest.clone(), "").await,
            None => self.first(true, |server| self.get_manifest(server, None)).await,
        }
    }

    /// A manifest by digest.
    pub async fn manifest(&self, digest: &Digest, media_type: &str) -> Result<Fetched, RegistryError> {
        let mut fetched = self.first(false, |server| self.get_manifest(server, Some(digest))).await?;
        if !media_type.is_empty() {
            fetched.media_type = media_type.to_owned();
        }
        Ok(fetched)
    }

    /// A small blob, whole.
    pub async fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        if descriptor.size > MAX_DOCUMENT {
            let url = format!("{}", descriptor.digest);
            return Err(RegistryError::TooLarge { url, limit: MAX_DOCUMENT });
        }
        let (sender, mut receiver) = mpsc::channel::<Bytes>(16);
        let collect = async {
            let mut content = Vec::new();
            while let Some(chunk) = receiver.recv().await {
                content.extend_from_slice(&chunk);
            }
            content
        };
        let (sent, content) = tokio::join!(self.blob(descriptor, sender), collect);
        sent?;
        if descriptor.digest.matches(&content) {
            Ok(content)
        } else {
            Err(RegistryError::Digest(descriptor.digest.clone()))
        }
    }

    /// Sends a blob's bytes, exactly as many as announced. A broken connection goes on where it broke, on the next server if need be.
    pub async fn blob(&self, descriptor: &Descriptor, to: mpsc::Sender<Bytes>) -> Result<(), RegistryError> {
        let allowed = self.allowed(false)?;
        let count = allowed.len() as u32;
        let mut servers = allowed.into_iter().cycle();
        let (mut offset, mut failures, mut server) = (0, 0, servers.next());
        let mut first_error = None;
        for _ in 0..MAX_ATTEMPTS {
            let Some(at) = server else { break };
            let before = offset;
            let error = match self.blob_from(at, descriptor, &mut offset, &to).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if offset > before {
                failures = 0;
            }
            failures += 1;
            let passing = error.is_passing();
            let stopped = matches!(error, RegistryError::Stopped);
            // A server that does not have it is not asked again; the one registry that fails for a moment is.
            let enough = if passing { MAX_FAILURES.max(count) } else { count };
            tracing::debug!(digest = %descriptor.digest, offset, %error, "a blob's download broke");
            let wait = match &error {
                RegistryError::Status { retry_after: Some(wait), .. } => (*wait).min(MAX_RETRY_AFTER),
                _ => back_off(failures),
            };
            if failures >= enough || stopped {
                return Err(first_error.filter(|_| !stopped).unwrap_or(error));
            }
            first_error.get_or_insert(error);
            server = servers.next();
            if passing {
                self.env.sleep(wait).await;
            }
        }
        Err(first_error.unwrap_or(RegistryError::Stopped))
    }

    async fn blob_from(
        &self,
        server: &Server,
        descriptor: &Descriptor,
        offset: &mut u64,
        to: &mpsc::Sender<Bytes>,
    ) -> Result<(), RegistryError> {
        let url = self.url(server, &format!("blobs/{}", descriptor.digest));
        let mut headers = HeaderMap::new();
        if *offset > 0
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={offset}-"))
        {
            headers.insert(RANGE, range);
        }
        let mut response = self.send(server, &url, headers).await?;
        let mut skip = match response.status {
            StatusCode::PARTIAL_CONTENT => {
                let range = response.headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
                let start = range
                    .and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok());
                match start {
                    Some(start) if start == *offset => 0,
                    _ => return Err(transport(&url, "the server sent another range than asked for")),
                }
            }
            // A server that knows no ranges starts again.
            _ => *offset,
        };
        let too_large = || RegistryError::TooLarge { url: url.to_string(), limit: descriptor.size };
        let length =
            response.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > descriptor.size - *offset + skip) {
            return Err(too_large());
        }
        while *offset < descriptor.size {
            let chunk = match response.body.chunk().await.map_err(|problem| transport(&url, &problem))? {
                Some(chunk) => chunk,
                None => return Err(transport(&url, "unexpected EOF")),
            };
            let skipped = skip.min(chunk.len() as u64);
            skip -= skipped;
            let chunk = chunk.slice(skipped as usize..);
            if chunk.is_empty() {
                continue;
            }
            if chunk.len() as u64 > descriptor.size - *offset {
                return Err(too_large());
            }
            let length = chunk.len() as u64;
            to.send(chunk).await.map_err(|_| RegistryError::Stopped)?;
            *offset += length;
        }
        Ok(())
    }

    async fn get_manifest(&self, server: &Server, digest: Option<&Digest>) -> Result<Fetched, RegistryError> {
        let version = digest.map_or(self.reference.version(), Digest::as_str);
        let url = self.url(server, &format!("manifests/{version}"));
        let mut headers = HeaderMap::new();
        for media_type in ACCEPT_MANIFEST {
            headers.append(ACCEPT, HeaderValue::from_static(media_type));
        }
        let mut response = self.send(server, &url, headers).await?;
        let header = |name: &http::HeaderName| {
            let value = response.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let media_type = header(&CONTENT_TYPE);
        let said = header(&http::HeaderName::from_static("docker-content-digest")).parse::<Digest>().ok();
        let content = response.body.whole(MAX_DOCUMENT).await.map_err(|problem| match problem {
            Some(problem) => transport(&url, &problem),
            None => RegistryError::TooLarge { url: url.to_string(), limit: MAX_DOCUMENT },
        })?;
        // Of a tag, the digest it names is the server's own word: still, one that contradicts itself has garbled something.
        for expected in digest.into_iter().chain(said.as_ref()) {
            if !expected.matches(&content) {
                return Err(RegistryError::Digest(expected.clone()));
            }
        }
        let digest = digest.cloned().unwrap_or_else(|| Digest::of(&content));
        Ok(Fetched { digest, media_type, content })
    }

    /// The first answer of the servers that may give one. If none does, the error of the registry itself tells most, but one
    /// that is not "not found" tells more than one that is.
    async fn first<'s, T, F: Future<Output = Result<T, RegistryError>>>(
        &'s self,
        resolve: bool,
        ask: impl Fn(&'s Server) -> F,
    ) -> Result<T, RegistryError> {
        let mut worst: Option<RegistryError> = None;
        for server in self.allowed(resolve)? {
            let mut failures = 0;
            let error = loop {
                let error = match ask(server).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                };
                failures += 1;
                // Too busy just now is not a refusal. Who cannot be reached at all is left to the next server, or the next pull.
                match &error {
                    RegistryError::Status { retry_after, .. } if error.is_passing() && failures < 4 => {
                        let wait = retry_after.unwrap_or(back_off(failures)).min(MAX_RETRY_AFTER);
                        self.env.sleep(wait).await;
                    }
                    _ => break error,
                }
            };
            tracing::debug!(server = server.endpoint.authority, %error, "a registry's server does not help");
            let keep = matches!(worst, None | Some(RegistryError::NotFound(_)));
            if keep || !matches!(error, RegistryError::NotFound(_)) {
                worst = Some(error);
            }
        }
        Err(worst.unwrap_or_else(|| RegistryError::NoServer(self.reference.domain().to_owned())))
    }

    fn allowed(&self, resolve: bool) -> Result<Vec<&Server>, RegistryError> {
        let may = |server: &&Server| if resolve { server.endpoint.resolve } else { server.endpoint.pull };
        let servers: Vec<&Server> = self.servers.iter().filter(may).collect();
        if servers.is_empty() {
            return Err(RegistryError::NoServer(self.reference.domain().to_owned()));
        }
        Ok(servers)
    }

    fn url(&self, server: &Server, what: &str) -> Url {
        let endpoint = &server.endpoint;
        let mut path = format!("{}/{}/{what}", endpoint.path, self.reference.path());
        let own = match self.reference.domain() {
            "docker.io" => "registry-1.docker.io",
            domain => domain,
        };
        if own != endpoint.authority {
            // A mirror may serve several registries: this is whose image is meant.
            let namespace = percent_encoding::utf8_percent_encode(
                self.reference.domain(),
                percent_encoding::NON_ALPHANUMERIC,
            );
            path.push_str(&format!("?ns={namespace}"));
        }
        Url { https: server.connector.https(), authority: endpoint.authority.clone(), path }
    }

    /// Asks, with what the server wants to see; its success.
    async fn send(
        &self,
        server: &Server,
        url: &Url,
        mut headers: HeaderMap,
    ) -> Result<Response, RegistryError> {
        for (name, value) in &server.endpoint.headers {
            if let (Ok(name), Ok(value)) =
                (http::HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
            {
                headers.append(name, value);
            }
        }
        for attempt in 0..3 {
            let authorization = server.authorization.lock().clone();
            let sent = self.client.get(&server.connector, url, &headers, authorization.as_ref()).await;
            let mut response = sent.map_err(|problem| transport(url, &problem))?;
            match response.status {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT => return Ok(response),
                StatusCode::UNAUTHORIZED if attempt < 2 => {
                    let scope = format!("repository:{}:pull", self.reference.path());
                    let asked = auth::Asked {
                        headers: &response.headers,
                        url,
                        scope: &scope,
                        login: self.login.as_ref(),
                        refused: authorization.as_ref(),
                    };
                    let given = auth::authorize(&self.client, &server.connector, asked).await?;
                    *server.authorization.lock() = Some(given);
                }
                status => return Err(self.refusal(status, url, &mut response).await),
            }
        }
        Err(RegistryError::Denied("authorization failed".to_owned()))
    }

    async fn refusal(&self, status: StatusCode, url: &Url, response: &mut Response) -> RegistryError {
        let body = response.body.whole(16 << 10).await.unwrap_or_default();
        let message = auth::server_message(&body);
        match status {
            StatusCode::NOT_FOUND => RegistryError::NotFound(self.reference.to_string()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let said = message.map(|message| format!("server message: {message}: "));
                RegistryError::Denied(format!("{}authorization failed", said.unwrap_or_default()))
            }
            status => {
                let retry_after = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                let retry_after =
                    retry_after.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
                let message = message.map(|message| format!(": {message}")).unwrap_or_default();
                RegistryError::Status { url: url.to_string(), status, message, retry_after }
            }
        }
    }
}

fn transport(url: &Url, problem: &str) -> RegistryError {
    RegistryError::Transport { url: url.to_string(), problem: problem.to_owned() }
}

fn back_off(failures: u32) -> Duration {
    let factor = 1u32 << failures.saturating_sub(1).min(10);
    FIRST_BACK_OFF.saturating_mul(factor).min(MAX_BACK_OFF)
}

/// Gives texts to everything here that reads one.
#[cfg(test)]
pub(crate) fn hostile(one: &str, two: &str) {
    let _ = auth::parse(one);
    let _ = auth::server_message(one.as_bytes());
    if let Some(url) = Url::parse(&format!("http://{one}")) {
        let _ = (url.host(), url.port(), url.join(two));
    }
}
