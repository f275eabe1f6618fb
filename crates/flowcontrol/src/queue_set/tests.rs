use super::*;

const MS: Nanos = 1_000_000;

fn queues(queues: u32, hand_size: u32, queue_length_limit: u32) -> Response {
    Response::Queue { queues, hand_size, queue_length_limit }
}

fn set(response: Response, seats: u32) -> QueueSet {
    let mut set = QueueSet::new(0);
    set.configure(response, seats, u64::MAX, 0);
    set
}

fn arrival(flow: u64, seats: u32) -> Arrival {
    Arrival {
        about: About { user: Arc::default(), verb: "get", uri: None, flow: Flow::All },
        stats: Arc::default(),
        estimate: WorkEstimate { initial_seats: seats, ..WorkEstimate::ONE },
        flow_hash: flow,
        patient: false,
    }
}

fn executing(started: Started) -> RequestId {
    match started {
        Started::Executing(id) => id,
        other => panic!("not executing: {other:?}"),
    }
}

fn waiting(started: Started) -> RequestId {
    match started {
        Started::Waiting(id) => id,
        other => panic!("not waiting: {other:?}"),
    }
}

fn waits(set: &mut QueueSet, id: RequestId) -> bool {
    !set.poll(id, Waker::noop())
}

/// What must hold at any time.
fn check(set: &QueueSet) {
    let requests: Vec<&Request> = set.requests().map(|(_, request)| request).collect();
    let count = |f: &dyn Fn(&Request) -> bool| requests.iter().filter(|r| f(r)).count();
    let runs = |r: &Request| matches!(r.phase, Phase::Executing { .. } | Phase::Sending { .. });
    let holds = |r: &Request| runs(r) || r.phase == Phase::Lingering;
    assert_eq!(set.totals.waiting, count(&|r| r.phase == Phase::Waiting));
    assert_eq!(set.totals.executing, count(&runs));
    let seats =
        |f: &dyn Fn(&Request) -> bool| requests.iter().filter(|r| f(r)).map(|r| r.seats()).sum::<u32>();
    assert_eq!(set.totals.seats_in_use, seats(&holds));
    assert_eq!(set.totals.seats_waiting, seats(&|r| r.phase == Phase::Waiting));
    assert_eq!(set.queues.iter().map(|q| q.waiting.len()).sum::<usize>(), set.totals.waiting);
    assert_eq!(set.queues.iter().filter(|q| !q.waiting.is_empty() || q.executing > 0).count(), set.active);
}

#[test]
fn exempt_requests_are_always_executed() {
    let mut set = set(Response::Exempt, 0);
    let ids: Vec<_> = (0..1000).map(|n| executing(set.start(arrival(n, 5), n))).collect();
    assert_eq!(set.totals.seats_in_use, 5000);
    ids.into_iter().for_each(|id| set.finish(id, 2000));
    assert!(set.is_idle() && set.totals.seats_in_use == 0);
}

#[test]
fn without_queues_requests_over_the_limit_are_rejected() {
    let mut set = set(Response::Reject, 2);
    let first = executing(set.start(arrival(1, 1), 0));
    executing(set.start(arrival(1, 1), 0));
    assert_eq!(set.start(arrival(1, 1), 0), Started::Rejected(Reason::ConcurrencyLimit));
    let patient = waiting(set.start(Arrival { patient: true, ..arrival(1, 1) }, 0));
    set.finish(first, MS);
    assert!(!waits(&mut set, patient));
    check(&set);
}

#[test]
fn a_queue_that_is_full_rejects_and_other_flows_are_served() {
    let mut set = set(queues(8, 1, 2), 1);
    let first = executing(set.start(arrival(3, 1), 0));
    let queued: Vec<_> = (0..2).map(|_| waiting(set.start(arrival(3, 1), 0))).collect();
    assert_eq!(set.start(arrival(3, 1), 0), Started::Rejected(Reason::QueueFull));
    let other = waiting(set.start(arrival(5, 1), 0));
    check(&set);
    set.finish(first, 10 * MS);
    // The other flow was given nothing yet.
    assert!(!waits(&mut set, other) && queued.iter().all(|id| waits(&mut set, *id)));
    set.finish(other, 20 * MS);
    assert!(!waits(&mut set, queued[0]) && waits(&mut set, queued[1]), "in order");
    check(&set);
}

