//! The Services of other servers, and their endpoints, from the table.

use std::sync::Arc;

use admission::list_readable;
use codec::json;
use object::Value;
use table::{Scope, Selection, Table};
use webhook::{HostPort, ResolveError};

use super::routes::ServiceKey;

/// The Service, if there is one, and its EndpointSlices.
pub(crate) fn read(table: &Table, key: &ServiceKey) -> (Option<Value>, Vec<Value>) {
    let catalog = table.catalog();
    let service = catalog.find_storage("", "services").and_then(|services| {
        let obj = table.get(services.id, &services.key(&key.namespace, &key.name))?;
        json::parse(obj.body(), None).ok()
    });
    let mut slices = Vec::new();
    if let Some(storage) = catalog.find_storage("discovery.k8s.io", "endpointslices") {
        let all = Selection::everything(Scope::Namespace(key.namespace.clone()));
        let objects = list_readable(table, storage.id, &all).map(|page| page.items).unwrap_or_default();
        let own = objects.iter().filter(|obj| obj.label("kubernetes.io/service-name") == Some(&*key.name));
        slices.extend(own.filter_map(|obj| json::parse(obj.body(), None).ok()));
    }
    (service, slices)
}

/// Its endpoints.
pub(crate) fn endpoints(table: &Table, key: &ServiceKey) -> Result<Arc<[HostPort]>, ResolveError> {
    let (service, slices) = read(table, key);
    webhook::endpoints(&key.name, key.port, service.as_ref(), &slices.iter().collect::<Vec<_>>())
}
