//! Makes the links of a proxied answer lead through the proxy again: in its `Location`, and in HTML.

use super::url::{Url, join};

/// Which attributes of which elements hold URLs.
const LINKS: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is no markup.
const RAW_TEXT: [&str; 9] =
    ["iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp"];

/// Where a page came from, and how it is reached.
pub struct Page<'a> {
    /// The path of the proxy, before the backend's own.
    pub prefix: &'a [u8],
    /// The backend's address.
    pub backend: &'a str,
    /// The address the client asked.
    pub host: &'a str,
}

impl Page<'_> {
    /// A link to another host, or a relative one, stays as it is; None if it is no URL.
    pub fn link(&self, link: &str) -> Option<String> {
        let mut url = Url::parse(link)?;
        let elsewhere = !url.host.is_empty() && url.host != self.backend && url.host != self.host;
        if elsewhere || !url.path.starts_with(b"/") {
            return Some(url.to_string());
        }
        if url.host != self.host {
            url.scheme.clear();
            url.host.clear();
        }
        if !url.path.starts_with(self.prefix) {
            let slash = url.path.ends_with(b"/");
            url.path = join(self.prefix, &url.path);
            if slash {
                url.path.push(b'/');
            }
        }
        Some(url.to_string())
    }

    /// Differs from kube-apiserver: tags without links keep their spelling.
    pub fn html(&self, html: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(html.len() + html.len() / 8);
        let mut rest = html;
        while let Some(at) = memchr::memchr(b'<', rest) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            // What does not end is no markup.
            let length = match rest {
                [b'<', b'!', b'-', b'-', ..] => find(&rest[4..], b"-->").map(|end| 4 + end + 3),
                [b'<', b'!' | b'?' | b'/', ..] => memchr::memchr(b'>', rest).map(|end| end + 1),
                [b'<', letter, ..] if letter.is_ascii_alphabetic() => match self.tag(rest, &mut out) {
                    Some(length) => {
                        rest = &rest[length..];
                        continue;
                    }
                    None => None,
                },
                _ => Some(1),
            };
            let length = length.unwrap_or(rest.len());
            out.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
        out.extend_from_slice(rest);
        out
    }

    /// Writes a start tag, and text that follows if that is no markup; how much of the input it was. None, and nothing is
    /// written, if it does not end.
    fn tag(&self, html: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let mut scan = Scan { html, at: 1 };
        let name = scan.word(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'));
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let links = LINKS.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, links)| links);
        let (mut tag, mut copied) = (Vec::new(), 0);
        while let Some((attribute, value)) = scan.attribute()? {
            let attribute = String::from_utf8_lossy(attribute).to_ascii_lowercase();
            if !links.contains(&&*attribute) || value.is_empty() {
                continue;
            }
            let text = unescape(&String::from_utf8_lossy(&html[value.inner()]));
            if let Some(link) = self.link(&text).filter(|link| *link != text) {
                tag.extend_from_slice(&html[copied..value.start]);
                tag.extend_from_slice(format!("\"{}\"", escape(&link)).as_bytes());
                copied = value.end;
            }
        }
        tag.extend_from_slice(&html[copied..scan.at]);
        let mut end = scan.at;
        if RAW_TEXT.contains(&&*name) {
            let close = format!("</{name}");
            let rest = &html[end..];
            let found = memchr::memchr_iter(b'<', rest).find(|at| {
                rest[*at..].get(..close.len()).is_some_and(|text| text.eq_ignore_ascii_case(close.as_bytes()))
            });
            end += found.unwrap_or(rest.len());
            tag.extend_from_slice(&html[scan.at..end]);
        }
        out.extend_from_slice(&tag);
        Some(end)
    }
}

/// Where a value stands, with its quotes.
struct Value {
    start: usize,
    end: usize,
    quoted: bool,
}

impl Value {
    fn inner(&self) -> std::ops::Range<usize> {
        if self.quoted { self.start + 1..self.end - 1 } else { self.start..self.end }
    }

    fn is_empty(&self) -> bool {
        self.inner().is_empty()
    }
}

