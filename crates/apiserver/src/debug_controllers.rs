//! `/debug/controllers`: what every controller did last and why, as text for people or JSON for programs.
//!
//! ```text
//! ?format=text|json   else by Accept: clients that accept anything (kubectl get --raw, curl, a browser) get the page
//! ?controller=NAME    one controller only; `scheduler` is one
//! ?key=PREFIX         only keys with this prefix: default/web finds the Deployment, its ReplicaSets and their pods
//! ?all=true           also reconciles that found nothing to do
//! ```

use std::fmt::Write as _;

use http::HeaderMap;
use http::header::ACCEPT;
use object::{Status, Value};

use crate::request_info::Query;
use crate::respond::{self, Answer};

const HEADING: &str = "What each controller did last, newest first, and why.
One controller: ?controller=NAME; one object and others with its prefix: ?key=NAMESPACE/NAME; reconciles that changed nothing too: ?all=true; JSON: ?format=json
";

pub(crate) fn serve(shown: &Value, headers: &HeaderMap, query: &Query<'_>) -> Result<Answer, Status> {
    if !wants_text(headers, query)? {
        return Ok(respond::answer(200, "application/json", codec::json::to_vec(shown).into()));
    }
    let filter = Filter::new(query);
    let page = page(shown, &filter);
    Ok(respond::answer(200, "text/plain; charset=utf-8", page.into_bytes().into()))
}

fn wants_text(headers: &HeaderMap, query: &Query<'_>) -> Result<bool, Status> {
    match query.find("format") {
        Some("text") => Ok(true),
        Some("json") => Ok(false),
        Some(other) => Err(Status::bad_request(format!("format {other:?} is neither text nor json"))),
        None => {
            let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            let mut kinds = accepted.flat_map(|value| value.split(','));
            Ok(kinds.any(|kind| kind.trim().starts_with("*/*") || kind.trim().starts_with("text/")))
        }
    }
}

struct Filter<'a> {
    controller: Option<&'a str>,
    key: &'a str,
    idle: bool,
}

impl<'a> Filter<'a> {
    fn new(query: &'a Query<'_>) -> Filter<'a> {
        Filter {
            controller: query.find("controller"),
            key: query.get("key"),
            idle: query.get("all") == "true",
        }
    }

    fn takes(&self, controller: &str) -> bool {
        self.controller.is_none_or(|only| only == controller)
    }

    fn takes_reconcile(&self, reconcile: &Value) -> bool {
        let is_idle = reconcile.get("idle").and_then(Value::as_bool) == Some(true);
        text(reconcile, "key").starts_with(self.key) && (self.idle || !is_idle)
    }
}

fn page(shown: &Value, filter: &Filter<'_>) -> String {
    let mut out = HEADING.to_owned();
    let mut quiet = Vec::new();
    for controller in list(shown, "controllers") {
        let name = text(controller, "name");
        if !filter.takes(name) {
            continue;
        }
        let reconciles: Vec<&Value> =
            list(controller, "recent").iter().filter(|reconcile| filter.takes_reconcile(reconcile)).collect();
        if reconciles.is_empty() {
            quiet.push(name);
            continue;
        }
        heading(controller, &mut out);
        reconciles.iter().for_each(|reconcile| write_reconcile(reconcile, &mut out));
    }
    if let Some(scheduler) = shown.get("scheduler")
        && filter.takes("scheduler")
    {
        scheduling(scheduler, filter.key, &mut out);
    }
    if !quiet.is_empty() {
        let _ = writeln!(out, "\nNothing done lately: {}", quiet.join(", "));
    }
    out
}

fn heading(controller: &Value, out: &mut String) {
    let queue = controller.get("queue").unwrap_or(&Value::Null);
    let _ = writeln!(
        out,
        "\n{}: {} reconciles, {} errors, {} retries; {} of {} workers busy; queue: {} waiting, {} delayed",
        text(controller, "name"),
        number(controller, "reconciles"),
        number(controller, "errors"),
        number(queue, "retries"),
        number(controller, "active"),
        number(controller, "workers"),
        number(queue, "waiting"),
        number(queue, "delayed"),
    );
    for failing in list(queue, "failing") {
        let _ = writeln!(out, "  failing: {}, {} times", text(failing, "key"), number(failing, "failures"));
    }
}

fn write_reconcile(reconcile: &Value, out: &mut String) {
    let plan = match text(reconcile, "plan") {
        "" => "nothing to do",
        plan => plan,
    };
    let result = match text(reconcile, "result") {
        "done" => String::new(),
        result => format!(" ({})", result.trim_start_matches("done, ")),
    };
    let _ = writeln!(out, "  {}  {plan}{result}", text(reconcile, "key"));
    for cause in list(reconcile, "causes") {
        let by = match text(cause, "writer") {
            "" => String::new(),
            writer => format!(" by {writer}"),
        };
        let _ = writeln!(
            out,
            "    because {} {}: {}{by} (revision {})",
            text(cause, "resource"),
            text(cause, "object"),
            text(cause, "what"),
            number(cause, "revision"),
        );
    }
    match number(reconcile, "moreCauses") {
        0 => {}
        more => {
            let _ = writeln!(out, "    and {more} changes between them");
        }
    }
}

