use std::sync::Arc;

use catalog::Catalog;
use client::Gvr;
use client::resources::{PODS, SERVICES};
use kinds::resourcequota::usage::{Evaluator, Lookup, Quota, show};
use object::{Obj, Revision, Value};
use tokio::time::Instant;

use super::book::{Books, Moved, measure, measure_all};
use super::plan::plan;

fn quota(used: &str) -> Quota {
    let text = format!(
        "{{metadata: {{namespace: ns, name: q}}, spec: {{hard: {{pods: '9', services: '5'}}}}, status: {{hard: {{pods: '9', services: '5'}}, used: {used}}}}}"
    );
    Quota::of(runtime::parse(&text).expect("a quota"))
}

fn pod(name: &str, phase: &str, revision: u64) -> Arc<Obj> {
    let catalog = Catalog::builtin();
    let storage = catalog.find_storage("", "pods").expect("a resource");
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"u"}},"spec":{{"containers":[{{"name":"c"}}]}},"status":{{"phase":"{phase}"}}}}"#
    );
    let obj = Obj::publish(storage, &storage.key("ns", name), text.as_bytes(), Revision(revision), None);
    Arc::new(obj.expect("a pod"))
}

#[expect(clippy::disallowed_methods, reason = "any time will do")]
fn now() -> Instant {
    Instant::now()
}

/// Pods need nothing else.
struct Nothing;

impl Lookup for Nothing {
    fn device_class(&self, _: &str) -> Option<Value> {
        None
    }
    fn pod(&self, _: &str, _: &str) -> Option<Value> {
        None
    }
    fn claims_of_pod(&self, _: &str, _: &str) -> Vec<Value> {
        Vec::new()
    }
}

/// Two pods, and a quota that was never counted.
fn books() -> Books {
    let mut books = Books::default();
    assert!(books.observe(&quota("{}"), Revision(5), &Catalog::builtin(), &[], now()));
    let pods = [pod("a", "Running", 1), pod("b", "Running", 2)];
    for (resource, evaluator, _) in books.counted_by("ns", "q") {
        let objects = if resource == PODS { &pods[..] } else { &[] };
        let usages = measure_all(&evaluator, objects, &Default::default(), 0, &Nothing);
        books.replace("ns", &resource, &evaluator, usages);
    }
    books
}

fn used(books: &Books) -> String {
    show(&books.used("ns", "q").expect("it is known"))
}

fn put(books: &mut Books, pod: &Obj) -> Vec<(String, Moved)> {
    books.put(&PODS, pod, measure(&Evaluator::Pods, pod, 0, &Nothing))
}

#[test]
fn sums_follow_each_change() {
    let mut books = books();
    assert_eq!(used(&books), "pods=2,services=0");
    assert_eq!(put(&mut books, &pod("c", "Pending", 6)), [("q".to_owned(), Moved::Up)]);
    assert_eq!(put(&mut books, &pod("c", "Running", 7)), [], "it uses as much as before");
    assert_eq!(put(&mut books, &pod("a", "Succeeded", 8)), [("q".to_owned(), Moved::Down)]);
    assert_eq!(books.remove(&PODS, &pod("b", "Running", 9)), [("q".to_owned(), Moved::Down)]);
    assert_eq!(used(&books), "pods=1,services=0");
}

#[test]
fn what_the_book_has_in_a_later_state_is_not_taken_back() {
    let mut books = books();
    put(&mut books, &pod("a", "Succeeded", 8));
    assert_eq!(put(&mut books, &pod("a", "Running", 7)), []);
    assert_eq!(books.remove(&PODS, &pod("a", "Running", 7)), [], "it was made again");
    assert_eq!(used(&books), "pods=1,services=0");
}

#[test]
fn a_charge_is_waited_for_where_it_was_made() {
    let mut books = books();
    let charged =
        |books: &Books, resource: &Gvr| books.charged("ns", "q", resource).map(|charged| charged.at);
    assert_eq!(charged(&books, &PODS), None, "nothing was charged");
    let catalog = Catalog::builtin();
    assert!(!books.observe(&quota("{pods: '3', services: '0'}"), Revision(20), &catalog, &[], now()));
    assert_eq!((charged(&books, &PODS), charged(&books, &SERVICES)), (Some(Revision(20)), None));
    // Less is nobody's charge.
    assert!(!books.observe(&quota("{pods: '1', services: '0'}"), Revision(30), &catalog, &[], now()));
    assert_eq!(charged(&books, &PODS), Some(Revision(20)));
    books.has_seen("ns", &PODS, Revision(19));
    assert_eq!(charged(&books, &PODS), Some(Revision(20)));
    books.has_seen("ns", &PODS, Revision(20));
    assert_eq!(charged(&books, &PODS), None);
}

#[test]
fn objects_of_another_server_are_counted_and_not_waited_for() {
    let flunders = Gvr::new("wardle.example.com", "v1", "flunders");
    let text = "{metadata: {namespace: ns, name: q}, spec: {hard: {count/flunders.wardle.example.com: '9'}}, status: {used: {count/flunders.wardle.example.com: '%'}}}";
    let quota = |used: &str| Quota::of(runtime::parse(&text.replace('%', used)).expect("a quota"));
    let count = Evaluator::Count(vec!["count/flunders.wardle.example.com".to_owned()]);
    let aggregated = [(flunders.clone(), count.clone())];
    let (catalog, mut books) = (Catalog::builtin(), Books::default());
    assert!(books.observe(&quota("0"), Revision(5), &catalog, &aggregated, now()));
    let one = measure_all(&count, &[pod("a", "Running", 1)], &Default::default(), 0, &Nothing);
    books.replace("ns", &flunders, &count, one);
    assert_eq!(used(&books), "count/flunders.wardle.example.com=1");
    // What was written is no charge: that server's revisions say nothing about ours.
    assert!(!books.observe(&quota("1"), Revision(20), &catalog, &aggregated, now()));
    assert!(books.charged("ns", "q", &flunders).is_none());
    assert!(books.observe(&quota("1"), Revision(20), &catalog, &[], now()), "it is not served any more");
    assert_eq!(used(&books), "");
}

#[test]
fn nothing_is_kept_of_namespaces_without_quotas() {
    let mut books = books();
    books.forget("ns", "q");
    assert!(books.evaluator("ns", &PODS).is_none());
    assert_eq!(put(&mut books, &pod("c", "Running", 6)), []);
}

#[test]
fn a_status_is_written_when_it_says_something_else() {
    let books = books();
    let used = || books.used("ns", "q").expect("it is known");
    assert!(plan(quota("{pods: '2', services: '0'}"), used()).is_none());
    let written = plan(quota("{pods: '3', services: '0', gone: '1'}"), used()).expect("another usage");
    let wanted = runtime::parse("{pods: '2', services: '0'}").expect("amounts");
    assert_eq!(written.at(&["status", "used"]), Some(&wanted));
}
