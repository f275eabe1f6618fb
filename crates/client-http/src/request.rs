//! The path, the query and the body of each verb.

use catalog::Resource;
use client::{ListOptions, Target, WatchOptions, WriteOptions};
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

/// `/apis/apps/v1`: what a group version serves. There is always a group.
pub(crate) fn group_version(prefix: &str, group: &str, version: &str) -> String {
    let [group, version] = [group, version].map(|part| utf8_percent_encode(part, PLAIN));
    format!("{prefix}/apis/{group}/{version}")
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
            ("labelSelector", &options.label_selector),
            ("fieldSelector", &options.field_selector),
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
            ("labelSelector", &options.label_selector),
            ("fieldSelector", &options.field_selector),
            ("resourceVersion", &options.resource_version),
            ("sendInitialEvents", initial),
            ("resourceVersionMatch", rule),
            ("timeoutSeconds", &timeout),
        ],
    );
}

pub(crate) fn write_query(path: &mut String, options: WriteOptions<'_>) {
    let WriteOptions { field_manager, force, dry_run, field_validation, .. } = options;
    query(
        path,
        &[
            ("fieldManager", field_manager),
            ("force", if force { "true" } else { "" }),
            ("dryRun", if dry_run { "All" } else { "" }),
            // Always: the server would warn, and a program cannot do anything about warnings.
            ("fieldValidation", field_validation.as_str()),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::Catalog;
    use client::resources::{DEPLOYMENTS, NODES, PODS};
    use client::{DeleteOptions, FieldValidation, Preconditions, Propagation};

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
    fn queries_hold_only_the_options_that_are_set() {
        let mut path = "/x".to_owned();
        list_query(&mut path, &ListOptions::default());
        assert_eq!(path, "/x");
        let options =
            ListOptions { label_selector: "a=b,c in (d)".to_owned(), limit: 5, ..ListOptions::default() };
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
    fn writes_send_field_manager_and_options() {
        let asked = |options: WriteOptions<'_>| {
            let mut path = "/x".to_owned();
            write_query(&mut path, options.managed_by("deployment-controller"));
            path
        };
        let own = "/x?fieldManager=deployment-controller&fieldValidation=Ignore";
        assert_eq!(asked(WriteOptions::default()), own);
        let all = WriteOptions {
            field_manager: "a b",
            force: true,
            dry_run: true,
            field_validation: FieldValidation::Strict,
            ..WriteOptions::default()
        };
        assert_eq!(asked(all), "/x?fieldManager=a%20b&force=true&dryRun=All&fieldValidation=Strict");
    }

    #[test]
    fn deletes_send_their_preconditions() {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            propagation_policy: Some(Propagation::Foreground),
            preconditions: Preconditions::uid("u"),
            ..DeleteOptions::default()
        };
        let body = String::from_utf8(codec::json::to_vec(&options.to_value())).unwrap();
        assert_eq!(
            body,
            r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u"},"propagationPolicy":"Foreground"}"#
        );
    }
}
