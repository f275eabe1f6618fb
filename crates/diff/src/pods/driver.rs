//! Runs a scenario's pod on one node, and collects what the API says of it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench::{Client, Endpoint};
use object::{Map, Value};

use super::observation::{Observation, STATUSES, Told};
use super::scenario::{Scenario, Step};
use super::text::Words;
use crate::case::{JSON, parse, text_of};
use crate::error::DiffError;

/// For what a step waits for; the longest back-off of a scenario is within it.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const AGAIN: Duration = Duration::from_millis(100);
/// A pod of which nothing is said for so long has come to rest.
const REST: Duration = Duration::from_millis(1200);

const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub struct Driver {
    endpoint: Endpoint,
    node: String,
    namespace: String,
    image: String,
    /// The node's `staticPodPath`, where it is known.
    manifests: Option<PathBuf>,
    /// Of the Service `kubernetes`, which every pod is told.
    service_ip: String,
    runtime: String,
    has_user_namespaces: bool,
}

impl Driver {
    pub fn open(
        endpoint: &Endpoint,
        node: &str,
        namespace: &str,
        image: &str,
        manifests: Option<PathBuf>,
    ) -> Result<Driver, DiffError> {
        let mut driver = Driver {
            endpoint: endpoint.clone(),
            node: node.to_owned(),
            namespace: namespace.to_owned(),
            image: image.to_owned(),
            manifests,
            service_ip: String::new(),
            runtime: String::new(),
            has_user_namespaces: false,
        };
        let mut client = driver.client();
        let found = client.ask("GET", &format!("/api/v1/nodes/{node}"), "", "")?;
        let runtime = found.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]);
        runtime.unwrap_or_default().clone_into(&mut driver.runtime);
        let handlers = found.at(&["status", "runtimeHandlers"]).and_then(Value::as_list).unwrap_or_default();
        driver.has_user_namespaces = handlers.iter().any(|handler| {
            handler.at(&["features", "userNamespaces"]).and_then(Value::as_bool) == Some(true)
        });
        let (_, service) = client.try_ask("GET", "/api/v1/namespaces/default/services/kubernetes", "", "")?;
        driver.service_ip = service.str_at(&["spec", "clusterIP"]).unwrap_or_default().to_owned();
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}","labels":{{"setpoint-diff":"true"}}}}}}"#
        );
        client.ask("POST", "/api/v1/namespaces", JSON, &body)?;
        match driver.until_ready(&mut client) {
            Ok(()) => Ok(driver),
            Err(error) => {
                // That one is told.
                let _ = driver.close();
                Err(error)
            }
        }
    }

    /// Until pods can be created in the namespace.
    fn until_ready(&self, client: &mut Asker) -> Result<(), DiffError> {
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", self.namespace);
        let deadline = Instant::now() + PATIENCE;
        while client.try_ask("GET", &account, "", "")?.0 != 200 {
            if Instant::now() > deadline {
                let what = format!("service account default in namespace {}", self.namespace);
                return Err(DiffError::Late { what, seconds: PATIENCE.as_secs() });
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }

    pub fn has_embedded_runtime(&self) -> bool {
        self.runtime.starts_with("setpoint://")
    }

    pub fn has_user_namespaces(&self) -> bool {
        self.has_user_namespaces
    }

    pub fn close(&self) -> Result<(), DiffError> {
        self.client().ask("DELETE", &format!("/api/v1/namespaces/{}", self.namespace), "", "").map(drop)
    }

    fn client(&self) -> Asker {
        Asker { client: Client::new(self.endpoint.clone()) }
    }

    pub fn observe(&self, scenario: &Scenario) -> Result<Observation, DiffError> {
        let mut told = Told {
            versions: Vec::new(),
            at_rest: None,
            events: Vec::new(),
            logs: Vec::new(),
            troubles: Vec::new(),
        };
        let name = if scenario.is_static {
            format!("{}-{}", scenario.name, self.node)
        } else {
            scenario.name.clone()
        };
        let mut run = Run {
            client: self.client(),
            pods: format!("/api/v1/namespaces/{}/pods", self.namespace),
            pod: format!("/api/v1/namespaces/{}/pods/{name}", self.namespace),
            events: format!(
                "/api/v1/namespaces/{}/events?fieldSelector=involvedObject.name%3D{name}",
                self.namespace
            ),
        };
        let patience = scenario.patience_seconds.map_or(PATIENCE, Duration::from_secs);
        for object in &scenario.objects {
            self.create(&mut run.client, object, &mut told)?;
        }
        let manifest = self.manifests.as_ref().filter(|_| scenario.is_static);
        let manifest =
            manifest.map(|folder| folder.join(format!("{}-{}.json", self.namespace, scenario.name)));
        let begin = match &manifest {
            Some(file) => {
                let before = run.client.ask("GET", &run.pods, "", "")?;
                place(file, &self.pod(scenario, &scenario.spec))?;
                before.str_at(&["metadata", "resourceVersion"]).unwrap_or("0").to_owned()
            }
            None => {
                let pod = text_of(&self.pod(scenario, &scenario.spec));
                let (code, made) = run.client.try_ask("POST", &run.pods, JSON, &pod)?;
                if code != 201 {
                    told.troubles.push(format!("create: {}", made.str_at(&["message"]).unwrap_or_default()));
                    return Ok(Observation::of(&told, &Words::default()));
                }
                let begin = made.str_at(&["metadata", "resourceVersion"]).unwrap_or("0").to_owned();
                told.versions.push(made);
                begin
            }
        };
        let mut deleted = false;
        for step in &scenario.steps {
            match step {
                Step::Until(until) => {
                    let deadline = Instant::now() + patience;
                    loop {
                        let now = run.look()?;
                        if until.holds(now.as_ref(), &run.events()?) {
                            break;
                        }
                        if Instant::now() > deadline {
                            told.troubles.push(format!("waited in vain: {}", until.text()));
                            break;
                        }
                        std::thread::sleep(AGAIN);
                    }
                }
                Step::Patch(subresource, patch) => {
                    let path = format!("{}{subresource}", run.pod);
                    let (code, answer) = run.client.try_ask("PATCH", &path, STRATEGIC, &text_of(patch))?;
                    if code != 200 {
                        told.troubles
                            .push(format!("patch: {}", answer.str_at(&["message"]).unwrap_or_default()));
                    }
                }
                Step::Create(object) => self.create(&mut run.client, object, &mut told)?,
                Step::Delete(grace) => {
                    told.at_rest = run.rest()?;
                    run.client.try_ask(
                        "DELETE",
                        &format!("{}?gracePeriodSeconds={grace}", run.pod),
                        "",
                        "",
                    )?;
                    deleted = true;
                }
                Step::Manifest(spec) => {
                    if let Some(file) = &manifest {
                        place(file, &self.pod(scenario, spec))?;
                    }
                }
            }
        }
        let last = run.rest()?;
        told.at_rest = told.at_rest.take().or_else(|| last.clone());
        if let Some(pod) = &last {
            told.logs = run.logs(pod)?;
        }
        if let Some(file) = &manifest {
            std::fs::remove_file(file).map_err(|source| DiffError::Write { path: file.clone(), source })?;
        } else if !deleted {
            run.client.try_ask("DELETE", &run.pod.clone(), "", "")?;
        }
        let deadline = Instant::now() + PATIENCE;
        while run.look()?.is_some() {
            if Instant::now() > deadline {
                told.troubles.push("it does not go".to_owned());
                run.client.try_ask("DELETE", &format!("{}?gracePeriodSeconds=0", run.pod), "", "")?;
                break;
            }
            std::thread::sleep(AGAIN);
        }
        run.rest()?;
        match run.versions(&name, &begin)? {
            Ok(versions) => told.versions.extend(versions),
            Err(why) => told.troubles.push(format!("watch: {why}")),
        }
        told.events = run.events()?;
        let words = self.words(told.versions.iter().chain(&told.at_rest));
        Ok(Observation::of(&told, &words))
    }

    fn create(&self, client: &mut Asker, object: &Value, told: &mut Told) -> Result<(), DiffError> {
        let kind = object.str_at(&["kind"]).unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/{}s", self.namespace, kind.to_lowercase());
        let (code, answer) = client.try_ask("POST", &path, JSON, &text_of(object))?;
        if code != 201 {
            told.troubles.push(format!("create {kind}: {}", answer.str_at(&["message"]).unwrap_or_default()));
        }
        Ok(())
    }

    fn pod(&self, scenario: &Scenario, spec: &Map) -> Value {
        let mut metadata = scenario.metadata.clone();
        metadata.set("name", scenario.name.as_str());
        let mut spec = spec.clone();
        if scenario.is_static {
            metadata.set("namespace", self.namespace.as_str());
        } else {
            spec.set("nodeName", self.node.as_str());
        }
        if !spec.contains("terminationGracePeriodSeconds") {
            spec.set("terminationGracePeriodSeconds", Value::Int(1));
        }
        let mut pod = Map::with_capacity(4);
        pod.set("apiVersion", "v1");
        pod.set("kind", "Pod");
        pod.set("metadata", Value::Map(metadata));
        pod.set("spec", Value::Map(spec));
        Value::Map(pod)
    }

    fn words<'a>(&self, versions: impl Iterator<Item = &'a Value>) -> Words {
        let mut words = Words::default();
        words.add(&self.namespace, "NS");
        words.add(&self.node, "NODE");
        words.add(&self.image, "IMAGE");
        words.add(&self.service_ip, "SERVICE_IP");
        for pod in versions {
            words.add(pod.str_at(&["metadata", "uid"]).unwrap_or_default(), "UID");
            // A static pod's own, which no API server gave it.
            let own = pod.at(&["metadata", "annotations"]);
            words.add(
                own.and_then(|own| own.str_at(&["kubernetes.io/config.hash"])).unwrap_or_default(),
                "UID",
            );
            let host = pod.str_at(&["status", "hostIP"]).unwrap_or_default();
            words.add(host, "HOST_IP");
            words.add(pod.str_at(&["status", "podIP"]).unwrap_or_default(), "POD_IP");
            let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
            let names = volumes.iter().filter_map(|volume| volume.str_at(&["name"]));
            for access in names.filter(|name| name.starts_with("kube-api-access-")) {
                words.add(access, "kube-api-access");
            }
            for (list, _) in STATUSES {
                for status in pod.at(&["status", list]).and_then(Value::as_list).unwrap_or_default() {
                    let id = status.str_at(&["containerID"]).unwrap_or_default();
                    if let Some((runtime, _)) = id.split_once("://") {
                        words.add(&format!("{runtime}://"), "RUNTIME://");
                    }
                }
            }
        }
        words
    }
}

