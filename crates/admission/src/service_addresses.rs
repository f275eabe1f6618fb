//! Services get their cluster addresses and node ports in the commit that writes them, and lose them in the one that removes them.
//!
//! ```text
//! write ── patch what the client left out ── families ── addresses ── node ports ──> the service
//!                                                           │            └── RangeAllocation servicenodeports, one bitmap
//!                                                           └── IPAddress, one an address
//! ```
//! An address is taken by creating its IPAddress: the store lets only one do so. All node ports are bits of one
//! object, written with a guard.

mod cluster_ips;
mod families;
mod node_ports;
mod spec;

#[cfg(test)]
mod tests;

use object::{FieldError, Value};

pub use cluster_ips::{address_object, is_ready, parent_of};
pub use kinds::servicecidr::{BadRange, Cidr, Family};
pub use node_ports::{BadPorts, NODE_PORTS, NodePorts, PortRange, in_use};

use crate::{Allocator, Attempt, Effects, Refusal};
use cluster_ips::Addresses;
use node_ports::Ports;
use spec::Spec;

/// Where addresses and ports come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    /// One, or one of each family; the first is what services get that do not ask.
    cluster: Vec<Cidr>,
    node_ports: PortRange,
}

impl Default for ServiceRanges {
    fn default() -> ServiceRanges {
        ServiceRanges { cluster: vec![Cidr::DEFAULT], node_ports: PortRange::default() }
    }
}

impl ServiceRanges {
    /// From what the flags say: `10.96.0.0/16` or `10.96.0.0/16,fd00::/108`, and `30000-32767`.
    pub fn new(cluster: &str, node_ports: PortRange) -> Result<ServiceRanges, BadRange> {
        let ranges: Vec<Cidr> =
            cluster.split(',').map(|range| Cidr::parse(range.trim())).collect::<Result<_, _>>()?;
        for range in &ranges {
            range.usable()?;
        }
        match &ranges[..] {
            [_] => {}
            [a, b] if a.family() != b.family() => {}
            _ => return Err(BadRange::Families(cluster.to_owned())),
        }
        Ok(ServiceRanges { cluster: ranges, node_ports })
    }

    pub fn cluster(&self) -> &[Cidr] {
        &self.cluster
    }
    pub fn node_ports(&self) -> PortRange {
        self.node_ports
    }
    /// Where the `kubernetes` service lives: the first address of the first range.
    pub fn first_address(&self) -> std::net::IpAddr {
        self.cluster[0].first()
    }
    fn has(&self, family: Family) -> bool {
        self.cluster.iter().any(|range| range.family() == family)
    }
    fn default_family(&self) -> Family {
        self.cluster[0].family()
    }
}

/// The allocator of services.
pub struct ServiceAddresses {
    ranges: ServiceRanges,
}

impl ServiceAddresses {
    pub fn new(ranges: ServiceRanges) -> ServiceAddresses {
        ServiceAddresses { ranges }
    }
}

impl Allocator for ServiceAddresses {
    fn reserve(&self, attempt: &Attempt<'_>, new: &mut Value, effects: &mut Effects) -> Result<(), Refusal> {
        if attempt.subresource.is_some() {
            return Ok(());
        }
        let mut spec = Spec::of(new);
        let old = attempt.old.map(|old| {
            let mut old = Spec::of(old);
            families::default_on_read(&mut old, self.ranges.default_family());
            old
        });
        let old = old.as_ref();
        if let Some(old) = old {
            spec.keep_allocated(old);
        }
        spec.pair_cluster_ips(old);
        let check = |spec: &Spec| {
            let mut shown = new.clone();
            spec.write_into(&mut shown);
            kinds::service_address_errors(&shown, attempt.old)
        };
        families::complete(&mut spec, old, &self.ranges, check).map_err(|e| invalid(attempt, e))?;
        Addresses::new(attempt, effects).update(&mut spec, old)?;
        // Most services have none, and need not look at who has which.
        if spec.may_have_node_ports() || old.is_some_and(Spec::may_have_node_ports) {
            let mut ports = Ports::read(attempt, self.ranges.node_ports)?;
            ports.update(attempt, &mut spec, old)?;
            if !attempt.dry_run {
                ports.write(attempt, effects);
            }
        }
        spec.write_into(new);
        Ok(())
    }

    fn released(&self, attempt: &Attempt<'_>, old: &Value, effects: &mut Effects) {
        let spec = Spec::of(old);
        Addresses::new(attempt, effects).release_all(&spec);
        // What cannot be read was never written down: who needs it next asks the services that are left.
        if spec.may_have_node_ports()
            && let Ok(mut ports) = Ports::read(attempt, self.ranges.node_ports)
        {
            ports.release_all(&spec);
            ports.write(attempt, effects);
        }
        // A service of the same name may come back before a controller has looked: it must not find these.
        if let Some(endpoints) = attempt.find("", "endpoints", attempt.namespace, attempt.name)
            && attempt.tree(&endpoints).at(&["metadata", "finalizers"]).is_none()
        {
            effects.remove(&endpoints);
        }
    }
}

fn invalid(attempt: &Attempt<'_>, errors: Vec<FieldError>) -> Refusal {
    kinds::invalid(attempt.storage, attempt.name, errors).into()
}
