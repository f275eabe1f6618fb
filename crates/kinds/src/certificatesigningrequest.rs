//! Certificate signing requests: the server records the requester, and sets the times of conditions.

mod columns;
pub(crate) mod der;
mod validation;

use object::{Map, Value};

use crate::check::Errors;
use crate::columns::Printer;
use crate::kind::{Context, Kind};
use crate::rules::{NameRule, Rules, StatusMeta};
use crate::strategy::{map_mut, restore};
use crate::write::Write;

pub(crate) struct CertificateSigningRequest;
pub(crate) static KIND: CertificateSigningRequest = CertificateSigningRequest;

const RULES: Rules = Rules::PLAIN.with_name(NameRule::Unchecked).with_status(StatusMeta::Free);

impl Kind for CertificateSigningRequest {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }

    /// The requester in the body is replaced by the actual one.
    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        let who = &ctx.requester;
        let texts = |list: &[String]| Value::List(list.iter().map(|t| Value::from(t.as_str())).collect());
        let spec = new.map_at(&["spec"]);
        for member in ["username", "uid", "groups", "extra"] {
            spec.remove(member);
        }
        spec.set("username", who.name);
        spec.set("uid", who.uid);
        spec.set("groups", texts(who.groups));
        let mut extra = Map::default();
        for (key, values) in who.extra.into_iter().flatten() {
            extra.set(key.clone(), texts(values));
        }
        spec.set("extra", extra);
    }

    fn reset_fields(&self, _version: &str, subresource: Option<&str>) -> &[&[&str]] {
        match subresource {
            None => &[&["spec"], &["status"]],
            Some("approval") => &[&["spec"], &["status", "certificate"]],
            Some(_) => &[&["spec"], &["status", "conditions"]],
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        match ctx.subresource {
            Some("status") => {
                keep_decisions(new, old, "Approved");
                keep_decisions(new, old, "Denied");
                date_conditions(new, old, ctx);
            }
            Some("approval") => {
                date_conditions(new, old, ctx);
                let conditions = new.at(&["status", "conditions"]).cloned();
                restore(new, old, &[], "spec");
                restore(new, old, &[], "status");
                match conditions {
                    Some(conditions) => new.map_at(&["status"]).set("conditions", conditions),
                    None => {
                        new.map_at(&["status"]).remove("conditions");
                    }
                }
            }
            // The spec is immutable.
            _ => restore(new, old, &[], "spec"),
        }
    }
}

fn conditions(object: &Value) -> &[Value] {
    object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default()
}

fn conditions_mut(object: &mut Value) -> &mut [Value] {
    match map_mut(object, &["status"]).and_then(|m| m.get_mut("conditions")) {
        Some(Value::List(list)) => list,
        _ => &mut [],
    }
}

/// A signer writes the status, not the approval: existing approval conditions stay as they were.
fn keep_decisions(new: &mut Value, old: &Value, decision: &str) {
    let is = |c: &&Value| c.get("type").and_then(Value::as_str) == Some(decision);
    let before: Vec<Value> = conditions(old).iter().filter(is).cloned().collect();
    if conditions(new).iter().filter(is).count() != before.len() {
        return;
    }
    let now = conditions_mut(new).iter_mut().filter(|c| is(&&**c));
    for (slot, condition) in now.zip(before) {
        *slot = condition;
    }
}

fn date_conditions(new: &mut Value, old: &Value, ctx: &Context<'_>) {
    let unset = |c: &Value, member| c.get(member).is_none_or(Value::is_null);
    for condition in conditions_mut(new) {
        if unset(condition, "lastUpdateTime") {
            condition.make_map().set("lastUpdateTime", ctx.timestamp());
        }
        if unset(condition, "lastTransitionTime") {
            let alike = |o: &&Value| {
                ["type", "status"].iter().all(|m| o.get(m) == condition.get(m))
                    && !unset(o, "lastTransitionTime")
            };
            let since = conditions(old).iter().find(alike).and_then(|o| o.get("lastTransitionTime")).cloned();
            condition.make_map().set("lastTransitionTime", since.unwrap_or_else(|| ctx.timestamp()));
        }
    }
}
