use std::future::pending;

use client::{
    Answer, DeleteOptions, Event, List, ListOptions, Patch, Target, Watch, WatchOptions, WriteOptions,
};
use object::Revision;
use runtime::Stopper;
use tokio::sync::Semaphore;

use super::*;
use crate::engine::WrittenClaims;
use crate::testing::{NOW, rng, writing, written};

/// Knows one pod without a node, and lets nobody write a claim before it is told to.
struct Server {
    catalog: Arc<Catalog>,
    writes: Semaphore,
}

struct OnePod(Option<Arc<Obj>>);

impl Watch for OnePod {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            let Some(pod) = self.0.take() else { return pending().await };
            into.push(Event::Added(pod));
            into.push(Event::Bookmark { revision: Revision(1), initial_events_end: true });
            Ok(true)
        })
    }
}

impl Client for Server {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }
    fn watch<'a>(&'a self, _: Target<'a>, _: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        let body = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"a"},
            "spec":{"schedulerName":"default-scheduler","containers":[{"name":"c","image":"web"}],
                "resourceClaims":[{"name":"r","resourceClaimName":"c"}]}}"#;
        let storage = self.catalog.find_storage("", "pods").expect("pods are stored");
        let key = storage.key("ns", "a");
        let pod = Obj::publish(storage, &key, body.as_bytes(), Revision(1), None).expect("a pod");
        let watch: Box<dyn Watch> = Box::new(OnePod(Some(Arc::new(pod))));
        Box::pin(async move { Ok(watch) })
    }
    fn patch<'a>(&'a self, target: Target<'a>, _: Patch, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        let is_claim = target.resource.plural == "resourceclaims";
        Box::pin(async move {
            if is_claim {
                self.writes.acquire().await.expect("never closed").forget();
            }
            Err(Status::internal("on purpose"))
        })
    }
    fn get<'a>(&'a self, _: Target<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(pending())
    }
    fn list<'a>(&'a self, _: Target<'a>, _: ListOptions) -> Answer<'a, List> {
        Box::pin(pending())
    }
    fn create<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(pending())
    }
    fn update<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(pending())
    }
    fn delete<'a>(&'a self, _: Target<'a>, _: DeleteOptions) -> Answer<'a, ()> {
        Box::pin(pending())
    }
    fn delete_collection<'a>(&'a self, _: Target<'a>, _: DeleteOptions, _: ListOptions) -> Answer<'a, ()> {
        Box::pin(pending())
    }
    fn act<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, ()> {
        Box::pin(pending())
    }
}

async fn task(engine: Engine) -> (Task, Arc<Server>, Stopper) {
    let env = Env::simulated(1);
    let server = Arc::new(Server { catalog: Arc::new(Catalog::builtin()), writes: Semaphore::new(0) });
    let client: Arc<dyn Client> = server.clone();
    let (stopper, stop) = Stopper::new();
    let informers = Informers::new(env.clone(), client.clone(), stop.clone());
    let pods = informers.of(&PODS);
    pods.synced().await;
    let (recorder, _) = SeriesRecorder::start(&env, client.clone(), "default-scheduler", stop);
    let places = PodPlaces::find(&client.catalog());
    let api_calls = ApiCalls { env: env.clone(), client, recorder, pods: pods.clone() };
    let engine = Arc::new(Mutex::new(engine));
    let start = env.monotonic();
    let task = Task {
        start,
        pods,
        debugger: Arc::new(Debugger::new(Arc::downgrade(&engine), &env, start)),
        metrics: Arc::new(Metrics::new(Arc::downgrade(&engine))),
        env,
        engine,
        inbox: Arc::new(Inbox::default()),
        places,
        api_calls: [("default-scheduler".to_owned(), api_calls)].into(),
        in_flight: FuturesUnordered::new(),
    };
    (task, server, stopper)
}

/// Else its next attempt finds the claim reserved for it, and a write of this one takes that back.
async fn is_put_back_once_its_claim_is_given_back(mut task: Task, server: Arc<Server>) {
    tokio::task::yield_now().await;
    assert_eq!((task.in_flight.len(), task.engine.lock().lengths().backoff), (1, 0));
    server.writes.add_permits(1);
    let unreserved = task.in_flight.next().await.expect("a call is under way");
    assert!(matches!(unreserved, Ok(Done::Unreserved { result: Err(_), .. })));
    task.done(unreserved);
    assert_eq!(task.engine.lock().lengths().backoff, 1);
}

#[tokio::test]
async fn a_pod_whose_binding_is_refused_is_put_back_once_its_claim_is_given_back() {
    let (mut engine, _) = writing("");
    engine.claims_written("a", written(""), NOW);
    let Some(ScheduleResult::Bind { queued, .. }) = engine.next(NOW, &mut rng(1)) else {
        panic!("not bound")
    };
    let (mut task, server, _stopper) = task(engine).await;
    let begun = task.env.monotonic();
    task.done(Ok(Done::Bound { queued, begun, result: Err(Status::bad_request("on purpose")) }));
    is_put_back_once_its_claim_is_given_back(task, server).await;
}

#[tokio::test]
async fn a_pod_whose_claims_fail_is_put_back_once_they_are_given_back() {
    let (mut engine, _) = writing("");
    let error = Some("on purpose".to_owned());
    engine.claims_written("a", WrittenClaims { error, ..written("") }, NOW);
    let failed = engine.next(NOW, &mut rng(1)).expect("it failed");
    assert!(matches!(failed, ScheduleResult::ClaimsFailed { .. }));
    let (mut task, server, _stopper) = task(engine).await;
    let begun = task.env.monotonic();
    task.carry_out(failed, begun);
    is_put_back_once_its_claim_is_given_back(task, server).await;
}
