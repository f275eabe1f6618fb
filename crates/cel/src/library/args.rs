//! Reading a function's arguments.

use crate::error::Error;
use crate::value::{Opaque, Val};

/// A text.
pub(super) fn text<'v>(args: &'v [Val<'_>], at: usize) -> Result<&'v str, Error> {
    args.get(at).and_then(Val::as_str).ok_or_else(Error::no_such_overload)
}

/// A value of a library's type.
pub(super) fn opaque<'v, T: Opaque>(args: &'v [Val<'_>], at: usize) -> Result<&'v T, Error> {
    args.get(at).and_then(Val::as_opaque).ok_or_else(Error::no_such_overload)
}
