//! What upstream stored, and what must hold for every kind and any tree.

mod random;

use catalog::{Catalog, Resource};
use object::normalise::{Strict, normalise, normalise_decoded};
use object::{Map, Value};

use crate::tests::{json, text};
use crate::{kind_of_resource, unstored_kind};

const GOLDEN: &str = include_str!("../../tests/golden/defaults.jsonl");

fn apply(resource: &Resource, value: &mut Value) {
    super::apply(kind_of_resource(resource), &resource.version, value);
}

fn has_defaults(resource: &Resource) -> bool {
    kind_of_resource(resource).defaults(&resource.version).is_some()
}

fn canonical(catalog: &Catalog, resource: &Resource, value: &mut Value) {
    normalise(catalog.schema(), resource.ty, value, &mut Strict::off())
        .unwrap_or_else(|e| panic!("{}: {e} in {}", resource.kind, text(value)));
}

fn resource<'c>(catalog: &'c Catalog, kind: &str) -> &'c Resource {
    let parts: Vec<&str> = kind.split('/').collect();
    let (group, version, kind) = match parts[..] {
        [version, kind] => ("", version, kind),
        [group, version, kind] => (group, version, kind),
        _ => panic!("{kind}"),
    };
    catalog.find_kind(group, version, kind).unwrap_or_else(|| panic!("no kind {kind}"))
}

/// Takes away what a path such as `spec.containers[*].ports[name=x]` names; the last list element filter removes
/// elements. A list or map that loses its last member goes too, as it would in Go.
fn remove(value: &mut Value, path: &str) {
    let (step, rest) = path
        .split_once('.')
        .filter(|(s, _)| !s.contains('[') || s.ends_with(']'))
        .map_or_else(|| (path, None), |(step, rest)| (step, Some(rest)));
    let (name, filter) = match step.split_once('[') {
        Some((name, filter)) => (name, Some(filter.trim_end_matches(']'))),
        None => (step, None),
    };
    let Some(map) = value.as_map_mut() else { return };
    let Some(member) = map.get_mut(name) else { return };
    let emptied = match (filter, rest) {
        (None, None) => true,
        (None, Some(rest)) => {
            remove(member, rest);
            false
        }
        (Some("*"), Some(rest)) => {
            let Value::List(items) = member else { panic!("{name} is no list") };
            items.iter_mut().for_each(|item| remove(item, rest));
            false
        }
        (Some(filter), None) => {
            let Value::List(items) = member else { panic!("{name} is no list") };
            let (key, wanted) = filter.split_once('=').expect("key=value");
            items.retain(|item| item.str_at(&[key]) != Some(wanted));
            items.is_empty()
        }
        (Some(_), Some(_)) => panic!("{path}"),
    };
    if emptied {
        map.remove(name);
    }
}

#[test]
fn defaulting_gives_what_upstream_stored() {
    let catalog = Catalog::builtin();
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        cases += 1;
        let case = json(line);
        let resource = resource(&catalog, case.str_at(&["kind"]).unwrap());
        let mut ours = case.get("sent").unwrap().clone();
        let mut theirs = case.get("stored").unwrap().clone();
        let metadata = ours.map_at(&["metadata"]);
        for member in ["name", "namespace"] {
            if let Some(value) = theirs.at(&["metadata", member]) {
                metadata.set(member, value.clone());
            }
        }
        canonical(&catalog, resource, &mut ours);
        apply(resource, &mut ours);
        canonical(&catalog, resource, &mut ours);
        for (path, _) in case.get("elsewhere").unwrap().as_map().unwrap().iter() {
            let before = theirs.clone();
            remove(&mut theirs, path);
            assert_ne!(theirs, before, "{} has no {path} to leave to others", resource.kind);
        }
        canonical(&catalog, resource, &mut theirs);
        if ours != theirs {
            wrong.push(format!(
                "{} {}\n  ours   {}\n  theirs {}",
                resource.kind,
                text(case.get("sent").unwrap()),
                text(&ours),
                text(&theirs)
            ));
        }
    }
    assert_eq!(cases, 99);
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn defaulting_twice_is_defaulting_once_and_stays_canonical() {
    let catalog = Catalog::builtin();
    let rounds = 60;
    let mut changed = std::collections::BTreeSet::new();
    for resource in catalog.resources() {
        for seed in 0..rounds {
            let mut value = random::Trees::new(seed).object(catalog.schema(), resource.ty);
            canonical(&catalog, resource, &mut value);
            let before = value.clone();
            apply(resource, &mut value);
            if value != before {
                changed.insert(resource.kind.to_string());
            }
            let once = value.clone();
            apply(resource, &mut value);
            assert_eq!(text(&value), text(&once), "{} seed {seed}: {}", resource.kind, text(&before));
            canonical(&catalog, resource, &mut value);
            assert!(
                same_members(&value, &once),
                "{} seed {seed}:\n{}\n{}",
                resource.kind,
                text(&once),
                text(&value)
            );
            let settled = value.clone();
            apply(resource, &mut value);
            assert_eq!(text(&value), text(&settled), "{} seed {seed}, in order", resource.kind);
        }
    }
    // A test that never sees a default added would hold for no code at all.
    for resource in catalog.resources().iter().filter(|r| has_defaults(r)) {
        assert!(changed.contains(&*resource.kind), "{} got nothing in {rounds} rounds", resource.kind);
    }
}

