//! A registry of the tests' own: plain HTTP on loopback, with token or basic authentication, and with every fault a test asks for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client_http::Wire;
use env::Env;
use futures_util::{StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{config, gzip};
use crate::digest::Digest;
use crate::manifest::{OCI_INDEX, OCI_MANIFEST};

pub struct Registry {
    pub address: SocketAddr,
    pub state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
pub struct State {
    pub blobs: BTreeMap<Digest, Vec<u8>>,
    /// By repository and tag or digest.
    pub manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
    pub auth: Auth,
    /// What was asked, in order.
    pub seen: Vec<Seen>,
    /// Blob answers break off after so many bytes, so many times.
    pub breaks: (usize, usize),
    pub ignores_ranges: bool,
    /// Blobs are at this address.
    pub redirect: Option<String>,
    /// The next answers to paths that hold this text.
    pub refuse: Vec<(&'static str, StatusCode)>,
}

#[derive(Clone, Default)]
pub enum Auth {
    #[default]
    None,
    Basic(&'static str, &'static str),
    /// Anybody gets a token; for repositories that start with `private/` only this user does.
    Token(&'static str, &'static str),
    /// A token for this identity token alone.
    Identity(&'static str),
}

#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub authorization: Option<String>,
    pub range: Option<String>,
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Registry {
    pub async fn start(env: &Env) -> Registry {
        Registry::listen(env, None).await
    }

    pub async fn start_tls(env: &Env) -> Registry {
        Registry::listen(env, Some(super::tls::acceptor())).await
    }

    async fn listen(env: &Env, tls: Option<TlsAcceptor>) -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, tasks) = (state.clone(), env.clone());
        let task = env.spawn("test-registry", async move {
            let mut connections = Vec::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let shared = shared.clone();
                let service = hyper::service::service_fn(move |request| {
                    let shared = shared.clone();
                    async move { Ok::<_, Infallible>(answer(&shared, address, request).await) }
                });
                let tls = tls.clone();
                connections.push(tasks.spawn("test-connection", async move {
                    let wire: Box<dyn Wire> = match tls {
                        Some(tls) => match tls.accept(tcp).await {
                            Ok(tls) => Box::new(tls),
                            Err(_) => return,
                        },
                        None => Box::new(tcp),
                    };
                    let server = hyper::server::conn::http1::Builder::new();
                    let _ = server.serve_connection(TokioIo::new(wire), service).await;
                }));
            }
        });
        Registry { address, state, task }
    }

    /// Puts an image of these layers (plain tars); its manifest's digest.
    pub fn put(&self, repository: &str, tag: &str, layers: &[&[u8]]) -> Digest {
        self.put_with(repository, tag, layers, gzip)
    }

    pub fn put_with(
        &self,
        repository: &str,
        tag: &str,
        layers: &[&[u8]],
        pack: fn(&[u8]) -> Vec<u8>,
    ) -> Digest {
        let packed: Vec<Vec<u8>> = layers.iter().map(|layer| pack(layer)).collect();
        let config = config(layers, &format!("{repository}:{tag}"));
        let mut state = self.state.lock();
        let (config_descriptor, layers) = describe(&config, &packed);
        for blob in packed.into_iter().chain([config]) {
            state.blobs.insert(Digest::of(&blob), blob);
        }
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config_descriptor, "layers": layers,
        });
        put_document(&mut state, repository, tag, OCI_MANIFEST, &manifest)
    }

    /// Puts an index of manifests by platform.
    pub fn put_index(&self, repository: &str, tag: &str, entries: &[(&str, &str, &Digest)]) -> Digest {
        let mut state = self.state.lock();
        let entry = |(os, architecture, digest): &(&str, &str, &Digest)| {
            let size = state.manifests[&(repository.to_owned(), digest.to_string())].1.len();
            serde_json::json!({
                "mediaType": OCI_MANIFEST, "digest": digest, "size": size,
                "platform": {"os": os, "architecture": architecture},
            })
        };
        let manifests: Vec<_> = entries.iter().map(entry).collect();
        let index = serde_json::json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests});
        put_document(&mut state, repository, tag, OCI_INDEX, &index)
    }

    pub fn name(&self, repository: &str) -> String {
        format!("{}/{repository}", self.address)
    }

    /// How often something was asked for.
    pub fn asked(&self, what: &str) -> usize {
        self.state.lock().seen.iter().filter(|seen| seen.path.contains(what)).count()
    }
}

/// Descriptors of a config and of packed layers.
pub fn describe(config: &[u8], layers: &[Vec<u8>]) -> (serde_json::Value, Vec<serde_json::Value>) {
    let describe = |media_type: &str, blob: &[u8]| serde_json::json!({"mediaType": media_type, "digest": Digest::of(blob), "size": blob.len()});
    let layers = layers.iter().map(|layer| describe("application/vnd.oci.image.layer.v1.tar+gzip", layer));
    (describe("application/vnd.oci.image.config.v1+json", config), layers.collect())
}

fn put_document(
    state: &mut State,
    repository: &str,
    tag: &str,
    media_type: &str,
    document: &serde_json::Value,
) -> Digest {
    let content = serde_json::to_vec(document).unwrap();
    let digest = Digest::of(&content);
    for version in [tag, digest.as_str()] {
        let key = (repository.to_owned(), version.to_owned());
        state.manifests.insert(key, (media_type.to_owned(), content.clone()));
    }
    digest
}

