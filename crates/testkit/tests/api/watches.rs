//! Watches: bookmarks, ends, 410, slow readers, and completeness under concurrent writers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use serde_json::{Value, json};
use store::Revision;
use testkit::{Stream, TestCluster};

use crate::lists::with_maps;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn version_of(event: &Value) -> u64 {
    event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_once_a_minute_and_only_when_asked_for() {
    let cluster = TestCluster::simulated(20).await;
    with_maps(&cluster, 1).await;
    let version = cluster.get(MAPS).await.version();
    let events = |query: &str| {
        let path = format!("{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=200{query}");
        let cluster = &cluster;
        async move { cluster.watch(path).await.rest().await }
    };
    assert_eq!(events("").await, Vec::<Value>::new());
    let bookmarks = events("&allowWatchBookmarks=true").await;
    assert!((3..=6).contains(&bookmarks.len()), "{bookmarks:?}");
    for bookmark in &bookmarks {
        assert_eq!(bookmark["type"], json!("BOOKMARK"));
        assert_eq!(bookmark["object"]["kind"], json!("ConfigMap"));
        assert!(version_of(bookmark) >= version.parse().unwrap());
    }
    cluster.shutdown().await;
}

/// A bookmark is a promise: nothing at or before it is missing when a watch goes on from there.
#[tokio::test(start_paused = true)]
async fn a_bookmark_reflects_writes_to_other_objects() {
    let cluster = TestCluster::simulated(21).await;
    with_maps(&cluster, 1).await;
    let version = cluster.get(MAPS).await.version();
    let path =
        format!("{MAPS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=300");
    let mut watch = cluster.watch(path).await;
    cluster.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.ok(201);
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], json!("BOOKMARK"));
    assert!(version_of(&bookmark) > version.parse().unwrap(), "other resources' writes move the bookmark");
    drop(watch);
    let path = format!("{MAPS}?watch=1&resourceVersion={}&timeoutSeconds=2", version_of(&bookmark));
    let mut watch = cluster.watch(path).await;
    cluster.post(MAPS, json!({"metadata": {"name": "after"}})).await.ok(201);
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], json!("after"));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_its_timeout_or_on_its_own() {
    let cluster = TestCluster::simulated(22).await;
    let lasts = |query: &'static str| {
        let cluster = &cluster;
        async move {
            let begun = cluster.env().monotonic();
            let mut watch = cluster.watch(format!("{MAPS}?watch=1&resourceVersion=1{query}")).await;
            // The bootstrap history may be told first; only the end counts here.
            watch.rest().await;
            (cluster.env().monotonic() - begun).as_secs()
        }
    };
    assert_eq!(lasts("&timeoutSeconds=7").await, 7);
    let by_itself = lasts("").await;
    assert!((1800..3600).contains(&by_itself), "{by_itself}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_finds_its_events_behind_a_long_log_of_others() {
    let cluster = TestCluster::simulated(27).await;
    let from = cluster.get(MAPS).await.version();
    cluster.post(MAPS, json!({"metadata": {"name": "busy"}})).await.ok(201);
    // More than one look into the log takes in.
    for i in 0..9_000 {
        let patch = json!({"data": {"i": i.to_string()}});
        cluster.merge(format!("{MAPS}/busy"), patch).await.ok(200);
    }
    cluster.post(MAPS, json!({"metadata": {"name": "mine", "labels": {"x": "y"}}})).await.ok(201);
    // As long as a number can say, too.
    for timeout in ["5", "9223372036854775807"] {
        let path =
            format!("{MAPS}?watch=1&resourceVersion={from}&labelSelector=x%3Dy&timeoutSeconds={timeout}");
        let event = cluster.watch(path).await.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("mine")));
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_below_the_history_is_an_error_event() {
    let cluster = TestCluster::simulated(23).await;
    with_maps(&cluster, 5).await;
    let table = cluster.api().registry().table().clone();
    let now = table.revision();
    table.compact(Revision(now.0 - 2));
    let mut watch =
        cluster.watch(format!("{MAPS}?watch=1&resourceVersion={}&timeoutSeconds=5", now.0 - 4)).await;
    assert_eq!(watch.status, 200);
    let events = watch.rest().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["type"], json!("ERROR"));
    assert_eq!(
        (&events[0]["object"]["code"], &events[0]["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert!(events[0]["object"]["message"].as_str().unwrap().starts_with("too old resource version: "));
    let kept = cluster
        .watch(format!("{MAPS}?watch=1&resourceVersion={}&timeoutSeconds=5", now.0 - 2))
        .await
        .rest()
        .await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    cluster.shutdown().await;
}

/// Nothing is queued for a reader that does not read: it gets everything while the history lasts, 410 after.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_all_or_410() {
    let cluster = TestCluster::simulated(24).await;
    with_maps(&cluster, 1).await;
    let version = cluster.get(MAPS).await.version();
    let open = || cluster.watch(format!("{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=5000"));
    let (mut slow, mut too_slow): (Stream, Stream) = (open().await, open().await);
    for n in 0..300 {
        cluster
            .merge(format!("{MAPS}/m000"), json!({"data": {"n": n.to_string(), "fill": "x".repeat(2000)}}))
            .await
            .ok(200);
    }
    for n in 0..300 {
        let event = slow.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["data"]["n"]),
            (&json!("MODIFIED"), &json!(n.to_string()))
        );
    }
    cluster.env().sleep(Duration::from_secs(400)).await;
    cluster.merge(format!("{MAPS}/m000"), json!({"data": {"n": "last"}})).await.ok(200);
    assert_eq!(slow.next().await.unwrap()["object"]["data"]["n"], json!("last"));
    let told = too_slow.rest().await;
    let last = told.last().unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)), "{last}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_may_stay_away_for_five_minutes() {
    let cluster = TestCluster::simulated(28).await;
    with_maps(&cluster, 1).await;
    let from = cluster.get(MAPS).await.version();
    let change = |n: u32| cluster.merge(format!("{MAPS}/m000"), json!({"data": {"n": n.to_string()}}));
    let path = format!("{MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=1");
    change(1).await.ok(200);
    cluster.env().sleep(Duration::from_secs(290)).await;
    change(2).await.ok(200);
    let told = cluster.watch(&*path).await.rest().await;
    let seen: Vec<&Value> = told.iter().map(|event| &event["object"]["data"]["n"]).collect();
    assert_eq!(seen, ["1", "2"]);
    cluster.env().sleep(Duration::from_secs(20)).await;
    change(3).await.ok(200);
    assert!(cluster.get(&*path).await.text().contains("\"code\":410"), "the first change is forgotten");
    cluster.shutdown().await;
}

