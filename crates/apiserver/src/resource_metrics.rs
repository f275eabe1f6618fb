//! metrics.k8s.io: what nodes and pods use now, as metrics-server serves it, made for every request from what nodes report.
//!
//! ```text
//! pods of the table ─ their nodes ┬ Scraped (what a kubelet told, every 15 s) ──────────┬─ PodMetrics
//!                                 └ PodUsage (what a simulated node reports of a pod) ──┴─ NodeMetrics: the kubelet's own,
//!                                                                                          or the sum of the pods
//! ```

mod kubelet;
mod points;
mod scrape;
mod scraped;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;

use admission::list_newest;
use catalog::Storage;
use codec::json;
use http::Method;
use http::request::Parts;
use kinds::resource_metrics::{printer, sum};
use object::selector::{FieldSelector, LabelSelector};
use object::{About, Map, Obj, Status, Value, time};
use registry::RequestContext;
use table::{Scope, Selection};

use crate::api::Api;
use crate::component_statuses::mismatch;
use crate::negotiate::{Offer, View, negotiate};
use crate::request_info::{Query, RequestInfo, RequestTarget};
use crate::respond::{self, Answer};
use crate::verbs::{include, list_options};
use crate::views;

pub use kubelet::KubeletScraper;
pub use scrape::NodeScraper;
pub(crate) use scraped::Scraped;
pub use targets::NodeEndpoint;

/// What a node reports of a pod on it at a time (Unix seconds): `containers` of its PodMetrics. `None`: nothing.
pub type PodUsage = fn(pod: &Value, node: &Value, at_seconds: i64) -> Option<Vec<Value>>;

pub(crate) const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "metrics.k8s.io/v1beta1";
/// Nodes are asked this often, and report of the time in between.
const RESOLUTION_SECONDS: i64 = 15;
const NANOS: i64 = 1_000_000_000;

/// Which of them, in the words of a request.
struct Wanted<'a> {
    pods: bool,
    namespace: &'a str,
    /// Empty: all that are selected.
    name: &'a str,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl<'a> Wanted<'a> {
    fn of(
        kind: &str,
        namespace: &'a str,
        name: &'a str,
        labels: &str,
        fields: &str,
    ) -> Result<Wanted<'a>, Status> {
        Ok(Wanted {
            pods: kind == "pods",
            namespace,
            name,
            labels: LabelSelector::parse(labels).map_err(Status::bad_request)?,
            fields: FieldSelector::parse(fields).map_err(Status::bad_request)?,
        })
    }

    /// Fields other than these are of nobody, as metrics-server has it.
    fn selects(&self, obj: &Obj) -> bool {
        let field = |name: &str| match name {
            "metadata.name" => Some(obj.name()),
            "metadata.namespace" => Some(obj.namespace()),
            _ => Some(""),
        };
        self.labels.matches(&|name| obj.label(name)) && self.fields.matches(&field)
    }
}

/// A request that came through the chain.
pub fn serve(
    api: &Arc<Api>,
    parts: &Parts,
    query: &Query<'_>,
    info: &RequestInfo<'_>,
    request: &RequestContext<'_>,
) -> Result<Answer, Status> {
    let catalog = request.catalog;
    let printer = printer(request.resource.plural == "pods");
    let is_list = request.name.is_empty();
    let negotiated = negotiate(&parts.headers, query, if is_list { Offer::List } else { Offer::Object })?;
    let options = list_options(query, info)?;
    let (labels, fields) = (&options.label_selector, &options.field_selector);
    let wanted = Wanted::of(&request.resource.plural, request.namespace, request.name, labels, fields)?;
    let mut items = measured(api, &wanted)?;
    if !is_list {
        items = vec![one(&wanted, items)?];
    }
    match negotiated.view {
        View::Object if is_list => {
            let answer = list(&request.resource.list_kind, VERSION, items);
            Ok(respond::value(catalog, 200, &answer, negotiated))
        }
        View::Object => Ok(respond::value(catalog, 200, &items.remove(0), negotiated)),
        View::Table => {
            items.iter_mut().for_each(|item| *item = typed(item, &request.resource.kind));
            let table = views::table_of_values(printer, &items, include(query)?, negotiated.meta);
            Ok(respond::encoded(catalog, 200, table.into(), negotiated))
        }
        View::Metadata => {
            items.iter_mut().for_each(|item| *item = views::metadata_of_value(item, negotiated.meta));
            let answer = match is_list {
                true => list("PartialObjectMetadataList", negotiated.meta.api_version(), items),
                false => items.remove(0),
            };
            Ok(respond::value(catalog, 200, &answer, negotiated))
        }
        View::Mismatch if is_list => Err(mismatch(
            "PartialObjectMetadata",
            &format!("a list (*metrics.{})", request.resource.list_kind),
        )),
        View::Mismatch => Err(mismatch(
            "PartialObjectMetadataList",
            &format!("not a list (*metrics.{})", request.resource.kind),
        )),
    }
}

