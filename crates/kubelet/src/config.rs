//! How a node is set up: the fields of `KubeletConfiguration` that people set, and where its files are.

mod decode;
mod duration;
mod effects;
mod fields;
mod read;
#[cfg(test)]
mod tests;
mod validate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use image::Verification;
use object::{Map, Value};

use crate::generate::USER_RANGES;
use crate::machine::taint;
use crate::pod_logs;

/// Why a configuration file is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("not YAML: {0}")]
    NotYaml(String),
    #[error("kind {kind:?} of {version:?} is not a KubeletConfiguration of kubelet.config.k8s.io/v1beta1")]
    OtherKind { kind: String, version: String },
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
    #[error("{}: {why}", .path.display())]
    DropIn { path: PathBuf, why: Box<ConfigError> },
    /// In kubelet's words.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

/// A file that is merged into the configuration.
pub struct DropIn {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl DropIn {
    // Differs from kubelet, which ignores fields that it does not know here, and leaves paths relative to its working directory.
    fn read(&self) -> Result<Map, ConfigError> {
        let told = |why| ConfigError::DropIn { path: self.path.clone(), why: Box::new(why) };
        let mut given = decode::drop_in(&self.bytes).map_err(told)?;
        read::resolve_paths(&mut given, self.path.parent().unwrap_or(Path::new("")));
        Ok(given)
    }
}

/// Names and defaults are those of `kubelet.config.k8s.io/v1beta1`, except for the directories.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub node_name: String,
    /// Pods' directories (`pods/UID/volumes`, ...), the image store, the runtime's state. One for each agent of a machine.
    pub root_directory: PathBuf,
    /// `NAMESPACE_NAME_UID/CONTAINER/N.log` below it.
    pub pod_logs_directory: PathBuf,
    /// Links for log collectors, where the logs are outside the root directory.
    pub container_logs_directory: PathBuf,
    pub static_pod_path: Option<PathBuf>,
    /// Empty: none is asked.
    pub static_pod_url: String,
    /// What it is asked with.
    pub static_pod_url_header: Vec<(String, String)>,
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
    pub resolv_conf: PathBuf,
    /// Below the root of the hierarchies; `kubepods` is made in it. One for each agent of a machine.
    pub cgroup_root: String,
    pub max_pods: i64,
    pub pod_pids_limit: i64,
    pub container_log_max_size: u64,
    pub container_log_max_files: usize,
    pub image_gc_high_threshold_percent: u8,
    pub image_gc_low_threshold_percent: u8,
    pub image_minimum_gc_age: Duration,
    pub enable_service_links_default: bool,
    pub cpu_cfs_quota: bool,
    pub cpu_cfs_quota_period: Duration,
    /// Memory that runs out ends one process, not the whole container; of cgroup v1 it always does.
    pub single_process_oom_kill: bool,
    pub seccomp_default: bool,
    /// Where Localhost profiles are.
    pub seccomp_profile_root: PathBuf,
    /// Which ranges of the host's users pods have: one directory for all agents of a machine.
    pub user_ranges_directory: PathBuf,
    pub allowed_unsafe_sysctls: Vec<String>,
    pub shutdown_grace_period: Duration,
    pub shutdown_grace_period_critical_pods: Duration,
    /// Signal and quantity or percentage, as `memory.available` and `100Mi`.
    pub eviction_hard: Vec<(String, String)>,
    pub eviction_soft: Vec<(String, String)>,
    pub eviction_soft_grace_period: Vec<(String, Duration)>,
    pub eviction_max_pod_grace_period: i64,
    pub eviction_pressure_transition_period: Duration,
    pub kube_reserved: Vec<(String, String)>,
    pub system_reserved: Vec<(String, String)>,
    /// Most of the addresses the HTTPS port listens on.
    pub address: String,
    pub port: u16,
    /// `KEY=VALUE:EFFECT`.
    pub register_with_taints: Vec<String>,
    pub node_labels: Vec<(String, String)>,
    pub register_node: bool,
    /// Empty: none.
    pub provider_id: String,
    pub authentication: Authentication,
    pub authorization: Authorization,
    /// Of the HTTPS port; `None`: one is asked for from the cluster.
    pub tls_files: Option<(PathBuf, PathBuf)>,
    /// What handshakes of that port are limited to.
    pub tls: TlsOptions,
    /// Whether there is that port at all.
    pub enable_server: bool,
    pub healthz_address: String,
    /// 0: none.
    pub healthz_port: u16,
    pub enable_debugging_handlers: bool,
    pub enable_system_log_handler: bool,
    /// The socket of a container runtime; `None`: the one inside this program.
    pub container_runtime_endpoint: Option<String>,
    pub serialize_image_pulls: bool,
    pub max_parallel_image_pulls: Option<usize>,
    /// `imagePullCredentialsVerificationPolicy`, with `preloadedImagesVerificationAllowlist`.
    pub image_verification: Verification,
    /// 0: no limit.
    pub registry_pull_qps: u32,
    pub registry_burst: u32,
    pub image_maximum_gc_age: Duration,
    pub node_status_update_frequency: Duration,
    pub node_lease_duration_seconds: i64,
    /// -1: all.
    pub node_status_max_images: i64,
    /// 0: no such limit.
    pub pods_per_core: i64,
    pub pod_cidr: String,
    pub file_check_frequency: Duration,
    pub http_check_frequency: Duration,
    /// Between two looks for what nobody needs; a constant of kubelet.
    pub garbage_period: Duration,
    pub container_log_monitor_interval: Duration,
    pub crash_loop_max_restart_period: Duration,
    pub fail_swap_on: bool,
    /// `NoSwap`, `LimitedSwap`, or nothing.
    pub swap_behavior: String,
    pub fail_cgroup_v1: bool,
    /// Settings of the kernel that kubelet would change are a reason not to start.
    pub protect_kernel_defaults: bool,
    pub cgroup_driver: String,
    pub cgroups_per_qos: bool,
    pub enforce_node_allocatable: Vec<String>,
    pub eviction_minimum_reclaim: Vec<(String, String)>,
    /// Priority and seconds, lowest first.
    pub shutdown_grace_period_by_pod_priority: Vec<(i32, i64)>,
    pub local_storage_capacity_isolation: bool,
    pub feature_gates: Vec<(String, bool)>,
    /// All fields as they are in force, for `/configz`.
    pub fields: Map,
}

