//! Lists, maps, objects and loops.

use std::sync::Arc;

use super::assign::{is_dyn, most_general};
use super::{Checker, Reference};
use crate::ast::{Comprehension, Element, Entry, Expr, Id, Struct};
use crate::messages;
use crate::types::Type;

impl Checker<'_> {
    /// The type of an optional element's value.
    fn unwrapped(&mut self, value: &Expr, optional: bool) -> Type {
        let ty = self.type_of(value);
        if !optional {
            return ty;
        }
        if let Some(inner) = ty.as_optional() {
            return inner.clone();
        }
        if !is_dyn(&ty) {
            self.mismatch(value.id, &Type::optional(ty.clone()), &ty);
        }
        ty
    }

    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.mapping.is_assignable(&previous, &current) => {
                most_general(&previous, &current)
            }
            Some(_) => Type::Dyn,
        }
    }

    pub(super) fn check_list(&mut self, id: Id, elements: &mut [Element]) {
        let mut ty = None;
        for element in elements {
            self.check(&mut element.value);
            let own = self.unwrapped(&element.value, element.optional);
            ty = Some(self.join(ty, own));
        }
        let ty = ty.unwrap_or_else(|| self.mapping.fresh());
        self.set(id, Type::list(ty));
    }

    pub(super) fn check_map(&mut self, id: Id, entries: &mut [Entry]) {
        let (mut key, mut value) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let own = self.type_of(&entry.key);
            key = Some(self.join(key, own));
            self.check(&mut entry.value);
            let own = self.unwrapped(&entry.value, entry.optional);
            value = Some(self.join(value, own));
        }
        let key = key.unwrap_or_else(|| self.mapping.fresh());
        let value = value.unwrap_or_else(|| self.mapping.fresh());
        self.set(id, Type::map(key, value));
    }

    pub(super) fn check_struct(&mut self, id: Id, object: &mut Struct) {
        let Some(ident) = self.lookup(&object.name) else {
            let name = Arc::clone(&object.name);
            return self.undeclared(id, &name);
        };
        if let Some(name) = object.name.strip_prefix('.') {
            object.name = Arc::from(name);
        }
        self.refer(id, Reference::Name);
        let mut result = Type::Error;
        let mut type_name = object.name.to_string();
        match &ident {
            Type::Error => {}
            Type::Type(Some(inner)) => match &**inner {
                Type::Object(name) => {
                    type_name = name.to_string();
                    result = (**inner).clone();
                }
                other if messages::message_type(&type_name).is_some() => result = other.clone(),
                other => {
                    let message = format!("'{other}' is not a message type");
                    self.report(id, message);
                }
            },
            other => {
                let message = format!("'{}' is not a type", other.name());
                self.report(id, message);
            }
        }
        self.set(id, result.clone());
        for field in &mut object.fields {
            self.check(&mut field.value);
            let declared = self.field(field.id, &type_name, &field.name);
            let own = self.unwrapped(&field.value, field.optional);
            if !self.mapping.is_assignable(&declared, &own) {
                let message = format!(
                    "expected type of field '{}' is '{}' but provided type is '{}'",
                    field.name,
                    declared.checked_name(),
                    own.checked_name()
                );
                self.report(field.id, message);
            }
        }
    }

    pub(super) fn check_comprehension(&mut self, id: Id, c: &mut Comprehension) {
        self.check(&mut c.range);
        self.check(&mut c.init);
        let range = self.known(&self.type_of(&c.range));
        let accumulated = self.type_of(&c.init);
        self.one_type_only = false;
        let outer = self.scopes.len();
        self.scopes.push((Arc::clone(&c.accumulator), accumulated.clone()));
        let two = c.second.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(entry) => (entry[0].clone(), entry[1].clone()),
            Type::Dyn | Type::Error | Type::Var(_) | Type::Param(_) => {
                self.mapping.is_assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.checked_name()
                );
                self.report(c.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let inner = self.scopes.len();
        self.scopes.push((Arc::clone(&c.variable), first));
        if let Some(name) = &c.second {
            self.scopes.push((Arc::clone(name), second));
        }
        self.check(&mut c.condition);
        self.assert(&c.condition, &Type::Bool);
        self.check(&mut c.step);
        self.assert(&c.step, &accumulated);
        self.scopes.truncate(inner);
        self.check(&mut c.result);
        self.scopes.truncate(outer);
        let ty = self.known(&self.type_of(&c.result));
        self.set(id, ty);
    }

    fn assert(&mut self, expr: &Expr, ty: &Type) {
        let own = self.type_of(expr);
        if !self.mapping.is_assignable(ty, &own) {
            self.mismatch(expr.id, ty, &own);
        }
    }
}
