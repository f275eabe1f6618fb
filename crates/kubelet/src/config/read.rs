//! The fields as the parts of the node read them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use image::Verification;
use object::quantity::Quantity;
use object::{Map, Value};

use super::{Config, duration};

/// Beside that of the clients' CA.
const PATHS: [&str; 6] =
    ["staticPodPath", "tlsCertFile", "tlsPrivateKeyFile", "resolvConf", "volumePluginDir", "podLogsDir"];

/// Defaults that follow from other fields.
pub fn with_computed_defaults(mut fields: Map) -> Map {
    if fields.get("serializeImagePulls").is_none() {
        let parallel = fields.get("maxParallelImagePulls").and_then(Value::as_int).unwrap_or(1);
        fields.set("serializeImagePulls", Value::Bool(parallel < 2));
    }
    // Any negative number is no limit.
    if fields.get("podPidsLimit").and_then(Value::as_int).is_some_and(|limit| limit < 0) {
        fields.set("podPidsLimit", Value::Int(-1));
    }
    fields
}

/// Thresholds of who says nothing about them, or wants to keep them beside those of the file.
pub fn set_thresholds(fields: &mut Map, defaults: &[(String, String)]) {
    let is_set = fields.contains("evictionHard");
    if is_set && fields.get("mergeDefaultEvictionSettings").and_then(Value::as_bool) != Some(true) {
        return;
    }
    let mut hard = fields.remove("evictionHard").unwrap_or_else(Value::map);
    let map = hard.make_map();
    for (signal, value) in defaults {
        if !map.contains(signal) {
            map.set(signal.clone(), value.clone());
        }
    }
    fields.set("evictionHard", hard);
}

/// Those of a file are relative to its directory.
pub fn resolve_paths(fields: &mut Map, directory: &Path) {
    let resolve = |path: &mut Value| {
        if let Some(text) = path.as_str().filter(|text| !text.is_empty()) {
            *path = Value::from(directory.join(text).to_string_lossy().as_ref());
        }
    };
    for name in PATHS {
        if let Some(path) = fields.get_mut(name) {
            resolve(path);
        }
    }
    let x509 = fields.get_mut("authentication").and_then(Value::as_map_mut);
    let x509 = x509.and_then(|map| map.get_mut("x509")).and_then(Value::as_map_mut);
    if let Some(path) = x509.and_then(|map| map.get_mut("clientCAFile")) {
        resolve(path);
    }
}

