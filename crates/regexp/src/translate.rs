//! Go's syntax (`regexp/syntax` with Perl's extensions), written anew for the `regex` crate.

use super::{MAX_DEPTH, class};

/// What Go refuses, and the part of the pattern it names.
pub(super) struct Problem<'t> {
    pub what: &'static str,
    pub part: &'t str,
}

pub(super) type Parsed<'t, T> = Result<T, Problem<'t>>;

/// Larger counts are refused, also multiplied by those of groups around.
const MAX_REPEAT: u64 = 1000;

pub(super) fn translate(text: &str) -> Parsed<'_, String> {
    let mut t = Translator {
        whole: text,
        out: String::with_capacity(text.len() + 16),
        flags: Flags::default(),
        written: Flags::default(),
        groups: Vec::new(),
        last: None,
        highest: 0,
    };
    t.run()?;
    Ok(t.out)
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    lazy: bool,
}

impl Flags {
    /// `i-msU`.
    fn text(self) -> String {
        let all = [(self.fold_case, 'i'), (self.multi_line, 'm'), (self.dot_newline, 's'), (self.lazy, 'U')];
        let on = all.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag);
        let off = all.iter().filter(|(set, _)| !*set).map(|(_, flag)| *flag);
        let mut text: String = on.collect();
        text.push('-');
        text.extend(off);
        text.trim_end_matches('-').to_owned()
    }
}

struct Group {
    flags: Flags,
    written: Flags,
    /// Of what comes before it in the group around.
    highest: u64,
}

struct Translator<'t> {
    whole: &'t str,
    out: String,
    flags: Flags,
    /// What the output says so far: flags are written before the next operand, since the last one may still be repeated.
    written: Flags,
    groups: Vec<Group>,
    /// The last operand's product of counts, if a repetition may follow.
    last: Option<u64>,
    /// The highest product of counts in this group.
    highest: u64,
}

