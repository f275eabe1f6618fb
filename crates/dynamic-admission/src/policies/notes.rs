//! What policies did, in words: for `/debug/admission`.

use object::quote;

use super::configured::Binding;

pub(super) fn who(policy: &str, binding: Option<&Binding>) -> String {
    match binding {
        Some(binding) => format!("policy {policy}, binding {}", binding.name),
        None => format!("policy {policy}"),
    }
}

/// What becomes of a policy that cannot be evaluated.
pub(super) fn on_failure(ignored: bool) -> &'static str {
    if ignored { "failed, which failurePolicy ignores" } else { "refused" }
}

/// `unmet`: the match condition that does not hold, if it is not a failure that is ignored.
pub(super) fn not_met(unmet: Option<&str>) -> String {
    match unmet {
        Some(name) => format!("its match condition {} does not hold", quote(name)),
        None => "a match condition failed, which failurePolicy ignores".to_owned(),
    }
}
