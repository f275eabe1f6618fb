//! Exact warnings, kind by kind: a small object, what is changed in it, and what is said.

mod pods;

use catalog::Catalog;
use object::{DeleteOptions, Propagation, Value, patch};

use crate::samples::{minimal, ready};
use crate::tests::{NOW, json, storage};
use crate::{Context, drop_disabled, kind_of, prepare_update, validate_create};

/// What is said when an object of this plural, changed by this merge patch, is created.
pub(super) fn created(catalog: &Catalog, plural: &str, change: &str) -> Vec<String> {
    let storage = storage(catalog, plural);
    let mut new = minimal(storage);
    patch::merge::apply(&mut new, json(change)).unwrap();
    let mut said = kind_of(storage).warn_before_create(&new);
    drop_disabled(kind_of(storage), &mut new, None);
    let new = ready(catalog, storage, new);
    let ctx = Context::plain(storage, NOW);
    let errors = validate_create(kind_of(storage), storage, &new, &ctx);
    // Events of a bad form are said about what is stored already; others must be possible.
    assert!(errors.is_empty(), "{plural} {change}: {errors:?}");
    said.extend(super::of(kind_of(storage), &new, None, &ctx));
    said
}

/// What is said when the stored object with `before` is changed by `change` through `subresource`. Values that
/// validation would no longer take may stand in it.
fn updated(
    catalog: &Catalog,
    plural: &str,
    subresource: Option<&str>,
    before: &str,
    change: &str,
) -> Vec<String> {
    let storage = storage(catalog, plural);
    let mut old = minimal(storage);
    patch::merge::apply(&mut old, json(before)).unwrap();
    let status = old.get("status").cloned();
    let mut old = ready(catalog, storage, old);
    old.make_map().set("status", status.unwrap_or_else(Value::map));
    let mut new = old.clone();
    patch::merge::apply(&mut new, json(change)).unwrap();
    let ctx = Context { subresource, ..Context::plain(storage, NOW) };
    prepare_update(kind_of(storage), &mut new, &old, &ctx);
    super::of(kind_of(storage), &new, Some(&old), &ctx)
}

