//! From text to a tree.
//!
//! ```text
//! text ──lex──> tokens ──grammar──> tree, macros expanded where their calls are read
//!                          └─ an unexpected token: reported and recovered from as ANTLR does
//! ```

mod grammar;
pub(crate) mod lex;
mod literal;
mod macros;
mod recovery;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::ast::{Ast, Expr, Id, Kind, Location, Source};
use crate::issue::Issues;
use lex::Lexeme;
use recovery::Recovery;

/// Longest expression, in characters.
const MAX_LENGTH: usize = 100_000;
/// Deepest nesting, of each rule of the grammar and of the tree.
const MAX_DEPTH: u32 = 250;

/// What the grammar of an environment has beyond the standard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Syntax {
    /// `a.?b`, `a[?k]`, `[?x]`, `{?k: v}`, `optMap`, `optFlatMap`.
    pub optional: bool,
    /// Comprehensions over keys and values.
    pub two_variables: bool,
    /// `list.sortBy(x, key)`.
    pub sort_by: bool,
    /// `cel.bind(name, value, expression)`.
    pub bindings: bool,
}

/// Parses an expression and expands its macros.
pub fn parse(text: &str, syntax: Syntax) -> Result<Ast, Issues> {
    let source = Arc::new(Source::new(text));
    let mut issues = Issues::new(Arc::clone(&source));
    let length = source.chars.len();
    if length > MAX_LENGTH {
        issues.report(
            Location::NONE,
            format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"),
        );
        return Err(issues);
    }
    let (lexemes, unreadable) = lex::lex(&source);
    for (from, to) in &unreadable {
        let skipped: String = source.chars[*from as usize..*to as usize].iter().collect();
        let message = format!("Syntax error: token recognition error at: '{skipped}'");
        issues.report(source.location(*from), message);
    }
    let mut parser = Parser {
        source: &source,
        lexemes: &lexemes,
        unreadable: &unreadable,
        at: 0,
        syntax,
        recovery: Recovery::default(),
        found: Vec::new(),
        offsets: vec![None],
        depth: [0; 3],
    };
    let root = parser.start();
    let Parser { recovery, found, offsets, .. } = parser;
    // Of the tree itself after what is wrong with the tokens.
    for (location, message) in recovery.reported.into_iter().chain(found) {
        issues.report(location, message);
    }
    if let Err(Refused::TooDeep(message)) = root {
        issues.report(Location::NONE, message);
    }
    match root {
        Ok(root) if issues.is_empty() => Ok(Ast { root, source, offsets }),
        _ => Err(issues),
    }
}

/// Why parsing ends early.
enum Refused {
    /// Enough was reported.
    Syntax,
    TooDeep(&'static str),
}

struct Parser<'s> {
    source: &'s Source,
    lexemes: &'s [Lexeme],
    /// What is part of no token.
    unreadable: &'s [(u32, u32)],
    at: usize,
    syntax: Syntax,
    recovery: Recovery,
    /// What is wrong with the tree.
    found: Vec<(Location, String)>,
    /// By node: where it starts. What macros replaced has no place any more.
    offsets: Vec<Option<u32>>,
    /// How deep each rule that nests is in itself.
    depth: [u32; 3],
}

impl Parser<'_> {
    /// A new node's number.
    fn id(&mut self, offset: u32) -> Id {
        self.offsets.push(Some(offset));
        self.offsets.len() as Id - 1
    }
    /// A node that macros replaced. The last number is given again.
    fn forget(&mut self, id: Id) {
        if id as usize + 1 == self.offsets.len() {
            self.offsets.pop();
        } else {
            self.offsets[id as usize] = None;
        }
    }
    fn offset(&self, id: Id) -> u32 {
        self.offsets.get(id as usize).copied().flatten().unwrap_or(0)
    }
    /// Reports what is wrong with the node that starts here, which stays unspecified.
    fn error(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        self.found.push((self.source.location(offset), message.into()));
        let id = self.id(offset);
        Expr::new(id, Kind::Unspecified)
    }
    fn text(&self, lexeme: Lexeme) -> String {
        self.source.chars[lexeme.start as usize..lexeme.end as usize].iter().collect()
    }
}
