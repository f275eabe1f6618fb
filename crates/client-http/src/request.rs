//! The path, the query and the body of each verb.

use catalog::Resource;
use client::{DeleteOptions, ListOptions, Target, WatchOptions};
use object::{Map, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What needs no escape in a path's segment or in a query's value.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// `/apis/apps/v1/namespaces/default/deployments/web/status`.
pub(crate) fn path(prefix: &str, resource: &Resource, target: &Target<'_>) -> String {
    let mut out = prefix.to_owned();
    let segment = |out: &mut String, text: &str| {
        out.push('/');
        out.extend(utf8_percent_encode(text, PLAIN));
    };
    if resource.group.is_empty() {
        out.push_str("/api");
    } else {
        out.push_str("/apis");
        segment(&mut out, &resource.group);
    }
    segment(&mut out, &resource.version);
    if resource.namespaced && !target.namespace.is_empty() {
        out.push_str("/namespaces");
        segment(&mut out, target.namespace);
    }
    segment(&mut out, &resource.plural);
    for part in [target.name, target.subresource] {
        if !part.is_empty() {
            segment(&mut out, part);
        }
    }
    out
}

/// Appends `?a=b&c=d`; what is empty is left out.
pub(crate) fn query(path: &mut String, parameters: &[(&str, &str)]) {
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(name);
        path.push('=');
        path.extend(utf8_percent_encode(value, PLAIN));
    }
}

pub(crate) fn list_query(path: &mut String, options: &ListOptions) {
    let limit = if options.limit > 0 { options.limit.to_string() } else { String::new() };
    query(
        path,
        &[
            ("labelSelector", &options.labels),
            ("fieldSelector", &options.fields),
            ("limit", &limit),
            ("continue", &options.continue_token),
            ("resourceVersion", &options.resource_version),
        ],
    );
}

pub(crate) fn watch_query(path: &mut String, options: &WatchOptions) {
    let (initial, rule) = if options.initial_events { ("true", "NotOlderThan") } else { ("", "") };
    let timeout =
        if options.timeout_seconds > 0 { options.timeout_seconds.to_string() } else { String::new() };
    query(
        path,
        &[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("labelSelector", &options.labels),
            ("fieldSelector", &options.fields),
            ("resourceVersion", &options.resource_version),
            ("sendInitialEvents", initial),
            ("resourceVersionMatch", rule),
            ("timeoutSeconds", &timeout),
        ],
    );
}

pub(crate) fn delete_body(options: &DeleteOptions) -> Value {
    let mut out = Map::default();
    out.set("kind", "DeleteOptions");
    out.set("apiVersion", "v1");
    if let Some(seconds) = options.grace_seconds {
        out.set("gracePeriodSeconds", seconds);
    }
    let mut preconditions = Map::default();
    if let Some(uid) = &options.uid {
        preconditions.set("uid", uid.as_str());
    }
    if let Some(version) = &options.resource_version {
        preconditions.set("resourceVersion", version.as_str());
    }
    if !preconditions.is_empty() {
        out.set("preconditions", preconditions);
    }
    if let Some(propagation) = options.propagation {
        out.set("propagationPolicy", propagation.as_str());
    }
    Value::Map(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::Catalog;
    use client::Propagation;
    use client::resources::{DEPLOYMENTS, NODES, PODS};

    #[test]
    fn paths_follow_group_scope_and_subresource() {
        let catalog = Catalog::builtin();
        let path = |target: Target<'_>| super::path("/k8s", target.resource.find(&catalog).unwrap(), &target);
        assert_eq!(path(PODS.at("default", "a b/c")), "/k8s/api/v1/namespaces/default/pods/a%20b%2Fc");
        assert_eq!(path(NODES.at("ignored", "n1")), "/k8s/api/v1/nodes/n1");
        assert_eq!(path(DEPLOYMENTS.everywhere()), "/k8s/apis/apps/v1/deployments");
        let status = DEPLOYMENTS.at("d", "web").sub("status");
        assert_eq!(path(status), "/k8s/apis/apps/v1/namespaces/d/deployments/web/status");
    }

    #[test]
    fn queries_hold_what_is_said_and_no_more() {
        let mut path = "/x".to_owned();
        list_query(&mut path, &ListOptions::default());
        assert_eq!(path, "/x");
        let options = ListOptions { labels: "a=b,c in (d)".to_owned(), limit: 5, ..ListOptions::default() };
        list_query(&mut path, &options);
        assert_eq!(path, "/x?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=5");
        let mut path = "/x".to_owned();
        watch_query(&mut path, &WatchOptions { initial_events: true, ..WatchOptions::default() });
        assert_eq!(
            path,
            "/x?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
    }

    #[test]
    fn deletes_say_what_must_still_hold() {
        let options = DeleteOptions {
            grace_seconds: Some(0),
            propagation: Some(Propagation::Foreground),
            uid: Some("u".to_owned()),
            resource_version: None,
        };
        let body = String::from_utf8(codec::json::to_vec(&delete_body(&options))).unwrap();
        assert_eq!(
            body,
            r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u"},"propagationPolicy":"Foreground"}"#
        );
    }
}
