//! The rules of the other kinds, what upstream was recorded to answer, and trees of any shape.

use catalog::Catalog;
use object::{Map, Value};

use crate::samples::{changed, content, created, minimal, object, ready, updated};
use crate::tests::{NOW, json, storage};
use crate::{Context, Schedule, When, invalid, kind_of, validate_create, validate_update};

const TEMPLATE: &str =
    r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;

/// Plural, members, what a create is told.
fn check_created(cases: &[(&str, &str, &[&str])]) {
    let catalog = Catalog::builtin();
    for (plural, members, expected) in cases {
        let (name, _) = content(plural);
        assert_eq!(created(&catalog, plural, name, members), *expected, "{plural} {members}");
    }
}

#[test]
fn recorded_refusals_come_out_word_for_word() {
    let catalog = Catalog::builtin();
    for line in include_str!("../../tests/golden/invalid.jsonl").lines() {
        let case = json(line);
        let path = case.str_at(&["path"]).unwrap();
        let storage = storage(&catalog, path.rsplit('/').next().unwrap());
        let mut body = case.get("body").unwrap().clone();
        body.map_at(&["metadata"]).set("namespace", "errs");
        let value = ready(&catalog, storage, body);
        let errors = validate_create(kind_of(storage), storage, &value, &Context::plain(storage, NOW));
        let name = value.str_at(&["metadata", "name"]).unwrap_or_default();
        let answer = invalid(storage, name, errors).to_value();
        assert!(crate::same(Some(&answer), case.get("answer")), "{path}: {answer:?}");
    }
}

