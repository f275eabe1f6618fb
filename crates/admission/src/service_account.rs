//! ServiceAccount: every pod runs as an account of its namespace, gets the account's token mounted and its image
//! pull secrets, and where the account says so may only use the secrets the account lists.

mod secrets;
mod token;

use std::sync::Arc;

use memchr::memmem::Finder;
use object::{Map, Obj, Value, validate_text};

use crate::tree::{annotation, flag, items, list_mut, text};
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct ServiceAccount {
    /// An account whose text has none of these asks for nothing beyond a token; most are so.
    asks: [Finder<'static>; 3],
}

const DEFAULT: &str = "default";
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

impl Default for ServiceAccount {
    fn default() -> ServiceAccount {
        let asks = ["automountServiceAccountToken", "imagePullSecrets", ENFORCE].map(Finder::new);
        ServiceAccount { asks }
    }
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Create || !attempt.is("", "pods") {
            return Ok(());
        }
        if annotation(new, MIRROR).is_some() {
            return check_mirror(attempt, new);
        }
        let spec = new.map_at(&["spec"]);
        if spec.get("serviceAccountName").and_then(Value::as_str).is_none_or(str::is_empty) {
            spec.set("serviceAccountName", DEFAULT);
            spec.set("serviceAccount", DEFAULT);
        }
        let account = account_of(attempt, new)?;
        let asked = self.asked(attempt, &account);
        let automount = flag(new.get("spec").unwrap_or(&Value::Null), "automountServiceAccountToken")
            .or_else(|| asked.as_ref().and_then(|a| flag(a, "automountServiceAccountToken")));
        let spec = new.map_at(&["spec"]);
        if automount.unwrap_or(true) {
            token::mount(spec, attempt.env);
        }
        let Some(asked) = asked else { return Ok(()) };
        pass_pull_secrets(spec, &asked);
        check_secrets(attempt, new, &asked)
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(pod) = new.filter(|_| attempt.is_or_below("", "pods")) else { return Ok(()) };
        match (attempt.operation, attempt.subresource) {
            (Operation::Create, None) if annotation(pod, MIRROR).is_some() => check_mirror(attempt, pod),
            (Operation::Create, None) => {
                let account = account_of(attempt, pod)?;
                match self.asked(attempt, &account) {
                    Some(asked) => check_secrets(attempt, pod, &asked),
                    None => Ok(()),
                }
            }
            (Operation::Update, Some("ephemeralcontainers")) => {
                let account = account_of(attempt, pod)?;
                match self.asked(attempt, &account).filter(enforces) {
                    // Upstream gives this reason bare, not as a 403.
                    Some(asked) => secrets::check_ephemeral(&asked, pod)
                        .map_err(|why| object::Status::unknown(why).into()),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

fn account_of(attempt: &Attempt<'_>, pod: &Value) -> Result<Arc<Obj>, Refusal> {
    let namespace = attempt.namespace;
    let name = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default();
    if name.is_empty() {
        let pod = pod.str_at(&["metadata", "name"]).unwrap_or_default();
        let why = format!("no service account specified for pod {namespace}/{pod}");
        return Err(attempt.forbidden(why).into());
    }
    let problems = validate_text::path_segment_name(name);
    if !problems.is_empty() {
        // Upstream asks for the account by a path, and this is none.
        let why = format!("invalid resource name {}: [{}]", object::quote(name), problems.join(" "));
        return Err(attempt
            .forbidden(format!("error looking up service account {namespace}/{name}: {why}"))
            .into());
    }
    attempt.find("", "serviceaccounts", namespace, name).ok_or_else(|| Refusal {
        status: attempt.forbidden(format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        )),
        // A new namespace gets its default account a moment after it was made.
        may_pass_soon: name == DEFAULT,
        is_final: false,
    })
}

impl ServiceAccount {
    /// The account's tree, if there is anything in it for a pod.
    fn asked(&self, attempt: &Attempt<'_>, account: &Obj) -> Option<Value> {
        let body = account.body();
        self.asks.iter().any(|word| word.find(body).is_some()).then(|| attempt.tree(account))
    }
}

fn enforces(account: &Value) -> bool {
    // What Go reads as true.
    annotation(account, ENFORCE)
        .is_some_and(|said| matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

fn pass_pull_secrets(spec: &mut Map, account: &Value) {
    let offered = items(account, "imagePullSecrets");
    let own = spec.get("imagePullSecrets").and_then(Value::as_list).is_some_and(|own| !own.is_empty());
    if own || offered.is_empty() {
        return;
    }
    let named = |secret: &Value| crate::tree::map([("name", text(secret, "name").into())]);
    *list_mut(spec, "imagePullSecrets") = offered.iter().map(named).collect();
}

fn check_secrets(attempt: &Attempt<'_>, pod: &Value, account: &Value) -> Result<(), Refusal> {
    if !enforces(account) {
        return Ok(());
    }
    secrets::check(account, pod).map_err(|why| attempt.forbidden(why).into())
}

/// A mirror pod shows what a kubelet runs by itself: it may not depend on what only the API server knows.
fn check_mirror(attempt: &Attempt<'_>, pod: &Value) -> Result<(), Refusal> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let why = if !text(spec, "serviceAccountName").is_empty() {
        "a mirror pod may not reference service accounts"
    } else if secrets::mentions_any(spec) {
        "a mirror pod may not reference secrets"
    } else if token::is_projected(spec) {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(attempt.forbidden(why).into())
}
