//! What happens at a token the grammar does not expect: ANTLR's default strategy, since its messages are upstream's.
//!
//! A rule that fails reports it, skips to a token that may follow it or one of the rules around it, and returns what it has;
//! the rules around go on. Until a token matches again nothing more is reported.

use super::lex::{Lexeme, Token};
use super::{Parser, Refused};
use crate::ast::Location;

/// More attempts to recover are not made.
const MAX_ATTEMPTS: u32 = 30;
/// More tokens are not skipped at once.
const MAX_SKIPPED: u32 = 256;

/// A set of tokens; perhaps with the end of the rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set(u64);

impl Set {
    const RULE_END: u64 = 1 << 63;

    pub(super) const fn of(tokens: &[Token]) -> Set {
        let mut bits = 0;
        let mut i = 0;
        while i < tokens.len() {
            bits |= 1 << tokens[i] as u32;
            i += 1;
        }
        Set(bits)
    }
    /// Or the rule ends.
    pub(super) const fn or_end(self) -> Set {
        Set(self.0 | Set::RULE_END)
    }
    pub(super) const fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }
    pub(super) const fn contains(self, token: Token) -> bool {
        self.0 & 1 << token as u32 != 0
    }
    const fn may_end(self) -> bool {
        self.0 & Set::RULE_END != 0
    }

    /// `{'[', '(', IDENTIFIER}`, or the only one.
    fn display(self) -> String {
        let mut names: Vec<&str> = Vec::new();
        if self.contains(Token::End) {
            names.push(Token::End.display());
        }
        names.extend(Token::ALL.iter().filter(|token| self.contains(**token)).map(|token| token.display()));
        match &names[..] {
            [one] => (*one).to_owned(),
            _ => format!("{{{}}}", names.join(", ")),
        }
    }
}

/// A place in the grammar: where in these files.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) module: &'static str,
    pub(super) line: u32,
    pub(super) step: u32,
}

impl Place {
    /// The step behind it, of a rule several others share.
    pub(super) fn next(self) -> Place {
        Place { step: self.step + 1, ..self }
    }
}

/// The place this is written at.
macro_rules! place {
    () => {
        $crate::parse::recovery::Place { module: module_path!(), line: line!(), step: 0 }
    };
}
pub(super) use place;

/// Why a rule stops short.
pub(super) struct Bad {
    place: Place,
    kind: Kind,
}

enum Kind {
    Mismatch(Set),
    /// No alternative fits the tokens from the one to the other.
    NoAlternative(usize, usize),
}

/// What a step of a rule has, or why it is the rule's last.
pub(super) type Step<T> = Result<T, Stop>;

pub(super) enum Stop {
    /// This rule.
    Rule(Bad),
    /// Everything.
    All(Refused),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Stop::All(refused)
    }
}

#[derive(Default)]
pub(super) struct Recovery {
    /// From an error until a token matches.
    active: bool,
    /// Where the last error was, and at which places of the grammar: the same again skips a token.
    last: Option<(usize, Vec<Place>)>,
    attempts: u32,
    /// What may follow each rule under way.
    follows: Vec<Set>,
    pub(super) reported: Vec<(Location, String)>,
}

