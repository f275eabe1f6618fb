//! What ANTLR would say of an expression its grammar refuses.

use super::lex::Lexeme;
use crate::ast::Source;
use crate::issue::Issues;

/// Reports what is wrong with the tokens.
pub(super) fn explain(source: &Source, lexemes: &[Lexeme], issues: &mut Issues) {
    let end = lexemes.last().map_or(0, |lexeme| lexeme.start);
    issues.report(source.location(end), "Syntax error");
}
