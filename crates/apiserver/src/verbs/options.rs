//! Options of reads, from the query.

use object::{ListOptions, Status, quote};

use crate::request_info::{Query, RequestInfo};
use crate::views::Include;

pub(crate) fn list_options(query: &Query<'_>, info: &RequestInfo<'_>) -> Result<ListOptions, Status> {
    let number = |name: &str| query.find(name).map(parse_int).transpose();
    let mut options = ListOptions {
        label_selector: query.get("labelSelector").to_owned(),
        field_selector: query.get("fieldSelector").to_owned(),
        resource_version: query.get("resourceVersion").to_owned(),
        resource_version_match: query.get("resourceVersionMatch").to_owned(),
        limit: number("limit")?.unwrap_or(0),
        continue_token: query.get("continue").to_owned(),
        // On the deprecated path upstream parses the options of a list.
        watch: info.verb == "watch" && query.flag("watch"),
        allow_bookmarks: query.flag("allowWatchBookmarks"),
        send_initial_events: query.find("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
        timeout_seconds: number("timeoutSeconds")?.and_then(|n| u64::try_from(n).ok()),
    };
    // A watch without a version gets initial events and the bookmark that ends them, unless it says otherwise.
    let from_the_state = matches!(options.resource_version.as_str(), "" | "0");
    if options.watch
        && from_the_state
        && options.send_initial_events.is_none()
        && options.resource_version_match.is_empty()
    {
        options.send_initial_events = Some(true);
        options.resource_version_match = "NotOlderThan".to_owned();
    }
    Ok(options)
}

pub(crate) fn include(query: &Query<'_>) -> Result<Include, Status> {
    match query.get("includeObject") {
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        "" | "Metadata" => Ok(Include::Metadata),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
             'None', or empty",
            quote(other)
        ))),
    }
}

pub(super) fn parse_int(text: &str) -> Result<i64, Status> {
    object::parse_int(text).map_err(Status::bad_request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestTarget;

    fn options(uri: &str) -> Result<ListOptions, Status> {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query = Query::parse(Some(query));
        match RequestTarget::parse(&http::Method::GET, path, &query) {
            RequestTarget::Resource(info) => list_options(&query, &info),
            RequestTarget::NonResource => panic!("{uri} is no resource"),
        }
    }

    #[test]
    fn list_options_are_read_from_the_query() {
        let read = options(
            "/api/v1/pods?labelSelector=a%3Db&fieldSelector=metadata.name%3Dc&limit=5&continue=t&resourceVersion=7\
             &resourceVersionMatch=Exact&timeoutSeconds=9&allowWatchBookmarks=1",
        );
        let expected = ListOptions {
            label_selector: "a=b".to_owned(),
            field_selector: "metadata.name=c".to_owned(),
            resource_version: "7".to_owned(),
            resource_version_match: "Exact".to_owned(),
            limit: 5,
            continue_token: "t".to_owned(),
            watch: false,
            allow_bookmarks: true,
            send_initial_events: None,
            timeout_seconds: Some(9),
        };
        assert_eq!(read.unwrap(), expected);
        assert_eq!(options("/api/v1/pods").unwrap(), ListOptions::default());
    }

    #[test]
    fn an_invalid_number_is_a_bad_request() {
        for query in ["limit=many", "timeoutSeconds=1.5"] {
            assert_eq!(options(&format!("/api/v1/pods?{query}")).unwrap_err().code, 400, "{query}");
        }
        // No error upstream either.
        assert_eq!(options("/api/v1/pods?timeoutSeconds=-1").unwrap().timeout_seconds, None);
    }

    #[test]
    fn a_watch_from_the_state_sends_initial_events_unless_it_says_otherwise() {
        let initial = |query: &str| {
            let options = options(&format!("/api/v1/pods?{query}")).unwrap();
            (options.send_initial_events, options.resource_version_match)
        };
        let on = (Some(true), "NotOlderThan".to_owned());
        assert_eq!(initial("watch=1"), on);
        assert_eq!(initial("watch=1&resourceVersion=0"), on);
        assert_eq!(initial("watch=1&resourceVersion=5"), (None, String::new()));
        assert_eq!(initial("watch=1&sendInitialEvents=false"), (Some(false), String::new()));
        assert_eq!(initial("resourceVersion=0"), (None, String::new()), "a list");
        let legacy = options("/api/v1/watch/pods").unwrap();
        assert_eq!((legacy.watch, legacy.send_initial_events), (false, None), "the deprecated path");
    }

    #[test]
    fn include_object_says_what_a_table_row_carries() {
        let read = |text: &str| include(&Query::parse(Some(text)));
        assert!(matches!(read(""), Ok(Include::Metadata)));
        assert!(matches!(read("includeObject=Metadata"), Ok(Include::Metadata)));
        assert!(matches!(read("includeObject=Object"), Ok(Include::Object)));
        assert!(matches!(read("includeObject=None"), Ok(Include::None)));
        assert_eq!(read("includeObject=none").err().map(|status| status.code), Some(400));
    }
}
