//! What handlers are told, and what readers see.

use client::Event;
use client::resources::CONFIG_MAPS;

use super::*;
use crate::Stopper;
use crate::testing::{Pull, Say, Scripted, map, map_with, state};

struct Rig {
    env: Env,
    informer: Arc<Informer>,
    stopper: Stopper,
    stop: Stop,
}

type Heard = Arc<Mutex<Vec<String>>>;

fn rig(queue: QueueKind, script: Vec<Vec<Pull>>) -> Rig {
    let env = Env::simulated(1);
    let client = Scripted::new(script.into_iter().map(|pulls| Say::Watch(Ok(pulls))).collect());
    let (stopper, stop) = Stopper::new();
    let informer = Informer::new(env.clone(), client, Scope::all(&CONFIG_MAPS), queue);
    Rig { env, informer, stopper, stop }
}

impl Rig {
    fn listen(&self, resync: Option<Duration>) -> Heard {
        let heard = Heard::default();
        let hearing = heard.clone();
        let handler = move |event: &InformerEvent<'_>| hearing.lock().push(short(event));
        self.informer.add_handler(resync, Box::new(handler));
        heard
    }
    async fn run(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }
}

fn short(event: &InformerEvent<'_>) -> String {
    match event {
        InformerEvent::Added { obj, initial } => {
            format!("+{}{}", obj.name(), if *initial { "!" } else { "" })
        }
        InformerEvent::Updated { old, new, sync: true } => {
            assert_eq!(old.revision(), new.revision());
            format!("={}", new.name())
        }
        InformerEvent::Updated { old, new, .. } => {
            format!("~{} {}>{}", new.name(), old.revision(), new.revision())
        }
        InformerEvent::Deleted { obj, unknown } => {
            format!("-{}@{}{}", obj.name(), obj.revision(), if *unknown { "?" } else { "" })
        }
    }
}

fn both() -> [QueueKind; 2] {
    [QueueKind::Real, QueueKind::Delta]
}

