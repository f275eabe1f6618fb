//! The lines of catalogue files: their words, and errors that say where.

use super::{CatalogError, Problem};

/// A line with words on it.
#[derive(Clone, Copy)]
pub(super) struct Line<'f> {
    pub file: &'f str,
    pub number: usize,
    pub indented: bool,
    pub text: &'static str,
}

/// All lines that are neither blank nor comments.
pub(super) fn lines<'f>(files: &'f [(&'f str, &'static str)]) -> impl Iterator<Item = Line<'f>> {
    files.iter().flat_map(|(file, text)| {
        text.lines().enumerate().filter_map(move |(i, line)| {
            let text = line.trim();
            let indented = line.starts_with([' ', '\t']);
            (!text.is_empty() && !text.starts_with('#')).then_some(Line {
                file,
                number: i + 1,
                indented,
                text,
            })
        })
    })
}

impl Line<'_> {
    pub fn words(&self) -> Words<'_> {
        Words { line: self, rest: self.text }
    }

    pub fn word(&self) -> Option<&'static str> {
        self.words().next()
    }

    pub fn opens(&self, block: &str) -> bool {
        !self.indented
            && self.text.strip_prefix(block).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    pub fn error(&self, problem: Problem) -> CatalogError {
        CatalogError { file: self.file.to_owned(), line: self.number, problem }
    }

    pub fn unexpected(&self, word: &str, expected: &'static str) -> CatalogError {
        self.error(Problem::Unexpected { word: word.to_owned(), expected })
    }

    pub fn duplicate(&self, what: &'static str, name: &str) -> CatalogError {
        self.error(Problem::Duplicate { what, name: name.to_owned() })
    }
}

/// The words of a line, in turn.
pub(super) struct Words<'l> {
    line: &'l Line<'l>,
    rest: &'static str,
}

impl Words<'_> {
    /// The next word, which the line must have.
    pub fn need(&mut self, what: &'static str) -> Result<&'static str, CatalogError> {
        self.next().ok_or_else(|| self.line.error(Problem::Missing(what)))
    }
}

impl Iterator for Words<'_> {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        let rest = self.rest.trim_start_matches(' ');
        if rest.is_empty() {
            return None;
        }
        let end = rest.bytes().position(|b| b == b' ').unwrap_or(rest.len());
        self.rest = &rest[end..];
        Some(&rest[..end])
    }
}

/// `key=value` apart; a bare word has no value.
pub(super) fn flag(word: &'static str) -> (&'static str, Option<&'static str>) {
    match word.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (word, None),
    }
}