/// All of it at once: a node reads the file as soon as it is there.
fn place(file: &Path, pod: &Value) -> Result<(), DiffError> {
    // Hidden files are nobody's pods.
    let half = file.with_file_name(format!(".{}", file.file_name().unwrap_or_default().to_string_lossy()));
    let placed = std::fs::write(&half, text_of(pod)).and_then(|()| std::fs::rename(&half, file));
    placed.map_err(|source| DiffError::Write { path: file.to_owned(), source })
}

/// One pod, while it is driven.
struct Run {
    client: Asker,
    pods: String,
    pod: String,
    events: String,
}

impl Run {
    fn look(&mut self) -> Result<Option<Value>, DiffError> {
        let (code, pod) = self.client.try_ask("GET", &self.pod.clone(), "", "")?;
        Ok((code == 200).then_some(pod))
    }

    fn events(&mut self) -> Result<Vec<Value>, DiffError> {
        let list = self.client.ask("GET", &self.events.clone(), "", "")?;
        Ok(list.get("items").and_then(Value::as_list).unwrap_or_default().to_vec())
    }

    /// The pod, once nothing is said of it any more.
    fn rest(&mut self) -> Result<Option<Value>, DiffError> {
        let mut before = None;
        let (mut since, deadline) = (Instant::now(), Instant::now() + PATIENCE);
        loop {
            let now = self.look()?;
            if now != before {
                (before, since) = (now, Instant::now());
            }
            if since.elapsed() > REST || Instant::now() > deadline {
                return Ok(before);
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn logs(&mut self, pod: &Value) -> Result<Vec<(String, String)>, DiffError> {
        let mut logs = Vec::new();
        for (list, _) in STATUSES {
            for status in pod.at(&["status", list]).and_then(Value::as_list).unwrap_or_default() {
                let name = status.str_at(&["name"]).unwrap_or_default();
                let log = self.client.text(&format!("{}/log?container={name}", self.pod))?;
                logs.push((name.to_owned(), log));
            }
        }
        Ok(logs)
    }

    /// Every version after the first, if the server still has them.
    fn versions(&mut self, name: &str, begin: &str) -> Result<Result<Vec<Value>, String>, DiffError> {
        let path = format!(
            "{}?watch=1&timeoutSeconds=1&resourceVersion={begin}&fieldSelector=metadata.name%3D{name}",
            self.pods
        );
        Ok(objects_of(&self.client.text(&path)?))
    }
}

/// The objects of a watch; `Err`: why it ended early.
fn objects_of(watch: &str) -> Result<Vec<Value>, String> {
    let object = |event: Value| {
        let object = event.get("object").cloned().unwrap_or_else(Value::map);
        match event.str_at(&["type"]) {
            Some("ADDED" | "MODIFIED" | "DELETED") => Ok(object),
            _ => Err(object.str_at(&["message"]).unwrap_or(watch).to_owned()),
        }
    };
    watch.lines().filter_map(parse).map(object).collect()
}

/// Requests whose answers are JSON, or text.
struct Asker {
    client: Client,
}

impl Asker {
    fn try_ask(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &str,
    ) -> Result<(u16, Value), DiffError> {
        let mut headers = vec![("Accept", JSON)];
        if !kind.is_empty() {
            headers.push(("Content-Type", kind));
        }
        let answer = self.client.exchange_raw(method, path, &headers, body)?;
        let text = String::from_utf8_lossy(&answer.body);
        Ok((answer.status, parse(&text).unwrap_or_else(|| text.into_owned().into())))
    }

    /// An answer that must be good.
    fn ask(&mut self, method: &str, path: &str, kind: &str, body: &str) -> Result<Value, DiffError> {
        let (code, answer) = self.try_ask(method, path, kind, body)?;
        if code < 300 {
            return Ok(answer);
        }
        let message = answer.str_at(&["message"]).unwrap_or_default().to_owned();
        Err(DiffError::Refused { request: format!("{method} {path}"), message })
    }

    fn text(&mut self, path: &str) -> Result<String, DiffError> {
        let answer = self.client.exchange_raw("GET", path, &[("Accept", "*/*")], "")?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_fails_gives_no_versions() {
        let pod = r#"{"type":"MODIFIED","object":{"kind":"Pod"}}"#;
        assert_eq!(objects_of(&format!("{pod}\n{pod}\n")).map(|all| all.len()), Ok(2));
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        assert_eq!(objects_of(&format!("{pod}\n{gone}\n")), Err("too old".to_owned()));
        let refused = r#"{"kind":"Status","message":"no","code":403}"#;
        assert_eq!(objects_of(refused), Err(refused.to_owned()));
    }
}
