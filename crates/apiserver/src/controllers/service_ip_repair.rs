//! Repairs the allocation of cluster IPs and node ports: each belongs to the service that has it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use admission::list_readable;
use admission::service_addresses::{Family, NODE_PORTS, NodePorts, address_object, parent_of};
use client::resources;
use codec::json;
use kinds::ipaddress::{IP_FAMILY_LABEL, MANAGED_BY, MANAGED_BY_LABEL};
use kinds::servicecidr::ranges_of;
use object::{Obj, Status, Value, time};
use runtime::{
    Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest, Trigger, tree,
};
use table::{Scope, Selection};

use super::Context;
use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient};

const SERVICES: GroupResource = ("", "services");
const ADDRESSES: GroupResource = ("networking.k8s.io", "ipaddresses");
const SERVICE_CIDRS: GroupResource = ("networking.k8s.io", "servicecidrs");
/// Other kube-apiservers on the same store create an IPAddress first, and its service up to a minute later.
const GRACE_SECONDS: i64 = 60;
/// An address within its grace period is looked at again after this.
const RETRY: Duration = Duration::from_secs(5);
/// Events should be enough; like every controller, this one does not rely on it.
const RESYNC: Duration = Duration::from_secs(600);
/// Upstream's interval for node ports.
const PORTS_EVERY: Duration = Duration::from_secs(180);

/// The key of the node ports. Keys with a namespace are services, the others addresses.
fn ports() -> Key {
    Key::new("", "ports")
}

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let controller = context
        .controller("service-ip-repair")
        .trigger(Trigger::LevelWithResync { period: RESYNC })
        .watches(&context.informers.of(&resources::SERVICES), |event| vec![Key::of(event.obj())])
        .watches(&context.informers.of(&resources::IP_ADDRESSES), |event| {
            let mut keys = vec![Key::of(event.obj())];
            // The service may still use it.
            if let InformerEvent::Deleted { obj, .. } = event {
                keys.extend(parent_of(&tree(obj)).map(|(namespace, name)| Key::new(namespace, name)));
            }
            keys
        });
    // Bootstrap has just done it.
    controller.queue().add_after(ports(), PORTS_EVERY, None);
    context.start(controller, Repair { api: context.api.clone() })
}

struct Repair {
    api: Arc<Api>,
}

impl Reconcile for Repair {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            if *request.key == ports() {
                repair_ports(&self.api).await?;
                return Ok(Action::Requeue(PORTS_EVERY));
            }
            let client = LoopbackClient::new(&self.api);
            let (namespace, name) = (request.key.namespace(), request.key.name());
            if !namespace.is_empty() {
                sync_service(&client, namespace, name).await?;
            } else if sync_address(&client, name).await? {
                return Ok(Action::Requeue(RETRY));
            }
            Ok(Action::AwaitChange)
        })
    }
}

/// Ensures the IPAddress of every cluster IP of a service.
async fn sync_service(client: &LoopbackClient<'_>, namespace: &str, name: &str) -> Result<(), Status> {
    let Some(service) = client.get(SERVICES, namespace, name) else { return Ok(()) };
    for address in cluster_addresses(&service) {
        let text = address.to_string();
        let Some(existing) = client.get(ADDRESSES, "", &text) else {
            let known = client.list(SERVICE_CIDRS)?.iter().flat_map(ranges_of).any(|r| r.contains(&address));
            if !known {
                tracing::warn!(namespace, name, address = text, "a service's address is in no ServiceCIDR");
                continue;
            }
            tracing::warn!(
                namespace,
                name,
                address = text,
                "a service's address was not allocated; repairing"
            );
            client.create(ADDRESSES, "", address_object(&address, namespace, name)).await?;
            continue;
        };
        let label = |name: &str| existing.str_at(&["metadata", "labels", name]);
        let labelled = label(MANAGED_BY_LABEL) == Some(MANAGED_BY)
            && label(IP_FAMILY_LABEL) == Some(Family::of(&address).name());
        let right = match parent_of(&existing) {
            Some(parent) if parent == (namespace, name) => labelled,
            // Two services with one address: the owner keeps it.
            Some((other, parent)) => {
                let other = client.get(SERVICES, other, parent);
                other.is_some_and(|other| cluster_addresses(&other).contains(&address))
            }
            None => false,
        };
        if !right {
            tracing::warn!(namespace, name, address = text, "an IPAddress has a wrong reference; repairing");
            client.delete(ADDRESSES, &existing).await?;
            client.create(ADDRESSES, "", address_object(&address, namespace, name)).await?;
        }
    }
    Ok(())
}

/// Deletes an IPAddress without a service; true if it is still within its grace period.
async fn sync_address(client: &LoopbackClient<'_>, name: &str) -> Result<bool, Status> {
    let Some(existing) = client.get(ADDRESSES, "", name) else { return Ok(false) };
    if existing.str_at(&["metadata", "labels", MANAGED_BY_LABEL]) != Some(MANAGED_BY) {
        return Ok(false);
    }
    if let Some((namespace, service)) = parent_of(&existing) {
        let service = client.get(SERVICES, namespace, service);
        let held = |service: &Value| cluster_addresses(service).iter().any(|a| a.to_string() == name);
        if service.as_ref().is_some_and(held) {
            return Ok(false);
        }
        let created = existing.str_at(&["metadata", "creationTimestamp"]).and_then(time::parse);
        let now = client.api().registry().env().now_seconds() as i64;
        if created.is_some_and(|(created, _)| now < created + GRACE_SECONDS) {
            return Ok(true);
        }
    }
    tracing::warn!(address = name, "an IPAddress appears to have leaked; cleaning up");
    client.delete(ADDRESSES, &existing).await.map(|()| false)
}

fn cluster_addresses(service: &Value) -> Vec<IpAddr> {
    if service.str_at(&["spec", "type"]) == Some("ExternalName") {
        return Vec::new();
    }
    let list = service.at(&["spec", "clusterIPs"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

/// Rebuilds the bitmap from the services. Whoever takes or frees a port writes the bitmap together with the service, so reading the
/// services after it, with a guard on it, makes this exact.
pub(crate) async fn repair_ports(api: &Api) -> Result<(), Status> {
    let registry = api.registry();
    let (catalog, table) = (registry.catalog(), registry.table());
    let stored = |plural: &str| catalog.storages().iter().find(|s| s.group.is_empty() && s.plural == plural);
    let (Some(ranges), Some(services)) = (stored("rangeallocations"), stored("services")) else {
        return Err(Status::internal("the catalogue has no RangeAllocations"));
    };
    let range = api.cluster().services.node_ports();
    let make = |_: Option<&Obj>| {
        let page = list_readable(table, services.id, &Selection::everything(Scope::All))?;
        let trees: Vec<Value> =
            page.items.iter().filter_map(|obj| json::parse(obj.body(), None).ok()).collect();
        Ok(NodePorts::held_by(range, &trees).encode())
    };
    registry.write_internal(ranges, NODE_PORTS, make).await
}
