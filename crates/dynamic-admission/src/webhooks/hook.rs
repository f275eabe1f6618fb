//! One webhook of a configuration, read once a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use admission::{Attempt, Phase};
use admission_policy::{FailurePolicy, Inputs, MatchConditions, Matching};
use codec::json;
use object::{Obj, Status, Value, quote};
use parking_lot::Mutex;
use webhook::{ClientConfig, ConfigError};

use super::Webhooks;
use super::waiting::Waiting;
use crate::authorizer::RequestAuthorizer;
use crate::conditions::Whose;
use crate::criteria::{Invocation, MatchCriteria};
use crate::index::Ruled;
use crate::request::condition_request;
use crate::rule::texts;
use crate::turn::is_over;

const DEFAULT_TIMEOUT_SECONDS: i64 = 10;

pub struct Webhook {
    /// Configuration, name, and which of those of that name.
    pub id: String,
    pub configuration: String,
    pub name: String,
    pub criteria: MatchCriteria,
    conditions: MatchConditions,
    /// `failurePolicy: Ignore`.
    pub ignores_failures: bool,
    /// `None`, `NoneOnDryRun` and others, which cannot be asked in a dry run.
    pub side_effects: Option<String>,
    pub timeout: Duration,
    /// The first of `admissionReviewVersions` that this server speaks.
    pub review_version: Option<&'static str>,
    pub client: Result<ClientConfig, ConfigError>,
    /// `reinvocationPolicy: IfNeeded`.
    pub reinvocable: bool,
    pub waiting: Waiting,
}

/// Uid and generation of a configuration: what its webhooks were read from.
type Edition = (String, i64);

/// The webhooks of all configurations. A change of one does not compile the conditions of the others again.
#[derive(Default)]
pub struct Compiled {
    /// Guards what was read last.
    kept: Mutex<HashMap<Edition, Vec<Arc<Webhook>>>>,
}

impl Compiled {
    /// All webhooks, in the order of their configurations' names.
    pub fn read_all(&self, configurations: Vec<Arc<Obj>>) -> Vec<Arc<Webhook>> {
        let mut sorted = configurations;
        sorted.sort_by(|a, b| a.name().cmp(b.name()));
        let mut kept = self.kept.lock();
        let mut current = HashMap::with_capacity(sorted.len());
        let mut out = Vec::new();
        for obj in &sorted {
            let Ok(tree) = json::parse(obj.body(), None) else { continue };
            let generation = tree.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
            let edition = (obj.uid().to_owned(), generation);
            let hooks = kept.remove(&edition).unwrap_or_else(|| read(obj.name(), &tree));
            out.extend(hooks.iter().cloned());
            current.insert(edition, hooks);
        }
        *kept = current;
        out
    }
}

fn read(configuration: &str, tree: &Value) -> Vec<Arc<Webhook>> {
    let mut same_name: BTreeMap<String, usize> = BTreeMap::new();
    let hooks = tree.get("webhooks").and_then(Value::as_list).unwrap_or_default().iter();
    let read = hooks.map(|hook| {
        let name = hook.str_at(&["name"]).unwrap_or_default().to_owned();
        let number = same_name.entry(name.clone()).or_default();
        let read = Webhook::read(configuration, name, *number, hook);
        *number += 1;
        Arc::new(read)
    });
    read.collect()
}