struct Scan<'a> {
    html: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.html.get(self.at).copied()
    }

    fn skip(&mut self, skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&skipped) {
            self.at += 1;
        }
    }

    fn word(&mut self, ends: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        self.skip(|byte| !ends(byte));
        &self.html[start..self.at]
    }

    /// The next attribute with its value; `Some(None)` behind the tag, None if it does not end.
    #[allow(clippy::type_complexity, reason = "an attribute, the end, or neither")]
    fn attribute(&mut self) -> Option<Option<(&'a [u8], Value)>> {
        self.skip(|byte| byte.is_ascii_whitespace() || byte == b'/');
        if self.peek()? == b'>' {
            self.at += 1;
            return Some(None);
        }
        let begin = self.at;
        let mut name = self.word(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'='));
        if name.is_empty() {
            // A name may begin with a `=`.
            self.at += 1;
            name = &self.html[begin..self.at];
        }
        self.skip(|byte| byte.is_ascii_whitespace());
        if self.peek()? != b'=' {
            return Some(Some((name, Value { start: self.at, end: self.at, quoted: false })));
        }
        self.at += 1;
        self.skip(|byte| byte.is_ascii_whitespace());
        let (start, quote) = (self.at, self.peek()?);
        let quoted = matches!(quote, b'"' | b'\'');
        if quoted {
            self.at += 1 + memchr::memchr(quote, &self.html[start + 1..])? + 1;
        } else {
            self.word(|byte| byte.is_ascii_whitespace() || byte == b'>');
        }
        Some(Some((name, Value { start, end: self.at, quoted })))
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

/// The references that occur in links.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some((name, after)) = rest[1..].split_once(';').filter(|(name, _)| name.len() <= 8) else {
            break;
        };
        let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let known = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            name => match name.strip_prefix('#') {
                Some(hex) if hex.starts_with(['x', 'X']) => number(&hex[1..], 16),
                Some(decimal) => number(decimal, 10),
                None => None,
            },
        };
        match known {
            Some(c) => {
                out.push(c);
                rest = after;
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '\'' => out.push_str("&#39;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\r' => out.push_str("&#13;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page<'static> =
        Page { prefix: b"/api/v1/namespaces/a/services/x/proxy", backend: "10.0.0.1:80", host: "api:6443" };

    fn html(text: &str) -> String {
        String::from_utf8(PAGE.html(text.as_bytes())).unwrap()
    }

    #[test]
    fn links_to_the_backend_lead_through_the_proxy() {
        let cases = [
            ("/b/", "/api/v1/namespaces/a/services/x/proxy/b/"),
            ("/b?c=d#e", "/api/v1/namespaces/a/services/x/proxy/b?c=d#e"),
            ("http://10.0.0.1:80/b", "/api/v1/namespaces/a/services/x/proxy/b"),
            ("https://api:6443/b", "https://api:6443/api/v1/namespaces/a/services/x/proxy/b"),
            ("/api/v1/namespaces/a/services/x/proxy/c", "/api/v1/namespaces/a/services/x/proxy/c"),
            ("http://elsewhere/b", "http://elsewhere/b"),
            ("b/c", "b/c"),
            ("../b", "../b"),
        ];
        for (link, rewritten) in cases {
            assert_eq!(PAGE.link(link).as_deref(), Some(rewritten), "{link}");
        }
        assert_eq!(PAGE.link("/%zz"), None);
    }

    #[test]
    fn html_is_changed_in_its_links_only() {
        let p = "/api/v1/namespaces/a/services/x/proxy";
        let cases = [
            ("<A class=x HREF='/b'>/b</A>", format!("<A class=x HREF=\"{p}/b\">/b</A>")),
            ("<img src=/i.png alt=\"a>b\"/>", format!("<img src=\"{p}/i.png\" alt=\"a>b\"/>")),
            ("<a href=\"/b?x=1&amp;y=2\">", format!("<a href=\"{p}/b?x=1&amp;y=2\">")),
            (
                "<!-- <a href=\"/b\"> --><p title=\"/b\">",
                "<!-- <a href=\"/b\"> --><p title=\"/b\">".to_owned(),
            ),
            (
                "<script src=\"/s.js\">var a = '<a href=\"/b\">';</script><a href=/b>",
                format!("<script src=\"{p}/s.js\">var a = '<a href=\"/b\">';</script><a href=\"{p}/b\">"),
            ),
            ("1 < 2 <b", "1 < 2 <b".to_owned()),
            ("<a href=\"/b", "<a href=\"/b".to_owned()),
            ("<a href>x</a><a href=\"\">y</a><", "<a href>x</a><a href=\"\">y</a><".to_owned()),
            ("<!doctype html><a = href = '/b'>", format!("<!doctype html><a = href = \"{p}/b\">")),
            ("<style>a</style", "<style>a</style".to_owned()),
        ];
        for (page, rewritten) in cases {
            assert_eq!(html(page), rewritten, "{page}");
        }
    }
}
