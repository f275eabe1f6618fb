//! What a reflector asks a server for, and what it makes of the answers.

use parking_lot::Mutex;

use super::*;
use crate::Stopper;
use crate::testing::{Pull, Say, Scripted, list, map, state};
use client::resources::CONFIG_MAPS;
use std::sync::Arc as Shared;

/// Plays a script and gives back what was asked, what was told, and after how many seconds it was asked.
async fn play(script: Vec<Say>) -> (Vec<String>, Vec<String>) {
    let env = Env::simulated(1);
    let client = Scripted::new(script);
    let (stopper, stop) = Stopper::new();
    let scope = Scope::all(&CONFIG_MAPS);
    let reflector = Reflector { env: env.clone(), client: client.clone(), scope, stop };
    let told = Shared::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    let task = env.spawn(
        "reflector",
        reflector.run(move |deltas| telling.lock().extend(deltas.drain(..).map(|delta| short(&delta)))),
    );
    env.sleep(Duration::from_secs(600)).await;
    stopper.stop();
    task.await.unwrap();
    let told = told.lock().clone();
    (client.log(), told)
}

fn short(delta: &Delta) -> String {
    match delta {
        Delta::Added(o) => format!("added {}@{}", o.name(), o.revision()),
        Delta::Updated(o) => format!("updated {}@{}", o.name(), o.revision()),
        Delta::Deleted { key, .. } => format!("deleted {}", key.name()),
        Delta::Replaced { items, revision } => {
            let names: Vec<&str> = items.iter().map(|o| o.name()).collect();
            format!("state {}@{revision}", names.join(","))
        }
        Delta::Bookmark(revision) => format!("bookmark {revision}"),
        Delta::Listed(_) | Delta::Sync | Delta::Synced(_) => unreachable!("queues make those"),
    }
}

fn unsupported() -> Status {
    Status::bad_request("sendInitialEvents is forbidden")
}
fn bookmark(revision: u64) -> Event {
    Event::Bookmark { revision: Revision(revision), initial_events_end: false }
}
fn pulls(pulls: Vec<Pull>) -> Say {
    Say::Watch(Ok(pulls))
}

