//! Strings: scanned eight bytes at a time, unescaped, invalid UTF-8 replaced.

use std::borrow::Cow;

use super::{Bad, Reader, ended, unexpected};

impl<'a> Reader<'a> {
    /// The rest of a string, after its opening quote.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Bad> {
        let start = self.at;
        let end = plain_until(self.bytes, start);
        // Almost every string is plain.
        if self.bytes.get(end) == Some(&b'"')
            && let Some(text) = self.text
            && let Some(piece) = text.get(start..end)
        {
            self.at = end + 1;
            return Ok(Cow::Borrowed(piece));
        }
        self.odd_string(start, end)
    }

    #[cold]
    fn odd_string(&mut self, start: usize, end: usize) -> Result<Cow<'a, str>, Bad> {
        match self.bytes.get(end) {
            Some(b'"') => {
                self.at = end + 1;
                Ok(self.piece(start, end))
            }
            Some(b'\\') => self.escaped_string(start, end).map(Cow::Owned),
            Some(&c) => Err(unexpected(c, "in string literal")),
            None => Err(ended()),
        }
    }

    fn escaped_string(&mut self, start: usize, first_escape: usize) -> Result<String, Bad> {
        let mut out = String::with_capacity((first_escape - start) + 32);
        let mut from = start;
        let mut until = first_escape;
        loop {
            out.push_str(&self.piece(from, until));
            match self.bytes.get(until) {
                Some(b'"') => {
                    self.at = until + 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at = until + 1;
                    out.push(self.escape()?);
                }
                Some(&c) => return Err(unexpected(c, "in string literal")),
                None => return Err(ended()),
            }
            from = self.at;
            until = plain_until(self.bytes, from);
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, Bad> {
        let c = self.current();
        let plain = match c {
            b'"' | b'\\' | b'/' => c as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(unexpected(c, "in string escape code")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode_escape(&mut self) -> Result<char, Bad> {
        let first = self.hex4()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        // A surrogate pair is one character; a lone surrogate is replaced, and what follows it is kept.
        if first < 0xdc00
            && self.bytes.get(self.at) == Some(&b'\\')
            && self.bytes.get(self.at + 1) == Some(&b'u')
        {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second)
                && let Some(c) = char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            {
                return Ok(c);
            }
            self.at = back;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32, Bad> {
        let mut code = 0;
        for _ in 0..4 {
            let c = self.current();
            let digit = (c as char).to_digit(16);
            code = code * 16 + digit.ok_or_else(|| unexpected(c, "in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(code)
    }

    /// A range of the input, with invalid UTF-8 replaced byte by byte as in Go.
    pub(super) fn piece(&self, from: usize, until: usize) -> Cow<'a, str> {
        if let Some(piece) = self.text.and_then(|text| text.get(from..until)) {
            return Cow::Borrowed(piece);
        }
        let mut out = String::new();
        for chunk in self.bytes[from..until].utf8_chunks() {
            out.push_str(chunk.valid());
            out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        Cow::Owned(out)
    }
}

/// The position of the first quote, backslash or control character after `from` (or the end), eight bytes at a time.
#[inline]
fn plain_until(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let mut rest = bytes.get(from..).unwrap_or_default();
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        // A borrow can only affect bytes after the first hit, and only the first one is used.
        let hits = ((word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash))
            & HIGHS;
        if hits != 0 {
            return bytes.len() - rest.len() + hits.trailing_zeros() as usize / 8;
        }
        rest = after;
    }
    let odd = rest.iter().position(|c| *c == b'"' || *c == b'\\' || *c < 0x20);
    bytes.len() - rest.len() + odd.unwrap_or(rest.len())
}
