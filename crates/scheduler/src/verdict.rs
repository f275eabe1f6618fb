//! What was found about a pod on a node, and how a scheduler says so.

use std::collections::BTreeMap;

use crate::cluster::NodeIx;
use crate::plugin::{Plugin, Plugins};
use crate::pod::Spec;
use crate::storage::Conflicts;

/// The first filter's answer that was no, or that all said yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    Cordoned,
    Tainted,
    NotSelected,
    NotEnforced,
    PortTaken,
    /// Bit 0 is the number of pods; the others are the pod's requests in order.
    Short {
        bits: u32,
        unresolvable: bool,
    },
    DiskInUse,
    ClaimInUse,
    TooManyVolumes,
    NoVolumes(Conflicts),
    OtherZone,
    NoTopologyLabel,
    Skewed,
    NoAffinity,
    AntiAffinity,
    ExistingAntiAffinity,
    LacksFeatures,
    NoDevices(DeviceVerdict),
    /// Preemption only: nobody there is less important.
    NoVictims,
}

/// Why a pod's claims cannot have their devices on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceVerdict {
    /// They would have to be allocated, and there are not enough.
    Unallocatable,
    /// They are allocated, and not for this node.
    Unavailable,
    /// A claim of an earlier attempt has to go first.
    StaleClaim,
    CannotFit,
    /// In words of the allocator: the place among [`Diagnosis::devices`].
    OnNode(u16),
}

impl DeviceVerdict {
    fn reason(self) -> &'static str {
        match self {
            DeviceVerdict::Unallocatable => "cannot allocate all claims",
            DeviceVerdict::Unavailable => "resourceclaim not available on the node",
            DeviceVerdict::StaleClaim => "cannot schedule extended resource claim",
            DeviceVerdict::CannotFit => "cannot fit resource",
            DeviceVerdict::OnNode(_) => "",
        }
    }
}

/// Requests beyond this many share the last bit: a verdict fits in a register.
const BITS: usize = 31;

impl Verdict {
    /// The next filter's answer where this one said yes.
    #[inline]
    pub fn and_then(self, next: impl FnOnce() -> Verdict) -> Verdict {
        if self == Verdict::Fits { next() } else { self }
    }

    pub fn plugin(self) -> Option<Plugin> {
        Some(match self {
            Verdict::Fits | Verdict::NoVictims => return None,
            Verdict::Cordoned => Plugin::NodeUnschedulable,
            Verdict::Tainted => Plugin::TaintToleration,
            Verdict::NotSelected | Verdict::NotEnforced => Plugin::NodeAffinity,
            Verdict::PortTaken => Plugin::NodePorts,
            Verdict::Short { .. } => Plugin::NodeResourcesFit,
            Verdict::DiskInUse | Verdict::ClaimInUse => Plugin::VolumeRestrictions,
            Verdict::TooManyVolumes => Plugin::NodeVolumeLimits,
            Verdict::NoVolumes(_) => Plugin::VolumeBinding,
            Verdict::OtherZone => Plugin::VolumeZone,
            Verdict::NoTopologyLabel | Verdict::Skewed => Plugin::PodTopologySpread,
            Verdict::NoAffinity | Verdict::AntiAffinity | Verdict::ExistingAntiAffinity => {
                Plugin::InterPodAffinity
            }
            Verdict::LacksFeatures => Plugin::NodeDeclaredFeatures,
            Verdict::NoDevices(_) => Plugin::DynamicResources,
        })
    }

    /// Deleting other pods could not change it.
    pub fn unresolvable(self) -> bool {
        match self {
            Verdict::Short { unresolvable, .. } => unresolvable,
            Verdict::Cordoned
            | Verdict::Tainted
            | Verdict::NotSelected
            | Verdict::NotEnforced
            | Verdict::NoVolumes(_)
            | Verdict::OtherZone
            | Verdict::NoTopologyLabel
            | Verdict::NoAffinity
            | Verdict::LacksFeatures
            | Verdict::NoDevices(_)
            | Verdict::NoVictims => true,
            Verdict::Fits
            | Verdict::PortTaken
            | Verdict::DiskInUse
            | Verdict::ClaimInUse
            | Verdict::TooManyVolumes
            | Verdict::Skewed
            | Verdict::AntiAffinity
            | Verdict::ExistingAntiAffinity => false,
        }
    }

    pub fn short_of(resource: usize) -> u32 {
        1 << (resource + 1).min(BITS)
    }

