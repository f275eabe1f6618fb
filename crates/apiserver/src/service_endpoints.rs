//! The endpoints of Services, from the table: where webhooks and aggregated servers are.
//!
//! They are asked for with every call, so what was found is kept until the Service or one of its EndpointSlices changes. The
//! changes are pulled from the table when somebody asks: an answer is never older than the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use admission::list_readable;
use catalog::Storage;
use client::resources::SERVICE_NAME_LABEL;
use codec::json;
use object::{Obj, Value};
use parking_lot::Mutex;
use table::{Cursor, Gone, Scope, Selection, Table, WatchEvent};
use webhook::{HostPort, ResolveError, ServiceResolver};

/// So many Services are kept, and so many ports of each; one more, and all are looked up anew.
const MAX_SERVICES: usize = 4096;
const MAX_PORTS: usize = 16;
/// So many bytes of changes are looked at in one go.
const PULLED: usize = 1 << 20;

pub(crate) struct ServiceEndpoints {
    table: Arc<Table>,
    /// Guards what is known; held to look one up.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Of changes of Services and of EndpointSlices. None: nothing is known yet.
    cursors: Option<[Cursor; 2]>,
    /// By namespace and name of the Service, then by port.
    found: BTreeMap<(String, String), BTreeMap<u16, Found>>,
}

type Found = Result<Arc<[HostPort]>, ResolveError>;

impl ServiceResolver for ServiceEndpoints {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Found {
        let mut known = self.known.lock();
        if !known.follow() {
            *known = Known { cursors: self.cursors(), ..Known::default() };
        }
        let service = (namespace.to_owned(), name.to_owned());
        if let Some(found) = known.found.get(&service).and_then(|ports| ports.get(&port)) {
            return found.clone();
        }
        let found = self.find(namespace, name, port);
        if known.cursors.is_some() {
            if known.found.len() >= MAX_SERVICES {
                known.found.clear();
            }
            let ports = known.found.entry(service).or_default();
            if ports.len() >= MAX_PORTS {
                ports.clear();
            }
            ports.insert(port, found.clone());
        }
        found
    }
}

impl ServiceEndpoints {
    pub fn new(table: Arc<Table>) -> ServiceEndpoints {
        ServiceEndpoints { table, known: Mutex::default() }
    }

    /// The Service, if there is one, and its EndpointSlices.
    pub fn read(&self, namespace: &str, name: &str) -> (Option<Value>, Vec<Value>) {
        let parse = |obj: &Arc<Obj>| json::parse(obj.body(), None).ok();
        let service = self
            .storage("", "services")
            .and_then(|services| parse(&self.table.get(services.id, &services.key(namespace, name))?));
        let mut slices = Vec::new();
        if let Some(storage) = self.storage("discovery.k8s.io", "endpointslices") {
            let all = Selection::everything(Scope::Namespace(namespace.to_owned()));
            let page = list_readable(&self.table, storage.id, &all);
            let objects = page.map(|page| page.items).unwrap_or_default();
            let own = objects.iter().filter(|obj| obj.label(SERVICE_NAME_LABEL) == Some(name));
            slices.extend(own.filter_map(parse));
        }
        (service, slices)
    }

    fn find(&self, namespace: &str, name: &str, port: u16) -> Found {
        let (service, slices) = self.read(namespace, name);
        webhook::endpoints(name, port, service.as_ref(), &slices.iter().collect::<Vec<_>>())
    }

    fn storage(&self, group: &str, plural: &str) -> Option<Arc<Storage>> {
        self.table.catalog().find_storage(group, plural).cloned()
    }

    /// Of what happens from now on. None: the table is being loaded anew, and nothing can be kept.
    fn cursors(&self) -> Option<[Cursor; 2]> {
        let now = self.table.revision();
        let cursor = |group, plural| {
            let storage = self.storage(group, plural)?;
            self.table.watch_from(storage.id, Selection::everything(Scope::All), now).ok()
        };
        Some([
            cursor("", "services")?,
            // A slice may have been another Service's before.
            cursor("discovery.k8s.io", "endpointslices")?.with_past(),
        ])
    }
}

impl Known {
    /// Forgets what has changed. `false`: nobody can tell what has.
    fn follow(&mut self) -> bool {
        let Known { cursors: Some([services, slices]), found } = self else { return false };
        let mut forget = |namespace: &str, name: &str| {
            if !found.is_empty() {
                found.remove(&(namespace.to_owned(), name.to_owned()));
            }
        };
        let of_services = each(services, |event| forget(event.obj.namespace(), event.obj.name()));
        let of_slices = of_services.and_then(|()| {
            each(slices, |event| {
                for obj in [Some(&event.obj), event.past.as_ref()].into_iter().flatten() {
                    forget(obj.namespace(), obj.label(SERVICE_NAME_LABEL).unwrap_or(""));
                }
            })
        });
        of_slices.is_ok()
    }
}

