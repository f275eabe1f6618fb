//! What functions are called with, and how much they may make of it.

use crate::error::Error;
use crate::value::{List, Opaque, Text, Val};

/// The longest text a function returns, in bytes: reading it would cost more than an expression may.
pub(super) const MAX_TEXT: usize = 32 << 20;

/// The most elements a function visits or returns.
pub(super) const MAX_ELEMENTS: usize = 4_000_000;

/// The most comparisons a function makes: they cost more than an expression may.
pub(super) const MAX_COMPARISONS: usize = 16_000_000;

pub(super) fn text<'v>(args: &'v [Val<'_>], index: usize) -> Result<&'v str, Error> {
    args.get(index).and_then(Val::as_str).ok_or_else(Error::no_such_overload)
}

pub(super) fn int(args: &[Val<'_>], index: usize) -> Result<i64, Error> {
    args.get(index).and_then(Val::as_int).ok_or_else(Error::no_such_overload)
}

pub(super) fn list<'v, 'a>(args: &'v [Val<'a>], index: usize) -> Result<&'v List<'a>, Error> {
    args.get(index).and_then(Val::as_list).ok_or_else(Error::no_such_overload)
}

/// A value of a library's type.
pub(super) fn opaque<'v, T: Opaque>(args: &'v [Val<'_>], index: usize) -> Result<&'v T, Error> {
    args.get(index).and_then(Val::as_opaque).ok_or_else(Error::no_such_overload)
}

/// A part of a text, borrowed if the text is.
pub(super) fn part<'a>(whole: &Text<'a>, range: std::ops::Range<usize>) -> Val<'a> {
    match whole {
        Text::Borrowed(text) => Val::from(&text[range]),
        Text::Shared(text) if range == (0..text.len()) => Val::Str(whole.clone()),
        Text::Shared(text) => Val::string(&text[range]),
    }
}