/// What a client sent empty is still there when defaults come; and bodies of subresources (`TokenRequest`) have defaults too.
#[test]
fn defaulting_twice_is_defaulting_once_for_every_type_and_with_empty_lists() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let served = catalog.resources().iter().map(|r| (&*r.version, r.ty, kind_of_resource(r)));
    let bodies = catalog
        .resources()
        .iter()
        .flat_map(|r| &r.subresources)
        .filter_map(|s| Some((&*s.version, s.ty?, unstored_kind(&s.group, &s.kind))));
    for (version, ty, kind) in served.chain(bodies) {
        let name = &schema.get(ty).name;
        for seed in 0..20 {
            let mut value = random::Trees::new(seed).object(schema, ty);
            normalise_decoded(schema, ty, &mut value, &mut Strict::off())
                .unwrap_or_else(|e| panic!("{name} seed {seed}: {e}"));
            super::apply(kind, version, &mut value);
            let once = value.clone();
            super::apply(kind, version, &mut value);
            assert_eq!(text(&value), text(&once), "{name} seed {seed}");
        }
    }
}

/// The same tree, whatever the order of its members.
fn same_members(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            let found =
                |(name, value): (_, &Value)| b.get(name).is_some_and(|other| same_members(value, other));
            a.len() == b.len() && a.iter().all(|(name, value)| found((name, value)))
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_members(a, b))
        }
        _ => a == b,
    }
}

#[test]
fn no_tree_however_broken_makes_defaulting_panic() {
    let catalog = Catalog::builtin();
    for resource in catalog.resources() {
        for seed in 0..60 {
            let mut trees = random::Trees::new(seed);
            let mut value = trees.object(catalog.schema(), resource.ty);
            trees.break_some(&mut value);
            apply(resource, &mut value);
            let once = value.clone();
            apply(resource, &mut value);
            assert_eq!(text(&value), text(&once), "{} seed {seed}", resource.kind);
        }
        for mut nothing in [Value::Null, Value::Int(1), Value::List(vec![Value::Null]), Value::from("x")] {
            let before = nothing.clone();
            apply(resource, &mut nothing);
            assert_eq!(nothing, before);
        }
        apply(resource, &mut Value::Map(Map::default()));
    }
}

