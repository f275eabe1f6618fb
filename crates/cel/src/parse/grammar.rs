//! The grammar: one method a rule, in CEL.g4's order. A rule's value is what it has when it stops, complete or not.

mod primary;

use std::sync::Arc;

use super::lex::{Lexeme, Token};
use super::recovery::{Set, Step, place};
use super::{MAX_DEPTH, Parser, Refused};
use crate::ast::{Call, Expr, Id, Kind, Select};
use crate::value::{Text, Val};

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

/// What an operand without `!` starts with.
const MEMBER: Set = Set::of(&[
    Token::LeftBracket,
    Token::LeftBrace,
    Token::LeftParen,
    Token::Dot,
    Token::Minus,
    Token::True,
    Token::False,
    Token::Null,
    Token::Float,
    Token::Int,
    Token::Uint,
    Token::Str,
    Token::Bytes,
    Token::Ident,
]);
const EXPR: Set = MEMBER.or(Set::of(&[Token::Not]));
const OPTIONAL_EXPR: Set = EXPR.or(Set::of(&[Token::Question]));
const IDENT: Set = Set::of(&[Token::Ident, Token::EscapedIdent]);
const OPTIONAL_FIELD: Set = IDENT.or(Set::of(&[Token::Question]));

// What may follow a rule where it is used.
const RULE_END: Set = Set::of(&[]).or_end();
const AFTER_CONDITION: Set = Set::of(&[Token::Question]).or_end();
const AFTER_RELATION: Set = Set::of(&[
    Token::Equals,
    Token::NotEquals,
    Token::In,
    Token::Less,
    Token::LessEquals,
    Token::GreaterEquals,
    Token::Greater,
])
.or_end();
const AFTER_CALC: Set =
    Set::of(&[Token::Plus, Token::Minus, Token::Star, Token::Slash, Token::Percent]).or_end();
const AFTER_MEMBER: Set = Set::of(&[Token::Dot, Token::LeftBracket]).or_end();
const AFTER_ITEM: Set = Set::of(&[Token::Comma]).or_end();
const PAREN: Set = Set::of(&[Token::RightParen]);
const COLON: Set = Set::of(&[Token::Colon]);

impl Parsed {
    fn leaf(expr: Expr) -> Parsed {
        Parsed { expr, height: 0 }
    }
    fn missing() -> Parsed {
        Parsed::leaf(Expr::new(0, Kind::Unspecified))
    }
    /// Leaves nothing behind.
    fn take(&mut self) -> Parsed {
        std::mem::replace(self, Parsed::missing())
    }
}

