//! exec, attach and portforward: the client's connection, joined to a kubelet's.
//!
//! | client                  | kubelet takes WebSockets | else                       |
//! |-------------------------|--------------------------|----------------------------|
//! | SPDY, WebSocket to v4   | passed through           | passed through             |
//! | WebSocket v5            | passed through           | translated to SPDY         |
//! | SPDY in a WebSocket     | passed through           | unwrapped                  |

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONNECTION, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use object::{Status, quote};
use streaming::proxy::NodeError;
use streaming::remotecommand::{self, Options, SPDY_CLIENT_PROTOCOLS, Version};
use streaming::upgrade::{self, Accepted, Refused};
use streaming::{Io, proxy as between};

use super::Connect;
use super::backend::{Backend, BackendConnection, BackendSlot, Target, upgraded};
use super::headers::{ask_to_upgrade, drop_hop_by_hop, forwarded};
use super::location::Kubelet;
use super::{log, options};
use crate::api::Api;
use crate::body::{Body, ForwardedBody, RequestBody};
use crate::metrics::ProxyType;
use crate::proxied_body::{ProxiedBody, ProxiedSettings};
use crate::respond::{self, Answer};
use crate::upgrade::PendingUpgrade;

/// How much of a kubelet's refusal is read.
const MAX_REFUSAL: usize = 64 << 10;

/// A request to be upgraded by a backend.
pub(super) struct UpgradeRequest {
    pub method: Method,
    /// With its query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: RequestBody,
}

