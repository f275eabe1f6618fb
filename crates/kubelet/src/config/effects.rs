//! What a node does with the fields of `KubeletConfiguration`: most are honoured, and those that are not are in one table here, which
//! `docs/kubelet-configuration.md` shows. A test compares the two.

use object::Value;

use super::{Config, decode};

/// A field that does not do what kubelet's does.
pub struct Unsupported {
    pub field: &'static str,
    pub other: Other,
    /// Values beside the default that ask for nothing else, in JSON.
    pub also: &'static [&'static str],
    /// A sentence about what happens instead.
    pub why: &'static str,
}

/// What any other value than the default leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// Somebody relies on it: the node does not start.
    Refused,
    /// A warning in the log.
    Ignored,
}

const fn refused(field: &'static str, also: &'static [&'static str], why: &'static str) -> Unsupported {
    Unsupported { field, other: Other::Refused, also, why }
}

const fn ignored(field: &'static str, also: &'static [&'static str], why: &'static str) -> Unsupported {
    Unsupported { field, other: Other::Ignored, also, why }
}

/// In the order of the type.
pub const UNSUPPORTED: &[Unsupported] = &[
    ignored("syncFrequency", &[], "pods are looked at when something changes, not at intervals"),
    ignored("readOnlyPort", &[], "there is no port without authentication"),
    ignored("rotateCertificates", &["true"], "certificates are always rotated"),
    ignored(
        "serverTLSBootstrap",
        &["true"],
        "without files the serving certificate always comes from the cluster",
    ),
    ignored("eventRecordQPS", &[], "repeated events are counted, and limited for each object"),
    ignored("eventBurst", &[], "repeated events are counted, and limited for each object"),
    ignored("enableContentionProfiling", &[], "there are no profiles"),
    ignored("oomScoreAdj", &[], "the process keeps the score it was started with"),
    ignored("streamingConnectionIdleTimeout", &[], "a stream that is idle ends after four hours"),
    ignored("nodeStatusReportFrequency", &[], "the status is written when it changes"),
    ignored(
        "volumeStatsAggPeriod",
        &[],
        "volumes are measured when they are asked for, at most once a minute",
    ),
    ignored("kubeletCgroups", &[], "the process stays in its cgroup"),
    ignored("systemCgroups", &[], "processes of the machine stay in their cgroups"),
    refused("cpuManagerPolicy", &[], "containers share the machine's CPUs"),
    refused("cpuManagerPolicyOptions", &[], "containers share the machine's CPUs"),
    ignored("cpuManagerReconcilePeriod", &[], "containers share the machine's CPUs"),
    refused("memoryManagerPolicy", &[], "memory is not bound to NUMA nodes"),
    refused("topologyManagerPolicy", &[], "resources are not aligned to NUMA nodes"),
    ignored("topologyManagerScope", &[], "resources are not aligned to NUMA nodes"),
    refused("topologyManagerPolicyOptions", &[], "resources are not aligned to NUMA nodes"),
    refused("qosReserved", &[], "nothing is reserved for a class of pods"),
    ignored(
        "runtimeRequestTimeout",
        &[],
        "a call to the runtime may take 2 minutes, one that makes a sandbox 4",
    ),
    ignored("hairpinMode", &[], "every pod can reach itself through its Services"),
    ignored("maxOpenFiles", &[], "the limit is the one the process was started with"),
    ignored("contentType", &[], "the API server is asked for JSON"),
    ignored("kubeAPIQPS", &[], "the API server's own flow control is the limit"),
    ignored("kubeAPIBurst", &[], "the API server's own flow control is the limit"),
    ignored("enableControllerAttachDetach", &[], "there are no volumes to attach"),
    ignored("makeIPTablesUtilChains", &[], "rules are nftables', in a table of their own"),
    ignored("iptablesMasqueradeBit", &[], "rules are nftables', in a table of their own"),
    ignored("iptablesDropBit", &[], "rules are nftables', in a table of their own"),
    ignored("containerLogMaxWorkers", &[], "one task rotates the logs"),
    ignored("configMapAndSecretChangeDetectionStrategy", &[], "ConfigMaps and Secrets are watched"),
    refused(
        "reservedSystemCPUs",
        &[],
        "containers share all of the machine's CPUs; reserve an amount with systemReserved",
    ),
    ignored("showHiddenMetricsForVersion", &[], "there are no hidden metrics"),
    ignored("systemReservedCgroup", &[], "only what pods take together is limited"),
    ignored("kubeReservedCgroup", &[], "only what pods take together is limited"),
    refused("enforceNodeAllocatable", &["[\"none\"]", "[]"], "only what pods take together can be limited"),
    ignored("volumePluginDir", &[], "there are no FlexVolumes"),
    ignored("kernelMemcgNotification", &[], "memory is measured every 10 seconds"),
    ignored("logging", &[], "the log is set up by the program's own flags"),
    ignored("enableSystemLogQuery", &[], "the journal is not served"),
    refused("reservedMemory", &[], "memory is not bound to NUMA nodes"),
    ignored("enableProfilingHandler", &[], "there are no profiles"),
    ignored("enableDebugFlagsHandler", &[], "the log's level is not changed by requests"),
    ignored("memoryThrottlingFactor", &[], "its feature gate, MemoryQoS, is off"),
    ignored("memoryReservationPolicy", &[], "its feature gate, MemoryQoS, is off"),
    ignored("tracing", &[], "there are no traces"),
    refused("userNamespaces", &[r#"{"idsPerPod":65536}"#], "a pod has 65536 users of its own"),
];

/// What is set and cannot be had, of one kind.
fn found(config: &Config, other: Other) -> impl Iterator<Item = &'static Unsupported> {
    let defaults = decode::defaults();
    UNSUPPORTED.iter().filter(move |one| {
        let Some(value) = config.fields.get(one.field) else { return false };
        let same =
            defaults.get(one.field) == Some(value) || (defaults.get(one.field).is_none() && is_zero(value));
        let also = |also: &&str| codec::json::parse(also.as_bytes(), None).is_ok_and(|also| also == *value);
        one.other == other && !same && !one.also.iter().any(also)
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Str(value) => value.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => value.is_null(),
    }
}

/// Why the configuration is refused.
pub fn refusals(config: &Config) -> impl Iterator<Item = String> {
    let say =
        |one: &Unsupported| format!("invalid configuration: {} is not supported: {}", one.field, one.why);
    found(config, Other::Refused).map(say)
}

impl Config {
    /// Fields that were set and have no effect, each with a sentence.
    pub fn without_effect(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        found(self, Other::Ignored).map(|one| (one.field, one.why))
    }
}
