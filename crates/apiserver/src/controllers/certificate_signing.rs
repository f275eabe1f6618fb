//! CertificateSigningRequests: approves those of kubelets, signs approved ones, deletes old ones.
//!
//! ```text
//! request ─ of a kubelet that is allowed to? ─ Approved ─ valid for its signer? ─ certificate
//!                                                          └ no: Failed, with the reason
//! ```

use std::sync::Arc;
use std::time::Duration;

use admission::certificates::request_of;
use auth::pki::{Issuer, SigningRequest, YEAR_SECONDS, not_after};
use auth::{Attributes, UserInfo, groups};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::{Map, Status, Value, time};
use table::EventKind;

use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;

const IDENTITY: &str = "certificate-controller";
const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
const REQUESTS: GroupResource = (GROUP, PLURAL);
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The interval of the cleanup, and the age at which requests are deleted.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);
const DECIDED_SECONDS: i64 = 3600;
const PENDING_SECONDS: i64 = 24 * 3600;
/// A failed write, or a kubelet without permission yet, is retried after this.
const RETRY: Duration = Duration::from_secs(5);
/// The minimum lifetime of a certificate, twice what it is backdated by.
const SHORTEST_SECONDS: u64 = 600;

/// Upstream's three controllers of these requests; each can be off.
pub struct Parts {
    pub approves: bool,
    pub cleans: bool,
    /// Without one nothing is signed here; an external signer may.
    pub issuer: Option<Issuer>,
}

/// Runs until shutdown.
pub async fn run(api: Arc<Api>, parts: Parts) {
    let controller = CsrController { client: LoopbackClient::for_controller(&api, IDENTITY), parts };
    let mut watcher = TableWatcher::new(&api, &[REQUESTS]);
    let env = api.registry().env().clone();
    let (mut clean_at, mut retry) = (env.monotonic() + CLEAN_EVERY, Vec::new());
    loop {
        let due = clean_at.saturating_duration_since(env.monotonic());
        let wait = if retry.is_empty() { due } else { due.min(RETRY) };
        let Some(events) = watcher.next_events(Some(wait)).await else { return };
        let mut names: Vec<String> = std::mem::take(&mut retry);
        if env.monotonic() >= clean_at {
            match controller.clean().await {
                Ok(left) => {
                    clean_at = env.monotonic() + CLEAN_EVERY;
                    names.extend(left);
                }
                Err(status) => {
                    clean_at = env.monotonic() + RETRY;
                    tracing::warn!(error = status.message, "could not delete old CertificateSigningRequests");
                }
            }
        }
        let there = events.iter().filter(|event| event.kind != EventKind::Deleted);
        names.extend(there.map(|event| event.obj.name().to_owned()));
        names.sort();
        names.dedup();
        for name in names {
            match controller.reconcile(&name).await {
                Ok(Reconciled::Done) => {}
                Ok(Reconciled::NotYetAllowed) => retry.push(name),
                Err(status) => {
                    tracing::warn!(
                        name,
                        error = status.message,
                        "could not reconcile a CertificateSigningRequest"
                    );
                    retry.push(name);
                }
            }
        }
    }
}

enum Reconciled {
    Done,
    /// A kubelet without permission: it may be granted after the request.
    NotYetAllowed,
}

struct CsrController<'a> {
    client: LoopbackClient<'a>,
    parts: Parts,
}

