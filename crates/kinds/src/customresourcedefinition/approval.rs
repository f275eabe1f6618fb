//! Groups of the Kubernetes project itself: a definition there says where it was approved, or that it was not.

use object::{Value, quote};

use crate::check::{Errors, Path, is_url_with_host, text};
use crate::write::Write;

/// Where a definition says so.
pub const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What the annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

/// Whether a group belongs to the project.
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

impl Approval {
    pub fn of(annotation: &str) -> Approval {
        match annotation {
            "" => Approval::Missing,
            text if text.starts_with("unapproved") => Approval::Bypassed,
            text if is_url_with_host(text) => Approval::Approved,
            _ => Approval::Invalid,
        }
    }

    /// The state in upstream's words.
    pub fn message(self, annotation: &str) -> String {
        match self {
            Approval::Missing => {
                format!("protected groups must have approval annotation \"{ANNOTATION}\", {SEE}")
            }
            Approval::Bypassed => format!("not approved: {}", quote(annotation)),
            Approval::Approved => format!("approved in {annotation}"),
            Approval::Invalid => format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            ),
        }
    }
}

/// A definition in a group of the project says something valid; one that said nothing valid before may go on so.
pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    if !is_protected(text(write.spec(), "group")) {
        return;
    }
    let annotation =
        |object| Value::str_at(object, &["metadata", "annotations", ANNOTATION]).unwrap_or_default();
    let now = annotation(write.new);
    let approval = Approval::of(now);
    if write.old.is_some_and(|old| Approval::of(annotation(old)) == approval) {
        return;
    }
    let root = Path::Root("metadata.annotations");
    match approval {
        Approval::Missing => errors.required(&root.key(ANNOTATION), &approval.message(now)),
        Approval::Invalid => errors.invalid(&root.key(ANNOTATION), now, approval.message(now)),
        Approval::Bypassed | Approval::Approved => {}
    }
}
