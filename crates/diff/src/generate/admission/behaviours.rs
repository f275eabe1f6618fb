//! What a webhook may answer, right and wrong: mutating and validating, failing open and closed, for a create and other requests.

use super::steps::{self, Configured};
use crate::case::{MERGE, Scenario, Step};
use crate::webhook::{BEHAVIOURS, PATCHES};

pub fn all() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (phase, letter) in [("Mutating", "m"), ("Validating", "v")] {
        for failure in ["Fail", "Ignore"] {
            scenarios.push(scenario(phase, letter, failure));
        }
    }
    scenarios
}

fn scenario(phase: &str, letter: &str, failure: &str) -> Scenario {
    let patches = PATCHES.iter().map(|(name, _)| *name).filter(|_| letter == "m");
    let behaviours: Vec<&str> = BEHAVIOURS.iter().map(|(name, ..)| *name).chain(patches).collect();
    let mut configured = Configured::default();
    let hook = |behaviour: &str, version: &str| {
        format!(
            r#"{{"name":"{behaviour}.example.com","clientConfig":{{"url":"$HOOK/{letter}-{behaviour}/{behaviour}","caBundle":"$CA"}},"rules":[{{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps","configmaps/*"]}}],"objectSelector":{{"matchLabels":{{"try":"{behaviour}-{version}"}}}},"failurePolicy":"{failure}","sideEffects":"None","timeoutSeconds":30,"admissionReviewVersions":["{version}"]}}"#
        )
    };
    let plural = format!("{}webhookconfigurations", phase.to_lowercase());
    for version in ["v1", "v1beta1"] {
        let hooks: Vec<String> = behaviours.iter().map(|behaviour| hook(behaviour, version)).collect();
        let members = format!(r#""webhooks":[{}]"#, hooks.join(","));
        configured.add(
            &format!("{phase}WebhookConfiguration"),
            &plural,
            &format!("$RUN-{version}"),
            &members,
        );
    }
    let mut requests = Vec::new();
    let path = "/api/v1/namespaces/$NS/configmaps";
    for behaviour in &behaviours {
        let body = |name: &str, version: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"try":"{behaviour}-{version}"}}}},"data":{{"k":"1"}}}}"#
            )
        };
        let name = format!("c-{behaviour}");
        let created =
            Step::text(format!("create {behaviour}"), "POST", path, "application/json", body(&name, "v1"));
        requests.push(created);
        let old = format!("old-{behaviour}");
        let created = Step::text(
            format!("create {behaviour} v1beta1"),
            "POST",
            path,
            "application/json",
            body(&old, "v1beta1"),
        );
        requests.push(created);
        // The old object has the label, and nothing can be patched.
        let plain =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"d-{behaviour}"}}}}"#);
        requests.push(Step::text(format!("plain {behaviour}"), "POST", path, "application/json", plain));
        let label = format!(r#"{{"metadata":{{"labels":{{"try":"{behaviour}-v1"}}}},"data":{{"k":"1"}}}}"#);
        let named = format!("{path}/d-{behaviour}");
        requests.push(Step::text(format!("label {behaviour}"), "PATCH", named.clone(), MERGE, label));
        requests.push(Step::new(format!("delete {behaviour}"), "DELETE", format!("{path}/c-{behaviour}")));
    }
    steps::scenario(&format!("behaviours {phase} {failure}"), configured, &requests)
}
