//! FlowSchemas and PriorityLevelConfigurations: reconciles the default ones, and sets the `Dangling` condition of every FlowSchema.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use object::{Map, Status, Value, time};
use tokio::time::Instant;

use crate::api::Api;
use crate::bootstrap;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const FLOW_SCHEMAS: GroupResource = (GROUP, "flowschemas");
const LEVELS: GroupResource = (GROUP, "prioritylevelconfigurations");
const DANGLING: &str = "Dangling";
/// Who owns that condition, by upstream's name.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Upstream's resync.
const EVERY: Duration = Duration::from_secs(60);
/// A failed write is retried after this.
const RETRY: Duration = Duration::from_secs(5);
/// A FlowSchema is written so often within a minute and then left alone for a while: two servers that disagree must not write
/// against each other without end.
const WRITES_A_MINUTE: usize = 6;
/// Upstream waits for 30 to 75 seconds.
const PAUSE: Duration = Duration::from_secs(45);

/// Runs until shutdown: conditions follow every change, and the cluster's own objects are looked at every minute.
pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::new(&api);
    let env = api.registry().env().clone();
    let mut watcher = TableWatcher::new(&api, &[LEVELS, FLOW_SCHEMAS]);
    let mut writes = Writes::default();
    // The bootstrap has just done it, but what went since is not among the events.
    let mut keep_at = env.monotonic();
    let mut look_again = Duration::ZERO;
    loop {
        let now = env.monotonic();
        let wait = keep_at.saturating_duration_since(now).min(look_again);
        if watcher.next_events(Some(wait)).await.is_none() {
            return;
        }
        if env.monotonic() >= keep_at {
            keep_at = env.monotonic() + EVERY;
            if let Err(status) = keep(&client).await {
                tracing::warn!(error = status.message, "could not keep the flow control objects in step");
            }
        }
        look_again = match sync(&client, &mut writes).await {
            Ok(None) => EVERY,
            Ok(Some(pause)) => pause,
            Err(status) => {
                tracing::warn!(error = status.message, "could not write a FlowSchema's status");
                RETRY
            }
        };
    }
}

/// The cluster's own objects, and none that once were.
async fn keep(client: &LoopbackClient<'_>) -> Result<(), Status> {
    bootstrap::ensure_flow_control(client).await?;
    for plural in [FLOW_SCHEMAS, LEVELS] {
        for object in bootstrap::outdated(client.list(plural)?)? {
            client.delete(plural, &object).await?;
        }
    }
    Ok(())
}

/// Brings the condition of every FlowSchema up to date; says when to look again at those that were written too often.
pub(crate) async fn sync(
    client: &LoopbackClient<'_>,
    writes: &mut Writes,
) -> Result<Option<Duration>, Status> {
    let env = client.api().registry().env();
    let levels = client.objects(LEVELS)?;
    let levels: BTreeSet<&str> = levels.iter().map(|level| level.name()).collect();
    let mut pause = None;
    let mut due = Vec::new();
    for schema in client.list(FLOW_SCHEMAS)? {
        let Some(revised) = revised(schema, &levels, env.now_seconds() as i64) else { continue };
        let name = revised.str_at(&["metadata", "name"]).unwrap_or("");
        if writes.may(name, env.monotonic()) {
            due.push(client.apply_status(FLOW_SCHEMAS, MANAGER, configuration(name, &revised)));
        } else {
            pause = Some(PAUSE);
        }
    }
    let mut written: FuturesUnordered<_> = due.into_iter().collect();
    let mut done = Ok(pause);
    while let Some(one) = written.next().await {
        // Who changed or deleted it meanwhile has woken us again.
        match one {
            Err(status) if !lost_race(&status) => done = Err(status),
            _ => {}
        }
    }
    done
}

/// What is applied: the condition and nothing else.
fn configuration(name: &str, revised: &Value) -> Value {
    let conditions = revised.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let own = conditions.iter().filter(|one| one.str_at(&["type"]) == Some(DANGLING));
    let mut config = Value::map();
    let map = config.make_map();
    map.set("apiVersion", "flowcontrol.apiserver.k8s.io/v1");
    map.set("kind", "FlowSchema");
    config.map_at(&["metadata"]).set("name", name.to_owned());
    config.map_at(&["status"]).set("conditions", own.cloned().collect::<Vec<Value>>());
    config
}

