//! Kubernetes' JSONPath, as printer columns and references to fields use it: a path is parsed once and evaluated for each row.
//!
//! ```text
//! .status.conditions[?(@.type=="Ready")].status
//!   └─ Field status ─ Field conditions ─ Filter { Field type == Text Ready } ─ Field status
//! ```
//!
//! The language is the one of client-go's `util/jsonpath` with `AllowMissingKeys`, and its oddities are kept: a field
//! that is absent yields nothing, an index out of bounds is an error, and numbers are compared with numbers of their kind only.

mod eval;
mod parse;
mod unquote;

#[cfg(test)]
mod tests;

use object::Value;

pub use parse::ParseError;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    /// `{..}` blocks. A path that closes its own brace begins others; those can only fail.
    blocks: Vec<Vec<Node>>,
}

impl JsonPath {
    /// Parses what stands between the braces of a template: `.spec.replicas`.
    pub fn parse(path: &str) -> Result<JsonPath, ParseError> {
        let blocks = parse::template(&format!("{{{path}}}"), 0)?;
        Ok(JsonPath { blocks })
    }

    /// What the path leads to; `None` where upstream's evaluation fails.
    pub fn find<'a>(&'a self, object: &'a Value) -> Option<Vec<&'a Value>> {
        eval::find(&self.blocks, object)
    }
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Field(String),
    /// A text or number that stands in the path itself.
    Constant(Value),
    Slice(Slice),
    Wildcard,
    Recursive,
    Union(Vec<Vec<Node>>),
    Filter(Box<Filter>),
    /// A word such as `range`.
    Identifier,
}

/// `[start:end:step]`, or `[index]`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The end of the list.
    Open,
    At(i64),
    /// One element: the end follows from the start.
    AfterStart,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Node>,
    /// `None`: `left` must lead to something.
    comparison: Option<(Operator, Vec<Node>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Such as `=`: it parses, and evaluation fails.
    Unknown,
}
