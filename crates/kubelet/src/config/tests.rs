use std::time::Duration;

use object::Value;

use super::*;

fn config(text: &str) -> Result<Config, ConfigError> {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    Config::new("n", "/var/lib/node".into()).with_file(format!("{head}{text}").as_bytes())
}

fn refused(text: &str) -> String {
    config(text).expect_err(text).to_string()
}

#[test]
fn a_file_without_fields_changes_nothing_but_what_is_computed() {
    let plain = Config::new("n", "/var/lib/node".into());
    let read = config("").expect("read");
    assert_eq!(Config { fields: plain.fields.clone(), ..read }, plain, "the two say the same defaults");
}

#[test]
fn fields_people_set_are_read() {
    let config = config(
        "maxPods: 50\nclusterDNS: [10.96.0.10]\nclusterDomain: example.org\nevictionHard: {memory.available: 5%}\n\
         systemReserved: {cpu: 500m}\nshutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n\
         authentication: {anonymous: {enabled: true}, x509: {clientCAFile: /ca}}\nauthorization: {mode: AlwaysAllow}\n\
         maxParallelImagePulls: 4\ncontainerLogMaxSize: 5Mi\nregisterWithTaints: [{key: a, value: b, effect: NoSchedule}]\n\
         containerRuntimeEndpoint: unix:///run/x.sock\npodPidsLimit: -7\nstaticPodPath: /etc/pods\nregisterNode: false\n",
    )
    .expect("read");
    assert_eq!((config.max_pods, config.pod_pids_limit), (50, -1));
    assert_eq!(
        (config.cluster_dns, config.cluster_domain),
        (vec!["10.96.0.10".to_owned()], "example.org".to_owned())
    );
    assert_eq!(
        config.eviction_hard,
        [("memory.available".to_owned(), "5%".to_owned())],
        "the others are off"
    );
    assert_eq!(config.shutdown_grace_period_critical_pods, Duration::from_secs(10));
    assert!(
        config.authentication.anonymous && config.authentication.webhook && !config.authorization.webhook
    );
    assert_eq!(config.authentication.client_ca_file, Some("/ca".into()));
    assert!(!config.serialize_image_pulls, "who allows several pulls at once wants them");
    assert_eq!((config.max_parallel_image_pulls, config.container_log_max_size), (Some(4), 5 << 20));
    assert_eq!(config.register_with_taints, ["a=b:NoSchedule"]);
    assert_eq!(config.container_runtime_endpoint.as_deref(), Some("unix:///run/x.sock"));
    assert_eq!(config.static_pod_path, Some("/etc/pods".into()));
    assert!(!config.register_node);
}

#[test]
fn default_thresholds_can_be_kept() {
    let merged =
        config("evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n").expect("read");
    assert_eq!(merged.eviction_hard.len(), 5);
    assert_eq!(merged.eviction_hard[0].1, "1Gi");
}

#[test]
fn hard_eviction_is_off_without_thresholds_and_has_the_defaults_unless_it_is_configured() {
    let defaults = Config::new("n", "/var/lib/node".into()).eviction_hard;
    let shown = |config: &Config| config.in_force().contains("evictionHard");
    let off = config("evictionHard: {}\n").expect("read");
    assert!(off.eviction_hard.is_empty() && !shown(&off));
    for text in ["evictionHard: null\n", "evictionHard: {}\nmergeDefaultEvictionSettings: true\n"] {
        let usual = config(text).expect("read");
        assert_eq!(usual.eviction_hard, defaults, "{text}");
        assert!(shown(&usual));
    }
}

