//! One run of a probe: the question put to the container, and the answer in kubelet's words.

use std::sync::Arc;
use std::time::Duration;

use env::Env;

use super::spec::{Handler, Probe};
use super::{Target, health, http};

/// A probe that could not be made is tried this often, at once.
const TRIES: usize = 3;
/// What is kept of a command's output.
const MAX_OUTPUT: usize = 10 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    Success,
    /// Good enough, but worth telling.
    Warning(String),
    Failure(String),
}

/// The probe found out nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Errored {
    /// The word of the event.
    pub state: &'static str,
    pub why: String,
}

/// What probes are made with.
#[derive(Clone)]
pub struct Prober {
    pub env: Env,
    pub http: http::Client,
}

impl Prober {
    pub async fn run(
        &self,
        probe: &Probe,
        target: &Arc<dyn Target>,
        whose: &str,
    ) -> Result<Answered, Errored> {
        let mut last = None;
        for _ in 0..TRIES {
            match self.once(probe, target, whose).await {
                Ok(answered) => return Ok(answered),
                Err(errored) => last = Some(errored),
            }
        }
        Err(last.expect("it was tried at least once"))
    }

    async fn once(&self, probe: &Probe, target: &Arc<dyn Target>, whose: &str) -> Result<Answered, Errored> {
        let limit = probe.timeout;
        match &probe.handler {
            Handler::Exec(command) => exec(target, command, limit).await,
            Handler::HttpGet(get) => {
                let request =
                    http::Request::new(get, target.pod_ip().as_deref(), "probe").map_err(unknown)?;
                match self.http.get(&request, Some(limit)).await {
                    Ok(response) => judge(response),
                    Err(why) => Ok(Answered::Failure(why)),
                }
            }
            Handler::Tcp { host, port } => {
                let port = port.clone().map_err(unknown)?;
                let host = host.clone().or_else(|| target.pod_ip()).ok_or_else(no_address)?;
                let address = http::join_host_port(&host, port);
                Ok(match self.env.timeout(limit, http::dial(&host, port)).await {
                    Ok(Ok(_)) => Answered::Success,
                    Ok(Err(why)) => Answered::Failure(why),
                    Err(_) => Answered::Failure(format!("dial tcp {address}: i/o timeout")),
                })
            }
            Handler::Grpc { port, service } => {
                let port = port.clone().map_err(unknown)?;
                let host = target.pod_ip().ok_or_else(no_address)?;
                Ok(health::check(&self.env, &host, port, service, limit).await)
            }
            Handler::Missing => Err(unknown(format!("missing probe handler for {whose}"))),
        }
    }
}

async fn exec(target: &Arc<dyn Target>, command: &[String], limit: Duration) -> Result<Answered, Errored> {
    match target.exec(command.to_vec(), limit).await {
        Ok(done) if done.code == 0 => Ok(Answered::Success),
        Ok(done) => {
            let mut output = done.stdout;
            output.extend(done.stderr);
            output.truncate(MAX_OUTPUT);
            Ok(Answered::Failure(String::from_utf8_lossy(&output).into_owned()))
        }
        Err(error) if error.code == cri::Code::DeadlineExceeded => {
            let command = object::quote(&command.join(" "));
            let limit = go_duration(limit);
            Ok(Answered::Failure(format!("command timed out: {command} timed out after {limit}")))
        }
        Err(error) => Err(unknown(error.to_string())),
    }
}

fn judge(response: http::Response) -> Result<Answered, Errored> {
    let body = response.body.map_err(|why| Errored { state: "failure", why })?;
    Ok(match response.status {
        200..300 => Answered::Success,
        300..400 => {
            let body = String::from_utf8_lossy(&body);
            Answered::Warning(format!("Probe terminated redirects, Response body: {body}"))
        }
        // The body is the application's, and may hold what events must not.
        status => Answered::Failure(format!("HTTP probe failed with statuscode: {status}")),
    })
}

fn unknown(why: String) -> Errored {
    Errored { state: "unknown", why }
}

fn no_address() -> Errored {
    unknown("the pod has no IP address".to_owned())
}

/// `1m30s`.
pub fn go_duration(duration: Duration) -> String {
    object::time::format_duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
