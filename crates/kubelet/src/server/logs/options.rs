//! `PodLogOptions` of a query.

use container_log::Timestamp;
use object::time;

use super::Query;

/// As asked for, not yet checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<i64>,
    pub since_seconds: Option<i64>,
    /// Unix nanoseconds; none within: a time that is given and empty.
    pub since_time: Option<Option<i128>>,
    pub limit_bytes: Option<i64>,
    pub stream: Option<String>,
}

/// What cannot be decoded is an error; what it means is not looked at.
pub fn parse(query: &Query) -> Result<LogOptions, ()> {
    let flag = |name: &str| query.get(name).is_some_and(|value| !matches!(value, "false" | "0"));
    let number = |name: &str| query.get(name).map(|value| value.parse::<i64>().map_err(drop)).transpose();
    // The name of old clients counts before today's; `all` is none.
    let tail_lines = match query.get("tail").filter(|tail| !tail.is_empty()) {
        Some("all") => None,
        Some(tail) => Some(tail.parse().map_err(drop)?),
        None => number("tailLines")?,
    };
    Ok(LogOptions {
        follow: flag("follow"),
        previous: flag("previous"),
        timestamps: flag("timestamps"),
        tail_lines,
        since_seconds: number("sinceSeconds")?,
        since_time: query.get("sinceTime").map(since_time).transpose()?,
        limit_bytes: number("limitBytes")?,
        stream: query.get("stream").map(str::to_owned),
    })
}

/// RFC 3339, maybe in quotes as old clients send it.
fn since_time(text: &str) -> Result<Option<i128>, ()> {
    let text = text.strip_prefix('"').map_or(text, |text| text.strip_suffix('"').unwrap_or(text));
    if text.is_empty() || text == "null" {
        return Ok(None);
    }
    let (seconds, nanos) = time::parse(text).ok_or(())?;
    Ok(Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)))
}

impl LogOptions {
    fn stream(&self) -> &str {
        self.stream.as_deref().unwrap_or("All")
    }

    pub fn is_valid(&self) -> bool {
        let one_since = self.since_seconds.is_none() || self.since_time.is_none();
        self.tail_lines.is_none_or(|lines| lines >= 0)
            && self.limit_bytes.is_none_or(|bytes| bytes >= 1)
            && one_since
            && self.since_seconds.is_none_or(|seconds| seconds >= 1)
            && matches!(self.stream(), "All" | "Stdout" | "Stderr")
            // The lines of both are counted from the end.
            && (self.stream() == "All" || self.tail_lines.is_none())
    }

    /// Of valid ones.
    pub fn reader_options(&self, now_nanos: i128) -> container_log::Options {
        let ago = self.since_seconds.map(|seconds| now_nanos - i128::from(seconds) * 1_000_000_000);
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
        container_log::Options {
            follow: self.follow,
            tail_lines: self.tail_lines.map(unsigned),
            since_nanos: ago.or(self.since_time.flatten()).map(|nanos| Timestamp::utc(nanos).nanos),
            limit_bytes: self.limit_bytes.map(unsigned),
            timestamps: self.timestamps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> Result<LogOptions, ()> {
        parse(&Query::parse(Some(query)))
    }

    #[test]
    fn all_parameters_are_read() {
        let asked = options("follow=true&previous&timestamps=1&tailLines=3&limitBytes=7&stream=All").unwrap();
        let expected = LogOptions {
            follow: true,
            previous: true,
            timestamps: true,
            tail_lines: Some(3),
            limit_bytes: Some(7),
            stream: Some("All".to_owned()),
            ..LogOptions::default()
        };
        assert_eq!(asked, expected);
        assert_eq!(options("follow=false&timestamps=0").unwrap(), LogOptions::default());
        assert_eq!(options("tail=5&tailLines=x").unwrap().tail_lines, Some(5));
        assert_eq!(options("tail=all&tailLines=3").unwrap().tail_lines, None);
        let since = options("sinceTime=2026-01-01T00:00:00.5Z").unwrap();
        assert_eq!(since.reader_options(0).since_nanos, Some(1_767_225_600_500_000_000));
        assert_eq!(
            options("sinceSeconds=2").unwrap().reader_options(5_000_000_000).since_nanos,
            Some(3_000_000_000)
        );
        for wrong in ["tailLines=x", "sinceSeconds=", "sinceTime=yesterday", "limitBytes=1.5"] {
            assert_eq!(options(wrong), Err(()), "{wrong}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_invalid() {
        let cases = [
            ("", true),
            ("tailLines=0", true),
            ("tailLines=-1", false),
            ("limitBytes=0", false),
            ("sinceSeconds=0", false),
            ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", false),
            ("stream=Stderr", true),
            ("stream=stderr", false),
            ("stream=Stdout&tailLines=1", false),
            ("stream=All&tailLines=1", true),
        ];
        for (query, valid) in cases {
            assert_eq!(options(query).unwrap().is_valid(), valid, "{query}");
        }
    }
}
