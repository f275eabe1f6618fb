//! Subresources that reach into a node or a pod: log, exec, attach, portforward, proxy.
//!
//! ```text
//!  log                          location ──> kubelet: GET  ──> ProxiedBody
//!  exec, attach, portforward    location ──> kubelet: 101  ──> a session: bytes passed on, or WebSocket translated to SPDY
//!  proxy                        location ──> kubelet, pod or endpoint: any request ──> ProxiedBody, links rewritten; or a session
//! ```
//! Each request has a connection of its own to its backend, which ends with it, and takes no seats: it lasts as long as its client
//! likes. Errors are worded as upstream's Go programs word them.

mod admission;
pub(crate) mod backend;
pub(crate) mod headers;
mod kubelet;
mod location;
mod log;
mod options;
mod proxy;
mod rewrite;
mod session;
pub(crate) mod url;

use std::sync::Arc;

use auth::{Attributes, RequestHeaders, UserInfo};
use http::request::Parts;
use object::Status;
use registry::RequestContext;

pub use backend::{BackendConnection, BackendCount};
pub(crate) use kubelet::certified_key;
pub use kubelet::{Dialer, KubeletClient, KubeletClientCertificate, KubeletClientConfig};

use crate::api::Api;
use crate::body::RequestBody;
use crate::metrics::LongRunning;
use crate::request_info::{Query, RequestInfo};
use crate::request_metrics;
use crate::respond::{self, Answer};

/// A request for one of them.
pub struct Connect<'a> {
    pub api: &'a Arc<Api>,
    pub user: &'a UserInfo,
    pub parts: &'a Parts,
    pub query: &'a Query<'a>,
    pub info: &'a RequestInfo<'a>,
    pub request: &'a RequestContext<'a>,
    /// The path of a proxied request, where admission changed it.
    pub path: Option<&'a str>,
}

impl Connect<'_> {
    pub async fn serve(&self, body: RequestBody) -> Result<Answer, Status> {
        let subresource = self.request.subresource.unwrap_or_default();
        if subresource != "log" && self.query.find("dryRun").is_some() {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        if subresource == "log" {
            return self.log().await;
        }
        if matches!(subresource, "exec" | "attach" | "portforward") {
            self.may_create()?;
        }
        let mut warnings = Vec::new();
        let answer = async {
            let changed = self.admit(subresource, &mut warnings).await?;
            let query = changed.query.as_deref().map(|text| Query::parse(Some(text)));
            let query = query.as_ref().unwrap_or(self.query);
            let admitted = Connect { query, path: changed.path.as_deref(), ..*self };
            admitted.reach(subresource, body).await
        };
        match answer.await {
            Ok(mut answer) => {
                respond::warn(&mut answer, &warnings);
                Ok(answer)
            }
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    async fn reach(&self, subresource: &str, body: RequestBody) -> Result<Answer, Status> {
        match (self.request.resource.plural.as_str(), subresource) {
            ("pods", "exec" | "attach" | "portforward") => self.session(subresource, body).await,
            ("pods", "proxy") => self.proxy(self.pod_proxy().await?, body).await,
            ("services", "proxy") => self.proxy(self.service_proxy().await?, body).await,
            ("nodes", "proxy") => self.proxy(self.node_proxy().await?, body).await,
            _ => Err(Status::no_such_resource()),
        }
    }

    /// A GET of these needs the permission of a POST: browsers cannot POST a WebSocket.
    fn may_create(&self) -> Result<(), Status> {
        self.api.authorizer.check(
            self.user,
            &Attributes {
                verb: "create",
                group: &self.request.resource.group,
                resource: &self.request.resource.plural,
                subresource: self.request.subresource.unwrap_or_default(),
                name: self.request.name,
                namespace: self.request.namespace,
                path: None,
                field_selector: "",
            },
        )
    }

    /// Headers that are credentials here.
    fn request_headers(&self) -> Option<&RequestHeaders> {
        self.api.cluster().request_headers.as_deref()
    }

    /// A place for the connection to the backend.
    fn slot(&self) -> Result<backend::BackendSlot, Status> {
        self.api.backends.enter(self.api.connections.max_backends())
    }

    /// Counts the request as long-running, and with that code when it ends.
    fn gauge(&self, code: u16) -> Option<LongRunning> {
        let route = request_metrics::route(self.api, self.request.catalog, self.info, &self.parts.headers)?;
        let begun = self.api.registry.env().monotonic();
        Some(self.api.metrics.long_running(route, begun).answered_with(code))
    }
}