#[test]
fn a_token_request_defaults_to_an_hour() {
    let mut request = json(r#"{"spec":{"audiences":["a"]}}"#);
    super::apply(unstored_kind("authentication.k8s.io", "TokenRequest"), "v1", &mut request);
    assert_eq!(text(&request), r#"{"spec":{"audiences":["a"],"expirationSeconds":3600}}"#);
}

/// Sent, and what must come out; both canonical. For rules the recorded cases do not reach.
fn check(kind: &str, sent: &str, wanted: &str) {
    let catalog = Catalog::builtin();
    let resource = resource(&catalog, kind);
    let (mut ours, mut wanted) = (json(sent), json(wanted));
    canonical(&catalog, resource, &mut ours);
    apply(resource, &mut ours);
    canonical(&catalog, resource, &mut ours);
    canonical(&catalog, resource, &mut wanted);
    assert_eq!(text(&ours), text(&wanted));
}

/// A pod whose containers and resources are these, without the defaults of every pod.
fn check_resources(sent: &str, wanted_pod: &str) {
    let catalog = Catalog::builtin();
    let resource = resource(&catalog, "v1/Pod");
    let mut ours = json(sent);
    canonical(&catalog, resource, &mut ours);
    apply(resource, &mut ours);
    canonical(&catalog, resource, &mut ours);
    assert_eq!(ours.at(&["spec", "resources"]).map(text).unwrap_or_default(), wanted_pod, "{sent}");
}

#[test]
fn pod_level_requests_are_the_sum_of_its_containers_or_its_limits() {
    check_resources(
        r#"{"spec":{"resources":{"limits":{"cpu":"2","memory":"1Gi"}},"containers":[
            {"name":"a","resources":{"requests":{"cpu":"100m"}}},{"name":"b","resources":{"limits":{"cpu":"0.5"}}}]}}"#,
        r#"{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"600m","memory":"1Gi"}}"#,
    );
    // An init container with the sidecar before it needs more than all containers together.
    check_resources(
        r#"{"spec":{"resources":{"limits":{"cpu":"9"}},"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],
            "initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},
                              {"name":"i","resources":{"requests":{"cpu":"3"}}}]}}"#,
        r#"{"limits":{"cpu":"9"},"requests":{"cpu":"4"}}"#,
    );
    // Huge pages: limits of the containers become the pod's, and its requests are its limits.
    check_resources(
        r#"{"spec":{"resources":{"requests":{"cpu":"1"}},"containers":[{"name":"a","resources":{"limits":{"hugepages-2Mi":"4Mi","memory":"1Gi"}}}]}}"#,
        r#"{"limits":{"hugepages-2Mi":"4Mi"},"requests":{"cpu":"1","hugepages-2Mi":"4Mi","memory":"1Gi"}}"#,
    );
    // Without limits requests are left alone; what pods cannot ask for is not copied.
    check_resources(
        r#"{"spec":{"resources":{"requests":{"cpu":"1"}},"containers":[{"name":"a","resources":{"requests":{"memory":"1Gi"}}}]}}"#,
        r#"{"requests":{"cpu":"1"}}"#,
    );
    check_resources(
        r#"{"spec":{"resources":{"limits":{"cpu":"1","example.com/gpu":"1"}},"containers":[]}}"#,
        r#"{"limits":{"cpu":"1","example.com/gpu":"1"},"requests":{"cpu":"1"}}"#,
    );
}

#[test]
fn zero_is_kept_where_the_field_is_a_pointer() {
    check(
        "apps/v1/StatefulSet",
        r#"{"spec":{"replicas":0,"revisionHistoryLimit":0,"updateStrategy":{"type":"RollingUpdate"},"template":{"spec":{"terminationGracePeriodSeconds":0}}}}"#,
        r#"{"spec":{"replicas":0,"revisionHistoryLimit":0,"updateStrategy":{"type":"RollingUpdate"},"podManagementPolicy":"OrderedReady",
            "persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},
            "template":{"spec":{"terminationGracePeriodSeconds":0,"dnsPolicy":"ClusterFirst","restartPolicy":"Always","securityContext":{},"schedulerName":"default-scheduler"}}}}"#,
    );
    check(
        "flowcontrol.apiserver.k8s.io/v1/FlowSchema",
        r#"{"spec":{"matchingPrecedence":0,"priorityLevelConfiguration":{"name":"x"}}}"#,
        r#"{"spec":{"matchingPrecedence":1000,"priorityLevelConfiguration":{"name":"x"}}}"#,
    );
}

