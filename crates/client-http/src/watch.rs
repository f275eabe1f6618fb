//! A watch under way: an answer that goes on, one JSON event a line.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use catalog::Resource;
use client::{Answer, Event, Watch};
use env::Env;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use object::{Status, Value};
use tokio::time::Instant;

use crate::exchange::OpenAnswer;
use crate::objects::{View, object, parse_revision, unreadable};
use crate::refusal;

/// One event. Objects are at most some 1.5 MB in etcd; twice that and more never comes from a server in its senses.
const MAX_LINE: usize = 8 << 20;
/// How much longer than asked for a watch may last before the connection counts as dead.
const GRACE: Duration = Duration::from_secs(30);
/// A server that lives sends a bookmark a minute: one that says nothing for so long, through proxies that may live on, is
/// dead. Resources without bookmarks are watched anew from where they were, which costs little.
const SILENCE: Duration = Duration::from_secs(3 * 60);
/// The annotation of the bookmark behind the state.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub(crate) struct HttpWatch {
    env: Env,
    resource: Arc<Resource>,
    view: View,
    body: Incoming,
    lines: Lines,
    /// A server that forgot the watch must not keep it for ever; `None`: no end was asked for.
    until: Option<Instant>,
    /// When it was heard of last, where only that tells whether it lives.
    heard: Option<Instant>,
    /// Keeps the connection for as long as the watch lasts.
    _connection: Box<dyn Any + Send>,
}

impl HttpWatch {
    pub fn new(
        env: Env,
        resource: Arc<Resource>,
        view: View,
        open: OpenAnswer,
        timeout_seconds: u64,
    ) -> HttpWatch {
        let until =
            (timeout_seconds > 0).then(|| env.monotonic() + Duration::from_secs(timeout_seconds) + GRACE);
        let OpenAnswer { body, pinged, connection: _connection } = open;
        let heard = (!pinged).then(|| env.monotonic());
        HttpWatch { env, resource, view, body, lines: Lines::default(), until, heard, _connection }
    }

    /// When the connection counts as dead, if nothing comes, and why then.
    fn deadline(&self) -> Option<(Instant, &'static str)> {
        let until = self.until.map(|until| (until, "the watch outlived its time: its connection is dead"));
        let silent =
            self.heard.map(|heard| (heard + SILENCE, "the watch fell silent: its connection is dead"));
        [until, silent].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl Watch for HttpWatch {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            let before = into.len();
            loop {
                while let Some(line) = self.lines.next()? {
                    into.push(event(&self.resource, self.view, &line)?);
                }
                if into.len() > before {
                    return Ok(true);
                }
                let now = self.env.monotonic();
                let (wait, why) = self
                    .deadline()
                    .map_or((None, ""), |(at, why)| (Some(at.saturating_duration_since(now)), why));
                let frame = tokio::select! {
                    biased;
                    frame = self.body.frame() => frame,
                    () = self.env.sleep(wait.unwrap_or_default()), if wait.is_some() => {
                        return Err(Status::unavailable(why));
                    }
                };
                if let Some(heard) = &mut self.heard {
                    *heard = self.env.monotonic();
                }
                match frame {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            self.lines.push(&data);
                        }
                    }
                    Some(Err(error)) => {
                        return Err(Status::unavailable(format!("the watch was cut: {error}")));
                    }
                    None if self.lines.is_empty() => return Ok(false),
                    None => return Err(Status::unavailable("the watch was cut in the middle of an event")),
                }
            }
        })
    }
}

/// Bytes that become lines.
#[derive(Default)]
struct Lines {
    buffer: BytesMut,
    /// So much of it holds no end of line.
    searched: usize,
}

impl Lines {
    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    fn next(&mut self) -> Result<Option<BytesMut>, Status> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return match self.searched > MAX_LINE {
                    true => Err(unreadable("an event of a watch is larger than 8 MiB")),
                    false => Ok(None),
                };
            };
            let line = self.buffer.split_to(self.searched + end);
            self.buffer.advance(1);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.buffer.trim_ascii().is_empty()
    }
}

/// `{"type":"ADDED","object":{...}}`; an ERROR is what the watch ends with.
fn event(resource: &Resource, view: View, line: &[u8]) -> Result<Event, Status> {
    let tree = codec::json::parse(line, None)
        .map_err(|error| unreadable(&format!("an event of a watch is no JSON: {error}")))?;
    let Value::Map(mut tree) = tree else { return Err(unreadable("an event of a watch is no JSON object")) };
    let said = tree.remove("object").unwrap_or(Value::Null);
    let obj = |said| object(resource, view, said).map(Arc::new);
    match tree.get("type").and_then(Value::as_str).unwrap_or("") {
        "ADDED" => Ok(Event::Added(obj(said)?)),
        "MODIFIED" => Ok(Event::Modified(obj(said)?)),
        "DELETED" => Ok(Event::Deleted(obj(said)?)),
        "BOOKMARK" => {
            let digits = said.str_at(&["metadata", "resourceVersion"]).unwrap_or("");
            let end = said.str_at(&["metadata", "annotations", INITIAL_EVENTS_END]) == Some("true");
            Ok(Event::Bookmark { revision: parse_revision(digits)?, initial_events_end: end })
        }
        "ERROR" => Err(refusal::of_status(&said, 500)),
        other => Err(unreadable(&format!("a watch has no events of type {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::Catalog;
    use client::resources::CONFIG_MAPS;

    fn read(line: &str) -> Result<Event, Status> {
        let catalog = Catalog::builtin();
        event(CONFIG_MAPS.find(&catalog).unwrap(), View::Whole, line.as_bytes())
    }

    #[test]
    fn events_of_every_type_are_read() {
        let object = r#"{"metadata":{"name":"a","namespace":"d","resourceVersion":"3"}}"#;
        let added = read(&format!(r#"{{"type":"ADDED","object":{object}}}"#)).unwrap();
        assert!(matches!(added, Event::Added(obj) if obj.path() == "d/a"));
        let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(
            matches!(read(end).unwrap(), Event::Bookmark { revision, initial_events_end: true } if revision.0 == 9)
        );
        let gone = read(
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"m"}}"#,
        );
        assert_eq!(gone.err().map(|s| (s.code, s.reason)), Some((410, "Expired")));
        for bad in ["1", "{", "{}", r#"{"type":"ADDED"}"#, r#"{"type":"BOOKMARK","object":{}}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_are_complete_however_they_are_framed() {
        let mut lines = Lines::default();
        for part in ["a", "b\nc", "\n\n", "d"] {
            lines.push(part.as_bytes());
        }
        assert_eq!(lines.next().unwrap().unwrap(), "ab");
        assert_eq!(lines.next().unwrap().unwrap(), "c");
        assert!(lines.next().unwrap().is_none());
        assert!(!lines.is_empty());
        lines.push(&vec![b'x'; MAX_LINE]);
        assert!(lines.next().is_err());
    }
}
