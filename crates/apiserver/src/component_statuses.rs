//! `componentstatuses`: the health of the control plane, checked for every request and not stored.
//!
//! ```text
//! controller-manager ┐ led by this process: its own status
//! scheduler          ┘ else: the lease of that name, as long as its holder renews it
//! etcd-0               the store, whichever it is, answers a read
//! ```
//! Upstream probes `/healthz` on fixed local ports; here the components are in this process, or hold a lease.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use object::selector::{FieldSelector, LabelSelector};
use object::{About, Map, Status, Value, quote, time};
use registry::RequestContext;

use crate::api::Api;
use crate::loopback::{GroupResource, get_stored};
use crate::negotiate::{Offer, View, negotiate};
use crate::request_info::{Query, RequestInfo};
use crate::respond::{self, Answer};
use crate::verbs::{include, list_options};
use crate::views;

/// In the order they are listed; upstream's order is random.
const COMPONENTS: [Component; 3] = [
    Component { name: "controller-manager", probe: Probe::Leader("kube-controller-manager") },
    Component { name: "etcd-0", probe: Probe::Store },
    Component { name: "scheduler", probe: Probe::Leader("kube-scheduler") },
];

/// Upstream waits as long for a component.
const PROBE_LIMIT: Duration = Duration::from_secs(20);
const LEASES: GroupResource = ("coordination.k8s.io", "leases");
const LEASE_NAMESPACE: &str = "kube-system";

struct Component {
    name: &'static str,
    probe: Probe,
}

enum Probe {
    Store,
    /// By its leader election lease.
    Leader(&'static str),
}

pub async fn serve(
    api: &Arc<Api>,
    parts: &Parts,
    query: &Query<'_>,
    info: &RequestInfo<'_>,
    request: &RequestContext<'_>,
) -> Result<Answer, Status> {
    let catalog = request.catalog;
    let printer = kinds::kind_of_resource(request.resource).printer(&request.resource.version);
    if !request.name.is_empty() {
        let wanted = negotiate(&parts.headers, query, Offer::Object)?;
        let component =
            COMPONENTS.iter().find(|component| component.name == request.name).ok_or_else(|| {
                // Upstream says the singular here, and nowhere else.
                Status::not_found(About { group: "", resource: "componentstatus" }, request.name)
            })?;
        let mut status = Map::default();
        status.set("kind", request.resource.kind.as_str());
        status.set("apiVersion", request.resource.api_version());
        for (name, value) in component.status(api).await {
            status.set(name, value);
        }
        let status = Value::Map(status);
        return Ok(match wanted.view {
            View::Object => respond::value(catalog, 200, &status, wanted),
            View::Metadata => {
                respond::value(catalog, 200, &views::metadata_of_value(&status, wanted.meta), wanted)
            }
            View::Mismatch => {
                return Err(mismatch("PartialObjectMetadataList", "not a list (*core.ComponentStatus)"));
            }
            View::Table => {
                let table = views::table_of_values(printer, &[status], include(query)?, wanted.meta);
                respond::encoded(catalog, 200, table.into(), wanted)
            }
        });
    }
    let wanted = negotiate(&parts.headers, query, Offer::List)?;
    let options = list_options(query, info)?;
    registry::check_list_options(&options)?;
    let labels = LabelSelector::parse(&options.label_selector).map_err(Status::bad_request)?;
    let fields = FieldSelector::parse(&options.field_selector).map_err(Status::bad_request)?;
    if let Some(unknown) = fields.requirements().iter().find(|r| field(&r.field, "").is_none()) {
        return Err(Status::bad_request(format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(&unknown.field)
        )));
    }
    let mut items = Vec::new();
    for component in &COMPONENTS {
        if labels.matches(&|_| None) && fields.matches(&|name| field(name, component.name)) {
            items.push(Value::Map(component.status(api).await));
        }
    }
    let (kind, api_version) = match wanted.view {
        View::Object => (request.resource.list_kind.as_str(), request.resource.api_version()),
        View::Mismatch => {
            return Err(mismatch("PartialObjectMetadata", "a list (*core.ComponentStatusList)"));
        }
        View::Metadata => {
            items.iter_mut().for_each(|item| *item = views::metadata_of_value(item, wanted.meta));
            ("PartialObjectMetadataList", wanted.meta.api_version().to_owned())
        }
        View::Table => {
            let typed = |item: &Value| {
                let mut typed = Map::default();
                typed.set("kind", request.resource.kind.as_str());
                typed.set("apiVersion", request.resource.api_version());
                for (name, value) in item.as_map().into_iter().flat_map(Map::iter) {
                    typed.set(name.clone(), value.clone());
                }
                Value::Map(typed)
            };
            let items: Vec<Value> = items.iter().map(typed).collect();
            let table = views::table_of_values(printer, &items, include(query)?, wanted.meta);
            return Ok(respond::encoded(catalog, 200, table.into(), wanted));
        }
    };
    let mut list = Map::default();
    list.set("kind", kind);
    list.set("apiVersion", api_version);
    list.set("metadata", Value::map());
    // Upstream never makes the list of metadata it has nothing for.
    let none = wanted.view == View::Metadata && items.is_empty();
    list.set("items", if none { Value::Null } else { items.into() });
    Ok(respond::value(catalog, 200, &Value::Map(list), wanted))
}

