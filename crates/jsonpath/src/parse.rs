//! Template text to nodes. The words of errors are client-go's.

use object::Value;
use thiserror::Error;

use super::unquote::unquote;
use super::{End, Filter, Node, Operator, Slice};

/// Filters stand in filters two deep at most, since each level needs quotes of its own. This bound holds
/// whatever the grammar allows.
const MAX_NESTING: usize = 8;

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    #[error("unclosed action")]
    UnclosedAction,
    #[error("unrecognized character in action: {}", unicode(*.0))]
    UnrecognizedCharacter(char),
    #[error("invalid multiple recursive descent")]
    MultipleRecursiveDescent,
    #[error("cannot parse number {0}")]
    Number(String),
    #[error("unterminated array")]
    UnterminatedArray,
    #[error("invalid array index {0}")]
    ArrayIndex(String),
    #[error("array index {0} is not a number")]
    ArrayIndexNumber(String),
    #[error("unterminated filter")]
    UnterminatedFilter,
    #[error("unclosed array expect ]")]
    UnclosedArray,
    #[error("unterminated quoted string")]
    UnterminatedQuotedString,
    #[error("unquote string {0} error invalid syntax")]
    Unquote(String),
    #[error("filters are nested too deeply")]
    TooDeep,
}

/// Go's `%#U`.
fn unicode(c: char) -> String {
    let code = u32::from(c);
    if c.is_control() { format!("U+{code:04X}") } else { format!("U+{code:04X} '{c}'") }
}

/// The blocks of a template. Text between them is dropped: it neither fails nor counts.
pub(super) fn template(text: &str, nesting: usize) -> Result<Vec<Vec<Node>>, ParseError> {
    if nesting > MAX_NESTING {
        return Err(ParseError::TooDeep);
    }
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, inside)) = rest.split_once('{') {
        let mut parser = Parser { rest: inside, nesting };
        blocks.push(parser.block()?);
        rest = parser.rest;
    }
    Ok(blocks)
}

struct Parser<'a> {
    rest: &'a str,
    nesting: usize,
}

