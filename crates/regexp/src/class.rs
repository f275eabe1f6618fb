//! Character classes and escapes.

use super::translate::{Parsed, Problem};

/// Matches nothing, as a surrogate does: no text has one.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";
const SURROGATES: std::ops::RangeInclusive<u32> = 0xD800..=0xDFFF;

/// POSIX classes, as ranges.
const POSIX: [(&str, &str); 14] = [
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("ascii", r"\x00-\x7F"),
    ("blank", r"\t "),
    ("cntrl", r"\x00-\x1F\x7F"),
    ("digit", "0-9"),
    ("graph", "!-~"),
    ("lower", "a-z"),
    ("print", " -~"),
    ("punct", r"!-/:-@\[-`{-~"),
    ("space", r"\t-\r "),
    ("upper", "A-Z"),
    ("word", "0-9A-Za-z_"),
    ("xdigit", "0-9A-Fa-f"),
];

/// General categories, and their long names as Go canonicalises them.
const CATEGORIES: [&str; 38] = [
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd",
    "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp",
    "Zs", "Lc",
];
const LONG_NAMES: [(&str, &str); 42] = [
    ("Casedletter", "LC"),
    ("Closepunctuation", "Pe"),
    ("Combiningmark", "M"),
    ("Connectorpunctuation", "Pc"),
    ("Control", "Cc"),
    ("Currencysymbol", "Sc"),
    ("Dashpunctuation", "Pd"),
    ("Decimalnumber", "Nd"),
    ("Enclosingmark", "Me"),
    ("Finalpunctuation", "Pf"),
    ("Format", "Cf"),
    ("Initialpunctuation", "Pi"),
    ("Letter", "L"),
    ("Letternumber", "Nl"),
    ("Lineseparator", "Zl"),
    ("Lowercaseletter", "Ll"),
    ("Mark", "M"),
    ("Mathsymbol", "Sm"),
    ("Modifierletter", "Lm"),
    ("Modifiersymbol", "Sk"),
    ("Nonspacingmark", "Mn"),
    ("Number", "N"),
    ("Openpunctuation", "Ps"),
    ("Other", "C"),
    ("Otherletter", "Lo"),
    ("Othernumber", "No"),
    ("Otherpunctuation", "Po"),
    ("Othersymbol", "So"),
    ("Paragraphseparator", "Zp"),
    ("Privateuse", "Co"),
    ("Punctuation", "P"),
    ("Separator", "Z"),
    ("Spaceseparator", "Zs"),
    ("Spacingmark", "Mc"),
    ("Surrogate", "Cs"),
    ("Symbol", "S"),
    ("Titlecaseletter", "Lt"),
    ("Unassigned", "Cn"),
    ("Uppercaseletter", "Lu"),
    ("Cntrl", "Cc"),
    ("Digit", "Nd"),
    ("Punct", "P"),
];

/// Scripts with a name of one word: the others Go cannot find any more by the name it canonicalises.
const SCRIPTS: &str = " Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille \
    Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari \
    Dogra Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo \
    Hatran Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin \
    Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian \
    Mro Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic \
    Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri Tamil \
    Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi ";

/// `[..]` and what follows.
pub(super) fn bracketed(text: &str) -> Parsed<'_, (String, &str)> {
    let mut out = String::from("[");
    let mut rest = &text[1..];
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let mut first = true;
    while first || !rest.starts_with(']') {
        first = false;
        if rest.starts_with("[:")
            && let Some((class, tail)) = posix(rest)?
        {
            out.push_str(&class);
            rest = tail;
            continue;
        }
        if let Some((class, tail)) = unicode(rest)? {
            out.push_str(&class);
            rest = tail;
            continue;
        }
        if let Some((class, tail)) = perl(rest) {
            out.push_str(class);
            rest = tail;
            continue;
        }
        let start = rest;
        let (low, tail) = member(rest, text)?;
        rest = tail;
        let mut high = low;
        if rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]") {
            let (end, tail) = member(&rest[1..], text)?;
            rest = tail;
            high = end;
            if high < low {
                let part = &start[..start.len() - rest.len()];
                return Err(Problem { what: "invalid character class range", part });
            }
        }
        let low = if SURROGATES.contains(&low) { SURROGATES.end() + 1 } else { low };
        let high = if SURROGATES.contains(&high) { SURROGATES.start() - 1 } else { high };
        match low <= high {
            true => out.push_str(&format!(r"\x{{{low:X}}}-\x{{{high:X}}}")),
            false => out.push_str(NOTHING),
        }
    }
    out.push(']');
    Ok((out, &rest[1..]))
}

fn member<'t>(text: &'t str, whole: &'t str) -> Parsed<'t, (u32, &'t str)> {
    match text.chars().next() {
        None => Err(Problem { what: "missing closing ]", part: whole }),
        Some('\\') => escape(text),
        Some(c) => Ok((c.into(), &text[c.len_utf8()..])),
    }
}

