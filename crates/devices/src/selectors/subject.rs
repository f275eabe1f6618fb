//! A device as selectors see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::library::quantity::Quantity;
use cel::value::OwnedMap;
use cel::{Error, Map, Mapper, Val, Variables};

use crate::slice::Device;

#[derive(Debug)]
pub(crate) struct Subject {
    driver: Arc<str>,
    allow_multiple_allocations: bool,
    attributes: Domains,
    capacity: Domains,
    /// Why no selector can be asked.
    broken: Option<String>,
}

/// Values by domain and name. A domain that is not there is empty, so that selectors need not ask for it.
#[derive(Debug)]
struct Domains(BTreeMap<Arc<str>, Val<'static>>);

impl Subject {
    pub(crate) fn new(driver: &Arc<str>, device: &Device) -> Subject {
        let mut broken = None;
        let mut attributes = Vec::new();
        for (name, attribute) in &device.attributes {
            match attribute.value() {
                Ok(value) => attributes.push((name, value)),
                Err(error) => {
                    broken.get_or_insert_with(|| format!("attribute {name}: {error}"));
                }
            }
        }
        let capacity = device.capacity.iter().filter_map(|(name, capacity)| {
            Some((name, Val::opaque(Quantity::parse(&capacity.value.to_string()).ok()?)))
        });
        Subject {
            driver: Arc::clone(driver),
            allow_multiple_allocations: device.allow_multiple_allocations,
            capacity: Domains::new(driver, capacity),
            attributes: Domains::new(driver, attributes),
            broken,
        }
    }

    pub(super) fn variables(&self) -> Result<Variables<'_>, String> {
        match &self.broken {
            Some(error) => Err(error.clone()),
            None => Ok(Variables::new().with("device", Val::Map(Map::Custom(self)))),
        }
    }
}

const FIELDS: [&str; 4] = ["allowMultipleAllocations", "attributes", "capacity", "driver"];

impl Mapper for Subject {
    fn find<'a>(&'a self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
        Some(Ok(match key.as_str()? {
            "driver" => Val::from(&*self.driver),
            "allowMultipleAllocations" => Val::Bool(self.allow_multiple_allocations),
            "attributes" => Val::Map(Map::Custom(&self.attributes)),
            "capacity" => Val::Map(Map::Custom(&self.capacity)),
            _ => return None,
        }))
    }
    fn keys<'a>(&'a self) -> Vec<Val<'a>> {
        FIELDS.into_iter().map(Val::from).collect()
    }
    fn len(&self) -> usize {
        FIELDS.len()
    }
}

impl Domains {
    /// Names without a domain are of the driver's.
    fn new<'n>(driver: &str, values: impl IntoIterator<Item = (&'n Arc<str>, Val<'static>)>) -> Domains {
        let mut domains: BTreeMap<Arc<str>, OwnedMap<'static>> = BTreeMap::new();
        for (name, value) in values {
            let (domain, id) = name.split_once('/').unwrap_or((driver, name));
            domains.entry(domain.into()).or_default().insert(Val::string(id), value);
        }
        Domains(domains.into_iter().map(|(domain, values)| (domain, values.into())).collect())
    }
}

impl Mapper for Domains {
    fn find<'a>(&'a self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
        let known = key.as_str().and_then(|domain| self.0.get(domain));
        Some(Ok(known.map_or_else(|| OwnedMap::default().into(), Val::reborrow)))
    }
    fn contains(&self, key: &Val<'_>) -> Result<bool, Error> {
        Ok(key.as_str().is_some_and(|domain| self.0.contains_key(domain)))
    }
    fn keys<'a>(&'a self) -> Vec<Val<'a>> {
        self.0.keys().map(|domain| Val::from(&**domain)).collect()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}
