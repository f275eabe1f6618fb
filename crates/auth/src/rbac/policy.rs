//! The policy: all roles and bindings, indexed so that a check only looks at the user's own bindings.
//!
//! ```text
//! user "jane", groups [devs]  in namespace "a"
//!   cluster scope ─ users["jane"], groups["devs"] ─┐
//!   namespace "a" ─ users["jane"], groups["devs"] ─┴─ bindings ─ roleRef ─ rules ─ first that allows
//! ```
//! A service account is indexed by its user name, so it needs no special case.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use object::{Value, quote};

use super::rule::Rule;
use crate::user::service_account_username;
use crate::{Attributes, Decision, UserInfo, groups};

/// A single writer applies every change of the four kinds. Shared behind a lock, which a check
/// holds for about a microsecond.
#[derive(Clone, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, Arc<[Rule]>>,
    /// By namespace, then name.
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    cluster: Scope,
    namespaces: HashMap<String, Scope>,
}

/// Which of the four kinds an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl RoleKind {
    pub fn parse(kind: &str) -> Option<RoleKind> {
        match kind {
            "Role" => Some(RoleKind::Role),
            "ClusterRole" => Some(RoleKind::ClusterRole),
            "RoleBinding" => Some(RoleKind::RoleBinding),
            "ClusterRoleBinding" => Some(RoleKind::ClusterRoleBinding),
            _ => None,
        }
    }
}

/// The bindings of one namespace, or of the cluster.
#[derive(Clone, Default)]
struct Scope {
    bindings: BTreeMap<String, Arc<Binding>>,
    /// By user or service account name, then binding name, so that results are deterministic.
    users: HashMap<String, BTreeMap<String, Arc<Binding>>>,
    groups: HashMap<String, BTreeMap<String, Arc<Binding>>>,
}

struct Binding {
    name: String,
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    role_kind: String,
    role_name: String,
    subjects: Vec<Subject>,
}

struct Subject {
    kind: SubjectKind,
    /// The user name to match, or the group.
    matches: String,
    /// For reasons: `jane`, or `name/namespace` of a service account.
    shown: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SubjectKind {
    User,
    Group,
    ServiceAccount,
}

impl Policy {
    pub fn new() -> Policy {
        Policy::default()
    }

    /// Adds or replaces an object. Other kinds are ignored.
    pub fn upsert(&mut self, kind: &str, namespace: &str, name: &str, object: &Value) {
        match RoleKind::parse(kind) {
            Some(RoleKind::ClusterRole) => {
                self.cluster_roles.insert(name.to_owned(), Rule::list_of(object).into());
            }
            Some(RoleKind::Role) => {
                let roles = self.roles.entry(namespace.to_owned()).or_default();
                roles.insert(name.to_owned(), Rule::list_of(object).into());
            }
            Some(RoleKind::ClusterRoleBinding) => self.cluster.upsert(Binding::parse("", name, object)),
            Some(RoleKind::RoleBinding) => {
                let scope = self.namespaces.entry(namespace.to_owned()).or_default();
                scope.upsert(Binding::parse(namespace, name, object));
            }
            None => {}
        }
    }

    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        match RoleKind::parse(kind) {
            Some(RoleKind::ClusterRole) => {
                self.cluster_roles.remove(name);
            }
            Some(RoleKind::Role) => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        self.roles.remove(namespace);
                    }
                }
            }
            Some(RoleKind::ClusterRoleBinding) => self.cluster.remove(name),
            Some(RoleKind::RoleBinding) => {
                if let Some(scope) = self.namespaces.get_mut(namespace) {
                    scope.remove(name);
                    if scope.bindings.is_empty() {
                        self.namespaces.remove(namespace);
                    }
                }
            }
            None => {}
        }
    }

    pub fn authorize(&self, user: &UserInfo, wanted: &Attributes<'_>) -> Decision {
        // Before RBAC, so that an administrator can repair broken roles.
        if user.is_in(groups::MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut missing: Vec<String> = Vec::new();
        for scope in self.scopes(wanted.namespace) {
            for binding in scope.bindings_of(user) {
                match self.rules_of(binding) {
                    Ok(rules) if rules.iter().any(|r| r.allows(wanted)) => {
                        return Decision { allowed: true, reason: binding.reason(user) };
                    }
                    Ok(_) => {}
                    Err(error) if missing.contains(&error) => {}
                    Err(error) => missing.push(error),
                }
            }
        }
        let reason = match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        };
        Decision { allowed: false, reason }
    }

    /// Every rule that applies to the user in the namespace (cluster-wide ones included), and what could not
    /// be resolved. With an empty namespace only the cluster-wide ones.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for scope in self.scopes(namespace) {
            // One binding may match a user by several subjects, but grants its rules once.
            let mine: BTreeMap<&str, &Binding> =
                scope.bindings_of(user).map(|b| (b.name.as_str(), b)).collect();
            for binding in mine.into_values() {
                match self.rules_of(binding) {
                    Ok(found) => rules.extend_from_slice(found),
                    Err(error) if missing.contains(&error) => {}
                    Err(error) => missing.push(error),
                }
            }
        }
        (rules, missing)
    }

    /// The rules of a `roleRef`; `namespace` is the binding's, empty for a ClusterRoleBinding.
    pub fn role_rules(&self, role_kind: &str, role_name: &str, namespace: &str) -> Result<&[Rule], String> {
        let (resource, found) = match role_kind {
            "ClusterRole" => ("clusterrole", self.cluster_roles.get(role_name)),
            "Role" => ("role", self.roles.get(namespace).and_then(|roles| roles.get(role_name))),
            other => return Err(format!("unsupported role reference kind: {}", quote(other))),
        };
        found
            .map(|rules| &**rules)
            .ok_or_else(|| format!("{resource}.{} {} not found", super::GROUP, quote(role_name)))
    }

    fn rules_of(&self, binding: &Binding) -> Result<&[Rule], String> {
        self.role_rules(&binding.role_kind, &binding.role_name, &binding.namespace)
    }

    fn scopes(&self, namespace: &str) -> impl Iterator<Item = &Scope> {
        let local = if namespace.is_empty() { None } else { self.namespaces.get(namespace) };
        std::iter::once(&self.cluster).chain(local)
    }
}

