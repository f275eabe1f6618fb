//! The policies and bindings there are, as far as they concern a request.

use std::collections::HashMap;
use std::sync::Arc;

use admission::{Attempt, Memo};
use codec::json;
use object::{Obj, Status, Value};
use parking_lot::Mutex;

use super::GROUP;
use super::params::{ParamKind, ParamRef};
use crate::criteria::{MatchCriteria, is_exempt_from_policies};
use crate::index::{Index, Ruled};

/// A policy with what its expressions were compiled to.
pub(super) struct Policy<P> {
    pub name: String,
    pub criteria: MatchCriteria,
    /// `failurePolicy: Ignore`.
    pub ignores_failures: bool,
    pub param_kind: Option<ParamKind>,
    pub compiled: P,
}

pub(super) struct Binding {
    pub name: String,
    /// `None`: all the policy is about.
    pub criteria: Option<MatchCriteria>,
    pub param_ref: Option<ParamRef>,
    /// `validationActions`, in the order they were written.
    pub actions: Vec<String>,
}

type Bindings = HashMap<String, Vec<Arc<Binding>>>;

/// Uid and generation: what a policy was compiled from.
type Edition = (String, i64);

/// Policies of one kind and their bindings.
pub(super) struct Configured<P> {
    policies: Memo<Index<Policy<P>>>,
    bindings: Memo<Bindings>,
    /// Guards what was compiled last: a change of one policy does not compile the others again.
    compiled: Mutex<HashMap<Edition, Arc<Policy<P>>>>,
    compile: fn(&Value) -> P,
}

impl<P> Configured<P> {
    pub(super) fn new(
        policies: &'static str,
        bindings: &'static str,
        compile: fn(&Value) -> P,
    ) -> Configured<P> {
        Configured {
            policies: Memo::of(GROUP, policies),
            bindings: Memo::of(GROUP, bindings),
            compiled: Mutex::default(),
            compile,
        }
    }

    /// Whether a bound policy may concern the request, by rules alone.
    pub(super) fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        if is_exempt_from_policies(attempt) {
            return false;
        }
        let (Ok(bindings), Ok(policies)) = (self.bindings(attempt), self.policies(attempt)) else {
            // Asked then, it says why they cannot be read.
            return true;
        };
        policies
            .candidates(attempt)
            .any(|(_, policy)| bindings.contains_key(&policy.name) && policy.criteria.find(attempt).is_some())
    }

    /// All policies, by name.
    pub(super) fn policies(&self, attempt: &Attempt<'_>) -> Result<Arc<Index<Policy<P>>>, Status> {
        Ok(self.policies.get(attempt, |objects| Index::new(self.read(objects)))?.unwrap_or_default())
    }

    /// Those without a rule about the request, and those without a binding.
    pub(super) fn unmatched(&self, attempt: &Attempt<'_>) -> Vec<String> {
        let (Ok(policies), Ok(bindings)) = (self.policies(attempt), self.bindings(attempt)) else {
            return Vec::new();
        };
        let mut out = policies.unmatched(attempt);
        let unbound = policies.candidates(attempt).filter(|(_, policy)| !bindings.contains_key(&policy.name));
        out.extend(unbound.map(|(_, policy)| format!("{} (no binding)", policy.describe())));
        out
    }

    /// All bindings, by the name of their policy.
    pub(super) fn bindings(&self, attempt: &Attempt<'_>) -> Result<Arc<Bindings>, Status> {
        Ok(self.bindings.get(attempt, read_bindings)?.unwrap_or_default())
    }

    fn read(&self, mut objects: Vec<Arc<Obj>>) -> Vec<Arc<Policy<P>>> {
        objects.sort_by(|a, b| a.name().cmp(b.name()));
        let mut kept = self.compiled.lock();
        let mut current = HashMap::with_capacity(objects.len());
        let mut policies = Vec::with_capacity(objects.len());
        for obj in &objects {
            let Ok(tree) = json::parse(obj.body(), None) else { continue };
            let generation = tree.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
            let edition = (obj.uid().to_owned(), generation);
            let policy = kept.remove(&edition).unwrap_or_else(|| Arc::new(self.compiled(obj.name(), &tree)));
            current.insert(edition, policy.clone());
            policies.push(policy);
        }
        *kept = current;
        policies
    }

    fn compiled(&self, name: &str, tree: &Value) -> Policy<P> {
        let nothing = Value::map();
        let spec = tree.get("spec").unwrap_or(&nothing);
        Policy {
            name: name.to_owned(),
            criteria: MatchCriteria::from_value(
                spec.get("matchConstraints").unwrap_or(&nothing),
                "resourceRules",
            ),
            ignores_failures: spec.str_at(&["failurePolicy"]) == Some("Ignore"),
            param_kind: ParamKind::from_value(spec.get("paramKind")),
            compiled: (self.compile)(spec),
        }
    }
}

impl<P> Ruled for Policy<P> {
    fn criteria(&self) -> &MatchCriteria {
        &self.criteria
    }

    fn describe(&self) -> String {
        format!("policy {}", self.name)
    }
}

fn read_bindings(mut objects: Vec<Arc<Obj>>) -> Bindings {
    objects.sort_by(|a, b| a.name().cmp(b.name()));
    let mut bindings = Bindings::new();
    for obj in &objects {
        let Ok(tree) = json::parse(obj.body(), None) else { continue };
        let Some(spec) = tree.get("spec") else { continue };
        let Some(policy) = spec.str_at(&["policyName"]) else { continue };
        let present = |name: &str| spec.get(name).filter(|value| !value.is_null());
        let binding = Binding {
            name: obj.name().to_owned(),
            criteria: present("matchResources").map(|of| MatchCriteria::from_value(of, "resourceRules")),
            param_ref: present("paramRef").map(ParamRef::from_value),
            actions: crate::rule::texts(spec, "validationActions"),
        };
        bindings.entry(policy.to_owned()).or_default().push(Arc::new(binding));
    }
    bindings
}

#[cfg(test)]
mod tests {
    use catalog::Catalog;
    use store::Revision;

    use super::*;

    #[test]
    fn a_change_of_one_policy_leaves_what_others_were_compiled_to() {
        let catalog = Catalog::builtin();
        let storage = catalog.find_storage(GROUP, "validatingadmissionpolicies").expect("built in");
        let policy = |name: &str, uid: &str, generation: u64, revision: u64| {
            let body = format!(
                r#"{{"apiVersion":"{GROUP}/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"{name}","uid":"{uid}","generation":{generation}}},"spec":{{}}}}"#
            );
            let key = storage.key("", name);
            Arc::new(Obj::publish(storage, &key, body.as_bytes(), Revision(revision), None).unwrap())
        };
        let configured: Configured<()> = Configured::new("", "", |_| ());
        let first =
            configured.read(vec![policy("b", "1", 1, 1), policy("a", "2", 1, 2), policy("c", "3", 1, 3)]);
        // The status of one changed, the spec of another, and the third is a new one of that name.
        let second =
            configured.read(vec![policy("a", "2", 1, 4), policy("b", "1", 2, 5), policy("c", "4", 1, 6)]);
        let names: Vec<&str> = second.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let same: Vec<bool> = first.iter().zip(&second).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(same, [true, false, false]);
        assert_eq!(configured.compiled.lock().len(), 3, "nothing is kept of what is gone");
    }
}
