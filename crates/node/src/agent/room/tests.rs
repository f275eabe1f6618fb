//! Who gets room that came free, whoever asks first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use catalog::Catalog;
use client::resources::PODS;
use client::{
    Answer, Client, DeleteOptions, List, ListOptions, Patch, Target, Watch, WatchOptions, WriteOptions,
};
use env::Env;
use object::{Obj, Revision, Status, Value};
use parking_lot::Mutex;
use runtime::queue::{Limits, NORMAL};
use runtime::{Key, WorkQueue};

use crate::admit::Rejection;
use crate::agent::{Again, Agent, HeartbeatPeriods, HostIps, Observer, Parts};
use crate::allocation::Allocation;
use crate::container_runtime::{
    Container, Exit, Health, Held, Millis, PodEvent, Running, Runtime, Sandbox, Wake,
};
use crate::machine::{Machine, SimulatedMachine};
use crate::pod::{Pod, short_uid};
use crate::worker::SyncResult;

/// What is decided needs no API.
struct NoApi(Arc<Catalog>);

fn none<'a, T: Send + 'a>() -> Answer<'a, T> {
    Box::pin(async { Err(Status::no_such_resource()) })
}

impl Client for NoApi {
    fn catalog(&self) -> Arc<Catalog> {
        self.0.clone()
    }
    fn get<'a>(&'a self, _: Target<'a>) -> Answer<'a, Arc<Obj>> {
        none()
    }
    fn list<'a>(&'a self, _: Target<'a>, _: ListOptions) -> Answer<'a, List> {
        none()
    }
    fn watch<'a>(&'a self, _: Target<'a>, _: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        none()
    }
    fn create<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        none()
    }
    fn update<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        none()
    }
    fn patch<'a>(&'a self, _: Target<'a>, _: Patch, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        none()
    }
    fn delete<'a>(&'a self, _: Target<'a>, _: DeleteOptions) -> Answer<'a, ()> {
        none()
    }
    fn delete_collection<'a>(&'a self, _: Target<'a>, _: DeleteOptions, _: ListOptions) -> Answer<'a, ()> {
        none()
    }
    fn act<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, ()> {
        none()
    }
}

/// What is on the machine, whatever process looks after it.
#[derive(Default)]
struct OnMachine {
    runs: BTreeSet<u128>,
    given: BTreeMap<u128, Allocation>,
    /// Nothing more is given to these.
    refused: BTreeSet<u128>,
}

/// Runs what it is told to at once, until it is removed.
struct Runs(Arc<Mutex<OnMachine>>);

