//! `format` calls with a constant format and a literal list of arguments, validated with the expression.

use crate::ast::{Call, Expr, Id, Kind};
use crate::library::strings::format::{Piece, Reader, Verb};
use crate::types::Type;

/// What is wrong with a call, and where: at the argument that cannot be written, or at the call itself.
pub(crate) fn check<'t>(id: Id, call: &Call, type_of: &dyn Fn(Id) -> &'t Type) -> Result<(), (Id, String)> {
    let (Some(Expr { kind: Kind::Literal(format), .. }), [Expr { kind: Kind::List(arguments), .. }]) =
        (&call.target, &call.args[..])
    else {
        return Ok(());
    };
    let Some(format) = format.as_str().filter(|_| &*call.function == "format") else { return Ok(()) };
    let mut reader = Reader::new(format);
    while let Some(piece) = reader.next(arguments.len()) {
        if let Piece::Clause { index, verb } = piece.map_err(|error| (id, error))? {
            accepted(verb, &arguments[index].value, type_of)
                .map_err(|(id, error)| (id, format!("error during formatting: {error}")))?;
        }
    }
    match arguments.len() {
        given if given > reader.clauses => Err((
            id,
            format!(
                "too many arguments supplied to string.format (expected {}, got {given})",
                reader.clauses
            ),
        )),
        _ => Ok(()),
    }
}

fn accepted<'t>(verb: Verb, argument: &Expr, type_of: &dyn Fn(Id) -> &'t Type) -> Result<(), (Id, String)> {
    verb.accepts(type_of(argument.id)).map_err(|error| (argument.id, error))?;
    // Literals show more than their type, which may be `list(dyn)`. They nest no deeper than expressions may.
    match (&argument.kind, verb) {
        (Kind::List(elements), Verb::String) => {
            elements.iter().try_for_each(|element| accepted(verb, &element.value, type_of))
        }
        (Kind::Map(entries), Verb::String) => entries.iter().try_for_each(|entry| {
            accepted(verb, &entry.key, type_of)?;
            accepted(verb, &entry.value, type_of)
        }),
        _ => Ok(()),
    }
}