/// The fields that were decoded, over what a node without a file has.
pub fn apply(mut config: Config, fields: Map) -> Config {
    let read = Fields(&fields);
    if let Some(path) = read.path("staticPodPath") {
        config.static_pod_path = Some(path);
    }
    config.static_pod_url = read.text("staticPodURL");
    config.static_pod_url_header = read.lists("staticPodURLHeader");
    if let Some(path) = read.path("podLogsDir") {
        config.pod_logs_directory = path;
    }
    if let Some(domain) = read.some_text("clusterDomain") {
        config.cluster_domain = domain;
    }
    if let Some(root) = read.some_text("cgroupRoot") {
        config.cgroup_root = root;
    }
    config.eviction_hard = read.pairs("evictionHard");
    config.cluster_dns = read.texts("clusterDNS");
    config.resolv_conf = PathBuf::from(read.text("resolvConf"));
    config.max_pods = read.int("maxPods");
    config.pod_pids_limit = read.int("podPidsLimit");
    config.container_log_max_size = read.quantity("containerLogMaxSize");
    config.container_log_max_files = read.count("containerLogMaxFiles");
    config.container_log_monitor_interval = read.duration("containerLogMonitorInterval");
    config.image_gc_high_threshold_percent = read.percent("imageGCHighThresholdPercent");
    config.image_gc_low_threshold_percent = read.percent("imageGCLowThresholdPercent");
    config.image_minimum_gc_age = read.duration("imageMinimumGCAge");
    config.image_maximum_gc_age = read.duration("imageMaximumGCAge");
    config.file_check_frequency = read.duration("fileCheckFrequency");
    config.http_check_frequency = read.duration("httpCheckFrequency");
    config.node_status_update_frequency = read.duration("nodeStatusUpdateFrequency");
    config.node_lease_duration_seconds = read.int("nodeLeaseDurationSeconds");
    config.node_status_max_images = read.int("nodeStatusMaxImages");
    config.cpu_cfs_quota = read.bool("cpuCFSQuota");
    config.cpu_cfs_quota_period = read.duration("cpuCFSQuotaPeriod");
    config.single_process_oom_kill = read.bool("singleProcessOOMKill");
    config.seccomp_default = read.bool("seccompDefault");
    config.allowed_unsafe_sysctls = read.texts("allowedUnsafeSysctls");
    config.shutdown_grace_period = read.duration("shutdownGracePeriod");
    config.shutdown_grace_period_critical_pods = read.duration("shutdownGracePeriodCriticalPods");
    config.shutdown_grace_period_by_pod_priority = by_priority(&fields);
    config.eviction_soft = read.pairs("evictionSoft");
    config.eviction_soft_grace_period = read
        .pairs("evictionSoftGracePeriod")
        .into_iter()
        .map(|(signal, text)| (signal, nanos(duration::parse(&text).unwrap_or(0))))
        .collect();
    config.eviction_minimum_reclaim = read.pairs("evictionMinimumReclaim");
    config.eviction_max_pod_grace_period = read.int("evictionMaxPodGracePeriod");
    config.eviction_pressure_transition_period = read.duration("evictionPressureTransitionPeriod");
    config.kube_reserved = read.pairs("kubeReserved");
    config.system_reserved = read.pairs("systemReserved");
    config.enforce_node_allocatable = read.texts("enforceNodeAllocatable");
    config.address = read.text("address");
    config.port = read.port("port");
    config.healthz_address = read.text("healthzBindAddress");
    config.healthz_port = read.port("healthzPort");
    config.register_with_taints = taints(&fields);
    config.register_node = read.bool("registerNode");
    config.provider_id = read.text("providerID");
    config.authentication.anonymous = read.bool_at(&["authentication", "anonymous", "enabled"]);
    config.authentication.webhook = read.bool_at(&["authentication", "webhook", "enabled"]);
    config.authentication.webhook_cache_ttl = read.duration_at(&["authentication", "webhook", "cacheTTL"]);
    let client_ca = read.text_at(&["authentication", "x509", "clientCAFile"]);
    config.authentication.client_ca_file = (!client_ca.is_empty()).then(|| PathBuf::from(client_ca));
    config.authorization.webhook = read.text_at(&["authorization", "mode"]) == "Webhook";
    config.authorization.cache_authorized_ttl =
        read.duration_at(&["authorization", "webhook", "cacheAuthorizedTTL"]);
    config.authorization.cache_unauthorized_ttl =
        read.duration_at(&["authorization", "webhook", "cacheUnauthorizedTTL"]);
    config.tls_files = read.path("tlsCertFile").zip(read.path("tlsPrivateKeyFile"));
    config.tls.min_version = read.text("tlsMinVersion");
    config.tls.cipher_suites = read.texts("tlsCipherSuites");
    config.tls.curve_preferences = read.ints("tlsCurvePreferences");
    config.enable_server = read.bool("enableServer");
    config.enable_debugging_handlers = read.bool("enableDebuggingHandlers");
    config.enable_system_log_handler = read.bool("enableSystemLogHandler");
    config.container_runtime_endpoint = read.some_text("containerRuntimeEndpoint");
    config.serialize_image_pulls = read.bool("serializeImagePulls");
    config.max_parallel_image_pulls =
        fields.contains("maxParallelImagePulls").then(|| read.count("maxParallelImagePulls"));
    config.image_verification = match &*read.text("imagePullCredentialsVerificationPolicy") {
        "NeverVerify" => Verification::NeverVerify,
        "NeverVerifyAllowlistedImages" => {
            Verification::NeverVerifyAllowlistedImages(read.texts("preloadedImagesVerificationAllowlist"))
        }
        "AlwaysVerify" => Verification::AlwaysVerify,
        _ => Verification::NeverVerifyPreloadedImages,
    };
    config.registry_pull_qps = read.small("registryPullQPS");
    config.registry_burst = read.small("registryBurst");
    config.pods_per_core = read.int("podsPerCore");
    config.pod_cidr = read.text("podCIDR");
    config.crash_loop_max_restart_period =
        read.duration_at(&["crashLoopBackOff", "maxContainerRestartPeriod"]);
    config.fail_swap_on = read.bool("failSwapOn");
    config.swap_behavior = read.text_at(&["memorySwap", "swapBehavior"]);
    config.fail_cgroup_v1 = read.bool("failCgroupV1");
    config.protect_kernel_defaults = read.bool("protectKernelDefaults");
    config.cgroup_driver = read.text("cgroupDriver");
    config.cgroups_per_qos = read.bool("cgroupsPerQOS");
    config.local_storage_capacity_isolation = read.bool("localStorageCapacityIsolation");
    let gates = fields.get("featureGates").and_then(Value::as_map).cloned().unwrap_or_default();
    config.feature_gates =
        gates.iter().filter_map(|(name, on)| Some((name.as_str().to_owned(), on.as_bool()?))).collect();
    config.fields = fields;
    config
}

