//! Port-forward: for each forwarded connection a data stream and an error stream, paired by their request id.

mod client;
mod server;

use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, Method};

pub use client::Client;
pub use server::serve;

use crate::Stream;
use crate::upgrade::{self, Accepted, Refused};
use crate::websocket::Codec;

/// The subprotocol of SPDY, and within a tunnel's.
pub const PROTOCOL: &str = "portforward.k8s.io";

const PORT: &str = "port";
const REQUEST_ID: &str = "requestID";
const STREAM_TYPE: &str = "streamType";
const DATA: &str = "data";
const ERROR: &str = "error";

/// Ports a WebSocket without a tunnel may ask for: two channels each, and a channel's number is a byte.
const MAX_PORTS: usize = 127;

/// Carries one connection between a stream and a port of the pod; the error is told to the client.
pub type Forward =
    Arc<dyn Fn(u16, Stream) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// How a server and its client agreed to speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Negotiated {
    Spdy,
    /// SPDY within a WebSocket.
    Tunnel,
    /// One pair of channels for each port.
    Channels {
        codec: Codec,
        ports: Vec<u16>,
    },
}

/// Decides on a request for port-forward. `ports` are the values of the query's `port`, which only old WebSocket clients send.
pub fn negotiate(
    method: &Method,
    headers: &HeaderMap,
    ports: &[&str],
) -> Result<(Negotiated, Accepted), Refused> {
    if !upgrade::is_websocket(headers) {
        return Ok((Negotiated::Spdy, upgrade::accept_spdy(headers, &[PROTOCOL])?));
    }
    if upgrade::is_websocket_tunnel(headers) {
        let supported = upgrade::tunnel_protocol(PROTOCOL);
        return Ok((Negotiated::Tunnel, upgrade::accept_websocket(method, headers, &[&supported])?));
    }
    let ports = parse_ports(ports).map_err(|message| Refused {
        status: http::StatusCode::BAD_REQUEST,
        message,
        headers: HeaderMap::new(),
    })?;
    let supported = ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", ""];
    let accepted = upgrade::accept_websocket(method, headers, &supported)?;
    let codec = if accepted.protocol.contains("base64") { Codec::Base64 } else { Codec::Binary };
    Ok((Negotiated::Channels { codec, ports }, accepted))
}

/// The values of the query's `port`: repeated, or separated by commas.
fn parse_ports(values: &[&str]) -> Result<Vec<u16>, String> {
    if values.is_empty() {
        return Err(format!("query parameter {PORT:?} is required"));
    }
    let mut ports = Vec::new();
    for value in values {
        if value.is_empty() {
            return Err(format!("query parameter {PORT:?} cannot be empty"));
        }
        for port in value.split(',') {
            ports.push(parse_port(port, value)?);
        }
    }
    if ports.len() > MAX_PORTS {
        return Err(format!("at most {MAX_PORTS} ports can be forwarded"));
    }
    Ok(ports)
}

/// `whole` is what the message names.
fn parse_port(port: &str, whole: &str) -> Result<u16, String> {
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(0) if digits => Err(format!("port {whole:?} must be > 0")),
        Ok(port) if digits => Ok(port),
        _ => {
            let why = if digits { "value out of range" } else { "invalid syntax" };
            Err(format!("unable to parse {whole:?} as a port: strconv.ParseUint: parsing {port:?}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests;