impl Scope {
    fn upsert(&mut self, binding: Binding) {
        self.remove(&binding.name);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            let index = match subject.kind {
                SubjectKind::Group => &mut self.groups,
                SubjectKind::User | SubjectKind::ServiceAccount => &mut self.users,
            };
            let by_name = index.entry(subject.matches.clone()).or_default();
            by_name.insert(binding.name.clone(), Arc::clone(&binding));
        }
        self.bindings.insert(binding.name.clone(), binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(binding) = self.bindings.remove(name) else { return };
        for subject in &binding.subjects {
            let index = match subject.kind {
                SubjectKind::Group => &mut self.groups,
                SubjectKind::User | SubjectKind::ServiceAccount => &mut self.users,
            };
            if let Some(by_name) = index.get_mut(&subject.matches) {
                by_name.remove(name);
                if by_name.is_empty() {
                    index.remove(&subject.matches);
                }
            }
        }
    }

    fn bindings_of<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a Binding> {
        let own = self.users.get(&user.name);
        let by_group = user.groups.iter().filter_map(|g| self.groups.get(g));
        own.into_iter().chain(by_group).flat_map(|by_name| by_name.values().map(|b| &**b))
    }
}

impl Binding {
    fn parse(namespace: &str, name: &str, object: &Value) -> Binding {
        let text = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
        let subjects = object.get("subjects").and_then(Value::as_list).unwrap_or_default();
        Binding {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            role_kind: text(&["roleRef", "kind"]),
            role_name: text(&["roleRef", "name"]),
            subjects: subjects.iter().filter_map(|s| Subject::parse(s, namespace)).collect(),
        }
    }

    fn reason(&self, user: &UserInfo) -> String {
        let kind = if self.namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        let name = if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.name, self.namespace)
        };
        // The first matching subject, in the order of the binding.
        let subject =
            self.subjects.iter().find(|s| s.applies_to(user)).map(Subject::describe).unwrap_or_default();
        let (name, role) = (quote(&name), quote(&self.role_name));
        format!("RBAC: allowed by {kind} {name} of {} {role} to {subject}", self.role_kind)
    }
}

impl Subject {
    /// `None` for a subject that can never match.
    fn parse(value: &Value, binding_namespace: &str) -> Option<Subject> {
        let name = value.str_at(&["name"])?;
        let plain = |kind| Some(Subject { kind, matches: name.to_owned(), shown: name.to_owned() });
        match value.str_at(&["kind"])? {
            "User" => plain(SubjectKind::User),
            "Group" => plain(SubjectKind::Group),
            "ServiceAccount" => {
                let own = value.str_at(&["namespace"]).unwrap_or_default();
                let namespace = if own.is_empty() { binding_namespace } else { own };
                (!namespace.is_empty()).then(|| Subject {
                    kind: SubjectKind::ServiceAccount,
                    matches: service_account_username(namespace, name),
                    shown: format!("{name}/{namespace}"),
                })
            }
            _ => None,
        }
    }

    fn applies_to(&self, user: &UserInfo) -> bool {
        match self.kind {
            SubjectKind::Group => user.is_in(&self.matches),
            SubjectKind::User | SubjectKind::ServiceAccount => user.name == self.matches,
        }
    }

    fn describe(&self) -> String {
        let kind = match self.kind {
            SubjectKind::User => "User",
            SubjectKind::Group => "Group",
            SubjectKind::ServiceAccount => "ServiceAccount",
        };
        format!("{kind} {}", quote(&self.shown))
    }
}
