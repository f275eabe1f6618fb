//! The plugins by name: which there are, what each is worth by default, and sets of them.

/// In the order the default configuration runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Plugin {
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
}

use Plugin::*;

pub const ALL: [Plugin; 20] = [
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
];

impl Plugin {
    pub fn name(self) -> &'static str {
        match self {
            SchedulingGates => "SchedulingGates",
            PrioritySort => "PrioritySort",
            NodeUnschedulable => "NodeUnschedulable",
            NodeName => "NodeName",
            TaintToleration => "TaintToleration",
            NodeAffinity => "NodeAffinity",
            NodePorts => "NodePorts",
            NodeResourcesFit => "NodeResourcesFit",
            VolumeRestrictions => "VolumeRestrictions",
            NodeVolumeLimits => "NodeVolumeLimits",
            VolumeBinding => "VolumeBinding",
            VolumeZone => "VolumeZone",
            PodTopologySpread => "PodTopologySpread",
            InterPodAffinity => "InterPodAffinity",
            DynamicResources => "DynamicResources",
            DefaultPreemption => "DefaultPreemption",
            NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            ImageLocality => "ImageLocality",
            DefaultBinder => "DefaultBinder",
            NodeDeclaredFeatures => "NodeDeclaredFeatures",
        }
    }

    pub fn named(name: &str) -> Option<Plugin> {
        ALL.into_iter().find(|p| p.name() == name)
    }

    /// What its score counts by default; zero for one that does not score.
    pub fn default_weight(self) -> i64 {
        match self {
            TaintToleration => 3,
            NodeAffinity | PodTopologySpread | InterPodAffinity | DynamicResources => 2,
            NodeResourcesFit | NodeResourcesBalancedAllocation | ImageLocality => 1,
            _ => 0,
        }
    }
}

/// A set of plugins in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plugins(u32);

impl Plugins {
    pub const EMPTY: Plugins = Plugins(0);
    pub fn all() -> Plugins {
        ALL.into_iter().collect()
    }
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u8;
    }
    pub fn remove(&mut self, plugin: Plugin) {
        self.0 &= !(1 << plugin as u8);
    }
    pub fn has(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u8) != 0
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        ALL.into_iter().filter(move |p| self.has(*p))
    }
}

impl FromIterator<Plugin> for Plugins {
    fn from_iter<I: IntoIterator<Item = Plugin>>(iter: I) -> Plugins {
        let mut plugins = Plugins::EMPTY;
        iter.into_iter().for_each(|p| plugins.insert(p));
        plugins
    }
}
