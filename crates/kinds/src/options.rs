//! What a client may ask for along with a write: parsed once, refused with upstream's words.

use object::{FieldError, Status, Value, quote};

use crate::metadata::check_field_manager;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Must still hold when the deletion happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// How to delete. Values are as they came; [`DeleteOptions::check`] refuses what makes no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Preconditions,
    pub orphan_dependents: Option<bool>,
    pub propagation_policy: Option<String>,
    pub dry_run: Vec<String>,
}

impl DeleteOptions {
    /// From a body normalised as `meta.v1.DeleteOptions`; the refusal of [`DeleteOptions::check`] if it breaks a rule.
    pub fn from_value(value: &Value) -> Result<DeleteOptions, Status> {
        let options = DeleteOptions::from_value_unchecked(value);
        options.check()?;
        Ok(options)
    }

    /// The same for those who check later.
    pub fn from_value_unchecked(value: &Value) -> DeleteOptions {
        let text = |path: &[&str]| value.str_at(path).map(str::to_owned);
        DeleteOptions {
            grace_period_seconds: value.get("gracePeriodSeconds").and_then(Value::as_int),
            preconditions: Preconditions {
                uid: text(&["preconditions", "uid"]),
                resource_version: text(&["preconditions", "resourceVersion"]),
            },
            orphan_dependents: value.get("orphanDependents").and_then(Value::as_bool),
            propagation_policy: text(&["propagationPolicy"]),
            dry_run: strings(value.get("dryRun")),
        }
    }

    pub fn check(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        if let (Some(_), Some(policy)) = (self.orphan_dependents, &self.propagation_policy) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", quote(policy), detail));
        }
        if let Some(policy) = self.propagation_policy.as_deref().filter(|p| propagation(p).is_none()) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", quote(policy), &supported));
        }
        check_dry_run(&self.dry_run, &mut errors);
        refuse("DeleteOptions", errors)
    }

    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// What the client asked for, if it did.
    pub fn propagation(&self) -> Option<Propagation> {
        propagation(self.propagation_policy.as_deref()?)
    }
}

/// Which options object a refusal names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    /// A patch that is not an apply.
    Patch,
    Apply,
}

/// The query parameters of create, update and patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub dry_run: Vec<String>,
    pub field_manager: String,
    pub field_validation: String,
    pub force: Option<bool>,
}

impl WriteOptions {
    pub fn check(&self, operation: Operation) -> Result<(), Status> {
        let mut errors = Vec::new();
        match operation {
            Operation::Apply if self.field_manager.is_empty() => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            Operation::Patch if self.force.is_some() => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            _ => {}
        }
        check_field_manager(&self.field_manager, "fieldManager", &mut errors);
        check_dry_run(&self.dry_run, &mut errors);
        let modes = ["", "Ignore", "Strict", "Warn"];
        if !modes.contains(&self.field_validation.as_str()) {
            errors.push(FieldError::not_supported("fieldValidation", quote(&self.field_validation), &modes));
        }
        let kind = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Patch | Operation::Apply => "PatchOptions",
        };
        refuse(kind, errors)
    }

    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }
}

fn propagation(policy: &str) -> Option<Propagation> {
    match policy {
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        "Orphan" => Some(Propagation::Orphan),
        _ => None,
    }
}

fn check_dry_run(dry_run: &[String], errors: &mut Vec<FieldError>) {
    if dry_run.iter().any(|d| d != "All") {
        let shown = Value::List(dry_run.iter().map(|d| Value::from(d.as_str())).collect());
        errors.push(FieldError::not_supported("dryRun", crate::metadata::shown(&shown), &["All"]));
    }
}

fn refuse(kind: &str, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", kind, "", errors)) }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
