//! The grammar of label selectors, with upstream's error messages.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] key | key ( "=" | "==" | "!=" | ">" | "<" ) value | key ( "in" | "notin" ) "(" value { "," value } ")"
//! ```

use std::collections::BTreeSet;

use super::{LabelOperator, LabelRequirement};
use crate::validate_text::qualified_name;
use crate::{FieldError, quote};

pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut parser = Parser { tokens: scan(text), position: 0 };
    let mut out = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(out),
            Token::Word(_) | Token::Symbol("!") => {}
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
            }
        }
        out.push(parser.requirement().map_err(|words| format!("unable to parse requirement: {words}"))?);
        match parser.next() {
            Token::End => return Ok(out),
            Token::Symbol(",") => match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
            },
            other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
    }
}

/// `in` and `notin` are words; the parser knows where they are operators.
#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'static str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) => text,
            Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

fn scan(text: &str) -> Vec<Token<'_>> {
    // A NUL ends the text where a token could start, and a word anywhere else, as upstream's lexer has it.
    let special = |b: u8| matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<');
    let space = |b: u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        while at < bytes.len() && space(bytes[at]) {
            at += 1;
        }
        if at >= bytes.len() || bytes[at] == 0 {
            tokens.push(Token::End);
            return tokens;
        }
        if special(bytes[at]) {
            let symbol = match (bytes[at], bytes.get(at + 1)) {
                (b'=', Some(b'=')) => "==",
                (b'!', Some(b'=')) => "!=",
                (b'=', _) => "=",
                (b'!', _) => "!",
                (b'(', _) => "(",
                (b')', _) => ")",
                (b',', _) => ",",
                (b'>', _) => ">",
                _ => "<",
            };
            at += symbol.len();
            tokens.push(Token::Symbol(symbol));
            continue;
        }
        let start = at;
        while at < bytes.len() && !special(bytes[at]) && !space(bytes[at]) && bytes[at] != 0 {
            at += 1;
        }
        tokens.push(Token::Word(&text[start..at]));
        if bytes.get(at) == Some(&0) {
            at += 1;
        }
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }
    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let mut token = self.next();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let errors = qualified_name(key);
        if !errors.is_empty() {
            // Upstream prints the path it does not have.
            return Err(FieldError::invalid("<nil>", quote(key), errors.join("; ")).to_string());
        }
        if negated {
            return LabelRequirement::checked(key.to_owned(), LabelOperator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return LabelRequirement::checked(key.to_owned(), LabelOperator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        LabelRequirement::checked(key.to_owned(), operator, values)
    }

    fn operator(&mut self) -> Result<LabelOperator, String> {
        Ok(match self.next() {
            Token::Word("in") => LabelOperator::In,
            Token::Word("notin") => LabelOperator::NotIn,
            Token::Symbol("=") => LabelOperator::Equals,
            Token::Symbol("==") => LabelOperator::DoubleEquals,
            Token::Symbol("!=") => LabelOperator::NotEquals,
            Token::Symbol(">") => LabelOperator::GreaterThan,
            Token::Symbol("<") => LabelOperator::LessThan,
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        })
    }

    fn exact_value(&mut self) -> Result<Vec<String>, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(vec![String::new()]),
            Token::Word(value) => {
                self.position += 1;
                Ok(vec![value.to_owned()])
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// `(a,b)`; an empty place between commas is the empty value.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        match self.peek() {
            Token::Symbol(")") => {
                self.position += 1;
                return Ok(vec![String::new()]);
            }
            Token::Word(_) | Token::Symbol(",") => {}
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        Token::Symbol("," | ")") => {}
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() || matches!(self.peek(), Token::Symbol("," | ")")) {
                        values.insert(String::new());
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
            if self.peek() == Token::Symbol(")") {
                self.position += 1;
                return Ok(values.into_iter().collect());
            }
        }
    }
}
