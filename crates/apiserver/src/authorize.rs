//! Authorization: the node authorizer, then RBAC (or what else was chosen), over the table. A changed role counts for the next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use admission::{Attempt, Effects, Plugin, Refusal, list_newest};
use auth::rbac::Rule;
use auth::reviews::ResolvedRules;
use auth::{Attributes, Decision, Policy, UserInfo, groups, node, rbac};
use catalog::Storage;
use codec::json;
use object::{Status, Value};
use parking_lot::{Mutex, RwLock};
use table::{Cursor, EventKind, Scope, Selection, Table, WatchEvent};

use crate::config::{Authorization, AuthorizationMode};
use crate::node_relations::NodeRelations;

/// The compiled rules, updated from the table's log before each decision.
pub struct Authorizer {
    table: Arc<Table>,
    modes: Authorization,
    /// Guards the compiled rules; written only when a role or binding changed.
    policy: RwLock<Policy>,
    /// Guards the cursors of the four RBAC resources.
    cursors: Mutex<Vec<Option<Cursor>>>,
    storages: Vec<Arc<Storage>>,
    nodes: NodeRelations,
    /// The table revision the policy reflects.
    seen: AtomicU64,
}

const RBAC: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];

impl Authorizer {
    pub fn new(table: Arc<Table>, modes: Authorization) -> Authorizer {
        let catalog = table.catalog();
        let stored = |plural: &&str| catalog.find_storage("rbac.authorization.k8s.io", plural).cloned();
        let storages: Vec<Arc<Storage>> = RBAC.iter().filter_map(stored).collect();
        let cursors = storages.iter().map(|_| None).collect();
        Authorizer {
            modes,
            policy: RwLock::new(Policy::new()),
            cursors: Mutex::new(cursors),
            storages,
            nodes: NodeRelations::new(table.clone()),
            seen: AtomicU64::new(u64::MAX),
            table,
        }
    }

    pub fn authorize(&self, user: &UserInfo, wanted: &Attributes<'_>) -> Decision {
        // Before RBAC, so that an administrator can repair broken roles.
        if user.is_in(groups::MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut reason = String::new();
        for mode in &self.modes.0 {
            let decision = self.ask(*mode, user, wanted);
            if decision.allowed {
                return decision;
            }
            if !reason.is_empty() && !decision.reason.is_empty() {
                reason.push('\n');
            }
            reason.push_str(&decision.reason);
        }
        Decision { allowed: false, reason }
    }

    fn ask(&self, mode: AuthorizationMode, user: &UserInfo, wanted: &Attributes<'_>) -> Decision {
        match mode {
            AuthorizationMode::Node => node::authorize(user, wanted, &self.nodes).unwrap_or_default(),
            AuthorizationMode::Rbac => self.with_policy(|policy| policy.authorize(user, wanted)),
            AuthorizationMode::AlwaysAllow => Decision { allowed: true, reason: String::new() },
            AuthorizationMode::AlwaysDeny => {
                Decision { allowed: false, reason: "Everything is forbidden.".to_owned() }
            }
        }
    }

    /// What a user may do in a namespace, as far as the authorizers in use can list it.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> ResolvedRules {
        let mut all = ResolvedRules::default();
        for mode in &self.modes.0 {
            match mode {
                // A node's permissions depend on its pods: no list of rules can express them.
                AuthorizationMode::Node if node::name_of(user).is_some() => {
                    all.incomplete = true;
                    all.unresolved.push("node authorizer does not support user rule resolution".to_owned());
                }
                AuthorizationMode::Rbac => {
                    let (rules, unresolved) = self.with_policy(|policy| policy.rules_for(user, namespace));
                    all.rules.extend(rules);
                    all.unresolved.extend(unresolved);
                }
                AuthorizationMode::AlwaysAllow => {
                    let any = || vec!["*".to_owned()];
                    let (verbs, api_groups, resources, non_resource_urls) = (any(), any(), any(), any());
                    let everything =
                        Rule { verbs, api_groups, resources, non_resource_urls, ..Rule::default() };
                    all.rules.push(everything);
                }
                AuthorizationMode::Node | AuthorizationMode::AlwaysDeny => {}
            }
        }
        all
    }