impl<'t> Translator<'t> {
    fn run(&mut self) -> Parsed<'t, ()> {
        let mut rest = self.whole;
        let mut last_repeat: Option<&'t str> = None;
        while let Some(c) = rest.chars().next() {
            let before = rest;
            let mut repeat = None;
            let tail = &rest[c.len_utf8()..];
            rest = match c {
                '(' if tail.starts_with('?') => self.perl_group(rest)?,
                '(' => {
                    self.open(self.flags);
                    tail
                }
                '|' => {
                    self.out.push('|');
                    self.last = None;
                    tail
                }
                ')' => {
                    self.close()?;
                    tail
                }
                '^' | '$' | '.' => self.operand(&c.to_string(), tail),
                '[' => {
                    let (class, tail) = class::bracketed(rest)?;
                    self.operand(&class, tail)
                }
                '*' | '+' | '?' => {
                    repeat = Some(before);
                    self.repeat(None, before, tail, last_repeat)?
                }
                '{' => match counts(rest) {
                    None => self.literal('{', tail),
                    Some((min, max, tail)) => {
                        let part = &before[..before.len() - tail.len()];
                        if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || min > max) {
                            return Err(Problem { what: "invalid repeat count", part });
                        }
                        repeat = Some(before);
                        self.repeat(Some((min, max)), before, tail, last_repeat)?
                    }
                },
                '\\' => self.escaped(rest)?,
                c => self.literal(c, tail),
            };
            last_repeat = repeat;
        }
        match self.groups.is_empty() {
            true => Ok(()),
            false => Err(Problem { what: "missing closing )", part: self.whole }),
        }
    }

    fn write_flags(&mut self) {
        if self.written != self.flags {
            self.written = self.flags;
            self.out.push_str(&format!("(?{})", self.flags.text()));
        }
    }
    fn operand(&mut self, text: &str, rest: &'t str) -> &'t str {
        self.write_flags();
        self.last = Some(1);
        self.out.push_str(text);
        rest
    }
    fn literal(&mut self, c: char, rest: &'t str) -> &'t str {
        self.operand(&regex::escape(c.encode_utf8(&mut [0; 4])), rest)
    }

    /// A group with flags of its own.
    fn open(&mut self, flags: Flags) {
        let Translator { flags: outer, written, highest, .. } = *self;
        self.groups.push(Group { flags: outer, written, highest });
        self.out.push_str(&format!("(?{}:", flags.text()));
        (self.flags, self.written) = (flags, flags);
        self.last = None;
        self.highest = 1;
    }
    fn close(&mut self) -> Parsed<'t, ()> {
        let depth = self.groups.len();
        let Some(group) = self.groups.pop() else {
            return Err(Problem { what: "unexpected )", part: self.whole });
        };
        if depth >= MAX_DEPTH {
            return Err(Problem { what: "expression nests too deeply", part: self.whole });
        }
        self.out.push(')');
        (self.flags, self.written) = (group.flags, group.written);
        self.last = Some(self.highest);
        self.highest = group.highest.max(self.highest);
        Ok(())
    }

    /// A repetition of the last operand: `*`, or so many times.
    fn repeat(
        &mut self,
        counts: Option<(u64, Option<u64>)>,
        before: &'t str,
        mut after: &'t str,
        last_repeat: Option<&'t str>,
    ) -> Parsed<'t, &'t str> {
        let lazy = after.starts_with('?');
        after = &after[usize::from(lazy)..];
        if let Some(earlier) = last_repeat {
            let part = &earlier[..earlier.len() - after.len()];
            return Err(Problem { what: "invalid nested repetition operator", part });
        }
        let part = &before[..before.len() - after.len()];
        let Some(mut repeats) = self.last else {
            return Err(Problem { what: "missing argument to repetition operator", part });
        };
        if let Some((min, max)) = counts {
            repeats = match max {
                Some(0) => 0,
                max => max.unwrap_or(min).max(1).saturating_mul(repeats),
            };
            if repeats > MAX_REPEAT {
                return Err(Problem { what: "invalid repeat count", part });
            }
        }
        let written = &part[..part.len() - usize::from(lazy)];
        self.out.push_str(written);
        // A flag that is not written yet counts for the repetition already.
        if lazy != (self.flags.lazy != self.written.lazy) {
            self.out.push('?');
        }
        self.highest = self.highest.max(repeats);
        self.last = Some(repeats);
        Ok(after)
    }

    /// `(?:`, `(?i)`, `(?P<name>`.
    fn perl_group(&mut self, text: &'t str) -> Parsed<'t, &'t str> {
        let invalid_name = |part| Err(Problem { what: "invalid named capture", part });
        let with_p = text.len() > 4 && text[2..].starts_with("P<");
        if with_p || (text.len() > 3 && text[2..].starts_with('<')) {
            let Some(end) = text.find('>') else { return invalid_name(text) };
            let name = &text[if with_p { 4 } else { 3 }..end];
            if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') {
                return invalid_name(&text[..=end]);
            }
            self.open(self.flags);
            return Ok(&text[end + 1..]);
        }
        let mut flags = self.flags;
        let (mut on, mut saw) = (true, false);
        let mut rest = &text[2..];
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            let flag = match c {
                'i' => &mut flags.fold_case,
                'm' => &mut flags.multi_line,
                's' => &mut flags.dot_newline,
                'U' => &mut flags.lazy,
                '-' if on => {
                    (on, saw) = (false, false);
                    continue;
                }
                ':' | ')' if on || saw => {
                    if c == ':' {
                        self.open(flags);
                    } else {
                        self.flags = flags;
                    }
                    return Ok(rest);
                }
                _ => break,
            };
            *flag = on;
            saw = true;
        }
        let part = &text[..text.len() - rest.len()];
        Err(Problem { what: "invalid or unsupported Perl syntax", part })
    }

    fn escaped(&mut self, text: &'t str) -> Parsed<'t, &'t str> {
        let tail = text.get(2..);
        match text.as_bytes().get(1) {
            Some(b'A') => return Ok(self.operand("\\A", &text[2..])),
            Some(b'z') => return Ok(self.operand("\\z", &text[2..])),
            Some(b'b') => return Ok(self.operand("(?-u:\\b)", &text[2..])),
            Some(b'B') => return Ok(self.operand("(?-u:\\B)", &text[2..])),
            Some(b'C') => return Err(Problem { what: "invalid escape sequence", part: &text[..2] }),
            Some(b'Q') => {
                let quoted = tail.unwrap_or("");
                let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                literal.chars().for_each(|c| {
                    self.literal(c, "");
                });
                return Ok(rest);
            }
            _ => {}
        }
        if let Some((class, rest)) = class::unicode(text)? {
            return Ok(self.operand(&class, rest));
        }
        if let Some((class, rest)) = class::perl(text) {
            return Ok(self.operand(class, rest));
        }
        let (code, rest) = class::escape(text)?;
        Ok(match char::from_u32(code) {
            Some(c) => self.literal(c, rest),
            None => self.operand(class::NOTHING, rest),
        })
    }
}

/// `{2}`, `{2,}`, `{2,5}` and what follows; `None` if it is none of them.
fn counts(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let rest = text.strip_prefix('{')?;
    let (min, rest) = number(rest)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, Some(min), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, None, rest));
    }
    let (max, rest) = number(rest)?;
    Some((min, Some(max), rest.strip_prefix('}')?))
}

/// Digits, without a leading zero; what is too large to count is just large.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().unwrap_or(u64::MAX), rest))
}