/// Objects by key as a client's cache would hold them.
type Cache = BTreeMap<String, u64>;

fn apply(cache: &mut Cache, event: &Value) {
    let metadata = &event["object"]["metadata"];
    let key = metadata["name"].as_str().unwrap().to_owned();
    let version = version_of(event);
    match event["type"].as_str().unwrap() {
        "ADDED" => assert_eq!(cache.insert(key, version), None, "ADDED twice: {event}"),
        "MODIFIED" => {
            assert!(cache.insert(key, version).is_some_and(|old| old < version), "MODIFIED: {event}")
        }
        "DELETED" => assert!(cache.remove(&key).is_some_and(|old| old < version), "DELETED: {event}"),
        other => panic!("{other}: {event}"),
    }
}

/// Many writers on real threads; watchers that leave and resume at random. Every watcher must see every change
/// once and in order, and end with exactly what a list says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_ordered_unique_and_complete_under_concurrent_writers() {
    let seed: u64 = 25;
    println!("seed {seed}");
    let cluster = Arc::new(TestCluster::start().await);
    let env = cluster.env().clone();
    let begin = cluster.get(MAPS).await;
    let mut cache: Cache = Cache::new();
    for item in begin.json()["items"].as_array().unwrap() {
        cache.insert(item["metadata"]["name"].as_str().unwrap().into(), 0);
    }
    let start: u64 = begin.version().parse().unwrap();

    let writers: Vec<_> = (0..4u64)
        .map(|w| {
            let cluster = cluster.clone();
            env.spawn("writer", async move {
                let random = Env::simulated(seed + w);
                for n in 0..250u64 {
                    let path = format!("{MAPS}/k{}", random.random_below(20));
                    match random.random_below(3) {
                        0 => drop(cluster.delete(path).await),
                        1 => drop(cluster.merge(path, json!({"data": {"n": format!("{w}-{n}")}})).await),
                        _ => {
                            let name = path.rsplit('/').next().unwrap();
                            drop(cluster.post(MAPS, json!({"metadata": {"name": name}})).await)
                        }
                    }
                }
            })
        })
        .collect();

    let watchers: Vec<_> = (0..6u64)
        .map(|w| {
            let (cluster, mut cache) = (cluster.clone(), cache.clone());
            env.spawn("watcher", async move {
                let random = Env::simulated(seed * 1000 + w);
                let mut at = start;
                let mut seen: Vec<u64> = Vec::new();
                'resume: loop {
                    let mut watch =
                        cluster.watch(format!("{MAPS}?watch=1&resourceVersion={at}&timeoutSeconds=60")).await;
                    for _ in 0..1 + random.random_below(60) {
                        let event = watch.next().await.unwrap();
                        let version = version_of(&event);
                        assert!(version > at, "an event before the place the watch started from: {event}");
                        at = version;
                        if event["object"]["metadata"]["name"] == "end" {
                            break 'resume;
                        }
                        apply(&mut cache, &event);
                        seen.push(version);
                    }
                }
                (cache, seen)
            })
        })
        .collect();

    for writer in writers {
        writer.await.unwrap();
    }
    let list = cluster.get(MAPS).await.json();
    let wanted: Cache = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| {
            let metadata = &o["metadata"];
            (
                metadata["name"].as_str().unwrap().to_owned(),
                metadata["resourceVersion"].as_str().unwrap().parse().unwrap(),
            )
        })
        .collect();
    cluster.post(MAPS, json!({"metadata": {"name": "end"}})).await.ok(201);
    let mut all_seen: Option<Vec<u64>> = None;
    for watcher in watchers {
        let (mut cache, seen) = watcher.await.unwrap();
        for (name, version) in &mut cache {
            // What stood there from the beginning came without an event.
            if *version == 0 {
                *version = wanted[name];
            }
        }
        assert_eq!(cache, wanted);
        let first = all_seen.get_or_insert_with(|| seen.clone());
        assert_eq!(*first, seen, "every watcher sees the same changes in the same order");
    }
    let all_seen = all_seen.unwrap();
    assert!(all_seen.len() > 100);

    // A watch from any version in between tells exactly what came after it.
    let random = Env::simulated(seed);
    let end = cluster.get(format!("{MAPS}/end")).await.version().parse::<u64>().unwrap();
    for _ in 0..50 {
        let from = start + random.random_below(end - start);
        let mut watch =
            cluster.watch(format!("{MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=60")).await;
        let mut told = Vec::new();
        loop {
            match version_of(&watch.next().await.unwrap()) {
                version if version == end => break,
                version => told.push(version),
            }
        }
        let wanted: Vec<u64> = all_seen.iter().copied().filter(|v| *v > from).collect();
        assert_eq!(told, wanted, "from {from} (seed {seed})");
    }
}

