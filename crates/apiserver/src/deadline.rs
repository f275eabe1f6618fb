//! How long a request may take.

use std::time::Duration;

use object::Status;

use crate::chain::RequestHead;
use crate::request_info::Query;

/// The longest a request that is not long-running may take; upstream's `--request-timeout`.
pub(crate) const MAX: Duration = Duration::from_secs(60);

/// The longest a write of one object may take, with all its webhooks; upstream's `requestTimeoutUpperBound`.
const MAX_WRITE: Duration = Duration::from_secs(34);

pub(crate) fn longest(verb: &str) -> Duration {
    match verb {
        "create" | "update" | "patch" | "delete" => MAX_WRITE,
        _ => MAX,
    }
}

/// As long as the client says, within [`MAX`]. Long-running requests ignore it.
pub(crate) fn of(head: RequestHead<'_>) -> Result<Duration, Status> {
    if head.is_long_running() { Ok(MAX) } else { parse(head.query) }
}

fn parse(query: &Query<'_>) -> Result<Duration, Status> {
    let text = query.get("timeout");
    if text.is_empty() {
        return Ok(MAX);
    }
    let nanos = object::time::parse_duration(text).map_err(|error| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {error}"))
    })?;
    Ok(match u64::try_from(nanos) {
        Ok(0) | Err(_) => MAX,
        Ok(nanos) => MAX.min(Duration::from_nanos(nanos)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_shorten_the_deadline_but_not_extend_it() {
        let cases = [
            ("", MAX),
            ("timeout=", MAX),
            ("timeout=5s", Duration::from_secs(5)),
            ("timeout=1m30s", MAX),
            ("timeout=250ms", Duration::from_millis(250)),
            ("timeout=0", MAX),
            ("timeout=0s", MAX),
            ("timeout=-3s", MAX),
        ];
        for (query, deadline) in cases {
            assert_eq!(parse(&Query::parse(Some(query))).unwrap(), deadline, "{query}");
        }
    }

    #[test]
    fn a_write_of_one_object_has_less_time() {
        let longest = |verbs: &[&str]| verbs.iter().map(|verb| longest(verb)).collect::<Vec<_>>();
        assert_eq!(longest(&["create", "update", "patch", "delete"]), [MAX_WRITE; 4]);
        assert_eq!(longest(&["deletecollection", "list", "get"]), [MAX; 3]);
    }

    #[test]
    fn a_timeout_that_is_no_duration_is_a_bad_request() {
        for query in ["timeout=5", "timeout=soon", "timeout=s"] {
            let status = parse(&Query::parse(Some(query))).unwrap_err();
            assert_eq!(status.code, 400, "{query}");
            assert!(status.message.starts_with("invalid timeout specified in the request URL - "), "{query}");
        }
    }
}
