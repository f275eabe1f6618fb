//! Tokens, with the longest match winning as in ANTLR.

use crate::ast::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Token {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    Str,
    Bytes,
    Ident,
    EscapedIdent,
    End,
}

impl Token {
    /// How messages name what they expect.
    pub(crate) fn display(self) -> &'static str {
        use Token::*;
        match self {
            Equals => "'=='",
            NotEquals => "'!='",
            In => "'in'",
            Less => "'<'",
            LessEquals => "'<='",
            GreaterEquals => "'>='",
            Greater => "'>'",
            And => "'&&'",
            Or => "'||'",
            LeftBracket => "'['",
            RightBracket => "']'",
            LeftBrace => "'{'",
            RightBrace => "'}'",
            LeftParen => "'('",
            RightParen => "')'",
            Dot => "'.'",
            Comma => "','",
            Minus => "'-'",
            Not => "'!'",
            Question => "'?'",
            Colon => "':'",
            Plus => "'+'",
            Star => "'*'",
            Slash => "'/'",
            Percent => "'%'",
            True => "'true'",
            False => "'false'",
            Null => "'null'",
            Float => "NUM_FLOAT",
            Int => "NUM_INT",
            Uint => "NUM_UINT",
            Str => "STRING",
            Bytes => "BYTES",
            Ident => "IDENTIFIER",
            EscapedIdent => "ESC_IDENTIFIER",
            End => "<EOF>",
        }
    }
}

/// A token and its characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub token: Token,
    pub start: u32,
    pub end: u32,
}

/// All tokens up to the end, and the places no token starts at with the characters skipped there.
pub(crate) fn lex(source: &Source) -> (Vec<Lexeme>, Vec<(u32, String)>) {
    let chars = &source.chars;
    let mut lexer = Lexer { chars, at: 0 };
    let mut lexemes = Vec::with_capacity(chars.len() / 3 + 1);
    let mut errors = Vec::new();
    loop {
        lexer.skip_hidden();
        let start = lexer.at;
        let at = |offset: usize| offset as u32;
        if start == chars.len() {
            lexemes.push(Lexeme { token: Token::End, start: at(start), end: at(start) });
            return (lexemes, errors);
        }
        match lexer.longest() {
            Ok((token, end)) => {
                lexemes.push(Lexeme { token, start: at(start), end: at(end) });
                lexer.at = end;
            }
            Err(failed) => {
                let skipped = &chars[start..chars.len().min(failed + 1)];
                errors.push((at(start), skipped.iter().flat_map(|c| displayed(*c)).collect()));
                lexer.at = chars.len().min(failed + 1);
            }
        }
    }
}

