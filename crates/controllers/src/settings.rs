//! What the flags of kube-controller-manager set, with its defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::horizontalpodautoscaler::HorizontalPodAutoscaler;
use crate::nodeipam::NodeIpam;
use crate::nodelifecycle::NodeLifecycle;

/// A flag that says how many objects of a kind are worked on at once.
pub struct Concurrency {
    pub flag: &'static str,
    pub default: usize,
    /// What is worked on, for people.
    pub of: &'static str,
}

/// All of them. A controller asks for its own by [`Settings::workers`]; a new one is a row.
pub const CONCURRENCY: &[Concurrency] = &[
    Concurrency { flag: "concurrent-cron-job-syncs", default: 5, of: "CronJobs" },
    Concurrency { flag: "concurrent-daemonset-syncs", default: 2, of: "DaemonSets" },
    Concurrency { flag: "concurrent-deployment-syncs", default: 5, of: "Deployments" },
    Concurrency {
        flag: "concurrent-device-taint-eviction-syncs",
        default: 8,
        of: "pods, by the device taint eviction controller",
    },
    Concurrency {
        flag: "concurrent-endpoint-syncs",
        default: 5,
        of: "Services, by the endpoints controller",
    },
    Concurrency {
        flag: "concurrent-ephemeralvolume-syncs",
        default: 5,
        of: "pods, by the ephemeral volume controller",
    },
    Concurrency { flag: "concurrent-gc-syncs", default: 20, of: "objects, by the garbage collector" },
    Concurrency {
        flag: "concurrent-horizontal-pod-autoscaler-syncs",
        default: 5,
        of: "HorizontalPodAutoscalers",
    },
    Concurrency { flag: "concurrent-job-syncs", default: 5, of: "Jobs" },
    Concurrency { flag: "concurrent-namespace-syncs", default: 10, of: "Namespaces" },
    Concurrency { flag: "concurrent-rc-syncs", default: 5, of: "ReplicationControllers" },
    Concurrency { flag: "concurrent-replicaset-syncs", default: 5, of: "ReplicaSets" },
    Concurrency { flag: "concurrent-resourceclaim-syncs", default: 50, of: "ResourceClaims" },
    Concurrency { flag: "concurrent-resource-quota-syncs", default: 5, of: "ResourceQuotas" },
    Concurrency {
        flag: "concurrent-service-endpoint-syncs",
        default: 5,
        of: "Services, by the EndpointSlice controller",
    },
    Concurrency {
        flag: "concurrent-serviceaccount-token-syncs",
        default: 5,
        of: "service account token Secrets",
    },
    Concurrency { flag: "concurrent-statefulset-syncs", default: 5, of: "StatefulSets" },
    Concurrency { flag: "concurrent-ttl-after-finished-syncs", default: 5, of: "finished Jobs" },
    Concurrency {
        flag: "mirroring-concurrent-service-endpoint-syncs",
        default: 5,
        of: "Endpoints, by the EndpointSlice mirroring controller",
    },
];

/// Of the controllers of Endpoints and EndpointSlices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// `--endpoint-updates-batch-period`: changes of pods are gathered for so long.
    pub updates_batch_period: Duration,
    /// `--endpointslice-updates-batch-period`.
    pub slice_updates_batch_period: Duration,
    /// `--max-endpoints-per-slice`.
    pub max_per_slice: usize,
    /// `--mirroring-endpointslice-updates-batch-period`.
    pub mirroring_updates_batch_period: Duration,
    /// `--mirroring-max-endpoints-per-subset`.
    pub mirroring_max_per_subset: usize,
}

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints {
            updates_batch_period: Duration::ZERO,
            slice_updates_batch_period: Duration::ZERO,
            max_per_slice: 100,
            mirroring_updates_batch_period: Duration::ZERO,
            mirroring_max_per_subset: 1000,
        }
    }
}

/// Parameters of the controllers; the names are those of the flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// By flag, where it is not the default of [`CONCURRENCY`].
    pub concurrency: BTreeMap<&'static str, usize>,
    pub endpoints: Endpoints,
    pub horizontal_pod_autoscaler: HorizontalPodAutoscaler,
    /// `None`: pod CIDRs are not allocated.
    pub node_ipam: Option<NodeIpam>,
    pub node_lifecycle: NodeLifecycle,
    /// Time since its last use after which an auto-generated token is invalid, and after which an invalid one is deleted.
    pub legacy_service_account_token_clean_up_period: Duration,
    /// A claim without a volume is looked at that often, and people are told again.
    pub pvclaimbinder_sync_period: Duration,
    /// Between two full recalculations of a ResourceQuota; zero: there are none.
    pub resource_quota_sync_period: Duration,
    /// Finished pods that may lie around.
    pub terminated_pod_gc_threshold: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            concurrency: BTreeMap::new(),
            endpoints: Endpoints::default(),
            horizontal_pod_autoscaler: HorizontalPodAutoscaler::default(),
            node_ipam: None,
            node_lifecycle: NodeLifecycle::default(),
            legacy_service_account_token_clean_up_period: Duration::from_secs(365 * 24 * 3600),
            pvclaimbinder_sync_period: Duration::from_secs(15),
            resource_quota_sync_period: Duration::from_secs(5 * 60),
            terminated_pod_gc_threshold: 12_500,
        }
    }
}

impl Settings {
    /// How many workers the flag asks for.
    pub fn workers(&self, flag: &str) -> usize {
        let default = || CONCURRENCY.iter().find(|row| row.flag == flag).map_or(1, |row| row.default);
        self.concurrency.get(flag).copied().unwrap_or_else(default).max(1)
    }
}
