//! The grammar: one method a rule, in CEL.g4's order.

use std::sync::Arc;

use super::lex::{Lexeme, Token};
use super::literal;
use super::{MAX_DEPTH, Parser, Refused};
use crate::ast::{Element, Entry, Expr, Field, Id, Kind, Select, Struct};
use crate::escape::RESERVED;
use crate::value::Val;

/// An expression and how deep upstream recurses for it.
struct Parsed {
    expr: Expr,
    height: u32,
}

type Rule<T = Parsed> = Result<T, Refused>;

/// Rules that nest in themselves.
#[derive(Clone, Copy)]
enum Nests {
    Expr,
    Relation,
    Calc,
}

impl Parsed {
    fn leaf(expr: Expr) -> Parsed {
        Parsed { expr, height: 0 }
    }
}

impl Parser<'_> {
    pub(super) fn start(&mut self) -> Result<Expr, Refused> {
        let parsed = self.expr()?;
        self.expect(Token::End)?;
        if parsed.height > MAX_DEPTH {
            return Err(Refused::TooDeep("max recursion depth exceeded"));
        }
        Ok(parsed.expr)
    }

    fn lexeme(&self) -> Lexeme {
        // The last token is the end, and nothing consumes it.
        self.lexemes[self.at.min(self.lexemes.len() - 1)]
    }
    fn ahead(&self, by: usize) -> Token {
        self.lexemes.get(self.at + by).map_or(Token::End, |lexeme| lexeme.token)
    }
    fn accept(&mut self, token: Token) -> Option<Lexeme> {
        let lexeme = self.lexeme();
        (lexeme.token == token).then(|| {
            self.at += usize::from(token != Token::End);
            lexeme
        })
    }
    fn expect(&mut self, token: Token) -> Rule<Lexeme> {
        self.accept(token).ok_or(Refused::Syntax)
    }

    /// Runs a rule one level deeper in itself.
    fn nested<T>(&mut self, rule: Nests, run: impl FnOnce(&mut Self) -> Rule<T>) -> Rule<T> {
        self.depth[rule as usize] += 1;
        if self.depth[rule as usize] > MAX_DEPTH {
            return Err(Refused::TooDeep("expression recursion limit exceeded: 250"));
        }
        let result = object::deep(|| run(self));
        self.depth[rule as usize] -= 1;
        result
    }

    fn expr(&mut self) -> Rule {
        self.nested(Nests::Expr, |p| {
            let condition = p.logic(Token::Or, "_||_")?;
            let Some(question) = p.accept(Token::Question) else { return Ok(condition) };
            let id = p.id(question.start);
            let yes = p.logic(Token::Or, "_||_")?;
            p.expect(Token::Colon)?;
            let no = p.expr()?;
            let height = 1 + condition.height.max(yes.height).max(no.height);
            let expr = p.global_call(id, "_?_:_", vec![condition.expr, yes.expr, no.expr]);
            Ok(Parsed { expr, height })
        })
    }

    /// `||` over `&&` over relations, each a balanced tree, since their order does not matter.
    fn logic(&mut self, operator: Token, function: &str) -> Rule {
        let term = |p: &mut Self| match operator {
            Token::Or => p.logic(Token::And, "_&&_"),
            _ => p.relation(),
        };
        let first = term(self)?;
        let mut height = first.height;
        let mut terms = vec![first.expr];
        let mut ids = Vec::new();
        while let Some(lexeme) = self.accept(operator) {
            let next = term(self)?;
            height = height.max(next.height);
            terms.push(next.expr);
            ids.push(self.id(lexeme.start));
        }
        let mut terms: Vec<Option<Expr>> = terms.into_iter().map(Some).collect();
        Ok(Parsed { expr: balanced(&mut terms, &ids, function), height })
    }

    fn relation(&mut self) -> Rule {
        self.nested(Nests::Relation, |p| {
            let mut left = p.calc(0)?;
            loop {
                let function = match p.lexeme().token {
                    Token::Less => "_<_",
                    Token::LessEquals => "_<=_",
                    Token::GreaterEquals => "_>=_",
                    Token::Greater => "_>_",
                    Token::Equals => "_==_",
                    Token::NotEquals => "_!=_",
                    Token::In => "@in",
                    _ => return Ok(left),
                };
                left = p.binary(left, function, |p| p.nested(Nests::Relation, |p| p.calc(0)))?;
            }
        })
    }

    /// Operators that bind at least as tightly as `lowest`: 1 for `+ -`, 2 for `* / %`.
    fn calc(&mut self, lowest: u32) -> Rule {
        self.nested(Nests::Calc, |p| {
            let mut left = p.unary()?;
            loop {
                let (function, binding) = match p.lexeme().token {
                    Token::Star => ("_*_", 2),
                    Token::Slash => ("_/_", 2),
                    Token::Percent => ("_%_", 2),
                    Token::Plus => ("_+_", 1),
                    Token::Minus => ("_-_", 1),
                    _ => return Ok(left),
                };
                if binding < lowest {
                    return Ok(left);
                }
                left = p.binary(left, function, |p| p.calc(binding + 1))?;
            }
        })
    }

    fn binary(&mut self, left: Parsed, function: &str, right: impl FnOnce(&mut Self) -> Rule) -> Rule {
        let operator = self.lexeme();
        self.at += 1;
        let id = self.id(operator.start);
        let right = right(self)?;
        let height = 1 + left.height.max(right.height);
        Ok(Parsed { expr: self.global_call(id, function, vec![left.expr, right.expr]), height })
    }

    fn unary(&mut self) -> Rule {
        let operator = self.lexeme();
        let (token, function) = match operator.token {
            Token::Not => (Token::Not, "!_"),
            // One minus before a number belongs to the number.
            Token::Minus if matches!(self.ahead(1), Token::Int | Token::Float) => return self.member(),
            Token::Minus => (Token::Minus, "-_"),
            _ => return self.member(),
        };
        let mut count = 0;
        while self.accept(token).is_some() {
            count += 1;
        }
        if count % 2 == 0 {
            return self.member();
        }
        let id = self.id(operator.start);
        let operand = self.member()?;
        let height = operand.height;
        Ok(Parsed { expr: self.global_call(id, function, vec![operand.expr]), height })
    }

    fn member(&mut self) -> Rule {
        let mut left = self.primary()?;
        loop {
            let start = self.lexeme();
            match start.token {
                Token::Dot if self.ahead(1) == Token::Ident && self.ahead(2) == Token::LeftParen => {
                    self.at += 1;
                    let name = self.expect(Token::Ident)?;
                    let open = self.expect(Token::LeftParen)?;
                    let id = self.id(open.start);
                    let (args, deepest) = self.arguments()?;
                    let function = self.text(name);
                    left.height = 1 + left.height.max(deepest);
                    left.expr = self.receiver_call(id, &function, left.expr, args);
                }
                Token::Dot => {
                    self.at += 1;
                    let optional = self.accept(Token::Question).is_some();
                    let name = self.lexeme();
                    let field = self.escaped_ident(name.start)?;
                    left.height += 1;
                    left.expr = if !optional {
                        let id = self.id(start.start);
                        let select = Select { operand: left.expr, field: field.into(), test: false };
                        Expr::new(id, Kind::Select(Box::new(select)))
                    } else if !self.syntax.optional {
                        self.error(start.start, "unsupported syntax '.?'")
                    } else {
                        let field_id = self.id(name.start);
                        let field = Expr::new(field_id, Kind::Literal(Val::string(field)));
                        let id = self.id(start.start);
                        self.call(id, "_?._", None, vec![left.expr, field])
                    };
                }
                Token::LeftBracket => {
                    self.at += 1;
                    let optional = self.accept(Token::Question).is_some();
                    let id = self.id(start.start);
                    let index = self.expr()?;
                    self.expect(Token::RightBracket)?;
                    left.height = 1 + left.height.max(index.height);
                    left.expr = if optional && !self.syntax.optional {
                        self.error(start.start, "unsupported syntax '[?'")
                    } else {
                        let function = if optional { "_[?_]" } else { "_[_]" };
                        self.global_call(id, function, vec![left.expr, index.expr])
                    };
                }
                _ => return Ok(left),
            }
        }
    }

    /// The name of a field; `at` is where a problem with it is reported.
    fn escaped_ident(&mut self, at: u32) -> Rule<String> {
        let lexeme = self.lexeme();
        match lexeme.token {
            Token::Ident => {
                self.at += 1;
                Ok(self.text(lexeme))
            }
            Token::EscapedIdent => {
                self.at += 1;
                self.error(at, "unsupported syntax: '`'");
                Ok(String::new())
            }
            _ => Err(Refused::Syntax),
        }
    }

    fn primary(&mut self) -> Rule {
        let first = self.lexeme();
        match first.token {
            Token::Ident | Token::Dot => self.name(),
            Token::LeftParen => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(Token::RightParen)?;
                Ok(inner)
            }
            Token::LeftBracket => {
                self.at += 1;
                self.list(first)
            }
            Token::LeftBrace => {
                self.at += 1;
                self.map(first)
            }
            _ => self.literal(),
        }
    }

    /// A variable, a call, or the construction of an object.
    fn name(&mut self) -> Rule {
        let first = self.lexeme();
        let dot = usize::from(self.accept(Token::Dot).is_some());
        if self.lexeme().token != Token::Ident {
            return Err(Refused::Syntax);
        }
        let mut end = 1;
        while self.ahead(end) == Token::Dot && self.ahead(end + 1) == Token::Ident {
            end += 2;
        }
        if self.ahead(end) == Token::LeftBrace {
            let words: String = (0..end).map(|by| self.text(self.lexemes[self.at + by])).collect();
            self.at += end;
            let name = if dot == 1 { format!(".{words}") } else { words };
            return self.object(&name);
        }
        let name = self.expect(Token::Ident)?;
        let word = self.text(name);
        let reserved = RESERVED.contains(&word.as_str());
        let full = if dot == 1 { format!(".{word}") } else { word.clone() };
        let Some(open) = self.accept(Token::LeftParen) else {
            if reserved {
                return Ok(Parsed::leaf(self.error(first.start, format!("reserved identifier: {word}"))));
            }
            let id = self.id(name.start);
            return Ok(Parsed::leaf(Expr::new(id, Kind::Ident(full.into()))));
        };
        if reserved {
            let (issues, offsets) = (self.issues.clone(), self.offsets.len());
            let (_, height) = self.arguments()?;
            // Upstream does not look at the arguments of such a call.
            self.issues = issues;
            self.offsets.truncate(offsets);
            return Ok(Parsed {
                expr: self.error(first.start, format!("reserved identifier: {word}")),
                height,
            });
        }
        let id = self.id(open.start);
        let (args, height) = self.arguments()?;
        Ok(Parsed { expr: self.global_call(id, &full, args), height })
    }

    /// Arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Rule<(Vec<Expr>, u32)> {
        let mut args = Vec::new();
        let mut height = 0;
        if self.accept(Token::RightParen).is_some() {
            return Ok((args, height));
        }
        loop {
            let arg = self.expr()?;
            height = height.max(arg.height);
            args.push(arg.expr);
            if self.accept(Token::Comma).is_none() {
                self.expect(Token::RightParen)?;
                return Ok((args, height));
            }
        }
    }

    fn list(&mut self, open: Lexeme) -> Rule {
        let id = self.id(open.start);
        let mut elements = Vec::new();
        let mut height = 0;
        self.items(Token::RightBracket, |p| {
            let question = p.accept(Token::Question);
            let value = p.expr()?;
            height = height.max(value.height);
            let optional = match question {
                Some(question) if !p.syntax.optional => {
                    p.error(question.start, "unsupported syntax '?'");
                    false
                }
                question => question.is_some(),
            };
            elements.push(Element { value: value.expr, optional });
            Ok(())
        })?;
        Ok(Parsed { expr: Expr::new(id, Kind::List(elements)), height })
    }

    fn map(&mut self, open: Lexeme) -> Rule {
        let id = self.id(open.start);
        let mut entries = Vec::new();
        let mut height = 0;
        self.items(Token::RightBrace, |p| {
            let start = p.lexeme().start;
            // The entry is numbered before its key, by the colon's place.
            let entry = p.id(start);
            let optional = p.accept(Token::Question).is_some();
            let key = p.expr()?;
            let colon = p.expect(Token::Colon)?;
            p.offsets[entry as usize] = Some(colon.start);
            let value = p.expr()?;
            height = height.max(key.height).max(value.height);
            if optional && !p.syntax.optional {
                p.error(start, "unsupported syntax '?'");
            }
            entries.push(Entry { key: key.expr, value: value.expr, optional });
            Ok(())
        })?;
        Ok(Parsed { expr: Expr::new(id, Kind::Map(entries)), height })
    }

    fn object(&mut self, name: &str) -> Rule {
        let open = self.expect(Token::LeftBrace)?;
        let id = self.id(open.start);
        let mut fields = Vec::new();
        let mut height = 0;
        let first = self.lexeme().start;
        self.items(Token::RightBrace, |p| {
            let start = p.lexeme().start;
            let field_id: Id = p.id(start);
            let optional = p.accept(Token::Question).is_some();
            let name = p.escaped_ident(first)?;
            let colon = p.expect(Token::Colon)?;
            p.offsets[field_id as usize] = Some(colon.start);
            let value = p.expr()?;
            height = height.max(value.height);
            if optional && !p.syntax.optional {
                p.error(start, "unsupported syntax '?'");
            }
            fields.push(Field { id: field_id, name: name.into(), value: value.expr, optional });
            Ok(())
        })?;
        let object = Struct { name: Arc::from(name), fields };
        Ok(Parsed { expr: Expr::new(id, Kind::Struct(Box::new(object))), height })
    }

    /// Items between commas up to `close`, with a last comma perhaps, or a comma alone.
    fn items(&mut self, close: Token, mut item: impl FnMut(&mut Self) -> Rule<()>) -> Rule<()> {
        if self.lexeme().token != close && self.lexeme().token != Token::Comma {
            item(self)?;
            while self.lexeme().token == Token::Comma && self.ahead(1) != close {
                self.at += 1;
                item(self)?;
            }
        }
        self.accept(Token::Comma);
        self.expect(close)?;
        Ok(())
    }

    fn literal(&mut self) -> Rule {
        let first = self.lexeme();
        let negative = self.accept(Token::Minus).is_some();
        let lexeme = self.lexeme();
        let text = self.text(lexeme);
        let value = match lexeme.token {
            Token::Int => literal::int(&text, negative).ok_or("invalid int literal"),
            Token::Float => literal::double(&text, negative).ok_or("invalid double literal"),
            _ if negative => return Err(Refused::Syntax),
            Token::Uint => literal::uint(&text).ok_or("invalid uint literal"),
            Token::Str => literal::string(&text),
            Token::Bytes => literal::bytes(&text),
            Token::True => Ok(Val::Bool(true)),
            Token::False => Ok(Val::Bool(false)),
            Token::Null => Ok(Val::Null),
            _ => return Err(Refused::Syntax),
        };
        self.at += 1;
        Ok(Parsed::leaf(match value {
            Ok(value) => {
                let id = self.id(first.start);
                Expr::new(id, Kind::Literal(value))
            }
            Err(message) => self.error(first.start, message),
        }))
    }
}

fn balanced(terms: &mut [Option<Expr>], ids: &[Id], function: &str) -> Expr {
    let take = |term: &mut Option<Expr>| term.take().unwrap_or(Expr::new(0, Kind::Unspecified));
    if ids.is_empty() {
        return take(&mut terms[0]);
    }
    let middle = ids.len() / 2;
    let (left, right) = terms.split_at_mut(middle + 1);
    let left = balanced(left, &ids[..middle], function);
    let right = balanced(right, &ids[middle + 1..], function);
    let call = crate::ast::Call { function: Arc::from(function), target: None, args: vec![left, right] };
    Expr::new(ids[middle], Kind::Call(Box::new(call)))
}
