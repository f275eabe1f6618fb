//! What a configuration may not say, in kubelet's words.

use object::Value;
use object::quantity::Quantity;

use super::{Config, duration};
use crate::feature_gates;
use crate::machine::taint;
use crate::server::tls;

/// Signals of eviction.
const SIGNALS: [&str; 10] = [
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
    "allocatableNodeFs.available",
];

/// Everything that is wrong.
pub fn validate(config: &Config) -> Vec<String> {
    let mut errors = Errors { config, list: Vec::new() };
    errors.numbers();
    errors.choices();
    errors.images();
    errors.restarts();
    errors.shutdown();
    errors.allocatable();
    errors.amounts();
    errors.logs();
    errors.taints();
    errors.gates();
    errors.list
}

struct Errors<'a> {
    config: &'a Config,
    list: Vec<String>,
}

impl Errors<'_> {
    fn say(&mut self, wrong: bool, what: impl FnOnce() -> String) {
        if wrong {
            self.list.push(format!("invalid configuration: {}", what()));
        }
    }
    fn int(&self, name: &str) -> i64 {
        self.config.fields.get(name).and_then(Value::as_int).unwrap_or(0)
    }
    fn text(&self, name: &str) -> &str {
        self.config.fields.get(name).and_then(Value::as_str).unwrap_or("")
    }
    /// Signed, as it was written.
    fn nanos(&self, name: &str) -> i64 {
        duration::parse(self.text(name)).unwrap_or(0)
    }
    fn bool(&self, name: &str) -> bool {
        self.config.fields.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn numbers(&mut self) {
        let lease = self.int("nodeLeaseDurationSeconds");
        self.say(lease <= 0, || "nodeLeaseDurationSeconds must be greater than 0".to_owned());
        for (name, flag) in [
            ("eventBurst", "event-burst"),
            ("eventRecordQPS", "event-qps"),
            ("kubeAPIBurst", "kube-api-burst"),
            ("kubeAPIQPS", "kube-api-qps"),
            ("maxOpenFiles", "max-open-files"),
            ("maxPods", "max-pods"),
            ("podsPerCore", "pods-per-core"),
            ("registryBurst", "registry-burst"),
            ("registryPullQPS", "registry-qps"),
        ] {
            let value = self.int(name);
            self.say(value < 0, || format!("{name} (--{flag}) {value} must not be a negative number"));
        }
        for (name, flag, least, most) in [
            ("imageGCHighThresholdPercent", "image-gc-high-threshold", 0, 100),
            ("imageGCLowThresholdPercent", "image-gc-low-threshold", 0, 100),
            ("iptablesDropBit", "iptables-drop-bit", 0, 31),
            ("iptablesMasqueradeBit", "iptables-masquerade-bit", 0, 31),
            ("oomScoreAdj", "oom-score-adj", -1000, 1000),
            ("port", "port", 1, 65535),
        ] {
            let value = self.int(name);
            self.say(!(least..=most).contains(&value), || {
                format!("{name} (--{flag}) {value} must be between {least} and {most}, inclusive")
            });
        }
        for (name, flag, least) in [("healthzPort", "healthz-port", 1), ("readOnlyPort", "read-only-port", 0)]
        {
            let value = self.int(name);
            self.say(value != 0 && !(1..=65535).contains(&value), || {
                format!("{name} (--{flag}) {value} must be between {least} and 65535, inclusive")
            });
        }
        let outside = !self.text("systemCgroups").is_empty() && self.text("cgroupRoot").is_empty();
        self.say(outside, || {
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified"
                .to_owned()
        });
        let images = self.int("nodeStatusMaxImages");
        self.say(images < -1, || {
            format!("nodeStatusMaxImages (--node-status-max-images) {images} must be -1 or greater")
        });
        let (low, high) = (self.int("imageGCLowThresholdPercent"), self.int("imageGCHighThresholdPercent"));
        self.say(low >= high, || {
            format!(
                "imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than imageGCHighThresholdPercent \
                 (--image-gc-high-threshold) {high}"
            )
        });
        let period = self.nanos("cpuCFSQuotaPeriod");
        self.say(!(1_000_000..=1_000_000_000).contains(&period), || {
            let period = duration::format(period);
            format!("cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {{{period}}} must be between 1ms and 1sec, inclusive")
        });
    }

    fn choices(&mut self) {
        let swap = self.config.swap_behavior.clone();
        self.say(!["", "NoSwap", "LimitedSwap"].contains(&&*swap), || {
            format!("memorySwap.swapBehavior {swap:?} must be one of: \"\", \"LimitedSwap\" or \"NoSwap\"")
        });
        let mode = self.text("hairpinMode").to_owned();
        self.say(!["none", "hairpin-veth", "promiscuous-bridge"].contains(&&*mode), || {
            format!(
                "option {mode:?} specified for hairpinMode (--hairpin-mode). Valid options are \"none\", \"hairpin-veth\" or \
                 \"promiscuous-bridge\""
            )
        });
        let policy = self.text("topologyManagerPolicy").to_owned();
        self.say(!["none", "best-effort", "restricted", "single-numa-node"].contains(&&*policy), || {
            format!(
                "topologyManagerPolicy (--topology-manager-policy) {policy:?} must be one of: [\"none\" \"best-effort\" \
                 \"restricted\" \"single-numa-node\"]"
            )
        });
        let scope = self.text("topologyManagerScope").to_owned();
        self.say(!["container", "pod"].contains(&&*scope), || {
            format!("topologyManagerScope (--topology-manager-scope) {scope:?} must be one of: \"container\", or \"pod\"")
        });
        let mode = self
            .config
            .fields
            .get("authorization")
            .and_then(|v| v.str_at(&["mode"]))
            .unwrap_or("")
            .to_owned();
        self.say(!["AlwaysAllow", "Webhook"].contains(&&*mode), || {
            format!("unknown authorization mode {mode}: use Webhook or AlwaysAllow")
        });
        self.say(self.bool("runOnce"), || {
            "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set".to_owned()
        });
        let files = (self.text("tlsCertFile").is_empty(), self.text("tlsPrivateKeyFile").is_empty());
        self.say(files.0 != files.1, || "tlsCertFile and tlsPrivateKeyFile must be set together".to_owned());
        if let Err(why) = tls::protocol(&self.config.tls) {
            self.say(true, || why);
        }
        let endpoint = self.text("containerRuntimeEndpoint").to_owned();
        self.say(!endpoint.is_empty() && !endpoint.starts_with("unix://"), || {
            format!("containerRuntimeEndpoint {endpoint:?} must be a socket of this machine, such as unix:///run/containerd/containerd.sock")
        });
        let images = self.text("imageServiceEndpoint").to_owned();
        self.say(!images.is_empty() && images != endpoint, || {
            format!("imageServiceEndpoint {images:?} is not supported: images are those of containerRuntimeEndpoint")
        });
        for address in self.config.cluster_dns.clone() {
            self.say(address.parse::<std::net::IpAddr>().is_err(), || {
                format!("clusterDNS {address:?} is not an IP address")
            });
        }
    }

    fn images(&mut self) {
        for name in ["imageMinimumGCAge", "imageMaximumGCAge"] {
            let nanos = self.nanos(name);
            self.say(nanos < 0, || format!("{name} {} must not be negative", duration::format(nanos)));
        }
        let (least, most) = (self.nanos("imageMinimumGCAge"), self.nanos("imageMaximumGCAge"));
        self.say(most > 0 && most <= least, || {
            let (least, most) = (duration::format(least), duration::format(most));
            format!("imageMaximumGCAge {most} must be greater than imageMinimumGCAge {least}")
        });
        self.verification();
        if self.config.fields.contains("maxParallelImagePulls") {
            let parallel = self.int("maxParallelImagePulls");
            self.say(parallel < 1, || format!("maxParallelImagePulls {parallel} must be a positive number"));
            self.say(self.bool("serializeImagePulls") && parallel > 1, || {
                "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false"
                    .to_owned()
            });
        }
    }

    fn verification(&mut self) {
        const POLICIES: [&str; 4] =
            ["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"];
        let policy = self.text("imagePullCredentialsVerificationPolicy").to_owned();
        self.say(!POLICIES.contains(&&*policy), || {
            let [a, b, c, d] = POLICIES;
            format!(
                "option {policy:?} specified for imagePullCredentialsVerificationPolicy. Valid options are {a:?}, {b:?}, {c:?} or {d:?}"
            )
        });
        let list = self.config.fields.get("preloadedImagesVerificationAllowlist").and_then(Value::as_list);
        let list: Vec<String> =
            list.unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if !list.is_empty() && policy != "NeverVerifyAllowlistedImages" {
            self.say(true, || {
                "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not \
                 \"NeverVerifyAllowlistedImages\""
                    .to_owned()
            });
        } else if let Some(wrong) = list.iter().find_map(|pattern| wrong_pattern(pattern)) {
            self.say(true, || {
                format!("invalid image pattern in `preloadedImagesVerificationAllowlist`: {wrong}")
            });
        }
    }

    /// How long containers wait at most before they are restarted.
    fn restarts(&mut self) {
        let nested = self.config.fields.get("crashLoopBackOff");
        let text = nested.and_then(|of| of.str_at(&["maxContainerRestartPeriod"])).unwrap_or("5m0s");
        let nanos = duration::parse(text).unwrap_or(0);
        self.say(!(1000..=300_000).contains(&(nanos / 1_000_000)), || {
            let seconds = nanos as f64 / 1e9;
            format!(
                "CrashLoopBackOff.MaxContainerRestartPeriod (got: {seconds} seconds) must be set between 1s and 300s"
            )
        });
    }

    fn shutdown(&mut self) {
        let (all, critical) =
            (self.nanos("shutdownGracePeriod"), self.nanos("shutdownGracePeriodCriticalPods"));
        self.say(critical > all, || {
            let (all, critical) = (duration::format(all), duration::format(critical));
            format!("shutdownGracePeriodCriticalPods {{{critical}}} must be <= shutdownGracePeriod {{{all}}}")
        });
        for (name, nanos) in [("shutdownGracePeriod", all), ("shutdownGracePeriodCriticalPods", critical)] {
            self.say(nanos < 0 || (1..1_000_000_000).contains(&nanos), || {
                format!("{name} {{{}}} must be either zero or otherwise >= 1 sec", duration::format(nanos))
            });
        }
        let both = !self.config.shutdown_grace_period_by_pod_priority.is_empty() && (all > 0 || critical > 0);
        self.say(both, || {
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"
                .to_owned()
        });
    }

    fn allocatable(&mut self) {
        const KEYS: [&str; 6] = [
            "pods",
            "system-reserved",
            "system-reserved-compressible",
            "kube-reserved",
            "kube-reserved-compressible",
            "none",
        ];
        let said = self.config.enforce_node_allocatable.clone();
        for (at, key) in said.iter().enumerate() {
            if said[..at].contains(key) {
                self.say(true, || {
                    format!("duplicated enforcements {key:?} in enforceNodeAllocatable (--enforce-node-allocatable)")
                });
                continue;
            }
            self.say(!KEYS.contains(&&**key), || {
                format!(
                    "option {key:?} specified for enforceNodeAllocatable (--enforce-node-allocatable). Valid options are {:?}, {:?}, \
                     {:?}, {:?}, {:?} or {:?}",
                    KEYS[0], KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
                )
            });
            self.say(key == "none" && said.len() > 1, || {
                "enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional enforcements when \"none\" is specified"
                    .to_owned()
            });
            let by_class = key != "none" && KEYS.contains(&&**key);
            self.say(by_class && !self.config.cgroups_per_qos, || {
                format!(
                    "cgroupsPerQOS (--cgroups-per-qos) must be set to true when {key:?} contained in enforceNodeAllocatable \
                     (--enforce-node-allocatable)"
                )
            });
            for (part, field, flag) in [
                ("system-reserved", "systemReservedCgroup", "system-reserved-cgroup"),
                ("kube-reserved", "kubeReservedCgroup", "kube-reserved-cgroup"),
            ] {
                let missing = key.starts_with(part) && self.text(field).is_empty();
                self.say(missing, || {
                    format!(
                        "{field} (--{flag}) must be specified when {part:?} or \"{part}-compressible\" included in \
                         enforceNodeAllocatable (--enforce-node-allocatable)"
                    )
                });
            }
        }
    }

    /// Quantities of resources, and thresholds of signals.
    fn amounts(&mut self) {
        for (name, pairs) in [
            ("systemReserved", self.config.system_reserved.clone()),
            ("kubeReserved", self.config.kube_reserved.clone()),
        ] {
            for (resource, amount) in pairs {
                let known = matches!(&*resource, "cpu" | "memory" | "ephemeral-storage" | "pid")
                    || resource.starts_with("hugepages-");
                self.say(!known, || format!("{name}: cannot reserve {resource:?} resource"));
                let bad = Quantity::parse(&amount).map_or(true, |amount| amount.sign() < 0);
                self.say(known && bad, || format!("{name}: {resource:?} cannot be {amount:?}"));
            }
        }
        for (name, pairs) in [
            ("evictionHard", self.config.eviction_hard.clone()),
            ("evictionSoft", self.config.eviction_soft.clone()),
            ("evictionMinimumReclaim", self.config.eviction_minimum_reclaim.clone()),
        ] {
            for (signal, value) in pairs {
                self.say(!SIGNALS.contains(&&*signal), || format!("{name}: unsupported signal {signal:?}"));
                let wrong = match name {
                    "evictionMinimumReclaim" if is_amount(&value) => None,
                    "evictionMinimumReclaim" => Some(format!("{name}: {signal:?} has no amount: {value:?}")),
                    _ => wrong_threshold(&signal, &value),
                };
                self.say(wrong.is_some(), || wrong.unwrap_or_default());
            }
        }
        for (signal, _) in self.config.eviction_soft.clone() {
            let told = self.config.eviction_soft_grace_period.iter().any(|(with, _)| *with == signal);
            self.say(!told, || {
                format!("grace period must be specified for the soft eviction threshold {signal}")
            });
        }
        for (signal, text) in self
            .config
            .fields
            .get("evictionSoftGracePeriod")
            .and_then(Value::as_map)
            .into_iter()
            .flat_map(|m| m.iter())
        {
            let nanos = text.as_str().and_then(duration::parse);
            if nanos.is_none_or(|nanos| nanos < 0) {
                self.list.push(format!(
                    "invalid configuration: invalid eviction grace period specified: {signal} = {}",
                    text.as_str().unwrap_or("")
                ));
            }
        }
    }

    fn logs(&mut self) {
        let size = Quantity::parse(self.text("containerLogMaxSize")).map_or(-1, |size| size.as_i64());
        self.say(size <= 0, || {
            "containerLogMaxSize must be a quantity greater than 0, such as 10Mi".to_owned()
        });
        self.say(self.int("containerLogMaxFiles") <= 1, || {
            "containerLogMaxFiles must be greater than 1".to_owned()
        });
        self.say(self.int("containerLogMaxWorkers") < 1, || {
            "containerLogMaxWorkers must be greater than or equal to 1".to_owned()
        });
        self.say(self.nanos("containerLogMonitorInterval") < 3_000_000_000, || {
            "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"
                .to_owned()
        });
        let path = self.config.pod_logs_directory.clone();
        self.say(!path.is_absolute(), || {
            format!("pod logs path {:?} must be absolute path", path.display().to_string())
        });
        let clean: std::path::PathBuf = path.components().collect();
        let odd = clean.as_os_str() != path.as_os_str() || path.components().any(|c| c.as_os_str() == "..");
        self.say(odd, || format!("pod logs path {:?} must be normalized", path.display().to_string()));
    }

    /// As the flag `--feature-gates` of other components: only the defaults are there.
    fn gates(&mut self) {
        for (gate, wanted) in self.config.feature_gates.clone() {
            let Some(on) = feature_gates::is_on(&gate) else {
                self.list.push(format!("featureGates: unrecognized feature gate: {gate}"));
                continue;
            };
            if on != wanted {
                let state = if on { "on" } else { "off" };
                self.list.push(format!(
                    "featureGates: {gate}={wanted} is not supported: it is {state}, as it is in v1.36 by default"
                ));
            }
        }
    }

    fn taints(&mut self) {
        let config = self.config;
        for text in &config.register_with_taints {
            if taint::parse(text).is_none() {
                self.list.push(format!("invalid taint: {text}"));
            }
        }
        let taints = config.fields.get("registerWithTaints").and_then(Value::as_list);
        for taint in taints.unwrap_or_default() {
            self.say(taint.str_at(&["timeAdded"]).is_some(), || "taint.TimeAdded is not nil".to_owned());
        }
    }
}