fn scheduling(scheduler: &Value, key: &str, out: &mut String) {
    let queues = scheduler.get("queues").unwrap_or(&Value::Null);
    let names = ["active", "backoff", "unschedulable", "gated"];
    let lengths: Vec<String> = names
        .iter()
        .map(|name| format!("{} {name}", queues.get(name).map_or(0, |queue| number(queue, "length"))))
        .collect();
    let _ = writeln!(
        out,
        "\nscheduler: {} pods placed; queues: {}",
        number(scheduler, "placedPods"),
        lengths.join(", ")
    );
    for name in names {
        let waiting = queues.get(name).map_or(&[][..], |queue| list(queue, "first"));
        for pod in waiting.iter().filter(|pod| text(pod, "pod").starts_with(key)) {
            let why = match text(pod, "said") {
                "" => String::new(),
                said => format!(": {said}"),
            };
            let _ = writeln!(
                out,
                "  {}  waits ({name}, {} attempts){why}",
                text(pod, "pod"),
                number(pod, "attempts")
            );
        }
    }
    for decision in list(scheduler, "recent").iter().filter(|decision| text(decision, "pod").starts_with(key))
    {
        let _ = writeln!(
            out,
            "  {}  {}: {}\n    because {}, attempt {}",
            text(decision, "pod"),
            text(decision, "decided"),
            text(decision, "result"),
            text(decision, "cause"),
            number(decision, "attempts"),
        );
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_list).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(Value::as_int).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = r#"{"controllers":[
        {"name":"replicaset-controller","workers":5,"active":1,"reconciles":32,"errors":1,
         "queue":{"waiting":2,"delayed":0,"retries":3,"failing":[{"key":"default/api","failures":3}]},
         "recent":[
          {"key":"default/web-5","plan":"create 1: 2 of 3 pods are active","result":"done","moreCauses":4,"causes":[
           {"resource":"pods","object":"default/web-5-x","revision":280,"what":"deleted","writer":"system:node:sim-0"}]},
          {"key":"default/web-5","plan":"nothing: 3 of 3","idle":true,"result":"done, again after 5s","moreCauses":0,"causes":[]},
          {"key":"kube-system/dns","plan":"","result":"failed: no room","moreCauses":0,"causes":[]}]},
        {"name":"job","workers":5,"active":0,"reconciles":0,"errors":0,"queue":{},"recent":[]}],
       "scheduler":{"placedPods":3,"queues":{"unschedulable":{"length":1,"first":[
         {"pod":"default/big","attempts":2,"said":"0/3 nodes are available"}]}},
        "recent":[{"pod":"default/web-5-y","attempts":1,"cause":"a pod was added","decided":"bind to sim-1","result":"bound"}]}}"#;

    fn shown(query: &str) -> String {
        let value = codec::json::parse(SHOWN.as_bytes(), None).unwrap();
        let query = Query::parse(Some(query));
        page(&value, &Filter::new(&query))
    }

    #[test]
    fn page_says_what_was_done_and_why() {
        let page = shown("");
        for line in [
            "replicaset-controller: 32 reconciles, 1 errors, 3 retries; 1 of 5 workers busy; queue: 2 waiting, 0 delayed",
            "  failing: default/api, 3 times",
            "  default/web-5  create 1: 2 of 3 pods are active",
            "    because pods default/web-5-x: deleted by system:node:sim-0 (revision 280)",
            "    and 4 changes between them",
            "  kube-system/dns  nothing to do (failed: no room)",
            "scheduler: 3 pods placed; queues: 0 active, 0 backoff, 1 unschedulable, 0 gated",
            "  default/big  waits (unschedulable, 2 attempts): 0/3 nodes are available",
            "  default/web-5-y  bind to sim-1: bound",
            "Nothing done lately: job",
        ] {
            assert!(page.lines().any(|is| is == line), "{line:?} is not in:\n{page}");
        }
    }

    #[test]
    fn reconciles_that_found_nothing_to_do_are_shown_when_asked_for() {
        let line = "  default/web-5  nothing: 3 of 3 (again after 5s)";
        assert!(!shown("").contains(line));
        assert!(shown("all=true").lines().any(|is| is == line));
    }

    #[test]
    fn page_can_be_of_one_controller_or_one_object() {
        let one = shown("controller=scheduler");
        assert!(one.contains("scheduler: ") && !one.contains("replicaset-controller"), "{one}");
        let one = shown("key=default/web");
        assert!(one.contains("default/web-5-y") && !one.contains("kube-system/dns"), "{one}");
        assert!(!one.contains("default/big"), "{one}");
    }

    #[test]
    fn clients_that_accept_anything_get_the_page_and_programs_get_json() {
        let wants = |accept: Option<&str>, query: &str| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, accept.parse().unwrap());
            }
            wants_text(&headers, &Query::parse(Some(query))).unwrap()
        };
        assert!(wants(Some("application/json, */*"), "") && wants(Some("text/html,*/*;q=0.8"), ""));
        assert!(!wants(None, "") && !wants(Some("application/json"), ""));
        assert!(wants(None, "format=text") && !wants(Some("*/*"), "format=json"));
        assert!(wants_text(&HeaderMap::new(), &Query::parse(Some("format=xml"))).is_err());
    }
}
