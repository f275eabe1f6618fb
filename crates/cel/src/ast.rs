//! The tree of an expression, macros expanded.

use std::sync::Arc;

use crate::value::Val;

/// Numbers a node; types, references and places in the source are kept by it.
pub type Id = u32;

#[derive(Clone, Debug)]
pub struct Expr {
    pub id: Id,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// In place of what could not be parsed.
    Unspecified,
    Literal(Val<'static>),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct(Box<Struct>),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub struct Select {
    pub operand: Expr,
    pub field: Arc<str>,
    /// `has(operand.field)`.
    pub test: bool,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub function: Arc<str>,
    pub target: Option<Expr>,
    pub args: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub struct Element {
    pub value: Expr,
    /// `[?x]`: left out if there is no value.
    pub optional: bool,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

#[derive(Clone, Debug)]
pub struct Struct {
    pub name: Arc<str>,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub id: Id,
    pub name: Arc<str>,
    pub value: Expr,
    pub optional: bool,
}

/// A loop: `accumulator = init; for each of range { if !condition { break } accumulator = step }; result`.
#[derive(Clone, Debug)]
pub struct Comprehension {
    pub range: Expr,
    pub variable: Arc<str>,
    /// The value, if `variable` is the key or index.
    pub second: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Ast {
    pub root: Expr,
    pub source: Arc<Source>,
    /// Where each node starts, in characters; `None` for what macros replaced.
    pub(crate) offsets: Vec<Option<u32>>,
}

impl Ast {
    /// Where a node starts.
    pub fn location(&self, id: Id) -> Option<Location> {
        let offset = (*self.offsets.get(id as usize)?)?;
        Some(self.source.location(offset))
    }
}

impl Expr {
    pub fn new(id: Id, kind: Kind) -> Expr {
        Expr { id, kind }
    }
    /// The name a chain of identifiers and fields spells (`a.b.c`).
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select(select) if !select.test => {
                let mut name = select.operand.qualified_name()?;
                name.push('.');
                name.push_str(&select.field);
                Some(name)
            }
            _ => None,
        }
    }
    /// Calls `f` with each child, in the order of the source.
    pub fn children<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select(select) => f(&select.operand),
            Kind::Call(call) => call.target.iter().chain(&call.args).for_each(f),
            Kind::List(elements) => elements.iter().for_each(|element| f(&element.value)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                f(&entry.key);
                f(&entry.value);
            }),
            Kind::Struct(object) => object.fields.iter().for_each(|field| f(&field.value)),
            Kind::Comprehension(c) => {
                [&c.range, &c.init, &c.condition, &c.step, &c.result].into_iter().for_each(f);
            }
        }
    }
}

/// The text of an expression.
#[derive(Debug)]
pub struct Source {
    pub(crate) chars: Vec<char>,
    /// Where the second and later lines start, in characters.
    lines: Vec<u32>,
}

/// A place: lines from 1, columns from 0, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub line: i32,
    pub column: i32,
}

impl Location {
    /// Of what is no place in particular.
    pub const NONE: Location = Location { line: -1, column: -1 };
    /// Of what upstream could not read, or has nothing to read in.
    pub(crate) const UNREAD: Location = Location { line: 1, column: -1 };
}

impl Source {
    pub fn new(text: &str) -> Source {
        let chars: Vec<char> = text.chars().collect();
        let lines =
            chars.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(at, _)| at as u32 + 1).collect();
        Source { chars, lines }
    }
    pub fn location(&self, offset: u32) -> Location {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = if line == 0 { 0 } else { self.lines[line - 1] };
        Location { line: line as i32 + 1, column: (offset - start) as i32 }
    }
    /// The characters of a line.
    pub(crate) fn line(&self, line: i32) -> Option<&[char]> {
        let index = usize::try_from(line - 1).ok()?;
        if self.chars.is_empty() || index > self.lines.len() {
            return None;
        }
        let start = if index == 0 { 0 } else { self.lines[index - 1] as usize };
        let end = self.lines.get(index).map_or(self.chars.len(), |next| *next as usize - 1);
        Some(&self.chars[start..end])
    }
}