fn respond(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

async fn answer(state: &Mutex<State>, address: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let form = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (authorization, range) = (header("authorization"), header("range"));
    let target = head.uri.path_and_query().unwrap().as_str().to_owned();
    let mut state = state.lock();
    state.seen.push(Seen {
        path: target.clone(),
        authorization: authorization.clone(),
        range: range.clone(),
    });
    if let Some(at) = state.refuse.iter().position(|(what, _)| target.contains(what)) {
        let (_, status) = state.refuse.remove(at);
        return respond(status, r#"{"errors": [{"code": "TOOMANY", "message": "slow down"}]}"#);
    }
    if head.uri.path() == "/token" {
        return token(&state.auth, &head.method, head.uri.query().unwrap_or_default(), authorization, &form);
    }
    let Some(rest) = head.uri.path().strip_prefix("/v2/") else { return respond(StatusCode::NOT_FOUND, "") };
    let parts: Vec<&str> = rest.rsplitn(3, '/').collect();
    let [version, kind, repository] = parts[..] else { return respond(StatusCode::NOT_FOUND, "") };
    if let Some(refusal) = check(&state.auth, address, repository, authorization.as_deref()) {
        return refusal;
    }
    match kind {
        "manifests" => match state.manifests.get(&(repository.to_owned(), version.to_owned())) {
            Some((media_type, content)) => {
                let mut response = respond(StatusCode::OK, content.clone());
                response.headers_mut().insert("content-type", media_type.parse().unwrap());
                response
            }
            None => respond(StatusCode::NOT_FOUND, ""),
        },
        "blobs" => blob(&mut state, version, range),
        _ => respond(StatusCode::NOT_FOUND, ""),
    }
}

fn blob(state: &mut State, digest: &str, range: Option<String>) -> Response<Body> {
    if let Some(to) = &state.redirect {
        let mut response = respond(StatusCode::TEMPORARY_REDIRECT, "");
        response.headers_mut().insert("location", format!("{to}/{digest}").parse().unwrap());
        return response;
    }
    let Some(content) = digest.parse().ok().and_then(|digest: Digest| state.blobs.get(&digest)) else {
        return respond(StatusCode::NOT_FOUND, "");
    };
    let start: usize = match &range {
        Some(range) if !state.ignores_ranges => {
            range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')).unwrap().parse().unwrap()
        }
        _ => 0,
    };
    let part = content[start..].to_vec();
    let mut response = if state.breaks.1 > 0 {
        state.breaks.1 -= 1;
        let sent = part[..part.len().min(state.breaks.0)].to_vec();
        let data = stream::iter([Ok(Frame::data(Bytes::from(sent)))]);
        let end = stream::once(async {
            // What was sent is on its way before the connection breaks: the server flushes whenever it has to wait.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            Err(io::Error::other("broken"))
        });
        Response::new(BodyExt::boxed_unsync(StreamBody::new(data.chain(end))))
    } else {
        respond(StatusCode::OK, part)
    };
    if start > 0 {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {start}-{}/{}", content.len() - 1, content.len());
        response.headers_mut().insert("content-range", range.parse().unwrap());
    }
    response
}

fn check(auth: &Auth, address: SocketAddr, repository: &str, shown: Option<&str>) -> Option<Response<Body>> {
    let private = repository.starts_with("private/");
    let (good, challenge) = match auth {
        Auth::None => return None,
        Auth::Basic(user, password) => (basic(user, password), "Basic realm=\"r\"".to_owned()),
        Auth::Token(user, _) => {
            let who = if private { *user } else { "anyone" };
            let scope = format!("repository:{repository}:pull");
            let realm = format!("Bearer realm=\"http://{address}/token\",service=\"s\",scope=\"{scope}\"");
            (format!("Bearer {who} {scope}"), realm)
        }
        Auth::Identity(token) => {
            (format!("Bearer {token}"), format!("Bearer realm=\"http://{address}/token\""))
        }
    };
    let fits = shown.is_some_and(|shown| {
        shown == good || (!private && shown.starts_with("Bearer ") && matches!(auth, Auth::Token(..)))
    });
    if fits {
        return None;
    }
    let mut response = respond(
        StatusCode::UNAUTHORIZED,
        r#"{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}"#,
    );
    response.headers_mut().insert("www-authenticate", challenge.parse().unwrap());
    Some(response)
}

/// The token names who asked and the scope, so that `check` can read it.
fn token(auth: &Auth, method: &Method, query: &str, shown: Option<String>, form: &[u8]) -> Response<Body> {
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let get = |text: &str, key: &str| {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| decode(value)).next().unwrap_or_default()
    };
    let form = String::from_utf8_lossy(form).into_owned();
    let give = |token: String| respond(StatusCode::OK, serde_json::json!({ "token": token }).to_string());
    match auth {
        // As the registries that know only the older way.
        Auth::Token(..) if *method == Method::POST => respond(StatusCode::METHOD_NOT_ALLOWED, ""),
        Auth::Token(user, password) => {
            let scope = get(query, "scope");
            match shown {
                None => give(format!("anyone {scope}")),
                Some(shown) if shown == basic(user, password) => give(format!("{user} {scope}")),
                Some(_) => respond(StatusCode::UNAUTHORIZED, ""),
            }
        }
        Auth::Identity(token)
            if get(&form, "grant_type") == "refresh_token" && get(&form, "refresh_token") == *token =>
        {
            give((*token).to_owned())
        }
        _ => respond(StatusCode::UNAUTHORIZED, ""),
    }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}
