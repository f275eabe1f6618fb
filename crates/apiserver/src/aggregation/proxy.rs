//! A client's request, passed on to the server of its group version, and the answer passed back as it comes.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use object::Status;
use percent_encoding::percent_decode_str;

use super::backend::{Places, Unreachable, target};
use super::identity;
use super::pool::Unsent;
use super::routes::{ApiService, Remote};
use crate::body::{Body, ForwardedBody, RequestBody};
use crate::chain::RequestHead;
use crate::connect::backend::{Backend, BackendConnection, BackendSlot, Target, upgraded};
use crate::connect::headers::{ask_to_upgrade, drop_hop_by_hop, forwarded};
use crate::connect::url::escape_path;
use crate::flow_control::AuthorizedRequest;
use crate::proxied_body::{ProxiedBody, ProxiedSettings};
use crate::respond::{self, Answer};
use crate::upgrade::PendingUpgrade;

/// Of a discovery document: every client needs them, so that a server that hangs must not hold them up.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Another server must not send clients, and the credentials they follow redirects with, anywhere else.
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";
const TEXT: &str = "text/plain; charset=utf-8";

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

pub(crate) async fn serve(
    authorized: &AuthorizedRequest<'_>,
    head: RequestHead<'_>,
    body: RequestBody,
    service: &ApiService,
) -> Result<Answer, Status> {
    let Some(remote) = &service.remote else { return Err(Status::no_such_resource()) };
    // Flow control applies before anything is sent.
    // Differs from kube-apiserver, where a request keeps its seats while it waits for the other server: one that hangs must not keep
    // the users of its level from being served. Its connections are limited instead.
    let connects = head.info().is_some_and(|info| info.is_connect());
    if !connects {
        authorized.take_seats(0).await?;
        drop(authorized.take_guard());
    }
    if !remote.available {
        return Ok(error(503, "service unavailable"));
    }
    let target = match target(authorized.api, remote) {
        Ok(target) => target,
        Err(Unreachable::Tls(why)) => return Ok(error(500, &why)),
        Err(Unreachable::NoEndpoint(why)) => {
            tracing::debug!(service = service.name, why, "no endpoint of an aggregated server");
            return Ok(error(503, "service unavailable"));
        }
    };
    let proxied = Proxied { authorized, head, remote, target };
    proxied.pass_on(body).await
}

/// As Go's `http.Error`.
fn error(code: u16, text: &str) -> Answer {
    respond::text(code, format!("{text}\n"))
}

fn redirects(response: &Response<Incoming>) -> bool {
    let location = response.headers().get(LOCATION);
    response.status().is_redirection() && location.is_some_and(|location| !location.is_empty())
}

struct Proxied<'a> {
    authorized: &'a AuthorizedRequest<'a>,
    head: RequestHead<'a>,
    remote: &'a Remote,
    target: Target,
}