#[test]
fn drop_ins_are_merged_in_their_order() {
    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let merged = |base: Option<&str>, drop_ins: &[(&str, &str)]| {
        let base = base.map(|text| format!("{HEAD}{text}"));
        let drop_in = |(path, text): &(&str, &str)| DropIn {
            path: path.into(),
            bytes: format!("{HEAD}{text}").into_bytes(),
        };
        let drop_ins: Vec<DropIn> = drop_ins.iter().map(drop_in).collect();
        let base = base.as_ref().map(|text| (text.as_bytes(), Path::new("/etc/node")));
        Config::new("n", "/var/lib/node".into()).with_files(base, &drop_ins)
    };
    let base = "maxPods: 50\nclusterDNS: [10.96.0.10]\nsystemReserved: {cpu: 500m, memory: 1Gi}\npodPidsLimit: 99\nstaticPodPath: pods\n\
                authentication: {webhook: {cacheTTL: 5m}}\nevictionHard: {memory.available: 5%, pid.available: 1%}\n";
    let made = merged(
        Some(base),
        &[
            (
                "/d/10.conf",
                "maxPods: 60\nclusterDNS: [10.96.0.11]\nsystemReserved: {cpu: \"1\"}\n",
            ),
            (
                "/d/20.conf",
                "maxPods: 70\npodPidsLimit: null\nevictionHard: {pid.available: null}\nauthentication: {anonymous: {enabled: true}}\n\
                 podLogsDir: logs\n",
            ),
        ],
    )
    .expect("read");
    assert_eq!((made.max_pods, made.pod_pids_limit), (70, -1), "null is the default again");
    assert_eq!(made.cluster_dns, ["10.96.0.11"], "lists are replaced");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(made.system_reserved, [pair("cpu", "1"), pair("memory", "1Gi")], "maps are merged");
    assert_eq!(made.eviction_hard, [pair("memory.available", "5%")]);
    assert!(made.authentication.anonymous);
    assert_eq!(made.authentication.webhook_cache_ttl, Duration::from_secs(300));
    assert_eq!(made.static_pod_path, Some("/etc/node/pods".into()));
    assert_eq!(made.pod_logs_directory, Path::new("/d/logs"));
    assert_eq!(made.in_force().get("maxPods"), Some(&Value::Int(70)));

    let alone = merged(None, &[("/d/a.conf", "evictionHard: {memory.available: 1Gi}\n")]).expect("read");
    assert_eq!((alone.eviction_hard.len(), alone.fail_swap_on), (5, true), "over kubelet's defaults");
    let off = merged(None, &[("/d/a.conf", "evictionHard: null\n")]).expect("read");
    assert!(off.eviction_hard.is_empty());

    let refused = |text: &str| merged(Some(""), &[("/d/a.conf", text)]).expect_err(text).to_string();
    assert_eq!(refused("maxPodz: 1\n"), "/d/a.conf: strict decoding error: unknown field \"maxPodz\"");
    assert!(
        refused("maxPods: -1\n").contains("must not be a negative number"),
        "what it comes to is checked"
    );
    let other = DropIn { path: "/d/a.conf".into(), bytes: b"maxPods: 1\n".to_vec() };
    let other = Config::new("n", "/".into()).with_files(None, &[other]).expect_err("no kind");
    assert!(other.to_string().starts_with("/d/a.conf: kind \"\""), "{other}");
}

#[test]
fn unknown_fields_and_wrong_types_are_refused_by_name() {
    assert_eq!(
        refused("maxPodz: 5\nauthentication: {webhok: {}}\n"),
        "strict decoding error: unknown field \"maxPodz\", unknown field \"authentication.webhok\""
    );
    assert_eq!(refused("maxPods: many\n"), "strict decoding error: maxPods: must be a whole number");
    let told = refused("syncFrequency: soon\nsystemReserved: {cpu: 1}\n");
    assert!(told.contains("syncFrequency: \"soon\" is not a duration"), "{told}");
    assert!(told.contains("systemReserved: must be a map of text: put numbers in quotes"), "{told}");
    assert!(refused("maxPods: 1\nmaxPods: 2\n").contains("maxPods"), "twice");
    let other = Config::new("n", "/".into()).with_file(b"kind: Pod\napiVersion: v1\n");
    assert!(matches!(other, Err(ConfigError::OtherKind { .. })));
    for odd in [&b"[]"[..], b"a: [", b"\xff", b""] {
        assert!(Config::new("n", "/".into()).with_file(odd).is_err());
    }
}

