//! Quoted texts with Go's escapes, in single or double quotes.

/// What stands between the quotes; `None` if it is not valid.
pub(super) fn unquote(text: &str, quote: char) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c == quote => return None,
            '\\' => escape(&mut rest, quote, &mut out)?,
            c => push(c, &mut out),
        }
    }
    // `\xff` makes single bytes, which need not be a text.
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn escape(rest: &mut std::str::Chars<'_>, quote: char, out: &mut Vec<u8>) -> Option<()> {
    match rest.next()? {
        'a' => out.push(0x07),
        'b' => out.push(0x08),
        'f' => out.push(0x0c),
        'n' => out.push(b'\n'),
        'r' => out.push(b'\r'),
        't' => out.push(b'\t'),
        'v' => out.push(0x0b),
        '\\' => out.push(b'\\'),
        c if c == quote => push(c, out),
        'x' => out.push(u8::try_from(digits(rest, 2, 16, 0)?).ok()?),
        'u' => push(char::from_u32(digits(rest, 4, 16, 0)?)?, out),
        'U' => push(char::from_u32(digits(rest, 8, 16, 0)?)?, out),
        c => out.push(u8::try_from(digits(rest, 2, 8, c.to_digit(8)?)?).ok()?),
    }
    Some(())
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32, first: u32) -> Option<u32> {
    (0..count)
        .try_fold(first, |number, _| number.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?))
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}
