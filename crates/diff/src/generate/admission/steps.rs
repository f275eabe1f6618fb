//! A scenario around what is configured: the definitions and namespaces it needs, waiting until it counts, the requests, and its end.

use super::RESOURCE;
use crate::case::{MERGE, Scenario, Step};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Objects of admissionregistration.k8s.io, in the order they are written.
#[derive(Default)]
pub struct Configured {
    objects: Vec<Object>,
}

struct Object {
    kind: String,
    plural: String,
    name: String,
    text: String,
}

impl Configured {
    /// `members`: what stands beside `metadata`.
    pub fn add(&mut self, kind: &str, plural: &str, name: &str, members: &str) {
        let text = format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"{kind}","metadata":{{"name":"{name}"}},{members}}}"#
        );
        self.objects.push(Object {
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            name: name.to_owned(),
            text,
        });
    }

    /// What is written last of every kind, and shows that all before it counts: it refuses, or marks, what is labelled so.
    fn add_probes(&mut self) -> Vec<Probe> {
        let has = |phase: &str| self.objects.iter().any(|object| object.kind.starts_with(phase));
        let (mutating, validating) = (has("MutatingWebhook"), has("ValidatingWebhook"));
        let (mutations, validations) = (has("MutatingAdmissionPolicy"), has("ValidatingAdmissionPolicy"));
        let mut probes = Vec::new();
        for (there, phase, label) in [(mutating, "Mutating", "m"), (validating, "Validating", "v")] {
            if there {
                let name = "$RUN-probe";
                let plural = format!("{}webhookconfigurations", phase.to_lowercase());
                let hook = format!(
                    r#""webhooks":[{{"name":"probe.example.com","clientConfig":{{"url":"$HOOK/{label}probe/deny-message","caBundle":"$CA"}},"rules":[{PROBED}],"objectSelector":{{"matchLabels":{{"probe":"{label}"}}}},"sideEffects":"None","admissionReviewVersions":["v1"]}}]"#
                );
                self.add(&format!("{phase}WebhookConfiguration"), &plural, name, &hook);
                probes.push(Probe { label, status: 400, contains: "not this one" });
            }
        }
        if validations {
            let spec = format!(
                r#""spec":{{"matchConstraints":{{"resourceRules":[{PROBED}],"objectSelector":{{"matchLabels":{{"probe":"p"}}}}}},"validations":[{{"expression":"false","message":"not this one"}}]}}"#
            );
            self.add("ValidatingAdmissionPolicy", "validatingadmissionpolicies", "$RUN-probe", &spec);
            let binding = r#""spec":{"policyName":"$RUN-probe","validationActions":["Deny"]}"#;
            let plural = "validatingadmissionpolicybindings";
            self.add("ValidatingAdmissionPolicyBinding", plural, "$RUN-probe", binding);
            probes.push(Probe { label: "p", status: 422, contains: "not this one" });
        }
        if mutations {
            let spec = format!(
                r#""spec":{{"failurePolicy":"Fail","reinvocationPolicy":"Never","matchConstraints":{{"resourceRules":[{PROBED}],"objectSelector":{{"matchLabels":{{"probe":"q"}}}}}},"mutations":[{{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"Object{{metadata: Object.metadata{{labels: {{'probed': 'yes'}}}}}}"}}}}]}}"#
            );
            self.add("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "$RUN-probe", &spec);
            let binding = r#""spec":{"policyName":"$RUN-probe"}"#;
            let plural = "mutatingadmissionpolicybindings";
            self.add("MutatingAdmissionPolicyBinding", plural, "$RUN-probe", binding);
            probes.push(Probe { label: "q", status: 201, contains: r#""probed":"yes""# });
        }
        probes
    }
}

const PROBED: &str =
    r#"{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}"#;

/// A request that shows whether what is configured counts.
struct Probe {
    label: &'static str,
    status: u16,
    contains: &'static str,
}

impl Probe {
    fn step(&self, name: &str) -> Step {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"probe","labels":{{"probe":"{}"}}}}}}"#,
            self.label
        );
        let name = format!("{name} {}", self.label);
        Step::text(name, "POST", "/api/v1/namespaces/$NS/configmaps?dryRun=All", "application/json", body)
    }
}

pub fn scenario(name: &str, mut configured: Configured, requests: &[Step]) -> Scenario {
    let mut steps = definitions();
    steps.extend(namespaces());
    let probes = configured.add_probes();
    for object in &configured.objects {
        let name = format!("configure {} {}", object.kind, object.name);
        let path = format!("{GROUP}/{}", object.plural);
        steps.push(Step::text(name, "POST", path, "application/json", object.text.clone()));
    }
    for probe in &probes {
        steps.push(probe.step("heeded").until(probe.status, probe.contains));
    }
    steps.extend(requests.iter().cloned());
    for object in &configured.objects {
        let path = format!("{GROUP}/{}/{}", object.plural, object.name);
        steps.push(Step::new(format!("forget {} {}", object.kind, object.name), "DELETE", path));
    }
    for probe in &probes {
        steps.push(probe.step("forgotten").until(201, format!(r#""labels":{{"probe":"{}"}}"#, probe.label)));
    }
    Scenario { name: format!("{RESOURCE} {name}"), resource: RESOURCE.to_owned(), custom: true, steps }
}

/// The same for all scenarios: the first one creates them.
fn definitions() -> Vec<Step> {
    let schema = r#"{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"},"replicas":{"type":"integer"}}},"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}"#;
    let subresources = r#"{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}}"#;
    let version = |name: &str, storage: bool| {
        format!(
            r#"{{"name":"{name}","served":true,"storage":{storage},"schema":{schema},"subresources":{subresources}}}"#
        )
    };
    let define = |plural: &str, kind: &str, scope: &str| {
        let versions = [version("v1", true), version("v2", false)].join(",");
        let singular = kind.to_lowercase();
        let body = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"{plural}.$RUN.example.com"}},"spec":{{"group":"$RUN.example.com","scope":"{scope}","names":{{"plural":"{plural}","singular":"{singular}","kind":"{kind}"}},"versions":[{versions}]}}}}"#
        );
        Step::text(format!("define {plural}"), "POST", DEFINITIONS, "application/json", body)
    };
    // Their status is written by controllers: what counts is that they are there.
    let there = |plural: &str| {
        let path = format!("{DEFINITIONS}/{plural}.$RUN.example.com?dryRun=All");
        Step::text(format!("defined {plural}"), "PATCH", path, MERGE, "{}")
            .until(200, r#""status":"True","type":"Established""#)
    };
    let served = |plural: &str, version: &str| {
        let path = format!("/apis/$RUN.example.com/{version}/{plural}");
        Step::new(format!("served {plural} {version}"), "GET", path).until(200, "items")
    };
    vec![
        define("things", "Thing", "Namespaced").until(409, "exists"),
        define("gadgets", "Gadget", "Cluster").until(409, "exists"),
        there("things"),
        served("things", "v1"),
        served("things", "v2"),
        served("gadgets", "v1"),
    ]
}

/// `$NS` is of tier back; `$NS-b` of tier front and of env prod.
fn namespaces() -> Vec<Step> {
    let label = r#"{"metadata":{"labels":{"tier":"back"}}}"#;
    let other = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"$NS-b","labels":{"tier":"front","env":"prod","setpoint-diff":"true"}}}"#;
    vec![
        Step::text("label the namespace", "PATCH", "/api/v1/namespaces/$NS", MERGE, label),
        Step::text("other namespace", "POST", "/api/v1/namespaces", "application/json", other),
    ]
}