#[test]
fn what_makes_no_sense_is_told_in_kubelets_words() {
    let told = refused(
        "maxPods: -1\nimageGCLowThresholdPercent: 90\nenforceNodeAllocatable: [pods, pods, nothing]\nmemorySwap: {swapBehavior: Maybe}\n\
         evictionSoft: {memory.available: 1Gi}\nsystemReserved: {cpu: \"-1\"}\nhealthzPort: 70000\ncontainerLogMaxFiles: 1\n",
    );
    for part in [
        "maxPods (--max-pods) -1 must not be a negative number",
        "imageGCLowThresholdPercent (--image-gc-low-threshold) 90 must be less than imageGCHighThresholdPercent",
        "duplicated enforcements \"pods\" in enforceNodeAllocatable",
        "option \"nothing\" specified for enforceNodeAllocatable",
        "memorySwap.swapBehavior \"Maybe\" must be one of",
        "grace period must be specified for the soft eviction threshold memory.available",
        "systemReserved: \"cpu\" cannot be \"-1\"",
        "healthzPort (--healthz-port) 70000 must be between 1 and 65535, inclusive",
        "containerLogMaxFiles must be greater than 1",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(
        refused("shutdownGracePeriod: 5s\nshutdownGracePeriodCriticalPods: 10s\n")
            .contains("must be <= shutdownGracePeriod")
    );
    assert!(refused("shutdownGracePeriod: 5ms\n").contains("must be either zero or otherwise >= 1 sec"));
    assert!(refused("registerWithTaints: [{key: a, effect: Never}]\n").contains("invalid taint: a:Never"));
    assert!(refused("evictionHard: {gpu.available: 5%}\n").contains("unsupported signal \"gpu.available\""));
    for (text, told) in [
        ("cgroupsPerQOS: false\n", "must be set to true when \"pods\" contained in enforceNodeAllocatable"),
        ("systemCgroups: /system\n", "systemCgroups (--system-cgroups) was specified and cgroupRoot"),
        (
            "evictionHard: {memory.available: 0Mi}\n",
            "eviction threshold memory.available must be positive: 0",
        ),
        (
            "evictionSoft: {nodefs.available: \"-1Gi\"}\nevictionSoftGracePeriod: {nodefs.available: 1m}\n",
            "eviction threshold nodefs.available must be positive: -1Gi",
        ),
        (
            "evictionHard: {nodefs.available: 101%}\n",
            "eviction percentage threshold nodefs.available must be <= 100%: 101%",
        ),
        (
            "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: \"2026-01-01T00:00:00Z\"}]\n",
            "taint.TimeAdded is not nil",
        ),
    ] {
        let error = refused(text);
        assert!(error.starts_with("invalid configuration: ") && error.contains(told), "{told}: {error}");
    }
    config(
        "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\nsystemCgroups: /system\ncgroupRoot: /\n\
         evictionHard: {nodefs.available: 0%}\nevictionMinimumReclaim: {nodefs.available: \"0\"}\n",
    )
    .expect("read");
    assert!(
        refused("serializeImagePulls: true\nmaxParallelImagePulls: 3\n")
            .contains("maxParallelImagePulls cannot be larger than 1")
    );
}

#[test]
fn configz_shows_every_field_in_force() {
    let mut config =
        config("maxPods: 7\nregisterWithTaints: [{key: a, effect: NoSchedule}]\n").expect("read");
    // As flags, the machine and the runtime do.
    (config.port, config.cgroup_root, config.pod_cidr) =
        (10350, "/node".to_owned(), "10.0.0.0/24".to_owned());
    (config.register_node, config.cgroup_driver) = (false, "cgroupfs".to_owned());
    config.register_with_taints.push("b=c:NoExecute".to_owned());
    let shown = Value::Map(config.in_force());
    let at = |path: &[&str]| shown.at(path).cloned();
    assert_eq!(at(&["maxPods"]), Some(Value::Int(7)));
    assert_eq!(at(&["port"]), Some(Value::Int(10350)), "flags are in force, too");
    assert_eq!((at(&["cgroupRoot"]), at(&["podCIDR"])), (Some("/node".into()), Some("10.0.0.0/24".into())));
    assert_eq!((at(&["registerNode"]), at(&["cgroupDriver"])), (Some(false.into()), Some("cgroupfs".into())));
    let taints = shown.get("registerWithTaints").and_then(Value::as_list).expect("a list");
    let keys: Vec<_> = taints.iter().filter_map(|taint| taint.str_at(&["key"])).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(at(&["syncFrequency"]), Some("1m0s".into()));
    assert_eq!(at(&["authorization", "webhook", "cacheUnauthorizedTTL"]), Some("30s".into()));
    assert_eq!(at(&["evictionHard", "memory.available"]), Some("100Mi".into()));
    assert_eq!(at(&["shutdownGracePeriod"]), Some("0s".into()));
    assert_eq!(at(&["logging", "options", "json", "infoBufferSize"]), Some("0".into()));
    let names: Vec<_> = shown.as_map().expect("a map").iter().map(|(n, _)| n.as_str().to_owned()).collect();
    assert_eq!(names[..3], ["enableServer", "podLogsDir", "syncFrequency"], "in upstream's order");
}

#[test]
fn what_cannot_be_had_is_refused_by_name() {
    for (text, field) in [
        ("cpuManagerPolicy: static\n", "cpuManagerPolicy"),
        ("memoryManagerPolicy: Static\n", "memoryManagerPolicy"),
        ("topologyManagerPolicy: best-effort\n", "topologyManagerPolicy"),
        ("userNamespaces: {idsPerPod: 131072}\n", "userNamespaces"),
        ("reservedSystemCPUs: 0-1\n", "reservedSystemCPUs"),
    ] {
        let told = refused(text);
        assert!(told.starts_with(&format!("invalid configuration: {field} is not supported: ")), "{told}");
    }
    let fine = "cpuManagerPolicy: none\nmemorySwap: {swapBehavior: LimitedSwap}\nuserNamespaces: {idsPerPod: 65536}\n\
                enforceNodeAllocatable: [none]\nrotateCertificates: true\n";
    assert_eq!(config(fine).expect("read").without_effect().count(), 0);
    let ignored = config("syncFrequency: 30s\neventRecordQPS: 0\nmaxPods: 7\nruntimeRequestTimeout: 2m\n")
        .expect("read");
    let names: Vec<&str> = ignored.without_effect().map(|(field, _)| field).collect();
    assert_eq!(names, ["syncFrequency", "eventRecordQPS"]);
}

#[test]
fn restarts_and_images_are_bounded_as_kubelets() {
    for (text, told) in [
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 999ms}\n",
            "CrashLoopBackOff.MaxContainerRestartPeriod (got: 0.999 seconds) must be set between 1s and 300s",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}\n",
            "CrashLoopBackOff.MaxContainerRestartPeriod (got: 301 seconds) must be set between 1s and 300s",
        ),
        (
            "imagePullCredentialsVerificationPolicy: Sometimes\n",
            "option \"Sometimes\" specified for imagePullCredentialsVerificationPolicy. Valid options are \"NeverVerify\", \
             \"NeverVerifyPreloadedImages\", \"NeverVerifyAllowlistedImages\" or \"AlwaysVerify\"",
        ),
        (
            "preloadedImagesVerificationAllowlist: [r.io/a]\n",
            "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not \
             \"NeverVerifyAllowlistedImages\"",
        ),
    ] {
        assert_eq!(refused(text), format!("invalid configuration: {told}"));
    }
    let list = |pattern: &str| {
        config(&format!(
            "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['{pattern}']\n"
        ))
    };
    for (pattern, told) in [
        (" r.io/a", "leading/trailing spaces are not allowed:  r.io/a"),
        ("", "the supplied pattern is too short: "),
        ("r.io/*/a", "not a valid wildcard pattern, only patterns ending with '/*' are allowed: r.io/*/a"),
        ("/*", "at least registry hostname is required"),
        ("r.io/a:1", "neither tag nor digest is accepted in an image reference: r.io/a:1"),
    ] {
        let error = list(pattern).expect_err(pattern).to_string();
        let head = "invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: ";
        assert_eq!(error, format!("{head}{told}"));
    }
    let read = list("r.io/a/*").expect("read");
    assert_eq!(
        read.image_verification,
        Verification::NeverVerifyAllowlistedImages(vec!["r.io/a/*".to_owned()])
    );
    let read = config("crashLoopBackOff: {maxContainerRestartPeriod: 20s}\n").expect("read");
    assert_eq!(read.crash_loop_max_restart_period, Duration::from_secs(20));
}

