//! Cluster addresses: an address belongs to the service whose IPAddress object bears its name.

use std::net::IpAddr;

use codec::json;
use kinds::Context;
use kinds::ipaddress::{IP_FAMILY_LABEL, MANAGED_BY, MANAGED_BY_LABEL};
use kinds::servicecidr::{Cidr, Family, ranges_of};
use object::normalise::{Strict, normalise};
use object::{FieldError, Map, Status, Value, time};

use super::families::{is_left_alone, shown_list};
use super::invalid;
use super::spec::{EXTERNAL_NAME, Spec};
use crate::{Attempt, Effects, Refusal};

const NETWORKING: &str = "networking.k8s.io";
const TAKEN: &str = "provided IP is already allocated";
const FOREIGN: &str = "the provided network does not match the current range";
const NOT_READY: &str = "allocator not ready";
const FULL: &str = "range is full";

/// A new IPAddress for a service, without what the server adds to every object.
pub fn address_object(address: &IpAddr, namespace: &str, service: &str) -> Value {
    let mut new = Value::map();
    let top = new.make_map();
    top.set("kind", "IPAddress");
    top.set("apiVersion", "networking.k8s.io/v1");
    let metadata = new.map_at(&["metadata"]);
    metadata.set("name", address.to_string());
    let mut labels = Map::default();
    labels.set(IP_FAMILY_LABEL, Family::of(address).name());
    labels.set(MANAGED_BY_LABEL, MANAGED_BY);
    metadata.set("labels", labels);
    let parent = new.map_at(&["spec", "parentRef"]);
    parent.set("resource", "services");
    parent.set("namespace", namespace);
    parent.set("name", service);
    new
}

/// Namespace and name of the service an IPAddress belongs to, if it is a service's.
pub fn parent_of(address: &Value) -> Option<(&str, &str)> {
    let text = |name: &str| address.str_at(&["spec", "parentRef", name]).unwrap_or("");
    (text("group").is_empty() && text("resource") == "services").then(|| (text("namespace"), text("name")))
}

/// May addresses be taken from a ServiceCIDR? One that nobody has judged yet counts as ready.
pub fn is_ready(service_cidr: &Value) -> bool {
    let conditions = service_cidr.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.str_at(&["type"]) == Some("Ready"));
    ready.is_none_or(|c| c.str_at(&["status"]) == Some("True"))
        && service_cidr.at(&["metadata", "deletionTimestamp"]).is_none()
}

/// What one write does to addresses.
pub(super) struct Addresses<'a, 'e> {
    attempt: &'a Attempt<'a>,
    effects: &'e mut Effects,
}

impl<'a, 'e> Addresses<'a, 'e> {
    pub(super) fn new(attempt: &'a Attempt<'a>, effects: &'e mut Effects) -> Addresses<'a, 'e> {
        Addresses { attempt, effects }
    }