#[test]
fn flows_get_equal_shares_whatever_they_request() {
    // One flow has a hundred requests waiting at any time, the other two.
    let mut set = set(queues(2, 1, 1000), 4);
    let (mut now, mut running, mut served) = (0, VecDeque::new(), [0_u64; 2]);
    let mut outstanding = [0_usize; 2];
    for _ in 0..4000 {
        for (flow, most) in [(0_usize, 100), (1, 4)] {
            while outstanding[flow] < most {
                outstanding[flow] += 1;
                match set.start(arrival(flow as u64, 1), now) {
                    Started::Executing(id) | Started::Waiting(id) => running.push_back((flow, id)),
                    Started::Rejected(_) => panic!("rejected"),
                }
            }
        }
        now += 5 * MS;
        let (ready, rest): (Vec<_>, Vec<_>) = running.drain(..).partition(|(_, id)| !waits(&mut set, *id));
        running.extend(rest);
        for (flow, id) in ready {
            set.finish(id, now);
            served[flow] += 1;
            outstanding[flow] -= 1;
        }
        check(&set);
    }
    let ratio = served[0] as f64 / served[1] as f64;
    assert!((0.9..1.1).contains(&ratio), "{served:?}");
}

#[test]
fn wide_requests_count_by_their_seats() {
    let mut set = set(queues(1, 1, 10), 4);
    let wide = executing(set.start(arrival(0, 3), 0));
    let second = waiting(set.start(arrival(0, 3), 0));
    let narrow = waiting(set.start(arrival(0, 1), 0));
    assert!(waits(&mut set, narrow), "in order, though it would fit");
    set.finish(wide, MS);
    assert!(!waits(&mut set, second) && !waits(&mut set, narrow));
    set.finish(second, 2 * MS);
    set.finish(narrow, 2 * MS);
    let widest = executing(set.start(arrival(0, 10), 3 * MS));
    assert!(matches!(set.start(arrival(0, 1), 3 * MS), Started::Waiting(_)));
    set.finish(widest, 4 * MS);
    check(&set);
}

#[test]
fn a_request_cancelled_when_dispatched_returns_its_seats() {
    let mut set = set(queues(1, 1, 10), 1);
    let first = executing(set.start(arrival(0, 1), 0));
    let estimate = WorkEstimate { final_seats: 3, additional_nanos: 5 * MS, ..WorkEstimate::ONE };
    let leaves = waiting(set.start(Arrival { estimate, ..arrival(0, 1) }, 0));
    set.finish(first, MS);
    assert!(!waits(&mut set, leaves));
    set.cancel(leaves, true, MS);
    check(&set);
    assert!(set.is_idle() && set.totals.seats_in_use == 0);
    executing(set.start(arrival(0, 1), MS));
}

#[test]
fn a_level_without_seats_serves_nobody() {
    let mut set = set(queues(1, 1, 1), 0);
    let waits_for_ever = waiting(set.start(arrival(0, 1), 0));
    assert_eq!(set.start(arrival(0, 1), 0), Started::Rejected(Reason::QueueFull));
    set.cancel(waits_for_ever, true, MS);
    check(&set);
}

#[test]
fn bytes_in_flight_count_as_well() {
    let mut set = set(queues(1, 1, 10), 100);
    set.configure(queues(1, 1, 10), 100, 10, 0);
    let large = |bytes| {
        let estimate = WorkEstimate { bytes, ..WorkEstimate::ONE };
        Arrival { estimate, ..arrival(0, 1) }
    };
    let first = executing(set.start(large(20), 0));
    let second = waiting(set.start(large(1), 0));
    set.finish(first, MS);
    assert!(!waits(&mut set, second));
    assert_eq!(set.totals.bytes_in_use, 1);
}