/// The document that people read, made of the same table.
fn document() -> String {
    use effects::{Other, UNSUPPORTED};
    use std::fmt::Write as _;
    let of = |other: Other| {
        let mut rows = "| field | also accepted | what holds instead |\n|---|---|---|\n".to_owned();
        for one in UNSUPPORTED.iter().filter(|one| one.other == other) {
            let also: Vec<String> = one.also.iter().map(|value| format!("`{value}`")).collect();
            let _ = writeln!(rows, "| `{}` | {} | {} |", one.field, also.join(", "), one.why);
        }
        rows
    };
    let unsupported = |name: &str| UNSUPPORTED.iter().any(|one| one.field == name);
    let honoured: Vec<String> = fields::FIELDS
        .iter()
        .filter(|field| !unsupported(field.name))
        .map(|field| format!("`{}`", field.name))
        .collect();
    format!(
        "# KubeletConfiguration\n\n\
         What a node does with the fields of `kubelet.config.k8s.io/v1beta1` that `--config` (`setpoint node`) and `--node-config`\n\
         (`setpoint up`) read, `--config-dir` and `--node-config-dir` in drop-in files. Unknown fields and wrong values are refused, as by kubelet. The table is `kubelet/src/config/effects.rs`; a\n\
         test compares it with this document.\n\n\
         ## Honoured\n\n{}.\n\n\
         ## Refused unless they have their default\n\n\
         The node does not start, and names the field.\n\n{}\n\
         ## Without effect\n\n\
         Another value than the default is warned of in the log.\n\n{}",
        honoured.join(", "),
        of(Other::Refused),
        of(Other::Ignored),
    )
}