/// Of the HTTPS port's TLS; empty: all that are safe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsOptions {
    /// `VersionTLS12` or `VersionTLS13`.
    pub min_version: String,
    /// Those of TLS 1.2, by IANA's names: those of TLS 1.3 are not configurable.
    pub cipher_suites: Vec<String>,
    /// IANA's numbers.
    pub curve_preferences: Vec<i64>,
}

/// Who is let in at the HTTPS port.
#[derive(Clone, Debug, PartialEq)]
pub struct Authentication {
    pub anonymous: bool,
    /// Tokens are reviewed by the API server.
    pub webhook: bool,
    pub webhook_cache_ttl: Duration,
    /// `None`: the cluster's.
    pub client_ca_file: Option<PathBuf>,
}

/// Who may do what there.
#[derive(Clone, Debug, PartialEq)]
pub struct Authorization {
    /// The API server is asked; else everybody who was let in may do everything.
    pub webhook: bool,
    pub cache_authorized_ttl: Duration,
    pub cache_unauthorized_ttl: Duration,
}

impl Config {
    /// With everything of the node below `root_directory`.
    pub fn new(node_name: &str, root_directory: PathBuf) -> Config {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Config {
            node_name: node_name.to_owned(),
            pod_logs_directory: root_directory.join(pod_logs::OWN),
            container_logs_directory: PathBuf::from(pod_logs::CONTAINER_LOGS),
            seccomp_profile_root: root_directory.join("seccomp"),
            user_ranges_directory: PathBuf::from(USER_RANGES),
            root_directory,
            static_pod_path: None,
            static_pod_url: String::new(),
            static_pod_url_header: Vec::new(),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            cgroup_root: "/".to_owned(),
            max_pods: 110,
            pod_pids_limit: -1,
            container_log_max_size: 10 << 20,
            container_log_max_files: 5,
            image_gc_high_threshold_percent: 85,
            image_gc_low_threshold_percent: 80,
            image_minimum_gc_age: Duration::from_secs(120),
            enable_service_links_default: true,
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: Duration::from_millis(100),
            single_process_oom_kill: false,
            seccomp_default: false,
            allowed_unsafe_sysctls: Vec::new(),
            shutdown_grace_period: Duration::ZERO,
            shutdown_grace_period_critical_pods: Duration::ZERO,
            eviction_hard: pairs(&[
                ("memory.available", "100Mi"),
                ("nodefs.available", "10%"),
                ("nodefs.inodesFree", "5%"),
                ("imagefs.available", "15%"),
                ("imagefs.inodesFree", "5%"),
            ]),
            eviction_soft: Vec::new(),
            eviction_soft_grace_period: Vec::new(),
            eviction_max_pod_grace_period: 0,
            eviction_pressure_transition_period: Duration::from_secs(300),
            kube_reserved: Vec::new(),
            system_reserved: Vec::new(),
            address: "0.0.0.0".to_owned(),
            port: 10250,
            register_with_taints: Vec::new(),
            node_labels: Vec::new(),
            register_node: true,
            provider_id: String::new(),
            authentication: Authentication {
                anonymous: false,
                webhook: true,
                webhook_cache_ttl: Duration::from_secs(120),
                client_ca_file: None,
            },
            authorization: Authorization {
                webhook: true,
                cache_authorized_ttl: Duration::from_secs(300),
                cache_unauthorized_ttl: Duration::from_secs(30),
            },
            tls_files: None,
            tls: TlsOptions::default(),
            enable_server: true,
            healthz_address: "127.0.0.1".to_owned(),
            healthz_port: 10248,
            enable_debugging_handlers: true,
            enable_system_log_handler: true,
            container_runtime_endpoint: None,
            serialize_image_pulls: true,
            max_parallel_image_pulls: None,
            image_verification: Verification::default(),
            registry_pull_qps: 5,
            registry_burst: 10,
            image_maximum_gc_age: Duration::ZERO,
            node_status_update_frequency: Duration::from_secs(10),
            node_lease_duration_seconds: 40,
            node_status_max_images: 50,
            pods_per_core: 0,
            pod_cidr: String::new(),
            file_check_frequency: Duration::from_secs(20),
            http_check_frequency: Duration::from_secs(20),
            garbage_period: Duration::from_secs(60),
            container_log_monitor_interval: Duration::from_secs(10),
            crash_loop_max_restart_period: Duration::from_secs(300),
            fail_swap_on: true,
            swap_behavior: String::new(),
            fail_cgroup_v1: false,
            protect_kernel_defaults: false,
            cgroup_driver: "cgroupfs".to_owned(),
            cgroups_per_qos: true,
            enforce_node_allocatable: vec!["pods".to_owned()],
            eviction_minimum_reclaim: Vec::new(),
            shutdown_grace_period_by_pod_priority: Vec::new(),
            local_storage_capacity_isolation: true,
            feature_gates: Vec::new(),
            fields: decode::defaults(),
        }
    }