    /// Takes what the service lacks and gives back what it no longer has.
    pub(super) fn update(mut self, spec: &mut Spec, old: Option<&Spec>) -> Result<(), Refusal> {
        let old = match old {
            None => return self.allocate_all(spec),
            Some(old) if is_left_alone(spec, Some(old)) => return Ok(()),
            Some(old) => old,
        };
        match (old.kind == EXTERNAL_NAME, spec.kind == EXTERNAL_NAME) {
            (true, false) => return self.allocate_all(spec),
            (true, true) => return Ok(()),
            (false, _) if old.is_headless() => return Ok(()),
            (false, true) => {
                self.release_all(old);
                return Ok(());
            }
            (false, false) => {}
        }
        match (old.families.len(), spec.families.len()) {
            (1, 2) => {
                spec.cluster_ips.resize(2, String::new());
                self.allocate(spec, 1)
            }
            (2, 1) => {
                if let Some(second) = old.cluster_ips.get(1).and_then(|ip| ip.parse().ok()) {
                    self.release(&second);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn release_all(&mut self, old: &Spec) {
        for address in old.addresses() {
            self.release(&address);
        }
    }

    fn allocate_all(&mut self, spec: &mut Spec) -> Result<(), Refusal> {
        if !spec.needs_address() || spec.is_headless() {
            return Ok(());
        }
        if spec.cluster_ips.len() < spec.families.len() {
            spec.cluster_ips.resize(spec.families.len(), String::new());
        }
        for i in 0..spec.families.len() {
            self.allocate(spec, i)?;
        }
        spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
        Ok(())
    }

    /// Takes the address at `i`: the one that stands there, or any.
    fn allocate(&mut self, spec: &mut Spec, i: usize) -> Result<(), Refusal> {
        let wanted = spec.cluster_ips[i].clone();
        if wanted.is_empty() {
            let family = Family::parse(&spec.families[i]).unwrap_or(Family::V4);
            let address = self.next(family)?;
            if let Some(why) = self.no_owner(&address) {
                let detail = format!("failed to allocate IP: {why}");
                let shown = shown_list(&spec.cluster_ips);
                return Err(invalid(
                    self.attempt,
                    vec![FieldError::invalid("spec.clusterIPs", shown, detail)],
                ));
            }
            spec.cluster_ips[i] = address.to_string();
            return Ok(());
        }
        let refused = |why: &str| {
            let detail = format!("failed to allocate IP {wanted}: {why}");
            invalid(
                self.attempt,
                vec![FieldError::invalid("spec.clusterIPs", shown_list(&spec.cluster_ips), detail)],
            )
        };
        let address: IpAddr = wanted.parse().map_err(|_| {
            Refusal::from(Status::internal(format!("failed to parse service IP {}", object::quote(&wanted))))
        })?;
        let ranges = self.ready_ranges()?;
        let fits = ranges.iter().any(|range| range.contains(&address));
        // As upstream: a dry run asks one range only, which does not say whose the address is, and speaks for that range.
        if self.attempt.dry_run {
            let range = ranges.iter().find(|range| range.family() == Family::of(&address));
            return match range {
                _ if fits => Ok(()),
                Some(range) => Err(refused(&format!(
                    "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
                ))),
                None => Err(refused(NOT_READY)),
            };
        }
        if !fits {
            return Err(refused(FOREIGN));
        }
        if let Some(why) = self.no_owner(&address) {
            return Err(refused(&why));
        }
        if self.is_taken(&address) {
            return Err(refused(TAKEN));
        }
        self.take(&address)
    }

    fn next(&mut self, family: Family) -> Result<IpAddr, Refusal> {
        let ranges = self.ready_ranges()?;
        let ranges = || ranges.iter().filter(|range| range.family() == family);
        // As upstream: a dry run looks for no free address, it shows where one would come from.
        if self.attempt.dry_run
            && let Some(range) = ranges().next()
        {
            return Ok(range.network());
        }
        let env = self.attempt.env;
        let free = ranges()
            .flat_map(|range| range.candidates(|below| env.random_below(below)))
            .find(|address| !self.is_taken(address));
        let Some(address) = free else {
            let name = object::quote(self.attempt.name);
            return Err(Status::internal(format!(
                "failed to allocate a serviceIP for Service {name}: {FULL}"
            ))
            .into());
        };
        self.take(&address)?;
        Ok(address)
    }

    /// Why this service can own no address: its name could be none. Upstream finds out when it writes the IPAddress,
    /// long before the service itself is looked at; a dry run writes none.
    fn no_owner(&self, address: &IpAddr) -> Option<String> {
        let name = self.attempt.name;
        let refused = Status::check_key_name(name).err().filter(|_| !self.attempt.dry_run)?;
        let error = match refused.message.rsplit_once(": ") {
            Some((_, why)) => FieldError::invalid("spec.parentRef.name", object::quote(name), why),
            None => FieldError::required("spec.parentRef.name", ""),
        };
        let address = address.to_string();
        Some(Status::invalid(NETWORKING, "IPAddress", &address, vec![error]).message)
    }

    fn is_taken(&self, address: &IpAddr) -> bool {
        self.attempt.find(NETWORKING, "ipaddresses", "", &address.to_string()).is_some()
    }

    fn ready_ranges(&self) -> Result<Vec<Cidr>, Status> {
        let all = self.attempt.all(NETWORKING, "servicecidrs", "")?;
        let trees = all.iter().map(|obj| self.attempt.tree(obj)).filter(is_ready);
        Ok(trees.flat_map(|tree| ranges_of(&tree)).filter(|range| range.usable().is_ok()).collect())
    }

    fn take(&mut self, address: &IpAddr) -> Result<(), Refusal> {
        let attempt = self.attempt;
        let Some(storage) = attempt.stored(NETWORKING, "ipaddresses") else {
            return Err(Status::internal("the catalogue has no IPAddresses").into());
        };
        let now = attempt.env.now_seconds() as i64;
        let mut new = address_object(address, attempt.namespace, attempt.name);
        let metadata = new.map_at(&["metadata"]);
        metadata.set("uid", attempt.env.uuid());
        metadata.set("creationTimestamp", time::format_seconds(now));
        kinds::prepare_create(kinds::kind_of(storage), &mut new, &Context::plain(storage, now));
        normalise(storage.schema(), storage.ty, &mut new, &mut Strict::off()).map_err(|e| {
            Refusal::from(Status::internal(format!("an IPAddress does not fit its type: {e}")))
        })?;
        self.effects.create(storage.key("", &address.to_string()).into(), json::to_vec(&new));
        Ok(())
    }

    /// Gives an address back, if it is this service's.
    fn release(&mut self, address: &IpAddr) {
        let attempt = self.attempt;
        let Some(obj) = attempt.find(NETWORKING, "ipaddresses", "", &address.to_string()) else { return };
        if parent_of(&attempt.tree(&obj)) == Some((attempt.namespace, attempt.name)) {
            self.effects.remove(&obj);
        }
    }
}
