//! Who makes policies read parameters must be allowed to read them: otherwise expressions and their messages would show objects to
//! people who may not see them.

use object::{About, Value};

use crate::check::{Errors, member, text};
use crate::kind::{Permission, Requester};
use crate::same;
use crate::workload::SPEC;
use crate::write::Write;

const MASTERS: &str = "system:masters";
/// Every group, resource, name or namespace.
const ALL: &str = "*";

/// Of a policy: all objects of its `paramKind`.
pub(super) fn check_param_kind(write: &Write<'_>, errors: &mut Errors) {
    let Some(kind) = member(write.spec(), "paramKind") else { return };
    let old = write.old_spec().and_then(|old| member(old, "paramKind"));
    if old.is_some_and(|old| same(Some(old), Some(kind))) || is_exempt(&write.ctx.requester) {
        return;
    }
    let wanted = Parameters::of(write, kind);
    let permission = Permission {
        verb: "get",
        resource: Some(wanted.about()),
        subresource: "",
        namespace: ALL,
        name: ALL,
    };
    if write.ctx.permissions.check(&permission).is_err() {
        let detail = format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown_user(&write.ctx.requester),
            text(kind, "kind"),
            text(kind, "apiVersion"),
        );
        errors.forbidden(&SPEC.child("paramKind"), detail);
    }
}

/// Of a binding to one of `policies`: the objects of its `paramRef`.
pub(super) fn check_param_ref(write: &Write<'_>, policies: &str, errors: &mut Errors) {
    let Some(reference) = member(write.spec(), "paramRef") else { return };
    if is_unchanged(write, reference) || is_exempt(&write.ctx.requester) {
        return;
    }
    let policy = write.ctx.permissions.find(policies, text(write.spec(), "policyName"));
    let kind = policy.as_ref().and_then(|policy| member(policy.get("spec")?, "paramKind"));
    let wanted = kind.map(|kind| Parameters::of(write, kind)).unwrap_or_default();
    let name = text(reference, "name");
    let verb = if name.is_empty() { "list" } else { "get" };
    let namespace = text(reference, "namespace");
    let permission = Permission { verb, resource: Some(wanted.about()), subresource: "", namespace, name };
    if write.ctx.permissions.check(&permission).is_ok() {
        return;
    }
    let user = shown_user(&write.ctx.requester);
    let lacks = format!(
        "to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
    );
    let detail = match kind {
        _ if policy.is_none() => {
            format!("unable to get policy {} {lacks}", text(write.spec(), "policyName"))
        }
        Some(kind) if wanted.plural.is_none() => {
            format!(
                "unable to resolve paramKind &{{{} {}}} {lacks}",
                text(kind, "apiVersion"),
                text(kind, "kind")
            )
        }
        // Upstream's message about mutating policies has the two in the wrong order.
        _ if policies == super::MUTATING_POLICIES => {
            format!("user {verb} does not have \"{user}\" permission on the object referenced by paramRef")
        }
        _ => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
    };
    errors.forbidden(&SPEC.child("paramRef"), detail);
}

/// As upstream, which compares pointers: a reference with a selector or a `parameterNotFoundAction` never equals the stored one.
fn is_unchanged(write: &Write<'_>, reference: &Value) -> bool {
    let Some(old) = write.old_spec() else { return false };
    let Some(stored) = member(old, "paramRef") else { return false };
    let has_pointers =
        |of: &Value| ["selector", "parameterNotFoundAction"].iter().any(|at| member(of, at).is_some());
    !has_pointers(reference)
        && !has_pointers(stored)
        && ["name", "namespace"].iter().all(|at| text(reference, at) == text(stored, at))
        && text(old, "policyName") == text(write.spec(), "policyName")
}

/// Members of this group may do anything, whatever the authorizer is.
fn is_exempt(requester: &Requester<'_>) -> bool {
    requester.groups.iter().any(|group| group == MASTERS)
}

/// The resource parameters are objects of; without a plural all there are.
#[derive(Default)]
struct Parameters<'a> {
    group: Option<&'a str>,
    plural: Option<String>,
}

impl<'a> Parameters<'a> {
    fn of(write: &Write<'_>, kind: &'a Value) -> Parameters<'a> {
        let api_version = text(kind, "apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let plural = write.ctx.permissions.plural(group, version, text(kind, "kind"));
        Parameters { group: Some(group), plural }
    }

    fn about(&self) -> About<'_> {
        About { group: self.group.unwrap_or(ALL), resource: self.plural.as_deref().unwrap_or(ALL) }
    }
}

/// As Go prints a pointer to upstream's type.
fn shown_user(requester: &Requester<'_>) -> String {
    let extra = requester.extra.into_iter().flatten();
    let extra: Vec<String> = extra.map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    let groups = requester.groups.join(" ");
    format!("&{{{} {} [{groups}] map[{}]}}", requester.name, requester.uid, extra.join(" "))
}
