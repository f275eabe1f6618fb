//! Namespaces: created active with a finalizer, labeled with their name, and deleted in two steps.
//!
//! ```text
//! DELETE ─> deletionTimestamp, phase Terminating ─ contents go ─ PUT /finalize takes spec.finalizers ─> gone
//! ```

mod columns;
mod defaults;

use catalog::Storage;
use object::{DeleteOptions, FieldError, Map, Propagation, Status, Value, quote, time, validate_text};

use crate::columns::Printer;
use crate::deletion::{
    Decision, FOREGROUND, ORPHAN, check_preconditions_first, decide_generally, set_finalizers,
};
use crate::kind::{Context, Defaults, Kind};
use crate::metadata::{self, meta, strings};
use crate::rules::{NameRule, Rules, StatusMeta};
use crate::strategy::restore;

pub(crate) struct Namespace;
pub(crate) static KIND: Namespace = Namespace;

const RULES: Rules = Rules::PLAIN.with_name(NameRule::Label).with_status(StatusMeta::Free);
/// The members of metadata that follow the labels.
const AFTER_LABELS: &[&str] = &["annotations", "ownerReferences", "finalizers", "managedFields"];
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Namespaces that admission refuses to delete.
pub fn is_immortal_namespace(name: &str) -> bool {
    ["default", "kube-system", "kube-public"].contains(&name)
}

impl Kind for Namespace {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, _version: &str) -> Option<&Defaults> {
        Some(&defaults::apply)
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn prepare_create(&self, new: &mut Value, _ctx: &Context<'_>) {
        new.map_at(&["status"]).set("phase", "Active");
        let finalizers = new.map_at(&["spec"]).entry("finalizers".into());
        let own = Value::from("kubernetes");
        match finalizers {
            Value::List(list) if list.contains(&own) => {}
            Value::List(list) => list.push(own),
            other => *other = Value::List(vec![own]),
        }
    }

    fn reset_fields(&self, _version: &str, subresource: Option<&str>) -> &[&[&str]] {
        match subresource {
            Some("status") => &[&["spec"]],
            _ => &[&["status"]],
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        match ctx.subresource {
            Some("finalize") => restore(new, old, &[], "status"),
            Some(_) => {}
            None => restore(new, old, &["spec"], "finalizers"),
        }
    }

    fn validate(
        &self,
        storage: &Storage,
        new: &Value,
        old: Option<&Value>,
        ctx: &Context<'_>,
    ) -> Vec<FieldError> {
        let Some(old) = old else {
            let mut errors = metadata::check(&RULES, storage, new);
            check_finalizers(new, false, &mut errors);
            return errors;
        };
        let mut errors = Vec::new();
        if ctx.is_object() {
            errors = metadata::check(&RULES, storage, new);
            check_finalizers(new, false, &mut errors);
        }
        errors.extend(metadata::check_update(&RULES, new, old));
        match ctx.subresource {
            Some("status") => check_phase(new, &mut errors),
            Some("finalize") => check_finalizers(new, true, &mut errors),
            _ => {}
        }
        errors
    }

    /// The label that lets selectors find a namespace by name.
    fn canonicalise(&self, new: &mut Value) -> bool {
        if let Some(name) = meta(new, "name").cloned() {
            let labels = in_place(new.map_at(&["metadata"]), "labels", AFTER_LABELS).make_map();
            *in_place(labels, NAME_LABEL, &[]) = name;
            labels.entries_mut().sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        false
    }

    fn delete(
        &self,
        storage: &Storage,
        old: &Value,
        version: &str,
        options: &DeleteOptions,
        now: i64,
    ) -> Option<Result<Decision, Status>> {
        Some(delete(storage, old, version, options, now))
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        !spec_finalizers(object).is_empty()
    }
}

fn delete(
    storage: &Storage,
    old: &Value,
    version: &str,
    options: &DeleteOptions,
    now: i64,
) -> Result<Decision, Status> {
    check_preconditions_first(storage, old, version, options)?;
    if meta(old, "deletionTimestamp").is_some() {
        // Only when its contents are gone, and all finalizers removed.
        if !spec_finalizers(old).is_empty() {
            return Ok(Decision::Nothing);
        }
        return decide_generally(&KIND, storage, old, version, options, now);
    }
    let mut new = old.clone();
    new.map_at(&["metadata"]).set("deletionTimestamp", time::format_seconds(now));
    new.map_at(&["status"]).set("phase", "Terminating");
    let had = strings(old, "finalizers");
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy) {
        (Some(orphan), _) => (orphan, !orphan),
        (None, Some(propagation)) => {
            (propagation == Propagation::Orphan, propagation == Propagation::Foreground)
        }
        (None, None) => (had.contains(&ORPHAN), had.contains(&FOREGROUND)),
    };
    let others = had.iter().copied().filter(|f| *f != ORPHAN && *f != FOREGROUND);
    let wanted = [(orphan, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(w, _)| *w).map(|(_, f)| f);
    set_finalizers(&mut new, others.chain(wanted).map(str::to_owned).collect());
    Ok(Decision::Keep(new))
}

/// The member; if it is absent, it is created before the first of `followers`.
fn in_place<'a>(map: &'a mut Map, member: &'static str, followers: &[&str]) -> &'a mut Value {
    if !map.contains(member) {
        let at = map.iter().position(|(name, _)| followers.contains(&&**name)).unwrap_or(map.len());
        map.entries_mut().insert(at, (member.into(), Value::Null));
    }
    map.entry(member.into())
}

fn spec_finalizers(object: &Value) -> Vec<&str> {
    let list = object.at(&["spec", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// On create upstream names the list, on finalize the entry.
fn check_finalizers(new: &Value, indexed: bool, errors: &mut Vec<FieldError>) {
    for (i, finalizer) in spec_finalizers(new).into_iter().enumerate() {
        let field = if indexed { format!("spec.finalizers[{i}]") } else { "spec.finalizers".to_owned() };
        for problem in validate_text::qualified_name(finalizer) {
            errors.push(FieldError::invalid(field.clone(), quote(finalizer), problem));
        }
        errors.extend(metadata::kubernetes_finalizer_error(field, finalizer));
    }
}

fn check_phase(new: &Value, errors: &mut Vec<FieldError>) {
    let phase = new.str_at(&["status", "phase"]).unwrap_or_default();
    let (wanted, when) = match meta(new, "deletionTimestamp") {
        None => ("Active", "is empty"),
        Some(_) => ("Terminating", "is not empty"),
    };
    if phase != wanted {
        let detail = format!("may only be '{wanted}' if `deletionTimestamp` {when}");
        errors.push(FieldError::invalid("status.Phase", quote(phase), detail));
    }
}
