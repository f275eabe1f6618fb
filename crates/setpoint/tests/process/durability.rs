//! kill -9 under load: what was acknowledged is there afterwards, unchanged, and watches go on or say 410.
//!
//! ```text
//!  writers ──POST/PATCH/DELETE──> server ──kill -9──> restart
//!     │ acknowledged + what was under way                │
//!     └──────────────── compared with ─────── list, watch from the last event seen
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 8;

/// What one name must look like: `None` when it is not there.
type State = Option<(u64, String)>;

/// One writer's memory of its own names, in the order of its writes.
#[derive(Default)]
struct Ledger {
    acknowledged: BTreeMap<String, State>,
    /// Every acknowledged revision with the name and kind of event, for the watch.
    writes: Vec<(u64, String, &'static str)>,
    /// The write that got no answer: it may have happened. Its name, and the value it would have left.
    under_way: Option<(String, Option<String>)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_kill_9_under_load() {
    let folder = folder();
    let data = folder.path().join("data");
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut known: BTreeMap<String, State> = BTreeMap::new();
    let (mut highest, mut all) = (0, 0);
    let mut server = Proc::start(&data);
    for round in 0..rounds(5, 1000) {
        let client = server.client().await;
        let (_, list) = call(&client, "GET", MAPS, None).await;
        let started = revision(&list);
        let watching = tokio::spawn(follow(server.client().await, started));
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            writers.push(tokio::spawn(write(server.client().await, format!("r{round}-w{writer}"))));
        }
        // The moment of death is what this test is about; it has no event to wait for.
        let milliseconds =
            150 + (seed.wrapping_mul(6364136223846793005).wrapping_add(round as u64 * 7919) >> 33) % 400;
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        server.kill();

        let mut writes = Vec::new();
        let mut round_names: BTreeMap<String, State> = BTreeMap::new();
        let mut open: BTreeMap<String, Option<String>> = BTreeMap::new();
        for writer in writers {
            let ledger = writer.await.unwrap();
            round_names.extend(ledger.acknowledged.clone());
            known.extend(ledger.acknowledged);
            writes.extend(ledger.writes);
            open.extend(ledger.under_way);
        }
        writes.sort();
        all += writes.len();
        highest = highest.max(writes.last().map_or(0, |w| w.0));
        let seen = watching.await.unwrap();
        check_events(&seen, &writes, revision(&list), seen.last().map_or(0, |e| e.0));

        server = Proc::start(&data);
        let client = server.client().await;
        let (_, list) = call(&client, "GET", MAPS, None).await;
        assert!(revision(&list) >= highest, "round {round}: the revision went back");
        check_list(&list, &mut known, &open);
        let last_seen = seen.last().map_or(started, |e| e.0);
        let resumed = resume(&client, last_seen, revision(&list), &writes).await;
        let watch = if resumed.is_some() { "resumed" } else { "410" };
        if let Some(resumed) = resumed {
            check_stories(seen.iter().chain(&resumed), &round_names);
        }
        let (code, made) =
            call(&client, "POST", MAPS, Some(config_map(&format!("after-{round}"), "1"))).await;
        assert_eq!(code, 201, "{made}");
        assert!(revision(&made) > highest, "round {round}: an old revision is given again");
        highest = revision(&made);
        known.insert(format!("after-{round}"), Some((highest, "1".to_owned())));
        let (writes, seen) = (writes.len(), seen.len());
        if round % 10 == 9 {
            // So that the last of many rounds does not list what all of them wrote.
            let (code, answer) = call(&client, "DELETE", MAPS, None).await;
            assert_eq!(code, 200, "{answer}");
            highest = revision(&call(&client, "GET", MAPS, None).await.1);
            known.clear();
        }
        println!(
            "round {round}: {writes} writes acknowledged, {seen} events before the crash, afterwards {watch}"
        );
    }
    assert!(all > rounds(5, 1000) * WRITERS, "only {all} writes in all rounds");
}

/// Creates, patches and deletes until the server is gone.
async fn write(client: kube::Client, prefix: String) -> Ledger {
    let mut ledger = Ledger::default();
    for number in 0.. {
        let name = format!("{prefix}-{number}");
        let one = format!("{MAPS}/{name}");
        let mut steps = vec![("POST", MAPS, Some(config_map(&name, "1")), Some("1"), "ADDED")];
        if number % 2 == 0 {
            steps.push(("PATCH", &one, Some(json!({"data": {"value": "2"}})), Some("2"), "MODIFIED"));
        }
        if number % 4 == 0 {
            steps.push(("DELETE", &one, None, None, "DELETED"));
        }
        for (method, path, body, leaves, event) in steps {
            let Ok((code, answer)) = try_call(&client, method, path, body).await else {
                ledger.under_way = Some((name, leaves.map(str::to_owned)));
                return ledger;
            };
            assert!(code == 200 || code == 201, "{method} {path}: {code} {answer}");
            let state = leaves.map(|value| (revision(&answer), value.to_owned()));
            if let Some((at, _)) = &state {
                ledger.writes.push((*at, name.clone(), event));
            }
            ledger.acknowledged.insert(name.clone(), state);
        }
    }
    unreachable!("the server is killed")
}

/// Revision, name and type of every event until the connection breaks.
async fn follow(client: kube::Client, from: u64) -> Vec<(u64, String, String)> {
    let mut events = Vec::new();
    let mut watch = Watch::open(&client, &format!("{MAPS}?watch=1&resourceVersion={from}")).await.unwrap();
    while let Ok(Some(event)) = watch.next().await {
        assert_ne!(event["type"], "ERROR", "{event}");
        events.push(of(&event));
    }
    events
}

fn of(event: &Value) -> (u64, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (revision(&event["object"]), text(&event["object"]["metadata"]["name"]), text(&event["type"]))
}

/// In order, each once, and every acknowledged write between the two revisions is among them.
fn check_events(seen: &[(u64, String, String)], writes: &[(u64, String, &str)], after: u64, upto: u64) {
    for pair in seen.windows(2) {
        assert!(pair[0].0 < pair[1].0, "out of order: {pair:?}");
    }
    let by_revision: BTreeMap<u64, _> = seen.iter().map(|e| (e.0, (e.1.as_str(), e.2.as_str()))).collect();
    for (at, name, event) in writes.iter().filter(|w| w.0 > after && w.0 <= upto) {
        assert_eq!(by_revision.get(at), Some(&(name.as_str(), *event)), "the watch lacks revision {at}");
    }
}

/// Every name is as acknowledged, or as the write under way would have left it; that then becomes known.
fn check_list(list: &Value, known: &mut BTreeMap<String, State>, open: &BTreeMap<String, Option<String>>) {
    let mut found: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap().to_owned();
        if name == "kube-root-ca.crt" {
            continue; // The server's own.
        }
        found.insert(name, (revision(item), item["data"]["value"].as_str().unwrap().to_owned()));
    }
    for (name, value) in open {
        let now = found.get(name).cloned();
        if now != known.get(name).cloned().flatten() {
            assert_eq!(&now.clone().map(|(_, v)| v), value, "{name} is neither as before nor as written");
            known.insert(name.clone(), now);
        }
    }
    let expected: BTreeMap<String, (u64, String)> =
        known.iter().filter_map(|(name, state)| Some((name.clone(), state.clone()?))).collect();
    assert_eq!(found, expected);
}

