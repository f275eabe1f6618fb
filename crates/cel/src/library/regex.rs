//! `find` and `findAll`.

use std::sync::Arc;

use regexp::{LazyRegexp, Regexp};

use crate::cost::{ActualCall, CallEstimate, Cost, EstimatedCall, REGEX_LENGTH, Range, STRING_TRAVERSAL};
use crate::error::Error;
use crate::function::{Compiled, Function, Overload};
use crate::library::Library;
use crate::library::arguments::{int, part, text};
use crate::library::costs::ceil;
use crate::types::Type;
use crate::value::{Text, Val};

const COST: Cost = Cost { actual, estimate };

pub fn library() -> Library {
    use Type::{Int, String};
    let texts = || Type::list(String);
    let functions = vec![
        Function::new("find", [Overload::member("string_find_string", [String, String], String, find)])
            .pattern(1, compile_find)
            .cost(COST),
        Function::new(
            "findAll",
            [
                Overload::member("string_find_all_string", [String, String], texts(), find_all),
                Overload::member("string_find_all_string_int", [String, String, Int], texts(), find_all),
            ],
        )
        .pattern(1, compile_find_all)
        .cost(COST),
    ];
    Library { functions, ..Library::default() }
}

fn find<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let pattern = pattern(text(args, 1)?)?;
    first_match(&pattern, args)
}

fn find_all<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let pattern = pattern(text(args, 1)?)?;
    all_matches(&pattern, args)
}

fn pattern(text: &str) -> Result<Regexp, Error> {
    Regexp::new(text).map_err(|error| Error::new(format!("Illegal regex: {error}")))
}

fn compile_find(text: &str) -> Result<Compiled, Error> {
    let pattern = LazyRegexp::new(text)?;
    Ok(Arc::new(move |args: &[Val<'_>]| first_match(pattern.get()?, args)))
}

fn compile_find_all(text: &str) -> Result<Compiled, Error> {
    let pattern = LazyRegexp::new(text)?;
    Ok(Arc::new(move |args: &[Val<'_>]| all_matches(pattern.get()?, args)))
}

fn first_match<'a>(pattern: &Regexp, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let text = subject(args)?;
    Ok(pattern.find(&text).map_or(Val::from(""), |found| part(&text, found.range())))
}

fn all_matches<'a>(pattern: &Regexp, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let text = subject(args)?;
    let limit = match args.len() {
        3 => usize::try_from(int(args, 2)?).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let found = pattern.find_iter(&text).take(limit);
    Ok(Val::list(found.map(|found| part(&text, found.range())).collect()))
}

/// With a constant pattern nothing looks at the receiver's type before, and upstream takes what is a string in Go: a type, by its name.
fn subject<'a>(args: &[Val<'a>]) -> Result<Text<'a>, Error> {
    match args.first() {
        Some(Val::Str(text)) => Ok(text.clone()),
        Some(Val::Type(ty)) => Ok(Text::Shared(ty.name().into())),
        _ => Err(Error::no_such_overload()),
    }
}

fn actual(call: &ActualCall<'_, '_>) -> Option<u64> {
    let [text, pattern, ..] = call.args else { return None };
    // The empty text still costs what the pattern does.
    let text = ((1.0 + text.cost_size() as f64) * STRING_TRAVERSAL).ceil() as u64;
    Some(text.saturating_mul(ceil(pattern.cost_size(), REGEX_LENGTH)))
}

fn estimate(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let (target, pattern) = (call.target?, call.args.first()?);
    let size = call.size(target);
    let text = (size + Range::fixed(1)).scale(STRING_TRAVERSAL);
    let cost = text * call.size(pattern).scale(REGEX_LENGTH);
    // At worst every character is a match.
    Some(CallEstimate { cost, result_size: Some(Range { min: 0, max: size.max }) })
}

#[cfg(test)]
mod tests;
