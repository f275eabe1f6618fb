//! Lifecycle hooks: what is done right after a container started and before it is asked to stop.
//!
//! Events never hold what a hook printed or a server answered: secrets would leak. The message of an error is for the
//! container's status.

use std::time::Duration;

use env::Env;
use object::Value;

use crate::probes::Target;
use crate::probes::http::{Client, PLAIN_ANSWER, Request};
use crate::probes::spec::{HttpGet, command};

/// What hooks are run with.
pub struct Hooks {
    env: Env,
    http: Client,
}

/// A hook of one container.
#[derive(Clone, Copy)]
pub struct Hook<'a> {
    pub pod: &'a Value,
    pub container: &'a Value,
    pub target: &'a dyn Target,
    /// Told of warnings.
    pub events: &'a (dyn Fn(HookEvent) + Send + Sync),
}

/// A warning about the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookEvent {
    pub reason: &'static str,
    pub message: String,
}

/// The hook failed, and the event is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookError {
    /// What the container waits with, next to `PostStartHookError`.
    pub message: String,
}

impl Hooks {
    pub fn new(env: &Env) -> Hooks {
        Hooks { env: env.clone(), http: Client::new(env) }
    }

    /// Runs `lifecycle.postStart`, if there is one. There is no timeout: it ends when the future is dropped, too.
    pub async fn post_start(&self, hook: Hook<'_>) -> Result<(), HookError> {
        let Some(handler) = hook.handler("postStart") else { return Ok(()) };
        self.run(hook, handler).await.map_err(|message| {
            let event =
                HookEvent { reason: "FailedPostStartHook", message: "PostStartHook failed".to_owned() };
            (hook.events)(event);
            HookError { message }
        })
    }

    /// Runs `lifecycle.preStop`, if there is one, within the grace. What is left of the grace then, in whole seconds; a hook that
    /// failed or took too long does not keep the container alive.
    pub async fn pre_stop(&self, hook: Hook<'_>, grace_seconds: i64) -> i64 {
        let (Some(handler), 1..) = (hook.handler("preStop"), grace_seconds) else { return grace_seconds };
        let start = self.env.monotonic();
        let limit = Duration::from_secs(grace_seconds.unsigned_abs());
        let outcome = self.env.timeout(limit, self.run(hook, handler)).await;
        // A command that is still running ends with the container, and has failed then.
        let cut_short = outcome.is_err() && handler.get("exec").is_some();
        let error = outcome.ok().and_then(Result::err);
        if error.is_some() || cut_short {
            tracing::debug!(error, "preStop hook failed");
            let event = HookEvent { reason: "FailedPreStopHook", message: "PreStopHook failed".to_owned() };
            (hook.events)(event);
        }
        let took = self.env.monotonic().saturating_duration_since(start).as_secs();
        grace_seconds.saturating_sub_unsigned(took)
    }

    async fn run(&self, hook: Hook<'_>, handler: &Value) -> Result<(), String> {
        let of =
            format!("for Container {} in Pod {}", object::quote(hook.container_name()), hook.described_pod());
        if let Some(action) = handler.get("exec") {
            let command: Vec<String> = command(action).map(str::to_owned).collect();
            let failed = |error: &str, output: &[u8]| {
                let output = object::quote(&String::from_utf8_lossy(output));
                let words = command.join(" ");
                format!("Exec lifecycle hook ([{words}]) {of} failed - error: {error}, message: {output}")
            };
            let done = hook.target.exec(command.clone(), Duration::ZERO).await;
            let done = done.map_err(|error| failed(&error.to_string(), b""))?;
            if done.code == 0 {
                return Ok(());
            }
            let (words, stderr) = (command.join(" "), String::from_utf8_lossy(&done.stderr));
            let error = format!("command '{words}' exited with {}: {stderr}", done.code);
            Err(failed(&error, &[done.stdout.as_slice(), &done.stderr].concat()))
        } else if let Some(action) = handler.get("httpGet") {
            let path = action.str_at(&["path"]).unwrap_or_default();
            let failed = |why| format!("HTTP lifecycle hook ({path}) {of} failed - error: {why}");
            self.get(hook, action).await.map_err(failed)
        } else if let Some(action) = handler.get("sleep") {
            let seconds = action.get("seconds").and_then(Value::as_int).unwrap_or(0);
            self.env.sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).await;
            Ok(())
        } else {
            // Accepted by the API for old pods' sake, and never run.
            let socket = handler.get("tcpSocket").map_or_else(|| "nil".to_owned(), go_tcp_socket);
            let all = format!("&LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{socket},Sleep:nil,}}");
            Err(format!("Cannot run handler: invalid handler: {all}"))
        }
    }

    /// Any answer will do.
    async fn get(&self, hook: Hook<'_>, action: &Value) -> Result<(), String> {
        let get = HttpGet::read(action, hook.container);
        let request = Request::new(&get, hook.target.pod_ip().as_deref(), "lifecycle")?;
        match self.http.get(&request, None).await {
            Ok(_) => Ok(()),
            Err(why) if why.ends_with(PLAIN_ANSWER) => {
                let plain = request.in_plain();
                self.http.get(&plain, None).await.map_err(|_| why)?;
                let address = plain.url.authority();
                let message = format!(
                    "request to HTTPS lifecycle hook {address} got HTTP response, retry with HTTP succeeded"
                );
                (hook.events)(HookEvent { reason: "LifecycleHTTPFallback", message });
                Ok(())
            }
            Err(why) => Err(why),
        }
    }
}

impl<'a> Hook<'a> {
    fn handler(&self, when: &str) -> Option<&'a Value> {
        self.container.at(&["lifecycle", when]).filter(|handler| !handler.is_null())
    }

    fn container_name(&self) -> &'a str {
        self.container.str_at(&["name"]).unwrap_or_default()
    }

    fn described_pod(&self) -> String {
        object::quote(&node::pod::Pod::read(self.pod).described())
    }
}

/// As Go prints it.
fn go_tcp_socket(socket: &Value) -> String {
    let port = match socket.get("port") {
        Some(Value::Str(name)) => name.clone(),
        port => port.and_then(Value::as_int).unwrap_or(0).to_string(),
    };
    let host = socket.str_at(&["host"]).unwrap_or_default();
    format!("&TCPSocketAction{{Port:{port},Host:{host},}}")
}

#[cfg(test)]
mod tests;