/// The events of a watch before and after the crash are the whole history of each object in order: added once, modified while it
/// exists, deleted once; and include everything that was acknowledged.
fn check_stories<'a>(
    events: impl Iterator<Item = &'a (u64, String, String)>,
    acknowledged: &BTreeMap<String, State>,
) {
    let mut stories: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, name, event) in events {
        stories.entry(name).or_default().push(event);
    }
    for (name, state) in acknowledged {
        let story = stories.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let whole = [&["ADDED"][..], &["ADDED", "MODIFIED"], &["ADDED", "MODIFIED", "DELETED"]];
        assert!(whole.contains(&story), "{name}: {story:?}");
        let least = match state {
            None => 3,
            Some((_, value)) if value == "2" => 2,
            Some(_) => 1,
        };
        assert!(story.len() >= least, "{name}: {story:?}, though {state:?} was acknowledged");
    }
}

/// A watch from the last event seen gives everything since, or says 410.
async fn resume(
    client: &kube::Client,
    from: u64,
    upto: u64,
    writes: &[(u64, String, &str)],
) -> Option<Vec<(u64, String, String)>> {
    let path = format!("{MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=1");
    let mut watch = match Watch::open(client, &path).await {
        Ok(watch) => watch,
        Err(code) => {
            assert_eq!(code, 410);
            return None;
        }
    };
    let mut events = Vec::new();
    while let Some(event) = watch.next().await.unwrap() {
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["code"], 410, "{event}");
            assert!(events.is_empty(), "410 only at once: {events:?}");
            return None;
        }
        events.push(of(&event));
    }
    check_events(&events, writes, from, upto);
    Some(events)
}
