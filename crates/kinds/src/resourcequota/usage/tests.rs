//! What objects use, by table: a tree in, amounts out.

use codec::json;
use object::Value;

use super::device_claims::Lookup;
use super::evaluator::Evaluator;
use super::list;
use super::pods;
use super::scopes::{Facts, Selector};

const NOW: i64 = 1_800_000_000;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), None).unwrap()
}

/// An empty cluster.
struct Nothing;

impl Lookup for Nothing {
    fn device_class(&self, _: &str) -> Option<Value> {
        None
    }
    fn pod(&self, _: &str, _: &str) -> Option<Value> {
        None
    }
    fn claims_of_pod(&self, _: &str, _: &str) -> Vec<Value> {
        Vec::new()
    }
}

/// The names whose amount is not the plain count of the object.
fn used(evaluator: &Evaluator, text: &str) -> String {
    list::show(&evaluator.measure(&tree(text), NOW, &Nothing).used)
}

fn pod(spec: &str, rest: &str) -> String {
    format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}{rest}}}"#)
}

#[test]
fn pods_use_what_their_containers_need_together() {
    let cases: [(&str, String, &str); 9] = [
        ("nothing said", pod(r#"{"containers":[{"name":"a"}]}"#, ""), "count/pods=1,pods=1"),
        (
            "two containers, requests and limits apart",
            pod(
                r#"{"containers":[
                    {"name":"a","resources":{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"1"}}},
                    {"name":"b","resources":{"requests":{"cpu":"200m"},"limits":{"cpu":"1","ephemeral-storage":"1Gi"}}}]}"#,
                "",
            ),
            "count/pods=1,cpu=300m,limits.cpu=2,limits.ephemeral-storage=1Gi,memory=1Gi,pods=1,\
             requests.cpu=300m,requests.memory=1Gi",
        ),
        (
            "an init container that needs more than the rest",
            pod(
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],
                    "initContainers":[{"name":"i","resources":{"requests":{"cpu":"3"}}}]}"#,
                "",
            ),
            "count/pods=1,cpu=3,pods=1,requests.cpu=3",
        ),
        (
            "a sidecar counts beside the others, and beside later init containers",
            pod(
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],
                    "initContainers":[
                      {"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
                      {"name":"i","resources":{"requests":{"cpu":"4"}}}]}"#,
                "",
            ),
            "count/pods=1,cpu=6,pods=1,requests.cpu=6",
        ),
        (
            "the pod's own word goes before its containers', overhead comes on top",
            pod(
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1","ephemeral-storage":"5"}}}],
                    "resources":{"requests":{"cpu":"2"},"limits":{"memory":"1Gi"}},
                    "overhead":{"cpu":"500m","memory":"1Gi"}}"#,
                "",
            ),
            "count/pods=1,cpu=2500m,ephemeral-storage=5,limits.memory=2Gi,memory=1Gi,pods=1,requests.cpu=2500m,\
             requests.ephemeral-storage=5,requests.memory=1Gi",
        ),
        (
            "huge pages and extended resources",
            pod(
                r#"{"containers":[{"name":"a","resources":{"requests":{"hugepages-2Mi":"4Mi","example.com/gpu":"2"}}}]}"#,
                "",
            ),
            "count/pods=1,hugepages-2Mi=4Mi,pods=1,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi",
        ),
        (
            "a pod that has ended is only stored",
            pod(
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}"#,
                r#","status":{"phase":"Succeeded"}"#,
            ),
            "count/pods=1",
        ),
        (
            "while it is resized, the larger counts",
            pod(
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}"#,
                r#","status":{"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"3"}},
                    "allocatedResources":{"cpu":"2"}}]}"#,
            ),
            "count/pods=1,cpu=3,pods=1,requests.cpu=3",
        ),
        (
            "a resize that cannot be done does not count",
            pod(
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"9"}}}]}"#,
                r#","status":{"conditions":[{"type":"PodResizePending","reason":"Infeasible"}],
                    "containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"3"}}}]}"#,
            ),
            "count/pods=1,cpu=3,pods=1,requests.cpu=3",
        ),
    ];
    for (what, pod, want) in cases {
        assert_eq!(used(&Evaluator::Pods, &pod), want, "{what}");
    }
}