/// A GET of this process's own clients, who are known already.
pub(crate) fn get_raw(api: &Arc<Api>, user: &auth::UserInfo, path: &str) -> Result<Value, Status> {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let query = Query::parse(query);
    let RequestTarget::Resource(info) = RequestTarget::parse(&Method::GET, path, &query) else {
        return Err(Status::no_such_resource());
    };
    let known = info.group == GROUP && info.version == "v1beta1" && info.subresource.is_empty();
    if api.cluster().usage.is_none() || !known || !matches!(&*info.resource, "pods" | "nodes") {
        return Err(Status::no_such_resource());
    }
    let attributes = auth::Attributes {
        verb: info.verb,
        group: GROUP,
        resource: &info.resource,
        name: &info.name,
        namespace: &info.namespace,
        ..auth::Attributes::default()
    };
    api.authorizer.check(user, &attributes)?;
    let (labels, fields) = (query.get("labelSelector"), query.get("fieldSelector"));
    let wanted = Wanted::of(&info.resource, &info.namespace, &info.name, labels, fields)?;
    let items = measured(api, &wanted)?;
    if !info.name.is_empty() {
        return one(&wanted, items);
    }
    Ok(list(if wanted.pods { "PodMetricsList" } else { "NodeMetricsList" }, VERSION, items))
}

fn typed(item: &Value, kind: &str) -> Value {
    if item.get("kind").is_some() {
        return item.clone();
    }
    let mut typed = Map::default();
    typed.set("kind", kind);
    typed.set("apiVersion", VERSION);
    for (name, value) in item.as_map().into_iter().flat_map(Map::iter) {
        typed.set(name.clone(), value.clone());
    }
    Value::Map(typed)
}

fn list(kind: &str, api_version: &str, items: Vec<Value>) -> Value {
    let mut list = Map::default();
    list.set("kind", kind);
    list.set("apiVersion", api_version);
    list.set("metadata", Value::map());
    list.set("items", items);
    Value::Map(list)
}

/// The one that was asked for; metrics-server names pods with their namespace.
fn one(wanted: &Wanted<'_>, items: Vec<Value>) -> Result<Value, Status> {
    let (resource, kind, name) = match wanted.pods {
        true => ("podmetrics", "PodMetrics", format!("{}/{}", wanted.namespace, wanted.name)),
        false => ("nodemetrics", "NodeMetrics", wanted.name.to_owned()),
    };
    let found = items.into_iter().next();
    let found = found.ok_or_else(|| Status::not_found(About { group: GROUP, resource }, &name))?;
    Ok(typed(&found, kind))
}

/// Metrics of all that are wanted and report, by namespace and name.
fn measured(api: &Arc<Api>, wanted: &Wanted<'_>) -> Result<Vec<Value>, Status> {
    let Some(usage) = api.cluster().usage else { return Ok(Vec::new()) };
    let now = i64::try_from(api.registry().env().now_seconds()).unwrap_or(i64::MAX);
    let state = State { api, usage, now, at: now - now.rem_euclid(RESOLUTION_SECONDS) };
    if wanted.pods { state.pods(wanted) } else { state.nodes(wanted) }
}

struct State<'a> {
    api: &'a Arc<Api>,
    usage: PodUsage,
    now: i64,
    /// When nodes were asked last.
    at: i64,
}