    /// `Err` is the 403 to answer.
    pub fn check(&self, user: &UserInfo, wanted: &Attributes<'_>) -> Result<(), Status> {
        let decision = self.authorize(user, wanted);
        if decision.allowed { Ok(()) } else { Err(auth::forbidden(user, wanted, &decision.reason)) }
    }

    /// Queries the current rules.
    pub fn with_policy<T>(&self, ask: impl FnOnce(&Policy) -> T) -> T {
        self.refresh();
        ask(&self.policy.read())
    }

    fn refresh(&self) {
        let now = self.table.revision().0;
        if self.seen.load(Ordering::Acquire) == now {
            return;
        }
        let mut cursors = self.cursors.lock();
        let mut events = Vec::new();
        for (storage, cursor) in self.storages.iter().zip(cursors.iter_mut()) {
            match cursor.as_mut().map(|c| c.pull_all(&mut events)) {
                Some(Ok(())) => {}
                // Not loaded yet, too far behind, or the table was reloaded: start over.
                None | Some(Err(_)) => {
                    if self.load_all(&mut cursors).is_err() {
                        // The rules stay as they were, and the next request tries again.
                        return;
                    }
                    break;
                }
            }
            if !events.is_empty() {
                let kind = &storage.kind;
                let mut policy = self.policy.write();
                events.drain(..).for_each(|event| apply(&mut policy, kind, &event));
            }
        }
        self.seen.store(now, Ordering::Release);
    }

    /// Lists all roles and bindings, and starts watching from there.
    fn load_all(&self, cursors: &mut [Option<Cursor>]) -> Result<(), Status> {
        let mut fresh = Policy::new();
        for (storage, cursor) in self.storages.iter().zip(cursors.iter_mut()) {
            let everything = Selection::everything(Scope::All);
            // None until it is listed: a partial policy must not be taken for the whole.
            *cursor = None;
            let page = list_newest(&self.table, storage.id, &everything)?;
            let kind = &storage.kind;
            for obj in page.items {
                apply(&mut fresh, kind, &WatchEvent::added(obj));
            }
            *cursor = self.table.watch_from(storage.id, everything, page.revision).ok();
        }
        *self.policy.write() = fresh;
        Ok(())
    }
}

fn apply(policy: &mut Policy, kind: &str, event: &WatchEvent) {
    let obj = &event.obj;
    if event.kind == EventKind::Deleted {
        policy.remove(kind, obj.namespace(), obj.name());
    } else if let Ok(value) = json::parse(obj.body(), None) {
        policy.upsert(kind, obj.namespace(), obj.name(), &value);
    }
}

/// Users cannot grant permissions they do not have, unless they may "escalate" or "bind". Checked where upstream's storage does:
/// after the mutating plugins, and before strategy and validation.
pub struct NoEscalation {
    pub authorizer: Arc<Authorizer>,
}

impl Plugin for NoEscalation {
    fn name(&self) -> &'static str {
        "NoEscalation"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), Refusal> {
        // Who may everything may escalate.
        let may_escalate = self.authorizer.modes.has(AuthorizationMode::AlwaysAllow);
        if attempt.storage.group != "rbac.authorization.k8s.io" || may_escalate {
            return Ok(());
        }
        // A POST is authorized without a name: its path has none.
        let (resource, name, namespace) =
            (attempt.storage.plural.as_str(), attempt.request.name, attempt.namespace);
        let checked = self.authorizer.with_policy(|policy| match resource {
            "roles" | "clusterroles" => {
                rbac::check_role_write(policy, attempt.user, resource, namespace, name, new, attempt.old)
            }
            _ => rbac::check_binding_write(policy, attempt.user, resource, namespace, new, attempt.old),
        });
        Ok(checked?)
    }
}
