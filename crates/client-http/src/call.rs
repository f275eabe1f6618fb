//! One call from request to answer: credentials, time limits, trying again where that is safe.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use client::Answer;
use env::Env;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use object::Status;

use crate::credentials::{Authorization, Used};
use crate::exchange::{ApiRequest, Exchange, OpenAnswer};
use crate::objects::unreadable;
use crate::pool::{Lease, Lifetime, Outgoing, Pool, SendError};
use crate::refusal;

/// From the request to the last byte of the answer, each time it is tried. A server gives itself as long.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// How often a server may say "later" before the transport hears of it.
const MAX_LATER: u32 = 5;
/// No server keeps us waiting longer than this at once.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// A list of everything in a very large cluster.
const MAX_ANSWER: usize = 1 << 30;
/// A refusal.
const MAX_REFUSAL: usize = 1 << 20;

const AGENT: &str = concat!("setpoint/", env!("CARGO_PKG_VERSION"));

pub(crate) const JSON: &str = "application/json";

/// A server, and the credentials for it. All identities of a process share one.
pub(crate) struct Transport {
    pub env: Env,
    pub pool: Arc<Pool>,
    pub authorization: Authorization,
}

impl Exchange for Transport {
    fn call<'a>(&'a self, identity: &'a HeaderMap, request: ApiRequest) -> Answer<'a, Bytes> {
        Box::pin(async move {
            let (response, lease) = self.send(identity, request, Lifetime::Call).await?;
            let body = response.into_body();
            let read = self.env.timeout(CALL_LIMIT, read(body, MAX_ANSWER)).await;
            let body = read.unwrap_or_else(|_| Err(too_slow()))?;
            lease.finish().await;
            Ok(body)
        })
    }

    fn open<'a>(&'a self, identity: &'a HeaderMap, request: ApiRequest) -> Answer<'a, OpenAnswer> {
        Box::pin(async move {
            let (response, lease) = self.send(identity, request, Lifetime::Watch).await?;
            let pinged = lease.is_pinged();
            Ok(OpenAnswer { body: response.into_body(), pinged, connection: Box::new(lease) })
        })
    }
}

impl Transport {
    /// A good answer's head, its body still to come; everything else is a refusal.
    async fn send(
        &self,
        identity: &HeaderMap,
        request: ApiRequest,
        lifetime: Lifetime,
    ) -> Result<(Response<Incoming>, Lease), Status> {
        let path = request.path.parse().map_err(|_| Status::bad_request("the path cannot be asked for"))?;
        let mut headers = identity.clone();
        headers.insert(ACCEPT, HeaderValue::from_static(request.accept));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if !request.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(request.content_type));
        }
        let mut request = Outgoing { method: request.method, path, headers, body: request.body };
        let (mut later, mut broken) = (0, 0);
        loop {
            let used = self.authorization.add_to(&mut request.headers).await?;
            if let Used::Given(given) = &used {
                self.pool.renew(given.generation);
            }
            let sent = self.env.timeout(CALL_LIMIT, self.pool.send(&request, lifetime)).await;
            let (response, lease) = match sent {
                Ok(Ok(answered)) => answered,
                Ok(Err(SendError::NotSent(why))) => {
                    return Err(Status::unavailable(format!("the server cannot be reached: {why}")));
                }
                // Reading twice does no harm; of a write nobody knows what became.
                Ok(Err(SendError::Broken(_))) if request.method == Method::GET && broken == 0 => {
                    broken += 1;
                    continue;
                }
                Ok(Err(SendError::Broken(why))) => {
                    return Err(Status::timeout(format!(
                        "the connection broke before an answer came: {why}"
                    )));
                }
                Err(_) => return Err(too_slow()),
            };
            let code = response.status().as_u16();
            if response.status().is_success() {
                return Ok((response, lease));
            }
            let wait = retry_after(response.headers());
            let safe = request.method == Method::GET && code >= 500;
            let body = read(response.into_body(), MAX_REFUSAL);
            let body = self.env.timeout(CALL_LIMIT, body).await.unwrap_or_else(|_| Err(too_slow()))?;
            lease.finish().await;
            // The token may just have been replaced.
            if code == 401 && later == 0 && self.authorization.refused(&used) {
                later += 1;
                continue;
            }
            match wait {
                // 429 and 503 refuse before anything is done: the same again is safe, whatever the verb.
                Some(wait) if later < MAX_LATER && (safe || matches!(code, 429 | 503)) => {
                    later += 1;
                    self.env.sleep(wait.min(MAX_WAIT)).await;
                }
                _ => return Err(refusal::of_answer(code, &body)),
            }
        }
    }
}

async fn read(mut body: Incoming, most: usize) -> Result<Bytes, Status> {
    let mut out = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::timeout(format!("the answer was cut: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if out.len() + data.len() > most {
            return Err(unreadable(&format!("it is larger than {most} bytes")));
        }
        out.extend_from_slice(&data);
    }
    Ok(out.freeze())
}

/// Seconds only: servers of this API send no dates.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn too_slow() -> Status {
    Status::timeout(format!("no answer within {CALL_LIMIT:?}"))
}