#[test]
fn seats_of_a_write_come_back_after_its_watches_are_notified() {
    let mut set = set(queues(1, 1, 10), 1);
    let estimate = WorkEstimate { final_seats: 1, additional_nanos: 5 * MS, ..WorkEstimate::ONE };
    let write = executing(set.start(Arrival { estimate, ..arrival(0, 1) }, 0));
    set.finish(write, MS);
    let next = waiting(set.start(arrival(0, 1), 2 * MS));
    assert_eq!(set.next_release(), Some(6 * MS));
    check(&set);
    set.release_stalled(0, 6 * MS);
    assert!(!waits(&mut set, next));
    check(&set);
}

#[test]
fn an_unread_response_returns_its_seats() {
    let mut set = set(queues(1, 1, 10), 2);
    let list = executing(set.start(arrival(0, 2), 0));
    let next = waiting(set.start(arrival(0, 1), MS));
    assert!(set.sending(list, MS));
    assert!(!set.sending(list, 2 * MS));
    assert!(set.release_stalled(2 * MS, 3 * MS) && waits(&mut set, next));
    assert!(!set.release_stalled(3 * MS, 4 * MS));
    assert!(!waits(&mut set, next));
    set.finish(list, 5 * MS);
    set.finish(next, 5 * MS);
    assert!(set.is_idle() && set.requests().count() == 0);
    check(&set);
}

#[test]
fn removed_queues_drain_first() {
    let mut set = set(queues(8, 8, 10), 1);
    let first = executing(set.start(arrival(0, 1), 0));
    let queued: Vec<_> = (0..16).map(|n| waiting(set.start(arrival(n, 1), 0))).collect();
    set.configure(queues(2, 2, 10), 1, u64::MAX, MS);
    assert_eq!(set.queues.len(), 8);
    let mut now = MS;
    let mut left: Vec<_> = std::iter::once(first).chain(queued).collect();
    while !left.is_empty() {
        now += MS;
        let ready = left.iter().position(|id| !waits(&mut set, *id)).unwrap();
        set.finish(left.remove(ready), now);
        check(&set);
    }
    assert_eq!(set.queues.len(), 2);
}

#[test]
fn whatever_happens_the_counts_add_up() {
    let mut seed = 7_u64;
    let mut next = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let mut set = set(queues(4, 2, 5), 3);
    let (mut now, mut live): (Nanos, Vec<RequestId>) = (0, Vec::new());
    for _ in 0..20_000 {
        now += next(3 * MS);
        match next(12) {
            0..=5 => {
                let estimate = WorkEstimate {
                    initial_seats: 1 + next(3) as u32,
                    final_seats: next(4) as u32,
                    additional_nanos: if next(3) == 0 { next(10 * MS) } else { 0 },
                    bytes: next(5),
                };
                let patient = next(4) == 0;
                let arrival = Arrival { estimate, patient, ..arrival(next(9), 1) };
                if let Started::Executing(id) | Started::Waiting(id) = set.start(arrival, now) {
                    live.push(id);
                }
            }
            6..=8 if !live.is_empty() => {
                let id = live.swap_remove(next(live.len() as u64) as usize);
                if waits(&mut set, id) { set.cancel(id, next(2) == 0, now) } else { set.finish(id, now) }
            }
            9 if !live.is_empty() => {
                let id = live[next(live.len() as u64) as usize];
                if !waits(&mut set, id) {
                    set.sending(id, now);
                }
            }
            10 => {
                set.release_stalled(now.saturating_sub(next(9 * MS)), now);
            }
            _ => {
                let response = match next(5) {
                    0 => Response::Reject,
                    _ => queues(1 + next(6) as u32, 1, 1 + next(6) as u32),
                };
                set.configure(response, 1 + next(5) as u32, 1 + next(12), now);
            }
        }
        check(&set);
    }
    for id in live {
        if waits(&mut set, id) { set.cancel(id, true, now) } else { set.finish(id, now) }
    }
    set.release_stalled(0, now + SECOND);
    check(&set);
    assert!(set.is_idle() && set.totals.seats_in_use == 0 && set.totals.bytes_in_use == 0);
}
