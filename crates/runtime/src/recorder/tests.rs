//! What reaches the server.

use client::resources::CONFIG_MAPS;
use object::About;

use super::*;
use crate::Stopper;
use crate::testing::{Scripted, map};

struct Rig {
    env: Env,
    client: Arc<Scripted>,
    recorder: Recorder,
    _stopper: Stopper,
}

fn rig() -> Rig {
    let env = Env::simulated(1);
    let client = Scripted::new(vec![]);
    let (stopper, stop) = Stopper::new();
    let (recorder, _) = Recorder::start(&env, client.clone(), "test-controller", stop);
    Rig { env, client, recorder, _stopper: stopper }
}

impl Rig {
    fn say(&self, message: &str) {
        self.recorder.event(&CONFIG_MAPS, &map("web", 7), Severity::Warning, "Failed", message);
    }
    async fn pause(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }
    fn sent(&self, n: usize, path: &[&str]) -> String {
        self.client.said(n, path)
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_is_created_and_the_same_again_is_patched() {
    let rig = rig();
    let nanos = rig.env.now_nanos();
    rig.say("no room");
    rig.pause(90).await;
    rig.say("no room");
    rig.pause(1).await;
    let name = format!("web.{nanos:x}");
    assert_eq!(rig.client.log(), ["create events/", &format!("patch events/{name}")]);
    for (path, wanted) in [
        (&["metadata", "name"][..], &*name),
        (&["metadata", "namespace"], "default"),
        (&["involvedObject", "kind"], "ConfigMap"),
        (&["involvedObject", "uid"], "uid-web"),
        (&["involvedObject", "resourceVersion"], "7"),
        (&["type"], "Warning"),
        (&["count"], "1"),
        (&["firstTimestamp"], "2026-01-01T00:00:00Z"),
        (&["source", "component"], "test-controller"),
        (&["reportingComponent"], "test-controller"),
    ] {
        assert_eq!(rig.sent(0, path), wanted, "{path:?}");
    }
    assert_eq!(
        (rig.sent(1, &["count"]), rig.sent(1, &["lastTimestamp"])),
        ("2".into(), "2026-01-01T00:01:30Z".into())
    );
    assert_eq!(rig.sent(1, &["firstTimestamp"]), "-");
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_recreated_with_its_count() {
    let rig = rig();
    rig.say("no room");
    rig.pause(1).await;
    let about = About { group: "", resource: "events" };
    rig.client.answers.lock().push_back(Err(Status::not_found(about, "x")));
    rig.say("no room");
    rig.pause(1).await;
    assert_eq!(rig.sent(2, &["count"]), "2");
    assert_eq!(rig.sent(2, &["metadata", "name"]), rig.sent(0, &["metadata", "name"]));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_twelve_times_and_a_refusal_once() {
    let rig = rig();
    rig.client.answers.lock().extend((0..12).map(|_| Err(Status::unavailable("connection refused"))));
    rig.say("no room");
    rig.pause(99).await;
    assert!(rig.client.log().len() < 12, "ten seconds apart");
    rig.pause(30).await;
    assert_eq!(rig.client.log().len(), 12);
    rig.client.answers.lock().push_back(Err(Status::bad_request("no")));
    rig.say("another");
    rig.pause(60).await;
    assert_eq!(rig.client.log().len(), 13);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_changed() {
    let rig = rig();
    let about = About { group: "", resource: "events" };
    rig.client.answers.lock().push_back(Err(Status::already_exists(about, "x")));
    rig.say("no room");
    rig.say("no room");
    rig.pause(1).await;
    let (first, second) = (rig.sent(0, &["metadata", "name"]), rig.sent(1, &["metadata", "name"]));
    assert_ne!(first, second);
    assert_eq!(rig.client.log()[2], format!("patch events/{second}"));
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_free_name_is_dropped_and_the_next_is_not_counted_on_anothers() {
    let rig = rig();
    let about = About { group: "", resource: "events" };
    rig.client.answers.lock().extend((0..NAMES).map(|_| Err(Status::already_exists(about, "x"))));
    rig.say("no room");
    rig.say("no room");
    rig.pause(1).await;
    assert!(rig.client.log().iter().all(|call| call == "create events/"));
    assert_eq!(rig.sent(NAMES, &["count"]), "1");
}

#[tokio::test(start_paused = true)]
async fn combined_events_have_no_reporting_controller() {
    let rig = rig();
    (0..10).for_each(|n| rig.say(&format!("try {n}")));
    rig.pause(1).await;
    assert!(rig.sent(9, &["message"]).starts_with("(combined from similar events): "));
    assert_eq!(rig.sent(9, &["reportingComponent"]), "");
    assert_eq!(rig.sent(9, &["source", "component"]), "test-controller");
    assert_eq!(rig.sent(8, &["reportingComponent"]), "test-controller");
}

#[tokio::test(start_paused = true)]
async fn events_of_one_moment_have_names_of_their_own() {
    let rig = rig();
    rig.say("one");
    rig.say("another");
    rig.pause(1).await;
    assert_ne!(rig.sent(0, &["metadata", "name"]), rig.sent(1, &["metadata", "name"]));
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_queue_are_dropped_without_blocking() {
    let rig = rig();
    let one = ObjectRef::of(&rig.client.catalog(), &CONFIG_MAPS, &map("o", 1));
    for n in 0..QUEUE + 500 {
        let about = ObjectRef { uid: n.to_string(), ..one.clone() };
        rig.recorder.event_on(about, Severity::Normal, "Told", "x");
    }
    rig.pause(1).await;
    let uids: std::collections::BTreeSet<String> =
        (0..rig.client.log().len()).map(|n| rig.sent(n, &["involvedObject", "uid"])).collect();
    assert_eq!(uids.len(), QUEUE);
}
