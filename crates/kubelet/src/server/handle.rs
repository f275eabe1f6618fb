//! One request: its route, who asks, whether they may, the answer.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::ACCEPT;
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use object::{Map, Value};

use super::answer::{self, Answer};
use super::authenticate::PeerCertificate;
use super::connections::Open;
use super::query::Query;
use super::routes::{Handler, MetricsOf, Route, route};
use super::{
    Context, checkpoint, containers, exec, health, logs, metrics, portforward, stats, system_logs, zpages,
};

/// What becomes of a request.
pub enum Reply {
    Answer(Answer),
    /// A 101, and what is done on the connection afterwards.
    Upgrade(Answer, BoxFuture<'static, ()>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Answer(answer)
    }
}

/// A request that may become a session.
pub struct Streaming {
    pub parts: http::request::Parts,
    pub query: Query,
    pub on_upgrade: OnUpgrade,
}

impl Streaming {
    /// Proxies of streams pass nothing else on.
    pub fn refusal(&self) -> Option<Answer> {
        (!streaming::upgrade::is_upgrade(&self.parts.headers))
            .then(|| answer::error(StatusCode::INTERNAL_SERVER_ERROR, "Upgrade request required"))
    }
}

pub async fn handle(
    context: &Arc<Context>,
    certificate: &PeerCertificate,
    connection: &Open,
    mut request: Request<Incoming>,
) -> Reply {
    let handler = match route(request.method(), request.uri().path(), context.enabled) {
        Route::Unknown => return answer::not_found().into(),
        Route::Moved(to) => return answer::moved(to).into(),
        Route::To(handler) => Ok(handler),
        Route::NotFound => Err(answer::no_route()),
        Route::NotAllowed { allowed } => Err(answer::method_not_allowed(allowed)),
    };
    let user = context.authenticator.authenticate(certificate, request.headers_mut()).await;
    let Some(user) = user else {
        return answer::text(StatusCode::UNAUTHORIZED, "Unauthorized").into();
    };
    let (method, path) = (request.method(), request.uri().path());
    if let Err(refusal) = context.authorizer.authorize(&user, method, path).await {
        return refusal.into();
    }
    if user.name != auth::UserInfo::anonymous().name {
        connection.known();
    }
    match handler {
        Ok(handler) => dispatch(context, handler, request).await,
        Err(refusal) => refusal.into(),
    }
}

async fn dispatch(context: &Arc<Context>, handler: Handler, mut request: Request<Incoming>) -> Reply {
    let on_upgrade = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let query = Query::parse(parts.uri.query());
    if matches!(handler, Handler::Pods | Handler::RunningPods | Handler::Summary)
        && !accepts_json(&parts.headers)
    {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        return answer::text(StatusCode::NOT_ACCEPTABLE, message).into();
    }
    let accept = parts.headers.get(ACCEPT).cloned();
    let streaming = |query| Streaming { parts, query, on_upgrade };
    match handler {
        Handler::Exec(path) => exec::exec(context, &path, streaming(query)).await,
        Handler::Attach(path) => exec::attach(context, &path, streaming(query)).await,
        Handler::PortForward(path) => portforward::port_forward(context, &path, streaming(query)).await,
        Handler::Health(None) => health::all(context, &query).into(),
        Handler::Health(Some(name)) => health::one(context, name).into(),
        Handler::Pods => {
            let pods = context.node.pods().iter().map(|pod| untyped(pod)).collect();
            answer::json(&containers::pod_list(pods)).into()
        }
        Handler::RunningPods => match containers::running_pods(&*context.node.runtime()).await {
            Ok(pods) => answer::json(&containers::pod_list(pods)).into(),
            Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into(),
        },
        Handler::Configz => {
            let mut configs = Map::with_capacity(1);
            configs.set("kubeletconfig", context.node.config());
            answer::json(&Value::Map(configs)).into()
        }
        Handler::Statusz => zpages::statusz(context, accept.as_ref()).into(),
        Handler::Flagz => zpages::flagz(context, accept.as_ref()).into(),
        Handler::SystemLogs(path) => system_logs::serve(&context.system_logs, &path).await.into(),
        Handler::Logs(path) => logs::container_logs(context, &path, &query).await.into(),
        Handler::Run(path) => exec::run(context, &path, &query).await.into(),
        Handler::Summary => stats::summary(context, &query).await.into(),
        Handler::Metrics(of) => match of {
            MetricsOf::Node => metrics::serve(context).await.into(),
            MetricsOf::Resources => stats::resource_metrics(context).await.into(),
            MetricsOf::Containers => stats::container_metrics(context).await.into(),
            MetricsOf::HealthChecks => health::metrics(context).into(),
            MetricsOf::Probes => {
                let mut out = String::new();
                context.node.probe_metrics(&mut out);
                answer::metrics(out).into()
            }
        },
        Handler::Checkpoint(path) => checkpoint::checkpoint(context, &path, &query).await.into(),
        Handler::Disabled(message) => answer::error(StatusCode::METHOD_NOT_ALLOWED, message).into(),
    }
}

/// Items of a list have no type of their own.
fn untyped(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(map) = pod.as_map_mut() {
        map.retain(|name, _| *name != "kind" && *name != "apiVersion");
    }
    pod
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) else { return true };
    let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
    accept.is_empty()
        || kinds.into_iter().any(|kind| matches!(kind, "*/*" | "application/*" | "application/json"))
}
