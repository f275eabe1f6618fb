//! The benchmark's namespace on one API server: created before a scenario, deleted after it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::drive::{Load, Outcome, Phase, drive};
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::meters::{Processes, Progress};
use crate::request::{Body, NUMBER, Template};

/// Connections for set-up and tear-down, which nobody measures.
const SETUP_CONNECTIONS: usize = 32;
/// For making or deleting a set of objects.
const SETUP_TIME: Duration = Duration::from_secs(300);
const SETUP: Phase = Phase { name: "creating objects", warmup: Duration::ZERO, measured: SETUP_TIME };
const CLEANUP: Phase = Phase { name: "deleting objects", warmup: Duration::ZERO, measured: SETUP_TIME };
/// How long the server may take to remove the namespace by itself before we take off its finalizer.
const NAMESPACE_TIME: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a new namespace may be refused: admission plugins see it and its service account with a delay.
const SETTLE_TIME: Duration = Duration::from_secs(10);
/// What we put into a namespace, or a controller may have put there.
const CONTENTS: [&str; 4] = ["apps/v1/deployments", "pods", "configmaps", "serviceaccounts"];

/// One of the servers to measure.
pub struct Target {
    pub label: &'static str,
    pub endpoint: Endpoint,
    pub processes: Processes,
}

pub struct Site<'a> {
    target: &'a Target,
    pub progress: &'a Progress,
    client: Client,
    pub namespace: String,
    /// The first number that no object here has had.
    pub next_number: u64,
}

