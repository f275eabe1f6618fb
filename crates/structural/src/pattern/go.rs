//! Go's syntax into that of the `regex` crate, which differs in classes, escapes and what it takes for a repetition.

use regex::Regex;

use super::{MAX_NESTING, PatternError};

const MAX_REPEAT: u32 = 1000;
const SPACE: &str = r"\t\n\f\r ";
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

pub(super) fn translate(text: &str) -> Result<String, PatternError> {
    let mut translator = Translator {
        whole: text,
        rest: text,
        out: String::with_capacity(text.len() + 16),
        open: Vec::new(),
        weight: None,
        heaviest: 1,
        pending: String::new(),
    };
    translator.run()?;
    Ok(translator.out)
}

struct Translator<'t> {
    whole: &'t str,
    rest: &'t str,
    out: String,
    /// The heaviest part of what is around each open group.
    open: Vec<u32>,
    /// How often the part before may repeat, in all; `None` when there is none that could be repeated.
    weight: Option<u32>,
    heaviest: u32,
    /// Flags that begin here. A repetition may still follow, and is about what is before them.
    pending: String,
}

fn error<T>(code: &'static str, part: &str) -> Result<T, PatternError> {
    Err(PatternError { code, part: part.to_owned() })
}

impl<'t> Translator<'t> {
    fn run(&mut self) -> Result<(), PatternError> {
        // The repetition just read: another one may not follow it.
        let mut repeated: Option<&'t str> = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let last = repeated.take();
            let repeats = matches!(c, '*' | '+' | '?') || c == '{' && counts(before).is_some();
            if !repeats {
                self.out.push_str(&std::mem::take(&mut self.pending));
            }
            match c {
                '(' if before.starts_with("(?") => self.flags()?,
                '(' => {
                    self.skip(1);
                    self.open_group("(")?;
                }
                '|' => {
                    self.copy(1);
                    self.weight = None;
                }
                ')' => {
                    self.copy(1);
                    let Some(around) = self.open.pop() else {
                        return error("unexpected )", self.whole);
                    };
                    self.weight = Some(self.heaviest);
                    self.heaviest = self.heaviest.max(around);
                }
                '^' | '$' | '.' => {
                    self.copy(1);
                    self.atom();
                }
                '[' => {
                    self.class()?;
                    self.atom();
                }
                '*' | '+' | '?' => {
                    self.copy(1);
                    self.repeat(before, last, None)?;
                    repeated = Some(before);
                }
                '{' => match counts(before) {
                    Some((min, max, after)) => {
                        let part = &before[..before.len() - after.len()];
                        if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || max < min) {
                            return error("invalid repeat count", part);
                        }
                        self.out.push_str(part);
                        self.rest = after;
                        self.repeat(before, last, Some(max.unwrap_or(min)))?;
                        repeated = Some(before);
                    }
                    None => {
                        self.skip(1);
                        self.literal('{');
                        self.atom();
                    }
                },
                '\\' => self.escaped()?,
                _ => {
                    self.skip(c.len_utf8());
                    self.literal(c);
                    self.atom();
                }
            }
        }
        if !self.open.is_empty() {
            return error("missing closing )", self.whole);
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }
    fn copy(&mut self, bytes: usize) {
        self.out.push_str(&self.rest[..bytes]);
        self.skip(bytes);
    }
    fn atom(&mut self) {
        self.weight = Some(1);
    }
    fn literal(&mut self, c: char) {
        push_char(&mut self.out, c);
    }

    fn open_group(&mut self, text: &str) -> Result<(), PatternError> {
        if self.open.len() >= MAX_NESTING as usize {
            return error("expression nests too deeply", self.whole);
        }
        self.out.push_str(text);
        self.open.push(self.heaviest);
        self.heaviest = 1;
        self.weight = None;
        Ok(())
    }

    /// The end of a repetition that began at `before`. `most`: how often, when it is counted.
    fn repeat(&mut self, before: &str, last: Option<&str>, most: Option<u32>) -> Result<(), PatternError> {
        if self.rest.starts_with('?') {
            self.copy(1);
        }
        if let Some(last) = last {
            return error("invalid nested repetition operator", &last[..last.len() - self.rest.len()]);
        }
        let part = &before[..before.len() - self.rest.len()];
        let Some(weight) = self.weight else {
            return error("missing argument to repetition operator", part);
        };
        let weight = most.map_or(weight, |most| most.max(1).saturating_mul(weight));
        if weight > MAX_REPEAT {
            return error("invalid repeat count", part);
        }
        self.weight = Some(weight);
        self.heaviest = self.heaviest.max(weight);
        Ok(())
    }

    /// `(?:`, `(?i)`, `(?i-s:`, `(?P<name>`, `(?<name>`.
    fn flags(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        for head in ["(?P<", "(?<"] {
            let Some(named) = start.strip_prefix(head).filter(|named| !named.is_empty()) else { continue };
            let Some(end) = named.find('>') else { return error("invalid named capture", start) };
            let (name, capture) = (&named[..end], &start[..head.len() + end + 1]);
            let valid = !name.is_empty() && name.bytes().all(|c| c == b'_' || c.is_ascii_alphanumeric());
            if !valid {
                return error("invalid named capture", capture);
            }
            self.skip(capture.len());
            // Nobody asks for names, and those that begin with a digit are none to the other engine.
            return self.open_group("(");
        }
        let mut at = 2;
        let (mut minus, mut seen) = (false, false);
        for c in start[2..].chars() {
            at += c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' => seen = true,
                '-' if !minus => (minus, seen) = (true, false),
                ':' | ')' if !minus || seen => {
                    self.skip(at);
                    if c == ':' {
                        return self.open_group(&start[..at]);
                    }
                    if at > 3 {
                        self.pending.push_str(&start[..at]);
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        error("invalid or unsupported Perl syntax", &start[..at])
    }

    fn escaped(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        match start[1..].chars().next() {
            Some('A') => self.out.push_str("\\A"),
            Some('z') => self.out.push_str("\\z"),
            Some('b') => self.out.push_str("(?-u:\\b)"),
            Some('B') => self.out.push_str("(?-u:\\B)"),
            Some('C') => return error("invalid escape sequence", "\\C"),
            Some('Q') => {
                let quoted = &start[2..];
                let (quoted, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                for c in quoted.chars() {
                    self.literal(c);
                    self.atom();
                }
                self.rest = after;
                return Ok(());
            }
            _ => {
                if let Some(class) = self.class_escape()? {
                    self.out.push('[');
                    self.out.push_str(&class);
                    self.out.push(']');
                } else {
                    let c = self.escape()?;
                    push_code(&mut self.out, c);
                }
                self.atom();
                return Ok(());
            }
        }
        self.skip(2);
        self.atom();
        Ok(())
    }

    /// `\d`, `\pL`, `\p{Greek}`: what stands for it inside of a class.
    fn class_escape(&mut self) -> Result<Option<String>, PatternError> {
        let start = self.rest;
        let Some(c) = start[1..].chars().next() else { return Ok(None) };
        let class = match c {
            'd' => "0-9".to_owned(),
            'D' => "[^0-9]".to_owned(),
            's' => SPACE.to_owned(),
            'S' => format!("[^{SPACE}]"),
            'w' => "0-9A-Za-z_".to_owned(),
            'W' => "[^0-9A-Za-z_]".to_owned(),
            'p' | 'P' => {
                let name = &start[2..];
                let (name, end) = if let Some(name) = name.strip_prefix('{') {
                    let Some(end) = name.find('}') else {
                        return error("invalid character class range", start);
                    };
                    (&name[..end], 3 + end + 1)
                } else {
                    let Some(letter) = name.chars().next() else {
                        return error("invalid character class range", start);
                    };
                    (&name[..letter.len_utf8()], 2 + letter.len_utf8())
                };
                let part = &start[..end];
                let (name, negated) = match name.strip_prefix('^') {
                    Some(name) => (name, true),
                    None => (name, false),
                };
                let known = !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphabetic() || c == b'_');
                let p = if negated != (c == 'P') { "\\P" } else { "\\p" };
                let class = format!("{p}{{{name}}}");
                if !known || Regex::new(&class).is_err() {
                    return error("invalid character class range", part);
                }
                self.skip(end);
                return Ok(Some(class));
            }
            _ => return Ok(None),
        };
        self.skip(2);
        Ok(Some(class))
    }

    /// An escape that stands for one character.
    fn escape(&mut self) -> Result<u32, PatternError> {
        let start = self.rest;
        let mut chars = start[1..].chars();
        let mut used = 1;
        let mut take = |used: &mut usize| {
            let c = chars.next()?;
            *used += c.len_utf8();
            Some((c, chars.as_str()))
        };
        let Some((c, after)) = take(&mut used) else {
            return error("trailing backslash at end of expression", "");
        };
        let bad = |used: usize| error("invalid escape sequence", &start[..used]);
        let code = match c {
            '0'..='7' => {
                let octal = |text: &str| text.chars().next().and_then(|c| c.to_digit(8));
                if c != '0' && octal(after).is_none() {
                    return bad(used);
                }
                let mut code = c.to_digit(8).unwrap_or_default();
                let mut rest = after;
                for _ in 0..2 {
                    let Some(digit) = octal(rest) else { break };
                    code = code * 8 + digit;
                    let Some((_, after)) = take(&mut used) else { break };
                    rest = after;
                }
                code
            }
            'x' => {
                let Some((c, _)) = take(&mut used) else { return bad(used) };
                if c == '{' {
                    let mut code = 0u32;
                    let mut digits = 0;
                    loop {
                        let Some((c, _)) = take(&mut used) else { return bad(used) };
                        if c == '}' {
                            break;
                        }
                        let Some(digit) = c.to_digit(16) else { return bad(used) };
                        code = code * 16 + digit;
                        digits += 1;
                        if code > char::MAX.into() {
                            return bad(used);
                        }
                    }
                    if digits == 0 {
                        return bad(used);
                    }
                    code
                } else {
                    let Some((d, _)) = take(&mut used) else { return bad(used) };
                    let Some(code) = c.to_digit(16).zip(d.to_digit(16)).map(|(c, d)| c * 16 + d) else {
                        return bad(used);
                    };
                    code
                }
            }
            'a' => 7,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => c.into(),
            _ => return bad(used),
        };
        self.skip(used);
        Ok(code)
    }

    fn class(&mut self) -> Result<(), PatternError> {
        let whole = self.rest;
        self.copy(1);
        if self.rest.starts_with('^') {
            self.copy(1);
        }
        let mut first = true;
        let mut empty = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if let Some(named) = self.rest.strip_prefix("[:")
                && let Some(end) = named.find(":]")
            {
                let name = named[..end].strip_prefix('^').unwrap_or(&named[..end]);
                if !POSIX.contains(&name) {
                    return error("invalid character class range", &self.rest[..end + 4]);
                }
                self.copy(end + 4);
                empty = false;
                continue;
            }
            if self.rest.starts_with('\\')
                && let Some(class) = self.class_escape()?
            {
                self.out.push_str(&class);
                empty = false;
                continue;
            }
            let range = self.rest;
            let low = self.class_char(whole)?;
            let mut high = low;
            if self.rest.starts_with('-') && self.rest.len() >= 2 && !self.rest.starts_with("-]") {
                self.skip(1);
                high = self.class_char(whole)?;
                if high < low {
                    let part = &range[..range.len() - self.rest.len()];
                    return error("invalid character class range", part);
                }
            }
            // No text has surrogates.
            let low = if (0xd800..0xe000).contains(&low) { 0xe000 } else { low };
            let high = if (0xd800..0xe000).contains(&high) { 0xd7ff } else { high };
            if low <= high {
                self.out.push_str(&format!("\\x{{{low:x}}}-\\x{{{high:x}}}"));
                empty = false;
            }
        }
        if empty {
            self.out.push_str("[^\\x00-\\x{10ffff}]");
        }
        self.copy(1);
        Ok(())
    }

    fn class_char(&mut self, whole: &str) -> Result<u32, PatternError> {
        match self.rest.chars().next() {
            None => error("missing closing ]", whole),
            Some('\\') => self.escape(),
            Some(c) => {
                self.skip(c.len_utf8());
                Ok(c.into())
            }
        }
    }
}

/// `{n}`, `{n,}`, `{n,m}` at the start: at least, at most, and what follows. Numbers that are far too large are as large as can be.
fn counts(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let number = |text: &str| -> Option<(u32, usize)> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || (digits > 1 && text.starts_with('0')) {
            return None;
        }
        Some((text[..digits].parse().unwrap_or(u32::MAX), digits))
    };
    let text = text.strip_prefix('{')?;
    let (min, digits) = number(text)?;
    let text = &text[digits..];
    if let Some(after) = text.strip_prefix('}') {
        return Some((min, Some(min), after));
    }
    let text = text.strip_prefix(',')?;
    if let Some(after) = text.strip_prefix('}') {
        return Some((min, None, after));
    }
    let (max, digits) = number(text)?;
    let after = text[digits..].strip_prefix('}')?;
    Some((min, Some(max), after))
}

fn push_char(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push(c);
    } else {
        push_code(out, c.into());
    }
}

fn push_code(out: &mut String, code: u32) {
    match char::from_u32(code) {
        Some(c) if c.is_ascii_alphanumeric() => out.push(c),
        Some(_) => out.push_str(&format!("\\x{{{code:x}}}")),
        // A surrogate, which matches nothing.
        None => out.push_str("[^\\x00-\\x{10ffff}]"),
    }
}
