//! The smallest valid object of every kind, and where it lives. A kind without a row here needs no more than a name.

use catalog::Resource;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "sweep";

/// The collection's path.
pub fn collection(resource: &Resource) -> String {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if resource.namespaced {
        format!("{root}/namespaces/{NAMESPACE}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    }
}

pub fn path(resource: &Resource, name: &str) -> String {
    format!("{}/{name}", collection(resource))
}

/// The `n`th name a test may use for an object of this resource.
pub fn name(resource: &Resource, n: usize) -> String {
    match resource.kind.as_str() {
        "IPAddress" => format!("10.96.7.{n}"),
        "APIService" => format!("v{}.sweep.example.com", n + 1),
        "CustomResourceDefinition" => format!("things{n}.sweep.example.com"),
        _ => format!("sweep-{n}"),
    }
}

/// Names of these say what is inside; none can be generated.
pub fn names_are_given(resource: &Resource) -> bool {
    matches!(resource.kind.as_str(), "IPAddress" | "APIService" | "CustomResourceDefinition")
}

/// A complete object, `kind` and `apiVersion` included.
pub fn object(resource: &Resource, name: &str) -> Value {
    let mut body = content(resource, name);
    body["kind"] = json!(resource.kind.as_str());
    body["apiVersion"] = json!(resource.api_version());
    body["metadata"] = json!({"name": name});
    body
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn content(resource: &Resource, name: &str) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    let job = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let webhook = json!({"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://a.example.com/x"}});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    match resource.kind.as_str() {
        "Event" if resource.group.is_empty() => {
            json!({"involvedObject": {"namespace": NAMESPACE, "name": "web"}, "reason": "R", "type": "Normal"})
        }
        "Event" => {
            json!({"regarding": {"namespace": NAMESPACE, "name": "web"}, "reason": "R", "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z", "action": "A", "reportingController": "example.com/c",
            "reportingInstance": "i"})
        }
        "PersistentVolumeClaim" => json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        "PersistentVolume" => {
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"}}})
        }
        "Pod" => json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        "PodTemplate" => json!({"template": template()}),
        "ReplicationController" => {
            json!({"spec": {"replicas": 1, "selector": {"app": "web"}, "template": template()}})
        }
        "ResourceQuota" => json!({"spec": {"hard": {"configmaps": "70"}}}),
        "LimitRange" => json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "100"}}]}}),
        "Service" => {
            json!({"spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]}})
        }
        "APIService" => {
            let version = name.split('.').next().unwrap_or_default();
            json!({"spec": {"group": "sweep.example.com", "version": version, "groupPriorityMinimum": 100,
                "versionPriority": 100, "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "a"}}})
        }
        "ControllerRevision" => json!({"revision": 1, "data": {"a": "b"}}),
        "DaemonSet" => json!({"spec": {"selector": selector, "template": template()}}),
        "Deployment" | "ReplicaSet" => {
            json!({"spec": {"replicas": 1, "selector": selector, "template": template()}})
        }
        "StatefulSet" => json!({"spec": {"replicas": 1, "serviceName": "web", "selector": selector,
            "template": template()}}),
        "HorizontalPodAutoscaler" => json!({"spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}),
        "Job" => json!({"spec": {"template": job}}),
        "CronJob" => json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job}}}}),
        "CertificateSigningRequest" => {
            json!({"spec": {"signerName": "example.com/signer", "usages": ["client auth"], "request": REQUEST}})
        }
        "IngressClass" => json!({"spec": {"controller": "example.com/c"}}),
        "Ingress" => {
            json!({"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}})
        }
        "IPAddress" => {
            json!({"spec": {"parentRef": {"resource": "services", "namespace": NAMESPACE, "name": "web"}}})
        }
        "NetworkPolicy" => json!({"spec": {"podSelector": {}}}),
        "ServiceCIDR" => json!({"spec": {"cidrs": ["10.97.0.0/24"]}}),
        "PodDisruptionBudget" => json!({"spec": {"minAvailable": 1, "selector": selector}}),
        "ClusterRole" | "Role" => json!({"rules": rules}),
        "ClusterRoleBinding" | "RoleBinding" => {
            json!({"roleRef": role, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}]})
        }
        "CSIDriver" => json!({"spec": {"attachRequired": false}}),
        "CSINode" => json!({"spec": {"drivers": [{"name": "a.example.com", "nodeID": "n"}]}}),
        "CSIStorageCapacity" => json!({"storageClassName": "fast", "capacity": "1Gi"}),
        "StorageClass" => json!({"provisioner": "example.com/p"}),
        "VolumeAttachment" => json!({"spec": {"attacher": "a.example.com", "nodeName": "n",
            "source": {"persistentVolumeName": "v"}}}),
        "VolumeAttributesClass" => json!({"driverName": "a.example.com", "parameters": {"a": "b"}}),
        "ValidatingAdmissionPolicy" => {
            json!({"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""],
            "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
            "validations": [{"expression": "true"}]}})
        }
        "ValidatingAdmissionPolicyBinding" => {
            json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}})
        }
        "MutatingAdmissionPolicy" => json!({"spec": {"reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"]}]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: \"test\", path: \"/kind\", value: \"Pod\"}]"}}]}}),
        "MutatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "p"}}),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => json!({"webhooks": [webhook]}),
        "CustomResourceDefinition" => {
            let plural = name.split('.').next().unwrap_or_default();
            json!({"spec": {"group": "sweep.example.com", "scope": "Namespaced",
                "names": {"plural": plural, "singular": plural.replace("things", "thing"),
                    "kind": format!("T{plural}"), "listKind": format!("T{plural}List")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
        }
        "PriorityClass" => json!({"value": 10}),
        "Lease" => json!({"spec": {"holderIdentity": "h"}}),
        "RuntimeClass" => json!({"handler": "runc"}),
        "EndpointSlice" => json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"name": "", "port": 80, "protocol": "TCP"}]}),
        "Endpoints" => json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
        "DeviceClass" => json!({"spec": {"selectors": [{"cel": {"expression": "true"}}]}}),
        "ResourceClaim" => json!({"spec": {"devices": {"requests": [{"name": "r", "exactly":
            {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}]}}}),
        "ResourceClaimTemplate" => json!({"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly":
            {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}]}}}}),
        "ResourceSlice" => json!({"spec": {"driver": "a.example.com", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
        "FlowSchema" => {
            json!({"spec": {"matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": "exempt"}}})
        }
        "PriorityLevelConfiguration" => {
            json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5,
            "limitResponse": {"type": "Reject"}}}})
        }
        _ => json!({}),
    }
}