impl Runtime for Runs {
    fn wake_by(&mut self, _: Wake) {}
    fn node_changed(&mut self, _: &Value) -> Health {
        Health::Ready
    }
    fn refuses(&self, pod: &Pod<'_>) -> Option<Rejection> {
        let rejection = || Rejection { reason: "Evicted".to_owned(), message: "short".to_owned() };
        self.0.lock().refused.contains(&short_uid(pod.uid)).then(rejection)
    }
    fn keeps_allocations(&self) -> bool {
        true
    }
    fn allocated(&self, pod: &Pod<'_>) -> Option<Allocation> {
        self.0.lock().given.get(&short_uid(pod.uid)).cloned()
    }
    fn allocate(&mut self, pod: &Pod<'_>, to: &Allocation) -> Result<(), String> {
        self.0.lock().given.insert(short_uid(pod.uid), to.clone());
        Ok(())
    }
    fn list(&self) -> Vec<Held> {
        Vec::new()
    }
    fn recover(&mut self, _: &Pod<'_>) {}
    fn look(&mut self, pod: &Pod<'_>, _: Millis) -> Option<Sandbox> {
        let running = Running {
            id: "r://c".to_owned(),
            image_id: String::new(),
            image: String::new(),
            outdated: false,
            needs_restart: false,
            user: None,
            attempt: 0,
            state: Container::Running { since: 0, started: true, ready: true },
            last: None,
            replaced: false,
            hook_error: None,
        };
        let runs = self.0.lock().runs.contains(&short_uid(pod.uid));
        let ended = || Container::Exited(Exit::new(137, 0, 0, "r://c".to_owned()));
        match (runs, pod.deletion) {
            (true, _) => Some(Sandbox { ready: true, containers: vec![Some(running)], ..Sandbox::default() }),
            (false, Some(_)) => {
                let containers = vec![Some(Running { state: ended(), ..running })];
                Some(Sandbox { containers, ..Sandbox::default() })
            }
            (false, None) => None,
        }
    }
    fn take_events(&mut self, _: u128) -> Vec<PodEvent> {
        Vec::new()
    }
    fn create(&mut self, pod: &Pod<'_>, _: Millis) {
        self.0.lock().runs.insert(short_uid(pod.uid));
    }
    fn start(&mut self, _: &Pod<'_>, _: usize, _: u32, _: Millis) {}
    fn kill(&mut self, _: &Pod<'_>, _: usize, _: Millis) {}
    fn stop(&mut self, _: &Pod<'_>, _: i64, _: Millis) {}
    fn release(&mut self, _: u128) -> bool {
        true
    }
    fn remove(&mut self, uid: u128) {
        self.0.lock().runs.remove(&uid);
    }
}

/// What an observer hears of pods, in its order.
#[derive(Default)]
struct Heard(Mutex<Vec<&'static str>>);

impl Observer for Heard {
    fn turn(&self) {}
    fn decided(&self, _: &Pod<'_>, _: &Value) {
        self.0.lock().push("decided");
    }
    fn shown(&self, _: u128) {
        self.0.lock().push("shown");
    }
    fn forgotten(&self, _: u128) {
        self.0.lock().push("forgotten");
    }
}

const CPUS: i64 = 10_000;

/// A node of ten CPUs, and the pods that are bound to it.
struct Node {
    env: Env,
    agent: Agent,
    machine: Arc<Mutex<OnMachine>>,
    /// As the API has them.
    pods: Arc<Mutex<BTreeMap<Key, Value>>>,
    woken: Arc<Mutex<BTreeSet<Key>>>,
    heard: Arc<Heard>,
    decided: AtomicUsize,
}

fn key(name: &str) -> Key {
    Key::new("d", name)
}

impl Node {
    fn new(env: &Env) -> Node {
        Node::of(env, Arc::default(), Arc::default())
    }

    fn of(env: &Env, machine: Arc<Mutex<OnMachine>>, pods: Arc<Mutex<BTreeMap<Key, Value>>>) -> Node {
        let described = Machine::new(SimulatedMachine {
            cpu: format!("{CPUS}m"),
            memory: "64Gi".to_owned(),
            ephemeral_storage: "64Gi".to_owned(),
            pods: 110,
            runtime_version: String::new(),
            os_image: String::new(),
        });
        let heard = Arc::new(Heard::default());
        let parts = Parts {
            name: "n".to_owned(),
            ips: HostIps::Fixed([].into()),
            zone: String::new(),
            capacity: described.capacity().unwrap(),
            machine: Arc::new(described),
            heartbeat: HeartbeatPeriods::default(),
            client: Arc::new(NoApi(Arc::new(Catalog::builtin()))),
            events: None,
            runtime: Box::new(Runs(machine.clone())),
            admit: None,
            static_pods: None,
            longest_back_off: crate::worker::LONGEST_MILLIS,
            observer: Some(heard.clone()),
        };
        let agent = Agent::new(env, parts);
        let woken: Arc<Mutex<BTreeSet<Key>>> = Arc::default();
        let wakes = woken.clone();
        agent.wake_by(Arc::new(move |key| wakes.lock().extend([key.clone()])));
        let node =
            Node { env: env.clone(), agent, machine, pods, woken, heard, decided: AtomicUsize::new(0) };
        node.begin();
        node
    }

    /// Takes up what is there.
    fn begin(&self) {
        let pods: Vec<Key> = self.pods.lock().keys().cloned().collect();
        pods.iter().for_each(|key| assert!(!self.agent.takes(key)));
        let now = self.agent.now();
        let find = |key: &Key| self.find(key);
        let (_, awake) = self.agent.inner.lock().hear(Some(&Value::map()), None, &find, now);
        self.woken.lock().extend(awake);
    }

    fn find(&self, key: &Key) -> Option<Arc<Obj>> {
        let catalog = Catalog::builtin();
        let storage = catalog.find_storage(&PODS.group, &PODS.plural).unwrap();
        let body = codec::json::to_vec(self.pods.lock().get(key)?);
        let at = storage.key(key.namespace(), key.name());
        Some(Arc::new(Obj::publish(storage, &at, &body, Revision(1), None).unwrap()))
    }

    /// A pod that runs.
    fn run(&self, name: &str, priority: i64, class: &str, cpu: i64) {
        let uid = format!("uid-{name}");
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: d, uid: {uid}, generation: 1}}, spec: {{priority: {priority}, containers: [{{name: c, resources: {{requests: {{cpu: {cpu}m}}}}}}]}}, status: {{phase: Pending, qosClass: {class}}}}}"
        );
        self.pods.lock().insert(key(name), runtime::parse(&text).unwrap());
        self.reconcile(&key(name));
        assert_eq!(self.given(name), cpu);
    }

