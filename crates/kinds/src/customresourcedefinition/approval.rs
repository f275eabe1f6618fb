//! Groups of the Kubernetes project itself: a definition there says where it was approved, or that it was not.

use object::Value;

use crate::check::{Errors, Path, text};
use crate::write::Write;

const APPROVAL: &str = "api-approved.kubernetes.io";

#[derive(PartialEq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

/// Groups of the project itself say where they were approved, or that they were not.
pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    let group = text(write.spec(), "group");
    let own = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !own("k8s.io") && !own("kubernetes.io") {
        return;
    }
    let annotation =
        |object: &Value| object.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default().to_owned();
    let now = annotation(write.new);
    let state = approval(&now);
    if write.old.is_some_and(|old| approval(&annotation(old)) == state) {
        return;
    }
    let root = Path::Root("metadata.annotations");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state {
        Approval::Missing => {
            let detail = format!("protected groups must have approval annotation \"{APPROVAL}\", {see}");
            errors.required(&root.key(APPROVAL), &detail);
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {see}"
            );
            errors.invalid(&root.key(APPROVAL), now.as_str(), detail);
        }
        Approval::Bypassed | Approval::Approved => {}
    }
}

fn approval(annotation: &str) -> Approval {
    let host =
        annotation.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    match annotation {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text if !text.starts_with("://") && !host.is_empty() => Approval::Approved,
        _ => Approval::Invalid,
    }
}
