//! Who counts what: one evaluator a kind of object, and the plain count for all others.

use catalog::Storage;
use object::Value;
use object::quantity::{Format, Quantity};

use super::device_claims::{self, Lookup};
use super::list::{self, List};
use super::pods;
use super::scopes::Facts;

const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
pub(super) const DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// What a claim of "all devices" is charged: as many as can be allocated to one.
const MOST_DEVICES: i64 = 32;

/// Measures objects of one stored resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// One for each object, under these names.
    Count(Vec<String>),
}

/// What an object uses, and what scopes can ask about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    pub used: List,
    pub facts: Facts,
    /// It must be measured again after this moment (Unix seconds).
    pub until: Option<i64>,
}

impl Evaluator {
    /// `None`: objects of this resource are not counted.
    pub fn of(storage: &Storage) -> Option<Evaluator> {
        if !storage.namespaced {
            return None;
        }
        Some(match (&*storage.group, &*storage.plural) {
            // Never counted, so that events keep telling why something fails.
            ("" | "events.k8s.io", "events") => return None,
            ("", "pods") => Evaluator::Pods,
            ("", "services") => Evaluator::Services,
            ("", "persistentvolumeclaims") => Evaluator::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Evaluator::DeviceClaims,
            ("", plural) => {
                let mut names = vec![format!("count/{plural}")];
                let old = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
                if old.contains(&plural) {
                    names.push(plural.to_owned());
                }
                Evaluator::Count(names)
            }
            (group, plural) => Evaluator::Count(vec![format!("count/{plural}.{group}")]),
        })
    }

    /// Is a quota of this name about these objects?
    pub fn counts(&self, name: &str) -> bool {
        match self {
            Evaluator::Pods => pods::counts(name),
            Evaluator::Services => matches!(
                name,
                "count/services" | "services" | "services.nodeports" | "services.loadbalancers"
            ),
            Evaluator::VolumeClaims => {
                let plain = |name| matches!(name, "persistentvolumeclaims" | "requests.storage");
                name == "count/persistentvolumeclaims"
                    || plain(name)
                    || name.rsplit_once(STORAGE_CLASS).is_some_and(|(_, rest)| plain(rest))
            }
            Evaluator::DeviceClaims => {
                name == "count/resourceclaims.resource.k8s.io"
                    || name.ends_with(DEVICE_CLASS)
                    || pods::is_extended_resource(name)
            }
            Evaluator::Count(names) => names.iter().any(|n| n == name),
        }
    }

    /// What `object` must say because a quota counts these names.
    pub fn check<'n>(&self, object: &Value, counted: impl Iterator<Item = &'n str>) -> Result<(), String> {
        match self {
            Evaluator::Pods => pods::check(object, counted),
            _ => Ok(()),
        }
    }

    /// Of the object alone.
    fn measure_alone(&self, object: &Value, now: i64) -> Measured {
        let plain = |used| Measured { used, facts: Facts::Other, until: None };
        match self {
            Evaluator::Pods => Measured {
                used: pods::usage(object, now),
                facts: pods::facts(object),
                until: pods::no_longer_counts_from(object).filter(|from| *from >= now),
            },
            Evaluator::Services => plain(service(object)),
            Evaluator::VolumeClaims => Measured {
                used: volume_claim(object),
                facts: Facts::Claim { classes: attributes_classes(object) },
                until: None,
            },
            Evaluator::DeviceClaims => plain(device_claim(object)),
            Evaluator::Count(names) => plain(names.iter().map(|n| (n.clone(), list::one())).collect()),
        }
    }

    pub fn measure(&self, object: &Value, now: i64, lookup: &dyn Lookup) -> Measured {
        let mut measured = self.measure_alone(object, now);
        if self.looks_up() {
            device_claims::extend(&mut measured.used, object, now, lookup);
        }
        measured
    }

    /// Does what an object uses depend on others, too?
    pub fn looks_up(&self) -> bool {
        *self == Evaluator::DeviceClaims
    }

    /// Can the object come to use less while it stays?
    pub fn shrinks(&self) -> bool {
        !matches!(self, Evaluator::Count(_))
    }
}

fn service(service: &Value) -> List {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
    let fixed = ports.iter().filter(|p| p.get("nodePort").and_then(Value::as_int).unwrap_or(0) != 0);
    let kind = service.str_at(&["spec", "type"]).unwrap_or("ClusterIP");
    let given = service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool);
    let balanced = kind == "LoadBalancer";
    let node_ports = match kind {
        // Those to come are charged too: the ports need not have been allocated yet.
        "LoadBalancer" if given == Some(false) => fixed.count(),
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    List::from([
        ("count/services".to_owned(), list::one()),
        ("services".to_owned(), list::one()),
        ("services.loadbalancers".to_owned(), list::count(i64::from(balanced))),
        ("services.nodeports".to_owned(), list::count(node_ports as i64)),
    ])
}

fn volume_claim(claim: &Value) -> List {
    let mut used = List::from([
        ("count/persistentvolumeclaims".to_owned(), list::one()),
        ("persistentvolumeclaims".to_owned(), list::one()),
    ]);
    let old_style = claim.str_at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    let class = old_style.or(claim.str_at(&["spec", "storageClassName"])).unwrap_or("");
    let mut charge = |name: &str, amount: Quantity| {
        used.insert(name.to_owned(), amount);
        if !class.is_empty() {
            used.insert(format!("{class}{STORAGE_CLASS}{name}"), amount);
        }
    };
    charge("persistentvolumeclaims", list::one());
    let wanted = list::read(claim, &["spec", "resources", "requests"]).remove("storage");
    if let Some(wanted) = wanted {
        // A volume that was already grown further keeps its size.
        let has = list::read(claim, &["status", "allocatedResources"]).remove("storage");
        charge("requests.storage", list_readable(has.filter(|has| *has > wanted).unwrap_or(wanted)));
    }
    used
}

/// Whole bytes: a quota holds no fractions.
fn list_readable(amount: Quantity) -> Quantity {
    let rounded = Quantity::from_i64(amount.as_i64(), amount.format());
    // Beyond 64 bits there are no fractions to round.
    if rounded < amount { amount } else { rounded }
}

fn attributes_classes(claim: &Value) -> Vec<String> {
    let places: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let mut names: Vec<String> =
        places.iter().filter_map(|p| claim.str_at(p)).filter(|n| !n.is_empty()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

fn device_claim(claim: &Value) -> List {
    let mut used = List::from([("count/resourceclaims.resource.k8s.io".to_owned(), list::one())]);
    let requests = claim.at(&["spec", "devices", "requests"]).and_then(Value::as_list).unwrap_or_default();
    for request in requests {
        let first = request.get("firstAvailable").and_then(Value::as_list).unwrap_or_default();
        let exactly = request.get("exactly").filter(|e| !e.is_null());
        let mut most = List::new();
        // Of several ways to satisfy it, the most expensive one by class.
        let ways: Vec<&Value> =
            if first.is_empty() { exactly.into_iter().collect() } else { first.iter().collect() };
        for way in ways {
            let devices = match way.str_at(&["allocationMode"]) {
                Some("ExactCount") => way.get("count").and_then(Value::as_int).unwrap_or(0),
                Some("All") => MOST_DEVICES,
                _ => 0,
            };
            let class = way.str_at(&["deviceClassName"]).unwrap_or("");
            let name = format!("{class}{DEVICE_CLASS}");
            list::max(&mut most, &List::from([(name, Quantity::from_i64(devices, Format::DecimalSi))]));
        }
        list::add(&mut used, &most);
    }
    used
}
