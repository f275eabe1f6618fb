//! Quantities: `quantity('1.5Gi').isLessThan(quantity('2G'))`.

#[cfg(test)]
mod tests;
mod value;

use std::any::Any;
use std::cmp::Ordering;

use super::arguments::{opaque, text};
use super::costs::{NOMINAL, PARSE};
use crate::error::Error;
use crate::function::{Function, Native, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::{Opaque, Val};

pub use value::Quantity;

fn quantity_type() -> Type {
    Type::object("kubernetes.Quantity")
}

pub fn library() -> Library {
    let one = &[quantity_type()][..];
    let two = &[quantity_type(), quantity_type()][..];
    let with_int = &[quantity_type(), Type::Int][..];
    let member = |name, id, parameters: &[Type], result, call: Native| {
        Function::new(name, [Overload::member(id, parameters, result, call)]).cost(NOMINAL)
    };
    let functions = vec![
        Function::new(
            "quantity",
            [Overload::global("string_to_quantity", [Type::String], quantity_type(), |args| {
                Ok(Val::opaque(parse(args)?))
            })],
        )
        .cost(PARSE),
        Function::new(
            "isQuantity",
            [Overload::global("is_quantity_string", [Type::String], Type::Bool, |args| {
                Ok(parse(args).is_ok().into())
            })],
        )
        .cost(PARSE),
        // Not a member, alone among them.
        Function::new(
            "sign",
            [Overload::global("quantity_sign", one, Type::Int, |args| {
                Ok(i64::from(receiver(args)?.amount().sign()).into())
            })],
        )
        .cost(NOMINAL),
        member("isGreaterThan", "quantity_is_greater_than", two, Type::Bool, |args| {
            Ok(compare(args)?.is_gt().into())
        }),
        member("isLessThan", "quantity_is_less_than", two, Type::Bool, |args| {
            Ok(compare(args)?.is_lt().into())
        }),
        member("compareTo", "quantity_compare_to", two, Type::Int, |args| Ok((compare(args)? as i64).into())),
        member("asApproximateFloat", "quantity_get_float", one, Type::Double, |args| {
            Ok(Val::Double(receiver(args)?.as_f64()))
        }),
        member("asInteger", "quantity_get_int", one, Type::Int, |args| {
            let integer = receiver(args)?.as_i64();
            integer.map(Val::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
        }),
        member("isInteger", "quantity_is_integer", one, Type::Bool, |args| {
            Ok(receiver(args)?.as_i64().is_some().into())
        }),
        Function::new(
            "add",
            [
                Overload::member("quantity_add", two, quantity_type(), |args| {
                    Ok(Val::opaque(receiver(args)?.add(opaque(args, 1)?)))
                }),
                Overload::member("quantity_add_int", with_int, quantity_type(), |args| {
                    Ok(Val::opaque(receiver(args)?.add(&int(args)?)))
                }),
            ],
        )
        .cost(NOMINAL),
        Function::new(
            "sub",
            [
                Overload::member("quantity_sub", two, quantity_type(), |args| {
                    Ok(Val::opaque(receiver(args)?.sub(opaque(args, 1)?)))
                }),
                Overload::member("quantity_sub_int", with_int, quantity_type(), |args| {
                    Ok(Val::opaque(receiver(args)?.sub(&int(args)?)))
                }),
            ],
        )
        .cost(NOMINAL),
    ];
    Library { functions, ..Library::default() }
}

fn parse(args: &[Val<'_>]) -> Result<Quantity, Error> {
    Quantity::parse(text(args, 0)?).map_err(|error| Error::new(error.to_string()))
}
fn receiver<'v>(args: &'v [Val<'_>]) -> Result<&'v Quantity, Error> {
    opaque(args, 0)
}
/// An int as the second operand.
fn int(args: &[Val<'_>]) -> Result<Quantity, Error> {
    args.get(1).and_then(Val::as_int).map(Quantity::from_i64).ok_or_else(Error::no_such_overload)
}
fn compare(args: &[Val<'_>]) -> Result<Ordering, Error> {
    Ok(receiver(args)?.amount().cmp(&opaque::<Quantity>(args, 1)?.amount()))
}

impl Opaque for Quantity {
    fn ty(&self) -> Type {
        quantity_type()
    }
    /// As upstream, no quantity equals one that has been computed, or rather: asking is an error.
    fn equal(&self, other: &Val<'_>) -> Result<bool, Error> {
        match other.as_opaque::<Quantity>() {
            Some(other) if !other.is_computed() => Ok(self.amount() == other.amount()),
            _ => Err(Error::no_such_overload()),
        }
    }
    fn text(&self) -> String {
        self.to_string()
    }
    fn go_type(&self) -> String {
        String::from(if self.is_computed() { "*cel.Quantity" } else { "cel.Quantity" })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
