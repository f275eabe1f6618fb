//! What reaches the server, and when.

use client::resources::CONFIG_MAPS;
use object::About;

use super::*;
use crate::Stopper;
use crate::testing::{Scripted, map};

struct Rig {
    env: Env,
    client: Arc<Scripted>,
    recorder: SeriesRecorder,
    _stopper: Stopper,
}

fn rig() -> Rig {
    let env = Env::simulated(1);
    let client = Scripted::new(vec![]);
    let (stopper, stop) = Stopper::new();
    let (recorder, _) = SeriesRecorder::start(&env, client.clone(), "test-scheduler", stop);
    Rig { env, client, recorder, _stopper: stopper }
}

impl Rig {
    fn say(&self, revision: u64, note: &str) {
        self.recorder.tell(NewEvent {
            about: ObjectRef::of(&self.client.catalog(), &CONFIG_MAPS, &map("web", revision)),
            related: None,
            severity: Severity::Warning,
            reason: "Failed",
            action: "Trying",
            note: note.to_owned(),
        });
    }
    async fn minutes(&self, minutes: u64) {
        self.env.sleep(Duration::from_secs(minutes * 60)).await;
    }
    fn sent(&self, n: usize, path: &[&str]) -> String {
        self.client.said(n, path)
    }
    fn calls(&self) -> Vec<String> {
        self.client.log().iter().map(|call| call.split(' ').next().unwrap_or("").to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_is_created_the_second_makes_a_series_and_the_next_write_nothing() {
    let rig = rig();
    rig.say(7, "no room");
    rig.minutes(1).await;
    for (path, wanted) in [
        (&["metadata", "namespace"][..], "default"),
        (&["regarding", "kind"], "ConfigMap"),
        (&["regarding", "resourceVersion"], "7"),
        (&["eventTime"], "2026-01-01T00:00:00.000000Z"),
        (&["reportingController"], "test-scheduler"),
        (&["reportingInstance"], "test-scheduler-simulated"),
        (&["action"], "Trying"),
        (&["reason"], "Failed"),
        (&["note"], "no room"),
        (&["type"], "Warning"),
        (&["series"], "-"),
        (&["deprecatedCount"], "-"),
    ] {
        assert_eq!(rig.sent(0, path), wanted, "{path:?}");
    }
    for _ in 0..3 {
        rig.say(7, "no room, in other words");
        rig.minutes(1).await;
    }
    assert_eq!(rig.calls(), ["create", "patch"]);
    assert_eq!(rig.sent(1, &["series", "count"]), "2");
    assert_eq!(rig.sent(1, &["series", "lastObservedTime"]), "2026-01-01T00:01:00.000000Z");
    rig.say(8, "another version of the object is another event");
    rig.minutes(1).await;
    assert_eq!(rig.calls(), ["create", "patch", "create"]);
}

#[tokio::test(start_paused = true)]
async fn a_series_that_goes_on_is_written_every_half_hour_and_one_that_ends_once_more() {
    let rig = rig();
    for _ in 0..9 {
        rig.say(7, "no room");
        rig.minutes(5).await;
    }
    // At minute 45: made at 0, a series from 5 on, written again at 30.
    assert_eq!(rig.calls(), ["create", "patch", "patch"]);
    assert_eq!(rig.sent(2, &["series", "count"]), "6");
    rig.minutes(6).await;
    assert_eq!(rig.sent(3, &["series", "count"]), "9");
    rig.minutes(60).await;
    assert_eq!(rig.calls().len(), 4, "forgotten");
    rig.say(7, "no room");
    rig.minutes(1).await;
    assert_eq!(rig.calls().last().map(String::as_str), Some("create"));
}

#[tokio::test(start_paused = true)]
async fn a_single_event_is_forgotten_after_six_minutes() {
    let rig = rig();
    rig.say(7, "no room");
    rig.minutes(13).await;
    rig.say(7, "no room");
    rig.minutes(1).await;
    assert_eq!(rig.calls(), ["create", "create"]);
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_event_expired_is_created_as_a_whole() {
    let rig = rig();
    rig.say(7, "no room");
    rig.minutes(1).await;
    let about = About { group: "events.k8s.io", resource: "events" };
    rig.client.answers.lock().push_back(Err(Status::not_found(about, "x")));
    rig.say(7, "other words");
    rig.minutes(1).await;
    assert_eq!(rig.calls(), ["create", "patch", "create"]);
    assert_eq!((rig.sent(2, &["series", "count"]), rig.sent(2, &["note"])), ("2".into(), "no room".into()));
    assert_eq!(rig.sent(2, &["metadata", "name"]), rig.sent(0, &["metadata", "name"]));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_twelve_times_and_a_taken_name_changed() {
    let rig = rig();
    rig.client.answers.lock().extend((0..12).map(|_| Err(Status::unavailable("connection refused"))));
    rig.say(7, "no room");
    rig.minutes(3).await;
    assert_eq!(rig.calls().len(), 12);
    let about = About { group: "events.k8s.io", resource: "events" };
    rig.client.answers.lock().push_back(Err(Status::already_exists(about, "x")));
    rig.say(8, "no room");
    rig.say(8, "no room");
    rig.minutes(1).await;
    let (taken, free) = (rig.sent(12, &["metadata", "name"]), rig.sent(13, &["metadata", "name"]));
    assert_ne!(taken, free);
    assert_eq!(rig.client.log()[14], format!("patch events/{free}"));
}