#[test]
fn the_document_says_what_the_code_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kubelet-configuration.md");
    let (written, expected) = (std::fs::read_to_string(path).unwrap_or_default(), document());
    if written != expected {
        let new = std::env::temp_dir().join("kubelet-configuration.md");
        std::fs::write(&new, &expected).unwrap();
        panic!("docs/kubelet-configuration.md is not what the code says: it should be {}", new.display());
    }
}

#[test]
fn each_honoured_field_is_read_and_each_other_one_is_known() {
    let read = include_str!("read.rs").to_owned() + include_str!("validate.rs");
    for field in fields::FIELDS {
        let unsupported = effects::UNSUPPORTED.iter().any(|one| one.field == field.name);
        assert!(unsupported || read.contains(&format!("{:?}", field.name)), "{}", field.name);
    }
    let position = |name: &str| fields::FIELDS.iter().position(|field| field.name == name);
    let order: Vec<_> =
        effects::UNSUPPORTED.iter().map(|one| position(one.field).expect(one.field)).collect();
    assert!(order.is_sorted(), "in the order of the type");
}

#[test]
fn only_the_defaults_of_known_feature_gates_are_accepted() {
    config("featureGates: {GracefulNodeShutdown: true, MemoryQoS: false, AllAlpha: false}\n").expect("read");
    let told = refused("featureGates: {MemoryQoS: true, NoSuchGate: false, NodeSwap: false}\n");
    for part in [
        "featureGates: unrecognized feature gate: NoSuchGate",
        "featureGates: MemoryQoS=true is not supported: it is off",
        "featureGates: NodeSwap=false is not supported: it is on",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn what_tls_cannot_do_here_is_refused_by_name() {
    config(
        "tlsMinVersion: VersionTLS13\ntlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\ntlsCurvePreferences: [29]\n",
    )
    .expect("read");
    assert!(
        refused("tlsMinVersion: VersionTLS10\n").contains("tlsMinVersion \"VersionTLS10\" is not supported")
    );
    assert!(
        refused("tlsCipherSuites: [TLS_RSA_WITH_AES_128_CBC_SHA]\n")
            .contains("Cipher suite TLS_RSA_WITH_AES_128_CBC_SHA not supported or doesn't exist")
    );
    assert!(refused("tlsCurvePreferences: [4588]\n").contains("tlsCurvePreferences: 4588 is not supported"));
}

#[test]
fn images_of_another_socket_are_refused() {
    let runtime = "containerRuntimeEndpoint: unix:///run/a.sock\n";
    config(&format!("{runtime}imageServiceEndpoint: unix:///run/a.sock\n")).expect("the same one");
    assert!(
        refused(&format!("{runtime}imageServiceEndpoint: unix:///run/b.sock\n"))
            .contains("imageServiceEndpoint \"unix:///run/b.sock\" is not supported")
    );
}

#[test]
fn paths_of_a_file_are_relative_to_its_directory() {
    let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: manifests\n\
                tlsCertFile: pki/tls.crt\ntlsPrivateKeyFile: /own/tls.key\nresolvConf: resolv.conf\npodLogsDir: logs\n\
                authentication: {x509: {clientCAFile: ca.crt}}\n";
    let read = |directory: &str| {
        Config::new("n", "/var/lib/node".into()).with_file_in(text.as_bytes(), directory.as_ref()).unwrap()
    };
    let config = read("/etc/node");
    assert_eq!(config.static_pod_path, Some("/etc/node/manifests".into()));
    assert_eq!(config.tls_files, Some(("/etc/node/pki/tls.crt".into(), "/own/tls.key".into())));
    assert_eq!(config.resolv_conf, std::path::PathBuf::from("/etc/node/resolv.conf"));
    assert_eq!(config.pod_logs_directory, std::path::PathBuf::from("/etc/node/logs"));
    assert_eq!(config.authentication.client_ca_file, Some("/etc/node/ca.crt".into()));
    let shown = config.in_force();
    assert_eq!(shown.get("staticPodPath").and_then(Value::as_str), Some("/etc/node/manifests"));
}