    /// The first reason, if there are several.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Verdict::Fits => "",
            Verdict::Cordoned => "node(s) were unschedulable",
            Verdict::Tainted => "node(s) had untolerated taint(s)",
            Verdict::NotSelected => "node(s) didn't match Pod's node affinity/selector",
            Verdict::NotEnforced => "node(s) didn't match scheduler-enforced node affinity",
            Verdict::PortTaken => "node(s) didn't have free ports for the requested pod ports",
            Verdict::Short { .. } => "Too many pods",
            Verdict::DiskInUse => "node(s) had no available disk",
            Verdict::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use \
                 by another pod"
            }
            Verdict::TooManyVolumes => "node(s) exceed max volume count",
            Verdict::NoVolumes(conflicts) => conflicts.reasons().next().unwrap_or_default(),
            Verdict::OtherZone => "node(s) had no available volume zone",
            Verdict::NoTopologyLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Verdict::Skewed => "node(s) didn't match pod topology spread constraints",
            Verdict::NoAffinity => "node(s) didn't match pod affinity rules",
            Verdict::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Verdict::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Verdict::LacksFeatures => "node(s) didn't match Pod's required features",
            Verdict::NoDevices(why) => why.reason(),
            Verdict::NoVictims => "No preemption victims found for incoming pod",
        }
    }
}

/// How many nodes there are of each verdict: thousands of nodes have a handful of them.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    each: Vec<(Verdict, usize)>,
    /// Which was counted last: most often the next is the same.
    last: usize,
    all: usize,
}

impl Counts {
    #[inline]
    pub fn add(&mut self, verdict: Verdict) {
        self.all += 1;
        if self.each.get(self.last).is_none_or(|(last, _)| *last != verdict) {
            self.last = self.each.iter().position(|(other, _)| *other == verdict).unwrap_or_else(|| {
                self.each.push((verdict, 0));
                self.each.len() - 1
            });
        }
        self.each[self.last].1 += 1;
    }

    pub fn plugins(&self) -> impl Iterator<Item = Plugin> {
        self.each.iter().filter_map(|(verdict, _)| verdict.plugin())
    }
}

/// Why no node was found for a pod.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// All nodes there are.
    pub nodes: usize,
    /// Said before any node was looked at.
    pub pre_filter: Option<String>,
    pub verdicts: Vec<(NodeIx, Verdict)>,
    pub counts: Counts,
    /// What is said of the nodes that were not looked at.
    pub others: Option<String>,
    pub plugins: Plugins,
    /// What the allocator of devices said of nodes.
    pub devices: Vec<String>,
    /// What preemption says, behind everything else.
    pub post_filter: String,
}

impl Diagnosis {
    pub fn verdict(&self, node: NodeIx) -> Option<Verdict> {
        self.verdicts.iter().find(|(ix, _)| *ix == node).map(|(_, verdict)| *verdict)
    }

    /// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: ...`
    pub fn message(&self, spec: &Spec) -> String {
        let mut message = format!("0/{} nodes are available:", self.nodes);
        if let Some(pre_filter) = &self.pre_filter {
            message.push_str(&format!(" {pre_filter}."));
        } else {
            let reasons = self.reasons(spec);
            let mut lines: Vec<String> =
                reasons.iter().map(|(why, count)| format!("{count} {why}")).collect();
            lines.sort_unstable();
            if !lines.is_empty() {
                message.push_str(&format!(" {}.", lines.join(", ")));
            }
        }
        if !self.post_filter.is_empty() {
            message.push(' ');
            message.push_str(&self.post_filter);
        }
        message
    }

    fn reasons(&self, spec: &Spec) -> BTreeMap<String, usize> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (verdict, count) in self.counts.each.iter().copied() {
            if let Verdict::NoVolumes(conflicts) = verdict {
                conflicts.reasons().for_each(|why| *reasons.entry(why.to_owned()).or_default() += count);
                continue;
            }
            if let Verdict::NoDevices(DeviceVerdict::OnNode(at)) = verdict {
                let why = self.devices.get(usize::from(at)).cloned().unwrap_or_default();
                *reasons.entry(why).or_default() += count;
                continue;
            }
            let Verdict::Short { bits, .. } = verdict else {
                *reasons.entry(verdict.reason().to_owned()).or_default() += count;
                continue;
            };
            if bits & 1 != 0 {
                *reasons.entry(verdict.reason().to_owned()).or_default() += count;
            }
            for (i, (name, _)) in spec.requests.iter().enumerate() {
                if bits & Verdict::short_of(i) != 0 {
                    *reasons.entry(format!("Insufficient {name}")).or_default() += count;
                }
            }
        }
        if let Some(others) = &self.others
            && self.counts.all < self.nodes
        {
            *reasons.entry(others.clone()).or_default() += self.nodes - self.counts.all;
        }
        reasons
    }
}