#[tokio::test(start_paused = true)]
async fn handlers_get_all_events_in_order_and_late_ones_the_initial_state() {
    for queue in both() {
        let rig = rig(
            queue,
            vec![vec![
                state(vec![map("a", 1), map("b", 2)], 2),
                Ok((vec![Event::Added(map("c", 3)), Event::Modified(map("a", 4))], true)),
                Ok((vec![Event::Deleted(map("b", 5)), Event::Deleted(map("nobody", 6))], true)),
            ]],
        );
        let (first, second) = (rig.listen(None), rig.listen(None));
        assert!(!rig.informer.has_synced());
        rig.informer.start(rig.stop.clone());
        rig.informer.synced().await;
        rig.run(1).await;
        assert_eq!(*first.lock(), ["+a!", "+b!", "+c", "~a 1>4", "-b@5"], "{queue:?}");
        assert_eq!(*first.lock(), *second.lock());
        let late = rig.listen(None);
        assert_eq!(*late.lock(), ["+a!", "+c!"]);
        assert_eq!(rig.informer.revision(), Revision(6));
        assert_eq!(rig.informer.store().keys().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_relist_missing_and_replaced_objects_are_deleted_with_final_state_unknown() {
    for queue in both() {
        let rig = rig(
            queue,
            vec![
                vec![
                    state(vec![map("again", 1), map("gone", 2), map("same", 3)], 3),
                    Err(object::Status::expired("gone")),
                ],
                vec![state(vec![map_with("again", "other", 8, ""), map("new", 9), map("same", 3)], 9)],
            ],
        );
        let (heard, resyncing) = (rig.listen(None), rig.listen(Some(Duration::from_secs(3600))));
        rig.informer.start(rig.stop.clone());
        // A history lost at once is read again after a pause.
        rig.run(3).await;
        let after: Vec<String> = heard.lock()[3..].to_vec();
        match queue {
            QueueKind::Real => assert_eq!(after, ["-gone@2?", "-again@1?", "+again", "+new"]),
            QueueKind::Delta => assert_eq!(after, ["-again@1?", "+again", "+new", "-gone@2?"]),
        }
        // A relist that finds an object as it was is a resync to those who want some.
        assert_eq!(resyncing.lock().iter().filter(|told| *told == "=same").count(), 1);
        assert_eq!(rig.informer.revision(), Revision(9));
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_follows_the_period_of_each_handler() {
    for queue in both() {
        let rig = rig(queue, vec![vec![state(vec![map("a", 1), map("b", 2)], 2)]]);
        let (never, often, zero) =
            (rig.listen(None), rig.listen(Some(Duration::from_secs(10))), rig.listen(Some(Duration::ZERO)));
        rig.informer.start(rig.stop.clone());
        rig.run(35).await;
        // Who comes late with a short period does not wait for somebody else's alarm.
        let late = rig.listen(Some(Duration::from_millis(1)));
        rig.informer.synced().await;
        rig.env.sleep(Duration::from_millis(2500)).await;
        assert_eq!(*never.lock(), ["+a!", "+b!"]);
        assert_eq!(*zero.lock(), ["+a!", "+b!"]);
        assert_eq!(*often.lock(), ["+a!", "+b!", "=a", "=b", "=a", "=b", "=a", "=b"]);
        assert_eq!(*late.lock(), ["+a!", "+b!", "=a", "=b", "=a", "=b"], "one second is the least");
    }
}

#[tokio::test(start_paused = true)]
async fn it_has_synced_only_after_the_initial_events_were_delivered() {
    for queue in both() {
        let rig = rig(queue, vec![vec![state((1..=3).map(|n| map(&format!("m{n}"), n)).collect(), 3)]]);
        let informer = rig.informer.clone();
        let early = Arc::new(Mutex::new(Vec::new()));
        let seen = early.clone();
        let looking = rig.informer.clone();
        informer.add_handler(None, Box::new(move |_| seen.lock().push(looking.has_synced())));
        informer.start(rig.stop.clone());
        informer.synced().await;
        assert_eq!(*early.lock(), [false, false, false]);
        assert_eq!(informer.revision(), Revision(3));
        rig.stopper.stop();
    }
}

#[tokio::test(start_paused = true)]
async fn reached_waits_until_a_revision_was_delivered() {
    let later = vec![state(vec![], 5), Ok((vec![Event::Added(map("a", 7))], true))];
    let rig = rig(QueueKind::Real, vec![later]);
    let heard = rig.listen(None);
    rig.informer.start(rig.stop.clone());
    rig.informer.reached(Revision(6)).await;
    assert_eq!(*heard.lock(), ["+a"]);
    let never = tokio::select! {
        biased;
        () = rig.informer.reached(Revision(8)) => false,
        () = rig.env.sleep(Duration::from_secs(60)) => true,
    };
    assert!(never);
}

#[test]
fn an_index_follows_changes_and_covers_existing_objects() {
    let store = Indexer::default();
    let labelled = |name: &str, revision, label: &str| {
        map_with(name, "u", revision, &format!(",\"labels\":{{\"app\":\"{label}\"}}"))
    };
    store.begin().put(labelled("a", 1, "web"));
    store.add_index("app", |obj| obj.label("app").map(str::to_owned).into_iter().collect());
    store.begin().put(labelled("b", 2, "web"));
    let names = |value: &str| -> Vec<String> {
        store.by_index("app", value).iter().map(|obj| obj.name().to_owned()).collect()
    };
    assert_eq!(names("web"), ["a", "b"]);
    store.begin().put(labelled("a", 3, "db"));
    assert_eq!((names("web"), names("db")), (vec!["b".to_owned()], vec!["a".to_owned()]));
    store.begin().remove("default/b");
    assert!(names("web").is_empty());
    assert!(store.by_index("nobody added this", "web").is_empty());
    assert_eq!(store.list_namespace("default").len(), 1);
    assert!(store.list_namespace("defaul").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_gets_no_more_events() {
    for queue in both() {
        let rig = rig(
            queue,
            vec![vec![
                state(vec![map("a", 1)], 1),
                Ok((vec![Event::Added(map("b", 2))], true)),
                Ok((vec![Event::Added(map("c", 3))], true)),
            ]],
        );
        let stays = rig.listen(None);
        let goes = Heard::default();
        let hearing = goes.clone();
        let early = rig.informer.add_handler(
            Some(Duration::from_secs(5)),
            Box::new(move |event| hearing.lock().push(short(event))),
        );
        assert!(!early.has_synced(), "nothing was told yet");
        rig.informer.start(rig.stop.clone());
        early.synced().await;
        assert!(goes.lock().contains(&"+a!".to_owned()), "{queue:?}");
        rig.run(1).await;
        assert!(rig.informer.remove_handler(&early));
        assert!(!rig.informer.remove_handler(&early), "it is gone already");
        let before = goes.lock().clone();
        let late = rig.informer.add_handler(None, Box::new(|_| {}));
        assert!(late.has_synced(), "it was told of everything when it came");
        rig.informer.feed(&mut vec![Delta::Added(map("d", 9))]);
        rig.run(60).await;
        assert_eq!(*goes.lock(), before, "neither changes nor resyncs");
        assert_eq!(stays.lock().last().map(String::as_str), Some("+d"));
        rig.stopper.stop();
    }
}

#[tokio::test(start_paused = true)]
async fn events_lost_before_the_handlers_come_with_the_next_resync() {
    for queue in both() {
        let env = Env::simulated(1);
        let pulls = vec![
            state(vec![map("a", 1)], 1),
            Ok((
                vec![Event::Modified(map("a", 2)), Event::Added(map("b", 3)), Event::Deleted(map("b", 4))],
                true,
            )),
        ];
        let client = Scripted::new(vec![Say::Watch(Ok(pulls))]);
        let (stopper, stop) = Stopper::new();
        let lost = |event: &InformerEvent<'_>| !matches!(event, InformerEvent::Deleted { .. });
        let loss = Arc::new(Loss { lost: Box::new(lost), sooner: 10 });
        let informer = Informer::losing(env.clone(), client, Scope::all(&CONFIG_MAPS), queue, Some(loss));
        let rig = Rig { env, informer, stopper, stop };
        let (heard, resyncing) = (rig.listen(None), rig.listen(Some(Duration::from_secs(100))));
        rig.informer.start(rig.stop.clone());
        rig.run(9).await;
        assert_eq!(*heard.lock(), ["+a!", "-b@4"], "{queue:?}: the first state and what may not be lost");
        let held = rig.informer.store().get("default", "a").expect("it is there");
        assert_eq!(held.revision(), Revision(2), "the store missed nothing");
        rig.run(2).await;
        assert_eq!(resyncing.lock().last().map(String::as_str), Some("=a"), "ten times as often");
        assert_eq!(heard.lock().len(), 2, "not to those who do not resync");
    }
}
