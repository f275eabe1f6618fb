//! Port-forward: connections to the ports of a pod.

use std::sync::Arc;

use cri::{PortForward, PortForwardRequest};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use streaming::portforward::{self, Forward, Negotiated};

use super::answer;
use super::handle::{Reply, Streaming};
use super::routes::ContainerPath;
use super::{Context, containers, proxy};

pub async fn port_forward(context: &Arc<Context>, path: &ContainerPath, request: Streaming) -> Reply {
    let not_found = |message: &'static str| answer::text(StatusCode::NOT_FOUND, message).into();
    let ports: Vec<&str> = request.query.all("port").collect();
    let negotiated = match request.refusal() {
        Some(refusal) => Err(refusal),
        None => portforward::negotiate(&request.parts.method, &request.parts.headers, &ports)
            .map_err(answer::refused),
    };
    let Some(pod) = context.node.find(&path.namespace, &path.pod) else {
        return not_found("pod does not exist");
    };
    let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
    if !path.uid.is_empty() && path.uid != uid {
        return not_found("pod not found");
    }
    let path = ContainerPath { uid: uid.to_owned(), ..path.clone() };
    let runtime = context.node.runtime();
    let pod_sandbox_id = match containers::sandbox(&*runtime, &path).await {
        Ok(Some(id)) => id,
        Ok(None) => {
            let full_name = format!("{}_{}", path.pod, path.namespace);
            let message = format!("pod not found ({full_name:?})");
            return answer::text(StatusCode::INTERNAL_SERVER_ERROR, message).into();
        }
        Err(error) => return answer::runtime_error(&error).into(),
    };
    let (negotiated, accepted) = match negotiated {
        Ok(negotiated) => negotiated,
        Err(refusal) => return refusal.into(),
    };
    let port = match &negotiated {
        Negotiated::Channels { ports, .. } => ports.iter().map(|port| i32::from(*port)).collect(),
        _ => Vec::new(),
    };
    let asked = PortForwardRequest { pod_sandbox_id: pod_sandbox_id.clone(), port };
    let connect = match runtime.port_forward(asked).await {
        Ok(PortForward::Connect(connect)) => connect,
        Ok(PortForward::Url(url)) => return proxy::port_forward(context, &url, request).await,
        Err(error) => return answer::runtime_error(&error).into(),
    };
    let forward: Forward = Arc::new(move |port, mut stream| {
        let connect = connect.clone();
        Box::pin(async move {
            let mut pod = connect(port).await.map_err(|error| error.message)?;
            // A connection that breaks off ends, as it does without a proxy.
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut pod).await;
            Ok(())
        })
    });
    let (env, on_upgrade) = (context.env.clone(), request.on_upgrade);
    let session = async move {
        let Ok(io) = on_upgrade.await else { return };
        let io = Box::new(TokioIo::new(io));
        portforward::serve(&env, io, &negotiated, &pod_sandbox_id, "", forward).await;
    };
    Reply::Upgrade(answer::switching(accepted), Box::pin(session))
}