/// (plural, what is changed in a minimal object, what a create is told)
const CREATES: &[(&str, &str, &[&str])] = &[
    ("configmaps", r#"{"data":{"a":"b"}}"#, &[]),
    (
        "endpoints",
        r#"{"subsets":[{"addresses":[{"ip":"2001:DB8::1"}],"notReadyAddresses":[{"ip":"2001:db8:0:0::2"}],"ports":[{"port":1}]}]}"#,
        &[
            r#"subsets[0].addresses[0].ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#,
            r#"subsets[0].notReadyAddresses[0].ip: IPv6 address "2001:db8:0:0::2" should be in RFC 5952 canonical format ("2001:db8::2")"#,
        ],
    ),
    (
        "endpoints",
        r#"{"metadata":{"labels":{"endpoints.kubernetes.io/managed-by":"endpoint-controller"}},"subsets":[{"addresses":[{"ip":"2001:DB8::1"}],"ports":[{"port":1}]}]}"#,
        &[],
    ),
    (
        "endpointslices",
        r#"{"addressType":"FQDN","endpoints":[{"addresses":["a.example.com"]}]}"#,
        &["spec.addressType: FQDN endpoints are deprecated"],
    ),
    (
        "nodes",
        r#"{"spec":{"configSource":{"configMap":{"name":"c","namespace":"n","kubeletConfigKey":"k"}},"externalID":"old","podCIDRs":["2001:DB8::/64"],"podCIDR":"2001:DB8::/64"}}"#,
        &[
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
            r#"spec.podCIDRs[0]: IPv6 CIDR value "2001:DB8::/64" should be in RFC 5952 canonical format ("2001:db8::/64")"#,
        ],
    ),
    (
        "persistentvolumeclaims",
        r#"{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"c"}},"spec":{"resources":{"requests":{"storage":"1500m"},"limits":{"storage":"3500m"}}}}"#,
        &[
            r#"metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead"#,
            r#"spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"spec.resources.limits[storage]: fractional byte value "3500m" is invalid, must be an integer"#,
        ],
    ),
    (
        "persistentvolumes",
        r#"{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"c","volume.beta.kubernetes.io/mount-options":"ro"}},
            "spec":{"persistentVolumeReclaimPolicy":"Recycle","hostPath":null,"cephfs":{"monitors":["m"]},
            "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"beta.kubernetes.io/os","operator":"In","values":["linux"]}]}]}}}}"#,
        &[
            r#"metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead"#,
            r#"metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" attribute instead"#,
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            r#"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead"#,
            "spec.cephfs: deprecated in v1.28, non-functional in v1.31+",
        ],
    ),
    (
        "resourcequotas",
        r#"{"spec":{"hard":{"cpu":"2","limits.cpu":"1","requests.memory":"2Gi","limits.memory":"1Gi","requests.ephemeral-storage":"1","limits.ephemeral-storage":"1"}}}"#,
        &[
            "ResourceQuota cpu (2) should be less than limits.cpu (1)",
            "ResourceQuota requests.memory (2Gi) should be less than limits.memory (1Gi)",
        ],
    ),
    (
        "secrets",
        r#"{"type":"kubernetes.io/tls","data":{"tls.crt":"","tls.key":""}}"#,
        &["tls: failed to find any PEM data in certificate input"],
    ),
    ("secrets", r#"{"type":"Opaque","data":{"tls.crt":""}}"#, &[]),
    (
        "serviceaccounts",
        r#"{"metadata":{"annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}}}"#,
        &[
            "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
        ],
    ),
    (
        "services",
        r#"{"metadata":{"annotations":{"service.kubernetes.io/topology-aware-hints":"auto"}},"spec":{"externalIPs":["2001:DB8::1"],"externalName":"x.example.com",
            "trafficDistribution":"PreferClose","type":"LoadBalancer","loadBalancerIP":"2001:db8:0::1","loadBalancerSourceRanges":["2001:DB8::/32"]}}"#,
        &[
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
            r#"spec.externalIPs[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            r#"spec.loadBalancerIP: IPv6 address "2001:db8:0::1" should be in RFC 5952 canonical format ("2001:db8::1")"#,
            r#"spec.loadBalancerSourceRanges[0]: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")"#,
            r#"spec.externalName is ignored when spec.type is not "ExternalName""#,
            r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#,
        ],
    ),
    (
        "services",
        r#"{"spec":{"clusterIP":"None","clusterIPs":["None"],"externalIPs":["8.8.8.8"],"sessionAffinity":"ClientIP"}}"#,
        &[
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
        ],
    ),
    (
        "services",
        r#"{"spec":{"type":"ExternalName","externalName":"x.example.com","externalIPs":["8.8.8.8"]}}"#,
        &[r#"spec.externalIPs is ignored when spec.type is "ExternalName""#],
    ),
    (
        "statefulsets",
        r#"{"spec":{"serviceName":"s","revisionHistoryLimit":-1,"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"},"limits":{"storage":"3500m"}}}}]}}"#,
        &[
            r#"spec.volumeClaimTemplates[0].resources.limits[storage]: fractional byte value "3500m" is invalid, must be an integer"#,
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ],
    ),
    (
        "jobs",
        r#"{"spec":{"completionMode":"Indexed","completions":100001,"parallelism":10001,"backoffLimitPerIndex":null}}"#,
        &[
            "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
        ],
    ),
    (
        "ingresses",
        r#"{"metadata":{"annotations":{"kubernetes.io/ingress.class":"nginx"}}}"#,
        &[
            r#"annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead"#,
        ],
    ),
    (
        "networkpolicies",
        r#"{"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"2001:DB8::/32","except":["2001:DB8:1::/48"]}}]}],"egress":[{"to":[{"podSelector":{}},{"ipBlock":{"cidr":"2001:0db8::/32"}}]}],"policyTypes":["Ingress","Egress"]}}"#,
        &[
            r#"spec.ingress[0].from[0].ipBlock.cidr: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")"#,
            r#"spec.ingress[0].from[0].ipBlock.except[0]: IPv6 CIDR value "2001:DB8:1::/48" should be in RFC 5952 canonical format ("2001:db8:1::/48")"#,
            r#"spec.egress[0].to[1].ipBlock.cidr: IPv6 CIDR value "2001:0db8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")"#,
        ],
    ),
    (
        "runtimeclasses",
        r#"{"handler":"h","scheduling":{"nodeSelector":{"beta.kubernetes.io/arch":"amd64"}}}"#,
        &[r#"scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/arch" instead"#],
    ),
    (
        "storageclasses",
        r#"{"reclaimPolicy":"Delete","volumeBindingMode":"Immediate","allowedTopologies":[{"matchLabelExpressions":[{"key":"failure-domain.beta.kubernetes.io/zone","values":["a"]}]}]}"#,
        &[
            r#"allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
        ],
    ),
    (
        "csistoragecapacities",
        r#"{"storageClassName":"c","nodeTopology":{"matchExpressions":[{"key":"beta.kubernetes.io/arch","operator":"Exists"}],"matchLabels":{"failure-domain.beta.kubernetes.io/region":"r"}}}"#,
        &[
            r#"nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead"#,
            r#"nodeTopology.matchLabels.failure-domain.beta.kubernetes.io/region: deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
        ],
    ),
    (
        "csidrivers",
        r#"{"spec":{"tokenRequests":[{"audience":"a"}]}}"#,
        &[
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes",
        ],
    ),
    (
        "csidrivers",
        r#"{"spec":{"tokenRequests":[{"audience":"a"}],"serviceAccountTokenInSecrets":false}}"#,
        &[],
    ),
];

#[test]
fn creates_get_exactly_these_warnings() {
    let catalog = Catalog::builtin();
    for (plural, change, expected) in CREATES {
        assert_eq!(created(&catalog, plural, change), *expected, "{plural} {change}");
    }
}

#[test]
fn an_ordinary_object_gets_no_warning() {
    let catalog = Catalog::builtin();
    for storage in catalog.storages() {
        let new = ready(&catalog, storage, minimal(storage));
        for (old, subresource) in [(None, None), (Some(&new), None), (Some(&new), Some("status"))] {
            let ctx = Context { subresource, ..Context::plain(storage, NOW) };
            let said = super::of(kind_of(storage), &new, old, &ctx);
            assert_eq!(said, Vec::<String>::new(), "{} {subresource:?}", storage.kind);
        }
    }
}

/// (plural, subresource, what stands there, what is changed, what the update is told)
type Update = (&'static str, Option<&'static str>, &'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const UPDATES: &[Update] = &[
    // Only what is new counts.
    ("serviceaccounts", None, r#"{"metadata":{"annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}}}"#, r#"{"metadata":{"labels":{"a":"b"}}}"#, &[]),
    ("ingresses", None, "{}", r#"{"metadata":{"annotations":{"kubernetes.io/ingress.class":"nginx"}}}"#, &[]),
    ("resourcequotas", None, "{}", r#"{"spec":{"hard":{"cpu":"2","limits.cpu":"1"}}}"#, &[]),
    ("endpointslices", None, r#"{"addressType":"FQDN"}"#, r#"{"metadata":{"labels":{"a":"b"}}}"#, &[]),
    ("endpointslices", None, r#"{"addressType":"IPv6"}"#, r#"{"endpoints":[{"addresses":["2001:DB8::1"]}]}"#,
        &[r#"endpoints[0].addresses[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#]),
    ("csidrivers", None, r#"{"spec":{"tokenRequests":[{"audience":"a"}]}}"#, r#"{"spec":{"requiresRepublish":true}}"#, &[]),
    ("csidrivers", None, r#"{"spec":{"tokenRequests":[{"audience":"a"}]}}"#, r#"{"spec":{"tokenRequests":[{"audience":"b"}]}}"#,
        &["spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"]),
    ("services", None, "{}", r#"{"spec":{"externalName":"x"}}"#, &[r#"spec.externalName is ignored when spec.type is not "ExternalName""#]),
    ("statefulsets", None, "{}", r#"{"spec":{"volumeClaimTemplates":[{"spec":{"resources":{"limits":{"storage":"100m"}}}}]}}"#,
        &[r#"spec.volumeClaimTemplates[0].Spec.resources.limits[storage]: fractional byte value "100m" is invalid, must be an integer"#]),
    ("cronjobs", None, r#"{"spec":{"schedule":"TZ=UTC 0 * * * *"}}"#, r#"{"metadata":{"labels":{"a":"b"}}}"#,
        &["cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"]),
    // Status has its own.
    ("services", Some("status"), "{}", r#"{"status":{"loadBalancer":{"ingress":[{"hostname":"h"},{"ip":"010.0.0.1"}]}}}"#,
        &[r#"status.loadBalancer.ingress[1]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1""#]),
    ("ingresses", Some("status"), "{}", r#"{"status":{"loadBalancer":{"ingress":[{"ip":"::ffff:1.2.3.4"}]}}}"#,
        &[r#"status.loadBalancer.ingress[0]: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4""#]),
    ("pods", Some("status"), "{}", r#"{"status":{"podIPs":[{"ip":"10.0.0.1"},{"ip":"FE80::1"}],"hostIPs":[{"ip":"10.0.0.01"}]}}"#,
        &[r#"status.podIPs[1].ip: IPv6 address "FE80::1" should be in RFC 5952 canonical format ("fe80::1")"#,
          r#"status.hostIPs[0].ip: non-standard IP address "10.0.0.01" is invalid: use "10.0.0.1""#]),
    ("nodes", Some("status"), "{}", r#"{"spec":{"externalID":"x"}}"#, &[]),
    ("pods", None, "{}", r#"{"spec":{"terminationGracePeriodSeconds":-1}}"#, &[]),
    // Blocks of addresses that validation no longer takes, but that may stand there.
    ("nodes", None, "{}", r#"{"spec":{"podCIDRs":["10.0.0.1/24","010.0.0.0/8","::ffff:1.2.3.4/120","10.0.0.0/08"]}}"#,
        &[r#"spec.podCIDRs[0]: CIDR value "10.0.0.1/24" is ambiguous in this context (should be "10.0.0.0/24" or "10.0.0.1/32"?)"#,
          r#"spec.podCIDRs[1]: non-standard CIDR value "010.0.0.0/8" is invalid: use "10.0.0.0/8""#,
          r#"spec.podCIDRs[2]: CIDR value "::ffff:1.2.3.4/120" is ambiguous in this context (should be "1.2.3.0/24" or "1.2.3.4/128"?)"#,
          r#"spec.podCIDRs[2]: non-standard CIDR value "::ffff:1.2.3.4/120" is invalid: use "1.2.3.0/24""#,
          r#"spec.podCIDRs[3]: non-standard CIDR value "10.0.0.0/08" is invalid: use "10.0.0.0/8""#]),
];

#[test]
fn updates_get_exactly_these_warnings() {
    let catalog = Catalog::builtin();
    for (plural, subresource, before, change, expected) in UPDATES {
        assert_eq!(updated(&catalog, plural, *subresource, before, change), *expected, "{plural} {change}");
    }
}

#[test]
fn a_name_reserved_for_static_manifests_warns_in_every_admission_kind() {
    let catalog = Catalog::builtin();
    let of_admission = catalog.storages().iter().filter(|s| s.group == *"admissionregistration.k8s.io");
    let mut kinds = 0;
    for storage in of_admission {
        let new = json(r#"{"metadata":{"name":"a.static.k8s.io"}}"#);
        let said = super::of(kind_of(storage), &new, None, &Context::plain(storage, NOW));
        let expected = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API";
        assert_eq!(said, [expected], "{}", storage.kind);
        assert_eq!(super::of(kind_of(storage), &new, Some(&new), &Context::plain(storage, NOW)), [expected]);
        kinds += 1;
    }
    assert_eq!(kinds, 6);
}

#[test]
fn new_unknown_formats_of_a_definition_warn() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "customresourcedefinitions");
    let definition = |schema: &str| {
        json(&format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#))
    };
    let new = definition(
        r#"{"type":"object","properties":{"a":{"type":"string","format":"date-time"},"b":{"type":"string","format":"nope"},
            "c":{"type":"integer","format":"int16"},"d":{"type":"array","items":{"type":"number","format":"double"}},
            "e":{"type":"object","format":"uri"},"f":{"type":"string","format":"k8s-short-name"}}}"#,
    );
    let ctx = Context::plain(storage, NOW);
    let all =
        [r#"unrecognized format "nope""#, r#"unrecognized format "int16""#, r#"unrecognized format "uri""#];
    assert_eq!(super::of(kind_of(storage), &new, None, &ctx), all);
    let old = definition(r#"{"type":"string","format":"nope"}"#);
    assert_eq!(super::of(kind_of(storage), &new, Some(&old), &ctx), all[1..]);
}

#[test]
fn deleting_a_job_without_a_propagation_policy_warns() {
    let catalog = Catalog::builtin();
    let said =
        |plural: &str, options: DeleteOptions| kind_of(storage(&catalog, plural)).warn_delete(&options);
    let expected = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
    assert_eq!(said("jobs", DeleteOptions::default()), Some(expected));
    let policy =
        |policy: &str| DeleteOptions { propagation_policy: Propagation::parse(policy), ..Default::default() };
    assert_eq!(said("jobs", policy("Orphan")), None);
    assert_eq!(said("jobs", DeleteOptions { orphan_dependents: Some(false), ..Default::default() }), None);
    assert_eq!(said("pods", DeleteOptions::default()), None);
}
