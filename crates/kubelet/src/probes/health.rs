//! gRPC's health check, `grpc.health.v1.Health/Check`.

use std::time::Duration;

use env::Env;
use grpc::{CallError, Connection, Options, code};
use tokio::time::Instant;

use super::attempt::{Answered, go_duration};
use super::http::{dial, join_host_port};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const OPTIONS: Options =
    Options { max_answer_bytes: 4 << 20, ping: None, headers: &[("user-agent", "kube-probe/1.36")] };
/// A server that is not there yet is tried again within the timeout, as gRPC's own client does.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const SERVING: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub status: i32,
}

pub async fn check(env: &Env, host: &str, port: u16, service: &str, limit: Duration) -> Answered {
    let deadline = env.monotonic() + limit;
    let address = join_host_port(host, port);
    let Ok(connection) = env.timeout(limit, connect(env, host, port, &address)).await else {
        let address = object::quote(&address);
        let limit = go_duration(limit);
        return Answered::Failure(format!(
            "timeout: failed to connect service {address} within {limit}: context deadline exceeded"
        ));
    };
    let request = HealthCheckRequest { service: service.to_owned() };
    let left = |deadline: Instant| deadline.saturating_duration_since(env.monotonic());
    let answer = env.timeout(left(deadline), connection.unary(CHECK, &request)).await;
    let answer: HealthCheckResponse = match answer {
        Ok(Ok(answer)) => answer,
        Err(_) | Ok(Err(CallError::Status { code: code::DEADLINE_EXCEEDED, .. })) => {
            let limit = go_duration(limit);
            return Answered::Failure(format!("timeout: health rpc did not complete within {limit}"));
        }
        Ok(Err(CallError::Status { code: code::UNIMPLEMENTED, message })) => {
            return Answered::Failure(format!(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
            ));
        }
        Ok(Err(CallError::Status { code, message })) => {
            let code = code::name(code);
            return Answered::Failure(format!(
                "error: health rpc probe failed: rpc error: code = {code} desc = {message}"
            ));
        }
        Ok(Err(error)) => {
            return Answered::Failure(format!(
                "error: health rpc probe failed: rpc error: code = Unavailable desc = {error}"
            ));
        }
    };
    if answer.status == SERVING {
        return Answered::Success;
    }
    let status = match answer.status {
        0 => "UNKNOWN".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    };
    Answered::Failure(format!("service unhealthy (responded with {})", object::quote(&status)))
}

/// Ends only with a connection.
async fn connect(env: &Env, host: &str, port: u16, address: &str) -> Connection {
    loop {
        if let Ok(tcp) = dial(host, port).await {
            let base = http::Uri::builder().scheme("http").authority(address).path_and_query("/").build();
            if let Ok(base) = base
                && let Ok(connection) = Connection::handshake(env, tcp, base, OPTIONS).await
            {
                return connection;
            }
        }
        env.sleep(RETRY_AFTER).await;
    }
}

#[cfg(test)]
mod tests;