#[test]
fn services_get_policies_by_their_type() {
    let port = r#""ports":[{"port":80,"protocol":"TCP","targetPort":80}]"#;
    check(
        "v1/Service",
        r#"{"spec":{"externalIPs":["1.2.3.4"],"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":1}},"ports":[{"port":80,"targetPort":""}]}}"#,
        &format!(
            r#"{{"spec":{{"externalIPs":["1.2.3.4"],"type":"ClusterIP","sessionAffinity":"None","externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster",{port}}}}}"#
        ),
    );
    check(
        "v1/Service",
        r#"{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"sessionAffinity":"ClientIP","ports":[{"port":80}]},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"},{"hostname":"h"}]}}}"#,
        &format!(
            r#"{{"spec":{{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"sessionAffinity":"ClientIP","sessionAffinityConfig":{{"clientIP":{{"timeoutSeconds":10800}}}},"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster",{port}}},"status":{{"loadBalancer":{{"ingress":[{{"ip":"1.2.3.4","ipMode":"VIP"}},{{"hostname":"h"}}]}}}}}}"#
        ),
    );
}

#[test]
fn labels_of_the_template_become_those_of_the_object() {
    let catalog = Catalog::builtin();
    for (kind, wanted) in [("v1/ReplicationController", true), ("apps/v1/ReplicaSet", false)] {
        let resource = resource(&catalog, kind);
        let mut object = json(r#"{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}"#);
        canonical(&catalog, resource, &mut object);
        apply(resource, &mut object);
        assert_eq!(object.str_at(&["metadata", "labels", "a"]) == Some("b"), wanted, "{kind}");
    }
}

#[test]
fn fields_with_two_names_agree() {
    let catalog = Catalog::builtin();
    for (kind, sent, path, wanted) in [
        ("v1/Pod", r#"{"spec":{"serviceAccount":"a"}}"#, "spec.serviceAccountName", r#""a""#),
        (
            "v1/Pod",
            r#"{"spec":{"serviceAccount":"a","serviceAccountName":"b"}}"#,
            "spec.serviceAccount",
            r#""b""#,
        ),
        (
            "v1/Pod",
            r#"{"spec":{"terminationGracePeriodSeconds":-5}}"#,
            "spec.terminationGracePeriodSeconds",
            "1",
        ),
        ("v1/Pod", r#"{"status":{"podIP":"1.1.1.1"}}"#, "status.podIPs", r#"[{"ip":"1.1.1.1"}]"#),
        (
            "v1/Pod",
            r#"{"status":{"podIP":"1.1.1.1","podIPs":[{"ip":"2.2.2.2"},{"ip":"3::3"}]}}"#,
            "status.podIPs",
            r#"[{"ip":"1.1.1.1"}]"#,
        ),
        (
            "v1/Pod",
            r#"{"status":{"podIPs":[{"ip":"2.2.2.2"},{"ip":"3::3"}]}}"#,
            "status.podIP",
            r#""2.2.2.2""#,
        ),
        (
            "v1/Pod",
            r#"{"metadata":{"annotations":{"pod.beta.kubernetes.io/init-containers":"[]","a":"b"}}}"#,
            "metadata.annotations",
            r#"{"a":"b"}"#,
        ),
        ("v1/Node", r#"{"spec":{"podCIDR":"10.0.0.0/24"}}"#, "spec.podCIDRs", r#"["10.0.0.0/24"]"#),
        ("v1/Node", r#"{"spec":{"podCIDRs":["10.0.0.0/24"]}}"#, "spec.podCIDR", r#""10.0.0.0/24""#),
        (
            "apps/v1/Deployment",
            r#"{"spec":{"template":{"spec":{"serviceAccountName":"a"}}}}"#,
            "spec.template.spec.serviceAccount",
            r#""a""#,
        ),
    ] {
        let resource = resource(&catalog, kind);
        let mut value = json(sent);
        canonical(&catalog, resource, &mut value);
        apply(resource, &mut value);
        let path: Vec<&str> = path.split('.').collect();
        assert_eq!(value.at(&path).map(text).as_deref(), Some(wanted), "{kind} {sent}");
    }
}

#[test]
fn the_rest_of_the_kinds() {
    check(
        "v1/Node",
        r#"{"metadata":{"name":"x"},"status":{"capacity":{"cpu":"1500u","memory":"1Gi"}}}"#,
        r#"{"metadata":{"name":"x"},"status":{"capacity":{"cpu":"2m","memory":"1Gi"},"allocatable":{"cpu":"2m","memory":"1Gi"}}}"#,
    );
    check(
        "v1/Namespace",
        r#"{"metadata":{"name":"x","labels":{"kubernetes.io/metadata.name":"y"}}}"#,
        r#"{"metadata":{"name":"x","labels":{"kubernetes.io/metadata.name":"x"}},"status":{"phase":"Active"}}"#,
    );
    check(
        "v1/Namespace",
        r#"{"metadata":{"generateName":"x"}}"#,
        r#"{"metadata":{"generateName":"x"},"status":{"phase":"Active"}}"#,
    );
    check(
        "v1/PersistentVolume",
        r#"{"spec":{"azureDisk":{"diskName":"d","diskURI":"u"}}}"#,
        r#"{"spec":{"azureDisk":{"diskName":"d","diskURI":"u","cachingMode":"ReadWrite","fsType":"ext4","readOnly":false,"kind":"Shared"},"persistentVolumeReclaimPolicy":"Retain","volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#,
    );
    check(
        "storage.k8s.io/v1/VolumeAttachment",
        r#"{"spec":{"attacher":"a","nodeName":"n","source":{"inlineVolumeSpec":{"hostPath":{"path":"/x"},"scaleIO":{"gateway":"g","system":"s","secretRef":null}}}}}"#,
        r#"{"spec":{"attacher":"a","nodeName":"n","source":{"inlineVolumeSpec":{"hostPath":{"path":"/x","type":""},"scaleIO":{"gateway":"g","system":"s","secretRef":null,"storageMode":"ThinProvisioned","fsType":"xfs"}}}}}"#,
    );
    check(
        "apiregistration.k8s.io/v1/APIService",
        r#"{"spec":{"service":{"name":"n","namespace":"s"}}}"#,
        r#"{"spec":{"service":{"name":"n","namespace":"s","port":443}}}"#,
    );
    check(
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        r#"{"spec":{"names":{"plural":"foos","kind":"Foo","listKind":"Foos"},"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"n","namespace":"s"}}}}}}"#,
        r#"{"spec":{"names":{"plural":"foos","singular":"foo","kind":"Foo","listKind":"Foos"},"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"n","namespace":"s","port":443}}}}}}"#,
    );
    check(
        "admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding",
        r#"{"spec":{"policyName":"p","matchResources":{"excludeResourceRules":[{"resources":["x"]}]}}}"#,
        r#"{"spec":{"policyName":"p","matchResources":{"excludeResourceRules":[{"resources":["x"],"scope":"*"}],"matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{}}}}"#,
    );
    check(
        "flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration",
        r#"{"spec":{"type":"Exempt","exempt":{}}}"#,
        r#"{"spec":{"type":"Exempt","exempt":{"nominalConcurrencyShares":0,"lendablePercent":0}}}"#,
    );
    check(
        "resource.k8s.io/v1/ResourceClaimTemplate",
        r#"{"spec":{"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"a","deviceClassName":"c","allocationMode":"All","tolerations":[{"key":"k"}]},{"name":"b","deviceClassName":"c"}]}]}}}}"#,
        r#"{"spec":{"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"a","deviceClassName":"c","allocationMode":"All","tolerations":[{"key":"k","operator":"Equal"}]},{"name":"b","deviceClassName":"c","allocationMode":"ExactCount","count":1}]}]}}}}"#,
    );
    check(
        "resource.k8s.io/v1/ResourceSlice",
        r#"{"spec":{"devices":[{"name":"d","nodeAllocatableResourceMappings":{"cpu":{"capacityKey":"c"}}}]}}"#,
        r#"{"spec":{"devices":[{"name":"d","nodeAllocatableResourceMappings":{"cpu":{"capacityKey":"c","allocationMultiplier":"1"}}}]}}"#,
    );
}
