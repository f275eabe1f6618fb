//! The options of a request: parsed once, refused with upstream's messages.

use catalog::Verbs;
use object::{
    DeleteOptions, FieldError, FieldValidation, PatchType, Preconditions, Propagation, Status, Value,
    WriteOptions, quote,
};

use crate::metadata::check_field_manager;

/// DeleteOptions from a body normalised as `meta.v1.DeleteOptions`.
pub fn delete_options(value: &Value) -> Result<DeleteOptions, Status> {
    let (options, checked) = unchecked_delete_options(value);
    checked.map(|()| options)
}

/// The same for callers that refuse later: the valid options, and the refusal.
pub fn unchecked_delete_options(value: &Value) -> (DeleteOptions, Result<(), Status>) {
    let text = |path: &[&str]| value.str_at(path).map(str::to_owned);
    let policy = value.str_at(&["propagationPolicy"]);
    let dry_run: Vec<&str> = value
        .get("dryRun")
        .and_then(Value::as_list)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let options = DeleteOptions {
        grace_period_seconds: value.get("gracePeriodSeconds").and_then(Value::as_int),
        preconditions: Preconditions {
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
        },
        orphan_dependents: value.get("orphanDependents").and_then(Value::as_bool),
        propagation_policy: policy.and_then(Propagation::parse),
        dry_run: !dry_run.is_empty(),
    };
    let mut errors = Vec::new();
    if let (Some(_), Some(policy)) = (options.orphan_dependents, policy) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", quote(policy), detail));
    }
    if let Some(policy) = policy.filter(|_| options.propagation_policy.is_none()) {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::not_supported("propagationPolicy", quote(policy), &supported));
    }
    check_dry_run(&dry_run, &mut errors);
    (options, refuse("DeleteOptions", errors))
}

/// The query parameters of create, update and patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteQuery<'a> {
    pub dry_run: Vec<&'a str>,
    pub field_manager: &'a str,
    pub field_validation: &'a str,
    pub force: Option<bool>,
}

impl<'a> WriteQuery<'a> {
    /// `patch`: the type of a patch.
    pub fn parse(&self, verb: Verbs, patch: Option<PatchType>) -> Result<WriteOptions<'a>, Status> {
        let mut errors = Vec::new();
        match patch {
            Some(PatchType::Apply) if self.field_manager.is_empty() => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            Some(PatchType::Apply) | None => {}
            Some(_) if self.force.is_some() => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            Some(_) => {}
        }
        check_field_manager(self.field_manager, "fieldManager", &mut errors);
        check_dry_run(&self.dry_run, &mut errors);
        let field_validation = match self.field_validation {
            "" => FieldValidation::Warn,
            mode => FieldValidation::parse(mode).unwrap_or_else(|| {
                let modes = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", quote(mode), &modes));
                FieldValidation::Warn
            }),
        };
        let kind = match verb {
            Verbs::CREATE => "CreateOptions",
            Verbs::UPDATE => "UpdateOptions",
            _ => "PatchOptions",
        };
        refuse(kind, errors)?;
        Ok(WriteOptions {
            field_manager: self.field_manager,
            force: self.force.unwrap_or(false),
            dry_run: !self.dry_run.is_empty(),
            field_validation,
            names_field_validation: !self.field_validation.is_empty(),
        })
    }
}

fn check_dry_run(dry_run: &[&str], errors: &mut Vec<FieldError>) {
    if dry_run.iter().any(|d| *d != "All") {
        let shown = Value::List(dry_run.iter().map(|d| Value::from(*d)).collect());
        errors.push(FieldError::not_supported("dryRun", crate::metadata::shown(&shown), &["All"]));
    }
}

fn refuse(kind: &str, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", kind, "", errors)) }
}
