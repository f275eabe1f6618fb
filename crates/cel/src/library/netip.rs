//! Addresses and prefixes as Go's `net/netip` reads them, with its messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::quote::quote;

/// An address, and the zone behind its `%`, empty without one.
pub(super) struct Zoned<'t> {
    pub ip: IpAddr,
    pub zone: &'t [u8],
}

/// `192.0.2.1`, `2001:db8::68` or `fe80::1%eth0`.
pub(super) fn parse_address(text: &[u8]) -> Result<Zoned<'_>, String> {
    match text.iter().find(|c| matches!(c, b'.' | b':' | b'%')) {
        Some(b'.') => {
            let ip = IpAddr::from(parse_v4(text, text)?);
            Ok(Zoned { ip, zone: b"" })
        }
        Some(b':') => parse_v6(text),
        Some(_) => Err(failure(text, "missing IPv6 address", b"")),
        None => Err(failure(text, "unable to parse IP", b"")),
    }
}

/// An address and the number of bits that count. The bits behind them may be set.
pub(super) fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let failure = |message: &str| Err(format!("netip.ParsePrefix({}): {message}", quote(text.as_bytes())));
    let Some((address, bits)) = text.rsplit_once('/') else { return failure("no '/'") };
    let Zoned { ip, zone } = match parse_address(address.as_bytes()) {
        Ok(address) => address,
        Err(message) => return failure(&message),
    };
    if !zone.is_empty() {
        return failure("IPv6 zones cannot be present in a prefix");
    }
    let digits = bits.bytes().all(|c| c.is_ascii_digit());
    let number: Option<i64> = bits.parse().ok();
    match number {
        Some(number) if digits && (bits.len() == 1 || !bits.starts_with('0')) => match u8::try_from(number) {
            Ok(number) if number <= width(ip) => Ok((ip, number)),
            _ => failure("prefix length out of range"),
        },
        _ => failure(&format!("bad bits after slash: {}", quote(bits.as_bytes()))),
    }
}

/// Of the address, in bits.
pub(super) fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn failure(text: &[u8], message: &str, at: &[u8]) -> String {
    let mut out = format!("ParseAddr({}): {message}", quote(text));
    if !at.is_empty() {
        out.push_str(&format!(" (at {})", quote(at)));
    }
    out
}

/// `part` is the dotted part of `text`: all of it, or what an IPv6 address ends with.
fn parse_v4(text: &[u8], part: &[u8]) -> Result<Ipv4Addr, String> {
    let mut octets = [0u8; 4];
    let mut filled = 0;
    let mut digits = 0;
    for (at, &c) in part.iter().enumerate() {
        match c {
            b'0'..=b'9' if digits == 1 && octets[filled] == 0 => {
                return Err(failure(text, "IPv4 field has octet with leading zero", b""));
            }
            b'0'..=b'9' => {
                let value = u16::from(octets[filled]) * 10 + u16::from(c - b'0');
                octets[filled] =
                    u8::try_from(value).map_err(|_| failure(text, "IPv4 field has value >255", b""))?;
                digits += 1;
            }
            b'.' if digits == 0 || at + 1 == part.len() => {
                return Err(failure(text, "IPv4 field must have at least one digit", &part[at..]));
            }
            b'.' if filled == 3 => return Err(failure(text, "IPv4 address too long", b"")),
            b'.' => {
                filled += 1;
                digits = 0;
            }
            _ => return Err(failure(text, "unexpected character", &part[at..])),
        }
    }
    match filled {
        3 => Ok(Ipv4Addr::from(octets)),
        _ => Err(failure(text, "IPv4 address too short", b"")),
    }
}

fn parse_v6(text: &[u8]) -> Result<Zoned<'_>, String> {
    let (mut rest, zone) = match text.iter().position(|c| *c == b'%') {
        Some(at) if at + 1 == text.len() => {
            return Err(failure(text, "zone must be a non-empty string", b""));
        }
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let mut groups: Vec<u16> = Vec::with_capacity(8);
    // How many groups stand before the `::`.
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix(b"::") {
        ellipsis = Some(0);
        rest = after;
    }
    while groups.len() < 8 && !(rest.is_empty() && ellipsis == Some(groups.len())) {
        let digits = rest.iter().take_while(|c| c.is_ascii_hexdigit()).count();
        match digits {
            0 => {
                let message = "each colon-separated field must have at least one digit";
                return Err(failure(text, message, rest));
            }
            1..=4 => {}
            _ => return Err(failure(text, "each group must have 4 or less digits", rest)),
        }
        if rest.get(digits) == Some(&b'.') {
            let message = match (ellipsis, groups.len()) {
                (None, 6) | (Some(_), 0..=6) => None,
                (None, _) => Some("embedded IPv4 address must replace the final 2 fields of the address"),
                (Some(_), _) => Some("too many hex fields to fit an embedded IPv4 at the end of the address"),
            };
            if let Some(message) = message {
                return Err(failure(text, message, rest));
            }
            let [a, b, c, d] = parse_v4(text, rest)?.octets();
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            rest = b"";
            break;
        }
        groups.push(rest[..digits].iter().fold(0, |value, c| value << 4 | hex(*c)));
        rest = &rest[digits..];
        match rest {
            [] => break,
            [b':'] => return Err(failure(text, "colon must be followed by more characters", rest)),
            [b':', after @ ..] => rest = after,
            _ => return Err(failure(text, "unexpected character, want colon", rest)),
        }
        if let [b':', after @ ..] = rest {
            if ellipsis.is_some() {
                return Err(failure(text, "multiple :: in address", rest));
            }
            ellipsis = Some(groups.len());
            rest = after;
        }
    }
    if !rest.is_empty() {
        return Err(failure(text, "trailing garbage after address", rest));
    }
    let mut all = [0u16; 8];
    match ellipsis {
        None if groups.len() < 8 => return Err(failure(text, "address string too short", b"")),
        Some(_) if groups.len() >= 8 => {
            return Err(failure(text, "the :: must expand to at least one field of zeros", b""));
        }
        _ => {
            let (head, tail) = groups.split_at(ellipsis.unwrap_or(groups.len()));
            all[..head.len()].copy_from_slice(head);
            all[8 - tail.len()..].copy_from_slice(tail);
        }
    }
    Ok(Zoned { ip: IpAddr::from(Ipv6Addr::from(all)), zone })
}

/// The value of a hexadecimal digit.
fn hex(c: u8) -> u16 {
    char::from(c).to_digit(16).map_or(0, |digit| digit as u16)
}