impl Connect<'_> {
    pub(super) async fn session(&self, subresource: &str, body: RequestBody) -> Result<Answer, Status> {
        let streams = options::streams(self.query);
        let query = match subresource {
            "exec" => {
                options::streams_query(&streams, self.query.all("command").map(str::to_owned).collect())
            }
            "attach" => options::streams_query(&streams, Vec::new()),
            _ => options::ports_query(self.query)?,
        };
        let (kubelet, path) = self.session_location(subresource, &query).await?;
        let headers = &self.parts.headers;
        let direct = kubelet.takes_websockets;
        let proxy_type = if direct { ProxyType::Kubelet } else { ProxyType::Translated };
        self.api.metrics.connect().streaming_requested(subresource, proxy_type);
        let target = self.kubelet_target(kubelet, false);
        if !direct && subresource != "portforward" && upgrade::is_websocket_v5(headers) {
            return self.translate(target, path, streams);
        }
        let mut headers_sent = forwarded(self.parts, body.peer(), self.request_headers());
        let asks = ask_to_upgrade(self.parts, &mut headers_sent, target.tls.is_some());
        let method = self.parts.method.clone();
        let request = UpgradeRequest { method, path, headers: headers_sent, body };
        if !direct && subresource == "portforward" && upgrade::is_websocket_tunnel(headers) {
            return self.tunnel(target, request).await;
        }
        match PendingUpgrade::of(self.parts).filter(|_| asks) {
            Some(pending) => self.upgrade(pending, &target, request).await,
            None => Err(Status::bad_request("Upgrade request required")),
        }
    }

    async fn session_location(&self, subresource: &str, query: &str) -> Result<(Kubelet, String), Status> {
        let pod = self.pod().await?;
        let (namespace, name) = (self.request.namespace, self.request.name);
        let mut path = match subresource {
            "portforward" => format!("/portForward/{namespace}/{name}"),
            // exec and attach need a container.
            _ => format!("/{subresource}/{namespace}/{name}/{}", self.container(&pod)?),
        };
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        match pod.str_at(&["spec", "nodeName"]) {
            None | Some("") => Err(Status::bad_request(format!("pod {name} does not have a host assigned"))),
            Some(node) => Ok((self.kubelet(node).await?, path)),
        }
    }

    /// Passes an upgrade through.
    pub(super) async fn upgrade(
        &self,
        pending: &PendingUpgrade,
        target: &Target,
        request: UpgradeRequest,
    ) -> Result<Answer, Status> {
        let (response, connection) = self.ask(target, request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self.not_upgraded(response, connection);
        }
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = response.headers().clone();
        let node = upgraded(response).await.map_err(Status::unknown)?;
        self.begin(pending, connection, move |client| Box::pin(between::pass_through(client, node)));
        Ok(answer)
    }

    /// SPDY in a WebSocket, for a kubelet that speaks SPDY only.
    async fn tunnel(&self, target: Target, mut request: UpgradeRequest) -> Result<Answer, Status> {
        let counts = self.api.metrics.connect();
        let Some(pending) = PendingUpgrade::of(self.parts) else {
            return Err(Status::bad_request("Upgrade request required"));
        };
        let Some(headers) = upgrade::tunnel_request(&request.headers) else {
            counts.tunnelled(400);
            return Ok(respond::text(400, "unable to upgrade: no tunneling spdy protocols provided\n"));
        };
        (request.method, request.headers) = (Method::POST, headers);
        let (response, connection) = self.ask(&target, request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            counts.tunnelled(response.status().as_u16());
            return self.not_upgraded(response, connection);
        }
        let Some(protocol) = upgrade::spdy_response(response.status(), response.headers()) else {
            counts.tunnelled(500);
            return Ok(respond::text(500, "unable to upgrade: missing upgrade headers in response\n"));
        };
        let accepted = upgrade::tunnel_response(&self.parts.method, &self.parts.headers, &protocol);
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(refusal) => {
                counts.tunnelled(500);
                return Ok(refused(refusal));
            }
        };
        counts.tunnelled(101);
        let node = upgraded(response).await.map_err(Status::unknown)?;
        let env = self.api.registry.env().clone();
        self.begin(pending, connection, move |client| {
            Box::pin(async move { between::tunnel(&env, client, node).await })
        });
        Ok(switched(accepted))
    }

    /// WebSocket (version 5) to SPDY. The client is served before the kubelet is reached, as upstream does it.
    fn translate(&self, target: Target, path: String, streams: Options) -> Result<Answer, Status> {
        let Some(pending) = PendingUpgrade::of(self.parts) else {
            return Err(Status::bad_request("Upgrade request required"));
        };
        let negotiated = remotecommand::negotiate(&self.parts.method, &self.parts.headers);
        let (negotiated, accepted) = match negotiated {
            Ok(agreed) => agreed,
            Err(refusal) => {
                self.api.metrics.connect().translated(400);
                return Ok(refused(refusal));
            }
        };
        let (slot, held) = (self.slot()?, self.slot()?);
        let (api, gauge) = (self.api.clone(), self.gauge(0));
        pending.begin(Box::new(move |client, exchange, mut shutdown| {
            Box::pin(async move {
                // For as long as the session lasts; the first one ends with the handshake.
                let _held = (held, gauge, exchange);
                let env = api.registry.env().clone();
                let node = spdy(&api, target, path, slot);
                tokio::select! {
                    biased;
                    () = shutdown.begun() => {}
                    code = between::translate(&env, client, &negotiated, &streams, node) => {
                        api.metrics.connect().translated(code);
                    }
                }
            })
        }));
        Ok(switched(accepted))
    }

    /// Sends a request to be upgraded; nothing that comes is followed.
    async fn ask(
        &self,
        target: &Target,
        request: UpgradeRequest,
    ) -> Result<(Response<Incoming>, BackendConnection), Status> {
        let env = self.api.registry.env();
        let dialling = |why: String| Status::unknown(format!("error dialing backend: {why}"));
        let backend = Backend::open(env, target, self.slot()?).await.map_err(dialling)?;
        let request = build(request).map_err(Status::internal)?;
        backend.send(request).await.map_err(Status::unknown)
    }

    /// A refusal is passed on as it is, anything else is an error.
    fn not_upgraded(
        &self,
        response: Response<Incoming>,
        connection: BackendConnection,
    ) -> Result<Answer, Status> {
        let code = response.status().as_u16();
        if code < 400 {
            return Err(Status::unknown(format!("invalid upgrade response: status code {code}")));
        }
        let (mut head, incoming) = response.into_parts();
        drop_hop_by_hop(&mut head.headers);
        head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let gauge = self.gauge(0);
        let settings = ProxiedSettings { shutdown: None, cut_is_end: false, gauge, deadline: None };
        let body = ProxiedBody::new(Bytes::new(), incoming, connection, settings);
        let mut answer = Response::new(Body::Proxied(Box::new(body)));
        (*answer.status_mut(), *answer.headers_mut()) = (head.status, head.headers);
        Ok(answer)
    }

    /// Runs a session until it, or the server, ends.
    fn begin(
        &self,
        pending: &PendingUpgrade,
        connection: BackendConnection,
        run: impl FnOnce(Io) -> BoxFuture<'static, ()> + Send + 'static,
    ) {
        // Upstream knows no code for a connection it gave away.
        let gauge = self.gauge(0);
        pending.begin(Box::new(move |client, exchange, mut shutdown| {
            Box::pin(async move {
                // The exchange too: without one, what comes would be taken for requests.
                let _held = (connection, gauge, exchange);
                tokio::select! {
                    biased;
                    () = shutdown.begun() => {}
                    () = run(client) => {}
                }
            })
        }));
    }
}

