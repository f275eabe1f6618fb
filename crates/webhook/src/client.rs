//! Calls: to the right server, within their time, and no more of them and of their answers than is good.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use env::Env;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::uri::PathAndQuery;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use object::Value;
use object::time::format_duration;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::config::{ClientConfig, ConfigError};
use crate::connection::{Body, IDLE_LIMIT, Lease, Tasks};
use crate::error::{CallError, Cause};
use crate::go_errors;
use crate::refusal;
use crate::review::{self, Expected};
use crate::server::Server;
use crate::service::ServiceResolver;
use crate::this_server::{self, ThisServer};

/// Servers that are remembered; the one used longest ago is forgotten first.
const MAX_SERVERS: usize = 512;
/// What answers may hold together while they are read.
const MAX_READING_BYTES: usize = 256 << 20;
/// An answer to admission holds a patch of one object.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// So much of a refusal is read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
/// Why a call that never got a place at the server was not sent.
const BUSY: &str = "not sent: as many calls to this webhook's server as are made at once have no answer yet";
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How often a server may say "later", as with client-go.
const MAX_LATER: u32 = 10;

/// One question to a webhook.
pub struct Call<'a> {
    pub config: &'a ClientConfig,
    /// JSON.
    pub body: Bytes,
    /// From now to the last byte of the answer. The webhook is told, in whole seconds.
    pub timeout: Duration,
    /// To get a socket.
    pub connect_timeout: Duration,
    pub max_response_bytes: usize,
    pub clock: Clock,
}

/// Whose time is up, for the message: upstream gives admission a context with a deadline, conversion a client with a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Context,
    Client,
}

impl Clock {
    fn is_over(self, begun: bool) -> &'static str {
        match (self, begun) {
            (Clock::Context, _) => "context deadline exceeded",
            (Clock::Client, false) => {
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            }
            (Clock::Client, true) => {
                "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
            }
        }
    }
}

impl<'a> Call<'a> {
    pub fn new(config: &'a ClientConfig, body: impl Into<Bytes>, timeout: Duration) -> Call<'a> {
        Call {
            config,
            body: body.into(),
            timeout,
            connect_timeout: CONNECT_LIMIT,
            max_response_bytes: MAX_RESPONSE_BYTES,
            clock: Clock::Context,
        }
    }
}

impl Call<'_> {
    fn path(&self) -> String {
        // Whole seconds, as upstream rounds them up.
        let seconds = self.timeout.as_secs() + u64::from(self.timeout.subsec_nanos() > 0);
        let timeout =
            format_duration(i64::try_from(seconds.saturating_mul(1_000_000_000)).unwrap_or(i64::MAX));
        format!("{}?timeout={timeout}", self.config.target.path())
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.config.target.authority())
    }

    /// It was not sent.
    pub fn not_sent(&self, why: String, cause: Cause) -> CallError {
        CallError::NoAnswer { url: self.url(&self.path()), why, cause }
    }
}

/// A good answer: a status of 200 to 206 and a body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Bytes,
}

impl Answer {
    /// The review in it. Errors are upstream's.
    pub fn review(&self, expected: &Expected) -> Result<Value, CallError> {
        review::decode(&self.body, expected).map_err(CallError::Undecodable)
    }
}

/// Calls webhooks. One for the whole process; end it with [`WebhookClient::shutdown`].
pub struct WebhookClient {
    inner: Arc<Inner>,
}

struct Inner {
    tasks: Tasks,
    resolver: Arc<dyn ServiceResolver>,
    this_server: OnceLock<Arc<dyn ThisServer>>,
    /// Bytes of answers that are being read.
    reading: AtomicUsize,
    /// Guards the list of servers; held to find one.
    servers: Mutex<Servers>,
}

#[derive(Default)]
struct Servers {
    known: BTreeMap<ClientConfig, Arc<Server>>,
    /// A task closes what is idle, as long as there is anything.
    reaped: bool,
}

impl WebhookClient {
    pub fn new(env: Env, resolver: Arc<dyn ServiceResolver>) -> WebhookClient {
        let tasks = Tasks::new(env, "webhook");
        WebhookClient {
            inner: Arc::new(Inner {
                tasks,
                resolver,
                this_server: OnceLock::new(),
                reading: AtomicUsize::new(0),
                servers: Mutex::default(),
            }),
        }
    }

    /// Who answers behind `default/kubernetes:443`. Without it that is a Service like others.
    pub fn reach_this_server(&self, this_server: Arc<dyn ThisServer>) {
        let _ = self.inner.this_server.set(this_server);
    }

    pub fn env(&self) -> &Env {
        &self.inner.tasks.env
    }