    fn ask_for(&self, name: &str, cpu: i64) {
        let mut pods = self.pods.lock();
        let tree = pods.get_mut(&key(name)).unwrap();
        let Some(Value::List(containers)) = tree.map_at(&["spec"]).get_mut("containers") else { panic!() };
        let resources = runtime::parse(&format!("{{requests: {{cpu: {cpu}m}}}}")).unwrap();
        containers[0].make_map().set("resources", resources);
        let metadata = tree.map_at(&["metadata"]);
        let generation = metadata.get("generation").and_then(Value::as_int).unwrap();
        metadata.set("generation", Value::Int(generation + 1));
    }

    /// It asks for more than there is.
    fn defer(&self, name: &str, cpu: i64) {
        self.env.set_clock(1);
        self.ask_for(name, cpu);
        self.reconcile(&key(name));
        assert_eq!(self.condition(name, "reason").as_deref(), Some("Deferred"), "{name}");
    }

    fn delete(&self, name: &str) {
        let mut pods = self.pods.lock();
        let metadata = pods.get_mut(&key(name)).unwrap().map_at(&["metadata"]);
        metadata.set("deletionTimestamp", "2026-01-01T00:00:00Z");
        metadata.set("deletionGracePeriodSeconds", Value::Int(30));
    }

    /// It ends, and nobody has room yet.
    fn end(&self, name: &str) {
        self.delete(name);
        self.machine.lock().runs.remove(&short_uid(&format!("uid-{name}")));
        self.reconcile(&key(name));
    }

    fn reconcile(&self, key: &Key) -> SyncResult {
        self.decided.fetch_add(1, Ordering::Relaxed);
        let tree = self.pods.lock()[key].clone();
        let step = self.agent.decide(key, Revision(0), &tree, Ok(None), &|| None).unwrap();
        if let Some(status) = &step.status {
            self.pods.lock().get_mut(key).unwrap().make_map().set("status", status.clone());
        }
        step
    }

    /// Until nobody is awake any more; `pick` says who comes next.
    fn settle(&self, mut pick: impl FnMut(usize) -> usize) {
        loop {
            let mut woken = self.woken.lock();
            let Some(next) = woken.iter().nth(pick(woken.len().max(1))).cloned() else { return };
            woken.remove(&next);
            drop(woken);
            self.reconcile(&next);
            assert!(self.decided.load(Ordering::Relaxed) < 10_000, "they wake each other for ever");
        }
    }

    fn given(&self, name: &str) -> i64 {
        self.agent.inner.lock().pods[&key(name)].requests.cpu_milli
    }

