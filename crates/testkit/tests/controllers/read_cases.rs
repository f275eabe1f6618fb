//! One change among many objects, for every controller: what it is given for it must not grow with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Something somebody does.
pub enum Step {
    Post(String, Value),
    /// A merge patch.
    Merge(String, Value),
    Delete(String),
}

use Step::{Delete, Merge, Post};

pub struct Case {
    pub controller: &'static str,
    /// What is there once.
    pub once: fn() -> Vec<Step>,
    /// What is there many times, by number.
    pub each: fn(usize) -> Vec<Step>,
    /// So many at least, where only many are many.
    pub least: usize,
    pub change: fn() -> Step,
    pub cost: Cost,
}

/// What one change among many costs.
pub enum Cost {
    /// As much as among few.
    Same,
    /// More, and why.
    Grows(&'static str),
    /// Nothing, and why.
    Nothing(&'static str),
}

const CORE: &str = "/api/v1/namespaces/default";
const NODES: &str = "/api/v1/nodes";
const APPS: &str = "/apis/apps/v1/namespaces/default";
const BATCH: &str = "/apis/batch/v1/namespaces/default";

fn post(collection: &str, name: &str, rest: Value) -> Step {
    let mut body = rest;
    body["metadata"]["name"] = json!(name);
    Post(collection.to_owned(), body)
}

fn touch(path: String) -> Step {
    Merge(path, json!({"metadata": {"annotations": {"touched": "now"}}}))
}

fn core(plural: &str) -> String {
    format!("{CORE}/{plural}")
}

fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn pod(name: &str, app: &str, node: &str) -> Step {
    let mut body = template(app);
    if !node.is_empty() {
        body["spec"]["nodeName"] = json!(node);
    }
    post(&core("pods"), name, body)
}

fn status(pod: &str, ready: bool, ip: usize) -> Step {
    let status = json!({"phase": "Running", "podIP": format!("10.1.{}.{}", ip / 200, ip % 200 + 1),
        "podIPs": [{"ip": format!("10.1.{}.{}", ip / 200, ip % 200 + 1)}],
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]});
    Merge(format!("{CORE}/pods/{pod}/status"), json!({"status": status}))
}

fn node(name: &str) -> Step {
    post(NODES, name, json!({}))
}

fn service(selector: Value) -> Step {
    post(&core("services"), "web", json!({"spec": {"selector": selector, "ports": [{"port": 80}]}}))
}

fn set(name: &str, replicas: usize) -> Value {
    json!({"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)}})
}

fn job() -> Value {
    let mut template = template("job");
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"spec": {"parallelism": 0, "template": template}})
}

fn claim(class: &str) -> Value {
    json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}}})
}

fn volume(class: &str) -> Value {
    json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "hostPath": {"path": "/tmp/v"}}})
}

fn secret(kind: &str, data: Value) -> Value {
    json!({"type": kind, "stringData": data})
}