    /// Sends the body to the webhook. Redirects are not followed.
    // Differs from kube-apiserver, whose client follows them, with a GET for most: no webhook can work so, and a redirect would send
    // objects where nobody configured them to go.
    pub async fn post(&self, call: Call<'_>) -> Result<Answer, CallError> {
        let inner = &self.inner;
        let path = call.path();
        let url = call.url(&path);
        let (placed, begun) = (AtomicBool::new(false), AtomicBool::new(false));
        let ended = |why: &str, cause| match begun.load(Ordering::Relaxed) {
            true => {
                let why = format!(
                    "unexpected error when reading response body. Please retry. Original error: {why}"
                );
                CallError::Cut { why, cause }
            }
            false => CallError::NoAnswer { url: url.clone(), why: why.to_owned(), cause },
        };
        let mut closing = inner.tasks.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(ended("context canceled", Cause::Canceled)),
            called = inner.tasks.env.timeout(call.timeout, inner.call(&call, &path, &url, (&placed, &begun))) => {
                called.unwrap_or_else(|_| {
                    let over = call.clock.is_over(begun.load(Ordering::Relaxed));
                    match placed.load(Ordering::Relaxed) {
                        true => Err(ended(over, Cause::Deadline)),
                        // Whoever reads it looks for the calls that hang, not for why this one was slow.
                        false => Err(ended(&format!("{over}: {BUSY}"), Cause::Deadline)),
                    }
                })
            }
        }
    }

    /// Ends all calls and connections, and returns when they have ended.
    pub async fn shutdown(&self) {
        self.inner.tasks.closing.send_replace(true);
        self.inner.servers.lock().known.clear();
        self.inner.tasks.closing.closed().await;
    }

    /// Servers that are remembered.
    pub fn servers(&self) -> usize {
        self.inner.servers.lock().known.len()
    }
}

impl Inner {
    async fn call(
        self: &Arc<Inner>,
        call: &Call<'_>,
        path: &str,
        url: &str,
        (placed, begun): (&AtomicBool, &AtomicBool),
    ) -> Result<Answer, CallError> {
        let no_answer = |why: String| CallError::NoAnswer { url: url.to_owned(), why, cause: Cause::Failed };
        let way = self.way(call.config)?;
        let path: PathAndQuery = path.parse().map_err(|_| no_answer("invalid path".to_owned()))?;
        // At the server's door, and nowhere else: however many servers hang, nobody waits for them who does not call one of them.
        // How many wait here is bounded by who calls: of admission so many of each webhook, of conversion the requests in flight.
        let closed = |_| no_answer("context canceled".to_owned());
        let _server_place = match way.places(&path) {
            Some(places) => Some(places.acquire_owned().await.map_err(closed)?),
            None => None,
        };
        placed.store(true, Ordering::Relaxed);
        let mut later = 0;
        loop {
            let sent = way.send(&*self.resolver, &path, call).await;
            let (response, lease) = sent.map_err(no_answer)?;
            begun.store(true, Ordering::Relaxed);
            let code = response.status().as_u16();
            let content_type = text(response.headers(), CONTENT_TYPE).to_owned();
            if (200..=206).contains(&code) {
                let body = self.read(response, lease, call.max_response_bytes).await?;
                if body.is_empty() {
                    let content_type =
                        if content_type.is_empty() { "application/json".to_owned() } else { content_type };
                    return Err(CallError::Empty { code, content_type });
                }
                return Ok(Answer { code, body });
            }
            let wait = text(response.headers(), RETRY_AFTER).parse().ok().map(Duration::from_secs);
            match wait {
                Some(wait) if later < MAX_LATER && (code == 429 || code >= 500) => {
                    later += 1;
                    drop((response, lease));
                    begun.store(false, Ordering::Relaxed);
                    self.tasks.env.sleep(wait).await;
                }
                _ => {
                    let body = self.read_refusal(response, lease).await?;
                    return Err(refusal::of(code, &content_type, &body));
                }
            }
        }
    }

    fn way(self: &Arc<Inner>, config: &ClientConfig) -> Result<Way, ConfigError> {
        match self.this_server.get().filter(|_| this_server::is_meant(&config.target)) {
            Some(this) => Ok(Way::Own(this.clone())),
            None => self.server(config).map(Way::Server),
        }
    }

