//! Where clients of an endpoint should rather be: what `spec.trafficDistribution` asks for.

use super::slice::{Endpoint, Hints};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Anywhere: no hints.
    Cluster,
    SameZone,
    SameNode,
}

impl Distribution {
    pub fn of(traffic_distribution: Option<&str>) -> Distribution {
        match traffic_distribution {
            Some("PreferClose" | "PreferSameZone") => Distribution::SameZone,
            Some("PreferSameNode") => Distribution::SameNode,
            _ => Distribution::Cluster,
        }
    }

    /// Has a slice nobody else wants to change hints that are missing, wrong or left over?
    pub fn needs_update(self, endpoints: &[Endpoint]) -> bool {
        endpoints.iter().any(|endpoint| self.wanted(endpoint).is_some_and(|hints| hints != endpoint.hints))
    }

    pub fn update(self, endpoints: &mut [Endpoint]) {
        for endpoint in endpoints {
            if let Some(hints) = self.wanted(endpoint) {
                endpoint.hints = hints;
            }
        }
    }

    /// `None`: as they are. Only endpoints that take traffic are judged.
    fn wanted(self, endpoint: &Endpoint) -> Option<Hints> {
        if self == Distribution::Cluster {
            return Some(Hints::default());
        }
        let ready = endpoint.ready == Some(true);
        ready.then(|| Hints {
            zones: endpoint.zone.iter().cloned().collect(),
            nodes: endpoint.node.iter().filter(|_| self == Distribution::SameNode).cloned().collect(),
        })
    }
}
