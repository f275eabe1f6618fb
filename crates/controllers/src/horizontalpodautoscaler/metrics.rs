//! Where metrics come from: the resource, custom and external metrics APIs, which other servers may serve. Refusals are worded as
//! upstream's, since people read them in conditions and events.

use std::sync::Arc;

use client::{Client, Status};
use object::Value;
use object::quantity::Quantity;

use super::pods::millis;
use super::replicas::{PodMetric, PodMetrics};
use super::spec::MetricId;

const CUSTOM: &str = "custom.metrics.k8s.io";
/// Of custom metrics that do not say it.
const DEFAULT_WINDOW_MILLIS: i64 = 60_000;

pub struct MetricsClient {
    pub client: Arc<dyn Client>,
}

impl MetricsClient {
    /// What pods use of a resource; those that do not say it are left out.
    pub async fn resource(
        &self,
        namespace: &str,
        selector: &str,
        resource: &str,
        container: Option<&str>,
    ) -> Result<PodMetrics, String> {
        let path = format!(
            "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={}",
            encode(selector)
        );
        let list = self.get(&path, "pods.metrics.k8s.io").await.map_err(|why| {
            format!("unable to get metrics for resource {resource}: unable to fetch metrics from resource metrics API: {why}")
        })?;
        let items = items(&list);
        if items.is_empty() {
            return Err(format!(
                "unable to get metrics for resource {resource}: no metrics returned from resource metrics API"
            ));
        }
        Ok(items.iter().filter_map(|item| pod_metric(item, resource, container)).collect())
    }

    /// A custom metric of pods.
    pub async fn pods(
        &self,
        namespace: &str,
        selector: &str,
        metric: &MetricId,
    ) -> Result<PodMetrics, String> {
        let failed = |why: String| {
            let name = &metric.name;
            format!("unable to get metric {name}: unable to fetch metrics from custom metrics API: {why}")
        };
        let version = self.custom_version().await.map_err(failed)?;
        let path = format!(
            "/apis/{CUSTOM}/{version}/namespaces/{namespace}/pods/%2A/{}?labelSelector={}{}",
            encode(&metric.name),
            encode(selector),
            metric_selector("&metricLabelSelector=", metric)
        );
        let list = self.get(&path, &format!("pods.{CUSTOM}")).await.map_err(failed)?;
        let items = items(&list);
        if items.is_empty() {
            return Err(format!(
                "unable to get metric {}: no metrics returned from custom metrics API",
                metric.name
            ));
        }
        let read = |item: &Value| {
            let window = item.get("windowSeconds").and_then(Value::as_int);
            let metric = PodMetric {
                at_millis: item.str_at(&["timestamp"]).and_then(millis).unwrap_or(0),
                window_millis: window.map_or(DEFAULT_WINDOW_MILLIS, |seconds| seconds.saturating_mul(1000)),
                value: quantity(item.get("value")?)?,
            };
            Some((item.str_at(&["describedObject", "name"])?.to_owned(), metric))
        };
        Ok(items.iter().filter_map(read).collect())
    }

    /// A custom metric of one object, in thousandths.
    pub async fn object(&self, namespace: &str, described: &Value, metric: &MetricId) -> Result<i64, String> {
        let text = |name: &str| described.str_at(&[name]).unwrap_or("");
        let (kind, name) = (text("kind"), text("name"));
        let failed = |why: String| {
            // In upstream's order.
            format!(
                "unable to get metric {}: {kind} on {namespace} {name}/unable to fetch metrics from custom metrics API: {why}",
                metric.name
            )
        };
        let version = self.custom_version().await.map_err(failed)?;
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let catalog = self.client.catalog();
        let found = catalog.resources().iter().find(|r| r.group == *group && r.kind == *kind);
        let Some(resource) = found else {
            return Err(failed(format!("no matches for kind {kind:?} in group {group:?}")));
        };
        let plural = if group.is_empty() {
            resource.plural.to_string()
        } else {
            format!("{}.{group}", resource.plural)
        };
        // A namespace is in no namespace, and its metrics are not its objects'.
        let place = if plural == "namespaces" {
            format!("namespaces/{namespace}/metrics")
        } else {
            format!("namespaces/{namespace}/{plural}/{}", encode(name))
        };
        let path = format!(
            "/apis/{CUSTOM}/{version}/{place}/{}{}",
            encode(&metric.name),
            metric_selector("?metricLabelSelector=", metric)
        );
        let list = self.get(&path, &format!("{plural}.{CUSTOM}")).await.map_err(failed)?;
        let [item] = items(&list) else {
            return Err(failed(format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                items(&list).len()
            )));
        };
        Ok(item.get("value").and_then(quantity).unwrap_or(0))
    }

    /// All values of an external metric, in thousandths.
    pub async fn external(&self, namespace: &str, metric: &MetricId) -> Result<Vec<i64>, String> {
        let path = format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{}{}",
            encode(&metric.name),
            metric_selector("?labelSelector=", metric)
        );
        let failed = |why: String| {
            let shown = show_selector(metric.selector.as_ref());
            format!("unable to get external metric {namespace}/{}/{shown}: {why}", metric.name)
        };
        let about = format!("{}.external.metrics.k8s.io", metric.name);
        let list = self
            .get(&path, &about)
            .await
            .map_err(|why| failed(format!("unable to fetch metrics from external metrics API: {why}")))?;
        let values: Vec<i64> = items(&list).iter().filter_map(|item| quantity(item.get("value")?)).collect();
        if values.is_empty() {
            return Err(failed("no metrics returned from external metrics API".to_owned()));
        }
        Ok(values)
    }

    async fn custom_version(&self) -> Result<String, String> {
        let none = || format!("no custom metrics API ({CUSTOM}) registered");
        match self.client.get_raw(&format!("/apis/{CUSTOM}")).await {
            Ok(group) => group.str_at(&["preferredVersion", "version"]).map(str::to_owned).ok_or_else(none),
            Err(status) if status.code == 404 => Err(none()),
            Err(status) => Err(status.message),
        }
    }

    async fn get(&self, path: &str, about: &str) -> Result<Value, String> {
        self.client.get_raw(path).await.map_err(|status: Status| match status.code {
            // As client-go says it of a path that nobody serves.
            404 if status.message == "the server could not find the requested resource" => {
                format!("{} (get {about})", status.message)
            }
            _ => status.message,
        })
    }
}

