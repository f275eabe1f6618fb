//! The fields of `KubeletConfiguration` (`kubelet.config.k8s.io/v1beta1`, v1.36), in the order they are shown in.

/// What a field holds.
pub enum Kind {
    Bool,
    Int,
    /// A number with a fraction.
    Float,
    Text,
    /// `1m30s`.
    Duration,
    Texts,
    Ints,
    /// Text by name.
    TextMap,
    BoolMap,
    /// Lists of text by name.
    TextsMap,
    Object(&'static [Field]),
    Objects(&'static [Field]),
}

pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// JSON; empty: none.
    pub default: &'static str,
    /// Zero is a value of its own, not the same as nothing.
    pub zero_counts: bool,
}

/// Zero, and empty text, mean the default.
const fn f(name: &'static str, kind: Kind, default: &'static str) -> Field {
    Field { name, kind, default, zero_counts: false }
}

/// Zero means zero.
const fn p(name: &'static str, kind: Kind, default: &'static str) -> Field {
    Field { name, kind, default, zero_counts: true }
}

use Kind::{Bool, BoolMap, Duration, Float, Int, Ints, Object, Objects, Text, TextMap, Texts, TextsMap};

const AUTHENTICATION: &[Field] = &[
    f("x509", Object(&[f("clientCAFile", Text, "")]), "{}"),
    f("webhook", Object(&[p("enabled", Bool, "true"), f("cacheTTL", Duration, "\"2m0s\"")]), "{}"),
    f("anonymous", Object(&[p("enabled", Bool, "false")]), "{}"),
];

const AUTHORIZATION: &[Field] = &[
    f("mode", Text, "\"Webhook\""),
    f(
        "webhook",
        Object(&[
            f("cacheAuthorizedTTL", Duration, "\"5m0s\""),
            f("cacheUnauthorizedTTL", Duration, "\"30s\""),
        ]),
        "{}",
    ),
];

const BUFFER: &[Field] = &[f("splitStream", Bool, ""), f("infoBufferSize", Text, "\"0\"")];
const LOGGING: &[Field] = &[
    f("format", Text, "\"text\""),
    p("flushFrequency", Duration, "\"5s\""),
    p("verbosity", Int, "0"),
    f("vmodule", Objects(&[p("filePattern", Text, ""), p("verbosity", Int, "")]), ""),
    f("options", Object(&[f("text", Object(BUFFER), "{}"), f("json", Object(BUFFER), "{}")]), "{}"),
];

const TAINT: &[Field] =
    &[p("key", Text, ""), f("value", Text, ""), p("effect", Text, ""), f("timeAdded", Text, "")];

pub const FIELDS: &[Field] = &[
    p("enableServer", Bool, "true"),
    f("staticPodPath", Text, ""),
    f("podLogsDir", Text, ""),
    f("syncFrequency", Duration, "\"1m0s\""),
    f("fileCheckFrequency", Duration, "\"20s\""),
    f("httpCheckFrequency", Duration, "\"20s\""),
    f("staticPodURL", Text, ""),
    f("staticPodURLHeader", TextsMap, ""),
    f("address", Text, "\"0.0.0.0\""),
    f("port", Int, "10250"),
    f("readOnlyPort", Int, ""),
    f("tlsCertFile", Text, ""),
    f("tlsPrivateKeyFile", Text, ""),
    f("tlsCipherSuites", Texts, ""),
    f("tlsCurvePreferences", Ints, ""),
    f("tlsMinVersion", Text, ""),
    f("rotateCertificates", Bool, ""),
    f("serverTLSBootstrap", Bool, ""),
    f("authentication", Object(AUTHENTICATION), "{}"),
    f("authorization", Object(AUTHORIZATION), "{}"),
    p("registryPullQPS", Int, "5"),
    f("registryBurst", Int, "10"),
    f("imagePullCredentialsVerificationPolicy", Text, "\"NeverVerifyPreloadedImages\""),
    f("preloadedImagesVerificationAllowlist", Texts, ""),
    p("eventRecordQPS", Int, "50"),
    f("eventBurst", Int, "100"),
    p("enableDebuggingHandlers", Bool, "true"),
    f("enableContentionProfiling", Bool, ""),
    p("healthzPort", Int, "10248"),
    f("healthzBindAddress", Text, "\"127.0.0.1\""),
    p("oomScoreAdj", Int, "-999"),
    f("clusterDomain", Text, ""),
    f("clusterDNS", Texts, ""),
    f("streamingConnectionIdleTimeout", Duration, "\"4h0m0s\""),
    f("nodeStatusUpdateFrequency", Duration, "\"10s\""),
    f("nodeStatusReportFrequency", Duration, "\"5m0s\""),
    f("nodeLeaseDurationSeconds", Int, "40"),
    f("imageMinimumGCAge", Duration, "\"2m0s\""),
    f("imageMaximumGCAge", Duration, "\"0s\""),
    p("imageGCHighThresholdPercent", Int, "85"),
    p("imageGCLowThresholdPercent", Int, "80"),
    f("volumeStatsAggPeriod", Duration, "\"1m0s\""),
    f("kubeletCgroups", Text, ""),
    f("systemCgroups", Text, ""),
    f("cgroupRoot", Text, ""),
    p("cgroupsPerQOS", Bool, "true"),
    f("cgroupDriver", Text, "\"cgroupfs\""),
    f("cpuManagerPolicy", Text, "\"none\""),
    p("singleProcessOOMKill", Bool, ""),
    f("cpuManagerPolicyOptions", TextMap, ""),
    f("cpuManagerReconcilePeriod", Duration, "\"10s\""),
    f("memoryManagerPolicy", Text, "\"None\""),
    f("topologyManagerPolicy", Text, "\"none\""),
    f("topologyManagerScope", Text, "\"container\""),
    f("topologyManagerPolicyOptions", TextMap, ""),
    f("qosReserved", TextMap, ""),
    f("runtimeRequestTimeout", Duration, "\"2m0s\""),
    f("hairpinMode", Text, "\"promiscuous-bridge\""),
    f("maxPods", Int, "110"),
    f("podCIDR", Text, ""),
    p("podPidsLimit", Int, "-1"),
    p("resolvConf", Text, "\"/etc/resolv.conf\""),
    f("runOnce", Bool, ""),
    p("cpuCFSQuota", Bool, "true"),
    p("cpuCFSQuotaPeriod", Duration, "\"100ms\""),
    p("nodeStatusMaxImages", Int, "50"),
    f("maxOpenFiles", Int, "1000000"),
    f("contentType", Text, "\"application/vnd.kubernetes.protobuf\""),
    p("kubeAPIQPS", Int, "50"),
    f("kubeAPIBurst", Int, "100"),
    p("serializeImagePulls", Bool, ""),
    p("maxParallelImagePulls", Int, ""),
    // An empty one has no thresholds: the defaults are for who says nothing.
    p("evictionHard", TextMap, ""),
    f("evictionSoft", TextMap, ""),
    f("evictionSoftGracePeriod", TextMap, ""),
    f("evictionPressureTransitionPeriod", Duration, "\"5m0s\""),
    f("evictionMaxPodGracePeriod", Int, ""),
    f("evictionMinimumReclaim", TextMap, ""),
    p("mergeDefaultEvictionSettings", Bool, "false"),
    f("podsPerCore", Int, ""),
    p("enableControllerAttachDetach", Bool, "true"),
    f("protectKernelDefaults", Bool, ""),
    p("makeIPTablesUtilChains", Bool, "true"),
    p("iptablesMasqueradeBit", Int, "14"),
    p("iptablesDropBit", Int, "15"),
    f("featureGates", BoolMap, ""),
    p("failSwapOn", Bool, "true"),
    f("memorySwap", Object(&[f("swapBehavior", Text, "")]), "{}"),
    f("containerLogMaxSize", Text, "\"10Mi\""),
    p("containerLogMaxFiles", Int, "5"),
    p("containerLogMaxWorkers", Int, "1"),
    p("containerLogMonitorInterval", Duration, "\"10s\""),
    f("configMapAndSecretChangeDetectionStrategy", Text, "\"Watch\""),
    f("systemReserved", TextMap, ""),
    f("kubeReserved", TextMap, ""),
    f("reservedSystemCPUs", Text, ""),
    f("showHiddenMetricsForVersion", Text, ""),
    f("systemReservedCgroup", Text, ""),
    f("kubeReservedCgroup", Text, ""),
    f("enforceNodeAllocatable", Texts, "[\"pods\"]"),
    f("allowedUnsafeSysctls", Texts, ""),
    f("volumePluginDir", Text, "\"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/\""),
    f("providerID", Text, ""),
    f("kernelMemcgNotification", Bool, ""),
    f("logging", Object(LOGGING), "{}"),
    p("enableSystemLogHandler", Bool, "true"),
    p("enableSystemLogQuery", Bool, ""),
    f("shutdownGracePeriod", Duration, "\"0s\""),
    f("shutdownGracePeriodCriticalPods", Duration, "\"0s\""),
    f(
        "shutdownGracePeriodByPodPriority",
        Objects(&[p("priority", Int, "0"), p("shutdownGracePeriodSeconds", Int, "0")]),
        "",
    ),
    f("crashLoopBackOff", Object(&[p("maxContainerRestartPeriod", Duration, "\"5m0s\"")]), "{}"),
    f("reservedMemory", Objects(&[p("numaNode", Int, "0"), p("limits", TextMap, "")]), ""),
    p("enableProfilingHandler", Bool, "true"),
    p("enableDebugFlagsHandler", Bool, "true"),
    p("seccompDefault", Bool, "false"),
    p("memoryThrottlingFactor", Float, "0.9"),
    f("memoryReservationPolicy", Text, "\"None\""),
    f("registerWithTaints", Objects(TAINT), ""),
    p("registerNode", Bool, "true"),
    f("tracing", Object(&[p("endpoint", Text, ""), p("samplingRatePerMillion", Int, "")]), ""),
    p("localStorageCapacityIsolation", Bool, "true"),
    // Differs from kubelet, whose default is containerd's socket: without one the runtime of this program is used.
    p("containerRuntimeEndpoint", Text, "\"\""),
    f("imageServiceEndpoint", Text, ""),
    // Differs from kubelet, which refuses to start on cgroup v1: here it is warned of.
    p("failCgroupV1", Bool, "false"),
    f("userNamespaces", Object(&[p("idsPerPod", Int, "")]), ""),
];
