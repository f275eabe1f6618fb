//! The node's side of port-forward.

use std::collections::BTreeMap;
use std::time::Duration;

use env::Env;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::{DATA, ERROR, Forward, Negotiated, PORT, REQUEST_ID, STREAM_TYPE, parse_port};
use crate::spdy::{Connection, Headers, Incoming, Settings};
use crate::websocket::{Channels, Codec, Role, tunnel};
use crate::{Io, Stream};

const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
/// Between the two streams of a connection.
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves an upgraded connection until the client is gone. `pod` and `uid` are for messages.
pub async fn serve(env: &Env, io: Io, negotiated: &Negotiated, pod: &str, uid: &str, forward: Forward) {
    let forwarder = Forwarder { forward, pod, uid };
    match negotiated {
        Negotiated::Spdy => over_spdy(env, io, &forwarder).await,
        Negotiated::Tunnel => over_spdy(env, Box::new(tunnel(env, io, Role::Server)), &forwarder).await,
        Negotiated::Channels { codec, ports } => over_channels(env, io, *codec, ports, &forwarder).await,
    }
}

struct Forwarder<'a> {
    forward: Forward,
    pod: &'a str,
    uid: &'a str,
}

impl Forwarder<'_> {
    /// Carries one connection, and tells the client why it failed.
    async fn run(&self, port: u16, data: Stream, error: Stream) {
        if let Err(reason) = (self.forward)(port, data).await {
            let (pod, uid) = (self.pod, self.uid);
            let message = format!("error forwarding port {port} to pod {pod}, uid {uid}: {reason}");
            tracing::debug!(message, "port-forward failed");
            // A client that is gone needs no message.
            let _ = error.send(message.as_bytes()).await;
        }
        error.finish();
    }
}

/// The streams of a connection that has come so far.
#[derive(Default)]
struct Pair {
    data: Option<Stream>,
    error: Option<Stream>,
}

async fn over_spdy(env: &Env, io: Io, forwarder: &Forwarder<'_>) {
    let settings = Settings { idle_timeout: Some(IDLE_TIMEOUT), ping_period: None };
    let connection = Connection::server(env, io, settings);
    // By request id, with the time until which the other stream may come. Bounded by the connection's streams.
    let mut pairs: BTreeMap<String, (Instant, Pair)> = BTreeMap::new();
    let mut running = FuturesUnordered::new();
    loop {
        let overdue = pairs.values().map(|(deadline, _)| *deadline).min();
        let incoming = tokio::select! {
            incoming = connection.accept() => incoming,
            Some(()) = running.next() => continue,
            () = wait_until(env, overdue) => {
                expire(env, &mut pairs).await;
                continue;
            }
        };
        let Some(incoming) = incoming else { return };
        let Ok((port, is_data)) = check(incoming.headers()) else {
            tracing::debug!(headers = ?incoming.headers(), "port-forward stream rejected");
            continue;
        };
        let (id, stream) = identify(incoming, is_data);
        let deadline = env.monotonic() + PAIR_TIMEOUT;
        let (_, pair) = pairs.entry(id.clone()).or_insert_with(|| (deadline, Pair::default()));
        let place = if is_data { &mut pair.data } else { &mut pair.error };
        if place.is_some() {
            if let Some(error) = &pair.error {
                let kind = if is_data { DATA } else { ERROR };
                let message =
                    format!("error processing stream for request {id}: {kind} stream already assigned");
                let _ = error.send(message.as_bytes()).await;
            }
            continue;
        }
        *place = Some(stream);
        if let Pair { data: Some(_), error: Some(_) } = pair
            && let Some((_, Pair { data: Some(data), error: Some(error) })) = pairs.remove(&id)
        {
            running.push(forwarder.run(port, data, error));
        }
    }
}

/// The port and whether it is a data stream.
fn check(headers: &Headers) -> Result<(u16, bool), String> {
    let port = headers.get(PORT);
    if port.is_empty() {
        return Err(format!("{PORT:?} header is required"));
    }
    let port = parse_port(port, port)?;
    match headers.get(STREAM_TYPE) {
        DATA => Ok((port, true)),
        ERROR => Ok((port, false)),
        "" => Err(format!("{STREAM_TYPE:?} header is required")),
        other => Err(format!("invalid stream type {other:?}")),
    }
}

/// Clients of old send no request id, but the error stream right before the data stream.
fn identify(incoming: Incoming, is_data: bool) -> (String, Stream) {
    let named = incoming.headers().get(REQUEST_ID).to_owned();
    let stream = incoming.accept();
    if named.is_empty() {
        let id = if is_data { stream.id().saturating_sub(2) } else { stream.id() };
        return (id.to_string(), stream);
    }
    (named, stream)
}

async fn wait_until(env: &Env, deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => env.sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn expire(env: &Env, pairs: &mut BTreeMap<String, (Instant, Pair)>) {
    let now = env.monotonic();
    let overdue: Vec<String> =
        pairs.iter().filter(|(_, (deadline, _))| *deadline <= now).map(|(id, _)| id.clone()).collect();
    for id in overdue {
        if let Some((_, Pair { error: Some(error), .. })) = pairs.remove(&id) {
            let _ = error.send(format!("(request={id}) timed out waiting for streams").as_bytes()).await;
        }
    }
}

/// The older way over a WebSocket: channels 2n and 2n+1 belong to the nth port, and each begins with that port.
async fn over_channels(env: &Env, io: Io, codec: Codec, ports: &[u16], forwarder: &Forwarder<'_>) {
    let count = ports.len() * 2;
    let (channels, streams) = Channels::with_count(env, io, Role::Server, codec, Some(IDLE_TIMEOUT), count);
    let mut streams = streams.into_iter();
    let mut running = FuturesUnordered::new();
    for port in ports {
        let (Some(data), Some(error)) = (streams.next(), streams.next()) else { break };
        for stream in [&data, &error] {
            let _ = stream.send(&port.to_le_bytes()).await;
        }
        running.push(forwarder.run(*port, data, error));
    }
    tokio::select! {
        () = async { while running.next().await.is_some() {} } => {}
        () = channels.closed() => {}
    }
}
