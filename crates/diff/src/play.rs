//! Plays a scenario against one server, without any I/O: it says what to send next and is told what came back.

use std::borrow::Cow;

use object::Value;

use crate::case::{Scenario, Step, parse, text_of};
use crate::normalise::{Normaliser, with_current_metrics, with_sorted_causes, with_sorted_conditions};
use crate::webhook::{self, Call};

/// A request ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub accept: String,
    pub content_type: Option<String>,
    pub body: Option<String>,
}

/// What a server answered, as it came.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub warnings: Vec<String>,
    pub body: Vec<u8>,
}

/// What a server answered, comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub status: u16,
    pub content_type: String,
    pub warnings: Vec<String>,
    pub body: Value,
    /// What webhooks were asked meanwhile: mutating ones in order, then validating ones by name.
    pub calls: Vec<Value>,
}

/// Resources whose status controllers inside kube-apiserver write.
const WRITTEN_BY_LOOPS: [&str; 3] = [
    "apiextensions.k8s.io/v1 customresourcedefinitions",
    "apiregistration.k8s.io/v1 apiservices",
    "flowcontrol.apiserver.k8s.io/v1 flowschemas",
];

/// How often a request is sent whose answer is waited for. The last answer counts, whatever it is.
const MOST_TRIES: usize = 200;

/// One scenario on one server.
pub struct Player<'a> {
    scenario: &'a Scenario,
    run: String,
    namespace: String,
    at: usize,
    /// So often the next request has been sent and did not get the answer that is waited for.
    waited: usize,
    uid: String,
    version: String,
    first_version: String,
    /// Where webhooks are: their URL, and the CA bundle.
    webhooks: Option<(String, String)>,
}

impl<'a> Player<'a> {
    /// `run` is a short lower-case word, the same for both servers, that begins every cluster-wide name.
    pub fn new(scenario: &'a Scenario, run: &str) -> Player<'a> {
        let (uid, version) = ("no-uid".to_owned(), "1".to_owned());
        let namespace = namespace_of(scenario, run);
        Player {
            scenario,
            run: run.to_owned(),
            namespace,
            at: 0,
            waited: 0,
            uid,
            first_version: version.clone(),
            version,
            webhooks: None,
        }
    }

    /// The webhooks that cases about admission configure.
    pub fn with_webhooks(mut self, url: String, ca_bundle: String) -> Player<'a> {
        self.webhooks = Some((url, ca_bundle));
        self
    }