fn displayed(c: char) -> Vec<char> {
    match c {
        '\n' => vec!['\\', 'n'],
        '\t' => vec!['\\', 't'],
        '\r' => vec!['\\', 'r'],
        c => vec![c],
    }
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    fn skip_hidden(&mut self) {
        loop {
            match self.peek(self.at) {
                Some('\t' | ' ' | '\r' | '\n' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(self.at + 1) == Some('/') => {
                    while self.peek(self.at).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// The token here and its end; otherwise where the last hope of one ended.
    fn longest(&self) -> Result<(Token, usize), usize> {
        let start = self.at;
        let first = self.peek(start).ok_or(start)?;
        let one = |token| Ok((token, start + 1));
        let next = self.peek(start + 1);
        match first {
            'a'..='z' | 'A'..='Z' | '_' => Ok(self.word(start)),
            '0'..='9' => Ok(self.number(start)),
            '"' | '\'' => self.string(start, false).map(|end| (Token::Str, end)),
            '`' => self.escaped_ident(start),
            '.' if next.is_some_and(|c| c.is_ascii_digit()) => {
                Ok((Token::Float, self.exponent(self.digits(start + 1)).unwrap_or_else(|end| end)))
            }
            '=' if next == Some('=') => Ok((Token::Equals, start + 2)),
            '!' if next == Some('=') => Ok((Token::NotEquals, start + 2)),
            '<' if next == Some('=') => Ok((Token::LessEquals, start + 2)),
            '>' if next == Some('=') => Ok((Token::GreaterEquals, start + 2)),
            '&' if next == Some('&') => Ok((Token::And, start + 2)),
            '|' if next == Some('|') => Ok((Token::Or, start + 2)),
            '=' | '&' | '|' => Err(start + 1),
            '<' => one(Token::Less),
            '>' => one(Token::Greater),
            '!' => one(Token::Not),
            '[' => one(Token::LeftBracket),
            ']' => one(Token::RightBracket),
            '{' => one(Token::LeftBrace),
            '}' => one(Token::RightBrace),
            '(' => one(Token::LeftParen),
            ')' => one(Token::RightParen),
            '.' => one(Token::Dot),
            ',' => one(Token::Comma),
            '-' => one(Token::Minus),
            '?' => one(Token::Question),
            ':' => one(Token::Colon),
            '+' => one(Token::Plus),
            '*' => one(Token::Star),
            '/' => one(Token::Slash),
            '%' => one(Token::Percent),
            _ => Err(start),
        }
    }

    /// An identifier or keyword, or a string with a prefix. An unfinished string leaves its prefix as an identifier.
    fn word(&self, start: usize) -> (Token, usize) {
        let bytes = matches!(self.peek(start), Some('b' | 'B'));
        let prefix = start + usize::from(bytes);
        let raw = matches!(self.peek(prefix), Some('r' | 'R'));
        let quote = prefix + usize::from(raw);
        if quote > start
            && matches!(self.peek(quote), Some('"' | '\''))
            && let Ok(end) = self.string(quote, raw)
        {
            return (if bytes { Token::Bytes } else { Token::Str }, end);
        }
        let mut end = start;
        while self.peek(end).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            end += 1;
        }
        let token = match &self.chars[start..end] {
            ['i', 'n'] => Token::In,
            ['t', 'r', 'u', 'e'] => Token::True,
            ['f', 'a', 'l', 's', 'e'] => Token::False,
            ['n', 'u', 'l', 'l'] => Token::Null,
            _ => Token::Ident,
        };
        (token, end)
    }

    fn digits(&self, mut at: usize) -> usize {
        while self.peek(at).is_some_and(|c| c.is_ascii_digit()) {
            at += 1;
        }
        at
    }
    /// The end of an exponent, or `at` again if there is none.
    fn exponent(&self, at: usize) -> Result<usize, usize> {
        if !matches!(self.peek(at), Some('e' | 'E')) {
            return Err(at);
        }
        let digits = at + 1 + usize::from(matches!(self.peek(at + 1), Some('+' | '-')));
        let end = self.digits(digits);
        if end > digits { Ok(end) } else { Err(at) }
    }

    fn number(&self, start: usize) -> (Token, usize) {
        let unsigned = |end: usize| match self.peek(end) {
            Some('u' | 'U') => (Token::Uint, end + 1),
            _ => (Token::Int, end),
        };
        if self.peek(start) == Some('0') && self.peek(start + 1) == Some('x') {
            let mut end = start + 2;
            while self.peek(end).is_some_and(|c| c.is_ascii_hexdigit()) {
                end += 1;
            }
            if end > start + 2 {
                return unsigned(end);
            }
        }
        let whole = self.digits(start);
        if self.peek(whole) == Some('.') && self.peek(whole + 1).is_some_and(|c| c.is_ascii_digit()) {
            return (Token::Float, self.exponent(self.digits(whole + 1)).unwrap_or_else(|end| end));
        }
        match self.exponent(whole) {
            Ok(end) => (Token::Float, end),
            Err(end) => unsigned(end),
        }
    }

    /// The end of a string whose quotes start here, or where it cannot go on.
    fn string(&self, start: usize, raw: bool) -> Result<usize, usize> {
        let quote = self.peek(start).ok_or(start)?;
        let tripled = |at: usize| (at..at + 3).all(|at| self.peek(at) == Some(quote));
        if tripled(start) {
            let mut at = start + 3;
            while at < self.chars.len() {
                if tripled(at) {
                    return Ok(at + 3);
                }
                match self.escape(at, raw) {
                    Ok(next) => at = next,
                    Err(_) => break,
                }
            }
            // Two quotes are an empty string in any case.
            return Ok(start + 2);
        }
        let mut at = start + 1;
        loop {
            match self.peek(at) {
                Some(c) if c == quote => return Ok(at + 1),
                None | Some('\n' | '\r') => return Err(at),
                Some(_) => at = self.escape(at, raw)?,
            }
        }
    }

    /// The end of the character or escape sequence here, or where the sequence is broken.
    fn escape(&self, at: usize, raw: bool) -> Result<usize, usize> {
        if raw || self.peek(at) != Some('\\') {
            return Ok(at + 1);
        }
        let all = |from: usize, count: usize, ok: fn(char) -> bool| match (from..from + count)
            .find(|at| !self.peek(*at).is_some_and(ok))
        {
            Some(broken) => Err(broken),
            None => Ok(from + count),
        };
        match self.peek(at + 1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(at + 2),
            Some('0'..='3') => all(at + 2, 2, |c| ('0'..='7').contains(&c)),
            Some('x' | 'X') => all(at + 2, 2, |c| c.is_ascii_hexdigit()),
            Some('u') => all(at + 2, 4, |c| c.is_ascii_hexdigit()),
            Some('U') => all(at + 2, 8, |c| c.is_ascii_hexdigit()),
            _ => Err(at + 1),
        }
    }

    fn escaped_ident(&self, start: usize) -> Result<(Token, usize), usize> {
        let mut at = start + 1;
        while self
            .peek(at)
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '))
        {
            at += 1;
        }
        if self.peek(at) == Some('`') && at > start + 1 { Ok((Token::EscapedIdent, at + 1)) } else { Err(at) }
    }
}
