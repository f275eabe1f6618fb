//! What the work queue promises.

use std::sync::Arc;

use client::resources::CONFIG_MAPS;

use super::*;
use crate::testing::map;

type Queue = WorkQueue<&'static str>;

fn queue() -> (Env, Arc<Queue>) {
    let env = Env::simulated(1);
    (env.clone(), Arc::new(Queue::new(env, Limits::default())))
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What is ready now.
async fn take(queue: &Queue) -> Option<&'static str> {
    tokio::select! {
        biased;
        taken = queue.get() => taken.map(|t| t.key),
        () = tokio::task::yield_now() => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_worked_on_once() {
    let (_, queue) = queue();
    for key in ["a", "b", "a"] {
        queue.add(key, NORMAL, None);
    }
    assert_eq!(queue.len(), 2);
    assert_eq!((take(&queue).await, take(&queue).await, take(&queue).await), (Some("a"), Some("b"), None));
    assert_eq!(queue.counts().adds, 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_worked_on_comes_again_when_it_is_done_and_not_before() {
    let (_, queue) = queue();
    queue.add("a", NORMAL, None);
    assert_eq!(take(&queue).await, Some("a"));
    queue.add("a", NORMAL, None);
    queue.add("a", NORMAL, None);
    assert_eq!(take(&queue).await, None, "two workers must never have one key");
    queue.done(&"a");
    assert_eq!(take(&queue).await, Some("a"));
    queue.done(&"a");
    assert_eq!(take(&queue).await, None);
    assert_eq!(queue.others(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_earlier_counts() {
    for order in [[50, 20], [20, 50]] {
        let (env, queue) = queue();
        for wait in order {
            queue.add_after("a", ms(wait), None);
        }
        env.sleep(ms(19)).await;
        assert_eq!(take(&queue).await, None);
        env.sleep(ms(1)).await;
        assert_eq!(take(&queue).await, Some("a"));
        queue.done(&"a");
        env.sleep(ms(100)).await;
        assert_eq!(take(&queue).await, None, "the later one is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_worker_is_woken_for_an_earlier_delay() {
    let (env, queue) = queue();
    queue.add_after("late", Duration::from_secs(60), None);
    let worker = env.spawn("worker", {
        let (queue, env) = (queue.clone(), env.clone());
        async move { (queue.get().await.map(|t| t.key), env.now_nanos()) }
    });
    env.sleep(ms(1)).await;
    let began = env.now_nanos();
    queue.add_after("early", ms(10), None);
    let (key, at) = worker.await.unwrap();
    assert_eq!((key, at - began), (Some("early"), 10_000_000));
}

#[tokio::test(start_paused = true)]
async fn a_delay_fires_while_the_worker_that_set_it_is_busy() {
    let (env, queue) = queue();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (queue, env, seen) = (queue.clone(), env.clone(), seen.clone());
            env.clone().spawn("worker", async move {
                while let Some(taken) = queue.get().await {
                    seen.lock().push((taken.key, env.now_nanos() / 1_000_000));
                    if taken.key == "long" {
                        env.sleep(Duration::from_secs(60)).await;
                    }
                    queue.done(&taken.key);
                }
            })
        })
        .collect();
    env.sleep(ms(1)).await;
    let began = env.now_nanos() / 1_000_000;
    queue.add_after("soon", ms(10), None);
    env.sleep(ms(1)).await;
    queue.add("long", NORMAL, None);
    env.sleep(ms(20)).await;
    assert_eq!(*seen.lock(), [("long", began + 1), ("soon", began + 10)]);
    queue.shut_down();
    for worker in workers {
        worker.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn failures_double_the_backoff_up_to_its_maximum() {
    let (env, queue) = queue();
    let mut waits = Vec::new();
    for _ in 0..20 {
        let wait = queue.retry("a");
        waits.push(wait);
        env.sleep(wait).await;
        assert_eq!(take(&queue).await, Some("a"));
        queue.done(&"a");
    }
    assert_eq!(waits[..4], [ms(5), ms(10), ms(20), ms(40)]);
    assert_eq!(waits[19], Duration::from_secs(1000));
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
    assert_eq!(queue.retry("a"), ms(5));
}

#[tokio::test(start_paused = true)]
async fn all_retries_are_limited_to_ten_a_second_after_a_burst_of_a_hundred() {
    let env = Env::simulated(1);
    let queue: WorkQueue<u32> = WorkQueue::new(env, Limits::default());
    let waits: Vec<Duration> = (0..120).map(|key| queue.retry(key)).collect();
    assert!(waits[..100].iter().all(|wait| *wait == ms(5)));
    assert_eq!(waits[100], ms(100));
    assert_eq!(waits[119], ms(2000));
}

#[tokio::test(start_paused = true)]
async fn an_event_during_the_backoff_runs_the_key_at_once() {
    let (env, queue) = queue();
    for n in 0..6 {
        let wait = queue.retry("a");
        assert_eq!(wait, ms(5 << n));
        env.sleep(wait).await;
        assert_eq!(take(&queue).await, Some("a"));
        queue.done(&"a");
    }
    let wait = queue.retry("a");
    assert_eq!((wait, queue.failures(&"a")), (ms(320), 7));
    // Thirty events, each followed by a failure: in client-go that would be a wait of 1000 s.
    for _ in 0..30 {
        env.sleep(ms(10)).await;
        queue.add("a", NORMAL, None);
        assert_eq!(take(&queue).await, Some("a"), "an event is not held back");
        queue.retry("a");
        queue.done(&"a");
    }
    assert_eq!(queue.failures(&"a"), 7);
    env.sleep(ms(19)).await;
    assert_eq!(take(&queue).await, None);
    env.sleep(ms(1)).await;
    assert_eq!(take(&queue).await, Some("a"), "the retry comes when it was due");
    // Its own failure counts: events cannot hold the wait down for ever either.
    assert_eq!((queue.retry("a"), queue.failures(&"a")), (ms(640), 8));
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_go_first_and_a_second_add_may_raise_one() {
    let (_, queue) = queue();
    queue.add("low1", LOW, None);
    queue.add("low2", LOW, None);
    queue.add("normal", NORMAL, None);
    queue.add("low2", 10, None);
    queue.add("low2", LOW, None);
    let order = [take(&queue).await, take(&queue).await, take(&queue).await];
    assert_eq!(order, [Some("low2"), Some("normal"), Some("low1")]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_as_urgent_as_the_work_was() {
    let (env, queue) = queue();
    queue.add("a", LOW, None);
    let taken = queue.get().await.unwrap();
    queue.retry(taken.key);
    queue.done(&"a");
    env.sleep(ms(5)).await;
    assert_eq!(queue.get().await.unwrap().priority, LOW);
}

#[tokio::test(start_paused = true)]
async fn causes_survive_deduplication_and_are_bounded() {
    let (_, queue) = queue();
    for revision in 1..=20 {
        queue.add("a", NORMAL, Some(Cause::new(&CONFIG_MAPS, &map("m", revision), "updated")));
    }
    let causes = queue.get().await.unwrap().causes;
    let kept: Vec<u64> = causes.kept().iter().map(|c| c.revision.0).collect();
    assert_eq!(kept, [1, 14, 15, 16, 17, 18, 19, 20]);
    assert_eq!(causes.dropped(), 12);
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_running_workers_and_accepts_nothing_new() {
    let (env, queue) = queue();
    queue.add("a", NORMAL, None);
    assert_eq!(take(&queue).await, Some("a"));
    queue.add_after("later", ms(5), None);
    let drained = env.spawn("drain", {
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    env.sleep(ms(100)).await;
    assert!(!drained.is_finished());
    queue.add("b", NORMAL, None);
    queue.done(&"a");
    drained.await.unwrap();
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_queued_keys_are_still_handed_out() {
    let (env, queue) = queue();
    queue.add("a", NORMAL, None);
    queue.shut_down();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            env.spawn("worker", async move { queue.get().await.map(|t| t.key) })
        })
        .collect();
    let mut got = Vec::new();
    for worker in workers {
        got.extend(worker.await.unwrap());
    }
    assert_eq!(got, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn times_measure_waiting_work_and_unfinished_work() {
    let (env, queue) = queue();
    queue.add("a", NORMAL, None);
    queue.add("b", NORMAL, None);
    env.sleep(ms(50)).await;
    take(&queue).await;
    env.sleep(ms(50)).await;
    take(&queue).await;
    env.sleep(ms(100)).await;
    let times = queue.times();
    assert_eq!((times.unfinished, times.longest), (ms(250), ms(150)));
    assert_eq!((times.waited.count(), times.worked.count()), (2, 0));
    queue.done(&"a");
    assert_eq!(queue.times().worked.count(), 1);
}

/// Not a promise, a figure: `cargo test -p runtime --lib cost_of -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "prints a figure"]
async fn cost_of_an_add() {
    let env = Env::machine();
    let queue: WorkQueue<crate::Key> = WorkQueue::new(env.clone(), Limits::default());
    let objects: Vec<_> = (0..1000).map(|n| map(&format!("m{n}"), n + 1)).collect();
    // Time on the processor: other tests may want it too.
    let spent = || -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        stat.split_whitespace().next().unwrap().parse().unwrap()
    };
    let before = spent();
    for _ in 0..100 {
        for obj in &objects {
            queue.add(crate::Key::of(obj), NORMAL, Some(Cause::new(&CONFIG_MAPS, obj, "updated")));
        }
    }
    println!("{} ns an add", (spent() - before) / 100_000);
}