/// What is wrong with a repository that is for all, or `PREFIX/*`.
fn wrong_pattern(pattern: &str) -> Option<String> {
    if pattern != pattern.trim() {
        return Some(format!("leading/trailing spaces are not allowed: {pattern}"));
    }
    let prefix = pattern.strip_suffix('*').filter(|prefix| prefix.ends_with('/'));
    let rest = prefix.unwrap_or(pattern);
    if rest.is_empty() {
        return Some(format!("the supplied pattern is too short: {pattern}"));
    }
    if rest.contains('*') {
        return Some(format!(
            "not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}"
        ));
    }
    if prefix.is_some() {
        return (rest == "/").then(|| "at least registry hostname is required".to_owned());
    }
    match image::Reference::parse(pattern) {
        Err(error) => Some(format!("failed to parse as an image name: {error}")),
        // A tag that nobody wrote is none.
        Ok(reference) => {
            let tagged = reference.tag().is_some_and(|tag| pattern.ends_with(&format!(":{tag}")));
            (tagged || reference.digest().is_some())
                .then(|| format!("neither tag nor digest is accepted in an image reference: {pattern}"))
        }
    }
}

/// Of a signal, if it is none. 0% is one that is never met.
fn wrong_threshold(signal: &str, text: &str) -> Option<String> {
    if let Some(number) = text.strip_suffix('%') {
        return match number.parse::<f64>() {
            Ok(percent) if percent < 0.0 => {
                Some(format!("eviction percentage threshold {signal} must be >= 0%: {text}"))
            }
            Ok(percent) if percent > 100.0 => {
                Some(format!("eviction percentage threshold {signal} must be <= 100%: {text}"))
            }
            Ok(percent) if !percent.is_nan() => None,
            _ => Some(format!("eviction percentage threshold {signal} is no number: {text}")),
        };
    }
    match Quantity::parse(text) {
        Ok(amount) if amount.sign() > 0 => None,
        Ok(amount) => Some(format!("eviction threshold {signal} must be positive: {amount}")),
        Err(_) => Some(format!("eviction threshold {signal} is no quantity: {text}")),
    }
}

/// A quantity that is not negative, or a percentage.
fn is_amount(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(number) => number.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => Quantity::parse(text).is_ok_and(|amount| amount.sign() >= 0),
    }
}
