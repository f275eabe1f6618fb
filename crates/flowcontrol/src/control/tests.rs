use auth::UserInfo;

use super::*;
use crate::matching::ResourceDigest;
use crate::spec::Response;

const SEATS: Limits = Limits { seats: 600, bytes: u64::MAX };

fn level(name: &str, shares: u32, lendable: u32, response: Response) -> PriorityLevel {
    let (lendable_percent, borrowing_limit_percent) = (lendable, None);
    let uid = format!("uid-of-{name}");
    PriorityLevel { name: name.to_owned(), uid, shares, lendable_percent, borrowing_limit_percent, response }
}

fn schema(name: &str, level: &str, precedence: i64) -> FlowSchema {
    let everybody = FlowSchema::mandatory(crate::spec::CATCH_ALL);
    let matching_precedence = precedence;
    FlowSchema { name: name.to_owned(), level: level.to_owned(), matching_precedence, ..everybody }
}

fn digest(user: &UserInfo) -> RequestDigest<'_> {
    let resource = ResourceDigest { group: "", resource: "pods", subresource: "", namespace: "a" };
    RequestDigest { user, verb: "get", resource: Some(resource), path: "/api/v1/namespaces/a/pods" }
}

fn about() -> About {
    About { user: Arc::default(), verb: "get", uri: None, flow: Flow::All }
}

async fn take(control: &Arc<FlowControl>, user: &UserInfo, wait: u64) -> Result<Seat, Rejected> {
    let request = digest(user);
    let classified = control.classify(&request);
    let wait = Some(Duration::from_secs(wait));
    control.seat(&classified, &request, about(), WorkEstimate::ONE, wait).await
}

fn limits(control: &FlowControl) -> Vec<(String, u32, u32, u32, u32)> {
    let levels = control.config().levels.clone();
    let limits = |level: &Arc<Level>| {
        let limits = level.lock().limits;
        (level.name.clone(), limits.nominal, limits.lower, limits.upper, limits.current)
    };
    levels.values().map(limits).collect()
}

const QUEUE: Response = Response::Queue { queues: 4, hand_size: 1, queue_length_limit: 2 };

