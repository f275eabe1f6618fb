//! create-webhook, create-policies: ConfigMaps that a validating webhook, or ten ValidatingAdmissionPolicies, are asked about; create-, patch- and
//! apply-unconcerned: writes that none of a hundred of either is asked about.
//!
//! The webhook is served by this process, so that every server has the same one and its CPU is not counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::site::Site;
use crate::tally::Tally;
use crate::webhook_server::WebhookServer;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: usize = 10;
/// Configurations that no request of ours matches.
const IDLE: usize = 100;
/// How long what was configured may take until it counts.
const EFFECTIVE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Five, all of them true of the ConfigMaps that are created.
const VALIDATIONS: [&str; 5] = [
    "object.metadata.name.startsWith('c-')",
    "has(object.data) && size(object.data) < 100",
    "object.data.all(key, size(object.data[key]) < 4096)",
    "!has(object.metadata.labels) || object.metadata.labels.all(key, key != 'forbidden')",
    "request.operation == 'CREATE' && request.userInfo.username != 'nobody'",
];

pub struct Admission {
    pub by: By,
    pub writes: &'static dyn Scenario,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    Webhook,
    Policies,
    /// Webhooks and policies about something else.
    Nobody,
}

impl Scenario for Admission {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        self.writes.prepare(site)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let server = WebhookServer::start(Arc::new(allow))?;
        let objects = self.objects(site, &server);
        let measured = configure(site, &objects)
            .and_then(|()| self.wait_until_effective(site))
            .and_then(|()| self.writes.measure(site, settings));
        // All of them, whatever failed: what stays would be asked about everything after this, by a server that is gone.
        let mut removed = Ok(());
        for (resource, name, _) in objects.iter().rev() {
            let deleted = site.delete(&format!("{GROUP}/{resource}/{name}"));
            removed = removed.and(deleted);
        }
        measured.and_then(|tally| removed.map(|()| tally))
    }
}

/// Resource, name and text of something that is configured.
type Configured = (&'static str, String, String);

fn configure(site: &mut Site<'_>, objects: &[Configured]) -> Result<(), BenchError> {
    for (resource, _, text) in objects {
        site.post(&format!("{GROUP}/{resource}"), text)?;
    }
    Ok(())
}

impl Admission {
    fn objects(&self, site: &Site<'_>, server: &WebhookServer) -> Vec<Configured> {
        let namespace = &site.namespace;
        match self.by {
            By::Webhook => vec![webhook(namespace, server, namespace, "configmaps")],
            By::Policies => (0..POLICIES)
                .flat_map(|n| policy(namespace, &format!("{namespace}-{n}"), "configmaps"))
                .collect(),
            By::Nobody => (0..IDLE)
                .flat_map(|n| {
                    let name = format!("{namespace}-{n}");
                    let mut all = policy(namespace, &name, "secrets");
                    all.push(webhook(namespace, server, &name, "secrets"));
                    all
                })
                .collect(),
        }
    }

    /// Every server lets configurations take effect some time after they are written: one is asked until it refuses.
    fn wait_until_effective(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        let (kind, plural) = match self.by {
            By::Nobody => ("Secret", "secrets"),
            _ => ("ConfigMap", "configmaps"),
        };
        let path = format!("{}?dryRun=All", site.path(plural));
        let probe = format!(
            r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"c-probe","labels":{{"forbidden":"yes"}}}},"data":{{}}}}"#
        );
        let (began, mut seen) = (Instant::now(), None);
        // Policies take effect one by one: the last refusal is a while after the first.
        while began.elapsed() < EFFECTIVE {
            match site.post(&path, &probe) {
                Ok(_) => seen = None,
                Err(BenchError::Refused { body, .. }) if body.contains("forbidden") => {
                    let first = *seen.get_or_insert_with(Instant::now);
                    if first.elapsed() > Duration::from_secs(2) {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(site.too_slow("what admission is configured by".to_owned(), EFFECTIVE))
    }
}

fn webhook(namespace: &str, server: &WebhookServer, name: &str, plural: &str) -> Configured {
    let (url, ca) = (server.url(), server.ca_bundle());
    let text = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{{"name":"{name}"}},"webhooks":[{{"name":"bench.setpoint.dev","clientConfig":{{"url":"{url}/validate","caBundle":"{ca}"}},"sideEffects":"None","admissionReviewVersions":["v1"],"namespaceSelector":{{"matchLabels":{{"kubernetes.io/metadata.name":"{namespace}"}}}},"rules":[{{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["{plural}"]}}]}}]}}"#
    );
    ("validatingwebhookconfigurations", name.to_owned(), text)
}

fn policy(namespace: &str, name: &str, plural: &str) -> Vec<Configured> {
    let validations = VALIDATIONS.map(|expression| format!(r#"{{"expression":"{expression}"}}"#)).join(",");
    let policy = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"{name}"}},"spec":{{"matchConstraints":{{"namespaceSelector":{{"matchLabels":{{"kubernetes.io/metadata.name":"{namespace}"}}}},"resourceRules":[{{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["{plural}"]}}]}},"validations":[{validations}]}}}}"#
    );
    let binding = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{{"name":"{name}"}},"spec":{{"policyName":"{name}","validationActions":["Deny"]}}}}"#
    );
    vec![
        ("validatingadmissionpolicies", name.to_owned(), policy),
        ("validatingadmissionpolicybindings", name.to_owned(), binding),
    ]
}

/// Allows everything but what is labelled forbidden.
fn allow(_: &str, review: &[u8]) -> (u16, Vec<u8>) {
    let Ok(review) = codec::json::parse(review, None) else { return (400, Vec::new()) };
    let uid = review.str_at(&["request", "uid"]).unwrap_or_default();
    let forbidden = review.at(&["request", "object", "metadata", "labels", "forbidden"]).is_some();
    let response = match forbidden {
        false => r#""allowed":true"#,
        true => r#""allowed":false,"status":{"message":"forbidden"}"#,
    };
    let answer = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}",{response}}}}}"#
    );
    (200, answer.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_webhook_allows_all_but_what_is_forbidden() {
        let ask = |labels: &str| {
            let review =
                format!(r#"{{"request":{{"uid":"u","object":{{"metadata":{{"labels":{labels}}}}}}}}}"#);
            String::from_utf8(allow("/validate", review.as_bytes()).1).unwrap()
        };
        assert!(ask("{}").contains(r#""uid":"u","allowed":true"#));
        assert!(ask(r#"{"forbidden":"yes"}"#).contains(r#""allowed":false"#));
    }
}
