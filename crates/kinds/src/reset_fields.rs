//! What strategies reset, so that no write is tracked as having set it.

use crate::rules::{Rules, StatusMeta};

/// As `strategy.rs` puts them back.
pub(crate) fn by_rules(rules: &Rules, subresource: Option<&str>) -> &'static [&'static [&'static str]] {
    match subresource {
        None if rules.keep_status_on_update => &[&["status"]],
        Some("status") => match rules.status_meta {
            StatusMeta::Free => &[&["spec"]],
            StatusMeta::KeepLabels => &[&["spec"], &["metadata", "labels"]],
            StatusMeta::KeepOwners => {
                &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
            }
            StatusMeta::KeepAll | StatusMeta::KeepWhole => &[&["spec"], &["metadata"]],
        },
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