#[tokio::test(start_paused = true)]
async fn the_state_is_streamed_and_the_same_watch_goes_on() {
    let (asked, told) = play(vec![pulls(vec![
        Ok((vec![Event::Added(map("a", 1)), Event::Added(map("b", 2)), bookmark(2)], true)),
        // Changes before the state is whole are part of it.
        Ok((vec![Event::Modified(map("a", 3)), Event::Deleted(map("b", 4))], true)),
        state(vec![map("c", 5)], 5),
        Ok((vec![Event::Modified(map("c", 6)), Event::Deleted(map("a", 7)), bookmark(9)], true)),
    ])])
    .await;
    assert_eq!(asked, ["stream at="]);
    assert_eq!(told, ["state a,c@5", "updated c@6", "deleted a", "bookmark 9"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_is_listed_in_pages() {
    let (asked, told) = play(vec![
        Say::Watch(Err(unsupported())),
        list(vec![map("a", 1)], 5, "more"),
        list(vec![map("b", 2)], 5, ""),
        pulls(vec![Ok((vec![Event::Added(map("c", 6))], true))]),
    ])
    .await;
    let wanted =
        ["stream at=", "list at=0 limit=500 continue=", "list at= limit=500 continue=more", "watch at=5"];
    assert_eq!(asked, wanted);
    assert_eq!(told, ["state a,b@5", "added c@6"]);
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_are_listed_at_once_in_one_piece() {
    let (asked, told) = play(vec![
        Say::Watch(Err(unsupported())),
        list(vec![map("a", 1)], 5, "more"),
        Say::List(Err(Status::expired("the continue token is too old"))),
        list(vec![map("a", 1), map("b", 2)], 8, ""),
    ])
    .await;
    assert_eq!(asked[3..], ["list at= limit=0 continue=", "watch at=8"]);
    assert_eq!(told, ["state a,b@8"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_at_the_last_revision_seen() {
    let (asked, told) = play(vec![
        pulls(vec![state(vec![], 5), Ok((vec![Event::Added(map("a", 6)), bookmark(8)], false))]),
        pulls(vec![Ok((vec![Event::Modified(map("a", 9))], false))]),
    ])
    .await;
    assert_eq!(asked, ["stream at=", "watch at=8", "watch at=9"]);
    assert_eq!(told, ["state @5", "added a@6", "bookmark 8", "updated a@9"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_revision_leads_to_a_relist_not_older_than_seen() {
    for at_once in [true, false] {
        let gone = Status::expired("too old resource version");
        let second = if at_once { Say::Watch(Err(gone)) } else { pulls(vec![Err(gone)]) };
        let (asked, told) = play(vec![
            pulls(vec![state(vec![map("a", 3)], 5), Ok((vec![Event::Modified(map("a", 6))], false))]),
            second,
            pulls(vec![state(vec![map("b", 8)], 9)]),
        ])
        .await;
        assert_eq!(asked, ["stream at=", "watch at=6", "stream at=6"]);
        assert_eq!(told, ["state a@5", "updated a@6", "state b@9"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_too_large_is_given_up_at_once() {
    let (asked, told) = play(vec![
        pulls(vec![state(vec![], 50), Err(Status::expired("gone"))]),
        Say::Watch(Err(Status::too_large_resource_version(50, 7))),
        pulls(vec![state(vec![map("a", 3)], 7), Ok((vec![Event::Modified(map("a", 8))], false))]),
    ])
    .await;
    assert_eq!(asked, ["stream at=", "stream at=50", "stream at=", "watch at=8"]);
    assert_eq!(told, ["state @50", "state a@7", "updated a@8"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_again_is_at_the_last_version_and_at_the_newest_where_that_is_gone() {
    let (asked, _) = play(vec![
        Say::Watch(Err(unsupported())),
        list(vec![], 5, ""),
        pulls(vec![Ok((vec![bookmark(7)], true)), Err(Status::expired("gone"))]),
        Say::Watch(Err(unsupported())),
        Say::List(Err(Status::too_large_resource_version(7, 6))),
        list(vec![], 6, ""),
    ])
    .await;
    let again = ["stream at=7", "list at=7 limit=0 continue=", "list at= limit=500 continue=", "watch at=6"];
    assert_eq!(asked[3..], again);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_and_refused_connections_pause_without_a_new_list() {
    let (asked, told) = play(vec![
        pulls(vec![state(vec![], 5), Err(Status::unavailable("connection refused"))]),
        Say::Watch(Err(Status::too_many_requests("later", 1))),
        Say::Watch(Err(Status::unavailable("connection refused"))),
        pulls(vec![Ok((vec![Event::Added(map("a", 6))], true))]),
    ])
    .await;
    assert_eq!(asked, ["stream at=", "watch at=5", "watch at=5", "watch at=5"]);
    assert_eq!(told, ["state @5", "added a@6"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_retried() {
    let (asked, _) = play(vec![
        Say::Watch(Err(Status::unavailable("connection refused"))),
        pulls(vec![Ok((vec![Event::Added(map("half", 1))], false))]),
        pulls(vec![state(vec![], 5)]),
    ])
    .await;
    assert_eq!(asked, ["stream at=", "stream at=", "stream at="]);
}

/// As kube-apiserver v1.36 answers on etcd 3.4: 200, and then an error in the stream.
#[tokio::test(start_paused = true)]
async fn a_server_that_fails_within_the_stream_is_listed() {
    let words = "a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled";
    let (asked, told) = play(vec![
        pulls(vec![Err(Status::internal(words))]),
        Say::List(Err(Status::internal("not yet"))),
        pulls(vec![Ok((vec![Event::Added(map("half", 1))], true)), Err(Status::internal(words))]),
        list(vec![map("a", 1)], 5, ""),
        pulls(vec![Ok((vec![Event::Added(map("b", 6))], true))]),
    ])
    .await;
    let state = ["stream at=", "list at=0 limit=500 continue="];
    assert_eq!(asked, [&state[..], &state[..], &["watch at=5"]].concat());
    assert_eq!(told, ["state a@5", "added b@6"]);
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_slowed_down() {
    let mut script = vec![pulls(vec![state(vec![], 5), Ok((vec![], false))])];
    script.extend((0..1000).map(|_| pulls(vec![Ok((vec![], false))])));
    let (asked, _) = play(script).await;
    // 0.8 s doubled to 30 s, each up to twice as long: between 13 and 26 in ten minutes, not a thousand.
    assert!((10..30).contains(&asked.len()), "{}", asked.len());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_served_yet_or_any_more_is_waited_for() {
    let unserved = || Say::Watch(Err(Status::no_such_resource()));
    let gone = Status::expired("the resource is not defined any more");
    let (asked, told) = play(vec![
        unserved(),
        unserved(),
        pulls(vec![state(vec![map("a", 5)], 5), Err(gone)]),
        Say::Watch(Err(Status::no_such_resource())),
        pulls(vec![state(vec![map("b", 9)], 9)]),
    ])
    .await;
    assert_eq!(asked, ["stream at=", "stream at=", "stream at=", "stream at=5", "stream at=5"]);
    assert_eq!(told, ["state a@5", "state b@9"]);
}

#[tokio::test(start_paused = true)]
async fn lasting_trouble_is_told_once_a_minute() {
    let (env, mut trouble) = (Env::simulated(1), Trouble::default());
    let mut told = 0;
    for _ in 0..130 {
        told += usize::from(trouble.is_to_be_told(env.monotonic()));
        env.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(told, 3, "after 5, 65 and 125 seconds");
    assert!(!Trouble::default().is_to_be_told(env.monotonic()), "a server may restart");
}
