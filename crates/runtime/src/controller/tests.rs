//! Reconciles: when they come, what they are given, and what comes of them.

use std::sync::atomic::{AtomicBool, Ordering};

use client::Event;
use client::resources::CONFIG_MAPS;
use parking_lot::Mutex;

use super::*;
use crate::testing::{Pull, Say, Scripted, map, state};
use crate::{QueueKind, Scope, Stopper};

type Heard = Arc<Mutex<Vec<String>>>;
type Decide = dyn Fn(&ReconcileRequest<'_>) -> Result<Action, Failure> + Send + Sync;

/// Notes every reconcile and answers what it is told to.
struct Noting {
    heard: Heard,
    decide: Box<Decide>,
}

impl Reconcile for Noting {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        let change = match request.change() {
            None => String::new(),
            Some(Change::Added(obj)) => format!(" +{}", obj.revision()),
            Some(Change::Updated { old, new }) => format!(" {}>{}", old.revision(), new.revision()),
            Some(Change::Deleted(obj)) => format!(" -{}", obj.revision()),
        };
        self.heard.lock().push(format!("{}{change}", request.key.name()));
        request.plan(|| "noted".to_owned());
        let result = (self.decide)(&request);
        Box::pin(async move { result })
    }
}

pub(crate) struct Rig {
    pub env: Env,
    pub controllers: Arc<ControllerRegistry>,
    heard: Heard,
    stopper: Stopper,
    tasks: Vec<JoinHandle<()>>,
}

