//! What a request may say beside its object: one definition each, for clients, the wire and the registry.

use crate::{Obj, Value};

/// The options of create, update and patch.
///
/// Default: a program's own write. It is stored, under the client's own field manager, and nobody looks for unknown fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions<'a> {
    /// Who owns the fields that are set. Empty: the client's own name, or what the server makes of the user agent.
    pub field_manager: &'a str,
    /// An apply takes over fields that others own.
    pub force: bool,
    /// Everything but the commit.
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// The client said so; else it is what goes without saying.
    pub names_field_validation: bool,
}

impl<'a> WriteOptions<'a> {
    /// The same under the client's own field manager, unless another is named.
    pub fn managed_by(self, own: &'a str) -> WriteOptions<'a> {
        match self.field_manager {
            "" => WriteOptions { field_manager: own, ..self },
            _ => self,
        }
    }
}

/// What becomes of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    #[default]
    Ignore,
    /// What an HTTP request means that says nothing.
    Warn,
    Strict,
}

impl FieldValidation {
    pub fn as_str(self) -> &'static str {
        match self {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        }
    }

    pub fn parse(text: &str) -> Option<FieldValidation> {
        use FieldValidation::{Ignore, Strict, Warn};
        [Ignore, Warn, Strict].into_iter().find(|mode| mode.as_str() == text)
    }
}

/// What a list or a watch may be asked with, as text where the server parses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    /// "" for the newest, "0" for whatever is there, else not older than this.
    pub resource_version: String,
    pub resource_version_match: String,
    /// 0: all.
    pub limit: i64,
    pub continue_token: String,
    pub watch: bool,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
}

/// How to delete, and what must still hold then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Preconditions,
    /// What `propagation_policy` was before it had that name.
    pub orphan_dependents: Option<bool>,
    pub propagation_policy: Option<Propagation>,
    pub dry_run: bool,
}

/// Must still hold when the deletion happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// What becomes of the dependents of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Preconditions {
    pub fn uid(uid: impl Into<String>) -> Preconditions {
        Preconditions { uid: Some(uid.into()), resource_version: None }
    }
}

impl DeleteOptions {
    /// Only the object that was seen, not another of the same name.
    pub fn exactly(obj: &Obj) -> DeleteOptions {
        DeleteOptions { preconditions: Preconditions::uid(obj.uid()), ..DeleteOptions::default() }
    }

    /// As the body of a request says it.
    pub fn to_value(&self) -> Value {
        let mut out = Value::map();
        let map = out.make_map();
        map.set("kind", "DeleteOptions");
        map.set("apiVersion", "v1");
        if let Some(seconds) = self.grace_period_seconds {
            map.set("gracePeriodSeconds", seconds);
        }
        let Preconditions { uid, resource_version } = &self.preconditions;
        for (name, wanted) in [("uid", uid), ("resourceVersion", resource_version)] {
            if let Some(wanted) = wanted {
                out.map_at(&["preconditions"]).set(name, wanted.as_str());
            }
        }
        let map = out.make_map();
        if let Some(orphan) = self.orphan_dependents {
            map.set("orphanDependents", orphan);
        }
        if let Some(policy) = self.propagation_policy {
            map.set("propagationPolicy", policy.as_str());
        }
        if self.dry_run {
            map.set("dryRun", vec![Value::from("All")]);
        }
        out
    }
}

impl Propagation {
    pub fn as_str(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }

    pub fn parse(text: &str) -> Option<Propagation> {
        use Propagation::{Background, Foreground, Orphan};
        [Background, Foreground, Orphan].into_iter().find(|policy| policy.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_has_its_clients_field_manager_unless_it_names_another() {
        let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
        assert_eq!(dry.managed_by("me"), WriteOptions { field_manager: "me", ..dry });
        let named = WriteOptions { field_manager: "other", ..dry };
        assert_eq!(named.managed_by("me"), named);
    }

    #[test]
    fn option_values_are_parsed_as_they_are_written() {
        for policy in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
            assert_eq!(Propagation::parse(policy.as_str()), Some(policy));
        }
        for mode in [FieldValidation::Ignore, FieldValidation::Warn, FieldValidation::Strict] {
            assert_eq!(FieldValidation::parse(mode.as_str()), Some(mode));
        }
        assert_eq!((Propagation::parse("orphan"), FieldValidation::parse("")), (None, None));
    }
}
