//! The standard library.

use crate::function::{Function, Overload};
use crate::library::Library;
use crate::types::Type;

pub fn library() -> Library {
    let functions = vec![Function::new(
        "startsWith",
        [Overload::member("starts_with_string", [Type::String, Type::String], Type::Bool, |args| {
            let (Some(text), Some(prefix)) = (args[0].as_str(), args[1].as_str()) else {
                return Err(crate::Error::no_such_overload());
            };
            Ok(text.starts_with(prefix).into())
        })],
    )];
    Library { functions, ..Library::default() }
}