/// A status that differs from the one an object is born with.
pub fn status(resource: &Resource) -> Value {
    let condition = json!({"type": "Sweep", "status": "True", "reason": "R", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    match resource.kind.as_str() {
        "Namespace" => json!({"phase": "Active", "conditions": [condition]}),
        "PersistentVolume" => json!({"phase": "Available", "message": "m"}),
        "Pod" => json!({"phase": "Running", "message": "m"}),
        "ReplicationController" | "ReplicaSet" | "StatefulSet" => json!({"replicas": 3}),
        "ResourceQuota" => json!({"hard": {"configmaps": "70"}, "used": {"configmaps": "3"}}),
        "Ingress" => json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
        "Service" => {
            json!({"loadBalancer": {}, "conditions": [{"type": "Ready", "status": "True", "reason": "R",
            "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
        }
        "DaemonSet" => {
            json!({"currentNumberScheduled": 3, "numberMisscheduled": 0, "desiredNumberScheduled": 3,
            "numberReady": 2})
        }
        "Deployment" => json!({"replicas": 3, "updatedReplicas": 2}),
        "HorizontalPodAutoscaler" => json!({"currentReplicas": 3, "desiredReplicas": 3}),
        "CronJob" => json!({"lastScheduleTime": "2026-01-01T00:00:00Z"}),
        "Job" => json!({"active": 1}),
        "PodDisruptionBudget" => json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
            "expectedPods": 2}),
        "VolumeAttachment" => json!({"attached": true}),
        "ValidatingAdmissionPolicy" => json!({"observedGeneration": 1}),
        "ResourceClaim" => json!({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "allocation": {"devices": {}}}),
        "CustomResourceDefinition" => json!({"conditions": [condition], "storedVersions": ["v1"],
            "acceptedNames": {"plural": "p", "kind": "K"}}),
        _ => json!({"conditions": [condition]}),
    }
}

/// A request for a certificate of jane, as openssl writes it, in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkpUQ0Jxd0lCQURBc01RMHdDd1lEVlFRS0RBUmtaWFp6TVF3d0NnWURWUVFLREFOdmNITXhEVEFMQmdOVgpCQU1NQkdwaGJtVXdkakFRQmdjcWhrak9QUUlCQmdVcmdRUUFJZ05pQUFSdmpDakFrNnk0WnQ1YWFzUE1OYTE1CkQ4MndtZE1xQXE4c3RTcUZuWmU0NW1NSkxhWCs0N3NnMUZkYUVja3BtVlpJYzRpQitqeXU4WFVDL3ZyMHZPdDcKbDBzY09RdXNZQzZ0V3JHS0NkMVlVeXdwL2xEVWI5ZFV0c05qRDFQTGIxMmdBREFLQmdncWhrak9QUVFEQXdOcApBREJtQWpFQTZzalpRbjFrcTNOUkJLMkJkSXR6NExMY2U1T0d5VVF1WGw3bkhMbjJlQkdJZEZPcURJUVJSakRaCmhKb3FUamdxQWpFQTNOQ2hFc0hTVG9yQlhjUXY2OGNPQVR3WmJUcjZwTVhORm9nQlpPdjRLMTVFNEMwd290S2sKbnJydmo5bUxxc3BGCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
