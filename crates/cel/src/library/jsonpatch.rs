//! Keys in the paths of JSON patches: `jsonpatch.escapeKey('k8s.io/my~label')`.
//!
//! Not one of [`LIBRARIES`]: only the environment of a mutating policy's patches has it.
//!
//! [`LIBRARIES`]: super::LIBRARIES

use super::arguments::text;
use super::costs;
use crate::cost::{CallEstimate, Cost};
use crate::function::{Function, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::Val;

pub fn library() -> Library {
    let escape =
        Overload::global("string_jsonpatch_escapeKey_string", [Type::String], Type::String, |args| {
            let key = text(args, 0)?;
            if !key.contains(['/', '~']) {
                return Ok(args[0].clone());
            }
            Ok(Val::string(key.replace('~', "~0").replace('/', "~1")))
        });
    let functions = vec![Function::new("jsonpatch.escapeKey", [escape]).cost(ESCAPE_KEY)];
    Library { functions, ..Library::default() }
}

/// The text is read once; the result is estimated to be as long.
const ESCAPE_KEY: Cost = Cost {
    actual: costs::parse_cost,
    estimate: |call| {
        let [key] = call.args else { return None };
        Some(CallEstimate { result_size: Some(call.size(key)), ..costs::parse_estimate(call)? })
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_and_tildes_are_escaped() {
        let escape = library().functions[0].overloads[0].call.expect("a body");
        for (key, escaped) in [("a", "a"), ("k8s.io/my~label", "k8s.io~1my~0label"), ("~1", "~01"), ("", "")]
        {
            assert_eq!(escape(&[Val::from(key)]).unwrap().as_str(), Some(escaped));
        }
    }
}