impl<'a> Site<'a> {
    pub fn open(target: &'a Target, progress: &'a Progress) -> Result<Self, BenchError> {
        let mut client = Client::new(target.endpoint.clone());
        let random = RandomState::new().build_hasher().finish() & 0xffff_ffff;
        let namespace = format!("setpoint-bench-{random:08x}");
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}","labels":{{"setpoint-bench":"true"}}}}}}"#
        );
        client.expect("POST", "/api/v1/namespaces", Some(Body::json(&text)), &[])?;
        let mut site = Site { target, progress, client, namespace, next_number: 0 };
        // Pods need it, and without a controller nobody else creates it. 409: it exists.
        let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
        let path = site.path("serviceaccounts");
        if let Err(error) = site.client.expect("POST", &path, Some(Body::json(account)), &[409]) {
            return Err(site.close().err().unwrap_or(error));
        }
        Ok(site)
    }

    /// A second namespace on the same server.
    pub fn another(&self) -> Result<Site<'a>, BenchError> {
        Site::open(self.target, self.progress)
    }

    pub fn processes(&self) -> &'a Processes {
        &self.target.processes
    }

    pub fn endpoint(&self) -> &'a Endpoint {
        &self.target.endpoint
    }

    /// The collection of a resource in our namespace: `pods`, `apps/v1/deployments`.
    pub fn path(&self, resource: &str) -> String {
        match resource.rsplit_once('/') {
            Some((version, resource)) => format!("/apis/{version}/namespaces/{}/{resource}", self.namespace),
            None => format!("/api/v1/namespaces/{}/{resource}", self.namespace),
        }
    }

    pub fn get(&mut self, path: &str) -> Result<Vec<u8>, BenchError> {
        Ok(self.client.expect("GET", path, None, &[])?.body)
    }

    pub fn post(&mut self, path: &str, text: &str) -> Result<Vec<u8>, BenchError> {
        Ok(self.client.expect("POST", path, Some(Body::json(text)), &[])?.body)
    }

    pub fn merge(&mut self, path: &str, text: &str) -> Result<(), BenchError> {
        let body = Body { content_type: "application/merge-patch+json", text };
        self.client.expect("PATCH", path, Some(body), &[]).map(|_| ())
    }

    /// CPU time of the server's processes so far; `None` when they are not known.
    pub fn cpu(&self) -> Result<Option<Duration>, BenchError> {
        self.target.processes.cpu()
    }

    /// Resident bytes of the server's processes; `None` when they are not known.
    pub fn rss(&self) -> Result<Option<u64>, BenchError> {
        self.target.processes.rss()
    }

    pub fn delete(&mut self, path: &str) -> Result<(), BenchError> {
        self.client.expect("DELETE", path, None, &[404]).map(|_| ())
    }

    /// Creates one object; a server that has not yet seen the namespace gets a few seconds.
    pub fn create_one(&mut self, resource: &str, text: &str) -> Result<Vec<u8>, BenchError> {
        let path = self.path(resource);
        let began = Instant::now();
        loop {
            let result = self.client.expect("POST", &path, Some(Body::json(text)), &[]);
            match result {
                Err(BenchError::Refused { status: 403 | 404 | 429 | 500, .. })
                    if began.elapsed() < SETTLE_TIME =>
                {
                    std::thread::sleep(POLL_INTERVAL);
                }
                result => return Ok(result?.body),
            }
        }
    }

    /// Creates `count` objects from a body with a SLOT in its name; all must succeed.
    pub fn create_all(&mut self, resource: &str, text: &str, count: u64) -> Result<(), BenchError> {
        let path = self.path(resource);
        self.create_all_at(&path, text, count)
    }

    /// The same at any collection.
    pub fn create_all_at(&mut self, path: &str, text: &str, count: u64) -> Result<(), BenchError> {
        let template = self.template("POST", path, Some(Body::json(text)), count);
        let load = Load { max_requests: count, ..Load::new(&template, SETUP_CONNECTIONS, 0) };
        let outcome = self.drive(&load, SETUP)?;
        let doing = || format!("the creation of {count} objects at {path}");
        let tally = outcome.tally;
        if let Some(&status) = tally.failures.keys().next() {
            let body = tally.first_failure.unwrap_or_default();
            return Err(BenchError::Refused {
                server: self.endpoint().server.clone(),
                doing: doing(),
                status,
                body,
            });
        }
        if !outcome.exhausted {
            return Err(self.too_slow(doing(), SETUP_TIME));
        }
        Ok(())
    }

    /// Requests to this server, `slots` objects in turn.
    pub fn template(&self, method: &str, path: &str, body: Option<Body<'_>>, slots: u64) -> Template {
        Template::new(self.endpoint(), method, path, body, slots)
    }

    /// A load whose numbers no object here has had.
    pub fn load<'t>(&self, template: &'t Template, connections: usize) -> Load<'t> {
        Load::new(template, connections, self.next_number)
    }

    /// Runs a load here; the numbers it sent are used up.
    pub fn drive(&mut self, load: &Load<'_>, phase: Phase) -> Result<Outcome, BenchError> {
        let outcome = drive(self.endpoint(), load, phase, &self.target.processes, self.progress)?;
        self.next_number = self.next_number.max(outcome.numbers.end);
        Ok(outcome)
    }

    /// Deletes the objects `PREFIX<number>` of a range. One by one over many connections, because a server may delete a
    /// collection one after the other within a single request, and give up after a minute.
    pub fn delete_numbers(
        &mut self,
        resource: &str,
        prefix: &str,
        numbers: std::ops::Range<u64>,
    ) -> Result<(), BenchError> {
        let path = self.path(resource);
        self.delete_numbers_at(&path, prefix, numbers)
    }

    /// The same in any collection.
    pub fn delete_numbers_at(
        &mut self,
        path: &str,
        prefix: &str,
        numbers: std::ops::Range<u64>,
    ) -> Result<(), BenchError> {
        // A pod that is bound would wait for its node.
        let path = format!("{path}/{prefix}{NUMBER}?gracePeriodSeconds=0");
        let template = self.template("DELETE", &path, None, 1);
        let max_requests = numbers.end - numbers.start;
        let load = Load { max_requests, ..Load::new(&template, SETUP_CONNECTIONS, numbers.start) };
        self.drive(&load, CLEANUP).map(|_| ())
    }

    /// Deletes the contents and asks for the namespace's deletion; `close` waits for it.
    pub fn begin_close(&mut self) -> Result<(), BenchError> {
        for resource in CONTENTS {
            self.empty(resource)?;
        }
        let name = format!("/api/v1/namespaces/{}", self.namespace);
        self.client.expect("DELETE", &name, None, &[404, 409]).map(|_| ())
    }

    /// Deletes the contents and the namespace.
    pub fn close(mut self) -> Result<(), BenchError> {
        let name = format!("/api/v1/namespaces/{}", self.namespace);
        self.begin_close()?;
        let began = Instant::now();
        while began.elapsed() < NAMESPACE_TIME {
            if self.client.expect("GET", &name, None, &[404])?.status == 404 {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // Without a namespace controller, as on a bare API server, we finalize it ourselves: it is empty.
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{}"}},"spec":{{"finalizers":[]}}}}"#,
            self.namespace
        );
        self.client.expect("PUT", &format!("{name}/finalize"), Some(Body::json(&text)), &[404, 409])?;
        let began = Instant::now();
        while began.elapsed() < SETTLE_TIME {
            if self.client.expect("GET", &name, None, &[404])?.status == 404 {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(self.too_slow(format!("the deletion of namespace {}", self.namespace), SETTLE_TIME))
    }

    /// Deletes a collection until it is empty. A server may time out on a long deletion; then it is repeated.
    fn empty(&mut self, resource: &str) -> Result<(), BenchError> {
        let path = self.path(resource);
        let began = Instant::now();
        while began.elapsed() < SETUP_TIME {
            // 405: not served. 504: it took too long, but a part is done.
            let answer = self.client.expect(
                "DELETE",
                &format!("{path}?gracePeriodSeconds=0"),
                None,
                &[404, 405, 504],
            )?;
            if answer.status == 404 || answer.status == 405 {
                return Ok(());
            }
            let rest = self.client.expect("GET", &format!("{path}?limit=1"), None, &[])?;
            // Every object in a list has a uid, the list itself has none. A controller may put its own objects back, so
            // the service account and the root certificate do not count.
            if memchr::memmem::find(&rest.body, b"\"uid\"").is_none()
                || resource != "pods" && answer.status == 200
            {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(self.too_slow(format!("the deletion of {resource}"), SETUP_TIME))
    }

    pub fn too_slow(&self, doing: String, limit: Duration) -> BenchError {
        BenchError::TooSlow { server: self.endpoint().server.clone(), doing, seconds: limit.as_secs() }
    }
}
