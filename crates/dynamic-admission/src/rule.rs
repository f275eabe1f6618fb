//! Which requests a rule is about: operations, groups, versions, resources and scope.

use admission::{Attempt, Operation};
use catalog::Resource;
use object::Value;

/// One of `rules`, `resourceRules` or `excludeResourceRules`.
#[derive(Debug)]
pub struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource; the latter is empty for the object itself.
    resources: Vec<(String, String)>,
    scope: Scope,
    /// Of policies: empty for all.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
    /// A value that validation refuses.
    None,
}

impl Rule {
    pub fn from_value(rule: &Value) -> Rule {
        let resources = texts(rule, "resources").into_iter().map(|text| match text.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (text, String::new()),
        });
        Rule {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: resources.collect(),
            scope: match rule.get("scope").and_then(Value::as_str) {
                None | Some("*") => Scope::All,
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                Some(_) => Scope::None,
            },
            names: texts(rule, "resourceNames"),
        }
    }

    /// Whether it is about the request, if that were about `resource`, which is the request's or one that is equivalent.
    pub fn matches(&self, attempt: &Attempt<'_>, resource: &Resource) -> bool {
        self.is_about(attempt.operation, resource, attempt.subresource.unwrap_or_default())
            && (self.names.is_empty() || self.names.iter().any(|name| name == attempt.name))
    }

    /// Whether it is about some objects of `resource`, if the request were about one of those.
    pub fn is_about_some(&self, attempt: &Attempt<'_>, resource: &Resource) -> bool {
        self.is_about(attempt.operation, resource, attempt.subresource.unwrap_or_default())
    }

    /// The same, and about all of them.
    pub fn is_about_all(&self, attempt: &Attempt<'_>, resource: &Resource) -> bool {
        self.names.is_empty() && self.is_about_some(attempt, resource)
    }

    fn is_about(&self, operation: Operation, resource: &Resource, subresource: &str) -> bool {
        let listed = |list: &[String], word: &str| list.iter().any(|item| item == "*" || item == word);
        let named = |(wanted, sub): &(String, String)| {
            (wanted == "*" || *wanted == *resource.plural) && (sub == "*" || sub == subresource)
        };
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Namespaced => resource.namespaced,
            Scope::Cluster => !resource.namespaced,
            Scope::None => false,
        };
        in_scope
            && listed(&self.operations, operation.name())
            && listed(&self.groups, &resource.group)
            && listed(&self.versions, &resource.version)
            && self.resources.iter().any(named)
    }
}

pub(crate) fn texts(of: &Value, name: &str) -> Vec<String> {
    let list = of.get(name).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::from_value(&codec::json::parse(text.as_bytes(), None).unwrap())
    }

    fn is_about(
        rule: &Rule,
        operation: Operation,
        (group, version, plural, sub): (&str, &str, &str, &str),
    ) -> bool {
        let catalog = catalog::Catalog::builtin();
        rule.is_about(operation, catalog.find(group, version, plural).unwrap(), sub)
    }

    #[test]
    fn a_rule_names_operations_groups_versions_and_resources() {
        let pods = ("", "v1", "pods", "");
        let plain =
            rule(r#"{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}"#);
        assert!(is_about(&plain, Operation::Create, pods));
        assert!(!is_about(&plain, Operation::Update, pods));
        assert!(!is_about(&plain, Operation::Create, ("", "v1", "pods", "status")));
        assert!(!is_about(&plain, Operation::Create, ("apps", "v1", "deployments", "")));
        let all = rule(r#"{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}"#);
        assert!(
            is_about(&all, Operation::Connect, ("", "v1", "pods", "exec"))
                && is_about(&all, Operation::Delete, pods)
        );
        let subs = rule(
            r#"{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["pods/*","*/scale"]}"#,
        );
        assert!(is_about(&subs, Operation::Update, ("apps", "v1", "deployments", "scale")));
        assert!(is_about(&subs, Operation::Update, ("", "v1", "pods", "status")));
        assert!(!is_about(&subs, Operation::Update, ("apps", "v1", "deployments", "")));
    }

    #[test]
    fn namespaces_are_cluster_scoped() {
        let of = |scope: &str| {
            rule(&format!(
                r#"{{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"scope":"{scope}"}}"#
            ))
        };
        let (namespaces, pods) = (("", "v1", "namespaces", ""), ("", "v1", "pods", ""));
        for (scope, of_namespaces, of_pods) in
            [("*", true, true), ("Cluster", true, false), ("Namespaced", false, true)]
        {
            assert_eq!(is_about(&of(scope), Operation::Create, namespaces), of_namespaces, "{scope}");
            assert_eq!(is_about(&of(scope), Operation::Create, pods), of_pods, "{scope}");
        }
    }
}