/// A list that streams says when it is complete, and nothing is missing between the list and the changes.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_a_list() {
    let cluster = TestCluster::simulated(26).await;
    with_maps(&cluster, 30).await;
    let list = cluster.get(MAPS).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=30";
    let mut watch = cluster.watch(format!("{MAPS}?{query}")).await;
    let mut names = Vec::new();
    let end = loop {
        let event = watch.next().await.unwrap();
        if event["type"] == "BOOKMARK" {
            break event;
        }
        assert_eq!(event["type"], json!("ADDED"));
        names.push(event["object"]["metadata"]["name"].clone());
    };
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], json!("true"));
    assert_eq!(end["object"]["metadata"]["resourceVersion"], json!(list.version()));
    let listed: Vec<Value> =
        list.json()["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].clone()).collect();
    assert_eq!(names, listed);
    cluster.delete(format!("{MAPS}/m007")).await.ok(200);
    assert_eq!(watch.next().await.unwrap()["type"], json!("DELETED"));
    cluster.shutdown().await;
}

/// A watch with initial events and bookmarks gets the bookmark that ends them, requested or not.
#[tokio::test(start_paused = true)]
async fn the_end_of_initial_events_is_a_bookmark() {
    let cluster = TestCluster::simulated(27).await;
    with_maps(&cluster, 2).await;
    let now = cluster.get(MAPS).await.version();
    let of_old = "/api/v1/watch/namespaces/default/configmaps";
    for (path, query, told) in [
        (MAPS, "watch=1&allowWatchBookmarks=true".to_owned(), true),
        (MAPS, "watch=1&allowWatchBookmarks=true&resourceVersion=0".into(), true),
        (MAPS, "watch=1".into(), false),
        (MAPS, format!("watch=1&allowWatchBookmarks=true&resourceVersion={now}"), false),
        (of_old, "allowWatchBookmarks=true".into(), false),
        (of_old, "watch=1&allowWatchBookmarks=true".into(), true),
    ] {
        let events = cluster.watch(format!("{path}?{query}&timeoutSeconds=1")).await.rest().await;
        let ends: Vec<_> = events
            .iter()
            .filter(|e| e["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true")
            .collect();
        assert_eq!(ends.len(), usize::from(told), "{path}?{query}: {events:?}");
        if let Some(end) = ends.first() {
            assert_eq!(end["object"]["metadata"]["resourceVersion"], json!(now));
            assert_eq!(&events[2], *end, "right after the state");
        }
    }
    cluster.shutdown().await;
}

/// A start version that does not come is reported in the stream, an invalid one is not.
#[tokio::test(start_paused = true)]
async fn a_future_version_that_does_not_come_is_an_error_event() {
    let cluster = TestCluster::simulated(28).await;
    let now = cluster.get(MAPS).await.version();
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999999";
    for bookmarks in ["", "&allowWatchBookmarks=true"] {
        let mut watch = cluster.watch(format!("{MAPS}?{query}{bookmarks}&timeoutSeconds=1")).await;
        assert_eq!(watch.status, 200);
        let events = watch.rest().await;
        assert_eq!(events.len(), 1, "{events:?}");
        let status = &events[0]["object"];
        assert_eq!((&events[0]["type"], &status["code"]), (&json!("ERROR"), &json!(504)));
        let words = format!("Timeout: Too large resource version: 99999999, current: {now}");
        assert_eq!(status["message"], json!(words));
    }
    for (version, why) in [
        ("abc", "parsing \"abc\": invalid syntax"),
        ("-1", "parsing \"-1\": invalid syntax"),
        ("18446744073709551616", "parsing \"18446744073709551616\": value out of range"),
    ] {
        let status = cluster.get(format!("{MAPS}?watch=1&resourceVersion={version}")).await.ok(500);
        let words = format!("resourceVersion: Invalid value: \"{version}\": strconv.ParseUint: {why}");
        assert_eq!((&status["message"], status.get("reason")), (&json!(words), None));
    }
    cluster.shutdown().await;
}