/// Numbers that do not fit are the largest or smallest that do: what is out of range is told by validation, of the fields themselves.
struct Fields<'a>(&'a Map);

impl Fields<'_> {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        self.0.get(first)?.at(rest)
    }
    fn text_at(&self, path: &[&str]) -> String {
        self.at(path).and_then(Value::as_str).unwrap_or("").to_owned()
    }
    fn bool_at(&self, path: &[&str]) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }
    fn duration_at(&self, path: &[&str]) -> Duration {
        nanos(self.at(path).and_then(Value::as_str).and_then(duration::parse).unwrap_or(0))
    }
    fn text(&self, name: &str) -> String {
        self.text_at(&[name])
    }
    fn some_text(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.some_text(name).map(PathBuf::from)
    }
    fn bool(&self, name: &str) -> bool {
        self.bool_at(&[name])
    }
    fn int(&self, name: &str) -> i64 {
        self.0.get(name).and_then(Value::as_int).unwrap_or(0)
    }
    fn count(&self, name: &str) -> usize {
        usize::try_from(self.int(name)).unwrap_or(0)
    }
    fn small(&self, name: &str) -> u32 {
        u32::try_from(self.int(name).max(0)).unwrap_or(u32::MAX)
    }
    fn port(&self, name: &str) -> u16 {
        u16::try_from(self.int(name)).unwrap_or(0)
    }
    fn percent(&self, name: &str) -> u8 {
        self.int(name).clamp(0, 100) as u8
    }
    fn duration(&self, name: &str) -> Duration {
        self.duration_at(&[name])
    }
    fn quantity(&self, name: &str) -> u64 {
        let value = Quantity::parse(&self.text(name)).map(|quantity| quantity.as_i64()).unwrap_or(0);
        u64::try_from(value).unwrap_or(0)
    }
    fn texts(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }
    fn ints(&self, name: &str) -> Vec<i64> {
        let list = self.0.get(name).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_int).collect()
    }
    /// Each name once for each of its values.
    fn lists(&self, name: &str) -> Vec<(String, String)> {
        let all = self.0.get(name).and_then(Value::as_map).into_iter().flat_map(Map::iter);
        let texts = all.flat_map(|(name, list)| {
            let values = list.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
            values.map(|value| (name.to_string(), value.to_owned())).collect::<Vec<_>>()
        });
        texts.collect()
    }
    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let Some(map) = self.0.get(name).and_then(Value::as_map) else { return Vec::new() };
        let pair = |(name, value): (&catalog::Name, &Value)| {
            Some((name.as_str().to_owned(), value.as_str()?.to_owned()))
        };
        map.iter().filter_map(pair).collect()
    }
}

/// What is negative is told by validation.
fn nanos(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

fn by_priority(fields: &Map) -> Vec<(i32, i64)> {
    let list = fields.get("shutdownGracePeriodByPodPriority").and_then(Value::as_list).unwrap_or_default();
    let int = |item: &Value, name: &str| item.get(name).and_then(Value::as_int).unwrap_or(0);
    let entry = |item: &Value| {
        let priority = int(item, "priority").clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        (priority, int(item, "shutdownGracePeriodSeconds"))
    };
    let mut all: Vec<(i32, i64)> = list.iter().map(entry).collect();
    all.sort_by_key(|(priority, _)| *priority);
    all
}

/// As the flag `--register-with-taints` has them.
fn taints(fields: &Map) -> Vec<String> {
    let list = fields.get("registerWithTaints").and_then(Value::as_list).unwrap_or_default();
    let text = |item: &Value, name: &str| item.str_at(&[name]).unwrap_or("").to_owned();
    let taint = |item: &Value| match text(item, "value").as_str() {
        "" => format!("{}:{}", text(item, "key"), text(item, "effect")),
        value => format!("{}={value}:{}", text(item, "key"), text(item, "effect")),
    };
    list.iter().map(taint).collect()
}