impl CsrController<'_> {
    async fn reconcile(&self, name: &str) -> Result<Reconciled, Status> {
        let Some(csr) = self.client.get(REQUESTS, "", name) else { return Ok(Reconciled::Done) };
        if issued(&csr) || has(&csr, "Failed") || has(&csr, "Denied") {
            return Ok(Reconciled::Done);
        }
        // Validation accepts no such request; one that is stored nevertheless stays as it is.
        let Ok(request) = request_of(&csr) else { return Ok(Reconciled::Done) };
        if !has(&csr, "Approved") {
            if !self.parts.approves {
                return Ok(Reconciled::Done);
            }
            return match self.approval(&csr, &request) {
                Some(message) => {
                    self.write("approval", with_condition(csr, "Approved", "AutoApproved", message)).await
                }
                None if self.is_kubelets(&csr, &request) => Ok(Reconciled::NotYetAllowed),
                None => Ok(Reconciled::Done),
            };
        }
        let Some(issuer) = &self.parts.issuer else { return Ok(Reconciled::Done) };
        let signer = csr.str_at(&["spec", "signerName"]).unwrap_or("");
        let usages: Vec<&str> = usages(&csr);
        let refused = match check(signer, &request, &usages) {
            // The signer of another controller.
            None => return Ok(Reconciled::Done),
            Some(Err(why)) => why,
            Some(Ok(())) => {
                let now = self.client.api().registry().env().now_seconds();
                match issuer.issue(&request, &usages, lifetime(&csr), now) {
                    Ok(pem) => {
                        let mut csr = csr;
                        csr.map_at(&["status"]).set("certificate", STANDARD.encode(pem));
                        return self.write("status", csr).await;
                    }
                    Err(error) => error.to_string(),
                }
            }
        };
        self.write("status", with_condition(csr, "Failed", "SignerValidationFailure", &refused)).await
    }

    fn is_kubelets(&self, csr: &Value, request: &SigningRequest) -> bool {
        csr.str_at(&["spec", "signerName"]) == Some(KUBELET_CLIENT)
            && kubelet_client(request, &usages(csr)).is_ok()
    }

    /// The message of the automatic approval; `None` if there is none.
    fn approval(&self, csr: &Value, request: &SigningRequest) -> Option<&'static str> {
        if !self.is_kubelets(csr, request) {
            return None;
        }
        let user = requester(csr);
        let may = |subresource| {
            let wanted = Attributes {
                verb: "create",
                group: GROUP,
                resource: PLURAL,
                subresource,
                ..Attributes::default()
            };
            self.client.api().authorizer.authorize(&user, &wanted).allowed
        };
        if user.name == request.common_name() && may("selfnodeclient") {
            return Some("Auto approving self kubelet client certificate after SubjectAccessReview.");
        }
        may("nodeclient").then_some("Auto approving kubelet client certificate after SubjectAccessReview.")
    }

    /// Guarded by the resourceVersion in the tree.
    async fn write(&self, subresource: &str, csr: Value) -> Result<Reconciled, Status> {
        match self.client.put(REQUESTS, subresource, csr).await {
            Ok(()) => Ok(Reconciled::Done),
            // The other change has its own event.
            Err(status) if matches!(status.code, 404 | 409) => Ok(Reconciled::Done),
            Err(status) => Err(status),
        }
    }

    /// Deletes old requests, and returns the others, to be reconciled once more.
    async fn clean(&self) -> Result<Vec<String>, Status> {
        let now = self.client.api().registry().env().now_seconds() as i64;
        let mut left = Ok(Vec::new());
        for csr in self.client.list(REQUESTS)? {
            if !self.parts.cleans || !is_old(&csr, now) {
                let name = csr.str_at(&["metadata", "name"]).unwrap_or("");
                if let Ok(left) = &mut left {
                    left.push(name.to_owned());
                }
                continue;
            }
            match self.client.delete(REQUESTS, &csr).await {
                // One failure does not keep the others.
                Err(status) if !lost_race(&status) => left = Err(status),
                _ => {}
            }
        }
        left
    }
}

/// Whether the rules of the signer allow the request; `None` for other controllers' signers.
fn check(signer: &str, request: &SigningRequest, usages: &[&str]) -> Option<Result<(), String>> {
    match signer {
        "kubernetes.io/kube-apiserver-client" => Some(api_server_client(usages)),
        KUBELET_CLIENT => Some(kubelet_client(request, usages)),
        "kubernetes.io/kubelet-serving" => Some(kubelet_serving(request, usages)),
        // No rules, for compatibility.
        "kubernetes.io/legacy-unknown" => Some(Ok(())),
        _ => None,
    }
}

fn api_server_client(usages: &[&str]) -> Result<(), String> {
    let optional = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !optional.contains(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains(&"client auth") {
        return Err("missing required usage for client certificate: client auth".into());
    }
    Ok(())
}

fn kubelet_client(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
    of_nodes(request)?;
    for (names, told) in [
        (request.dns_names.is_empty(), "DNS subjectAltNames are not allowed"),
        (request.emails.is_empty(), "Email subjectAltNames are not allowed"),
        (request.addresses.is_empty(), "IP subjectAltNames are not allowed"),
        (request.uris.is_empty(), "URI subjectAltNames are not allowed"),
    ] {
        if !names {
            return Err(told.into());
        }
    }
    a_node(request)?;
    exactly(usages, ["client auth", "digital signature", "key encipherment"])
}

fn kubelet_serving(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
    of_nodes(request)?;
    if request.dns_names.is_empty() && request.addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".into());
    }
    if !request.emails.is_empty() {
        return Err("Email subjectAltNames are not allowed".into());
    }
    if !request.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".into());
    }
    exactly(usages, ["digital signature", "key encipherment", "server auth"])?;
    a_node(request)
}

