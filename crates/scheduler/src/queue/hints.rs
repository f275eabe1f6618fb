//! Which events may help a pod that was rejected: each plugin is asked about the pods it rejected.

mod devices;
mod volumes;

use std::sync::Arc;

use ::devices::DeviceClass;

use crate::cluster::{Cluster, Placed};
use crate::config::Profile;
use crate::dynamic_resources::{DynamicResources, ResourceClaim};
use crate::node::Node;
use crate::plugin::{Plugin, Plugins};
use crate::pod::{
    Class, Constraint, Held, HeldKind, Inclusion, Pod, PodTerm, Unsatisfiable, conflict, may_be_devices,
};
use crate::read::Labels;
use crate::storage::{Claim, CsiNode, StorageClass, Volume};
use crate::taint::{all_tolerated, tolerates_unschedulable};

/// What changed.
pub enum Event<'a> {
    NodeAdded(&'a Arc<Node>),
    NodeUpdated {
        old: &'a Arc<Node>,
        new: &'a Arc<Node>,
    },
    NodeRemoved(&'a Arc<Node>),
    /// A pod was placed.
    Placed(&'a Class),
    /// A placed pod's labels or requests changed.
    Changed {
        old: &'a Class,
        new: &'a Class,
    },
    /// A placed pod is being deleted: it holds its place until it is gone, but no longer counts when pods are spread.
    Leaving(&'a Class),
    /// A placed pod went, or one that had a place promised: then only pods of no higher priority are helped.
    Gone {
        pod: &'a Class,
        promised_to: Option<i32>,
    },
    /// A namespace has other labels: terms may mean the pods of it, or do so no more.
    Namespace {
        name: &'a str,
        old: &'a Labels,
        new: &'a Labels,
    },
    /// A claim came or changed.
    Claim {
        old: Option<&'a Claim>,
        new: &'a Claim,
    },
    Volume {
        old: Option<&'a Volume>,
        new: &'a Volume,
    },
    StorageClass {
        old: Option<&'a StorageClass>,
        new: &'a StorageClass,
    },
    CsiNode {
        old: Option<&'a CsiNode>,
        new: &'a CsiNode,
    },
    /// A driver has more room, or says so for the first time.
    CapacityAdded,
    CapacityGrown,
    /// A driver does not say any more how much room it has.
    CapacityIgnored,
    /// A volume is no longer attached to a node.
    Detached,
    ResourceClaim {
        old: Option<&'a ResourceClaim>,
        new: &'a ResourceClaim,
    },
    /// Devices that were about to be allocated are not, or a claim that had some is gone.
    DevicesFreed,
    DeviceClass {
        old: Option<&'a DeviceClass>,
        new: &'a DeviceClass,
    },
    ResourceSlice {
        new: bool,
    },
    /// The pod that waits changed itself.
    Itself {
        old: &'a Pod,
        new: &'a Pod,
    },
}

impl<'a> Event<'a> {
    pub fn gone(placed: &'a Placed) -> Event<'a> {
        Event::Gone { pod: &placed.class, promised_to: None }
    }

    /// In upstream's words, for people and metrics; of a node that changed in several ways, the first.
    pub fn label(&self) -> &'static str {
        match self {
            Event::NodeAdded(_) => "NodeAdd",
            Event::NodeUpdated { old, new } if old.unschedulable != new.unschedulable => {
                "NodeUpdateNodeTaint"
            }
            Event::NodeUpdated { old, new } if old.allocatable != new.allocatable => {
                "NodeUpdateNodeAllocatable"
            }
            Event::NodeUpdated { old, new } if old.labels != new.labels => "NodeUpdateNodeLabel",
            Event::NodeUpdated { old, new } if old.taints != new.taints => "NodeUpdateNodeTaint",
            Event::NodeUpdated { old, new } if old.features != new.features => {
                "NodeUpdateNodeDeclaredFeature"
            }
            Event::NodeUpdated { .. } => "NodeUpdate",
            Event::NodeRemoved(_) => "NodeDelete",
            Event::Placed(_) => "AssignedPodAdd",
            Event::Changed { .. } | Event::Leaving(_) => "AssignedPodUpdate",
            Event::Gone { promised_to: None, .. } => "AssignedPodDelete",
            Event::Gone { promised_to: Some(_), .. } => "UnschedulablePodDelete",
            Event::Namespace { .. } => "NamespaceUpdate",
            Event::Claim { old: None, .. } => "PersistentVolumeClaimAdd",
            Event::Claim { .. } => "PersistentVolumeClaimUpdate",
            Event::Volume { old: None, .. } => "PersistentVolumeAdd",
            Event::Volume { .. } => "PersistentVolumeUpdate",
            Event::StorageClass { old: None, .. } => "storage.k8s.io/StorageClassAdd",
            Event::StorageClass { .. } => "storage.k8s.io/StorageClassUpdate",
            Event::CsiNode { old: None, .. } => "storage.k8s.io/CSINodeAdd",
            Event::CsiNode { .. } => "storage.k8s.io/CSINodeUpdate",
            Event::CapacityAdded => "storage.k8s.io/CSIStorageCapacityAdd",
            Event::CapacityGrown => "storage.k8s.io/CSIStorageCapacityUpdate",
            Event::CapacityIgnored => "storage.k8s.io/CSIDriverUpdate",
            Event::Detached => "storage.k8s.io/VolumeAttachmentDelete",
            Event::ResourceClaim { old: None, .. } => "resource.k8s.io/ResourceClaimAdd",
            Event::ResourceClaim { .. } | Event::DevicesFreed => "resource.k8s.io/ResourceClaimUpdate",
            Event::DeviceClass { old: None, .. } => "resource.k8s.io/DeviceClassAdd",
            Event::DeviceClass { .. } => "resource.k8s.io/DeviceClassUpdate",
            Event::ResourceSlice { new: true } => "resource.k8s.io/ResourceSliceAdd",
            Event::ResourceSlice { new: false } => "resource.k8s.io/ResourceSliceUpdate",
            Event::Itself { .. } => "UnschedulablePodUpdate",
        }
    }

    /// Who may change their mind at all.
    pub fn concerns(&self) -> Plugins {
        use Plugin::*;
        let plugins: &[Plugin] = match self {
            Event::Placed(_) => &[PodTopologySpread, InterPodAffinity],
            Event::Changed { .. } => &[NodeResourcesFit, PodTopologySpread, InterPodAffinity],
            Event::Gone { .. } => &[
                NodePorts,
                NodeResourcesFit,
                VolumeRestrictions,
                NodeVolumeLimits,
                PodTopologySpread,
                InterPodAffinity,
            ],
            Event::Claim { .. } => &[VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone],
            Event::Volume { .. } | Event::StorageClass { .. } => &[VolumeBinding, VolumeZone],
            Event::CsiNode { .. } | Event::Detached => &[NodeVolumeLimits],
            Event::CapacityAdded | Event::CapacityGrown | Event::CapacityIgnored => &[VolumeBinding],
            Event::ResourceClaim { .. } | Event::DevicesFreed | Event::ResourceSlice { .. } => {
                &[DynamicResources]
            }
            Event::DeviceClass { .. } => &[NodeResourcesFit, DynamicResources],
            Event::Leaving(_) => &[PodTopologySpread],
            Event::NodeRemoved(_) => &[PodTopologySpread, InterPodAffinity],
            Event::Namespace { .. } => &[InterPodAffinity],
            _ => return Plugins::all(),
        };
        plugins.iter().copied().collect()
    }

    /// It means nothing to pods that ask for no devices.
    pub fn is_about_devices(&self) -> bool {
        use Event::*;
        matches!(self, ResourceClaim { .. } | DevicesFreed | DeviceClass { .. } | ResourceSlice { .. })
    }
}

/// Whether one of those who rejected the pod could now think otherwise.
pub fn may_help(
    pod: &Pod,
    rejected_by: Plugins,
    event: &Event,
    profile: &Profile,
    cluster: &Cluster,
) -> bool {
    if let Event::Gone { promised_to: Some(priority), .. } = event
        && pod.priority > *priority
    {
        return false;
    }
    rejected_by.iter().any(|plugin| match plugin {
        Plugin::NodeUnschedulable => match event {
            Event::NodeAdded(node) => !node.unschedulable,
            Event::NodeUpdated { old, new } => old.unschedulable && !new.unschedulable,
            Event::Itself { new, .. } => {
                tolerations_changed(event) && tolerates_unschedulable(&new.class.spec.tolerations)
            }
            _ => false,
        },
        Plugin::NodeName => matches!(event, Event::NodeAdded(_)),
        Plugin::TaintToleration => {
            let tolerated = |node: &Node| all_tolerated(&node.taints, &pod.class.spec.tolerations);
            match event {
                Event::NodeAdded(node) => tolerated(node),
                Event::NodeUpdated { old, new } => !tolerated(old) && tolerated(new),
                Event::Itself { .. } => tolerations_changed(event),
                _ => false,
            }
        }
        Plugin::NodeAffinity => {
            let enforced =
                |node: &Node| profile.added_affinity.required.as_ref().is_none_or(|t| t.matches(node));
            let wanted = |node: &Node| pod.class.spec.required.matches(node);
            match event {
                Event::NodeAdded(node) => enforced(node) && wanted(node),
                Event::NodeUpdated { old, new } => {
                    enforced(new) && wanted(new) && !(enforced(old) && wanted(old))
                }
                _ => false,
            }
        }
        Plugin::NodePorts => match event {
            Event::NodeAdded(_) => true,
            Event::Gone { pod: gone, .. } => conflict(&pod.class.spec.ports, gone.spec.ports.iter()),
            _ => false,
        },
        Plugin::NodeResourcesFit => {
            resources(pod, event, profile, cluster.devices()) || devices::class_for_resources(pod, event)
        }
        Plugin::DynamicResources => devices::dynamic_resources(pod, event, cluster.devices()),
        Plugin::PodTopologySpread => spread(pod, event, profile),
        Plugin::InterPodAffinity => inter_pod(pod, event, cluster),
        Plugin::VolumeRestrictions => volumes::restrictions(pod, event),
        Plugin::NodeVolumeLimits => volumes::limits(pod, event),
        Plugin::VolumeBinding => volumes::binding(pod, event, cluster.storage()),
        Plugin::VolumeZone => volumes::zone(pod, event),
        Plugin::NodeDeclaredFeatures => match event {
            Event::NodeAdded(node) => pod.class.spec.features.within(node.features),
            Event::NodeUpdated { old, new } => {
                old.features != new.features && pod.class.spec.features.within(new.features)
            }
            Event::Itself { old, new } => old.class.spec.features != new.class.spec.features,
            _ => false,
        },
        _ => false,
    })
}

fn tolerations_changed(event: &Event) -> bool {
    let Event::Itself { old, new } = event else { return false };
    old.class.spec.tolerations != new.class.spec.tolerations
}

fn resources(pod: &Pod, event: &Event, profile: &Profile, known: &DynamicResources) -> bool {
    let asked = &pod.class.spec.requests;
    // Devices stand for what the node itself has nothing of.
    let delegated = |node: &Node, name: &str| {
        may_be_devices(name) && node.allocatable(name) == 0 && known.has_class_for(name)
    };
    let fits = |node: &Node| {
        let enough = |(name, amount): &(Arc<str>, i64)| {
            *amount <= node.allocatable(name) || profile.fit.ignores(name) || delegated(node, name)
        };
        node.allocatable("pods") >= 1 && asked.iter().all(enough)
    };
    let more = |old: &Node, new: &Node, name: &str| new.allocatable(name) > old.allocatable(name);
    match event {
        Event::NodeAdded(node) => fits(node),
        Event::NodeUpdated { old, new } => {
            let any = |(name, _): &(Arc<str>, i64)| more(old, new, name) || delegated(new, name);
            fits(new) && (more(old, new, "pods") || asked.iter().any(any))
        }
        Event::Gone { .. } => true,
        Event::Changed { old, new } => {
            asked.iter().any(|(name, _)| new.spec.request(name) < old.spec.request(name))
        }
        Event::Itself { old, new } => {
            let fewer = |(name, amount): &(Arc<str>, i64)| new.class.spec.request(name) < *amount;
            old.class.spec.requests.iter().any(fewer)
        }
        _ => false,
    }
}

fn spread(pod: &Pod, event: &Event, profile: &Profile) -> bool {
    let own = pod.class.spread.as_deref().unwrap_or(&profile.spread.defaults);
    let hard = || own.iter().filter(|c| c.when == Unsatisfiable::DoNotSchedule);
    // The selector of a default constraint is another for every pod: any pod of the namespace may be one.
    let defaults = pod.class.spread.is_none();
    let means = |c: &Constraint, class: &Class| defaults || c.selector.matches(&|key| class.label(key));
    let near = |class: &Class| class.namespace == pod.class.namespace;
    let place = |node: &Node| hard().all(|c| node.label(&c.topology_key).is_some());
    match event {
        Event::Placed(other) | Event::Leaving(other) | Event::Gone { pod: other, .. } => {
            near(other) && hard().any(|c| means(c, other))
        }
        Event::Changed { old, new } => {
            near(new)
                && old.labels != new.labels
                && hard().any(|c| defaults || means(c, old) != means(c, new))
        }
        Event::Itself { old, new } => {
            let taints = hard().any(|c| c.taints_policy == Inclusion::Honor);
            let labels = old.class.labels != new.class.labels;
            let counted = |c: &Constraint| means(c, &old.class) != means(c, &new.class);
            taints && tolerations_changed(event) || labels && (defaults || hard().any(counted))
        }
        Event::NodeAdded(node) | Event::NodeRemoved(node) => place(node),
        Event::NodeUpdated { old, new } => {
            let moved = |c: &Constraint| old.label(&c.topology_key) != new.label(&c.topology_key);
            // Differs from kube-scheduler, which forgets that a node the pod does not ask for is no place to count.
            let asked_for = |node: &Node| pod.class.spec.required.matches(node);
            let chosen =
                |c: &Constraint| c.affinity_policy == Inclusion::Honor && asked_for(old) != asked_for(new);
            place(old) != place(new)
                || place(new) && (hard().any(|c| moved(c) || chosen(c)) || old.taints != new.taints)
        }
        _ => false,
    }
}

/// Differs from kube-scheduler, which asks for all terms against a pod where one is enough to keep it out, and forgets
/// that the last pod it wants to be with may go: the first of its kind needs no other.
fn inter_pod(pod: &Pod, event: &Event, cluster: &Cluster) -> bool {
    let (class, counters) = (&pod.class, cluster.counters());
    let means = |term: &PodTerm, other: &Class| {
        term.matches(&other.namespace, counters.namespace_labels(&other.namespace), &other.labels)
    };
    let wanted =
        |other: &Class| !class.affinity.is_empty() && class.affinity.iter().all(|term| means(term, other));
    let own = || class.affinity.iter().chain(&class.anti_affinity);
    match event {
        Event::Itself { old, new } => old.class.labels != new.class.labels,
        Event::Placed(other) => wanted(other),
        Event::Changed { old, new } => {
            wanted(old) != wanted(new)
                || class.anti_affinity.iter().any(|term| means(term, old) && !means(term, new))
                || old.anti_affinity.iter().any(|t| means(t, class) && !new.anti_affinity.contains(t))
        }
        Event::Gone { pod: other, .. } => {
            wanted(other) && wanted(class)
                || class.anti_affinity.iter().any(|term| means(term, other))
                || other.anti_affinity.iter().any(|term| means(term, class))
        }
        Event::NodeAdded(node) => {
            !class.anti_affinity.is_empty()
                || class.affinity.is_empty()
                || class.affinity.iter().any(|t| node.label(&t.topology_key).is_some())
        }
        Event::NodeUpdated { old, new } => {
            let moved = |term: &Arc<PodTerm>| old.label(&term.topology_key) != new.label(&term.topology_key);
            // Others' terms keep it out of their domains as well.
            let kept_out = |held: &Arc<Held>| held.kind == HeldKind::AntiAffinity && moved(&held.term);
            old.labels != new.labels && (own().any(moved) || counters.held_about(class).iter().any(kept_out))
        }
        // Its pods are in no domain any more.
        Event::NodeRemoved(_) => true,
        Event::Namespace { name, old, new } => {
            let other = |term: &Arc<PodTerm>| term.in_namespace(name, old) != term.in_namespace(name, new);
            **name == *class.namespace || own().any(other)
        }
        _ => false,
    }
}