/// A kubelet's SPDY connection for exec or attach.
async fn spdy(
    api: &Api,
    target: Target,
    path: String,
    slot: BackendSlot,
) -> Result<(Io, Version), NodeError> {
    let failed = |why: String| {
        let url = quote(&format!("{}://{}{path}", target.scheme(), target.address));
        NodeError::Message(format!("error sending request: Post {url}: {why}"))
    };
    let backend = Backend::open(api.registry.env(), &target, slot).await.map_err(failed)?;
    let mut headers = upgrade::spdy_request(&SPDY_CLIENT_PROTOCOLS);
    headers.extend(HeaderValue::try_from(target.address.to_string()).ok().map(|host| (HOST, host)));
    let body = RequestBody::Whole(Bytes::new());
    let request = build(UpgradeRequest { method: Method::POST, path: path.clone(), headers, body });
    let (response, _connection) = backend.send(request.map_err(failed)?).await.map_err(failed)?;
    let Some(protocol) = upgrade::spdy_response(response.status(), response.headers()) else {
        let text = log::read_up_to(response.into_body(), MAX_REFUSAL).await;
        let text = text.unwrap_or_else(|_| "unable to read error from server response".to_owned());
        return Err(match is_status(&text) {
            true => NodeError::Status(Bytes::from(text)),
            false => NodeError::Message(format!("unable to upgrade connection: {}", text.trim())),
        });
    };
    let version = Version::parse(&protocol).ok_or_else(|| {
        NodeError::Message(format!("unable to upgrade connection: unknown protocol {}", quote(&protocol)))
    })?;
    Ok((upgraded(response).await.map_err(failed)?, version))
}

fn is_status(text: &str) -> bool {
    codec::json::parse(text.as_bytes(), None).is_ok_and(|value| {
        value.str_at(&["kind"]) == Some("Status") && value.str_at(&["apiVersion"]) == Some("v1")
    })
}

fn build(request: UpgradeRequest) -> Result<Request<ForwardedBody>, String> {
    let mut built = Request::new(request.body.forward());
    *built.uri_mut() = request.path.parse().map_err(|error| format!("{}: {error}", request.path))?;
    (*built.method_mut(), *built.headers_mut()) = (request.method, request.headers);
    Ok(built)
}

fn switched(accepted: Accepted) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = accepted.headers;
    answer
}

fn refused(refusal: Refused) -> Answer {
    let mut answer = respond::text(refusal.status.as_u16(), refusal.message);
    answer.headers_mut().extend(refusal.headers);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