/// The FlowSchema with the condition it should have; `None` where it has it.
fn revised(mut schema: Value, levels: &BTreeSet<&str>, now: i64) -> Option<Value> {
    let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).unwrap_or("");
    let named = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {}",
        object::quote(level)
    );
    let (status, reason, message) = if levels.contains(level) {
        ("False", "Found", format!("{named} and it exists"))
    } else {
        ("True", "NotFound", format!("{named} but there is no such object"))
    };
    let wanted = [("status", status), ("reason", reason), ("message", message.as_str())];
    let mut conditions = match schema.map_at(&["status"]).remove("conditions") {
        Some(Value::List(list)) => list,
        _ => Vec::new(),
    };
    let standing = conditions.iter().position(|one| one.str_at(&["type"]) == Some(DANGLING));
    if let Some(at) = standing
        && wanted.iter().all(|(name, text)| conditions[at].str_at(&[name]).unwrap_or("") == *text)
    {
        return None;
    }
    let mut condition = Map::default();
    condition.set("type", DANGLING);
    condition.set("lastTransitionTime", time::format_seconds(now));
    wanted.into_iter().for_each(|(name, text)| condition.set(name, text));
    match standing {
        Some(at) => conditions[at] = condition.into(),
        None => conditions.push(condition.into()),
    }
    schema.map_at(&["status"]).set("conditions", conditions);
    Some(schema)
}

/// Which FlowSchemas were written within the last minute, and when.
#[derive(Default)]
pub(crate) struct Writes {
    by_name: BTreeMap<String, VecDeque<Instant>>,
}

impl Writes {
    /// Whether one more is not too many; then it is counted.
    fn may(&mut self, name: &str, now: Instant) -> bool {
        self.by_name.retain(|_, times| {
            while times.front().is_some_and(|at| now.duration_since(*at) > EVERY) {
                times.pop_front();
            }
            !times.is_empty()
        });
        let times = self.by_name.entry(name.to_owned()).or_default();
        let few = times.len() < WRITES_A_MINUTE;
        if few {
            times.push_back(now);
        }
        few
    }
}

#[cfg(test)]
mod tests {
    use codec::json;

    use super::*;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes(), None).unwrap()
    }

    fn shown(schema: &str, levels: &[&str]) -> Option<String> {
        let revised = revised(tree(schema), &levels.iter().copied().collect(), 0)?;
        Some(String::from_utf8(json::to_vec(revised.at(&["status", "conditions"]).unwrap())).unwrap())
    }

    #[test]
    fn the_condition_says_whether_the_level_exists() {
        let schema = r#"{"spec":{"priorityLevelConfiguration":{"name":"a"}}}"#;
        let found = r#"[{"type":"Dangling","lastTransitionTime":"1970-01-01T00:00:00Z","status":"False","reason":"Found","message":"This FlowSchema references the PriorityLevelConfiguration object named \"a\" and it exists"}]"#;
        let missing = r#"[{"type":"Dangling","lastTransitionTime":"1970-01-01T00:00:00Z","status":"True","reason":"NotFound","message":"This FlowSchema references the PriorityLevelConfiguration object named \"a\" but there is no such object"}]"#;
        assert_eq!(shown(schema, &["a", "b"]).as_deref(), Some(found));
        assert_eq!(shown(schema, &["b"]).as_deref(), Some(missing));
    }

    #[test]
    fn a_current_condition_and_other_conditions_stay_unchanged() {
        let with = |conditions: &str| {
            format!(
                r#"{{"spec":{{"priorityLevelConfiguration":{{"name":"a"}}}},"status":{{"conditions":{conditions}}}}}"#
            )
        };
        let right = r#"{"type":"Dangling","lastTransitionTime":"2026-01-01T00:00:00Z","status":"False","reason":"Found","message":"This FlowSchema references the PriorityLevelConfiguration object named \"a\" and it exists"}"#;
        assert_eq!(shown(&with(&format!("[{right}]")), &["a"]), None);
        let other = r#"{"type":"Other","status":"True"}"#;
        let wrong = r#"{"type":"Dangling","status":"True"}"#;
        let now = shown(&with(&format!("[{wrong},{other}]")), &["a"]).unwrap();
        assert!(now.starts_with(r#"[{"type":"Dangling","lastTransitionTime":"1970"#), "{now}");
        assert!(now.ends_with(&format!("{other}]")), "{now}");
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // Any time will do.
    fn one_schema_is_written_six_times_a_minute() {
        let mut writes = Writes::default();
        let begin = Instant::now();
        let may = |writes: &mut Writes, name: &str, second: u64| {
            writes.may(name, begin + Duration::from_secs(second))
        };
        assert!((0..6).all(|second| may(&mut writes, "a", second)));
        assert!(!may(&mut writes, "a", 6));
        assert!(may(&mut writes, "b", 6));
        assert!(may(&mut writes, "a", 61));
        assert!(!may(&mut writes, "a", 61));
    }
}
