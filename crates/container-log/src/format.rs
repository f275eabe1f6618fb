//! Lines of a log.
//!
//! ```text
//!   2016-10-06T00:17:09.669794202Z stdout P the beginning of a long line,
//!   2016-10-06T00:17:09.669794203Z stdout F and its end
//! ```

use serde_json::Value;

use crate::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    fn parse(name: &[u8]) -> Option<Stream> {
        [Stream::Stdout, Stream::Stderr].into_iter().find(|stream| stream.name().as_bytes() == name)
    }
}

/// What one line says. Complete, its text ends with a newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub time: Timestamp,
    /// None: a stream this format does not know.
    pub stream: Option<Stream>,
    pub text: std::borrow::Cow<'a, [u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Cri,
    /// Docker's, which older nodes and some runtimes write.
    Json,
}

impl Format {
    /// The format of a log, told by its first line.
    pub fn of(line: &[u8]) -> Option<Format> {
        [Format::Cri, Format::Json].into_iter().find(|format| format.parse(line).is_some())
    }

    pub fn parse(self, line: &[u8]) -> Option<Line<'_>> {
        match self {
            Format::Cri => parse_cri(line),
            Format::Json => parse_json(line),
        }
    }
}

fn parse_cri(line: &[u8]) -> Option<Line<'_>> {
    let (time, rest) = word(line)?;
    let (stream, rest) = word(rest)?;
    let (tags, text) = word(rest)?;
    let time = Timestamp::parse(time)?;
    let stream = Some(Stream::parse(stream)?);
    // Tags may grow in number; the first tells whether the line goes on.
    let partial = tags.split(|byte| *byte == b':').next() == Some(b"P");
    let text = if partial { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
    Some(Line { time, stream, text: text.into() })
}

/// Up to the next space, and what follows it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', text)?;
    Some((&text[..at], &text[at + 1..]))
}

fn parse_json(line: &[u8]) -> Option<Line<'_>> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let fields = value.as_object()?;
    let text = |name| match fields.get(name) {
        None | Some(Value::Null) => Some(""),
        Some(value) => value.as_str(),
    };
    let time = match fields.get("time") {
        // Go's zero time.
        None | Some(Value::Null) => Timestamp::parse(b"0001-01-01T00:00:00Z")?,
        Some(time) => Timestamp::parse(time.as_str()?.as_bytes())?,
    };
    let stream = Stream::parse(text("stream")?.as_bytes());
    Some(Line { time, stream, text: text("log")?.as_bytes().to_vec().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(format: Format, line: &str) -> Option<(Option<Stream>, String)> {
        let line = format.parse(line.as_bytes())?;
        Some((line.stream, String::from_utf8(line.text.to_vec()).unwrap()))
    }

    #[test]
    fn lines_of_the_container_runtime_interface_are_read() {
        let time = "2016-10-20T18:39:20.57606443Z";
        let cri = |rest: &str| parsed(Format::Cri, &format!("{time} {rest}"));
        let line = |stream, text: &str| Some((Some(stream), text.to_owned()));
        assert_eq!(cri("stdout F cri stdout test log\n"), line(Stream::Stdout, "cri stdout test log\n"));
        assert_eq!(cri("stderr P a long\n"), line(Stream::Stderr, "a long"));
        assert_eq!(cri("stdout P:TAG1:TAG2 more\n"), line(Stream::Stdout, "more"));
        assert_eq!(cri("stdout F \n"), line(Stream::Stdout, "\n"));
        assert_eq!(cri("stdout F  indented\n"), line(Stream::Stdout, " indented\n"));
        for broken in ["other F x\n", "stdout\n", "stdout F\n", "\n"] {
            assert_eq!(cri(broken), None, "{broken}");
        }
        assert_eq!(parsed(Format::Cri, "soon stdout F x\n"), None);
    }

    #[test]
    fn json_lines_are_read() {
        let json =
            r#"{"log":"docker stdout test log\n","stream":"stdout","time":"2016-10-20T18:39:20.57606443Z"}"#;
        assert_eq!(Format::of(json.as_bytes()), Some(Format::Json));
        assert_eq!(
            parsed(Format::Json, json),
            Some((Some(Stream::Stdout), "docker stdout test log\n".to_owned()))
        );
        assert_eq!(parsed(Format::Json, r#"{"log":"x","stream":"y"}"#), Some((None, "x".to_owned())));
        assert_eq!(Format::of(b"unknown format test log\n"), None);
    }
}
