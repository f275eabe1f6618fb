//! CEL selectors of devices: compiled once, and asked once about each device.
//!
//! ```text
//! expression ──compile──> Compiled (cached, bounded) ──run over a Subject──> yes, no, or an error
//!                                                          └─ yes and no are kept with the slice, which never changes
//! ```

mod subject;
mod verdicts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use catalog::Name;
use cel::{Environment, Program, Type, TypeProvider, Val};
use parking_lot::Mutex;

pub(crate) use subject::Subject;
pub(crate) use verdicts::Verdicts;

use crate::slice::Slice;

const DEVICE: &str = "kubernetes.DRADevice";
/// What one evaluation may cost.
pub const MAX_COST: u64 = 1_000_000;
/// A cluster has a few classes and a few kinds of claims; what else there may be is compiled again.
const MAX_EXPRESSIONS: usize = 256;

/// The environment of expressions that are stored.
pub fn stored() -> &'static Environment {
    static STORED: LazyLock<Environment> =
        LazyLock::new(|| environment(&cel_schema::environments().stored_expressions));
    &STORED
}

/// What a selector may use, on top of what all expressions may: `device`, and `cel.bind`.
pub fn environment(base: &Environment) -> Environment {
    let device = (Name::from("device"), Type::object(DEVICE));
    base.with_bindings().extend([device], Some(Arc::new(DeviceType)))
}

/// The type of `device`. What an attribute is shows at run time.
struct DeviceType;

impl TypeProvider for DeviceType {
    fn is_object(&self, name: &str) -> bool {
        name == DEVICE
    }
    fn field(&self, _object: &str, field: &str) -> Option<Type> {
        let by_name = |value| Type::map(Type::String, Type::map(Type::String, value));
        Some(match field {
            "driver" => Type::String,
            "allowMultipleAllocations" => Type::Bool,
            "attributes" => by_name(Type::Any),
            "capacity" => by_name(Type::object("kubernetes.Quantity")),
            _ => return None,
        })
    }
}

/// Compiles an expression, or says why not as upstream does.
pub fn compile(environment: &Environment, expression: &str) -> Result<(cel::Checked, Program), CompileError> {
    let checked = environment
        .compile(expression)
        .map_err(|issues| CompileError::Invalid(format!("compilation failed: {issues}")))?;
    // It may be a boolean attribute, which nobody knows to be one.
    let ty = checked.output_type();
    if !matches!(ty, Type::Bool | Type::Any) {
        return Err(CompileError::Invalid(format!("must evaluate to bool or the unknown type, not {ty}")));
    }
    let program = environment.program(&checked);
    match program {
        Ok(program) => Ok((checked, program)),
        Err(error) => Err(CompileError::Internal(format!("program instantiation failed: {error}"))),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Internal(String),
}

/// Compiled expressions, those asked for least recently forgotten first.
#[derive(Default)]
pub struct Selectors {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// With the time of their last use.
    entries: BTreeMap<Arc<str>, (u64, Outcome)>,
    uses: u64,
}

pub(crate) type Outcome = Result<Arc<Compiled>, CompileError>;

pub(crate) struct Compiled {
    /// Unlike any other's.
    id: u64,
    program: Program,
}

impl Selectors {
    pub fn new() -> Selectors {
        Selectors::default()
    }

    pub(crate) fn get(&self, expression: &Arc<str>) -> Outcome {
        let mut cache = self.cache.lock();
        cache.uses += 1;
        let now = cache.uses;
        if let Some((used, outcome)) = cache.entries.get_mut(expression) {
            *used = now;
            return outcome.clone();
        }
        let outcome = Compiled::new(expression);
        if cache.entries.len() >= MAX_EXPRESSIONS {
            let oldest =
                cache.entries.iter().min_by_key(|(_, (used, _))| *used).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| cache.entries.remove(&oldest));
        }
        cache.entries.insert(expression.clone(), (now, outcome.clone()));
        outcome
    }
}

impl fmt::Debug for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selectors").field("expressions", &self.cache.lock().entries.len()).finish()
    }
}

impl Compiled {
    fn new(expression: &str) -> Outcome {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (_, program) = compile(stored(), expression)?;
        Ok(Arc::new(Compiled { id: NEXT.fetch_add(1, Ordering::Relaxed), program }))
    }

    /// Whether a device of a slice is selected; upstream's words if that cannot be said.
    pub(crate) fn matches(&self, slice: &Slice, device: usize) -> Result<bool, String> {
        if let Some(known) = slice.verdicts.get(self.id, device) {
            return Ok(known);
        }
        let verdict = self.evaluate(slice.devices[device].subject(&slice.driver))?;
        slice.verdicts.set(self.id, slice.devices.len(), device, verdict);
        Ok(verdict)
    }

    fn evaluate(&self, subject: &Subject) -> Result<bool, String> {
        let variables = subject.variables()?;
        let evaluation = self.program.eval_within(&variables, MAX_COST);
        match evaluation.result {
            Ok(Val::Bool(verdict)) => Ok(verdict),
            Ok(other) => Err(no_bool(&other)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// What Go says of a result that is no bool: an attribute is of any type.
fn no_bool(value: &Val<'_>) -> String {
    let name = value.type_name();
    let reason = match value {
        Val::Str(_) => "unsupported native conversion from string to 'bool'".to_owned(),
        Val::Opaque(_) => {
            format!("type conversion error from '{}' to 'bool'", name.rsplit('.').next().unwrap_or(""))
        }
        _ => format!("unsupported type conversion from '{name}' to bool"),
    };
    format!("CEL result of type {name} could not be converted to bool: {reason}")
}
