//! What clients, metrics and the audit log hear of decisions.

use object::Value;

use crate::validating::Decision;

/// Audit annotations are cut off behind so many bytes.
pub const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

/// What a request that is denied is answered; `binding` is absent where the policy itself is at fault.
pub fn denied(policy: &str, binding: Option<&str>, message: &str) -> String {
    match binding {
        Some(binding) => {
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}")
        }
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
    }
}

/// The warning of the action Warn.
pub fn warning(policy: &str, binding: &str, message: &str) -> String {
    format!("Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}")
}

/// What is wrong with a policy or a binding that concerns a request but cannot be evaluated.
pub fn config_error(of_binding: bool, error: &str) -> String {
    format!("failed to configure {}: {error}", if of_binding { "binding" } else { "policy" })
}

/// The value of `validation.policy.admission.k8s.io/validation_failure`, of the action Audit.
pub fn failure_annotation(policy: &str, binding: &str, actions: &[&str], decision: &Decision) -> Value {
    let mut failure = Value::map();
    let map = failure.make_map();
    map.set("message", decision.message.as_str());
    map.set("policy", policy);
    map.set("binding", binding);
    map.set("expressionIndex", decision.index as i64);
    map.set("validationActions", Value::List(actions.iter().map(|action| Value::from(*action)).collect()));
    Value::List(vec![failure])
}

/// The label `error_type` of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    None,
    Compile,
    OutOfBudget,
    Invalid,
}

impl ErrorType {
    /// Of a decision that is no plain yes.
    pub fn of(decision: &Decision) -> ErrorType {
        ErrorType::of_message(&decision.message)
    }
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorType::None => "no_error",
            ErrorType::Compile => "compile_error",
            ErrorType::OutOfBudget => "out_of_budget",
            ErrorType::Invalid => "invalid_error",
        }
    }
    /// Of an error. Upstream tells by the words too.
    pub fn of_message(message: &str) -> ErrorType {
        if message.starts_with("compilation") {
            return ErrorType::Compile;
        }
        if message.starts_with("validation failed due to running out of cost budget") {
            return ErrorType::OutOfBudget;
        }
        ErrorType::Invalid
    }
}
