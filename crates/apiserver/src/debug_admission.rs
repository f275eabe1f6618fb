//! `/debug/admission`: why requests were changed, refused or slow, and by what, in words.
//!
//! ```text
//! ?auditID=ID      the request with this Audit-ID (every response has one)
//! ?resource=pods   also ?namespace=, ?name= (or the beginning of one), ?user=, ?verdict=refused|admitted
//! ?limit=N         so many of the newest; 20 unless said
//! ```
//! The last requests that policies or webhooks were asked about, that left an audit annotation, that a plugin refused, or that were dry runs. A dry run is
//! told in full: what each built-in plugin changed, and which configurations have no rule about it.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use admission::{Noted, Phase, Step, Trace};
use catalog::Verbs;
use object::Status;
use object::time::format_seconds;
use parking_lot::Mutex;
use registry::RequestContext;

use crate::request_info::Query;
use crate::respond::{self, Answer};

/// Requests that are kept.
const MAX_RECORDS: usize = 512;
/// What they may hold together; the oldest go first.
const MAX_BYTES: usize = 4 << 20;
/// Bytes of the message of a refusal: one record never takes the place of all others.
const MAX_MESSAGE: usize = 4096;
const WITHHELD: &str = "(withheld: the object is a Secret)";
const DEFAULT_LIMIT: usize = 20;

const HEADING: &str = "Requests that policies, webhooks or refusals had to do with, newest first: who took part, and what each did.
One request: ?auditID=ID (the header Audit-ID of its response); others: ?resource=pods, ?namespace=, ?name=PREFIX, ?user=, ?verdict=refused, ?limit=N
To ask about a request beforehand, send it as a dry run (kubectl apply --dry-run=server -f FILE): it is shown here in full.
";

/// The last requests, of bounded size.
#[derive(Default)]
pub(crate) struct AdmissionLog {
    audit_annotations: AtomicU64,
    /// Guards the records; held to add one or to copy the list.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
}

struct Record {
    seconds: u64,
    audit_id: String,
    user: String,
    verb: &'static str,
    /// `pods`, `deployments.apps/scale`.
    resource: String,
    namespace: String,
    name: String,
    dry_run: bool,
    verdict: Verdict,
    steps: Vec<Step>,
    left_off: usize,
    annotations: Vec<(String, String)>,
}

/// What a request came to.
#[derive(Clone, Copy)]
pub(crate) enum End<'a> {
    Admitted,
    Refused(&'a Status),
    /// Its client was gone before it was answered.
    GivenUp,
}

impl<'a> From<Option<&'a Status>> for End<'a> {
    fn from(refused: Option<&'a Status>) -> End<'a> {
        refused.map_or(End::Admitted, End::Refused)
    }
}

/// The same, kept.
enum Verdict {
    Admitted,
    /// With which code, and why.
    Refused(u16, String),
    GivenUp,
}

impl AdmissionLog {
    /// Keeps what a trace noted, if anything or of a dry run, and counts and logs its audit annotations.
    pub fn record(
        &self,
        request: &RequestContext<'_>,
        audit_id: impl FnOnce() -> String,
        env: &env::Env,
        end: End<'_>,
    ) {
        let noted = request.trace.map(Trace::take).unwrap_or_default();
        let reads = Verbs::GET | Verbs::LIST | Verbs::WATCH;
        let dry_run = request.options.dry_run || noted.dry_run;
        let shown = dry_run && !reads.contains(request.verb);
        if noted.steps.is_empty() && noted.annotations.is_empty() && !shown {
            return;
        }
        // A webhook about everything that is asked about little must not push out what people look for.
        let is_kept = dry_run
            || !matches!(end, End::Admitted)
            || noted.annotations.iter().any(|(key, value)| !admission::is_unrestricted(key, value))
            || noted.steps.iter().any(|step| step.asked);
        self.audit_annotations.fetch_add(noted.annotations.len() as u64, Ordering::Relaxed);
        if !is_kept && !tracing::enabled!(target: "audit", tracing::Level::DEBUG) {
            return;
        }
        let record = Record::new(request, noted, audit_id(), env.now_seconds(), end);
        for (key, value) in &record.annotations {
            tracing::debug!(
                target: "audit",
                audit_id = record.audit_id,
                user = record.user,
                verb = record.verb,
                resource = record.resource,
                namespace = record.namespace,
                name = record.name,
                key,
                value,
                "audit annotation"
            );
        }
        if !is_kept {
            return;
        }
        let mut kept = self.kept.lock();
        kept.bytes += record.bytes();
        kept.records.push_back(Arc::new(record));
        while kept.records.len() > MAX_RECORDS || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.records.pop_front() else { break };
            kept.bytes -= oldest.bytes();
        }
    }

    pub fn write_metrics(&self, out: &mut String) {
        let name = "setpoint_audit_annotations_total";
        metrics::header(out, name, "counter", "Audit annotations of webhooks, policies and PodSecurity.");
        let _ = writeln!(out, "{name} {}", self.audit_annotations.load(Ordering::Relaxed));
    }

    pub fn serve(&self, query: &Query<'_>) -> Result<Answer, Status> {
        let filter = Filter::new(query)?;
        let records: Vec<Arc<Record>> = {
            let kept = self.kept.lock();
            let wanted = kept.records.iter().rev().filter(|record| filter.takes(record));
            wanted.take(filter.limit).cloned().collect()
        };
        let mut page = HEADING.to_owned();
        for record in &records {
            record.write(&mut page);
        }
        if records.is_empty() {
            page.push_str("\nNone of the last requests is one of these.\n");
        }
        Ok(respond::answer(200, "text/plain; charset=utf-8", page.into_bytes().into()))
    }
}