pub(crate) fn rig(
    pulls: Vec<Pull>,
    build: impl FnOnce(Controller) -> Controller,
    decide: impl Fn(&ReconcileRequest<'_>) -> Result<Action, Failure> + Send + Sync + 'static,
) -> Rig {
    let env = Env::simulated(1);
    let (stopper, stop) = Stopper::new();
    let client = Scripted::new(vec![Say::Watch(Ok(pulls))]);
    let informer = Informer::new(env.clone(), client, Scope::all(&CONFIG_MAPS), QueueKind::Real);
    let controllers = Arc::new(ControllerRegistry::default());
    let heard = Heard::default();
    let noting = Arc::new(Noting { heard: heard.clone(), decide: Box::new(decide) });
    let controller = build(Controller::new(&env, "noting").workers(1).owns_keys_of(&informer));
    let tasks = controller.start(&controllers, noting, stop.clone());
    informer.start(stop);
    Rig { env, controllers, heard, stopper, tasks }
}

impl Rig {
    pub async fn run(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }
    fn heard(&self) -> Vec<String> {
        self.heard.lock().clone()
    }
}

/// a is there; then a changes twice, b comes and goes.
fn history() -> Vec<Pull> {
    let changes = vec![
        Event::Modified(map("a", 2)),
        Event::Added(map("b", 3)),
        Event::Modified(map("a", 4)),
        Event::Deleted(map("b", 5)),
    ];
    vec![state(vec![map("a", 1)], 1), Ok((changes, true))]
}

fn failure() -> Result<Action, Failure> {
    Err(Failure::Other("not today".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn level_driven_reconciles_coalesce_changes() {
    let rig = rig(history(), |c| c.trigger(Trigger::Level), |_| Ok(Action::AwaitChange));
    rig.run(48 * 3600).await;
    assert_eq!(rig.heard(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn batched_changes_are_worked_on_together() {
    let batched = |c: Controller| c.trigger(Trigger::Level).batched(Duration::from_secs(10));
    let rig = rig(history(), batched, |_| Ok(Action::AwaitChange));
    rig.run(9).await;
    assert_eq!(rig.heard(), [""; 0]);
    rig.run(2).await;
    assert_eq!(rig.heard(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn edge_only_reconciles_get_each_change_once_in_order() {
    let rig = rig(history(), |c| c.trigger(Trigger::EdgeOnly), |_| Ok(Action::AwaitChange));
    rig.run(48 * 3600).await;
    let heard = rig.heard();
    let of = |name: &str| heard.iter().filter(|h| h.starts_with(name)).cloned().collect::<Vec<_>>();
    assert_eq!(of("a"), ["a +1", "a 1>2", "a 2>4"]);
    assert_eq!(of("b"), ["b +3", "b -5"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_edge_is_retried_then_dropped_for_the_next() {
    let first = |request: &ReconcileRequest<'_>| match request.change() {
        Some(Change::Added(obj)) if obj.name() == "a" => failure(),
        _ => Ok(Action::AwaitChange),
    };
    let rig = rig(history(), |c| c.trigger(Trigger::EdgeOnly).max_retries(Some(2)), first);
    rig.run(60).await;
    let heard: Vec<String> = rig.heard().into_iter().filter(|h| h.starts_with('a')).collect();
    assert_eq!(heard, ["a +1", "a +1", "a +1", "a 1>2", "a 2>4"]);
}

#[tokio::test(start_paused = true)]
async fn the_default_resyncs_within_a_day() {
    let rig = rig(vec![state(vec![map("a", 1)], 1)], |c| c, |_| Ok(Action::AwaitChange));
    rig.run(12 * 3600 - 1).await;
    assert_eq!(rig.heard(), ["a"]);
    rig.run(12 * 3600).await;
    assert_eq!(rig.heard(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_reconcile_is_given_up_unless_retries_are_unlimited() {
    let script = || vec![state(vec![map("a", 1)], 1)];
    let some = rig(script(), |c| c, |_| failure());
    some.run(3600).await;
    assert_eq!(some.heard().len(), 16, "once, and fifteen times again");
    let ever = rig(script(), |c| c.max_retries(None), |_| failure());
    ever.run(3600).await;
    assert!(ever.heard().len() > 16);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_that_reconcile_only() {
    let done = AtomicBool::new(false);
    let rig = rig(
        vec![state(vec![map("a", 1)], 1)],
        |c| c,
        move |_| {
            assert!(done.swap(true, Ordering::SeqCst), "the first reconcile panics, on purpose");
            Ok(Action::AwaitChange)
        },
    );
    rig.run(1).await;
    assert_eq!(rig.heard(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_may_requeue_its_key() {
    let rig = rig(
        vec![state(vec![map("a", 1)], 1)],
        |c| c,
        |request| {
            Ok(if request.causes.kept().is_empty() {
                Action::AwaitChange
            } else {
                Action::Requeue(Duration::from_secs(30))
            })
        },
    );
    rig.run(29).await;
    assert_eq!(rig.heard(), ["a"]);
    rig.run(100).await;
    assert_eq!(rig.heard(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_reconcile_begins() {
    let (stopper, stop) = Stopper::new();
    let stopper = Mutex::new(Some(stopper));
    let env = Env::simulated(1);
    let heard = Heard::default();
    let noting = Noting {
        heard: heard.clone(),
        decide: Box::new(move |_| {
            *stopper.lock() = None;
            Ok(Action::AwaitChange)
        }),
    };
    let controller = Controller::new(&env, "noting").workers(1);
    let queue = controller.queue();
    for name in ["a", "b", "c"] {
        queue.add(Key::new("", name), NORMAL, None);
    }
    for task in controller.start(&Arc::new(ControllerRegistry::default()), Arc::new(noting), stop) {
        task.await.unwrap();
    }
    assert_eq!(*heard.lock(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_all_tasks() {
    let rig = rig(history(), |c| c.workers(5), |_| failure());
    rig.run(1).await;
    rig.stopper.stop();
    for task in rig.tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_stopped_leaves_the_informer_it_shared() {
    let env = Env::simulated(1);
    let (stopper, stop) = Stopper::new();
    let client = Scripted::new(vec![Say::Watch(Ok(history()))]);
    let informer = Informer::new(env.clone(), client, Scope::all(&CONFIG_MAPS), QueueKind::Real);
    let held = Arc::new(());
    let holding = held.clone();
    let controller = Controller::new(&env, "leaving").watches(&informer, move |_| {
        let _ = &holding;
        Vec::new()
    });
    let noting = Arc::new(Noting { heard: Heard::default(), decide: Box::new(|_| Ok(Action::AwaitChange)) });
    let tasks = controller.start(&Arc::new(ControllerRegistry::default()), noting, stop);
    assert_eq!(Arc::strong_count(&held), 2);
    stopper.stop();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(Arc::strong_count(&held), 1, "the informer lives on without its handler");
    drop(informer);
}