    /// For a machine about which nobody has written anything down. Differs from kubelet's defaults: laptops swap, and pods need not
    /// wait for each other's images.
    pub fn without_file(mut self) -> Config {
        (self.fail_swap_on, self.serialize_image_pulls) = (false, false);
        self
    }

    /// The same with a `KubeletConfiguration` file on top; flags come on top of that.
    pub fn with_file(self, bytes: &[u8]) -> Result<Config, ConfigError> {
        self.with_file_in(bytes, Path::new(""))
    }

    /// The same of a file in that directory, to which its paths are relative.
    pub fn with_file_in(self, bytes: &[u8], directory: &Path) -> Result<Config, ConfigError> {
        self.with_files(Some((bytes, directory)), &[])
    }

    /// The same with drop-in files on top, each on top of those before it. As with kubelet, they are merged into what the file comes to
    /// with its defaults.
    pub fn with_files(
        self,
        file: Option<(&[u8], &Path)>,
        drop_ins: &[DropIn],
    ) -> Result<Config, ConfigError> {
        let mut fields = match file {
            Some((bytes, directory)) => {
                let mut fields = decode::decode(bytes)?;
                read::resolve_paths(&mut fields, directory);
                fields
            }
            None => decode::defaults(),
        };
        fields = read::with_computed_defaults(fields);
        read::set_thresholds(&mut fields, &self.eviction_hard);
        if !drop_ins.is_empty() {
            let given = drop_ins.iter().map(DropIn::read).collect::<Result<Vec<_>, _>>()?;
            fields = read::with_computed_defaults(decode::merged(fields, given)?);
        }
        let config = read::apply(self, fields);
        let mut invalid = validate::validate(&config);
        if invalid.is_empty() {
            invalid.extend(effects::refusals(&config));
        }
        if invalid.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(invalid)) }
    }

    /// What `/configz` shows: the fields of the file, with what flags, the machine and the runtime said instead.
    pub fn in_force(&self) -> Map {
        let mut fields = self.fields.clone();
        let text = |fields: &mut Map, name: &'static str, value: &str| match value {
            "" => {
                fields.remove(name);
            }
            value => fields.set(name, value),
        };
        text(&mut fields, "podLogsDir", &self.pod_logs_directory.to_string_lossy());
        text(&mut fields, "address", &self.address);
        text(&mut fields, "clusterDomain", &self.cluster_domain);
        text(&mut fields, "cgroupRoot", &self.cgroup_root);
        text(&mut fields, "cgroupDriver", &self.cgroup_driver);
        text(&mut fields, "podCIDR", &self.pod_cidr);
        fields.set("containerRuntimeEndpoint", self.container_runtime_endpoint.clone().unwrap_or_default());
        fields.set("port", Value::Int(self.port.into()));
        fields.set("maxPods", Value::Int(self.max_pods));
        fields.set("failSwapOn", self.fail_swap_on);
        fields.set("serializeImagePulls", self.serialize_image_pulls);
        fields.set("registerNode", self.register_node);
        let taints: Vec<Value> =
            self.register_with_taints.iter().filter_map(|text| taint::parse(text)).collect();
        if !taints.is_empty() {
            fields.set("registerWithTaints", Value::List(taints));
        }
        let mut eviction = Map::with_capacity(self.eviction_hard.len());
        let mut hard = self.eviction_hard.clone();
        hard.sort();
        for (signal, value) in hard {
            eviction.set(signal, value);
        }
        if eviction.is_empty() {
            fields.remove("evictionHard");
        } else {
            fields.set("evictionHard", eviction);
        }
        // In the order of the type.
        let order = |name: &str| fields::FIELDS.iter().position(|field| field.name == name);
        fields.entries_mut().sort_by_key(|(name, _)| order(name.as_str()));
        fields
    }
}