#[tokio::test(start_paused = true)]
async fn without_objects_the_mandatory_levels_serve() {
    let control = FlowControl::new(&Env::simulated(1), SEATS);
    let anyone = UserInfo::new("x", &[auth::groups::AUTHENTICATED]);
    let admin = UserInfo::new("y", &[auth::groups::MASTERS, auth::groups::AUTHENTICATED]);
    assert_eq!(control.classify(&digest(&anyone)).schema_name(), "catch-all");
    assert_eq!(control.classify(&digest(&admin)).level_name(), "exempt");
    let mut seats = Vec::new();
    for _ in 0..600 {
        seats.push(take(&control, &anyone, 1).await.map_err(|e| format!("{e:?}")).unwrap());
    }
    assert_eq!(take(&control, &anyone, 1).await.err(), Some(Rejected { retry_after_seconds: 1 }));
    assert!(take(&control, &admin, 1).await.is_ok());
    seats.pop();
    assert!(take(&control, &anyone, 1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn seats_are_divided_by_shares_as_upstream_divides_them() {
    let control = FlowControl::new(&Env::simulated(1), SEATS);
    let levels = vec![
        level("system", 30, 33, QUEUE),
        level("node-high", 40, 25, QUEUE),
        level("leader-election", 10, 0, QUEUE),
        level("workload-high", 40, 50, QUEUE),
        level("workload-low", 100, 90, QUEUE),
        level("global-default", 20, 50, QUEUE),
        level("catch-all", 5, 0, Response::Reject),
        level("exempt", 0, 0, Response::Exempt),
    ];
    control.configure(Vec::new(), levels);
    let nominal: Vec<_> = limits(&control).into_iter().map(|(name, n, l, u, _)| (name, n, l, u)).collect();
    let expected = [
        ("catch-all", 13, 13, 613),
        ("exempt", 0, 0, 600),
        ("global-default", 49, 24, 649),
        ("leader-election", 25, 25, 625),
        ("node-high", 98, 73, 698),
        ("system", 74, 50, 674),
        ("workload-high", 98, 49, 698),
        ("workload-low", 245, 24, 845),
    ];
    let expected: Vec<_> = expected.iter().map(|(name, n, l, u)| ((*name).to_owned(), *n, *l, *u)).collect();
    assert_eq!(nominal, expected);
}

#[tokio::test(start_paused = true)]
async fn requests_time_out_in_the_queue_and_cancelled_ones_are_removed() {
    let control = FlowControl::new(&Env::simulated(1), Limits { seats: 1, ..SEATS });
    control.configure(
        vec![schema("s", "l", 5)],
        vec![level("l", 1, 0, QUEUE), level("catch-all", 0, 0, Response::Reject)],
    );
    let user = UserInfo::new("x", &[auth::groups::AUTHENTICATED]);
    let first = take(&control, &user, 1).await.ok().unwrap();
    let begun = control.clock.now();
    assert!(take(&control, &user, 15).await.is_err());
    assert_eq!(control.clock.now() - begun, 15 * SECOND);
    {
        let leaves = take(&control, &user, 15);
        assert!(control.clock.env().timeout(Duration::from_secs(1), leaves).await.is_err());
    }
    let totals = control.config().levels["l"].lock().set.totals;
    assert_eq!((totals.waiting, totals.timed_out, totals.cancelled), (0, 1, 1));
    let waits = tokio::join!(take(&control, &user, 15), async {
        control.clock.env().sleep(Duration::from_secs(2)).await;
        drop(first);
    });
    assert!(waits.0.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_idle_level_lends_and_gets_its_seats_back() {
    let env = Env::simulated(1);
    let control = FlowControl::new(&env, Limits { seats: 100, ..SEATS });
    let busy = Response::Queue { queues: 4, hand_size: 1, queue_length_limit: 1000 };
    let levels = vec![
        level("busy", 50, 0, busy),
        level("idle", 50, 80, QUEUE),
        level("catch-all", 0, 0, Response::Reject),
    ];
    let admins = FlowSchema { level: "idle".to_owned(), ..FlowSchema::mandatory(crate::spec::EXEMPT) };
    control.configure(vec![schema("s", "busy", 5), admins], levels);
    let run = {
        let control = control.clone();
        env.spawn("flow", async move { control.run().await })
    };
    let user = UserInfo::new("x", &[auth::groups::AUTHENTICATED]);
    let (request, mut held) = (digest(&user), Vec::new());
    let classified = control.classify(&request);
    for _ in 0..200 {
        held.push(control.start(&classified, &request, about(), WorkEstimate::ONE, true).unwrap());
    }
    env.sleep(Duration::from_secs(25)).await;
    let current = |name: &str| control.config().levels[name].lock().limits.current;
    assert_eq!((current("busy"), current("idle")), (90, 10));
    assert_eq!(control.config().levels["busy"].lock().set.totals.executing, 90);
    // Now the other one has work too: it takes back what is its own, from those that are served and do not end.
    let admin = UserInfo::new("y", &[auth::groups::MASTERS]);
    let request = digest(&admin);
    let classified = control.classify(&request);
    assert_eq!(classified.level_name(), "idle");
    for _ in 0..60 {
        held.push(control.start(&classified, &request, about(), WorkEstimate::ONE, true).unwrap());
    }
    env.sleep(Duration::from_secs(25)).await;
    assert_eq!((current("busy"), current("idle")), (50, 50));
    assert_eq!(control.config().levels["idle"].lock().set.totals.executing, 50);
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_level_serves_its_queued_requests_first() {
    let env = Env::simulated(1);
    let control = FlowControl::new(&env, SEATS);
    control.configure(vec![schema("s", "l", 5)], vec![level("l", 1, 0, QUEUE)]);
    let run = {
        let control = control.clone();
        env.spawn("flow", async move { control.run().await })
    };
    let user = UserInfo::new("x", &[auth::groups::AUTHENTICATED]);
    let seat = take(&control, &user, 1).await.ok().unwrap();
    control.configure(vec![schema("s", "l", 5)], Vec::new());
    assert_eq!(control.classify(&digest(&user)).schema_name(), "catch-all");
    assert!(control.config().levels.contains_key("l"));
    drop(seat);
    env.sleep(Duration::from_secs(11)).await;
    assert!(!control.config().levels.contains_key("l"));
    run.abort();
}
