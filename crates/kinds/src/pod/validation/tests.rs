//! The rules of pods, each with upstream's words.

use catalog::Catalog;

use crate::samples::{created, updated};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const OK: &str = r#""containers":[{"name":"c","image":"i"}]"#;

fn pod(catalog: &Catalog, spec: &str) -> Vec<String> {
    created(catalog, "pods", "p", &format!(r#""spec":{{{spec}}}"#))
}

/// A container `c` with these members besides.
fn with(members: &str) -> String {
    format!(r#""containers":[{{"name":"c","image":"i",{members}}}]"#)
}

fn check(catalog: &Catalog, cases: &[(&str, &[&str])]) {
    for (spec, expected) in cases {
        assert_eq!(pod(catalog, spec), *expected, "{spec}");
    }
}

#[test]
fn containers_have_names_images_and_ports() {
    let catalog = Catalog::builtin();
    let bad_name = format!("spec.containers[0].name: Invalid value: \"B\": {LABEL}");
    check(
        &catalog,
        &[
            (OK, &[]),
            ("", &["spec.containers: Required value"]),
            (r#""containers":[{"name":"B","image":"i"}]"#, &[&bad_name]),
            (
                r#""containers":[{"name":"c","image":" i"},{"name":"c","image":"i"}]"#,
                &[
                    "spec.containers[1].name: Duplicate value: \"c\"",
                    "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
                ],
            ),
            (
                &with(
                    r#""ports":[{"containerPort":80,"name":"http","hostPort":80},{"containerPort":70000,"name":"http","protocol":"X","hostPort":80}]"#,
                ),
                &[
                    "spec.containers[0].ports[1].name: Duplicate value: \"http\"",
                    "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                    "spec.containers[0].ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                ],
            ),
            (
                &with(r#""ports":[{"containerPort":80,"hostPort":80},{"containerPort":81,"hostPort":80}]"#),
                &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
            ),
            (
                &with(r#""imagePullPolicy":"Often","terminationMessagePolicy":"Mail""#),
                &[
                    "spec.containers[0].terminationMessagePolicy: Unsupported value: \"Mail\": supported values: \"File\", \"FallbackToLogsOnError\"",
                    "spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                ],
            ),
            (
                r#""containers":[{"name":"c","image":"i"}],"initContainers":[{"name":"c","image":"i","livenessProbe":{"exec":{"command":["x"]}}},{"name":"s","image":"i","restartPolicy":"Always","readinessProbe":{}}]"#,
                &[
                    "spec.initContainers[0].name: Duplicate value: \"c\"",
                    "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
                    "spec.initContainers[1].readinessProbe: Required value: must specify a handler type",
                ],
            ),
            (
                &with(
                    r#""restartPolicyRules":[{"action":"Stop","exitCodes":{"operator":"Is","values":[1]}},{"action":"Restart"}]"#,
                ),
                &[
                    "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
                    "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"Stop\": supported values: \"Restart\", \"RestartAllContainers\"",
                    "spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: \"Is\": supported values: \"In\", \"NotIn\"",
                    "spec.containers[0].restartPolicyRules[1].exitCodes: Required value: must be specified",
                ],
            ),
        ],
    );
}

#[test]
fn environment_variables_have_one_source() {
    let catalog = Catalog::builtin();
    check(
        &catalog,
        &[
            (
                &with(
                    r#""env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}},{"name":"C","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}}]"#,
                ),
                &[],
            ),
            (
                &with(
                    r#""env":[{"name":"a=b"},{"name":"","valueFrom":{}},{"name":"C","value":"x","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]"#,
                ),
                &[
                    "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                    "spec.containers[0].env[1].name: Required value",
                    "spec.containers[0].env[1].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
                    "spec.containers[0].env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                ],
            ),
            (
                &with(
                    r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"status.phase"}}},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"spec.x"}}},{"name":"C","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"2"}}}]"#,
                ),
                &[
                    "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
                    "spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x",
                    "spec.containers[0].env[2].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
                ],
            ),
            (
                &with(r#""envFrom":[{"configMapRef":{"name":"a"},"secretRef":{"name":""}},{"prefix":"P_"}]"#),
                &[
                    "spec.containers[0].envFrom[0].secretRef.name: Required value",
                    "spec.containers[0].envFrom: Invalid value: \"\": may not have more than one field specified at a time",
                    "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                ],
            ),
        ],
    );
}

#[test]
fn resources_are_known_amounts_within_limits() {
    let catalog = Catalog::builtin();
    let resources = |text: &str| with(&format!(r#""resources":{text}"#));
    check(
        &catalog,
        &[
            (
                &resources(
                    r#"{"requests":{"cpu":"100m","example.com/gpu":"1"},"limits":{"cpu":"1","example.com/gpu":"1","hugepages-2Mi":"4Mi"}}"#,
                ),
                &[],
            ),
            (
                &resources(r#"{"requests":{"cpu":"2","memory":"-1"},"limits":{"cpu":"1","disk":"1"}}"#),
                &[
                    "spec.containers[0].resources.limits[disk]: Invalid value: \"disk\": must be a standard resource type or fully qualified",
                    "spec.containers[0].resources.limits[disk]: Invalid value: \"disk\": must be a standard resource for containers",
                    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                    "spec.containers[0].resources.requests[disk]: Invalid value: \"disk\": must be a standard resource type or fully qualified",
                    "spec.containers[0].resources.requests[disk]: Invalid value: \"disk\": must be a standard resource for containers",
                    "spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
            (
                &resources(r#"{"requests":{"example.com/gpu":"1"},"limits":{"hugepages-2Mi":"3Mi"}}"#),
                &[
                    "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                    "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
                    "spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                    "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
                ],
            ),
            (
                &resources(r#"{"claims":[{"name":"gpu"}]}"#),
                &[
                    "spec.containers[0].resources.claims[0]: Not found: \"gpu\": must be one of the names in pod.spec.resourceClaims which is empty",
                ],
            ),
        ],
    );
}

#[test]
fn volumes_have_one_source_and_mounts_a_volume() {
    let catalog = Catalog::builtin();
    check(
        &catalog,
        &[
            (
                &format!(
                    r#"{},"volumes":[{{"name":"v","emptyDir":{{}}}}]"#,
                    with(r#""volumeMounts":[{"name":"v","mountPath":"/v"}]"#)
                ),
                &[],
            ),
            (
                &format!(
                    r#"{OK},"volumes":[{{"name":"a"}},{{"name":"b","emptyDir":{{}},"secret":{{"secretName":"s"}}}},{{"name":"c","hostPath":{{"path":"/x/../y","type":"Pipe"}}}},{{"name":"d","nfs":{{"server":"","path":"x"}}}}]"#
                ),
                &[
                    "spec.volumes[1].secret: Forbidden: may not specify more than 1 volume type",
                    "spec.volumes[2].hostPath.path: Invalid value: \"/x/../y\": must not contain '..'",
                    "spec.volumes[2].hostPath.type: Unsupported value: \"Pipe\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
                    "spec.volumes[3].nfs.server: Required value",
                    "spec.volumes[3].nfs.path: Invalid value: \"x\": must be an absolute path",
                ],
            ),
            (
                &format!(
                    r#"{OK},"volumes":[{{"name":"a","configMap":{{"name":"m","defaultMode":1000,"items":[{{"key":"k","path":"../p"}}]}}}},{{"name":"a","emptyDir":{{}}}},{{"name":"a","emptyDir":{{}}}}]"#
                ),
                &[
                    "spec.volumes[0].configMap.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive",
                    "spec.volumes[0].configMap.items[0].path: Invalid value: \"../p\": must not contain '..'",
                    "spec.volumes[2].name: Duplicate value: \"a\"",
                ],
            ),
            (
                &with(
                    r#""volumeMounts":[{"name":"v","mountPath":"/v","mountPropagation":"Bidirectional"},{"name":"","mountPath":"/v","subPath":"/a"}]"#,
                ),
                &[
                    "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
                    "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
                    "spec.containers[0].volumeMounts[1].name: Required value",
                    "spec.containers[0].volumeMounts[1].name: Not found: \"\"",
                    "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/v\": must be unique",
                    "spec.containers[0].volumeMounts.subPath: Invalid value: \"/a\": must be a relative path",
                ],
            ),
            (
                &format!(
                    r#"{OK},"volumes":[{{"name":"t","projected":{{"sources":[{{"serviceAccountToken":{{"path":"t","expirationSeconds":10}}}},{{"configMap":{{"name":"m","items":[{{"key":"k","path":"p"}},{{"key":"k","path":"p"}}]}}}}]}}}}]"#
                ),
                &[
                    "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes",
                    "spec.volumes[0].projected: Invalid value: \"m\": conflicting duplicate paths",
                    "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
                ],
            ),
        ],
    );
}

#[test]
fn probes_and_hooks_have_one_handler() {
    let catalog = Catalog::builtin();
    check(
        &catalog,
        &[
            (
                &with(
                    r#""livenessProbe":{"httpGet":{"path":"/","port":"http"}},"lifecycle":{"preStop":{"sleep":{"seconds":5}}}"#,
                ),
                &[],
            ),
            (
                &with(
                    r#""livenessProbe":{"exec":{},"tcpSocket":{"port":80},"successThreshold":2},"readinessProbe":{"grpc":{"port":0},"periodSeconds":-1,"terminationGracePeriodSeconds":3}"#,
                ),
                &[
                    "spec.containers[0].livenessProbe.exec.command: Required value",
                    "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                    "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
                    "spec.containers[0].readinessProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 3: must not be set for readinessProbes",
                ],
            ),
            (
                &with(
                    r#""lifecycle":{"postStart":{"httpGet":{"port":80,"scheme":"FTP","httpHeaders":[{"name":"a b"}]}},"preStop":{"sleep":{"seconds":60}},"stopSignal":"SIGTERM"}"#,
                ),
                &[
                    "spec.containers[0].lifecycle.postStart.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
                    "spec.containers[0].lifecycle.postStart.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
                    "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30)",
                    "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`",
                ],
            ),
        ],
    );
}

#[test]
fn placement_is_well_formed() {
    let catalog = Catalog::builtin();
    check(
        &catalog,
        &[
            (
                &format!(
                    r#"{OK},"tolerations":[{{"operator":"Equal"}},{{"key":"a","operator":"Exists","value":"x"}},{{"key":"a","operator":"Gt","value":"1"}},{{"key":"a","effect":"Never","tolerationSeconds":1}}]"#
                ),
                &[
                    "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                    "spec.tolerations[1].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
                    "spec.tolerations[2].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
                    "spec.tolerations[3].effect: Invalid value: \"Never\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                    "spec.tolerations[3].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                ],
            ),
            (
                &format!(
                    r#"{OK},"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[]}},"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":0,"preference":{{"matchFields":[{{"key":"a","operator":"Exists"}}]}}}}]}},"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"","labelSelector":{{"matchExpressions":[{{"key":"a","operator":"In"}}]}}}}]}}}}"#
                ),
                &[
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].operator: Invalid value: \"Exists\": not a valid selector operator",
                    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].key: Invalid value: \"a\": not a valid field selector key",
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: \"\": name part must be non-empty",
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ],
            ),
            (
                &format!(
                    r#"{OK},"topologySpreadConstraints":[{{"maxSkew":0,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway","minDomains":2}},{{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway","matchLabelKeys":["a"]}}]"#
                ),
                &[
                    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                    "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{z, ScheduleAnyway}\"",
                    "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                    "spec.topologySpreadConstraints[1].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
                ],
            ),
            (
                &format!(
                    r#"{OK},"dnsPolicy":"None","hostAliases":[{{"ip":"1.2.3","hostnames":["A"]}}],"schedulingGates":[{{"name":"g"}},{{"name":"g"}}],"activeDeadlineSeconds":0,"preemptionPolicy":"Maybe""#
                ),
                &[
                    "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
                    "spec.schedulingGates[1]: Duplicate value: \"g\"",
                    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                    "spec.hostAliases[0].ip: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "spec.hostAliases[0].hostnames[0]: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                    "spec.preemptionPolicy: Unsupported value: \"Maybe\": supported values: \"PreemptLowerPriority\", \"Never\"",
                ],
            ),
        ],
    );
}

#[test]
fn security_contexts_do_not_contradict() {
    let catalog = Catalog::builtin();
    check(
        &catalog,
        &[
            (
                &format!(
                    r#"{OK},"hostPID":true,"shareProcessNamespace":true,"securityContext":{{"runAsUser":-1,"sysctls":[{{"name":"net.a","value":"1"}},{{"name":"A","value":""}}],"seccompProfile":{{"type":"Localhost"}},"seLinuxChangePolicy":"MountOption"}},"hostNetwork":true"#
                ),
                &[
                    "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                    "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
                    "spec.securityContext.sysctls[0].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true",
                    "spec.securityContext.sysctls[1].name: Invalid value: \"A\": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                    "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                    "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"",
                ],
            ),
            (
                &with(
                    r#""securityContext":{"procMount":"Unmasked","appArmorProfile":{"type":"Own"},"windowsOptions":{"runAsUserName":"a\\b\\c"}}"#,
                ),
                &[
                    "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
                    "spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: \"a\\\\b\\\\c\": runAsUserName cannot contain more than one backslash",
                    "spec.containers[0].securityContext.appArmorProfile.type: Unsupported value: \"Own\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"",
                ],
            ),
            (
                &format!(
                    r#"{OK},"os":{{"name":"windows"}},"hostIPC":true,"securityContext":{{"fsGroup":1}}"#
                ),
                &[
                    "spec.hostIPC: Forbidden: cannot be set for a windows pod",
                    "spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
                ],
            ),
            (
                &format!(r#"{OK},"os":{{"name":"plan9"}}"#),
                &["spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
            ),
        ],
    );
}

#[test]
fn an_update_changes_only_what_may_change() {
    let catalog = Catalog::builtin();
    let update = |old: &str, new: &str| {
        updated(&catalog, "pods", None, &format!(r#""spec":{{{old}}}"#), &format!(r#""spec":{{{new}}}"#))
    };
    let other = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let image = r#""containers":[{"name":"c","image":"j","imagePullPolicy":"Always"}]"#;
    let pulled = r#""containers":[{"name":"c","image":"i","imagePullPolicy":"Always"}]"#;
    let none: [&str; 0] = [];
    assert_eq!(update(OK, OK), none);
    assert_eq!(update(pulled, image), none);
    let changed = update(OK, &format!(r#"{OK},"hostNetwork":true"#));
    assert_eq!(changed.len(), 1);
    assert!(changed[0].starts_with(&format!("{other}\n@@ ")), "{}", changed[0]);
    assert!(
        changed[0].contains("\n-  \"HostNetwork\": false,\n+  \"HostNetwork\": true,\n"),
        "{}",
        changed[0]
    );
    assert_eq!(
        update(OK, r#""containers":[{"name":"c","image":"i"},{"name":"d","image":"i"}]"#),
        ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    );
    let tolerated = format!(r#"{OK},"tolerations":[{{"key":"a","operator":"Exists"}}]"#);
    assert_eq!(update(OK, &tolerated), none);
    assert_eq!(
        update(&tolerated, OK),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
    assert_eq!(
        update(&format!(r#"{OK},"activeDeadlineSeconds":5"#), &format!(r#"{OK},"activeDeadlineSeconds":6"#)),
        ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"]
    );
    let gated = format!(r#"{OK},"schedulingGates":[{{"name":"g"}}]"#);
    assert_eq!(update(&gated, OK), none);
    assert_eq!(update(&gated, &format!(r#"{gated},"nodeSelector":{{"a":"b"}}"#)), none);
    assert_eq!(
        update(OK, &gated),
        [
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"
        ]
    );
}

#[test]
fn a_status_write_cannot_revive_a_container() {
    let catalog = Catalog::builtin();
    let status = |state: &str| {
        format!(
            r#""spec":{{{OK},"restartPolicy":"Never"}},"status":{{"qosClass":"BestEffort","containerStatuses":[{{"name":"c","image":"i","imageID":"","ready":false,"restartCount":0,"state":{state}}}]}}"#
        )
    };
    let (ended, running) = (status(r#"{"terminated":{"exitCode":1}}"#), status(r#"{"running":{}}"#));
    let update = |old: &str, new: &str| updated(&catalog, "pods", Some("status"), old, new);
    assert_eq!(update(&running, &ended), [""; 0]);
    assert_eq!(
        update(&ended, &running),
        ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"]
    );
}