    /// What to send before the first step: the namespace, and the service account its pods run as. Their answers do not count.
    pub fn prepare(&self) -> [Request; 2] {
        let post = |path: String, body: String| Request {
            method: "POST",
            path,
            accept: "application/json".to_owned(),
            content_type: Some("application/json".to_owned()),
            body: Some(body),
        };
        let ns = &self.namespace;
        [
            post(
                "/api/v1/namespaces".into(),
                format!(r#"{{"metadata":{{"name":"{ns}","labels":{{"setpoint-diff":"true"}}}}}}"#),
            ),
            post(
                format!("/api/v1/namespaces/{ns}/serviceaccounts"),
                r#"{"metadata":{"name":"default"}}"#.into(),
            ),
        ]
    }

    /// What to send after the last step.
    pub fn clean_up(&self) -> Request {
        Request {
            method: "DELETE",
            path: format!("/api/v1/namespaces/{}", self.namespace),
            accept: "application/json".to_owned(),
            content_type: None,
            body: None,
        }
    }

    /// The next request; `None` at the end.
    pub fn next(&self) -> Option<(&'a Step, Request)> {
        let step = self.scenario.steps.get(self.at)?;
        let request = Request {
            method: step.method,
            path: self.filled(&step.path),
            accept: step.accept.clone().unwrap_or_else(|| "application/json".to_owned()),
            content_type: step.content_type.clone(),
            body: step.body.as_ref().map(|body| self.filled(body)),
        };
        Some((step, request))
    }

    /// What to ask before the next request, its answer for [`Player::refreshed`]: controllers inside kube-apiserver write
    /// the status of some objects, and an update is to meet the version they left, not the one it read before.
    pub fn refresh(&self) -> Option<Request> {
        let (step, request) = self.next()?;
        let body = step.body.as_ref().filter(|body| body.contains("$RV\""))?;
        if step.method != "PUT" || body.contains("$RV1") || !self.is_written_by_controllers() {
            return None;
        }
        let path = request.path.split('?').next().unwrap_or_default();
        let path = path.strip_suffix("/status").unwrap_or(path).to_owned();
        Some(Request {
            method: "GET",
            path,
            accept: "application/json".to_owned(),
            content_type: None,
            body: None,
        })
    }

    pub fn refreshed(&mut self, answer: &Answer) {
        let body = parse(&String::from_utf8_lossy(&answer.body)).unwrap_or(Value::Null);
        let version = body.str_at(&["metadata", "resourceVersion"]).filter(|version| !version.is_empty());
        if let (200, Some(version)) = (answer.status, version) {
            self.version = version.to_owned();
        }
    }

    /// Whether kube-apiserver's own controllers write such objects.
    fn is_written_by_controllers(&self) -> bool {
        WRITTEN_BY_LOOPS.contains(&self.scenario.resource.as_str())
    }

    /// Whether a controller inside kube-apiserver acts on what the request wrote, and the next one should come after that.
    pub fn settles(&self, request: &Request, answer: &Answer) -> bool {
        let writes = request.method != "GET" && !request.path.contains("dryRun") && answer.status < 300;
        let changes_definition =
            matches!(request.method, "PUT" | "PATCH") && request.path.contains("/customresourcedefinitions/");
        writes && (self.is_written_by_controllers() || changes_definition)
    }

    /// Takes the answer to the request `next` gave, and moves on; `None` if the same is to be sent again, a while later.
    pub fn answer(&mut self, request: &Request, answer: &Answer) -> Option<Outcome> {
        let text = self.without_webhooks(String::from_utf8_lossy(&answer.body));
        let yaml =
            || codec::yaml::parse(&answer.body).ok().filter(|_| answer.content_type.ends_with("/yaml"));
        let body = parse(&text).or_else(yaml).unwrap_or_else(|| Value::Str(text.into_owned()));
        // Lists have no uid, and what a dry run answers is not what the object is.
        let uid = body.str_at(&["metadata", "uid"]).filter(|_| !request.path.contains("dryRun"));
        let version = body.str_at(&["metadata", "resourceVersion"]).filter(|version| !version.is_empty());
        let unchanged = uid == Some(self.uid.as_str()) && version == Some(self.version.as_str());
        if let (200..300, Some(uid), Some(version)) = (answer.status, uid, version) {
            if self.first_version == "1" {
                self.first_version = version.to_owned();
            }
            (self.uid, self.version) = (uid.to_owned(), version.to_owned());
        }
        let normaliser = Normaliser::new(&self.run, request);
        let mut outcome = Outcome {
            status: answer.status,
            content_type: answer.content_type.clone(),
            warnings: answer.warnings.iter().map(|w| normaliser.text(w)).collect(),
            calls: Vec::new(),
            body: match (self.scenario.custom, request.path.contains("/customresourcedefinitions")) {
                (true, true) => with_sorted_conditions(normaliser.value(body)),
                (true, false) => with_sorted_causes(normaliser.value(body)),
                (false, _) => normaliser.value(body),
            },
        };
        if self.scenario.is_admission() {
            // Upstream asks policies in the order of a Go map.
            outcome.warnings.sort();
        }
        // A write of nothing new does not move the version.
        if unchanged && !self.is_written_by_controllers() && request.method != "GET" {
            outcome.body.map_at(&["metadata"]).set("resourceVersion", "UNCHANGED");
        }
        if let Some(until) = self.scenario.steps.get(self.at).and_then(|step| step.until.as_ref())
            && self.waited < MOST_TRIES
            && (outcome.status != until.status || !text_of(&outcome.body).contains(&until.contains))
        {
            self.waited += 1;
            return None;
        }
        (self.at, self.waited) = (self.at + 1, 0);
        Some(outcome)
    }

    /// What webhooks were asked while a request was under way, comparable. Of one that is sent again and again nobody knows how
    /// often, and what a server does by itself is its own affair.
    pub fn called(&self, step: &Step, request: &Request, mut calls: Vec<Call>) -> Vec<Value> {
        if step.until.is_some() {
            return Vec::new();
        }
        calls.retain(|call| {
            !call.request.str_at(&["userInfo", "username"]).is_some_and(|name| name.starts_with("system:"))
        });
        // Mutating ones are called first, and one after the other.
        calls.sort_by(|a, b| match (a.is_validating(), b.is_validating()) {
            (true, true) => a.webhook.cmp(&b.webhook),
            (a, b) => a.cmp(&b),
        });
        let normaliser = Normaliser::new(&self.run, request);
        calls
            .into_iter()
            .map(|call| {
                let asked = with_current_metrics(normaliser.value(call.request.clone()));
                webhook::told(&call, asked)
            })
            .collect()
    }

    fn without_webhooks<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        match &self.webhooks {
            Some((url, ca)) if text.contains(url.as_str()) || text.contains(ca.as_str()) => {
                text.replace(url, "https://HOOK").replace(ca, "Q0E=").into()
            }
            _ => text,
        }
    }

    fn filled(&self, text: &str) -> String {
        if !text.contains('$') {
            return text.to_owned();
        }
        let text = match &self.webhooks {
            Some((url, ca)) => text.replace("$HOOK", url).replace("$CA", ca),
            None => text.to_owned(),
        };
        text.replace("$NS", &self.namespace)
            .replace("$RUN", &self.run)
            .replace("$UID", &self.uid)
            .replace("$RV1", &self.first_version)
            .replace("$RV", &self.version)
    }
}

fn namespace_of(scenario: &Scenario, run: &str) -> String {
    let hash = crate::case::Fnv::of(&scenario.name);
    format!("{run}-{}", hash.text())
}
