//! Warnings about pods, and that every kind with a template gives the same ones at its own path.

use catalog::Catalog;

use super::{created, updated};

const DEEP: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const SOFT: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// (what is changed in the spec of a minimal pod, what a create of the pod is told)
#[rustfmt::skip]
fn cases() -> Vec<(String, Vec<String>)> {
    let case = |change: &str, said: &[&str]| {
        let named = |text: &str| text.replace("DEEP", DEEP).replace("SOFT", SOFT);
        (named(change), said.iter().map(|s| named(s)).collect())
    };
    vec![
        case(r#"{"nodeSelector":{"beta.kubernetes.io/arch":"a","node-role.kubernetes.io/master":"","kubernetes.io/os":"linux"}}"#, &[
            r#"spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead"#,
            r#"spec.nodeSelector[node-role.kubernetes.io/master]: use "node-role.kubernetes.io/control-plane" instead"#,
        ]),
        case(r#"{"affinity":{"nodeAffinity":{"DEEP":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"beta.kubernetes.io/instance-type","operator":"Exists"}]}]},
                "SOFT":[{"weight":1,"preference":{"matchExpressions":[{"key":"app.kubernetes.io/created-by","operator":"In","values":["-bad"]}]}}]}}}"#, &[
            r#"spec.affinity.nodeAffinity.DEEP.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/instance-type is deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
            "spec.affinity.nodeAffinity.SOFT[0].preference.matchExpressions[0].key: app.kubernetes.io/created-by is deprecated since v1.9",
            "spec.affinity.nodeAffinity.SOFT[0].preference.matchExpressions[0].values[0]: -bad is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ]),
        case(r#"{"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"failure-domain.beta.kubernetes.io/region","whenUnsatisfiable":"DoNotSchedule"}]}"#, &[
            r#"spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/region is deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ]),
        case(r#"{"volumes":[{"name":"a","gitRepo":{"repository":"r"}},{"name":"b","flocker":{"datasetName":"d"}},{"name":"c","cephfs":{"monitors":["m"]}},
                {"name":"d","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"},"limits":{"storage":"1500m"}}}}}}]}"#, &[
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "spec.volumes[1].flocker: deprecated in v1.22, non-functional in v1.25+",
            "spec.volumes[2].cephfs: deprecated in v1.28, non-functional in v1.31+",
            r#"spec.volumes[3].ephemeral.volumeClaimTemplate.spec.resources.limits[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
        ]),
        case(r#"{"volumes":[{"name":"a","configMap":{"name":"m","items":[{"key":"k","path":"p"},{"key":"l","path":"p/q"},{"key":"n","path":"pq"}]}},
                {"name":"b","secret":{"secretName":"s","items":[{"key":"k","path":"x"},{"key":"l","path":"x"}]}}]}"#, &[
            r#"volume "a" (ConfigMap "m"): overlapping paths: "p/q" with "p""#,
            r#"volume "b" (Secret "s"): overlapping paths: "x" with "x""#,
        ]),
        case(r#"{"serviceAccountName":"sa","volumes":[{"name":"a","projected":{"sources":[{"configMap":{"name":"m","items":[{"key":"k","path":"token"}]}},
                {"serviceAccountToken":{"path":"token"}}]}},{"name":"b","projected":{"sources":[{"clusterTrustBundle":{"name":"n","path":"p"}}]}}]}"#, &[
            r#"volume "a" (Projected): overlapping paths: "token" (ServiceAccountToken) with "token" (ConfigMap "m")"#,
            r#"volume "b" (Projected) has no sources provided"#,
        ]),
        case(r#"{"hostAliases":[{"ip":"1.1.1.1"},{"ip":"1.1.1.1"}],"imagePullSecrets":[{"name":"a"},{"name":"a"},{"name":""}]}"#, &[
            r#"spec.hostAliases[1].ip: duplicate ip "1.1.1.1""#,
            r#"spec.imagePullSecrets[1].name: duplicate name "a""#,
            r#"spec.imagePullSecrets[2].name: invalid empty name """#,
        ]),
        case(r#"{"containers":[{"name":"c","image":"i","resources":{"limits":{"memory":"1500m","ephemeral-storage":"2500m"},"requests":{"memory":"1","ephemeral-storage":"2500m"}}}]}"#, &[
            r#"spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"spec.containers[0].resources.limits[ephemeral-storage]: fractional byte value "2500m" is invalid, must be an integer"#,
            r#"spec.containers[0].resources.requests[ephemeral-storage]: fractional byte value "2500m" is invalid, must be an integer"#,
        ]),
        case(r#"{"initContainers":[{"name":"i","image":"i","env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}],
                "containers":[{"name":"c","image":"i","env":[{"name":"A","value":"1"},{"name":"A","value":"$(A)2"},{"name":"A","value":"$(A)"},
                {"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}]}"#, &[
            r#"spec.initContainers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#,
            r#"spec.containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply"#,
            r#"spec.containers[0].env[3]: hides previous definition of "A", which may be dropped when using apply"#,
        ]),
        case(r#"{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"name":"web","hostIP":"10.0.0.1"}]},
                {"name":"d","image":"i","ports":[{"containerPort":80,"name":"web"},{"containerPort":80,"hostPort":1},{"containerPort":80,"hostPort":1,"hostIP":"10.0.0.2"},
                {"containerPort":80,"protocol":"UDP"}]}]}"#, &[
            "spec.containers[0].ports[0]: hostIP set without hostPort: {Name:web HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}",
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[1]: overlapping port definition with spec.containers[1].ports[0]",
            "spec.containers[1].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[2]: overlapping port definition with spec.containers[1].ports[0]",
            "spec.containers[1].ports[2]: dangerously ambiguous port definition with spec.containers[1].ports[1]",
            r#"spec.containers[1].ports[0]: duplicate port name "web" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]"#,
        ]),
        case(r#"{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80},{"containerPort":80}]}]}"#, &[
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ]),
        case(r#"{"affinity":{"podAffinity":{"DEEP":[{"topologyKey":"k"}]},"podAntiAffinity":{"SOFT":[{"weight":1,"podAffinityTerm":{"topologyKey":"k"}}]}}}"#, &[
            "spec.affinity.podAffinity.DEEP[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.affinity.podAntiAffinity.SOFT[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
        ]),
        case(r#"{"dnsConfig":{"nameservers":["FD00::1"]},"hostAliases":[{"ip":"FD00::2"}]}"#, &[
            r#"spec.dnsConfig.nameservers[0]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")"#,
            r#"spec.hostAliases[0].ip: IPv6 address "FD00::2" should be in RFC 5952 canonical format ("fd00::2")"#,
        ]),
    ]
}