/// What kube-apiserver v1.36.4 answered to broken objects of every kind, created and changed; `null` where it
/// found nothing wrong.
#[test]
fn recorded_answers_of_upstream_are_the_same() {
    let wrong = differences(include_str!("../../tests/golden/refusals.jsonl"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As above, for objects that were broken in random places. Upstream walks maps in any order, so order is not compared.
#[test]
fn recorded_answers_to_mutated_objects_are_the_same() {
    let wrong = differences(include_str!("../../tests/golden/refusals_random.jsonl"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As above, for CEL expressions in every place that has one. Only the causes were recorded: they say it all.
#[test]
fn recorded_answers_to_expressions_are_the_same() {
    let wrong = differences(include_str!("../../tests/golden/refusals_cel.jsonl"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn differences(cases: &str) -> Vec<String> {
    let catalog = Catalog::builtin();
    let mut wrong = Vec::new();
    for (i, line) in cases.lines().enumerate() {
        let case = json(line);
        let path = case.str_at(&["path"]).unwrap();
        let storage = storage(&catalog, path.rsplit('/').next().unwrap());
        let body = case.get("body").unwrap().clone();
        let kind = kind_of(storage);
        let subresource = case.str_at(&["subresource"]);
        let ctx = Context { subresource, ..Context::plain(storage, NOW) };
        let name = body.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
        let errors = match case.get("old").filter(|old| !old.is_null()) {
            None => {
                let value = ready(&catalog, storage, body);
                validate_create(kind, storage, &value, &ctx)
            }
            Some(old) => {
                let (before, after) = changed(&catalog, storage, old.clone(), body, &ctx);
                validate_update(kind, storage, &after, &before, &ctx)
            }
        };
        let ours = match errors.is_empty() {
            true => Value::Null,
            false => invalid(storage, &name, errors).to_value(),
        };
        let theirs = case.get("answer").unwrap_or(&Value::Null);
        let message = |answer: &Value| answer.str_at(&["message"]).unwrap_or("fine").to_owned();
        let causes = |answer: &Value| {
            let list = answer.at(&["details", "causes"]).and_then(Value::as_list).unwrap_or_default();
            let text =
                |cause: &Value| ["field", "reason", "message"].map(|m| cause.str_at(&[m]).map(str::to_owned));
            let mut all: Vec<_> = list.iter().map(text).collect();
            if case.get("unordered").is_some() {
                all.sort();
            }
            all
        };
        let told = case.get("unordered").is_some()
            || theirs.get("message").is_none()
            || message(&ours) == message(theirs);
        let (ours, theirs) = (causes(&ours), causes(theirs));
        if ours != theirs || !told {
            // The same ones in another order are all shown.
            type Cause = [Option<String>; 3];
            let only = |own: &[Cause], other: &[Cause]| -> Vec<Cause> {
                let odd: Vec<Cause> = own.iter().filter(|c| !other.contains(c)).cloned().collect();
                if odd.is_empty() { own.to_vec() } else { odd }
            };
            wrong.push(format!(
                "{i} {path} {subresource:?}\n ours   {:?}\n theirs {:?}",
                only(&ours, &theirs),
                only(&theirs, &ours)
            ));
        }
    }
    wrong
}

#[test]
fn mandatory_flow_control_objects_are_accepted_only_as_defined() {
    let catalog = Catalog::builtin();
    let all = r#""resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]"#;
    let exempt = format!(
        r#""spec":{{"matchingPrecedence":1,"priorityLevelConfiguration":{{"name":"exempt"}},"rules":[{{"subjects":[{{"kind":"Group","group":{{"name":"system:masters"}}}}],{all}}}]}}"#
    );
    let level = r#""spec":{"type":"Limited","limited":{"nominalConcurrencyShares":5,"lendablePercent":0,"limitResponse":{"type":"Reject"}}}"#;
    let free = r#""spec":{"type":"Exempt","exempt":{"nominalConcurrencyShares":9,"lendablePercent":3}}"#;
    for (plural, name, members) in [
        ("flowschemas", "exempt", exempt.as_str()),
        ("prioritylevelconfigurations", "catch-all", level),
        ("prioritylevelconfigurations", "exempt", free),
    ] {
        assert_eq!(created(&catalog, plural, name, members), Vec::<String>::new(), "{plural} {name}");
    }
}

#[test]
fn an_invalid_selector_skips_the_check_of_the_template() {
    let spec = r#""spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]},"template":{"spec":{"containers":[{"name":""}]}}}"#;
    let values = "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'";
    let selector = r#"spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"In"}]}: invalid label selector"#;
    check_created(&[("deployments", spec, &[values, selector]), ("replicasets", spec, &[values, selector])]);
}

#[test]
fn names_by_declarative_rules_are_counted_in_bytes() {
    let catalog = Catalog::builtin();
    for (plural, unit) in
        [("replicationcontrollers", "bytes"), ("deviceclasses", "bytes"), ("deployments", "characters")]
    {
        let name = "n".repeat(254);
        let expected = format!(
            "metadata.name: Invalid value: {}: must be no more than 253 {unit}",
            object::quote(&name)
        );
        let found = created(&catalog, plural, &name, &content(plural).1);
        assert_eq!(found, [expected], "{plural}");
    }
}

#[test]
fn mount_options_as_an_annotation_need_a_source_that_is_mounted_with_options() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "persistentvolumes");
    let told = |source: &str| {
        let body = format!(
            r#"{{"metadata":{{"name":"v","annotations":{{"volume.beta.kubernetes.io/mount-options":"ro"}}}},"spec":{{"capacity":{{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],{source}}}}}"#
        );
        let value = ready(&catalog, storage, json(&body));
        validate_create(kind_of(storage), storage, &value, &Context::plain(storage, NOW))
            .into_iter()
            .map(|error| error.to_string())
            .collect::<Vec<String>>()
    };
    assert_eq!(told(r#""nfs":{"server":"s","path":"/"}"#), [""; 0]);
    assert_eq!(
        told(r#""hostPath":{"path":"/a"}"#),
        [
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type"
        ]
    );
}

#[test]
fn workloads_select_their_own_pods() {
    let no_match = r#"spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`"#;
    let spec = |members: &str| format!(r#""spec":{{"template":{TEMPLATE},{members}}}"#);
    let good = r#""selector":{"matchLabels":{"app":"web"}}"#;
    check_created(&[
        ("deployments", &spec(r#""selector":{"matchLabels":{"app":"other"}}"#), &[no_match]),
        ("replicasets", &spec(r#""selector":{"matchLabels":{"app":"other"}}"#), &[no_match]),
        ("daemonsets", &spec(r#""selector":{"matchLabels":{"app":"other"}}"#), &[no_match]),
        ("statefulsets", &spec(r#""selector":{"matchLabels":{"app":"other"}}"#), &[no_match]),
        ("replicationcontrollers", &spec(r#""selector":{"app":"other"}"#), &[no_match]),
        (
            "deployments",
            &spec(r#""selector":{},"replicas":-1"#),
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
            ],
        ),
        (
            "deployments",
            &spec(&format!(
                r#"{good},"strategy":{{"rollingUpdate":{{"maxUnavailable":0,"maxSurge":"0%"}}}},"progressDeadlineSeconds":5,"minReadySeconds":9"#
            )),
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
                "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
            ],
        ),
        (
            "deployments",
            &spec(&format!(r#"{good},"strategy":{{"type":"Slow"}}"#)),
            &[
                r#"spec.strategy: Unsupported value: {"Type":"Slow","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#,
            ],
        ),
        (
            "daemonsets",
            &spec(&format!(
                r#"{good},"updateStrategy":{{"rollingUpdate":{{"maxUnavailable":1,"maxSurge":1}}}}"#
            )),
            &[
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
            ],
        ),
        (
            "statefulsets",
            &format!(
                r#""spec":{{{good},"template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"hostname":"A","containers":[{{"name":"c","image":"i","volumeMounts":[{{"name":"data","mountPath":"/d"}}]}}]}}}},"volumeClaimTemplates":[{{"metadata":{{"name":"data"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}],"podManagementPolicy":"Any"}}"#
            ),
            &["spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'"],
        ),
        (
            "replicasets",
            &format!(
                r#""spec":{{{good},"template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"restartPolicy":"Never","activeDeadlineSeconds":1,"containers":[{{"name":"c","image":"i"}}]}}}}}}"#
            ),
            &[
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        ),
    ]);
    let catalog = Catalog::builtin();
    let old = spec(good);
    let new = r#""spec":{"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"selector":{"matchLabels":{"app":"x"}}}"#;
    assert_eq!(
        updated(&catalog, "deployments", None, &old, new),
        [r#"spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable"#]
    );
    let renamed = spec(&format!(r#"{good},"serviceName":"other""#));
    assert_eq!(
        updated(&catalog, "statefulsets", None, &old, &renamed),
        [
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        ]
    );
    assert_eq!(
        updated(
            &catalog,
            "deployments",
            Some("status"),
            &old,
            &format!(r#"{old},"status":{{"replicas":1,"readyReplicas":2}}"#)
        ),
        ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]
    );
}

#[test]
fn jobs_end_and_cron_jobs_have_a_schedule() {
    let pod = |policy: &str| {
        format!(
            r#""template":{{"spec":{{"restartPolicy":"{policy}","containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    let cron =
        |members: &str| format!(r#""spec":{{{members},"jobTemplate":{{"spec":{{{}}}}}}}"#, pod("Never"));
    check_created(&[
        (
            "jobs",
            &format!(r#""spec":{{{}}}"#, pod("Always")),
            &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
        ),
        (
            "jobs",
            &format!(
                r#""spec":{{"completionMode":"Indexed","backoffLimitPerIndex":1,"maxFailedIndexes":-1,"successPolicy":{{"rules":[{{"succeededIndexes":"3-1"}}]}},{}}}"#,
                pod("Never")
            ),
            &[
                "spec.maxFailedIndexes: Invalid value: -1: must be greater than or equal to 0",
                "spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"3-1\": error parsing succeededIndexes: too large index: \"3\"",
            ],
        ),
        (
            "jobs",
            &format!(
                r#""spec":{{"podFailurePolicy":{{"rules":[{{"action":"Ignore"}},{{"action":"FailJob","onExitCodes":{{"operator":"In","values":[2,0]}}}}]}},{}}}"#,
                pod("OnFailure")
            ),
            &[
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                "spec.podFailurePolicy.rules[1].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[1].onExitCodes.values: Invalid value: [2,0]: must be ordered",
                "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
            ],
        ),
        ("cronjobs", &cron(r#""schedule":"@daily","timeZone":"Europe/Vienna""#), &[]),
        (
            "cronjobs",
            &cron(r#""schedule":"60 * * * *","timeZone":"Mars/Base","concurrencyPolicy":"Both""#),
            &[
                "spec.schedule: Invalid value: \"60 * * * *\": end of range (60) above maximum (59): 60",
                "spec.timeZone: Invalid value: \"Mars/Base\": unknown time zone Mars/Base",
                "spec.concurrencyPolicy: Unsupported value: \"Both\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            ],
        ),
        (
            "cronjobs",
            &cron(r#""schedule":"TZ=UTC 0 0 * * *""#),
            &[
                "spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ],
        ),
    ]);
    let catalog = Catalog::builtin();
    let old = format!(r#""spec":{{{}}}"#, pod("Never"));
    assert_eq!(
        updated(&catalog, "jobs", None, &old, &format!(r#""spec":{{"completions":5,{}}}"#, pod("Never"))),
        ["spec.completions: Invalid value: 5: field is immutable"]
    );
}

#[test]
fn schedules_are_read_as_cron_reads_them() {
    let fields = |text: &str| match Schedule::parse(text).map(|schedule| schedule.when) {
        Ok(When::Fields { minutes, hours, days, months, weekdays, both_days }) => {
            (minutes, hours, days, months, weekdays, both_days)
        }
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(fields("0-4/2,30 1 1 jan SUN"), (0b10101 | 1 << 30, 2, 2, 2, 1, false));
    assert_eq!(fields("5/20 0 * * 1-5").0, 1 << 5 | 1 << 25 | 1 << 45);
    assert!(fields("0 0 * * 1").5);
    assert_eq!(Schedule::parse("@every 90s").map(|schedule| schedule.when), Ok(When::EverySeconds(90)));
    for (text, error) in [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("@never", "unrecognized descriptor: @never"),
    ] {
        assert_eq!(Schedule::parse(text), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn services_have_ports_and_addresses_that_stay() {
    check_created(&[
        ("services", r#""spec":{}"#, &["spec.ports: Required value"]),
        ("services", r#""spec":{"clusterIP":"None","clusterIPs":["None"]}"#, &[]),
        ("services", r#""spec":{"type":"ExternalName","externalName":"example.com."}"#, &[]),
        (
            "services",
            r#""spec":{"type":"ClusterIP","ports":[{"port":80,"nodePort":30000},{"port":80,"name":"b"}],"sessionAffinity":"Cookie","loadBalancerClass":"a.b/c"}"#,
            &[
                "spec.ports[0].name: Required value",
                "spec.sessionAffinity: Unsupported value: \"Cookie\": supported values: \"ClientIP\", \"None\"",
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ],
        ),
        (
            "services",
            r#""spec":{"ports":[{"port":0,"targetPort":"A"}],"clusterIP":"10.0.0.300","clusterIPs":["10.0.0.300"],"externalIPs":["127.0.0.1","010.0.0.1"]}"#,
            &[
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: \"A\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "spec.ports[0].targetPort: Invalid value: \"A\": must contain at least one letter (a-z)",
                "spec.clusterIPs[0]: Invalid value: \"10.0.0.300\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                "spec.externalIPs[1]: Invalid value: \"010.0.0.1\": must not have leading 0s",
            ],
        ),
    ]);
    let catalog = Catalog::builtin();
    let at =
        |ip: &str| format!(r#""spec":{{"ports":[{{"port":80}}],"clusterIP":"{ip}","clusterIPs":["{ip}"]}}"#);
    assert_eq!(
        updated(&catalog, "services", None, &at("10.0.0.1"), &at("10.0.0.2")),
        [r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#]
    );
}

#[test]
fn storage_and_amounts_are_bounded() {
    check_created(&[
        (
            "persistentvolumeclaims",
            r#""spec":{"accessModes":["ReadWriteOncePod","ReadOnlyMany","Any"]}"#,
            &[
                "spec.accessModes: Unsupported value: \"Any\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.resources[storage]: Required value",
            ],
        ),
        (
            "persistentvolumes",
            r#""spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"0"},"local":{"path":"/a"}}"#,
            &[
                "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ],
        ),
        (
            "resourcequotas",
            r#""spec":{"hard":{"pods":"1.5","cpu":"1","disk":"1"},"scopes":["BestEffort"]}"#,
            &[
                "spec.hard[disk]: Invalid value: \"disk\": must be a standard resource type or fully qualified",
                "spec.hard[disk]: Invalid value: \"disk\": must be a standard resource for quota",
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
                r#"spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource"#,
            ],
        ),
        (
            "limitranges",
            r#""spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"min":{"cpu":"2"}},{"type":"Pod","default":{"cpu":"1"}}]}"#,
            &[
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 1",
                "spec.limits[1].default: Forbidden: may not be specified when `type` is 'Pod'",
            ],
        ),
        (
            "storageclasses",
            r#""provisioner":"","reclaimPolicy":"Recycle""#,
            &[
                "provisioner: Required value",
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
            ],
        ),
        (
            "priorityclasses",
            r#""value":2000000000"#,
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            "nodes",
            r#""spec":{"podCIDRs":["10.0.0.0/8","10.1.0.1/16"],"taints":[{"key":"a","effect":"Never"}]}"#,
            &[
                "metadata.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "spec.podCIDRs[1]: Invalid value: \"10.1.0.1/16\": must not have bits set beyond the prefix length",
                r#"spec.podCIDRs: Invalid value: ["10.0.0.0/8","10.1.0.1/16"]: may specify no more than one CIDR for each IP family"#,
            ],
        ),
    ]);
}

#[test]
fn networks_and_policies_are_well_formed() {
    check_created(&[
        (
            "ingresses",
            r#""spec":{"rules":[{"host":"1.2.3.4","http":{"paths":[{"path":"a//b","pathType":"Exact","backend":{"service":{"name":"web","port":{}}}}]}}]}"#,
            &[
                "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must be an absolute path",
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must not contain '//'",
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            ],
        ),
        (
            "ingresses",
            r#""spec":{}"#,
            &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        ),
        (
            "networkpolicies",
            r#""spec":{"podSelector":{},"ingress":[{"ports":[{"port":"http","endPort":9}],"from":[{},{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16"]}}]}]}"#,
            &[
                "spec.ingress[0].ports[0].endPort: Invalid value: 9: may not be specified when `port` is non-numeric",
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
            ],
        ),
        (
            "poddisruptionbudgets",
            r#""spec":{"maxUnavailable":"120%"}"#,
            &["spec.maxUnavailable: Invalid value: \"120%\": must not be greater than 100%"],
        ),
        (
            "horizontalpodautoscalers",
            r#""spec":{"minReplicas":0,"maxReplicas":-1,"scaleTargetRef":{"kind":"","name":"web"},"metrics":[{"type":"Pods"}]}"#,
            &[
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
                "spec.metrics[0].pods: Required value: must populate information for the given metric source",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ],
        ),
        (
            "endpointslices",
            r#""addressType":"IPv4","endpoints":[{"addresses":[]},{"addresses":["2001:db8::1"]}],"ports":[{"name":"a"},{"name":"a"}]"#,
            &[
                "ports[1].name: Duplicate value: \"a\"",
                "endpoints[0].addresses: Required value: must contain at least 1 address",
                "endpoints[1].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address",
            ],
        ),
        (
            "endpoints",
            r#""subsets":[{"ports":[{"port":0}]}]"#,
            &[
                "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
                "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "roles",
            r#""rules":[{"verbs":[]}]"#,
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            "clusterrolebindings",
            r#""roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"a"}]"#,
            &[
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[0].namespace: Required value",
            ],
        ),
        ("controllerrevisions", r#""revision":1"#, &["data: Required value: data is mandatory"]),
        (
            "leases",
            r#""spec":{"leaseDurationSeconds":0}"#,
            &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
        ),
    ]);
}

/// Numbers that look random and can be drawn again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Map(map) => {
            for (name, inner) in map.iter() {
                found.push(name.to_string());
                names(inner, found);
            }
        }
        Value::List(list) => list.iter().for_each(|inner| names(inner, found)),
        _ => {}
    }
}

fn any(dice: &mut Dice, words: &[String], depth: usize) -> Value {
    let texts = [
        "",
        "é-",
        "a/b/c",
        "../..",
        "*",
        "10.0.0.1/33",
        "::",
        "1e99",
        "-1",
        "TZ=",
        "\u{0}",
        "iqn",
        "@every",
        "9999999999999999999",
    ];
    match dice.roll(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => Value::Bool(dice.roll(2) == 0),
        2 => Value::Int([0, -1, 1, i64::MAX, i64::MIN, 70_000][dice.roll(6)]),
        3 => Value::Float(1.5),
        4 => Value::from(texts[dice.roll(texts.len())]),
        5 => Value::from(words[dice.roll(words.len())].as_str()),
        6 | 7 => {
            let mut map = Map::default();
            for _ in 0..dice.roll(6) {
                map.set(words[dice.roll(words.len())].clone(), any(dice, words, depth - 1));
            }
            Value::Map(map)
        }
        _ => Value::List((0..dice.roll(4)).map(|_| any(dice, words, depth - 1)).collect()),
    }
}

/// Puts something else in a random place of the tree.
fn disturb(value: &mut Value, dice: &mut Dice, words: &[String]) {
    match value {
        Value::Map(map) if !map.is_empty() && dice.roll(5) > 0 => {
            let at = dice.roll(map.len());
            let (_, inner) = &mut map.entries_mut()[at];
            disturb(inner, dice, words);
        }
        Value::List(list) if !list.is_empty() && dice.roll(5) > 0 => {
            let at = dice.roll(list.len());
            disturb(&mut list[at], dice, words);
        }
        Value::Map(map) if dice.roll(2) == 0 => {
            map.set(words[dice.roll(words.len())].clone(), any(dice, words, 3));
        }
        other => *other = any(dice, words, 3),
    }
}

#[test]
fn no_tree_makes_a_rule_panic() {
    let catalog = Catalog::builtin();
    let seed = 0x5eed_1234_5678_9abc;
    println!("seed {seed:#x}");
    let mut dice = Dice(seed);
    let mut words = Vec::new();
    let rich = r#"{"volumes":[{"iscsi":{"iqn":"","initiatorName":""},"projected":{"sources":[{"clusterTrustBundle":{},"podCertificate":{}}]},"csi":{},"ephemeral":{"volumeClaimTemplate":{}}}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"","operator":"","values":[""]}]}]}},"podAffinity":{}},"topologySpreadConstraints":[{"matchLabelKeys":[]}],"tolerations":[],"resources":{"limits":{"hugepages-2Mi":"1"},"requests":{"cpu":"1"}},"claims":[],"env":[{"valueFrom":{"fieldRef":{"fieldPath":""}}}],"volumeMounts":[],"lifecycle":{},"livenessProbe":{"httpGet":{}},"securityContext":{"sysctls":[],"windowsOptions":{"runAsUserName":""}},"successPolicy":{"rules":[{"succeededIndexes":""}]},"status":{"conditions":[],"containerStatuses":[],"loadBalancer":{"ingress":[]}},"clusterIPs":[],"ipFamilies":[],"rules":[{"http":{"paths":[]}}],"metrics":[],"behavior":{"scaleUp":{}},"subsets":[],"limits":[]}"#;
    names(&json(rich), &mut words);
    for storage in catalog.storages() {
        names(&ready(&catalog, storage, minimal(storage)), &mut words);
    }
    words.sort();
    words.dedup();
    for storage in catalog.storages() {
        let kind = kind_of(storage);
        let good = ready(&catalog, storage, minimal(storage));
        for _ in 0..300 {
            let (mut new, mut old) = (good.clone(), good.clone());
            for _ in 0..=dice.roll(5) {
                disturb(&mut new, &mut dice, &words);
                disturb(&mut old, &mut dice, &words);
            }
            let ctx = Context::plain(storage, NOW);
            validate_create(kind, storage, &new, &ctx);
            for subresource in [
                None,
                Some("status"),
                Some("resize"),
                Some("ephemeralcontainers"),
                Some("scale"),
                Some("approval"),
            ] {
                let ctx = Context { subresource, ..ctx };
                validate_update(kind, storage, &new, &old, &ctx);
            }
        }
    }
}

#[test]
#[ignore = "for measuring by hand"]
fn two_hundred_thousand_valid_pods() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "pods");
    let spec = r#""spec":{"serviceAccountName":"default","containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"name":"http"}],"env":[{"name":"A","value":"b"},{"name":"P","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"1","memory":"128Mi"}},"livenessProbe":{"httpGet":{"path":"/","port":"http"}},"volumeMounts":[{"name":"t","mountPath":"/t"},{"name":"d","mountPath":"/d"}]}],"volumes":[{"name":"d","emptyDir":{}},{"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"token"}},{"configMap":{"name":"m","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"fieldPath":"metadata.namespace"}}]}}]}}],"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}"#;
    let pod = ready(&catalog, storage, object(storage, "p", spec));
    let ctx = Context::plain(storage, NOW);
    for _ in 0..200_000 {
        assert!(validate_create(kind_of(storage), storage, &pod, &ctx).is_empty());
    }
}