fn of_nodes(request: &SigningRequest) -> Result<(), String> {
    if request.organizations() == [groups::NODES] {
        return Ok(());
    }
    Err("subject organization is not system:nodes".into())
}

fn a_node(request: &SigningRequest) -> Result<(), String> {
    if request.common_name().starts_with("system:node:") {
        return Ok(());
    }
    Err("subject common name does not begin with system:node:".into())
}

/// Exactly these usages; key encipherment is optional, as not all keys can.
fn exactly(usages: &[&str], wanted: [&str; 3]) -> Result<(), String> {
    let optional = "key encipherment";
    let complete = wanted.iter().all(|usage| *usage == optional || usages.contains(usage));
    if complete && usages.iter().all(|usage| wanted.contains(usage)) {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", wanted.join(" ")))
}

fn lifetime(csr: &Value) -> u64 {
    let wanted = csr.at(&["spec", "expirationSeconds"]).and_then(Value::as_int);
    wanted.map_or(YEAR_SECONDS, |seconds| (seconds.max(0) as u64).clamp(SHORTEST_SECONDS, YEAR_SECONDS))
}

/// The user that created the request, as the server recorded it.
fn requester(csr: &Value) -> UserInfo {
    let list = |value: Option<&Value>| -> Vec<String> {
        let list = value.and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut user = UserInfo::new(csr.str_at(&["spec", "username"]).unwrap_or(""), &[]);
    user.uid = csr.str_at(&["spec", "uid"]).unwrap_or("").to_owned();
    user.groups = list(csr.at(&["spec", "groups"]));
    let extra = csr.at(&["spec", "extra"]).and_then(Value::as_map);
    for (name, values) in extra.into_iter().flat_map(|extra| extra.iter()) {
        user.extra.insert(name.to_string(), list(Some(values)));
    }
    user
}

/// Older than upstream keeps a request in its state.
fn is_old(csr: &Value, now: i64) -> bool {
    let older = |text: Option<&str>, seconds: i64| {
        text.and_then(time::parse).is_some_and(|(at, _)| now.saturating_sub(at) > seconds)
    };
    let conditions = conditions(csr);
    if conditions.is_empty() {
        return older(csr.str_at(&["metadata", "creationTimestamp"]), PENDING_SECONDS);
    }
    let certificate = csr.str_at(&["status", "certificate"]).unwrap_or("");
    conditions.iter().any(|condition| {
        let updated = condition.str_at(&["lastUpdateTime"]);
        match condition.str_at(&["type"]) {
            Some("Denied" | "Failed") => older(updated, DECIDED_SECONDS),
            Some("Approved") if certificate.is_empty() => older(updated, PENDING_SECONDS),
            Some("Approved") => {
                let ended = STANDARD.decode(certificate).ok().and_then(|pem| not_after(&pem));
                older(updated, DECIDED_SECONDS) || ended.is_some_and(|end| now > end as i64)
            }
            _ => false,
        }
    })
}

fn with_condition(mut csr: Value, kind: &str, reason: &str, message: &str) -> Value {
    let mut condition = Map::default();
    for (member, text) in [("type", kind), ("status", "True"), ("reason", reason), ("message", message)] {
        condition.set(member, text);
    }
    match csr.map_at(&["status"]).entry("conditions".into()) {
        Value::List(list) => list.push(Value::Map(condition)),
        slot => *slot = Value::List(vec![Value::Map(condition)]),
    }
    csr
}

fn conditions(csr: &Value) -> &[Value] {
    csr.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default()
}

fn has(csr: &Value, kind: &str) -> bool {
    conditions(csr).iter().any(|condition| condition.str_at(&["type"]) == Some(kind))
}

fn issued(csr: &Value) -> bool {
    csr.str_at(&["status", "certificate"]).is_some_and(|text| !text.is_empty())
}

fn usages(csr: &Value) -> Vec<&str> {
    let list = csr.at(&["spec", "usages"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}