impl<'a> Parser<'a> {
    /// Up to and including the closing brace.
    fn block(&mut self) -> Result<Vec<Node>, ParseError> {
        let mut nodes = Vec::new();
        loop {
            if self.eat("}") {
                return Ok(nodes);
            }
            if self.eat("[?(") {
                nodes.push(self.filter()?);
                continue;
            }
            if self.rest.starts_with("..") {
                if nodes.last() == Some(&Node::Recursive) {
                    return Err(ParseError::MultipleRecursiveDescent);
                }
                self.eat("..");
                nodes.push(Node::Recursive);
                if self.rest.chars().next().is_some_and(is_alphanumeric) {
                    nodes.push(self.field());
                }
                continue;
            }
            match self.rest.chars().next() {
                None | Some('\r' | '\n') => return Err(ParseError::UnclosedAction),
                // `@` and `$` are the current object.
                Some(' ' | '@' | '$') => self.rest = &self.rest[1..],
                Some('[') => self.array(&mut nodes)?,
                Some(quote @ ('"' | '\'')) => nodes.push(self.quoted(quote)?),
                Some('.') => {
                    self.rest = &self.rest[1..];
                    nodes.push(self.field());
                }
                Some(c) if matches!(c, '+' | '-') || c.is_numeric() => nodes.push(self.number()?),
                Some(c) if is_alphanumeric(c) => nodes.push(self.identifier()),
                Some(c) => return Err(ParseError::UnrecognizedCharacter(c)),
            }
        }
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let after = self.rest.strip_prefix(prefix);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// The next `bytes` bytes.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// A name up to a terminator; a backslash takes the next character as it is.
    fn field(&mut self) -> Node {
        let mut escaped = false;
        let end = self.rest.find(|c| {
            let ends = !escaped && is_terminator(c);
            escaped = !escaped && c == '\\';
            ends
        });
        match self.take(end.unwrap_or(self.rest.len())) {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        }
    }

    fn identifier(&mut self) -> Node {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        match self.take(end) {
            "true" => Node::Constant(Value::Bool(true)),
            "false" => Node::Constant(Value::Bool(false)),
            _ => Node::Identifier,
        }
    }

    fn number(&mut self) -> Result<Node, ParseError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let end = self.rest[sign..].find(|c: char| c != '.' && !c.is_numeric());
        let text = self.take(end.map_or(self.rest.len(), |end| sign + end));
        if let Ok(int) = text.parse::<i64>() {
            return Ok(Node::Constant(Value::Int(int)));
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Node::Constant(Value::Float(float))),
            _ => Err(ParseError::Number(text.to_owned())),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Node, ParseError> {
        let mut before = quote;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                c if c == quote && before != '\\' => {
                    let text = self.take(at + 1);
                    let unquoted = unquote(&text[1..at], quote);
                    return unquoted
                        .map(|text| Node::Constant(Value::Str(text)))
                        .ok_or_else(|| ParseError::Unquote(text.to_owned()));
                }
                _ => before = c,
            }
        }
        Err(ParseError::UnterminatedQuotedString)
    }

    /// `[..]` that is no filter: a slice, a quoted field, or several of them.
    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), ParseError> {
        let end = match self.rest.find([']', '\n']) {
            Some(end) if self.rest.as_bytes()[end] == b']' => end,
            _ => return Err(ParseError::UnterminatedArray),
        };
        let text = &self.take(end + 1)[1..end];
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text.split(',').map(|part| self.inner(&format!("[{}]", part.trim_matches(' '))));
            nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(name) = quoted.filter(|name| !name.contains('\'')) {
            nodes.extend(self.inner(&format!(".{name}"))?);
            return Ok(());
        }
        nodes.push(Node::Slice(slice(text)?));
        Ok(())
    }

    /// The rest of `[?(..)]`. Inside one pair of quotes a parenthesis does not end it.
    fn filter(&mut self) -> Result<Node, ParseError> {
        let (mut quote, mut closed, mut before) = (None, false, '(');
        let mut end = None;
        for (at, c) in self.rest.char_indices() {
            match c {
                '\n' => break,
                '"' | '\'' if quote.is_none() => quote = Some(c),
                '"' | '\'' if before != '\\' && quote == Some(c) => closed = true,
                ')' if quote.is_some() == closed => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
            before = c;
        }
        let text = self.take(end.ok_or(ParseError::UnterminatedFilter)?);
        if !self.eat(")]") {
            return Err(ParseError::UnclosedArray);
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let filter = match text.find(is_operator).filter(|at| *at > 0) {
            // An operator with nothing behind it gives its last character away.
            Some(at) if text.len() > at + 1 => {
                let operands = text[at..].find(|c| !is_operator(c)).map_or(text.len() - 1, |n| at + n);
                let left = self.inner(&text[..at])?;
                let right = self.inner(&text[operands..])?;
                Filter { left, comparison: Some((operator(&text[at..operands]), right)) }
            }
            _ => Filter { left: self.inner(text)?, comparison: None },
        };
        Ok(Node::Filter(Box::new(filter)))
    }

    /// The nodes of a part, parsed as a template of its own. What stands behind a brace in it is forgotten.
    fn inner(&self, text: &str) -> Result<Vec<Node>, ParseError> {
        let blocks = template(&format!("{{{text}}}"), self.nesting + 1)?;
        Ok(blocks.into_iter().next().unwrap_or_default())
    }
}

/// `1`, `-1`, `1:3`, `:`, `::2`.
fn slice(text: &str) -> Result<Slice, ParseError> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_index = |part: &&str| part.strip_prefix('-').unwrap_or(part).bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(is_index) {
        return Err(ParseError::ArrayIndex(text.to_owned()));
    }
    let number = |at: usize| match parts.get(at) {
        None | Some(&"") => Ok(None),
        Some(part) => part.parse().map(Some).map_err(|_| ParseError::ArrayIndexNumber((*part).to_owned())),
    };
    let start = number(0)?;
    let end = match number(1)? {
        _ if parts.len() == 1 => End::AfterStart,
        Some(end) => End::At(end),
        None => End::Open,
    };
    Ok(Slice { start, end, step: number(2)? })
}

fn operator(text: &str) -> Operator {
    match text {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterEqual,
        _ => Operator::Unknown,
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