struct Filter<'a> {
    audit_id: Option<&'a str>,
    resource: Option<&'a str>,
    namespace: Option<&'a str>,
    name: &'a str,
    user: Option<&'a str>,
    refused: Option<bool>,
    limit: usize,
}

impl<'a> Filter<'a> {
    fn new(query: &'a Query<'_>) -> Result<Filter<'a>, Status> {
        let refused = match query.find("verdict") {
            None => None,
            Some("refused") => Some(true),
            Some("admitted") => Some(false),
            Some(other) => {
                let why = format!("verdict {other:?} is neither refused nor admitted");
                return Err(Status::bad_request(why));
            }
        };
        let limit = match query.find("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => {
                text.parse().map_err(|_| Status::bad_request(format!("limit {text:?} is not a number")))?
            }
        };
        Ok(Filter {
            audit_id: query.find("auditID"),
            resource: query.find("resource"),
            namespace: query.find("namespace"),
            name: query.get("name"),
            user: query.find("user"),
            refused,
            limit,
        })
    }

    fn takes(&self, record: &Record) -> bool {
        let is = |wanted: Option<&str>, own: &str| wanted.is_none_or(|wanted| wanted == own);
        // `deployments` means those of all groups, with their subresources.
        let plural = record.resource.split(['.', '/']).next().unwrap_or_default();
        is(self.audit_id, &record.audit_id)
            && (is(self.resource, &record.resource) || is(self.resource, plural))
            && is(self.namespace, &record.namespace)
            && record.name.starts_with(self.name)
            && is(self.user, &record.user)
            && match record.verdict {
                Verdict::Admitted => self.refused != Some(true),
                Verdict::Refused(..) => self.refused != Some(false),
                Verdict::GivenUp => self.refused.is_none(),
            }
    }
}

impl Record {
    fn new(
        request: &RequestContext<'_>,
        noted: Noted,
        audit_id: String,
        seconds: u64,
        end: End<'_>,
    ) -> Record {
        let mut resource = request.resource.plural.to_string();
        if !request.resource.group.is_empty() {
            let _ = write!(resource, ".{}", request.resource.group);
        }
        if let Some(subresource) = request.subresource {
            let _ = write!(resource, "/{subresource}");
        }
        let is_secret = resource == "secrets";
        // Messages may quote what they are about.
        let said = |text: &str| if is_secret { WITHHELD.to_owned() } else { text.to_owned() };
        let verdict = match end {
            End::Admitted => Verdict::Admitted,
            End::Refused(status) => {
                let fits = status.message.floor_char_boundary(MAX_MESSAGE);
                Verdict::Refused(status.code, said(&status.message[..fits]))
            }
            End::GivenUp => Verdict::GivenUp,
        };
        let annotations = noted.annotations.into_iter().map(|(key, value)| (key, said(&value)));
        Record {
            seconds,
            audit_id,
            user: request.user.name.clone(),
            verb: request.verb.names().next().unwrap_or_default(),
            resource,
            namespace: request.namespace.to_owned(),
            name: if request.name.is_empty() { noted.name } else { request.name.to_owned() },
            dry_run: request.options.dry_run || noted.dry_run,
            verdict,
            steps: noted.steps,
            left_off: noted.left_off,
            annotations: annotations.collect(),
        }
    }

    /// About what it holds.
    fn bytes(&self) -> usize {
        let texts = [&self.audit_id, &self.user, &self.resource, &self.namespace, &self.name];
        let steps = self.steps.iter().map(|step| size_of::<Step>() + step.who.len() + step.did.len());
        let annotations = self.annotations.iter().map(|(key, value)| 48 + key.len() + value.len());
        let message = if let Verdict::Refused(_, message) = &self.verdict { message.len() } else { 0 };
        let own = size_of::<Record>() + texts.iter().map(|text| text.len()).sum::<usize>() + message;
        own + steps.sum::<usize>() + annotations.sum::<usize>()
    }

    fn write(&self, out: &mut String) {
        let (time, verb, resource) = (format_seconds(self.seconds as i64), self.verb, &self.resource);
        let path = [&self.namespace, &self.name].into_iter().filter(|part| !part.is_empty());
        let path: Vec<&str> = path.map(String::as_str).collect();
        let dry = if self.dry_run { " (dry run)" } else { "" };
        let _ = writeln!(out, "\n{time} {verb} {resource} {}{dry} by {}", path.join("/"), self.user);
        if !self.audit_id.is_empty() {
            let _ = writeln!(out, "  Audit-ID {}", self.audit_id);
        }
        for step in &self.steps {
            let phase = if step.phase == Phase::Admit { "mutating  " } else { "validating" };
            let who = if step.who.is_empty() { String::new() } else { format!(", {}", step.who) };
            let took = step.took.map(|took| format!(" [{}]", shown(took))).unwrap_or_default();
            let _ = writeln!(out, "  {phase} {}{who}: {}{took}", step.plugin, step.did);
        }
        if self.dry_run && self.steps.is_empty() && matches!(self.verdict, Verdict::Admitted) {
            out.push_str("  no plugin changed anything, and no policy or webhook is configured\n");
        }
        if self.left_off > 0 {
            let _ = writeln!(out, "  and {} more", self.left_off);
        }
        for (key, value) in &self.annotations {
            let _ = writeln!(out, "  audit annotation {key}: {value}");
        }
        let _ = match &self.verdict {
            Verdict::Admitted => writeln!(out, "  admitted"),
            Verdict::Refused(code, message) => writeln!(out, "  refused with {code}: {message}"),
            Verdict::GivenUp => writeln!(out, "  given up by the client before it was answered"),
        };
    }
}

fn shown(took: Duration) -> String {
    match took.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        micros => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
    }
}
