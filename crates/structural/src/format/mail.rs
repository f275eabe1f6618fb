//! Mail addresses as RFC 5322 and Go's parser have them: `a@b`, `Name <a@b>`, `"quoted" <a@b>`.

/// Whether the text is exactly one address.
pub(super) fn is_address(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    parser.address().is_some() && parser.skip_comments().is_some() && parser.rest.is_empty()
}

struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }
    fn take(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Comments in parentheses, which nest.
    fn skip_comments(&mut self) -> Option<()> {
        loop {
            self.skip_space();
            if self.peek() != Some('(') {
                return Some(());
            }
            let mut depth = 0usize;
            let mut chars = self.rest.chars();
            loop {
                match chars.next()? {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    '\\' => {
                        chars.next()?;
                    }
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
            self.rest = chars.as_str();
        }
    }

    fn address(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        let start = self.rest;
        // An address alone, perhaps with a comment behind it.
        if self.spec().is_some() {
            self.skip_space();
            return self.skip_comments();
        }
        self.rest = start;
        if self.peek() != Some('<') {
            self.phrase()?;
        }
        self.skip_space();
        if self.take(':').is_some() {
            return self.group();
        }
        self.take('<')?;
        self.spec()?;
        self.take('>')
    }

    /// The members of a group, of which there must be one.
    fn group(&mut self) -> Option<()> {
        self.address()?;
        self.skip_comments()?;
        self.take(';')
    }

    /// `local@domain`.
    fn spec(&mut self) -> Option<()> {
        let local = if self.peek() == Some('"') {
            let quoted = self.quoted()?;
            if quoted.is_empty() {
                return None;
            }
            quoted
        } else {
            self.atom(true, false)?
        };
        if local.is_empty() {
            return None;
        }
        self.take('@')?;
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        if self.peek() == Some('[') {
            return self.domain_literal();
        }
        self.atom(true, false).map(|_| ())
    }

    /// `[1.2.3.4]`.
    fn domain_literal(&mut self) -> Option<()> {
        self.take('[')?;
        let end = self.rest.find(']')?;
        let inner = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        let plain = inner.chars().all(|c| ('!'..='Z').contains(&c) || ('^'..='~').contains(&c));
        (plain && super::net::is_ip(inner)).then_some(())
    }

    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            self.skip_comments()?;
            let word = match self.peek() {
                Some('"') => self.quoted().map(|_| Some(())),
                Some(_) => self.atom(true, true).map(|atom| is_word(&atom).then_some(())),
                None => None,
            };
            match word {
                Some(word) => {
                    word?;
                    words += 1;
                }
                None => break,
            }
        }
        (words > 0).then_some(())
    }

    /// Characters without meaning. With `permissive`, dots may be anywhere, as in display names.
    fn atom(&mut self, dot: bool, permissive: bool) -> Option<String> {
        let special = |c: char| "()<>[]:;@\\,\"".contains(c);
        let fits = |c: char| match c {
            '.' => dot,
            c if c.is_ascii() => c.is_ascii_graphic() && !special(c),
            _ => true,
        };
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let atom = &self.rest[..end];
        let dots = atom.starts_with('.') || atom.ends_with('.') || atom.contains("..");
        if atom.is_empty() || (!permissive && dots) {
            return None;
        }
        let atom = atom.to_owned();
        self.rest = &self.rest[end..];
        Some(atom)
    }

    fn quoted(&mut self) -> Option<String> {
        self.take('"')?;
        let mut text = String::new();
        let mut chars = self.rest.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => {
                    let c = chars.next()?;
                    if !(c == ' ' || c == '\t' || c.is_ascii_graphic() || !c.is_ascii()) {
                        return None;
                    }
                    text.push(c);
                }
                c if c == ' ' || c == '\t' || c.is_ascii_graphic() || !c.is_ascii() => text.push(c),
                _ => return None,
            }
        }
        self.rest = chars.as_str();
        Some(text)
    }
}

/// Whether an encoded word (`=?utf-8?q?text?=`) is in a character set that Go knows.
fn is_word(atom: &str) -> bool {
    let Some(inner) = atom.strip_prefix("=?").and_then(|rest| rest.strip_suffix("?=")) else { return true };
    let parts: Vec<&str> = inner.split('?').collect();
    let [charset, encoding, _] = parts[..] else { return true };
    let known = ["utf-8", "iso-8859-1", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known));
    known || !matches!(encoding, "q" | "Q" | "b" | "B")
}
