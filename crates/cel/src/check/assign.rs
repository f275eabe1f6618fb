//! When a value of one type may stand where another is wanted.

use crate::types::Type;

/// What free variables turned out to be, with the way back from an attempt that failed.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    known: Vec<Option<Type>>,
    /// Earlier entries, newest last.
    undo: Vec<(u32, Option<Type>)>,
}

impl Mapping {
    pub(super) fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Var(self.known.len() as u32 - 1)
    }
    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Var(number) => self.known.get(*number as usize)?.as_ref(),
            _ => None,
        }
    }
    fn set(&mut self, ty: &Type, to: Type) {
        if let Type::Var(number) = ty
            && let Some(slot) = self.known.get_mut(*number as usize)
        {
            self.undo.push((*number, slot.replace(to)));
        }
    }
    /// Runs an attempt; if it fails, nothing was learnt.
    fn attempt(&mut self, run: impl FnOnce(&mut Self) -> bool) -> bool {
        let mark = self.undo.len();
        let ok = run(self);
        if !ok {
            while self.undo.len() > mark {
                if let Some((number, earlier)) = self.undo.pop() {
                    self.known[number as usize] = earlier;
                }
            }
        }
        if mark == 0 {
            self.undo.clear();
        }
        ok
    }

    pub(super) fn is_assignable(&mut self, to: &Type, from: &Type) -> bool {
        self.attempt(|m| m.assignable(to, from))
    }
    pub(super) fn all_assignable(&mut self, to: &[Type], from: &[Type]) -> bool {
        self.attempt(|m| m.assignable_lists(to, from))
    }

    fn assignable_lists(&mut self, to: &[Type], from: &[Type]) -> bool {
        to.len() == from.len() && to.iter().zip(from).all(|(to, from)| self.assignable(to, from))
    }

    fn assignable(&mut self, t1: &Type, t2: &Type) -> bool {
        if let Type::Var(_) = t2 {
            match self.substitution(t1, t2) {
                (true, _) => return true,
                (false, true) => return false,
                // Perhaps the other way round.
                (false, false) => {}
            }
        }
        if let Type::Var(_) = t1 {
            return self.substitution(t2, t1).0;
        }
        if is_dyn(t1) || is_dyn(t2) || *t1 == Type::Error || *t2 == Type::Error {
            return true;
        }
        match (t1, t2) {
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Type(_), other) => matches!(other, Type::Type(_)),
            (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) => {
                self.assignable_lists(t1.parameters(), t2.parameters())
            }
            (Type::Opaque(a, ours), Type::Opaque(b, theirs)) => a == b && self.assignable_lists(ours, theirs),
            (Type::Wrapper(inner), other) => self.assignable(inner, other),
            (own, Type::Wrapper(inner)) => self.assignable(own, inner),
            (a, b) => a == b,
        }
    }

    /// Whether `t1` is a substitution for the variable `t2`, and whether that has one already.
    fn substitution(&mut self, t1: &Type, t2: &Type) -> (bool, bool) {
        if t1 == t2 {
            return (true, true);
        }
        if let Some(known) = self.find(t2).cloned() {
            if *t1 == known {
                return (true, true);
            }
            if self.assignable(t1, &known) {
                let general = most_general(t1, &known);
                if self.absent(t2, &general) {
                    self.set(t2, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.absent(t2, t1) {
            self.set(t2, t1.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether `ty` does not occur in `within`.
    fn absent(&self, ty: &Type, within: &Type) -> bool {
        if ty == within {
            return false;
        }
        match within {
            Type::Var(_) => self.find(within).is_none_or(|known| self.absent(ty, known)),
            Type::Opaque(..) | Type::List(_) | Type::Map(_) | Type::Type(_) => {
                within.parameters().iter().all(|inner| self.absent(ty, inner))
            }
            _ => true,
        }
    }

    /// The type with what is known of its variables; what is not becomes `dyn` if `finally`.
    pub(super) fn substitute(&self, ty: &Type, finally: bool) -> Type {
        if let Some(known) = self.find(ty) {
            return self.substitute(known, finally);
        }
        ty.map_variables(&mut |ty| match ty {
            Type::Var(_) => match self.find(ty) {
                Some(known) => Some(self.substitute(known, finally)),
                None => finally.then_some(Type::Dyn),
            },
            Type::Param(_) if finally => Some(Type::Dyn),
            _ => None,
        })
    }
}

pub(super) fn is_dyn(ty: &Type) -> bool {
    matches!(ty, Type::Dyn | Type::Any)
}

fn nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null
            | Type::Opaque(..)
            | Type::Object(_)
            | Type::Any
            | Type::Duration
            | Type::Timestamp
            | Type::Wrapper(_)
            | Type::Dyn
            | Type::Param(_)
    )
}

pub(super) fn most_general(t1: &Type, t2: &Type) -> Type {
    if at_most_as_specific(t1, t2) { t1.clone() } else { t2.clone() }
}

fn at_most_as_specific(t1: &Type, t2: &Type) -> bool {
    let open = |ty: &Type| is_dyn(ty) || matches!(ty, Type::Param(_) | Type::Var(_));
    if open(t1) {
        return true;
    }
    if open(t2) {
        return false;
    }
    match (t1, t2) {
        (Type::Opaque(a, ours), Type::Opaque(b, theirs)) => {
            a == b
                && ours.len() == theirs.len()
                && ours.iter().zip(theirs.iter()).all(|(a, b)| at_most_as_specific(a, b))
        }
        (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) => {
            t1.parameters().iter().zip(t2.parameters()).all(|(a, b)| at_most_as_specific(a, b))
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => t1 == t2,
    }
}