/// Every event there is by now.
fn each(cursor: &mut Cursor, mut told: impl FnMut(&WatchEvent)) -> Result<(), Gone> {
    let mut events = Vec::new();
    loop {
        let at_end = cursor.pull(&mut events, PULLED)?;
        events.drain(..).for_each(|event| told(&event));
        if at_end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use catalog::Catalog;
    use env::Env;
    use store::{Change, Revision, State};

    use super::*;

    struct Cluster {
        table: Arc<Table>,
        endpoints: ServiceEndpoints,
        revision: u64,
    }

    impl Cluster {
        fn new() -> Cluster {
            let table = Table::new(Arc::new(Catalog::builtin()), Env::simulated(1));
            table.reset(Revision(1), Vec::new());
            Cluster { endpoints: ServiceEndpoints::new(table.clone()), table, revision: 1 }
        }

        fn put(&mut self, group: &str, plural: &str, name: &str, value: Option<String>) {
            self.revision += 1;
            let revision = Revision(self.revision);
            let key = self.endpoints.storage(group, plural).unwrap().key("d", name).into();
            let change = Change { revision, key, value: value.map(Bytes::from), expires_at: None };
            self.table.publish(vec![change], revision);
        }

        fn put_service(&mut self, name: &str, port: u16) {
            let value = format!(
                r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}","namespace":"d"}},
                "spec":{{"ports":[{{"port":{port}}}]}}}}"#
            );
            self.put("", "services", name, Some(value));
        }

        fn put_slice(&mut self, name: &str, service: &str, address: &str) {
            let value = format!(
                r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{{"name":"{name}","namespace":"d",
                "labels":{{"kubernetes.io/service-name":"{service}"}}}},"addressType":"IPv4",
                "endpoints":[{{"addresses":["{address}"]}}],"ports":[{{"port":8443}}]}}"#
            );
            self.put("discovery.k8s.io", "endpointslices", name, Some(value));
        }

        fn resolve(&self, name: &str) -> Found {
            self.endpoints.resolve("d", name, 443)
        }

        fn addresses(&self, name: &str) -> Vec<String> {
            let found = self.resolve(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            found.iter().map(|endpoint| endpoint.host.to_string()).collect()
        }
    }

    #[test]
    fn endpoints_follow_the_service_and_its_slices_at_once() {
        let mut cluster = Cluster::new();
        assert_eq!(cluster.resolve("a"), Err(ResolveError::NotFound("a".into())));
        cluster.put_service("a", 443);
        assert_eq!(cluster.resolve("a"), Err(ResolveError::NoEndpoints("a".into())));
        cluster.put_slice("1", "a", "10.0.0.1");
        assert_eq!(cluster.addresses("a"), ["10.0.0.1"]);
        cluster.put_slice("1", "a", "10.0.0.2");
        assert_eq!(cluster.addresses("a"), ["10.0.0.2"]);
        // The slice becomes another Service's.
        cluster.put_slice("2", "a", "10.0.0.3");
        cluster.put_service("b", 443);
        assert_eq!(cluster.resolve("b"), Err(ResolveError::NoEndpoints("b".into())));
        cluster.put_slice("1", "b", "10.0.0.2");
        assert_eq!(
            (cluster.addresses("a"), cluster.addresses("b")),
            (vec!["10.0.0.3".to_owned()], vec!["10.0.0.2".to_owned()])
        );
        cluster.put("discovery.k8s.io", "endpointslices", "1", None);
        assert_eq!(cluster.resolve("b"), Err(ResolveError::NoEndpoints("b".into())));
        cluster.put_service("a", 444);
        assert_eq!(cluster.resolve("a"), Err(ResolveError::NoPort { service: "a".into(), port: 443 }));
        cluster.put("", "services", "a", None);
        assert_eq!(cluster.resolve("a"), Err(ResolveError::NotFound("a".into())));
    }

    #[test]
    fn endpoints_are_looked_up_once_until_they_change() {
        let mut cluster = Cluster::new();
        cluster.put_service("a", 443);
        cluster.put_slice("1", "a", "10.0.0.1");
        let first = cluster.resolve("a").unwrap();
        cluster.put_service("b", 443);
        cluster.put_slice("2", "b", "10.0.0.2");
        assert!(Arc::ptr_eq(&first, &cluster.resolve("a").unwrap()), "nothing of it has changed");
        cluster.put_slice("1", "a", "10.0.0.1");
        assert!(!Arc::ptr_eq(&first, &cluster.resolve("a").unwrap()));
    }

    #[test]
    fn a_table_that_was_loaded_anew_or_has_forgotten_is_read_again() {
        let mut cluster = Cluster::new();
        cluster.put_service("a", 443);
        cluster.put_slice("1", "a", "10.0.0.1");
        assert_eq!(cluster.addresses("a"), ["10.0.0.1"]);
        cluster.put_slice("1", "a", "10.0.0.2");
        cluster.table.compact(Revision(cluster.revision));
        assert_eq!(cluster.addresses("a"), ["10.0.0.2"]);
        cluster.table.reset(Revision(100), Vec::new());
        assert_eq!(cluster.resolve("a"), Err(ResolveError::NotFound("a".into())));
    }
}
