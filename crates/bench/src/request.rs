//! Requests as bytes with places for numbers: made once, copied and patched for every send.

use crate::endpoint::Endpoint;

/// Replaced by a number that no other request has. Each mark is as wide as the digits that replace it, so lengths stay true.
pub const NUMBER: &str = "<-NUMBER->";
/// Replaced by the number modulo the template's slots: one of a known set of objects.
pub const SLOT: &str = "<SLOT>";
/// Replaced by the moment of sending, in nanoseconds of the generator's clock.
pub const STAMP: &str = "<-----STAMP---->";

#[derive(Debug, Clone)]
pub struct Template {
    bytes: Vec<u8>,
    holes: Vec<Hole>,
    slots: u64,
}

#[derive(Debug, Clone)]
struct Hole {
    at: usize,
    width: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Number,
    Slot,
    Stamp,
}

/// What a request sends: its media type and its text.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    pub content_type: &'a str,
    pub text: &'a str,
}

impl<'a> Body<'a> {
    pub fn json(text: &'a str) -> Self {
        Body { content_type: "application/json", text }
    }
}

impl Template {
    pub fn new(endpoint: &Endpoint, method: &str, path: &str, body: Option<Body<'_>>, slots: u64) -> Self {
        Self::with_headers(endpoint, method, path, "", body, slots)
    }

    /// `headers`: more of them, each with its line end.
    pub fn with_headers(
        endpoint: &Endpoint,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<Body<'_>>,
        slots: u64,
    ) -> Self {
        let mut text = format!(
            "{method} {}{path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: setpoint-bench\r\nAccept: application/json\r\n{headers}",
            endpoint.path_prefix, endpoint.host
        );
        if let Some(token) = &endpoint.token {
            text.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        match body {
            Some(Body { content_type, text: body }) => text.push_str(&format!(
                "Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )),
            None => text.push_str("\r\n"),
        }
        let mut holes = Vec::new();
        for (mark, kind) in [(NUMBER, Kind::Number), (SLOT, Kind::Slot), (STAMP, Kind::Stamp)] {
            holes.extend(text.match_indices(mark).map(|(at, _)| Hole { at, width: mark.len(), kind }));
        }
        Template { bytes: text.into_bytes(), holes, slots: slots.max(1) }
    }

    /// Replaces the contents of `out` with the request of this number.
    pub fn fill(&self, number: u64, stamp_nanos: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.bytes);
        for hole in &self.holes {
            let value = match hole.kind {
                Kind::Number => number,
                Kind::Slot => number % self.slots,
                Kind::Stamp => stamp_nanos,
            };
            write_digits(&mut out[hole.at..hole.at + hole.width], value);
        }
    }
}

/// Right-aligned decimal digits with leading zeros.
fn write_digits(out: &mut [u8], mut value: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_digits_of_the_same_width() {
        let endpoint = Endpoint::for_tests();
        let text = format!("{{\"name\":\"c-{NUMBER}\",\"at\":\"{STAMP}\"}}");
        let path = format!("/api/v1/x/p-{SLOT}");
        let template = Template::new(&endpoint, "PUT", &path, Some(Body::json(&text)), 100);
        let mut out = Vec::new();
        for number in [7, 1234] {
            template.fill(number, 42, &mut out);
            let request = String::from_utf8(out.clone()).unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("PUT /api/v1/x/p-{:06} HTTP/1.1\r\n", number % 100)), "{head}");
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
            assert_eq!(body, format!("{{\"name\":\"c-{number:010}\",\"at\":\"0000000000000042\"}}"));
        }
    }

    #[test]
    fn token_is_sent_as_bearer() {
        let mut endpoint = Endpoint::for_tests();
        endpoint.token = Some("secret".to_string());
        let mut out = Vec::new();
        Template::new(&endpoint, "GET", "/x", None, 1).fill(0, 0, &mut out);
        let request = String::from_utf8(out).unwrap();
        assert!(request.contains("\r\nAuthorization: Bearer secret\r\n") && request.ends_with("\r\n\r\n"));
    }
}
