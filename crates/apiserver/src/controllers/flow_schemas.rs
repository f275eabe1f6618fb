//! FlowSchemas and PriorityLevelConfigurations: reconciles the default ones, and sets the `Dangling` condition of every FlowSchema.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use client::Gvr;
use futures_util::stream::{FuturesUnordered, StreamExt};
use object::{Map, Status, Value, time};
use parking_lot::Mutex;
use runtime::{
    Action, BoxFuture, Failure, Informer, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest,
    Trigger, tree,
};
use tokio::time::Instant;

use super::Context;
use crate::api::Api;
use crate::bootstrap;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const FLOW_SCHEMAS: GroupResource = (GROUP, "flowschemas");
const LEVELS: GroupResource = (GROUP, "prioritylevelconfigurations");
const DANGLING: &str = "Dangling";
/// Who owns that condition, by upstream's name.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Upstream's resync.
const EVERY: Duration = Duration::from_secs(60);
/// So many conditions are written at a time.
const WORKERS: usize = 4;
/// A FlowSchema is written so often within a minute and then left alone for a while: two servers that disagree must not write
/// against each other without end.
const WRITES_A_MINUTE: usize = 6;
/// Upstream waits for 30 to 75 seconds.
const PAUSE: Duration = Duration::from_secs(45);

/// The index of FlowSchemas by the level they name.
const BY_LEVEL: &str = "priority level";

/// The key of the cluster's own objects; the others are names of FlowSchemas.
fn defaults() -> Key {
    Key::new("defaults", "flowcontrol")
}

/// Conditions follow every change, and the cluster's own objects are looked at every minute.
pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let schemas = context.informers.of(&Gvr::new(GROUP, "v1", "flowschemas"));
    let levels = context.informers.of(&Gvr::new(GROUP, "v1", "prioritylevelconfigurations"));
    schemas.store().add_index(BY_LEVEL, |schema| vec![level_of(&tree(schema)).to_owned()]);
    let naming = schemas.clone();
    let controller = context
        .controller("flow-schemas")
        .workers(WORKERS)
        .trigger(Trigger::LevelWithResync { period: EVERY })
        .watches(&schemas, |event| match event {
            InformerEvent::Deleted { .. } => Vec::new(),
            _ => vec![Key::of(event.obj())],
        })
        .watches(&levels, move |event| match event {
            InformerEvent::Updated { .. } => Vec::new(),
            _ => {
                let naming = naming.store().by_index(BY_LEVEL, event.obj().name());
                naming.iter().map(|schema| Key::of(schema)).collect()
            }
        });
    // The bootstrap has just done it, but what went since is nobody's event.
    controller.queue().add(defaults(), runtime::queue::NORMAL, None);
    let api = context.api.clone();
    context.start(controller, FlowSchemas { api, schemas, levels, writes: Mutex::default() })
}

struct FlowSchemas {
    api: Arc<Api>,
    schemas: Arc<Informer>,
    levels: Arc<Informer>,
    /// Guards how often each was written.
    writes: Mutex<Writes>,
}

impl Reconcile for FlowSchemas {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let client = LoopbackClient::new(&self.api);
            if *request.key == defaults() {
                keep(&client).await?;
                return Ok(Action::Requeue(EVERY));
            }
            let Some(schema) = self.schemas.store().get_key(request.key) else {
                return Ok(Action::AwaitChange);
            };
            let env = self.api.registry().env();
            let exists = |level: &str| self.levels.store().get("", level).is_some();
            let Some(revised) = revised(tree(&schema), exists, env.now_seconds() as i64) else {
                return Ok(Action::AwaitChange);
            };
            if !self.writes.lock().may(schema.name(), env.monotonic()) {
                return Ok(Action::Requeue(PAUSE));
            }
            match client.apply_status(FLOW_SCHEMAS, MANAGER, configuration(schema.name(), &revised)).await {
                // Who changed or deleted it meanwhile has woken us again.
                Err(status) if !lost_race(&status) => Err(status.into()),
                _ => Ok(Action::AwaitChange),
            }
        })
    }
}

fn level_of(schema: &Value) -> &str {
    schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).unwrap_or("")
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

/// Brings the condition of every FlowSchema up to date, all at once: a server is ready only after that.
pub(crate) async fn sync_all(client: &LoopbackClient<'_>) -> Result<(), Status> {
    let env = client.api().registry().env();
    let levels = client.objects(LEVELS)?;
    let levels: BTreeSet<&str> = levels.iter().map(|level| level.name()).collect();
    let schemas = client.list(FLOW_SCHEMAS)?.into_iter();
    let due = schemas
        .filter_map(|schema| revised(schema, |level| levels.contains(level), env.now_seconds() as i64));
    let mut written: FuturesUnordered<_> = due
        .map(|revised| {
            let name = revised.str_at(&["metadata", "name"]).unwrap_or("");
            client.apply_status(FLOW_SCHEMAS, MANAGER, configuration(name, &revised))
        })
        .collect();
    let mut done = Ok(());
    while let Some(one) = written.next().await {
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
fn revised(mut schema: Value, exists: impl Fn(&str) -> bool, now: i64) -> Option<Value> {
    let level = level_of(&schema);
    let named = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {}",
        object::quote(level)
    );
    let (status, reason, message) = if exists(level) {
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
struct Writes {
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
        let revised = revised(tree(schema), |level| levels.contains(&level), 0)?;
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
