//! From when to when a certificate is valid: the one thing rustls checks only along with a chain.

use object::time;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Not before and not after, in Unix seconds. `None`: it is no certificate.
pub(crate) fn of(certificate: &[u8]) -> Option<(u64, u64)> {
    let (tag, certificate, _) = element(certificate)?;
    let (inner, signed, _) = element(certificate)?;
    if tag != SEQUENCE || inner != SEQUENCE {
        return None;
    }
    let (tag, _, after_version) = element(signed)?;
    let rest = if tag == VERSION { after_version } else { signed };
    // The serial number, the algorithm and the issuer come before.
    let rest = element(rest)?.2;
    let rest = element(rest)?.2;
    let rest = element(rest)?.2;
    let (tag, validity, _) = element(rest)?;
    if tag != SEQUENCE {
        return None;
    }
    let (first, not_before, rest) = element(validity)?;
    let (second, not_after, _) = element(rest)?;
    Some((seconds(first, not_before)?, seconds(second, not_after)?))
}

/// Tag, content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        // Four bytes of length are more than any certificate has.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn seconds(tag: u8, text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            // RFC 5280: two digits from 50 on are of the last century.
            let century = if year < "50" { "20" } else { "19" };
            (format!("{century}{year}"), rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.to_owned(), rest)
        }
        _ => return None,
    };
    let digits = rest.strip_suffix('Z').filter(|digits| digits.len() == 10)?;
    let part = |at: usize| &digits[at..at + 2];
    let written = format!("{year}-{}-{}T{}:{}:{}Z", part(0), part(2), part(4), part(6), part(8));
    let (unix, _) = time::parse(&written)?;
    Some(u64::try_from(unix).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificates_validity_is_read() {
        let now = 1_767_225_600;
        let issuer = auth::pki::Issuer::in_memory(now).unwrap();
        let der = auth::pki::certificates_from_pem(issuer.ca_pem().as_bytes()).unwrap();
        let (not_before, not_after) = of(&der[0]).unwrap();
        assert_eq!(not_before, now - 300);
        assert_eq!(Some(not_after), auth::pki::not_after(issuer.ca_pem().as_bytes()));
    }

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(seconds(UTC_TIME, b"260101000000Z"), Some(1_767_225_600));
        assert_eq!(seconds(UTC_TIME, b"700101000001Z"), Some(1));
        assert_eq!(seconds(UTC_TIME, b"500101000000Z"), Some(0), "before Unix time");
        assert_eq!(seconds(GENERALIZED_TIME, b"20500101000000Z"), Some(2_524_608_000));
        for bad in [&b""[..], b"2", b"26Z", b"261301000000Z", b"2601010000000Z", b"\xff60101000000Z"] {
            assert_eq!(seconds(UTC_TIME, bad), None, "{bad:?}");
        }
    }

    #[test]
    fn rubbish_is_no_certificate() {
        let issuer = auth::pki::Issuer::in_memory(1_767_225_600).unwrap();
        let der = auth::pki::certificates_from_pem(issuer.ca_pem().as_bytes()).unwrap();
        assert!((0..120).all(|length| of(&der[0][..length]).is_none()));
        for bad in
            [&b""[..], b"\x30", b"\x30\x85\x01\x01\x01\x01\x01", b"\x30\x84\xff\xff\xff\xff", b"\x02\x01\x01"]
        {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }
}