impl Parser<'_> {
    pub(super) fn lexeme(&self) -> Lexeme {
        self.peek(0)
    }
    pub(super) fn peek(&self, by: usize) -> Lexeme {
        // The last token is the end, and nothing consumes it.
        self.lexemes[(self.at + by).min(self.lexemes.len() - 1)]
    }
    pub(super) fn token(&self) -> Token {
        self.lexeme().token
    }
    fn consume(&mut self) {
        self.at += usize::from(self.token() != Token::End);
    }

    /// Takes the token here, which is known to be right.
    pub(super) fn take(&mut self) -> Lexeme {
        let lexeme = self.lexeme();
        self.matched();
        self.consume();
        lexeme
    }
    fn matched(&mut self) {
        self.recovery.active = false;
        self.recovery.last = None;
    }
    /// Takes a token if it is here.
    pub(super) fn accept(&mut self, token: Token) -> Option<Lexeme> {
        (self.token() == token).then(|| self.take())
    }

    /// Takes this token; one too many before it is dropped, and itself made up where `next` shows that it was forgotten.
    pub(super) fn expect(&mut self, place: Place, token: Token, next: Set) -> Step<Lexeme> {
        if self.token() == token {
            return Ok(self.take());
        }
        let set = Set::of(&[token]);
        self.attempt()?;
        if self.drop_extraneous(set) {
            return Ok(self.take());
        }
        if self.expected(next).contains(self.token()) {
            let (names, found) = (self.expected(set).display(), self.shown(self.lexeme()));
            self.begin(self.at, format!("missing {names} at {found}"));
            return Ok(self.lexeme());
        }
        Err(Stop::Rule(Bad { place, kind: Kind::Mismatch(set) }))
    }

    /// Makes sure that one of these is next, where a choice is due.
    pub(super) fn sync(&mut self, place: Place, set: Set) -> Step<()> {
        if self.recovery.active || set.contains(self.token()) || self.drop_extraneous(set) {
            return Ok(());
        }
        Err(Stop::Rule(Bad { place, kind: Kind::Mismatch(set) }))
    }
    /// The same behind an iteration of a loop: skips to where it may go on or end.
    pub(super) fn sync_loop(&mut self, set: Set) {
        if self.recovery.active || set.contains(self.token()) {
            return;
        }
        self.report_extraneous(set);
        let until = self.expected(set).or(self.recovery_set());
        while self.token() != Token::End && !until.contains(self.token()) {
            self.consume();
        }
    }
    /// No alternative fits the next tokens, up to the one that many ahead.
    pub(super) fn no_alternative<T>(&self, place: Place, ahead: usize) -> Step<T> {
        let last = (self.at + ahead).min(self.lexemes.len() - 1);
        Err(Stop::Rule(Bad { place, kind: Kind::NoAlternative(self.at, last) }))
    }

    /// Runs a rule that `follow` may follow. What it has when it fails, it leaves in the value.
    pub(super) fn rule<T>(
        &mut self,
        follow: Set,
        mut value: T,
        run: impl FnOnce(&mut Self, &mut T) -> Step<()>,
    ) -> Result<T, Refused> {
        self.recovery.follows.push(follow);
        match run(self, &mut value) {
            Ok(()) => {}
            Err(Stop::Rule(bad)) => {
                self.report(&bad);
                self.recover(bad.place)?;
            }
            Err(Stop::All(refused)) => return Err(refused),
        }
        self.recovery.follows.pop();
        Ok(value)
    }

    fn report(&mut self, bad: &Bad) {
        let (at, message) = match &bad.kind {
            Kind::Mismatch(set) => {
                let found = self.shown(self.lexeme());
                (self.at, format!("mismatched input {found} expecting {}", self.expected(*set).display()))
            }
            Kind::NoAlternative(first, last) => {
                let input = quoted(&self.input(*first, *last));
                // Kept as it once was, for reserved words after a dot (upstream says any character).
                let word = input
                    .strip_prefix('\'')
                    .and_then(|rest| rest.split_at_checked(rest.chars().next()?.len_utf8()));
                let message = match word {
                    Some((_, word @ ("true'" | "false'" | "null'"))) => {
                        format!("mismatched input '{word} expecting IDENTIFIER")
                    }
                    _ => format!("no viable alternative at input {input}"),
                };
                (*last, message)
            }
        };
        self.begin(at, message);
    }
    /// Reports an error, unless one is being recovered from.
    fn begin(&mut self, at: usize, message: String) {
        if !self.recovery.active {
            self.recovery.active = true;
            let location = self.place_of(self.lexemes[at]);
            self.recovery.reported.push((location, format!("Syntax error: {message}")));
        }
    }
    fn place_of(&self, lexeme: Lexeme) -> Location {
        match self.source.chars.is_empty() {
            true => Location::UNREAD,
            false => self.source.location(lexeme.start),
        }
    }

    fn recover(&mut self, place: Place) -> Result<(), Refused> {
        self.attempt()?;
        let mut skipped = 0;
        let again =
            matches!(&self.recovery.last, Some((at, places)) if *at == self.at && places.contains(&place));
        if again {
            self.consume();
            skipped = 1;
        }
        let places = self.recovery.last.take().map_or_else(Vec::new, |(_, places)| places);
        self.recovery.last = Some((self.at, [places, vec![place]].concat()));
        let until = self.recovery_set();
        while self.token() != Token::End && !until.contains(self.token()) {
            if skipped >= MAX_SKIPPED {
                return Err(Refused::TooDeep("error recovery token lookahead limit exceeded: 256"));
            }
            skipped += 1;
            self.consume();
        }
        Ok(())
    }
    fn attempt(&mut self) -> Result<(), Refused> {
        self.recovery.attempts += 1;
        if self.recovery.attempts > MAX_ATTEMPTS {
            let message = format!("Syntax error: error recovery attempt limit exceeded: {MAX_ATTEMPTS}");
            let location = self.place_of(self.lexeme());
            self.recovery.reported.push((location, message));
            return Err(Refused::Syntax);
        }
        Ok(())
    }

    /// Drops the token here if the one after it is right.
    fn drop_extraneous(&mut self, set: Set) -> bool {
        let extraneous = self.expected(set).contains(self.peek(1).token);
        if extraneous {
            self.report_extraneous(set);
            self.consume();
            self.matched();
        }
        extraneous
    }
    fn report_extraneous(&mut self, set: Set) {
        let (found, names) = (self.shown(self.lexeme()), self.expected(set).display());
        self.begin(self.at, format!("extraneous input {found} expecting {names}"));
    }

    /// The set, with what may follow the rule if it may end.
    fn expected(&self, set: Set) -> Set {
        let mut all = set;
        let mut open = set.may_end();
        for follow in self.recovery.follows.iter().rev() {
            if !open {
                break;
            }
            all = all.or(*follow);
            open = follow.may_end();
        }
        let end = if open { Set::of(&[Token::End]) } else { Set(0) };
        Set(all.0 & !Set::RULE_END).or(end)
    }
    /// What may follow any of the rules under way.
    fn recovery_set(&self) -> Set {
        let all = self.recovery.follows.iter().fold(Set(0), |all, follow| all.or(*follow));
        Set(all.0 & !Set::RULE_END)
    }

    fn shown(&self, lexeme: Lexeme) -> String {
        match lexeme.token {
            Token::End => String::from("'<EOF>'"),
            _ => quoted(&self.text(lexeme)),
        }
    }
    /// The text of these tokens and what is hidden between them, but for what was unreadable.
    fn input(&self, first: usize, last: usize) -> String {
        if self.lexemes[first].token == Token::End {
            return String::from("<EOF>");
        }
        let (start, end) = (self.lexemes[first].start, self.lexemes[last].end);
        let readable = |at: &u32| !self.unreadable.iter().any(|(from, to)| (*from..*to).contains(at));
        (start..end).filter(readable).map(|at| self.source.chars[at as usize]).collect()
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r"))
}