impl Proxied<'_> {
    async fn pass_on(self, body: RequestBody) -> Result<Answer, Status> {
        let parts = self.head.parts;
        let credentials = self.authorized.api.cluster().request_headers.as_deref();
        let mut headers = forwarded(parts, body.peer(), credentials);
        let address = HeaderValue::try_from(self.target.address.to_string());
        let address = address.map_err(|_| Status::internal("an endpoint's address is no header"))?;
        headers.insert(HOST, address.clone());
        if let Err(why) = identity::set(&mut headers, self.authorized.user) {
            return Ok(error(500, &why));
        }
        let path = escape_path(&percent_decode_str(parts.uri.path()).collect::<Vec<u8>>());
        let asked = match parts.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.clone(),
        };
        let places = Places::of(self.authorized.api, self.remote);
        if let Some(pending) = PendingUpgrade::of(parts)
            && ask_to_upgrade(parts, &mut headers, self.target.tls.is_some())
        {
            let request = build(parts.method.clone(), &asked, headers, body)?;
            let [slot, own] = places.connection()?;
            return self.upgrade(pending, request, slot, own).await;
        }
        if let Ok(path) = HeaderValue::from_str(&path) {
            headers.insert(FORWARDED_URI, path);
        }
        headers.insert(FORWARDED_HOST, address);
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
        let request = build(parts.method.clone(), &asked, headers, body)?;
        let answered = self.remote.pool.send(&self.target, request, &places);
        let answered = match self.is_discovery() {
            true => {
                let timed = self.authorized.api.registry().env().timeout(DISCOVERY_TIMEOUT, answered).await;
                timed.unwrap_or_else(|_| Err(Unsent::Failed("context deadline exceeded".to_owned())))
            }
            false => answered.await,
        };
        match answered {
            Ok((response, connection)) => Ok(self.pass_back(response, connection)),
            Err(Unsent::TooMany(status)) => Err(status),
            Err(Unsent::Failed(why)) => Ok(error(503, &format!("error trying to reach service: {why}"))),
        }
    }

    /// `/apis/GROUP/VERSION`
    fn is_discovery(&self) -> bool {
        let path = self.head.parts.uri.path().trim_matches('/');
        self.head.info().is_none() && path.split('/').count() == 3
    }

    /// On a connection of its own, which becomes the client's.
    async fn ask(
        &self,
        request: Request<ForwardedBody>,
        slot: BackendSlot,
    ) -> Result<(Response<Incoming>, BackendConnection), String> {
        let env = self.authorized.api.registry().env();
        Backend::open(env, &self.target, slot).await?.send(request).await
    }

    fn pass_back(&self, response: Response<Incoming>, connection: BackendConnection) -> Answer {
        if redirects(&response) {
            return respond::answer(502, TEXT, Body::from(REDIRECTED.as_bytes().to_vec()));
        }
        let (mut head, incoming) = response.into_parts();
        // The backend's HTTP is none of the client's business.
        head.version = http::Version::default();
        drop_hop_by_hop(&mut head.headers);
        head.headers.append(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if incoming.is_end_stream() {
            connection.finish();
            return Response::from_parts(head, Body::empty());
        }
        let api = self.authorized.api;
        // A watch ends with the server, anything else when its time is over.
        let long_running = self.head.is_long_running();
        let deadline = || Box::pin(api.registry().env().sleep_until(self.authorized.deadline()));
        let settings = ProxiedSettings {
            shutdown: long_running.then(|| api.shutdown()),
            cut_is_end: false,
            gauge: None,
            deadline: (!long_running).then(deadline),
        };
        let body = ProxiedBody::new(Bytes::new(), incoming, connection, settings);
        Response::from_parts(head, Body::Proxied(Box::new(body)))
    }

    /// Passes an upgrade through: exec, port-forward, a watch over a WebSocket.
    async fn upgrade(
        &self,
        pending: &PendingUpgrade,
        request: Request<ForwardedBody>,
        slot: BackendSlot,
        own: BackendSlot,
    ) -> Result<Answer, Status> {
        let (response, connection) = match self.ask(request, slot).await {
            Ok((response, connection)) => (response, connection.with(own)),
            Err(why) => return Ok(error(503, &why)),
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let code = response.status().as_u16();
            if code < 400 {
                return Ok(error(503, &format!("invalid upgrade response: status code {code}")));
            }
            let mut answer = self.pass_back(response, connection);
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Ok(answer);
        }
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = response.headers().clone();
        let server = match upgraded(response).await {
            Ok(server) => server,
            Err(why) => return Ok(error(503, &why)),
        };
        pending.begin(Box::new(move |client, exchange, mut shutdown| {
            Box::pin(async move {
                let _held = (connection, exchange);
                tokio::select! {
                    biased;
                    () = shutdown.begun() => {}
                    () = streaming::proxy::pass_through(client, server) => {}
                }
            })
        }));
        Ok(answer)
    }
}

fn build(
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Request<ForwardedBody>, Status> {
    let mut request = Request::new(body.forward());
    *request.uri_mut() = path.parse().map_err(|_| Status::bad_request(format!("invalid path {path}")))?;
    (*request.method_mut(), *request.headers_mut()) = (method, headers);
    Ok(request)
}