fn items(list: &Value) -> &[Value] {
    list.get("items").and_then(Value::as_list).unwrap_or_default()
}

fn pod_metric(item: &Value, resource: &str, container: Option<&str>) -> Option<(String, PodMetric)> {
    let containers = item.get("containers").and_then(Value::as_list).unwrap_or_default();
    let used = |of: &Value| quantity(of.at(&["usage", resource])?);
    let value = match container {
        Some(name) => used(containers.iter().find(|of| of.str_at(&["name"]) == Some(name))?)?,
        None if containers.is_empty() => return None,
        None => containers.iter().map(used).try_fold(0i64, |sum, used| Some(sum.saturating_add(used?)))?,
    };
    let metric = PodMetric {
        at_millis: item.str_at(&["timestamp"]).and_then(millis).unwrap_or(0),
        window_millis: item.str_at(&["window"]).and_then(duration_millis).unwrap_or(0),
        value,
    };
    Some((item.str_at(&["metadata", "name"])?.to_owned(), metric))
}

fn quantity(value: &Value) -> Option<i64> {
    Some(Quantity::parse(value.as_str()?).ok()?.as_milli())
}

/// A duration as Go writes it: `1m30.5s`.
pub fn duration_millis(text: &str) -> Option<i64> {
    let (mut rest, mut sum) = (text, 0f64);
    if rest == "0" {
        return Some(0);
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let unit_end = rest[number..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| number + at);
        let factor = match &rest[number..unit_end] {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1000.0,
            "ms" => 1.0,
            "us" | "µs" => 0.001,
            "ns" => 0.000_001,
            _ => return None,
        };
        sum += rest[..number].parse::<f64>().ok()? * factor;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then_some(sum as i64)
}

/// A query parameter, if the metric has a selector.
fn metric_selector(parameter: &str, metric: &MetricId) -> String {
    match selector_text(metric.selector.as_ref()) {
        text if text.is_empty() => String::new(),
        text => format!("{parameter}{}", encode(&text)),
    }
}

/// A LabelSelector as it stands in a query.
pub fn selector_text(selector: Option<&Value>) -> String {
    let mut terms = Vec::new();
    let labels = selector.and_then(|s| s.get("matchLabels")).and_then(Value::as_map);
    for (key, value) in labels.into_iter().flat_map(|labels| labels.iter()) {
        terms.push((key.to_string(), format!("{key}={}", value.as_str().unwrap_or(""))));
    }
    let expressions = selector.and_then(|s| s.get("matchExpressions")).and_then(Value::as_list);
    for expression in expressions.unwrap_or_default() {
        let key = expression.str_at(&["key"]).unwrap_or("");
        let values = expression.get("values").and_then(Value::as_list).unwrap_or_default();
        let mut values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression.str_at(&["operator"]).unwrap_or("") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// A LabelSelector as Go prints it.
pub fn show_selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.get("matchLabels").and_then(Value::as_map);
    let labels: String = labels
        .into_iter()
        .flat_map(|labels| labels.iter())
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or("")))
        .collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
    let expressions: String = expressions
        .iter()
        .map(|expression| {
            let values = expression.get("values").and_then(Value::as_list).unwrap_or_default();
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                expression.str_at(&["key"]).unwrap_or(""),
                expression.str_at(&["operator"]).unwrap_or(""),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// Percent-encoding of everything a path segment or a query value cannot hold.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