    fn condition(&self, name: &str, field: &str) -> Option<String> {
        let pods = self.pods.lock();
        let all = pods[&key(name)].at(&["status", "conditions"]).and_then(Value::as_list)?;
        let pending = all.iter().find(|c| c.str_at(&["type"]) == Some("PodResizePending"))?;
        pending.str_at(&[field]).map(str::to_owned)
    }

    fn taken(&self) -> i64 {
        self.agent.inner.lock().taken.amounts.cpu_milli
    }
}

fn reasons(step: &SyncResult) -> Vec<&str> {
    step.events.iter().map(|event| &*event.reason).collect()
}

const LAST: fn(usize) -> usize = |awake| awake - 1;

/// All CPUs are taken, half of them by `goes`. Those that are to wait are not in the order of their names.
fn full(env: &Env) -> Node {
    let node = Node::new(env);
    node.run("goes", 0, "Burstable", CPUS / 2);
    node.run("stays", 0, "Burstable", CPUS / 2 - 2000);
    node.run("a-low", 1, "Burstable", 1000);
    node.run("b-high", 2, "Burstable", 1000);
    node
}

#[tokio::test(start_paused = true)]
async fn who_comes_first_gets_the_room_whoever_asks_first() {
    let node = full(&Env::simulated(1));
    node.defer("a-low", 5000);
    node.defer("b-high", 5000);
    node.end("goes");
    // Its own turn would have come, or somebody else's change, before the other's.
    for _ in 0..3 {
        assert!(node.reconcile(&key("a-low")).events.is_empty());
    }
    assert_eq!((node.given("a-low"), node.given("b-high")), (1000, 1000));
    assert_eq!(reasons(&node.reconcile(&key("b-high"))), ["ResizeStarted", "ResizeCompleted"]);
    node.settle(LAST);
    assert_eq!((node.given("a-low"), node.given("b-high")), (1000, 5000));
    assert!(node.condition("b-high", "reason").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_new_resize_gets_what_those_that_wait_leave() {
    let node = full(&Env::simulated(2));
    node.defer("b-high", 5000);
    node.end("goes");
    node.ask_for("a-low", 2000);
    assert_eq!(reasons(&node.reconcile(&key("a-low"))), ["ResizeStarted", "ResizeCompleted"]);
    node.settle(LAST);
    assert_eq!((node.given("a-low"), node.given("b-high")), (2000, 5000));
}

#[tokio::test(start_paused = true)]
async fn a_new_resize_is_told_of_when_its_turn_has_come() {
    for first_is_refused in [false, true] {
        let node = full(&Env::simulated(2));
        node.defer("b-high", 5000);
        node.end("goes");
        node.ask_for("a-low", 2001);
        let step = node.reconcile(&key("a-low"));
        assert!(step.events.is_empty() && step.wake.is_some());
        assert!(node.condition("a-low", "reason").is_none(), "it was not tried");
        node.woken.lock().clear();
        if first_is_refused {
            node.machine.lock().refused.insert(short_uid("uid-b-high"));
        }
        node.reconcile(&key("b-high"));
        assert_eq!(*node.woken.lock(), BTreeSet::from([key("a-low")]));
        let told = reasons(&node.reconcile(&key("a-low"))).join(" ");
        assert_eq!(told, if first_is_refused { "ResizeStarted ResizeCompleted" } else { "ResizeDeferred" });
        assert_eq!(node.condition("a-low", "reason").is_none(), first_is_refused);
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_fit_is_in_nobodys_way() {
    let node = full(&Env::simulated(3));
    node.defer("a-low", 5000);
    node.defer("b-high", 7000);
    node.end("goes");
    assert_eq!(reasons(&node.reconcile(&key("a-low"))), ["ResizeStarted", "ResizeCompleted"]);
    node.settle(LAST);
    assert_eq!((node.given("a-low"), node.given("b-high")), (5000, 1000));
}

#[tokio::test(start_paused = true)]
async fn the_next_gets_the_room_that_the_first_cannot_have_or_does_not_want_any_more() {
    for case in 0..4 {
        let node = full(&Env::simulated(4));
        node.defer("a-low", 5000);
        node.defer("b-high", 5000);
        node.end("goes");
        node.reconcile(&key("a-low"));
        node.woken.lock().remove(&key("a-low"));
        assert_eq!(node.given("a-low"), 1000);
        match case {
            0 => node.machine.lock().refused.extend([short_uid("uid-b-high")]),
            1 => node.ask_for("b-high", 1000),
            2 => node.delete("b-high"),
            _ => {
                let of_high = node.pods.lock()[&key("b-high")].clone();
                let catalog = Catalog::builtin();
                let storage = catalog.find_storage(&PODS.group, &PODS.plural).unwrap();
                let body = codec::json::to_vec(&of_high);
                let at = storage.key("d", "b-high");
                let obj = Obj::publish(storage, &at, &body, Revision(1), None).unwrap();
                node.agent.forget(&obj);
                node.woken.lock().remove(&key("b-high"));
            }
        }
        node.settle(LAST);
        assert_eq!(node.given("a-low"), 5000, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_tried_again_in_their_order_when_one_has_waited_long() {
    let node = full(&Env::simulated(5));
    node.defer("b-high", 5000);
    node.defer("a-low", 5000);
    let uids = ["uid-a-low", "uid-b-high"].map(short_uid);
    // Nothing is given while the machine is short of something, which tells nobody when that is over.
    node.machine.lock().refused.extend(uids);
    node.end("goes");
    node.settle(LAST);
    node.machine.lock().refused.clear();
    let step = node.reconcile(&key("a-low"));
    assert_eq!((node.given("a-low"), step.wake), (1000, Some(node.agent.now() + 180_000)));
    node.env.set_clock(180);
    node.reconcile(&key("a-low"));
    assert_eq!(node.given("a-low"), 1000);
    node.settle(LAST);
    assert_eq!((node.given("a-low"), node.given("b-high")), (1000, 5000));
}

#[tokio::test(start_paused = true)]
async fn another_process_knows_who_waits_and_since_when() {
    let env = Env::simulated(6);
    let before = full(&env);
    before.run("z-old", 1, "Burstable", 0);
    before.defer("z-old", 4001);
    before.defer("a-low", 5000);
    before.end("goes");
    before.pods.lock().remove(&key("goes"));
    let node = Node::of(&env, before.machine.clone(), before.pods.clone());
    assert!(node.reconcile(&key("a-low")).status.is_none(), "as it was told before");
    node.settle(|_| 0);
    assert_eq!((node.given("a-low"), node.given("z-old")), (1000, 4001));
    assert_eq!(node.taken(), CPUS - 5000 + 4001);
}

#[tokio::test(start_paused = true)]
async fn room_goes_as_in_one_loop_over_all_whoever_comes_when() {
    for seed in 0..100 {
        let env = Env::simulated(seed);
        let node = Node::new(&env);
        node.run("goes", 0, "Burstable", 4000);
        node.run("stays", 0, "Burstable", 2000);
        let mut waiting = Vec::new();
        for index in 0..8 {
            let name = format!("w{index}");
            let (priority, guaranteed) = (env.random_below(3) as i64, env.random_below(2) == 0);
            let class = if guaranteed { "Guaranteed" } else { "Burstable" };
            node.run(&name, priority, class, 500);
            waiting.push((Reverse(priority), !guaranteed, name));
        }
        // Who waits longer is whoever asked first.
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let (priority, class, name) =
                waiting.swap_remove(env.random_below(waiting.len() as u64) as usize);
            let more = 100 + env.random_below(3000) as i64;
            node.defer(&name, 500 + more);
            order.push((priority, class, order.len(), name, more));
        }
        order.sort();
        node.settle(LAST);
        let decided = node.decided.load(Ordering::Relaxed);
        node.end("goes");
        node.settle(|awake| env.random_below(awake as u64) as usize);
        let mut left = 4000;
        for (.., name, more) in &order {
            let fits = *more <= left;
            left -= if fits { *more } else { 0 };
            assert_eq!(node.given(name), if fits { 500 + *more } else { 500 }, "{seed} {order:?}");
            assert_eq!(node.condition(name, "reason").is_none(), fits);
        }
        assert_eq!(node.taken(), CPUS - left, "{seed}");
        let decided = node.decided.load(Ordering::Relaxed) - decided;
        assert!(decided <= 3 * order.len(), "{seed}: {decided} steps");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn room_goes_as_in_one_loop_with_many_workers_at_once() {
    let env = Env::machine();
    for round in 0..10 {
        let node = Node::new(&env);
        node.run("goes", 0, "Burstable", 4000);
        node.run("stays", 0, "Burstable", 2000);
        let mut order: Vec<(i64, String)> = (0..40).map(|index| (index, format!("w{index}"))).collect();
        for (priority, name) in &order {
            node.run(name, *priority, "Burstable", 100);
        }
        for (priority, name) in &order {
            node.defer(name, 101 + (priority * 37 + round) % 900);
        }
        node.settle(LAST);
        let queue = Arc::new(WorkQueue::new(env.clone(), Limits::default()));
        let wakes = queue.clone();
        node.agent.wake_by(Arc::new(move |key| wakes.add(key.clone(), NORMAL, None)));
        let node = Arc::new(node);
        let work = |_| {
            let (node, queue) = (node.clone(), queue.clone());
            env.spawn("worker", async move {
                while let Some(taken) = queue.get().await {
                    node.reconcile(&taken.key);
                    queue.done(&taken.key);
                }
            })
        };
        let workers: Vec<_> = (0..64).map(work).collect();
        node.end("goes");
        while !queue.is_empty() || queue.others().1 > 0 {
            tokio::task::yield_now().await;
        }
        queue.drain().await;
        for worker in workers {
            worker.await.unwrap();
        }
        let mut left = 4000;
        order.reverse();
        for (priority, name) in &order {
            let more = 1 + (priority * 37 + round) % 900;
            let fits = more <= left;
            left -= if fits { more } else { 0 };
            assert_eq!(node.given(name), if fits { 100 + more } else { 100 }, "{round} {name}");
        }
        assert_eq!(node.taken(), CPUS - left);
    }
}

/// The queue keeps the earliest of the times that a pod was to be looked at again, which may be before the last one.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_looked_at_too_early_is_looked_at_when_its_time_comes() {
    let node = Node::new(&Env::simulated(9));
    node.run("a", 0, "Burstable", 1000);
    let (key, now) = (key("a"), node.agent.now());
    let obj = node.find(&key).unwrap();
    let settled = |wake: Option<Millis>| {
        let mut inner = node.agent.inner.lock();
        let worker = inner.pods.get_mut(&key).unwrap();
        (worker.written, worker.wake) = (obj.revision(), wake);
        drop(inner);
        node.agent.settled(&key, &obj)
    };
    assert_eq!(settled(Some(now + 1)), Some(Again::At(now + 1)));
    assert_eq!(settled(None), Some(Again::OnChange));
    assert_eq!(settled(Some(now)), None, "it has come");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_api_shows_with_what_others_wrote_is_shown() {
    let node = Node::new(&Env::simulated(7));
    node.run("a", 0, "Burstable", 100);
    assert_eq!(node.heard.0.lock().split_off(0), ["decided"]);
    // The watch shows something older.
    let ahead = node.find(&key("a"));
    node.agent.inner.lock().pods.get_mut(&key("a")).unwrap().ahead = ahead;
    assert!(node.reconcile(&key("a")).status.is_none() && node.heard.0.lock().is_empty());
    node.agent.inner.lock().pods.get_mut(&key("a")).unwrap().ahead = None;
    assert!(node.reconcile(&key("a")).status.is_none());
    assert_eq!(node.heard.0.lock().split_off(0), ["shown"]);
}
