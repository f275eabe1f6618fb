//! The options of log, exec, attach and portforward, from the query.

use object::time::{Layout, format_seconds, parse_layout};
use object::{FieldError, Status, number_error, parse_int, quote};
use streaming::remotecommand::Options as Streams;

use crate::request_info::Query;

/// `PodLogOptions`.
#[derive(Default)]
pub struct LogOptions {
    pub follow: bool,
    pub skip_verify: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    /// Seconds since 1970.
    since_time: Option<i64>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    has_stream: bool,
}

/// Go's zero time, for `sinceTime=`.
const ZERO_TIME: i64 = -62_135_596_800;

impl LogOptions {
    pub fn read(query: &Query<'_>) -> Result<LogOptions, Status> {
        let number = |name: &str| query.find(name).map(parse_int).transpose().map_err(Status::bad_request);
        let since_time = match query.find("sinceTime") {
            None => None,
            Some("" | "null") => Some(ZERO_TIME),
            Some(text) => {
                let parsed = parse_layout(text, Layout::Seconds);
                Some(parsed.map_err(|error| Status::bad_request(error.to_string()))?.0)
            }
        };
        Ok(LogOptions {
            follow: query.flag("follow"),
            skip_verify: query.flag("insecureSkipTLSVerifyBackend"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since_seconds: number("sinceSeconds")?,
            since_time,
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
            has_stream: query.find("stream").is_some(),
        })
    }

    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(lines) = self.tail_lines.filter(|n| *n < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("tailLines", lines.to_string(), detail));
        }
        if let Some(bytes) = self.limit_bytes.filter(|n| *n < 1) {
            errors.push(FieldError::invalid("limitBytes", bytes.to_string(), "must be greater than 0"));
        }
        if self.since_seconds.is_some() && self.since_time.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", detail));
        } else if let Some(seconds) = self.since_seconds.filter(|n| *n < 1) {
            errors.push(FieldError::invalid("sinceSeconds", seconds.to_string(), "must be greater than 0"));
        }
        if self.has_stream {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        errors
    }

    /// The query of the request to a kubelet.
    pub fn to_query(&self) -> String {
        let number = |name: &'static str, value: Option<i64>| value.map(|n| (name, n.to_string()));
        let flag = |name: &'static str, set: bool| set.then(|| (name, "true".to_owned()));
        encode([
            flag("follow", self.follow),
            number("limitBytes", self.limit_bytes),
            flag("previous", self.previous),
            number("sinceSeconds", self.since_seconds),
            self.since_time.map(|seconds| ("sinceTime", format_seconds(seconds))),
            number("tailLines", self.tail_lines),
            flag("timestamps", self.timestamps),
        ])
    }
}

/// `PodExecOptions` and `PodAttachOptions`; only exec has a command.
pub fn streams(query: &Query<'_>) -> Streams {
    Streams {
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr"),
        tty: query.flag("tty"),
    }
}

/// The query of a request to a kubelet for exec or attach.
pub fn streams_query(streams: &Streams, command: Vec<String>) -> String {
    let mut pairs: Vec<_> = streams.to_query().map(|(name, value)| Some((name, value.to_owned()))).collect();
    pairs.extend(command.into_iter().map(|word| Some(("command", word))));
    encode(pairs)
}

/// The query of a request to a kubelet for portforward.
pub fn ports_query(query: &Query<'_>) -> Result<String, Status> {
    let mut ports = Vec::new();
    for text in query.all("ports").flat_map(|value| value.split(',')) {
        ports.push(parse_port(text)?.to_string());
    }
    let ports = (!ports.is_empty()).then(|| ("port", ports.join(",")));
    Ok(encode([ports]))
}

fn parse_port(text: &str) -> Result<u16, Status> {
    // Go takes no sign here.
    let why = match text.parse::<u16>() {
        _ if text.starts_with('+') => "invalid syntax",
        Ok(port) => return Ok(port),
        Err(error) => number_error(&error),
    };
    let parsing = quote(text);
    Err(Status::bad_request(format!(
        "cannot convert to []int32: strconv.ParseUint: parsing {parsing}: {why}"
    )))
}

/// As Go's `url.Values.Encode`, but in the order given.
fn encode(pairs: impl IntoIterator<Item = Option<(&'static str, String)>>) -> String {
    let pairs = pairs.into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(name, value)| format!("{name}={}", super::url::escape_query(value.as_bytes()))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(query: &str) -> Result<LogOptions, Status> {
        LogOptions::read(&Query::parse(Some(query)))
    }

    #[test]
    fn the_options_of_a_log_go_to_the_kubelet() {
        let all =
            "follow=1&previous=&timestamps=true&sinceSeconds=5&tailLines=0&limitBytes=7&container=c&pretty=x";
        let options = log(all).unwrap();
        assert!(options.validate().is_empty() && options.follow && !options.skip_verify);
        let sent = "follow=true&limitBytes=7&previous=true&sinceSeconds=5&tailLines=0&timestamps=true";
        assert_eq!(options.to_query(), sent);
        let since =
            log("sinceTime=2026-01-02T03:04:05%2B01:00&follow=false&insecureSkipTLSVerifyBackend=true");
        let since = since.unwrap();
        assert!(!since.follow && since.skip_verify);
        assert_eq!(since.to_query(), "sinceTime=2026-01-02T02%3A04%3A05Z");
    }

    #[test]
    fn wrong_options_are_refused_in_gos_words() {
        let message = |query: &str| log(query).err().map(|status| status.message).unwrap();
        assert_eq!(message("tailLines=x"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(message("limitBytes="), "strconv.ParseInt: parsing \"\": invalid syntax");
        assert!(message("sinceTime=yesterday").starts_with("parsing time \"yesterday\" as"));
        let fields = |query: &str| -> Vec<String> {
            log(query).unwrap().validate().iter().map(|error| error.field.clone()).collect()
        };
        assert_eq!(
            fields("tailLines=-1&limitBytes=0&sinceSeconds=0"),
            ["tailLines", "limitBytes", "sinceSeconds"]
        );
        assert_eq!(fields("sinceSeconds=1&sinceTime=&stream=All"), ["[]", "stream"]);
    }

    #[test]
    fn a_command_is_sent_word_by_word() {
        let query =
            Query::parse(Some("command=sh&command=-c&command=a%26b%20c&stdin=1&stdout=true&stderr=0&tty"));
        let command = query.all("command").map(str::to_owned).collect();
        let sent = "input=1&output=1&tty=1&command=sh&command=-c&command=a%26b+c";
        assert_eq!(streams_query(&streams(&query), command), sent);
    }

    #[test]
    fn ports_are_one_list() {
        let of = |query: &str| ports_query(&Query::parse(Some(query))).map_err(|status| status.message);
        assert_eq!(of("ports=80&ports=81,82").unwrap(), "port=80%2C81%2C82");
        assert_eq!(of("").unwrap(), "");
        let refused = |why: &str| format!("cannot convert to []int32: strconv.ParseUint: parsing {why}");
        assert_eq!(of("ports=x").unwrap_err(), refused("\"x\": invalid syntax"));
        assert_eq!(of("ports=70000").unwrap_err(), refused("\"70000\": value out of range"));
    }
}