const SIGNING_REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn signing_request(n: usize) -> Step {
    let request = auth::pki::new_request("jane", &["devs".to_owned()], &[]).expect("a request").1;
    let spec = json!({"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        "request": STANDARD.encode(request)});
    post(SIGNING_REQUESTS, &format!("csr-{n}"), json!({"spec": spec}))
}

fn nothing() -> Vec<Step> {
    Vec::new()
}

fn others(n: usize) -> Vec<Step> {
    vec![pod(&format!("other-{n}"), "other", "")]
}

const SYSTEM_SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const TOKEN: &str = "bootstrap.kubernetes.io/token";

/// A row for every controller, in their order; some have several.
pub const CASES: &[Case] = &[
    Case {
        controller: "bootstrap-signer-controller",
        once: || {
            let info = json!({"data": {"kubeconfig": "apiVersion: v1\n"}});
            let token = json!({"token-id": "aaaaaa", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"});
            vec![
                post("/api/v1/namespaces/kube-public/configmaps", "cluster-info", info),
                post(SYSTEM_SECRETS, "bootstrap-token-aaaaaa", secret(TOKEN, token)),
            ]
        },
        each: |n| vec![post(SYSTEM_SECRETS, &format!("s-{n}"), secret("Opaque", json!({"a": "b"})))],
        least: 0,
        change: || {
            let data = json!({"data": {"kubeconfig": "apiVersion: v2\n"}});
            Merge("/api/v1/namespaces/kube-public/configmaps/cluster-info".to_owned(), data)
        },
        cost: Cost::Same,
    },
    Case {
        controller: "certificatesigningrequest-approving-controller",
        once: nothing,
        each: |n| vec![signing_request(n)],
        least: 0,
        change: || touch(format!("{SIGNING_REQUESTS}/csr-0")),
        cost: Cost::Same,
    },
    Case {
        controller: "certificatesigningrequest-cleaner-controller",
        once: nothing,
        each: |n| vec![signing_request(n)],
        least: 0,
        change: || touch(format!("{SIGNING_REQUESTS}/csr-0")),
        cost: Cost::Nothing("all requests are looked through every hour, whatever changed"),
    },
    Case {
        controller: "certificatesigningrequest-signing-controller",
        once: nothing,
        each: |n| vec![signing_request(n)],
        least: 0,
        change: || touch(format!("{SIGNING_REQUESTS}/csr-0")),
        cost: Cost::Same,
    },
    Case {
        controller: "clusterrole-aggregation-controller",
        once: nothing,
        each: |n| vec![post(CLUSTER_ROLES, &format!("r-{n}"), json!({"rules": []}))],
        least: 0,
        change: || touch(format!("{CLUSTER_ROLES}/view")),
        cost: Cost::Same,
    },
    Case {
        controller: "cronjob-controller",
        once: nothing,
        each: |n| {
            let spec = json!({"schedule": "0 0 1 1 *", "jobTemplate": job()});
            vec![post(&format!("{BATCH}/cronjobs"), &format!("c-{n}"), json!({"spec": spec}))]
        },
        least: 0,
        change: || touch(format!("{BATCH}/cronjobs/c-0")),
        cost: Cost::Same,
    },
    // A pod of a set on many nodes.
    Case {
        controller: "daemonset-controller",
        once: || {
            let spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": template("d")});
            vec![
                post(&format!("{APPS}/daemonsets"), "d", json!({"spec": spec})),
                pod("d-by-hand", "d", "n-0"),
            ]
        },
        each: |n| vec![node(&format!("n-{n}"))],
        least: 0,
        change: || status("d-by-hand", true, 1),
        cost: Cost::Same,
    },
    // One of many nodes.
    Case {
        controller: "daemonset-controller",
        once: || {
            let spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": template("d")});
            vec![post(&format!("{APPS}/daemonsets"), "d", json!({"spec": spec}))]
        },
        each: |n| vec![node(&format!("n-{n}"))],
        least: 0,
        change: || node("one-more"),
        cost: Cost::Same,
    },
    Case {
        controller: "deployment-controller",
        once: nothing,
        each: |n| {
            let name = format!("d-{n}");
            vec![post(&format!("{APPS}/deployments"), &name, set(&name, 0))]
        },
        least: 0,
        change: || touch(format!("{APPS}/deployments/d-0")),
        cost: Cost::Same,
    },
    Case {
        controller: "endpoints-controller",
        once: || vec![service(json!({"app": "web"})), pod("web", "web", "n")],
        each: others,
        least: 0,
        change: || status("web", true, 1),
        cost: Cost::Same,
    },
    Case {
        controller: "endpoints-controller",
        once: || vec![service(json!({"app": "web"}))],
        each: |n| {
            let name = format!("p-{n}");
            vec![pod(&name, "web", "n"), status(&name, true, n)]
        },
        least: 0,
        change: || status("p-0", false, 0),
        cost: Cost::Grows("one object lists all pods of a service, up to a thousand: it is written whole"),
    },
    Case {
        controller: "endpointslice-controller",
        once: || vec![service(json!({"app": "web"})), node("n")],
        each: |n| {
            let name = format!("p-{n}");
            vec![pod(&name, "web", "n"), status(&name, true, n)]
        },
        // More than are looked at as a whole.
        least: 300,
        change: || status("p-0", false, 0),
        cost: Cost::Same,
    },
    Case {
        controller: "endpointslice-mirroring-controller",
        once: nothing,
        each: |n| {
            let name = format!("s-{n}");
            let subsets = json!([{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 80}]}]);
            vec![
                post(&core("services"), &name, json!({"spec": {"ports": [{"port": 80}]}})),
                post(&core("endpoints"), &name, json!({"subsets": subsets})),
            ]
        },
        least: 0,
        change: || {
            let subsets = json!([{"addresses": [{"ip": "10.9.0.2"}], "ports": [{"port": 80}]}]);
            Merge(format!("{CORE}/endpoints/s-0"), json!({"subsets": subsets}))
        },
        cost: Cost::Same,
    },
    Case {
        controller: "ephemeral-volume-controller",
        once: nothing,
        each: others,
        least: 0,
        change: || {
            let mut body = template("e");
            let scratch = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim("slow")}});
            body["spec"]["volumes"] = json!([scratch]);
            post(&core("pods"), "e", body)
        },
        cost: Cost::Same,
    },
    Case {
        controller: "garbage-collector-controller",
        once: || vec![post(&core("configmaps"), "owner", json!({}))],
        each: others,
        least: 0,
        change: || Delete(format!("{CORE}/pods/other-0")),
        cost: Cost::Nothing("it keeps a graph of its own, and reads no cache"),
    },
    Case {
        controller: "horizontal-pod-autoscaler-controller",
        once: || {
            let metric = json!({"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}});
            let target = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"});
            let spec = json!({"scaleTargetRef": target, "maxReplicas": 3, "metrics": [metric]});
            vec![
                post(&format!("{APPS}/replicasets"), "web", set("web", 1)),
                post(
                    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
                    "web",
                    json!({"spec": spec}),
                ),
            ]
        },
        each: others,
        least: 0,
        change: || pod("web", "web", ""),
        cost: Cost::Same,
    },
    Case {
        controller: "job-controller",
        once: nothing,
        each: |n| vec![post(&format!("{BATCH}/jobs"), &format!("j-{n}"), job())],
        least: 0,
        change: || touch(format!("{BATCH}/jobs/j-0")),
        cost: Cost::Same,
    },
    Case {
        controller: "kubelet-serving-approver-controller",
        once: nothing,
        each: |n| vec![signing_request(n)],
        least: 0,
        change: || touch(format!("{SIGNING_REQUESTS}/csr-0")),
        cost: Cost::Same,
    },
    Case {
        controller: "local-volume-provisioner-controller",
        once: || {
            let class =
                json!({"provisioner": "setpoint.dev/local", "volumeBindingMode": "WaitForFirstConsumer"});
            vec![node("n"), post("/apis/storage.k8s.io/v1/storageclasses", "local", class)]
        },
        each: |n| vec![post(&core("persistentvolumeclaims"), &format!("c-{n}"), claim("slow"))],
        least: 0,
        change: || {
            let mut body = claim("local");
            body["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n",
                "volume.kubernetes.io/storage-provisioner": "setpoint.dev/local"});
            post(&core("persistentvolumeclaims"), "mine", body)
        },
        cost: Cost::Same,
    },
    Case {
        controller: "legacy-serviceaccount-token-cleaner-controller",
        once: nothing,
        each: |n| vec![post(&core("secrets"), &format!("s-{n}"), secret("Opaque", json!({"a": "b"})))],
        least: 0,
        change: || touch(format!("{CORE}/secrets/s-0")),
        cost: Cost::Nothing("all secrets are looked through once a day, whatever changed"),
    },
    Case {
        controller: "namespace-controller",
        once: nothing,
        each: |n| vec![post("/api/v1/namespaces", &format!("ns-{n}"), json!({}))],
        least: 0,
        change: || Delete("/api/v1/namespaces/ns-0".to_owned()),
        cost: Cost::Same,
    },
    Case {
        controller: "node-ipam-controller",
        once: nothing,
        each: |n| vec![node(&format!("n-{n}"))],
        least: 0,
        change: || node("one-more"),
        cost: Cost::Same,
    },
    Case {
        controller: "node-lifecycle-controller",
        once: nothing,
        each: |n| vec![node(&format!("n-{n}"))],
        least: 0,
        change: || touch(format!("{NODES}/n-0")),
        cost: Cost::Same,
    },
    // A device that is used is counted in `reads`.
    Case {
        controller: "device-taint-eviction-controller",
        once: || {
            let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
            let spec = json!({"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu-0"}]});
            vec![post("/apis/resource.k8s.io/v1/resourceslices", "s", json!({"spec": spec}))]
        },
        each: others,
        least: 0,
        change: || pod("mine", "mine", "n"),
        cost: Cost::Nothing("a pod without claims has no devices"),
    },
    Case {
        controller: "disruption-controller",
        once: || {
            let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}});
            vec![post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "b", json!({"spec": spec}))]
        },
        each: others,
        least: 0,
        change: || status("other-0", true, 1),
        cost: Cost::Same,
    },
    Case {
        controller: "persistentvolume-binder-controller",
        once: || vec![post("/api/v1/persistentvolumes", "mine", volume("mine"))],
        each: |n| {
            let class = format!("c-{n}");
            vec![
                post(&core("persistentvolumeclaims"), &class, claim("none")),
                post("/api/v1/persistentvolumes", &class, volume(&class)),
            ]
        },
        least: 0,
        change: || post(&core("persistentvolumeclaims"), "mine", claim("mine")),
        cost: Cost::Same,
    },
    Case {
        controller: "persistentvolume-expander-controller",
        once: || {
            let class = json!({"provisioner": "example.com", "allowVolumeExpansion": true});
            let mut body = claim("grows");
            body["spec"]["volumeName"] = json!("v");
            let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
            vec![
                post("/apis/storage.k8s.io/v1/storageclasses", "grows", class),
                post("/api/v1/persistentvolumes", "v", volume("grows")),
                post(&core("persistentvolumeclaims"), "mine", body),
                Merge(format!("{CORE}/persistentvolumeclaims/mine/status"), bound),
            ]
        },
        each: |n| vec![post(&core("persistentvolumeclaims"), &format!("c-{n}"), claim("slow"))],
        least: 0,
        change: || {
            let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
            Merge(format!("{CORE}/persistentvolumeclaims/mine"), larger)
        },
        cost: Cost::Same,
    },
    Case {
        controller: "persistentvolumeclaim-protection-controller",
        once: || vec![post(&core("persistentvolumeclaims"), "mine", claim("slow"))],
        each: |n| {
            let mut body = template("user");
            body["spec"]["volumes"] =
                json!([{"name": "v", "persistentVolumeClaim": {"claimName": format!("c-{n}")}}]);
            let name = format!("c-{n}");
            vec![
                post(&core("persistentvolumeclaims"), &name, claim("slow")),
                post(&core("pods"), &name, body),
            ]
        },
        least: 0,
        change: || Delete(format!("{CORE}/persistentvolumeclaims/mine")),
        cost: Cost::Same,
    },
    Case {
        controller: "persistentvolume-protection-controller",
        once: nothing,
        each: |n| vec![post("/api/v1/persistentvolumes", &format!("v-{n}"), volume("slow"))],
        least: 0,
        change: || Delete("/api/v1/persistentvolumes/v-0".to_owned()),
        cost: Cost::Same,
    },
    Case {
        controller: "pod-garbage-collector-controller",
        once: nothing,
        each: others,
        least: 0,
        change: || status("other-0", true, 1),
        cost: Cost::Nothing("all pods are looked through every 20 seconds, whatever changed"),
    },
    // Sets of many pods are counted in `reads`.
    Case {
        controller: "replicaset-controller",
        once: nothing,
        each: |n| {
            let name = format!("r-{n}");
            vec![post(&format!("{APPS}/replicasets"), &name, set(&name, 0))]
        },
        least: 0,
        change: || touch(format!("{APPS}/replicasets/r-0")),
        cost: Cost::Same,
    },
    Case {
        controller: "replicationcontroller-controller",
        once: nothing,
        each: |n| {
            let spec = json!({"replicas": 0, "selector": {"app": "rc"}, "template": template("rc")});
            vec![post(&core("replicationcontrollers"), &format!("r-{n}"), json!({"spec": spec}))]
        },
        least: 0,
        change: || touch(format!("{CORE}/replicationcontrollers/r-0")),
        cost: Cost::Same,
    },
    Case {
        controller: "resourceclaim-controller",
        once: nothing,
        each: |n| {
            let request = json!({"name": "one", "exactly": {"deviceClassName": "gpu.example.com"}});
            let spec = json!({"devices": {"requests": [request]}});
            let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
            let mut steps = others(n);
            steps.push(post(claims, &format!("c-{n}"), json!({"spec": spec})));
            steps
        },
        least: 0,
        change: || {
            let mut body = template("user");
            body["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "c-0"}]);
            post(&core("pods"), "user", body)
        },
        cost: Cost::Same,
    },
    // One of many pods that a quota counts is in `reads`.
    Case {
        controller: "resourcequota-controller",
        once: || vec![post(&core("resourcequotas"), "q", json!({"spec": {"hard": {"pods": "20000"}}}))],
        each: others,
        least: 0,
        change: || Merge(format!("{CORE}/resourcequotas/q"), json!({"spec": {"hard": {"pods": "20001"}}})),
        cost: Cost::Same,
    },
    Case {
        controller: "root-ca-certificate-publisher-controller",
        once: nothing,
        each: |n| vec![post("/api/v1/namespaces", &format!("ns-{n}"), json!({}))],
        least: 0,
        change: || touch("/api/v1/namespaces/default/configmaps/kube-root-ca.crt".to_owned()),
        cost: Cost::Same,
    },
    Case {
        controller: "service-cidr-controller",
        once: nothing,
        each: |n| {
            let spec = json!({"spec": {"ports": [{"port": 80}]}});
            vec![post(&core("services"), &format!("s-{n}"), spec)]
        },
        least: 0,
        change: || touch("/apis/networking.k8s.io/v1/servicecidrs/kubernetes".to_owned()),
        cost: Cost::Same,
    },
    Case {
        controller: "serviceaccount-controller",
        once: nothing,
        each: |n| vec![post("/api/v1/namespaces", &format!("ns-{n}"), json!({}))],
        least: 0,
        change: || Delete(format!("{CORE}/serviceaccounts/default")),
        cost: Cost::Same,
    },
    Case {
        controller: "statefulset-controller",
        once: nothing,
        each: |n| {
            let name = format!("s-{n}");
            vec![post(&format!("{APPS}/statefulsets"), &name, set(&name, 0))]
        },
        least: 0,
        change: || touch(format!("{APPS}/statefulsets/s-0")),
        cost: Cost::Same,
    },
    // One of the pods of a large set.
    Case {
        controller: "statefulset-controller",
        once: || {
            let mut body = set("web", 0);
            body["spec"]["podManagementPolicy"] = json!("Parallel");
            vec![post(&format!("{APPS}/statefulsets"), "web", body)]
        },
        each: |n| vec![Merge(format!("{APPS}/statefulsets/web"), json!({"spec": {"replicas": n + 1}}))],
        least: 0,
        change: || status("web-0", true, 1),
        cost: Cost::Same,
    },
    // With a claim each.
    Case {
        controller: "statefulset-controller",
        once: || {
            let mut body = set("web", 0);
            body["spec"]["podManagementPolicy"] = json!("Parallel");
            let mut template = claim("slow");
            template["metadata"]["name"] = json!("data");
            body["spec"]["volumeClaimTemplates"] = json!([template]);
            vec![post(&format!("{APPS}/statefulsets"), "web", body)]
        },
        each: |n| vec![Merge(format!("{APPS}/statefulsets/web"), json!({"spec": {"replicas": n + 1}}))],
        least: 0,
        change: || status("web-0", true, 1),
        cost: Cost::Same,
    },
    Case {
        controller: "token-cleaner-controller",
        once: nothing,
        each: |n| vec![post(SYSTEM_SECRETS, &format!("s-{n}"), secret("Opaque", json!({"a": "b"})))],
        least: 0,
        change: || {
            let token = json!({"token-id": "aaaaaa", "token-secret": "0123456789abcdef", "expiration": "2999-01-01T00:00:00Z"});
            post(SYSTEM_SECRETS, "bootstrap-token-aaaaaa", secret(TOKEN, token))
        },
        cost: Cost::Same,
    },
    Case {
        controller: "serviceaccount-token-controller",
        once: || vec![post(&core("serviceaccounts"), "robot", json!({}))],
        each: |n| {
            let name = format!("s-{n}");
            vec![
                post(&core("serviceaccounts"), &name, json!({})),
                post(&core("secrets"), &name, secret("Opaque", json!({"a": "b"}))),
            ]
        },
        least: 0,
        change: || {
            let robot = json!({"kubernetes.io/service-account.name": "robot"});
            let body =
                json!({"metadata": {"annotations": robot}, "type": "kubernetes.io/service-account-token"});
            post(&core("secrets"), "robot", body)
        },
        cost: Cost::Same,
    },
    Case {
        controller: "taint-eviction-controller",
        once: || vec![node("n"), pod("mine", "mine", "n")],
        each: |n| {
            let name = format!("n-{n}");
            vec![node(&name), pod(&name, "other", &name)]
        },
        least: 0,
        change: || {
            let taint = json!([{"key": "k", "value": "v", "effect": "NoExecute"}]);
            Merge(format!("{NODES}/n"), json!({"spec": {"taints": taint}}))
        },
        cost: Cost::Same,
    },
    Case {
        controller: "ttl-controller",
        once: nothing,
        each: |n| vec![node(&format!("n-{n}"))],
        least: 0,
        change: || node("one-more"),
        cost: Cost::Same,
    },
    Case {
        controller: "ttl-after-finished-controller",
        once: || {
            let is = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"});
            let status = json!({"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:00:00Z",
                "conditions": [is("SuccessCriteriaMet"), is("Complete")]});
            let jobs = format!("{BATCH}/jobs");
            vec![post(&jobs, "mine", job()), Merge(format!("{jobs}/mine/status"), json!({"status": status}))]
        },
        each: |n| vec![post(&format!("{BATCH}/jobs"), &format!("j-{n}"), job())],
        least: 0,
        change: || Merge(format!("{BATCH}/jobs/mine"), json!({"spec": {"ttlSecondsAfterFinished": 5}})),
        cost: Cost::Same,
    },
    Case {
        controller: "volumeattributesclass-protection-controller",
        once: || {
            let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
            vec![post(classes, "gold", json!({"driverName": "example.com", "parameters": {"a": "b"}}))]
        },
        each: |n| vec![post(&core("persistentvolumeclaims"), &format!("c-{n}"), claim("slow"))],
        least: 0,
        change: || Delete("/apis/storage.k8s.io/v1/volumeattributesclasses/gold".to_owned()),
        cost: Cost::Same,
    },
    Case {
        controller: "validatingadmissionpolicy-status-controller",
        once: nothing,
        each: |n| vec![post(POLICIES, &format!("p-{n}"), policy())],
        least: 0,
        change: || touch(format!("{POLICIES}/p-0")),
        cost: Cost::Same,
    },
];

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

fn policy() -> Value {
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]});
    json!({"spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.replicas < 5"}],
    }})
}
