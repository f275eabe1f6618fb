//! Semantic versions: `semver('1.2.3').isLessThan(semver('2.0.0'))`.

#[cfg(test)]
mod tests;
mod version;

use std::any::Any;
use std::cmp::Ordering;

use super::arguments::{opaque, text};
use super::costs::{NOMINAL, PARSE};
use crate::error::Error;
use crate::function::{Function, Native, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::{Opaque, Val};

pub use version::Version;

fn semver_type() -> Type {
    Type::object("kubernetes.Semver")
}

pub fn library() -> Library {
    let member = |name, id, parameters: &[Type], result, call: Native| {
        Function::new(name, [Overload::member(id, parameters, result, call)]).cost(NOMINAL)
    };
    let one = &[semver_type()][..];
    let two = &[semver_type(), semver_type()][..];
    let functions = vec![
        Function::new(
            "semver",
            [
                Overload::global("string_to_semver", [Type::String], semver_type(), |args| {
                    parse(args).map(Val::opaque)
                }),
                Overload::global(
                    "string_bool_to_semver",
                    [Type::String, Type::Bool],
                    semver_type(),
                    |args| parse(args).map(Val::opaque),
                ),
            ],
        )
        .cost(PARSE),
        Function::new(
            "isSemver",
            [
                Overload::global("is_semver_string", [Type::String], Type::Bool, |args| {
                    Ok(parse(args).is_ok().into())
                }),
                Overload::global("is_semver_string_bool", [Type::String, Type::Bool], Type::Bool, |args| {
                    Ok(parse(args).is_ok().into())
                }),
            ],
        )
        .cost(PARSE),
        member("isGreaterThan", "semver_is_greater_than", two, Type::Bool, |args| {
            Ok(compare(args)?.is_gt().into())
        }),
        member("isLessThan", "semver_is_less_than", two, Type::Bool, |args| {
            Ok(compare(args)?.is_lt().into())
        }),
        member("compareTo", "semver_compare_to", two, Type::Int, |args| Ok((compare(args)? as i64).into())),
        // Beyond what an int holds they turn negative, as upstream's.
        member("major", "semver_major", one, Type::Int, |args| Ok((receiver(args)?.major as i64).into())),
        member("minor", "semver_minor", one, Type::Int, |args| Ok((receiver(args)?.minor as i64).into())),
        member("patch", "semver_patch", one, Type::Int, |args| Ok((receiver(args)?.patch as i64).into())),
    ];
    Library { functions, ..Library::default() }
}

/// The second argument asks for normalisation.
fn parse(args: &[Val<'_>]) -> Result<Version, Error> {
    let parsed = match args.get(1).map(Val::as_bool) {
        Some(None) => return Err(Error::no_such_overload()),
        Some(Some(true)) => Version::parse_normalised(text(args, 0)?),
        Some(Some(false)) | None => Version::parse(text(args, 0)?),
    };
    parsed.map_err(Error::new)
}

fn receiver<'v>(args: &'v [Val<'_>]) -> Result<&'v Version, Error> {
    opaque(args, 0)
}
fn compare(args: &[Val<'_>]) -> Result<Ordering, Error> {
    Ok(receiver(args)?.precedence(opaque(args, 1)?))
}

impl Opaque for Version {
    fn ty(&self) -> Type {
        semver_type()
    }
    fn equal(&self, other: &Val<'_>) -> Result<bool, Error> {
        let other = other.as_opaque::<Version>().ok_or_else(Error::no_such_overload)?;
        Ok(self.precedence(other).is_eq())
    }
    fn text(&self) -> String {
        self.to_string()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
