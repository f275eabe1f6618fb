//! The conditions of a status, as every kind that uses the common type must write them.

use object::{Value, validate_text};

use super::{Errors, Path, Seen, int, items, member, text};

const REASON_MAX_BYTES: usize = 1024;
const MESSAGE_MAX_BYTES: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";

impl Errors {
    /// `metav1.Condition`s, one of a type.
    pub(crate) fn conditions(&mut self, list: &Path<'_>, of: &Value) {
        let conditions = items(of, "conditions");
        let mut seen = Seen::default();
        for (i, condition) in conditions.iter().enumerate() {
            let at = list.index(i);
            let kind = text(condition, "type");
            if seen.again(kind) {
                self.duplicate(&at.child("type"), kind);
            }
            self.condition(condition, &at);
        }
    }

    fn condition(&mut self, condition: &Value, at: &Path<'_>) {
        self.qualified(&at.child("type"), text(condition, "type"));
        self.one_of(&at.child("status"), text(condition, "status"), &["False", "True", "Unknown"]);
        if let Some(generation) = int(condition, "observedGeneration").filter(|g| *g < 0) {
            let detail = "must be greater than or equal to zero";
            self.invalid(&at.child("observedGeneration"), generation, detail);
        }
        if member(condition, "lastTransitionTime").is_none() {
            self.required(&at.child("lastTransitionTime"), "");
        }
        let reason = text(condition, "reason");
        if reason.is_empty() {
            self.required(&at.child("reason"), "");
        } else {
            if !is_reason(reason) {
                let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
                let regex = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
                self.invalid(
                    &at.child("reason"),
                    reason,
                    validate_text::regex_error(REASON, regex, &examples),
                );
            }
            if reason.len() > REASON_MAX_BYTES {
                self.too_long(&at.child("reason"), REASON_MAX_BYTES);
            }
        }
        if text(condition, "message").len() > MESSAGE_MAX_BYTES {
            self.too_long(&at.child("message"), MESSAGE_MAX_BYTES);
        }
    }
}

fn is_reason(reason: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"_,:".contains(&b);
    reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.bytes().all(inner)
        && !reason.ends_with([',', ':'])
}