pub(crate) fn mismatch(asked: &str, is: &str) -> Status {
    Status::not_acceptable(format!("you requested {asked}, but the requested object is {is}"))
}

/// The selectable fields of a component.
fn field<'a>(field: &str, name: &'a str) -> Option<&'a str> {
    match field {
        "metadata.name" => Some(name),
        "metadata.namespace" => Some(""),
        _ => None,
    }
}

impl Component {
    /// The object without its kind and apiVersion.
    async fn status(&self, api: &Api) -> Map {
        let mut condition = Map::default();
        condition.set("type", "Healthy");
        let (status, message, error) = match &self.probe {
            Probe::Store => match store(api).await {
                Ok(()) => ("True", "ok".to_owned(), String::new()),
                Err(why) => ("False", String::new(), why),
            },
            Probe::Leader(lease) => match leader(api, lease) {
                Ok(()) => ("True", "ok".to_owned(), String::new()),
                Err(why) => ("False", why, String::new()),
            },
        };
        condition.set("status", status);
        for (name, text) in [("message", message), ("error", error)] {
            if !text.is_empty() {
                condition.set(name, text);
            }
        }
        let mut metadata = Map::default();
        metadata.set("name", self.name);
        let mut out = Map::default();
        out.set("metadata", metadata);
        out.set("conditions", vec![Value::Map(condition)]);
        out
    }
}

/// Reads from the store itself: that the table is served proves nothing.
async fn store(api: &Api) -> Result<(), String> {
    let engine = api.registry.engine();
    engine.health()?;
    engine.full().map_or(Ok(()), Err)?;
    match api.registry.env().timeout(PROBE_LIMIT, engine.barrier()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("context deadline exceeded".to_owned()),
    }
}

fn leader(api: &Api, name: &str) -> Result<(), String> {
    if let Some(here) = api.controller_status().and_then(|controllers| controllers.leads(name)) {
        return here;
    }
    let lease = get_stored(api, LEASES, LEASE_NAMESPACE, name);
    let lease = lease.ok_or_else(|| {
        format!("it is not run by this server, and there is no lease {LEASE_NAMESPACE}/{name} of another")
    })?;
    let holder = lease.str_at(&["spec", "holderIdentity"]).unwrap_or("");
    if holder.is_empty() {
        return Err(format!("nobody holds the lease {LEASE_NAMESPACE}/{name}"));
    }
    let renewed = lease.str_at(&["spec", "renewTime"]).unwrap_or("");
    let lasts = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int).unwrap_or(0);
    let now = i64::try_from(api.registry.env().now_seconds()).unwrap_or(i64::MAX);
    match time::parse(renewed) {
        Some((at, _)) if at.saturating_add(lasts) >= now => Ok(()),
        _ => Err(format!(
            "the lease {LEASE_NAMESPACE}/{name} ran out: {} renewed it last at {renewed:?}",
            quote(holder)
        )),
    }
}