impl State<'_> {
    fn storage(&self, plural: &str) -> Result<Arc<Storage>, Status> {
        let found = self.api.registry().catalog().find_storage("", plural).cloned();
        found.ok_or_else(|| Status::internal(format!("the catalogue has no {plural}")))
    }

    fn objects(&self, plural: &str, selection: &Selection) -> Result<Vec<Arc<Obj>>, Status> {
        Ok(list_newest(self.api.registry().table(), self.storage(plural)?.id, selection)?.items)
    }

    /// One by its name, or all within a namespace.
    fn selection(wanted: &Wanted<'_>) -> Selection {
        let scope = match wanted.namespace {
            "" => Scope::All,
            namespace => Scope::Namespace(namespace.to_owned()),
        };
        match wanted.name {
            "" => Selection::everything(scope),
            name => Selection::named(scope, name),
        }
    }

    fn pods(&self, wanted: &Wanted<'_>) -> Result<Vec<Value>, Status> {
        let mut pods = self.objects("pods", &State::selection(wanted))?;
        pods.retain(|pod| wanted.selects(pod));
        let mut nodes = BTreeMap::new();
        let measure = |pod: &Arc<Obj>| {
            if let Some(metrics) = self.scraped_pod(pod) {
                return metrics;
            }
            let containers = self.containers(pod, &mut nodes)?;
            let mut metrics = self.metrics(pod);
            metrics.set("containers", containers);
            Some(Value::Map(metrics))
        };
        Ok(pods.iter().filter_map(measure).collect())
    }

    fn nodes(&self, wanted: &Wanted<'_>) -> Result<Vec<Value>, Status> {
        let mut nodes = self.objects("nodes", &State::selection(wanted))?;
        nodes.retain(|node| wanted.selects(node));
        let mut read = BTreeMap::new();
        let mut all = Vec::new();
        for node in &nodes {
            if self.api.scraped.has(node.name()) {
                if let Some(used) = self.api.scraped.node(node.name()) {
                    let mut metrics = self.metrics_of(node, used.at, used.window_nanos);
                    metrics.set("usage", used.usage());
                    all.push(Value::Map(metrics));
                }
                continue;
            }
            let pods = self.objects("pods", &self.pods_on(node.name())?)?;
            let used: Vec<Value> =
                pods.iter().filter_map(|pod| self.containers(pod, &mut read)).flatten().collect();
            // One without pods uses nothing; one that does not report is left out.
            if used.is_empty() && !self.reports(node) {
                continue;
            }
            let mut usage = Map::default();
            for name in ["cpu", "memory"] {
                usage.set(name, sum(used.iter().filter_map(|of| of.at(&["usage", name]))));
            }
            let mut metrics = self.metrics(node);
            metrics.set("usage", usage);
            all.push(Value::Map(metrics));
        }
        Ok(all)
    }

    /// By an index: few of all pods are.
    fn pods_on(&self, node: &str) -> Result<Selection, Status> {
        let catalog = self.api.registry().catalog();
        let unknown = || Status::internal("the catalogue has no pods");
        let pods = catalog.find("", "v1", "pods").ok_or_else(unknown)?;
        let bound = FieldSelector::of("spec.nodeName", node);
        Selection::new(pods, Scope::All, None, Some(&bound)).map_err(Status::internal)
    }

    /// A node that would report of a pod that runs since ever.
    fn reports(&self, node: &Obj) -> bool {
        let Ok(node) = json::parse(node.body(), None) else { return false };
        let pod = br#"{"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running","containerStatuses":[{"name":"c","state":{"running":{"startedAt":"1970-01-01T00:00:00Z"}}}]}}"#;
        json::parse(pod, None).is_ok_and(|pod| (self.usage)(&pod, &node, self.at).is_some())
    }

    fn containers(&self, pod: &Obj, nodes: &mut BTreeMap<String, Option<Value>>) -> Option<Vec<Value>> {
        let pod = json::parse(pod.body(), None).ok()?;
        let name = pod.str_at(&["spec", "nodeName"])?;
        let node = nodes.entry(name.to_owned()).or_insert_with(|| {
            let storage = self.storage("nodes").ok()?;
            let node = self.api.registry().table().get(storage.id, &storage.key("", name))?;
            json::parse(node.body(), None).ok()
        });
        (self.usage)(&pod, node.as_ref()?, self.at)
    }

    /// Of a pod whose node has a kubelet; none within: it told nothing of it, or not enough.
    fn scraped_pod(&self, pod: &Obj) -> Option<Option<Value>> {
        let storage = self.storage("pods").ok()?;
        let field = |name: &str| storage.selectable_at(name).map_or("", |at| pod.field(at));
        let node = Some(field("spec.nodeName")).filter(|node| self.api.scraped.has(node))?;
        if field("status.phase") != "Running" {
            return Some(None);
        }
        let used = self.api.scraped.pod(node, pod.namespace(), pod.name());
        Some(used.map(|used| {
            let mut metrics = self.metrics_of(pod, used.at, used.window_nanos);
            metrics.set("containers", used.containers);
            Value::Map(metrics)
        }))
    }

    fn metrics(&self, of: &Obj) -> Map {
        self.metrics_of(of, self.at * NANOS, RESOLUTION_SECONDS * NANOS)
    }

    /// What all metrics have; their own creation is now, as metrics-server has it.
    fn metrics_of(&self, of: &Obj, at_nanos: i64, window_nanos: i64) -> Map {
        let mut metadata = Map::default();
        metadata.set("name", of.name());
        if !of.namespace().is_empty() {
            metadata.set("namespace", of.namespace());
        }
        metadata.set("creationTimestamp", time::format_seconds(self.now));
        let labels =
            json::parse(of.metadata(), None).ok().and_then(|metadata| metadata.get("labels").cloned());
        if let Some(labels) = labels {
            metadata.set("labels", labels);
        }
        let mut metrics = Map::default();
        metrics.set("metadata", metadata);
        metrics.set("timestamp", time::format_seconds(at_nanos.div_euclid(NANOS)));
        metrics.set("window", time::format_duration(window_nanos));
        metrics
    }
}