#[test]
fn a_pod_long_past_its_deletion_only_counts_as_stored() {
    let text = |at: &str| {
        format!(
            r#"{{"metadata":{{"deletionTimestamp":"{at}","deletionGracePeriodSeconds":30}},"spec":{{"containers":[]}}}}"#
        )
    };
    let fresh = Evaluator::Pods.measure(&tree(&text("2027-01-15T08:00:00Z")), NOW, &Nothing);
    assert_eq!((list::show(&fresh.used), fresh.until), ("count/pods=1,pods=1".into(), Some(NOW + 30)));
    let stuck = Evaluator::Pods.measure(&tree(&text("2027-01-15T07:59:29Z")), NOW, &Nothing);
    assert_eq!((list::show(&stuck.used), stuck.until), ("count/pods=1".into(), None));
}

#[test]
fn other_kinds_use_what_their_evaluator_says() {
    let cases: [(&str, Evaluator, &str, &str); 9] = [
        (
            "cluster ip",
            Evaluator::Services,
            r#"{"spec":{"type":"ClusterIP","ports":[{"port":1}]}}"#,
            "count/services=1,services=1,services.loadbalancers=0,services.nodeports=0",
        ),
        (
            "node ports to come",
            Evaluator::Services,
            r#"{"spec":{"type":"NodePort","ports":[{"port":1},{"port":2}]}}"#,
            "count/services=1,services=1,services.loadbalancers=0,services.nodeports=2",
        ),
        (
            "load balancer",
            Evaluator::Services,
            r#"{"spec":{"type":"LoadBalancer","ports":[{"port":1},{"port":2}]}}"#,
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2",
        ),
        (
            "load balancer without node ports but those named",
            Evaluator::Services,
            r#"{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,
                "ports":[{"port":1,"nodePort":30000},{"port":2}]}}"#,
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=1",
        ),
        (
            "claim of a class",
            Evaluator::VolumeClaims,
            r#"{"spec":{"storageClassName":"gold","resources":{"requests":{"storage":"10Gi"}}}}"#,
            "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             gold.storageclass.storage.k8s.io/requests.storage=10Gi,persistentvolumeclaims=1,requests.storage=10Gi",
        ),
        (
            "claim that was grown further, in whole bytes",
            Evaluator::VolumeClaims,
            r#"{"spec":{"resources":{"requests":{"storage":"500m"}}},"status":{"allocatedResources":{"storage":"1500m"}}}"#,
            "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2",
        ),
        (
            "devices, all of a class",
            Evaluator::DeviceClaims,
            r#"{"spec":{"devices":{"requests":[
                {"name":"a","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":2}},
                {"name":"b","exactly":{"deviceClassName":"gpu","allocationMode":"All"}}]}}}"#,
            "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=34",
        ),
        (
            "the most expensive way by class",
            Evaluator::DeviceClaims,
            r#"{"spec":{"devices":{"requests":[{"name":"a","firstAvailable":[
                {"deviceClassName":"gpu","allocationMode":"ExactCount","count":1},
                {"deviceClassName":"gpu","allocationMode":"ExactCount","count":3},
                {"deviceClassName":"nic","allocationMode":"ExactCount","count":2}]}]}}}"#,
            "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=3,\
             nic.deviceclass.resource.k8s.io/devices=2",
        ),
        (
            "broken shapes",
            Evaluator::Services,
            r#"{"spec":{"ports":7,"type":[]}}"#,
            "count/services=1,services=1,services.loadbalancers=0,services.nodeports=0",
        ),
    ];
    for (what, evaluator, text, want) in cases {
        assert_eq!(used(&evaluator, text), want, "{what}");
    }
}

