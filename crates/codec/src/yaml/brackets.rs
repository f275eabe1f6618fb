//! Flow collections that nest deeper than the parser's one-byte counter: the deep part is cut out and parsed
//! separately, as often as needed.
//!
//! ```text
//!  [[[ … [[[ 1, 2 ]] … ]]]      collections at level 256 are replaced by placeholders:
//!  [[[ … [""] … ]]]             the rest is parsed with empty strings in their place,
//!  [[ 1, 2 ]]                   and each of them as a document of its own, which replaces its placeholder
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use super::{MAX_DEPTH, YamlError};

/// How often one text may be cut. Each cut rescans all of it; real documents this deep are JSON.
pub(super) const MAX_CUTS: usize = 8;
/// The first level the parser cannot count.
const CUT_AT: usize = u8::MAX as usize + 1;
/// Valid wherever a value is.
const PLACEHOLDER: &str = "\"\"";

/// The ranges cut out of a text.
pub(super) struct Cuts<'t> {
    text: &'t str,
    /// In bytes of the text, ascending.
    ranges: Vec<Range<usize>>,
}

/// The text with placeholders, and the pieces cut out, by the position of their placeholder (in characters).
pub(super) struct Rest<'t> {
    pub text: String,
    pub pieces: BTreeMap<usize, Piece<'t>>,
}

#[derive(Clone, Copy)]
pub(super) struct Piece<'t> {
    pub text: &'t str,
    /// The line of the text it starts in, from 1.
    pub line: usize,
}

impl<'t> Cuts<'t> {
    pub fn none(text: &'t str) -> Cuts<'t> {
        Cuts { text, ranges: Vec::new() }
    }

    /// Cuts out the collection that is too deep, and all others at the same level of the outermost one. `at` is its position in
    /// the rest so far; `around` is the depth of the text itself. Lines are the text's.
    pub fn add(&mut self, at: usize, around: usize) -> Result<(), YamlError> {
        let start = self.offset(at);
        let mut line = 1 + self.text[..start].matches('\n').count();
        let mut scan = Scan { text: self.text, at: start, line, fresh: true };
        let (mut depth, mut piece) = (CUT_AT - 1, None);
        while depth > 0 {
            let Some((offset, bracket)) = scan.next_bracket()? else {
                let open = self.text.trim_end().ends_with(['[', '{', ',', ':']);
                let problem = if open {
                    "did not find expected node content"
                } else {
                    "did not find expected ',' or ']'"
                };
                return Err(YamlError::Syntax { line: scan.line, problem: problem.to_owned() });
            };
            if matches!(bracket, '[' | '{') {
                depth += 1;
                line = scan.line;
                if around + depth > MAX_DEPTH {
                    return Err(YamlError::TooDeep { line: (line > 1).then_some(line) });
                }
                if depth == CUT_AT {
                    // A placeholder would hide it if no value may start here.
                    let before = self.text[..offset].trim_end().chars().next_back();
                    if !matches!(before, Some('[' | '{' | ',' | ':' | '?')) {
                        return Err(YamlError::TooManyBrackets { line });
                    }
                    piece = Some(offset);
                }
                continue;
            }
            if let Some(from) = piece.take_if(|_| depth == CUT_AT) {
                self.ranges.push(from..offset + 1);
            }
            depth -= 1;
        }
        Ok(())
    }

    /// The text with placeholders; lines and columns stay the same.
    pub fn rest(&self) -> Rest<'t> {
        let mut rest = Rest { text: String::new(), pieces: BTreeMap::new() };
        let (mut from, mut position, mut line) = (0, 0, 1);
        for range in &self.ranges {
            let kept = &self.text[from..range.start];
            line += kept.matches('\n').count();
            position += kept.chars().count();
            let piece = &self.text[range.clone()];
            rest.pieces.insert(position, Piece { text: piece, line });
            let filling = filling(piece);
            line += filling.matches('\n').count();
            position += filling.chars().count();
            rest.text.push_str(kept);
            rest.text.push_str(&filling);
            from = range.end;
        }
        rest.text.push_str(&self.text[from..]);
        rest
    }

    /// The byte offset in the text of a character of the rest.
    fn offset(&self, at: usize) -> usize {
        let (mut from, mut left) = (0, at);
        for range in &self.ranges {
            let kept = self.text[from..range.start].chars().count();
            if left < kept {
                break;
            }
            left = left.saturating_sub(kept + filling(&self.text[range.clone()]).chars().count());
            from = range.end;
        }
        self.text[from..].char_indices().nth(left).map_or(self.text.len(), |(byte, _)| from + byte)
    }
}

/// The placeholder of a piece, with as many lines as the piece, so that positions after it stay the same.
fn filling(piece: &str) -> String {
    match piece.rsplit_once('\n') {
        None => PLACEHOLDER.to_owned(),
        Some((lines, last)) => {
            let lines = 1 + lines.matches('\n').count();
            format!("{PLACEHOLDER}{}{}", "\n".repeat(lines), " ".repeat(last.chars().count()))
        }
    }
}

/// Finds brackets, skipping quoted strings and comments.
struct Scan<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    /// A value may start here. Inside a plain scalar quotes are ordinary characters.
    fresh: bool,
}

impl Scan<'_> {
    /// The next bracket, with its offset.
    fn next_bracket(&mut self) -> Result<Option<(usize, char)>, YamlError> {
        while let Some(c) = self.text[self.at..].chars().next() {
            let (at, fresh) = (self.at, self.fresh);
            self.at += c.len_utf8();
            match c {
                '\n' => self.line += 1,
                c if c.is_whitespace() => {}
                '[' | ']' | '{' | '}' => {
                    self.fresh = true;
                    return Ok(Some((at, c)));
                }
                ',' | ':' | '?' => self.fresh = true,
                '"' | '\'' if fresh => self.skip_quoted(c),
                '#' if self.text[..at].ends_with(char::is_whitespace) => self.skip_while(|c| c != '\n'),
                // An anchor or alias may refer to something outside the piece.
                '&' | '*' if fresh => return Err(YamlError::TooManyBrackets { line: self.line }),
                _ => self.fresh = false,
            }
        }
        Ok(None)
    }

    /// A doubled single quote counts as the end of one string and the start of the next, which gives the same result.
    fn skip_quoted(&mut self, quote: char) {
        let mut escaped = false;
        self.skip_while(|c| {
            let ends = c == quote && !escaped;
            escaped = quote == '"' && c == '\\' && !escaped;
            !ends
        });
        self.at = (self.at + 1).min(self.text.len());
    }

    fn skip_while(&mut self, mut so: impl FnMut(char) -> bool) {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !so(c)).unwrap_or(rest.len());
        self.line += rest[..end].matches('\n').count();
        self.at += end;
    }
}