/// (plural, the path of the template, how a spec is put there)
const HOLDERS: &[(&str, &str, &str)] = &[
    ("podtemplates", "template", r#"{"template":TEMPLATE}"#),
    ("replicationcontrollers", "spec.template", r#"{"spec":{"template":TEMPLATE}}"#),
    ("deployments", "spec.template", r#"{"spec":{"template":TEMPLATE}}"#),
    ("replicasets", "spec.template", r#"{"spec":{"template":TEMPLATE}}"#),
    ("daemonsets", "spec.template", r#"{"spec":{"template":TEMPLATE}}"#),
    ("statefulsets", "spec.template", r#"{"spec":{"serviceName":"s","template":TEMPLATE}}"#),
    ("jobs", "spec.template", r#"{"spec":{"template":TEMPLATE}}"#),
    (
        "cronjobs",
        "spec.jobTemplate.spec.template",
        r#"{"spec":{"jobTemplate":{"spec":{"template":TEMPLATE}}}}"#,
    ),
];

#[test]
fn a_new_pod_gets_exactly_these_warnings() {
    let catalog = Catalog::builtin();
    for (change, expected) in cases() {
        assert_eq!(created(&catalog, "pods", &format!(r#"{{"spec":{change}}}"#)), expected, "{change}");
    }
}

#[test]
fn every_kind_with_a_template_gets_the_same_warnings_at_its_path() {
    let catalog = Catalog::builtin();
    for (plural, path, shape) in HOLDERS {
        for (change, expected) in cases() {
            let body = shape.replace("TEMPLATE", &format!(r#"{{"spec":{change}}}"#));
            // All but those about a volume begin with their field, and some name a second one.
            let at = |text: &String| match text.starts_with("spec.") {
                true => {
                    format!("{path}.{text}").replace(" spec.containers", &format!(" {path}.spec.containers"))
                }
                false => text.clone(),
            };
            let expected: Vec<String> = expected.iter().map(at).collect();
            assert_eq!(created(&catalog, plural, &body), expected, "{plural} {change}");
        }
    }
}

#[test]
fn an_update_warns_only_if_the_template_changes() {
    let catalog = Catalog::builtin();
    let odd = r#"{"spec":{"terminationGracePeriodSeconds":-5}}"#;
    for (plural, path, shape) in HOLDERS {
        let change = shape.replace("TEMPLATE", odd);
        let expected = format!(
            "{path}.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        );
        let said = |before: &str, change: &str| updated(&catalog, plural, None, before, change);
        let label = r#"{"metadata":{"labels":{"touched":"yes"}}}"#;
        assert_eq!(said(&change, label), [""; 0], "{plural}: another field");
        // Upstream looks at the wrong one of the two.
        match *plural {
            "replicationcontrollers" => assert_eq!(said("{}", &change), [""; 0], "{plural}"),
            _ => assert_eq!(said("{}", &change), [expected], "{plural}"),
        }
    }
}

#[test]
fn deprecated_annotations_warn() {
    let catalog = Catalog::builtin();
    let annotations = r#"{"scheduler.alpha.kubernetes.io/critical-pod":"","seccomp.security.alpha.kubernetes.io/pod":"unconfined",
        "container.seccomp.security.alpha.kubernetes.io/c":"unconfined","container.apparmor.security.beta.kubernetes.io/c":"unconfined"}"#;
    let pod = format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#);
    let at = |path: &str| {
        [
            (r#"scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead"#),
            (r#"seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead"#),
            (r#"container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead"#),
            (r#"container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#),
        ]
        .map(|text| format!("{path}metadata.annotations[{text}"))
    };
    // A pod hears of AppArmor first: it is said before the annotation becomes a field.
    let mut of_pod = at("").to_vec();
    of_pod.rotate_right(1);
    assert_eq!(created(&catalog, "pods", &pod), of_pod);
    let deployment = format!(r#"{{"spec":{{"template":{pod}}}}}"#);
    assert_eq!(created(&catalog, "deployments", &deployment), at("spec.template."));
    // What the pod's own field says needs no annotation.
    let said = created(
        &catalog,
        "pods",
        r#"{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/c":"unconfined"}},"spec":{"securityContext":{"appArmorProfile":{"type":"Unconfined"}}}}"#,
    );
    assert_eq!(said, [""; 0]);
}

#[test]
fn names_that_are_no_dns_labels_warn() {
    let catalog = Catalog::builtin();
    let why = "must not contain dots";
    let what = "which can result in surprising behavior; a DNS label is recommended";
    let said = |plural: &str| created(&catalog, plural, r#"{"metadata":{"name":"a.b"}}"#);
    assert_eq!(said("pods"), [format!("metadata.name: this is used in the Pod's hostname, {what}: [{why}]")]);
    for plural in ["deployments", "replicasets", "replicationcontrollers", "jobs", "cronjobs"] {
        let expected = format!("metadata.name: this is used in Pod names and hostnames, {what}: [{why}]");
        assert_eq!(said(plural), [expected], "{plural}");
    }
    for plural in ["daemonsets", "podtemplates"] {
        assert_eq!(said(plural), [""; 0], "{plural}");
    }
}

/// Few ports and files are looked through one by one, many are looked up: the same is said of both.
#[test]
fn port_conflicts_are_found_among_few_and_among_many() {
    let catalog = Catalog::builtin();
    let said = |others: usize| {
        let ports: Vec<String> =
            (0..others).map(|i| format!(r#"{{"containerPort":{}}}"#, 1000 + i)).collect();
        let init = format!(r#"[{{"name":"i","image":"i","ports":[{}]}}]"#, ports.join(","));
        let files: Vec<String> =
            (0..others).map(|i| format!(r#"{{"key":"k{i}","path":"other/{i}"}},"#)).collect();
        let change = format!(
            r#"{{"spec":{{"initContainers":{init},
              "containers":[{{"name":"c","image":"c","ports":[
                {{"name":"a","containerPort":80}},{{"name":"b","containerPort":80,"hostPort":90}},
                {{"name":"d","containerPort":80,"hostPort":90,"hostIP":"1.2.3.4"}},
                {{"name":"e","containerPort":80,"protocol":"UDP"}},{{"containerPort":81,"hostIP":"1.2.3.4"}},
                {{"name":"f","containerPort":82,"hostPort":91,"hostIP":"1.2.3.4"}},
                {{"name":"g","containerPort":82,"hostPort":91,"hostIP":"1.2.3.5"}}]}}],
              "volumes":[{{"name":"v","configMap":{{"name":"m","items":[{}{{"key":"a","path":"x/y"}},
                {{"key":"b","path":"x"}},{{"key":"c","path":"x/y/z"}},{{"key":"d","path":"x/yy"}},
                {{"key":"e","path":"x/y"}}]}}}}]}}}}"#,
            files.concat(),
        );
        created(&catalog, "pods", &change)
    };
    let few = said(1);
    let of_ports = few.iter().filter(|text| text.contains("port")).count();
    assert_eq!((of_ports, few.len() - of_ports), (4, 7), "{few:#?}");
    for others in [3, 8, 11, 12, 13, 16, 17, 40] {
        assert_eq!(said(others), few, "{others} others");
    }
}
