//! One rule of a role: which verbs on which resources or paths.

use object::{Map, Value, quote};

use crate::Attributes;

/// An item of `rules` of a Role or a ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    /// All `rules` of a role; an invalid item (never after validation) grants nothing.
    pub fn list_of(role: &Value) -> Vec<Rule> {
        let items = role.get("rules").and_then(Value::as_list).unwrap_or_default();
        items.iter().map(Rule::from_value).collect()
    }

    pub fn from_value(value: &Value) -> Rule {
        let field = |name| strings(value.get(name));
        Rule {
            verbs: field("verbs"),
            api_groups: field("apiGroups"),
            resources: field("resources"),
            resource_names: field("resourceNames"),
            non_resource_urls: field("nonResourceURLs"),
        }
    }

    /// As a role's item, in the declared order of fields; empty lists are left out except `verbs`.
    pub fn to_value(&self) -> Value {
        let mut out = Map::default();
        out.set("verbs", list(&self.verbs));
        for (name, items) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !items.is_empty() {
                out.set(name, list(items));
            }
        }
        Value::Map(out)
    }

    pub fn allows(&self, wanted: &Attributes<'_>) -> bool {
        if !has_or_star(&self.verbs, wanted.verb) {
            return false;
        }
        match wanted.path {
            Some(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
            None => {
                has_or_star(&self.api_groups, wanted.group)
                    && self.resources.iter().any(|r| resource_matches(r, wanted.resource, wanted.subresource))
                    // resourceNames also restrict verbs without a name: such a rule never allows list or create.
                    && (self.resource_names.is_empty() || has(&self.resource_names, wanted.name))
            }
        }
    }

    /// The form of escalation messages: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}`.
    pub fn compact(&self) -> String {
        let parts: Vec<String> = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(name, items)| format!("{name}:{}", quoted_list(items)))
        .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// A list of strings as Go's `%q` prints it: `["a" "b"]`.
pub fn quoted_list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|i| quote(i)).collect::<Vec<_>>().join(" "))
}

pub fn has(items: &[String], wanted: &str) -> bool {
    items.iter().any(|i| i == wanted)
}

pub fn has_or_star(items: &[String], wanted: &str) -> bool {
    items.iter().any(|i| i == "*" || i == wanted)
}

/// `/healthz/*` matches everything below it, `*` everything.
pub fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

pub fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub fn list(items: &[String]) -> Value {
    Value::List(items.iter().map(|i| Value::from(i.as_str())).collect())
}

/// `pattern` is `*`, `pods`, `pods/log` or `*/log`. Compared without allocating: this runs on every request.
fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    if subresource.is_empty() {
        return pattern == resource;
    }
    let Some(head) = pattern.strip_suffix(subresource).and_then(|p| p.strip_suffix('/')) else {
        return false;
    };
    head == "*" || head == resource
}