impl Parser<'_> {
    pub(super) fn start(&mut self) -> Rule<Expr> {
        let parsed = self.rule(RULE_END, Parsed::missing(), |p, value| {
            *value = p.expr(Set::of(&[Token::End]))?;
            p.expect(place!(), Token::End, RULE_END)?;
            Ok(())
        })?;
        if parsed.height > MAX_DEPTH {
            return Err(Refused::TooDeep("max recursion depth exceeded"));
        }
        Ok(parsed.expr)
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

    fn expr(&mut self, follow: Set) -> Rule {
        self.nested(Nests::Expr, |p| {
            p.rule(follow, Parsed::missing(), |p, value| {
                *value = p.logic(Token::Or, AFTER_CONDITION)?;
                let Some(question) = p.accept(Token::Question) else { return Ok(()) };
                let condition = value.take();
                let id = p.id(question.start);
                let yes = p.logic(Token::Or, COLON)?;
                let colon = p.expect(place!(), Token::Colon, EXPR);
                let no = if colon.is_ok() { p.expr(RULE_END)? } else { Parsed::missing() };
                value.height = 1 + condition.height.max(yes.height).max(no.height);
                value.expr = p.global_call(id, "_?_:_", vec![condition.expr, yes.expr, no.expr]);
                colon.map(|_| ())
            })
        })
    }

    /// `||` over `&&` over relations, each a balanced tree, since their order does not matter.
    fn logic(&mut self, operator: Token, follow: Set) -> Rule {
        let after = Set::of(&[operator]).or_end();
        let term = |p: &mut Self| match operator {
            Token::Or => p.logic(Token::And, after),
            _ => p.relation(0, after),
        };
        self.rule(follow, Parsed::missing(), |p, value| {
            let first = term(p)?;
            if p.token() != operator {
                *value = first;
                return Ok(());
            }
            let mut terms = vec![Some(first.expr)];
            let mut ids = Vec::new();
            value.height = first.height;
            while let Some(lexeme) = p.accept(operator) {
                let next = term(p)?;
                value.height = value.height.max(next.height);
                terms.push(Some(next.expr));
                ids.push(p.id(lexeme.start));
            }
            let function = if operator == Token::Or { "_||_" } else { "_&&_" };
            value.expr = balanced(&mut terms, &ids, function);
            Ok(())
        })
    }

    fn relation(&mut self, lowest: u32, follow: Set) -> Rule {
        self.nested(Nests::Relation, |p| {
            p.rule(follow, Parsed::missing(), |p, value| {
                *value = p.calc(0, AFTER_RELATION)?;
                loop {
                    let function = match p.token() {
                        _ if lowest > 1 => return Ok(()),
                        Token::Less => "_<_",
                        Token::LessEquals => "_<=_",
                        Token::GreaterEquals => "_>=_",
                        Token::Greater => "_>_",
                        Token::Equals => "_==_",
                        Token::NotEquals => "_!=_",
                        Token::In => "@in",
                        _ => return Ok(()),
                    };
                    p.binary(value, function, |p| p.relation(2, AFTER_RELATION))?;
                }
            })
        })
    }

    /// Operators that bind at least as tightly as `lowest`: 1 for `+ -`, 2 for `* / %`.
    fn calc(&mut self, lowest: u32, follow: Set) -> Rule {
        self.nested(Nests::Calc, |p| {
            p.rule(follow, Parsed::missing(), |p, value| {
                *value = p.unary()?;
                loop {
                    let (function, binding) = match p.token() {
                        Token::Star => ("_*_", 2),
                        Token::Slash => ("_/_", 2),
                        Token::Percent => ("_%_", 2),
                        Token::Plus => ("_+_", 1),
                        Token::Minus => ("_-_", 1),
                        _ => return Ok(()),
                    };
                    if binding < lowest {
                        return Ok(());
                    }
                    p.binary(value, function, |p| p.calc(binding + 1, AFTER_CALC))?;
                }
            })
        })
    }

    fn binary(
        &mut self,
        left: &mut Parsed,
        function: &str,
        right: impl FnOnce(&mut Self) -> Rule,
    ) -> Rule<()> {
        let operator = self.take();
        let id = self.id(operator.start);
        let right = right(self)?;
        let Parsed { expr, height } = left.take();
        left.height = 1 + height.max(right.height);
        left.expr = self.global_call(id, function, vec![expr, right.expr]);
        Ok(())
    }

    fn unary(&mut self) -> Rule {
        let start = self.lexeme().start;
        let mut chosen = false;
        let mut parsed = self.rule(AFTER_CALC, Parsed::missing(), |p, value| {
            p.sync(place!(), EXPR)?;
            let operator = p.lexeme();
            let function = match (operator.token, p.peek(1).token) {
                // One minus before a number belongs to the number.
                (Token::Minus, Token::Int | Token::Float) => {
                    chosen = true;
                    *value = p.member()?;
                    return Ok(());
                }
                (Token::Minus, next) if MEMBER.contains(next) => "-_",
                (Token::Minus, _) => return p.no_alternative(place!(), 1),
                (Token::Not, _) => "!_",
                (token, _) if MEMBER.contains(token) => {
                    chosen = true;
                    *value = p.member()?;
                    return Ok(());
                }
                _ => return p.no_alternative(place!(), 0),
            };
            chosen = true;
            let mut count = 0;
            let end = loop {
                p.take();
                count += 1;
                p.sync_loop(MEMBER.or(Set::of(&[operator.token])));
                if p.token() != operator.token {
                    break Ok(());
                }
                if operator.token == Token::Minus && !MEMBER.contains(p.peek(1).token) {
                    break p.no_alternative(place!(), 1);
                }
            };
            let id = (count % 2 == 1).then(|| p.id(operator.start));
            let operand = match &end {
                Ok(()) => p.member()?,
                Err(_) => Parsed::missing(),
            };
            value.height = operand.height;
            value.expr = match id {
                Some(id) => p.global_call(id, function, vec![operand.expr]),
                None => operand.expr,
            };
            end
        })?;
        if !chosen {
            // What upstream puts in the place of an operand it could not read.
            parsed.expr = Expr::new(self.id(start), Kind::Literal(Val::Str(Text::Borrowed("<<error>>"))));
        }
        Ok(parsed)
    }

    fn member(&mut self) -> Rule {
        self.rule(RULE_END, Parsed::missing(), |p, value| {
            *value = p.primary()?;
            loop {
                match (p.token(), p.peek(1).token, p.peek(2).token) {
                    (Token::Dot, Token::Ident, Token::LeftParen) => p.member_call(value)?,
                    (Token::Dot, Token::Question | Token::Ident | Token::EscapedIdent, _) => {
                        p.select(value)?
                    }
                    (Token::Dot, ..) => return p.no_alternative(place!(), 1),
                    (Token::LeftBracket, ..) => p.index(value)?,
                    _ => return Ok(()),
                }
            }
        })
    }

    fn member_call(&mut self, value: &mut Parsed) -> Step<()> {
        self.take();
        let name = self.take();
        let open = self.take();
        let id = self.id(open.start);
        let (args, height, end) = self.arguments(place!(), AFTER_MEMBER)?;
        let target = value.take();
        let function = self.text(name);
        value.height = 1 + target.height.max(height);
        value.expr = self.receiver_call(id, &function, target.expr, args);
        end
    }

    fn select(&mut self, value: &mut Parsed) -> Step<()> {
        let dot = self.take();
        let optional = self.accept(Token::Question).is_some();
        let name = self.lexeme();
        let field = self.escaped_ident(AFTER_MEMBER)?;
        let field = self.field_name(field, name.start);
        let operand = value.take();
        value.height = operand.height + 1;
        value.expr = if !optional {
            let id = self.id(dot.start);
            let select = Select { operand: operand.expr, field: field.into(), test: false };
            Expr::new(id, Kind::Select(Box::new(select)))
        } else if !self.syntax.optional {
            self.error(dot.start, "unsupported syntax '.?'")
        } else {
            let field_id = self.id(name.start);
            let field = Expr::new(field_id, Kind::Literal(Val::string(field)));
            let id = self.id(dot.start);
            self.call(id, "_?._", None, vec![operand.expr, field])
        };
        Ok(())
    }

    fn index(&mut self, value: &mut Parsed) -> Step<()> {
        let open = self.take();
        let id = self.id(open.start);
        let mut index = Parsed::missing();
        let mut optional = false;
        let end = self.sync(place!(), OPTIONAL_EXPR).and_then(|()| {
            optional = self.accept(Token::Question).is_some();
            index = self.expr(Set::of(&[Token::RightBracket]))?;
            self.expect(place!(), Token::RightBracket, AFTER_MEMBER).map(|_| ())
        });
        let operand = value.take();
        value.height = 1 + operand.height.max(index.height);
        value.expr = if optional && !self.syntax.optional {
            self.error(open.start, "unsupported syntax '[?'")
        } else {
            let function = if optional { "_[?_]" } else { "_[_]" };
            self.global_call(id, function, vec![operand.expr, index.expr])
        };
        end
    }

    /// The token of a field's name.
    fn escaped_ident(&mut self, follow: Set) -> Rule<Option<Lexeme>> {
        self.rule(follow, None, |p, value| {
            p.sync(place!(), IDENT)?;
            if !IDENT.contains(p.token()) {
                return p.no_alternative(place!(), 0);
            }
            *value = Some(p.take());
            Ok(())
        })
    }
    /// The name itself; `at` is where a problem with it is reported.
    fn field_name(&mut self, name: Option<Lexeme>, at: u32) -> String {
        match name {
            Some(name) if name.token == Token::Ident => return self.text(name),
            Some(_) => self.error(at, "unsupported syntax: '`'"),
            None => self.error(at, "unsupported ident kind"),
        };
        String::new()
    }
}

fn balanced(terms: &mut [Option<Expr>], ids: &[Id], function: &str) -> Expr {
    if ids.is_empty() {
        return terms[0].take().unwrap_or(Expr::new(0, Kind::Unspecified));
    }
    let middle = ids.len() / 2;
    let (left, right) = terms.split_at_mut(middle + 1);
    let left = balanced(left, &ids[..middle], function);
    let right = balanced(right, &ids[middle + 1..], function);
    let call = Call { function: Arc::from(function), target: None, args: vec![left, right] };
    Expr::new(ids[middle], Kind::Call(Box::new(call)))
}