/// `[:alpha:]`.
fn posix(text: &str) -> Parsed<'_, Option<(String, &str)>> {
    let Some(end) = text[2..].find(":]") else { return Ok(None) };
    let (part, rest) = text.split_at(end + 4);
    let name = &part[2..end + 2];
    let (negated, name) = name.strip_prefix('^').map_or(("", name), |name| ("^", name));
    match POSIX.iter().find(|(own, _)| *own == name) {
        Some((_, ranges)) => Ok(Some((format!("[{negated}{ranges}]"), rest))),
        None => Err(Problem { what: "invalid character class range", part }),
    }
}

/// `\p{Greek}`, `\PL`.
pub(super) fn unicode(text: &str) -> Parsed<'_, Option<(String, &str)>> {
    if !text.starts_with("\\p") && !text.starts_with("\\P") {
        return Ok(None);
    }
    let invalid = |part| Err(Problem { what: "invalid character class range", part });
    let Some(first) = text[2..].chars().next() else { return invalid(text) };
    let (part, name) = if first == '{' {
        let Some(end) = text.find('}') else { return invalid(text) };
        (&text[..=end], &text[3..end])
    } else {
        let end = 2 + first.len_utf8();
        (&text[..end], &text[2..end])
    };
    let mut negated = text.starts_with("\\P");
    let name = match name.strip_prefix('^') {
        Some(name) => {
            negated = !negated;
            name
        }
        None => name,
    };
    let mut canonical = String::with_capacity(name.len());
    for c in name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')) {
        let c = if canonical.is_empty() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        canonical.push(c);
    }
    let canonical = canonical.as_str();
    let known = |name: &str| match name {
        "Lc" => Some(String::from("LC")),
        _ if CATEGORIES.contains(&name) => Some(name.to_owned()),
        _ if !name.is_empty() && SCRIPTS.contains(&format!(" {name} ")) => Some(format!("sc={name}")),
        _ => LONG_NAMES.iter().find(|(long, _)| *long == name).map(|(_, short)| (*short).to_owned()),
    };
    let class = match (canonical, negated) {
        ("Any", false) | ("Cs", true) => String::from(r"[\x{0}-\x{10FFFF}]"),
        ("Any", true) | ("Cs", false) => String::from(NOTHING),
        ("Ascii", negated) => String::from(if negated { r"[^\x00-\x7F]" } else { r"[\x00-\x7F]" }),
        ("Assigned", negated) => String::from(if negated { r"\p{Cn}" } else { r"\P{Cn}" }),
        (name, negated) => match known(name) {
            Some(name) => format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }),
            None => return invalid(part),
        },
    };
    Ok(Some((class, &text[part.len()..])))
}

/// `\d` and its like, which know ASCII only.
pub(super) fn perl(text: &str) -> Option<(&'static str, &str)> {
    let class = match text.as_bytes().get(..2)? {
        b"\\d" => "[0-9]",
        b"\\D" => "[^0-9]",
        b"\\s" => r"[\t\n\x0C\r ]",
        b"\\S" => r"[^\t\n\x0C\r ]",
        b"\\w" => "[0-9A-Za-z_]",
        b"\\W" => "[^0-9A-Za-z_]",
        _ => return None,
    };
    Some((class, &text[2..]))
}

/// The code of an escaped character, and what follows.
pub(super) fn escape(text: &str) -> Parsed<'_, (u32, &str)> {
    let mut rest = &text[1..];
    let Some(c) = next(&mut rest) else {
        return Err(Problem { what: "trailing backslash at end of expression", part: "" });
    };
    let octal = |rest: &str| rest.starts_with(|c: char| ('0'..='7').contains(&c));
    let found = match c {
        '0'..='7' if c == '0' || octal(rest) => {
            let mut code = c as u32 - '0' as u32;
            for _ in 0..2 {
                if octal(rest) {
                    code = code * 8 + next(&mut rest).map_or(0, |c| c as u32 - '0' as u32);
                }
            }
            Some(code)
        }
        'x' => hexadecimal(&mut rest),
        'a' => Some(7),
        'f' => Some(12),
        'n' => Some(10),
        'r' => Some(13),
        't' => Some(9),
        'v' => Some(11),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
        _ => None,
    };
    match found {
        Some(code) => Ok((code, rest)),
        None => Err(Problem { what: "invalid escape sequence", part: &text[..text.len() - rest.len()] }),
    }
}

fn next(rest: &mut &str) -> Option<char> {
    let c = rest.chars().next()?;
    *rest = &rest[c.len_utf8()..];
    Some(c)
}

/// `41` or `{1F600}` behind an `x`; leaves `rest` where it is refused.
fn hexadecimal(rest: &mut &str) -> Option<u32> {
    let first = next(rest)?;
    if first != '{' {
        let high = first.to_digit(16);
        let low = next(rest)?.to_digit(16);
        return Some(high? * 16 + low?);
    }
    let (mut code, mut digits) = (0u32, 0);
    loop {
        match next(rest)? {
            '}' if digits > 0 => return Some(code),
            c => code = code * 16 + c.to_digit(16)?,
        }
        if code > 0x10_FFFF {
            return None;
        }
        digits += 1;
    }
}