#[test]
fn names_belong_to_their_evaluator() {
    for name in [
        "pods",
        "count/pods",
        "cpu",
        "limits.memory",
        "hugepages-2Mi",
        "requests.hugepages-1Gi",
        "requests.example.com/gpu",
    ] {
        assert!(Evaluator::Pods.counts(name), "{name}");
    }
    for name in ["requests.storage", "count/deployments.apps", "example.com/gpu", "services", "secrets"] {
        assert!(!Evaluator::Pods.counts(name), "{name}");
    }
    assert!(Evaluator::VolumeClaims.counts("a.b.storageclass.storage.k8s.io/requests.storage"));
    assert!(!Evaluator::VolumeClaims.counts("a.storageclass.storage.k8s.io/other"));
    let catalog = catalog::Catalog::builtin();
    let of = |group: &str, plural: &str| {
        let storage = catalog.storages().iter().find(|s| s.group == *group && s.plural == *plural);
        Evaluator::of(storage.unwrap())
    };
    assert_eq!(of("", "secrets"), Some(Evaluator::Count(vec!["count/secrets".into(), "secrets".into()])));
    assert_eq!(of("apps", "deployments"), Some(Evaluator::Count(vec!["count/deployments.apps".into()])));
    assert_eq!(of("", "events"), None);
    assert_eq!(of("", "nodes"), None);
}

#[test]
fn containers_must_say_what_a_quota_of_compute_counts() {
    let text = r#"{"spec":{"containers":[{"name":"b"},{"name":"a","resources":{"limits":{"memory":"1"}}}],
        "initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}]}}"#;
    let check = |names: &[&str]| pods::check(&tree(text), names.iter().copied());
    assert_eq!(
        check(&["requests.cpu", "limits.memory", "pods", "requests.ephemeral-storage"]),
        Err("must specify limits.memory for: b,i; requests.cpu for: a,b".into())
    );
    assert_eq!(check(&["pods", "hugepages-2Mi"]), Ok(()));
    let whole = r#"{"spec":{"containers":[{"name":"b"}],"resources":{"limits":{"cpu":"1"}}}}"#;
    assert_eq!(pods::check(&tree(whole), ["memory"].into_iter()), Ok(()));
}

#[test]
fn scopes_choose_pods_and_claims() {
    let select = |scope: &str, operator: &str, values: &[&str]| Selector {
        scope: scope.into(),
        operator: operator.into(),
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    };
    let exists = |scope: &str| select(scope, "Exists", &[]);
    let facts = |text: &str| pods::facts(&tree(text));
    let plain = facts(r#"{"spec":{"containers":[{"name":"a"}]}}"#);
    let rich = facts(
        r#"{"spec":{"activeDeadlineSeconds":0,"priorityClassName":"high",
            "containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}],
            "affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
                {"weight":1,"podAffinityTerm":{"namespaceSelector":{}}}]}}}}"#,
    );
    let claim = Facts::Claim { classes: vec!["fast".into(), "slow".into()] };
    let bare = Facts::Claim { classes: vec![] };
    // (selector, plain pod, rich pod, claim with classes, claim without)
    let cases = [
        (exists("Terminating"), false, true, false, false),
        (exists("NotTerminating"), true, false, false, false),
        (exists("BestEffort"), true, false, false, false),
        (exists("NotBestEffort"), false, true, false, false),
        (exists("CrossNamespacePodAffinity"), false, true, false, false),
        (exists("PriorityClass"), false, true, false, false),
        (select("PriorityClass", "In", &["low", "high"]), false, true, false, false),
        (select("PriorityClass", "NotIn", &["high"]), true, false, false, false),
        (select("PriorityClass", "DoesNotExist", &[]), true, false, false, false),
        (select("VolumeAttributesClass", "In", &["slow"]), false, false, true, false),
        (select("VolumeAttributesClass", "NotIn", &["slow"]), false, false, true, true),
        (exists("VolumeAttributesClass"), false, false, true, false),
        (exists("Nonsense"), false, false, false, false),
        (select("PriorityClass", "Nonsense", &[]), false, false, false, false),
    ];
    for (selector, a, b, c, d) in cases {
        let got = [&plain, &rich, &claim, &bare].map(|facts| selector.matches(facts));
        assert_eq!(got, [a, b, c, d], "{selector}");
        assert!(!selector.matches(&Facts::Other));
    }
    assert_eq!(select("PriorityClass", "In", &["a", "b"]).to_string(), "{PriorityClass In [a b]}");
}

#[test]
fn growth_ignores_resources_that_shrank() {
    let list = |text: &str| list::read(&tree(text), &[]);
    let grown = list::growth(&list(r#"{"a":"3","b":"1","c":"2Gi"}"#), &list(r#"{"a":"1","b":"2","d":"9"}"#));
    assert_eq!(list::show(&grown), "a=2,c=2Gi");
}
