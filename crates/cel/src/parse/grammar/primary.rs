//! Operands: names, calls, literals, lists, maps and objects.

use std::sync::Arc;

use super::{
    AFTER_ITEM, AFTER_MEMBER, COLON, EXPR, MEMBER, OPTIONAL_EXPR, OPTIONAL_FIELD, PAREN, Parsed, RULE_END,
    Rule,
};
use crate::ast::{Element, Entry, Expr, Field, Id, Kind, Struct};
use crate::escape::RESERVED;
use crate::parse::lex::{Lexeme, Token};
use crate::parse::recovery::{Place, Set, Step, Stop, place};
use crate::parse::{Parser, literal};
use crate::value::Val;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Rule {
        self.rule(AFTER_MEMBER, Parsed::missing(), |p, value| {
            p.sync(place!(), MEMBER)?;
            match p.token() {
                Token::Dot if p.peek(1).token != Token::Ident => p.no_alternative(place!(), 1),
                Token::Ident | Token::Dot => p.name(value),
                Token::LeftParen => {
                    p.take();
                    *value = p.expr(PAREN)?;
                    p.expect(place!(), Token::RightParen, RULE_END).map(|_| ())
                }
                Token::LeftBracket => p.list(value),
                Token::LeftBrace => p.map(value),
                token if MEMBER.contains(token) => {
                    *value = p.literal()?;
                    Ok(())
                }
                _ => p.no_alternative(place!(), 0),
            }
        })
    }

    /// A variable, a call, or the construction of an object.
    fn name(&mut self, value: &mut Parsed) -> Step<()> {
        let first = self.lexeme();
        let dot = self.accept(Token::Dot).map_or("", |_| ".");
        let mut end = 1;
        while self.peek(end).token == Token::Dot && self.peek(end + 1).token == Token::Ident {
            end += 2;
        }
        if self.peek(end).token == Token::LeftBrace {
            let mut words = String::new();
            for _ in 0..end {
                let word = self.take();
                words.push_str(&self.text(word));
            }
            return self.object(&format!("{dot}{words}"), value);
        }
        let name = self.take();
        let word = self.text(name);
        let reserved = RESERVED.contains(&word.as_str());
        let full = format!("{dot}{word}");
        let Some(open) = self.accept(Token::LeftParen) else {
            value.expr = if reserved {
                self.error(first.start, format!("reserved identifier: {word}"))
            } else {
                Expr::new(self.id(name.start), Kind::Ident(full.into()))
            };
            return Ok(());
        };
        let (found, ids) = (self.found.len(), self.offsets.len());
        let id = self.id(open.start);
        let (args, height, end) = self.arguments(place!(), RULE_END)?;
        value.height = height;
        value.expr = if reserved {
            // Upstream does not look at the arguments of such a call.
            self.found.truncate(found);
            self.offsets.truncate(ids);
            self.error(first.start, format!("reserved identifier: {word}"))
        } else {
            self.global_call(id, &full, args)
        };
        end
    }

    /// Arguments and the parenthesis behind them, or why it is not there.
    pub(super) fn arguments(&mut self, place: Place, next: Set) -> Rule<(Vec<Expr>, u32, Step<()>)> {
        let mut args = Vec::new();
        let mut height = 0;
        match self.sync(place, EXPR.or(PAREN)) {
            Ok(()) => {}
            Err(Stop::All(refused)) => return Err(refused),
            Err(stop) => return Ok((args, height, Err(stop))),
        }
        if EXPR.contains(self.token()) {
            self.rule(PAREN, (), |p, ()| {
                loop {
                    let arg = p.expr(AFTER_ITEM)?;
                    height = height.max(arg.height);
                    args.push(arg.expr);
                    if p.accept(Token::Comma).is_none() {
                        return Ok(());
                    }
                }
            })?;
        }
        match self.expect(place.next(), Token::RightParen, next) {
            Err(Stop::All(refused)) => Err(refused),
            end => Ok((args, height, end.map(|_| ()))),
        }
    }

    fn list(&mut self, value: &mut Parsed) -> Step<()> {
        let open = self.take();
        let id = self.id(open.start);
        let mut elements = Vec::new();
        let height = &mut value.height;
        let end = self.items(place!(), Token::RightBracket, OPTIONAL_EXPR, |p| {
            let (question, element) = p.optional_expr(AFTER_ITEM)?;
            *height = (*height).max(element.height);
            let optional = match question {
                Some(question) if !p.syntax.optional => {
                    p.error(question.start, "unsupported syntax '?'");
                    false
                }
                question => question.is_some(),
            };
            elements.push(Element { value: element.expr, optional });
            Ok(())
        });
        value.expr = Expr::new(id, Kind::List(elements));
        end
    }

    fn optional_expr(&mut self, follow: Set) -> Rule<(Option<Lexeme>, Parsed)> {
        self.rule(follow, (None, Parsed::missing()), |p, value| {
            p.sync(place!(), OPTIONAL_EXPR)?;
            value.0 = p.accept(Token::Question);
            value.1 = p.expr(RULE_END)?;
            Ok(())
        })
    }

    fn map(&mut self, value: &mut Parsed) -> Step<()> {
        let open = self.take();
        let id = self.id(open.start);
        let mut entries = Vec::new();
        let height = &mut value.height;
        let end = self.items(place!(), Token::RightBrace, OPTIONAL_EXPR, |p| {
            let start = p.lexeme().start;
            // The entry is numbered before its key, by the colon's place.
            let entry = p.id(start);
            let found = p.found.len();
            let (question, key) = p.optional_expr(COLON)?;
            let colon = p.expect(place!(), Token::Colon, EXPR).inspect_err(|_| {
                // An entry without a colon is none: nothing of it is looked at.
                p.found.truncate(found);
            })?;
            p.offsets[entry as usize] = Some(colon.start);
            let value = p.expr(AFTER_ITEM)?;
            *height = (*height).max(key.height).max(value.height);
            if question.is_some() && !p.syntax.optional {
                p.error(start, "unsupported syntax '?'");
            }
            entries.push(Entry { key: key.expr, value: value.expr, optional: question.is_some() });
            Ok(())
        });
        value.expr = Expr::new(id, Kind::Map(entries));
        end
    }

    fn object(&mut self, name: &str, value: &mut Parsed) -> Step<()> {
        let open = self.take();
        let id = self.id(open.start);
        let mut fields = Vec::new();
        let height = &mut value.height;
        let first = self.lexeme().start;
        let end = self.items(place!(), Token::RightBrace, OPTIONAL_FIELD, |p| {
            let start = p.lexeme().start;
            let field_id: Id = p.id(start);
            let (optional, name) = p.rule(COLON, (false, None), |p, value| {
                p.sync(place!(), OPTIONAL_FIELD)?;
                value.0 = p.accept(Token::Question).is_some();
                value.1 = p.escaped_ident(RULE_END)?;
                Ok(())
            })?;
            let colon = p.expect(place!(), Token::Colon, EXPR)?;
            p.offsets[field_id as usize] = Some(colon.start);
            let value = p.expr(AFTER_ITEM)?;
            *height = (*height).max(value.height);
            if optional && !p.syntax.optional {
                p.error(start, "unsupported syntax '?'");
            }
            let name = p.field_name(name, first);
            fields.push(Field { id: field_id, name: name.into(), value: value.expr, optional });
            Ok(())
        });
        let object = Struct { name: Arc::from(name), fields };
        value.expr = Expr::new(id, Kind::Struct(Box::new(object)));
        end
    }

    /// Items between commas up to `close`, with a last comma perhaps, or a comma alone.
    fn items(
        &mut self,
        place: Place,
        close: Token,
        first: Set,
        mut item: impl FnMut(&mut Self) -> Step<()>,
    ) -> Step<()> {
        let after = Set::of(&[Token::Comma, close]);
        self.sync(place, first.or(after))?;
        if first.contains(self.token()) {
            self.rule(after, (), |p, ()| {
                item(p)?;
                while p.token() == Token::Comma && first.contains(p.peek(1).token) {
                    p.take();
                    item(p)?;
                }
                Ok(())
            })?;
        }
        self.sync(place.next(), after)?;
        self.accept(Token::Comma);
        self.expect(place.next().next(), close, RULE_END).map(|_| ())
    }

    fn literal(&mut self) -> Rule {
        self.rule(RULE_END, Parsed::missing(), |p, result| {
            let first = p.lexeme();
            let negative = first.token == Token::Minus;
            if negative {
                if !matches!(p.peek(1).token, Token::Int | Token::Float) {
                    return p.no_alternative(place!(), 1);
                }
                p.take();
            }
            let lexeme = p.take();
            let text = p.text(lexeme);
            let value = match lexeme.token {
                Token::Int => literal::int(&text, negative).ok_or("invalid int literal"),
                Token::Float => literal::double(&text, negative).ok_or("invalid double literal"),
                Token::Uint => literal::uint(&text).ok_or("invalid uint literal"),
                Token::Str => literal::string(&text),
                Token::Bytes => literal::bytes(&text),
                Token::True => Ok(Val::Bool(true)),
                Token::False => Ok(Val::Bool(false)),
                _ => Ok(Val::Null),
            };
            result.expr = match value {
                Ok(value) => Expr::new(p.id(first.start), Kind::Literal(value)),
                Err(message) => p.error(first.start, message),
            };
            Ok(())
        })
    }
}
