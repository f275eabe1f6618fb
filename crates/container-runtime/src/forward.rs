//! Connections to ports of a pod, from inside its network namespace.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use cri::{Connect, Error, NamespaceMode, PortForwardRequest};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpSocket, TcpStream};

use crate::Inner;
use crate::blocking::block;
use crate::error::{Context, unknown};
use crate::pods::Sandbox;

pub fn port_forward(inner: &Inner, request: &PortForwardRequest) -> Result<Arc<Connect>, Error> {
    let sandbox = inner.ready_sandbox(&request.pod_sandbox_id)?;
    Ok(Arc::new(move |port| {
        let sandbox = sandbox.clone();
        Box::pin(async move {
            let stream = connect(sandbox, port).await?;
            // What people type goes out at once.
            let _ = stream.set_nodelay(true);
            Ok(Box::new(stream) as streaming::Io)
        })
    }))
}

async fn connect(sandbox: Arc<Sandbox>, port: u16) -> Result<TcpStream, Error> {
    let id = sandbox.record.id.clone();
    let (v4, v6) = block(move || sockets(&sandbox)).await?;
    let first = match v4.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
        Ok(stream) => return Ok(stream),
        Err(error) => error.to_string(),
    };
    let second = match v6 {
        Some(v6) => match v6.connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error.to_string(),
        },
        None => "address family not supported by protocol".to_owned(),
    };
    Err(unknown(format!(
        "failed to execute portforward in network namespace {id:?}: failed to connect to localhost:{port} inside \
         namespace {id:?}, IPv4: {first} IPv6 {second}"
    )))
}

/// A socket belongs to the namespace it was made in: a thread goes there, makes them, and is gone.
#[expect(
    clippy::disallowed_methods,
    reason = "a namespace is a thread's: it must not stay in one that does other work"
)]
fn sockets(sandbox: &Sandbox) -> Result<(TcpSocket, Option<TcpSocket>), Error> {
    let failed = || "failed to open a socket in the pod's network".to_owned();
    let make = || -> std::io::Result<_> { Ok((TcpSocket::new_v4()?, TcpSocket::new_v6().ok())) };
    if sandbox.record.namespaces().network() == NamespaceMode::Node {
        return make().context(failed);
    }
    let pid = sandbox.state.lock().pid;
    let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net")).context(failed)?;
    let namespace = OwnedFd::from(namespace);
    let thread = std::thread::Builder::new().name("pod-socket".to_owned()).spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        make()
    });
    let made = thread.context(failed)?.join().map_err(|_| unknown(failed()))?;
    made.context(failed)
}