impl Webhook {
    pub(super) fn read(configuration: &str, name: String, number: usize, hook: &Value) -> Webhook {
        let text = |member: &str| hook.get(member).and_then(Value::as_str);
        let seconds = hook.get("timeoutSeconds").and_then(Value::as_int).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let versions = texts(hook, "admissionReviewVersions");
        let spoken = |version: &String| ["v1", "v1beta1"].into_iter().find(|known| version == known);
        let nothing = Value::map();
        Webhook {
            id: format!("{configuration}/{name}/{number}"),
            configuration: configuration.to_owned(),
            criteria: MatchCriteria::from_value(hook, "rules"),
            conditions: MatchConditions::compile(
                hook.get("matchConditions").and_then(Value::as_list).unwrap_or_default(),
            ),
            ignores_failures: text("failurePolicy") == Some("Ignore"),
            side_effects: text("sideEffects").map(str::to_owned),
            timeout: Duration::from_secs(seconds.clamp(1, 30) as u64),
            review_version: versions.iter().find_map(spoken),
            client: ClientConfig::from_value(hook.get("clientConfig").unwrap_or(&nothing)),
            reinvocable: text("reinvocationPolicy") == Some("IfNeeded"),
            waiting: Waiting::default(),
            name,
        }
    }

    /// For people.
    pub fn who(&self) -> String {
        format!("webhook {} of {}", self.name, self.configuration)
    }

    pub fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Whether its match conditions hold.
    pub(super) fn conditions_hold(
        &self,
        attempt: &Attempt<'_>,
        webhooks: &Webhooks,
        invocation: &Invocation,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<bool, Status> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let request = LazyLock::new(|| condition_request(attempt, invocation));
        let authorizer = RequestAuthorizer { attempt, authorize: &webhooks.authorize };
        let interrupted = || is_over(attempt);
        let inputs = Inputs {
            request: &request,
            object,
            old_object: old,
            params: None,
            namespace_object: None,
            authorizer: Some(&authorizer),
            interrupted: Some(&interrupted),
        };
        let on_failure = if self.ignores_failures { FailurePolicy::Ignore } else { FailurePolicy::Fail };
        let (begun, mut how) = (attempt.env.monotonic(), Matching::default());
        let matched = self.conditions.matches_noting(&inputs, on_failure, &mut how);
        let took = attempt.env.monotonic() - begun;
        let phase = if webhooks.phase == Phase::Admit { "admit" } else { "validate" };
        let whose = Whose { kind: "webhook", phase, name: &self.name };
        let excluded = matches!(matched, Ok(false));
        webhooks.conditions.evaluated(whose, attempt.operation, took, how.failures, excluded);
        if excluded {
            let why = || match how.unmet {
                Some(name) => format!("its match condition {} does not hold", quote(name)),
                None => "a match condition failed, which failurePolicy ignores".to_owned(),
            };
            webhooks.pass_over(attempt, self, why);
        }
        matched.map_err(|why| Status::forbidden(attempt.about(), attempt.name, why))
    }
}

impl Ruled for Webhook {
    fn criteria(&self) -> &MatchCriteria {
        &self.criteria
    }

    fn describe(&self) -> String {
        self.who()
    }
}

#[cfg(test)]
mod tests {
    use catalog::Catalog;
    use store::Revision;

    use super::*;

    #[test]
    fn a_change_of_one_configuration_leaves_the_webhooks_of_others_as_they_are() {
        let catalog = Catalog::builtin();
        let storage = catalog.find_storage("admissionregistration.k8s.io", "validatingwebhookconfigurations");
        let storage = storage.expect("built in");
        let configuration = |name: &str, generation: u64, revision: u64| {
            let body = format!(
                r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{{"name":"{name}","uid":"{name}","generation":{generation}}},"webhooks":[{{"name":"x","matchConditions":[{{"name":"c","expression":"true"}}]}}]}}"#
            );
            let key = storage.key("", name);
            Arc::new(Obj::publish(storage, &key, body.as_bytes(), Revision(revision), None).unwrap())
        };
        let compiled = Compiled::default();
        let first = compiled.read_all(vec![configuration("b", 1, 1), configuration("a", 1, 2)]);
        let second = compiled.read_all(vec![configuration("b", 1, 3), configuration("a", 2, 4)]);
        let names: Vec<&str> = second.iter().map(|hook| hook.configuration.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(!Arc::ptr_eq(&first[0], &second[0]) && Arc::ptr_eq(&first[1], &second[1]));
    }
}
