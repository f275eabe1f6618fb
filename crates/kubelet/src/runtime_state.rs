//! How the container runtime is, by its own word: whether the node is ready, and whether pods get a network, follows from it.
//!
//! ```text
//! cri Status, every 5 s ── conditions ──┬── RuntimeReady: the node ── Ready condition
//! nothing for 30 s ── it is down ───────┘── NetworkReady: the node, and pods that wait for their sandbox
//! ```

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use runtime::Stop;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Between two questions.
const PERIOD: Duration = Duration::from_secs(5);
/// A runtime that says nothing for so long is down.
const DOWN_AFTER: Duration = Duration::from_secs(30);
/// The agent is asked to look at the node at least so often, whether it has to or not: that tells whether it still can.
const TURN: Duration = Duration::from_secs(60);
const DOWN: &str = "container runtime is down";

pub struct RuntimeState {
    env: Env,
    /// Guards what is known; held for a look.
    known: Mutex<Known>,
    /// The pods' network is there.
    network: watch::Sender<bool>,
    /// Not to wait for the next period.
    ask: Notify,
}

#[derive(Default)]
struct Known {
    /// When it last said that it is ready.
    ready_at: Option<Instant>,
    /// Why it is not, if it says so.
    runtime: Option<String>,
    network: Option<String>,
    /// Since when it does not list its pods.
    unlisted: Option<Instant>,
}

impl Known {
    /// Why it is taken to be down by what it has not said.
    fn silence(&self, now: Instant) -> Option<&'static str> {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= DOWN_AFTER;
        match self.ready_at {
            None => Some("container runtime status check may not have completed yet"),
            // Differs from kubelet, which waits three minutes for a list of pods and then says "PLEG is not healthy": nothing here
            // has that name.
            Some(at) if is_over(at) || self.unlisted.is_some_and(is_over) => Some(DOWN),
            Some(_) => None,
        }
    }
}

impl RuntimeState {
    /// As it says itself.
    pub fn new(env: &Env, status: &cri::StatusResponse) -> RuntimeState {
        let state = RuntimeState {
            env: env.clone(),
            known: Mutex::default(),
            network: watch::Sender::new(false),
            ask: Notify::new(),
        };
        state.answered(status);
        state
    }

    pub(crate) fn answered(&self, status: &cri::StatusResponse) {
        let conditions = status.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        let why_not = |kind: &str| match conditions.iter().find(|condition| condition.r#type == kind) {
            Some(condition) if condition.status => None,
            // In Go's words.
            None => Some("<nil>".to_owned()),
            Some(cri::RuntimeCondition { reason, message, .. }) => {
                Some(format!("{kind}=false reason:{reason} message:{message}"))
            }
        };
        let (runtime, network) = (why_not("RuntimeReady"), why_not("NetworkReady"));
        let network_ready = network.is_none();
        {
            let mut known = self.known.lock();
            if runtime.is_none() {
                known.ready_at = Some(self.env.monotonic());
            }
            known.runtime = runtime.map(|why| format!("container runtime not ready: {why}"));
            known.network = network.map(|why| format!("container runtime network not ready: {why}"));
        }
        self.network.send_replace(network_ready);
    }

    /// Whether it told of its pods when it was asked.
    pub fn listed(&self, done: bool) {
        let now = self.env.monotonic();
        let unlisted = &mut self.known.lock().unlisted;
        *unlisted = if done { None } else { Some(unlisted.unwrap_or(now)) };
    }

    /// What keeps the node from being ready, with `more` of others.
    pub fn problems(&self, more: Option<String>) -> Option<String> {
        let mut all = Vec::new();
        {
            let known = self.known.lock();
            all.extend(known.silence(self.env.monotonic()).map(str::to_owned));
            all.extend(known.runtime.clone());
            all.extend(known.network.clone());
        }
        all.extend(more);
        aggregate(all)
    }

    /// Nothing can be started or stopped.
    pub fn is_down(&self) -> bool {
        let known = self.known.lock();
        known.runtime.is_some() || known.silence(self.env.monotonic()).is_some()
    }

    /// Why pods with a network of their own have to wait.
    pub fn network_problem(&self) -> Option<String> {
        self.known.lock().network.clone()
    }

    /// Returns once pods can have a network of their own.
    pub async fn network_ready(&self) {
        // Fails only when this is gone.
        let _ = self.network.subscribe().wait_for(|ready| *ready).await;
    }

    /// What was asked of the runtime may have changed how it is.
    pub fn ask_now(&self) {
        self.ask.notify_one();
    }

    /// Asks it until stopped; `look` asks the agent to look at the node, because it has something else to say.
    pub async fn follow(
        self: Arc<RuntimeState>,
        cri: Arc<dyn cri::Runtime>,
        look: impl Fn() + Send,
        stop: Stop,
    ) {
        let mut said = self.problems(None);
        let mut looked = self.env.monotonic();
        let mut tell = |state: &RuntimeState| {
            let (now, at) = (state.problems(None), state.env.monotonic());
            if now == said && at - looked < TURN {
                return;
            }
            match &now {
                Some(why) if now != said => tracing::warn!(why, "the container runtime is not ready"),
                None if now != said => tracing::info!("the container runtime is ready"),
                _ => {}
            }
            (said, looked) = (now, at);
            look();
        };
        loop {
            let mut asked = cri.status(cri::StatusRequest::default());
            let answer = loop {
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    answer = &mut asked => break answer,
                    // One that does not answer may be down by now.
                    () = self.env.sleep(PERIOD) => tell(&self),
                }
            };
            match answer {
                Ok(status) => self.answered(&status),
                Err(error) => tracing::debug!(%error, "the container runtime does not tell how it is"),
            }
            tell(&self);
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = self.ask.notified() => {}
                () = self.env.sleep(PERIOD) => {}
            }
        }
    }
}

/// As Go joins errors: each once, in brackets if there are several.
fn aggregate(all: Vec<String>) -> Option<String> {
    let mut told: Vec<String> = Vec::new();
    for problem in all {
        if !told.contains(&problem) {
            told.push(problem);
        }
    }
    match &told[..] {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
pub(crate) mod tests;