    fn server(self: &Arc<Inner>, config: &ClientConfig) -> Result<Arc<Server>, ConfigError> {
        let key = config.of_server();
        if let Some(server) = self.servers.lock().known.get(&key) {
            return Ok(server.clone());
        }
        // Reads certificates, so not under the lock.
        let server = Arc::new(Server::new(self.tasks.clone(), &key)?);
        let mut servers = self.servers.lock();
        if servers.known.len() >= MAX_SERVERS {
            let oldest = servers.known.iter().min_by_key(|(_, server)| server.used());
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                servers.known.remove(&oldest);
            }
        }
        let server = servers.known.entry(key).or_insert(server).clone();
        if !std::mem::replace(&mut servers.reaped, true) {
            self.tasks.spawn(reap(self.tasks.env.clone(), Arc::downgrade(self)));
        }
        Ok(server)
    }

    async fn read(
        &self,
        response: Response<Body>,
        lease: Option<Lease>,
        limit: usize,
    ) -> Result<Bytes, CallError> {
        let (body, whole) = self.read_up_to(response, limit).await?;
        if !whole {
            return Err(CallError::TooLarge { limit });
        }
        self.finish(lease).await;
        Ok(body)
    }

    /// Its beginning, if it is long.
    async fn read_refusal(&self, response: Response<Body>, lease: Option<Lease>) -> Result<Bytes, CallError> {
        let (body, whole) = self.read_up_to(response, MAX_REFUSAL_BYTES).await?;
        if whole {
            self.finish(lease).await;
        }
        Ok(body)
    }

    async fn finish(&self, lease: Option<Lease>) {
        if let Some(lease) = lease {
            lease.finish(&self.tasks.env).await;
        }
    }

    /// The body and whether that is all of it.
    async fn read_up_to(&self, response: Response<Body>, limit: usize) -> Result<(Bytes, bool), CallError> {
        let mut body = response.into_body();
        let mut held = Held { reading: &self.reading, bytes: 0 };
        // What is announced may not come.
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(limit).min(1 << 20);
        let mut out = BytesMut::with_capacity(announced);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| CallError::Cut { why: why.to_string(), cause: Cause::Failed })?;
            let Ok(data) = frame.into_data() else { continue };
            let room = limit - out.len();
            if data.len() > room {
                out.extend_from_slice(&data[..room]);
                return Ok((out.freeze(), false));
            }
            if !held.add(data.len()) {
                return Err(CallError::TooLargeTogether { limit: MAX_READING_BYTES });
            }
            out.extend_from_slice(&data);
        }
        Ok((out.freeze(), true))
    }
}

/// How a webhook is reached.
enum Way {
    Server(Arc<Server>),
    /// Through this server.
    Own(Arc<dyn ThisServer>),
}

impl Way {
    /// None: nobody is kept waiting.
    fn places(&self, path: &PathAndQuery) -> Option<Arc<Semaphore>> {
        match self {
            Way::Server(server) => Some(server.places.clone()),
            Way::Own(this) => this.places(path.path()),
        }
    }

    /// The head of the answer. The body's errors are in Go's words, as this one's; it comes as long as it and the lease are kept.
    async fn send(
        &self,
        resolver: &dyn ServiceResolver,
        path: &PathAndQuery,
        call: &Call<'_>,
    ) -> Result<(Response<Body>, Option<Lease>), String> {
        match self {
            Way::Server(server) => {
                let sent = server.send(resolver, path, &call.body, call.connect_timeout).await;
                let (response, lease) = sent?;
                let ends = lease.ends;
                let worded = move |error| go_errors::broken_body(&error, ends).into();
                Ok((response.map(|body| body.map_err(worded).boxed_unsync()), Some(lease)))
            }
            Way::Own(this) => Ok((this.post(path.as_str(), call.body.clone()).await?, None)),
        }
    }
}

/// Bytes counted until dropped.
struct Held<'a> {
    reading: &'a AtomicUsize,
    bytes: usize,
}

impl Held<'_> {
    fn add(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.reading.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_READING_BYTES
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.reading.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Closes what is idle; ends when nothing is left.
async fn reap(env: Env, inner: Weak<Inner>) {
    loop {
        env.sleep(IDLE_LIMIT / 2).await;
        let Some(inner) = inner.upgrade() else { return };
        let now = env.monotonic();
        let mut servers = inner.servers.lock();
        servers.known.retain(|_, server| !server.is_idle(now));
        if servers.known.is_empty() {
            servers.reaped = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_together_hold_no_more_than_the_limit() {
        let reading = AtomicUsize::new(0);
        let held = || Held { reading: &reading, bytes: 0 };
        let (mut one, mut other) = (held(), held());
        assert!(one.add(MAX_READING_BYTES - 1) && other.add(1));
        assert!(!other.add(1));
        drop(one);
        assert!(held().add(MAX_READING_BYTES - 2));
        drop(other);
        assert_eq!(reading.load(Ordering::Relaxed), 0);
    }
}
