//! What is refused although its types fit: literals that cannot be what they are for, lists and maps of mixed types.

use std::sync::Arc;

use regexp::Regexp;

use super::Checked;
use crate::ast::{Call, Expr, Id, Kind, Location};
use crate::environment::Environment;
use crate::issue::Issues;
use crate::ops::convert;
use crate::types::Type;
use crate::value::Val;

pub(super) fn validate(env: &Environment, checked: &Checked) -> Result<(), Issues> {
    let mut validator = Validator { env, checked, issues: Issues::new(Arc::clone(&checked.ast.source)) };
    validator.visit(&checked.ast.root, false);
    if validator.issues.is_empty() { Ok(()) } else { Err(validator.issues) }
}

struct Validator<'c> {
    env: &'c Environment,
    checked: &'c Checked,
    issues: Issues,
}

impl<'c> Validator<'c> {
    /// Looks at a node and what is in it; `mixed` if literals may mix types there.
    fn visit(&mut self, expr: &'c Expr, mut mixed: bool) {
        if let Kind::Call(call) = &expr.kind {
            if self.env.validates_literals() {
                self.literal(call);
            }
            if let Some(validate) = self.env.function(&call.function).and_then(|function| function.validate) {
                let checked = self.checked;
                if let Err((at, message)) = validate(expr.id, call, &|id| checked.type_of(id)) {
                    self.report(at, message);
                }
                mixed = true;
            }
        }
        if !mixed {
            self.homogeneous(expr);
        }
        let mut children = Vec::new();
        expr.children(&mut |child| children.push(child));
        object::deep(|| children.into_iter().for_each(|child| self.visit(child, mixed)));
    }

    fn report(&mut self, id: Id, message: String) {
        self.issues.report(self.checked.ast.location(id).unwrap_or(Location::NONE), message);
    }

    /// The first argument, if it is constant, has to be one the function accepts.
    fn literal(&mut self, call: &Call) {
        let Some(arg) = call.args.first() else { return };
        let Kind::Literal(value) = &arg.kind else { return };
        let fits = match (&*call.function, value) {
            ("duration", value) => convert(value, &Type::Duration).is_ok(),
            ("timestamp", value) => convert(value, &Type::Timestamp).is_ok(),
            ("matches", Val::Str(pattern)) => Regexp::check(pattern).is_ok(),
            _ => true,
        };
        if !fits {
            self.report(arg.id, format!("invalid {} argument", call.function));
        }
    }

    fn homogeneous(&mut self, expr: &'c Expr) {
        match &expr.kind {
            Kind::List(elements) => {
                let mut expected: Option<&Type> = None;
                for element in elements {
                    let ty = self.element_type(&element.value, element.optional);
                    match expected {
                        None => expected = Some(ty),
                        Some(expected) if !equivalent(expected, ty) => {
                            self.mismatch(element.value.id, expected, ty);
                            break;
                        }
                        Some(_) => {}
                    }
                }
            }
            Kind::Map(entries) => {
                let mut expected: Option<(&Type, &Type)> = None;
                for entry in entries {
                    let key = self.element_type(&entry.key, false);
                    let value = self.element_type(&entry.value, entry.optional);
                    match expected {
                        None => expected = Some((key, value)),
                        Some((expected_key, expected_value)) => {
                            if !equivalent(expected_key, key) {
                                self.mismatch(entry.key.id, expected_key, key);
                            }
                            if !equivalent(expected_value, value) {
                                self.mismatch(entry.value.id, expected_value, value);
                            }
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn element_type(&self, value: &Expr, optional: bool) -> &'c Type {
        let ty = self.checked.type_of(value.id);
        // Upstream takes the first parameter of whatever type an optional element has.
        if optional { ty.parameters().first().unwrap_or(ty) } else { ty }
    }

    fn mismatch(&mut self, id: Id, expected: &Type, actual: &Type) {
        let message =
            format!("expected type '{}' but found '{}'", expected.checked_name(), actual.checked_name());
        self.report(id, message);
    }
}

/// Equal, a type and its wrapper being one.
fn equivalent(a: &Type, b: &Type) -> bool {
    let plain = |ty: &Type| match ty {
        Type::Wrapper(inner) => (**inner).clone(),
        other => other.clone(),
    };
    plain(a) == plain(b)
}
