//! What the authorizer and the FlowSchemas see of a request.

use auth::Attributes;

use crate::chain::RequestHead;

pub(crate) fn of(head: RequestHead<'_>) -> Attributes<'_> {
    let method = head.parts.method.as_str();
    let Some(info) = head.info() else {
        let verb = match method {
            "GET" => "get",
            "HEAD" => "head",
            "POST" => "post",
            "PUT" => "put",
            "PATCH" => "patch",
            "DELETE" => "delete",
            "OPTIONS" => "options",
            other => other,
        };
        return Attributes::path(verb, head.parts.uri.path());
    };
    let selects = matches!(info.verb, "list" | "watch" | "deletecollection");
    let field_selector = if selects { head.query.get("fieldSelector") } else { "" };
    Attributes {
        verb: if info.verb.is_empty() { method } else { info.verb },
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        // A list or watch of one name is authorized like that name.
        name: if info.name.is_empty() { selected_name(field_selector) } else { &info.name },
        namespace: &info.namespace,
        field_selector: if info.legacy_watch { "" } else { field_selector },
        path: None,
    }
}

/// The one name a field selector allows; empty if it allows others. An escaped value is not the name it spells.
pub(crate) fn selected_name(field_selector: &str) -> &str {
    if field_selector.contains('\\') {
        return "";
    }
    let mut terms = field_selector.split(',');
    let exact = terms.find_map(|term| {
        term.strip_prefix("metadata.name==").or_else(|| term.strip_prefix("metadata.name="))
    });
    exact.filter(|name| !name.contains('=')).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::request_info::{Query, RequestTarget};

    /// Verb, namespace, name and field selector, as the authorizer sees them.
    fn seen(method: &str, uri: &str) -> [String; 4] {
        let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let query = Query::parse(parts.uri.query());
        let target = RequestTarget::parse(&parts.method, parts.uri.path(), &query);
        let catalog = Arc::new(catalog::Catalog::builtin());
        let seen = of(RequestHead { parts: &parts, query: &query, target: &target, catalog: &catalog });
        [seen.verb, seen.namespace, seen.name, seen.field_selector].map(str::to_owned)
    }

    #[test]
    fn a_list_or_watch_of_one_name_is_authorized_like_that_name() {
        let pods = "/api/v1/namespaces/a/pods";
        let cases = [
            ("fieldSelector=metadata.name=b", "b"),
            ("fieldSelector=metadata.name==b", "b"),
            ("fieldSelector=spec.nodeName=n,metadata.name=b", "b"),
            ("fieldSelector=metadata.name!=b", ""),
            ("fieldSelector=metadata.name=b=c", ""),
            ("fieldSelector=metadata.name=b%5C,c", ""),
            ("fieldSelector=metadata.namespace=b", ""),
            ("labelSelector=metadata.name=b", ""),
        ];
        for (query, name) in cases {
            assert_eq!(seen("GET", &format!("{pods}?{query}"))[..3], ["list", "a", name], "{query}");
            assert_eq!(seen("GET", &format!("{pods}?watch=1&{query}"))[..3], ["watch", "a", name], "{query}");
            assert_eq!(seen("DELETE", &format!("{pods}?{query}"))[..3], ["deletecollection", "a", name]);
        }
    }

    #[test]
    fn field_selectors_count_only_for_verbs_that_select() {
        let query = "fieldSelector=spec.nodeName=n";
        assert_eq!(seen("GET", &format!("/api/v1/pods?{query}"))[3], "spec.nodeName=n");
        assert_eq!(seen("GET", &format!("/api/v1/watch/pods?{query}"))[3], "", "the legacy path has none");
        assert_eq!(seen("GET", &format!("/api/v1/namespaces/a/pods/b?{query}"))[2..], ["b", ""]);
        assert_eq!(seen("POST", &format!("/api/v1/namespaces/a/pods?{query}"))[2..], ["", ""]);
    }

    #[test]
    fn other_paths_are_authorized_by_method_and_path() {
        let (parts, ()) = http::Request::head("/healthz").body(()).unwrap().into_parts();
        let (query, target) = (Query::default(), RequestTarget::NonResource);
        let catalog = Arc::new(catalog::Catalog::builtin());
        let seen = of(RequestHead { parts: &parts, query: &query, target: &target, catalog: &catalog });
        assert_eq!((seen.verb, seen.path), ("head", Some("/healthz")));
    }
}
