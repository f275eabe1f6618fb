//! What a process finds that comes after another, or that the runtime lost.

use super::*;

impl Life {
    fn of(&self, list: &str, index: usize, path: &[&str]) -> Option<&Value> {
        self.tree.at(&["status", list])?.as_list()?.get(index)?.at(path)
    }

    fn restarts(&self, index: usize) -> Option<i64> {
        self.of("containerStatuses", index, &["restartCount"])?.as_int()
    }

    fn says(&self, condition: &str) -> Option<&str> {
        let all = self.tree.at(&["status", "conditions"])?.as_list()?;
        all.iter().find(|c| c.str_at(&["type"]) == Some(condition))?.str_at(&["status"])
    }

    /// Another process comes, and the runtime has nothing of these containers any more.
    fn forget(&mut self, forgotten: &[usize]) {
        self.worker = PodWorker::new(&Pod::read(&self.tree));
        self.runtime.there.retain(|index, _| !forgotten.contains(index));
        self.runtime.log();
    }
}

#[test]
fn a_container_that_was_made_and_never_started_is_started_anew() {
    for (policy, may_run) in [("Always", true), ("Always", false), ("Never", true), ("Never", false)] {
        let mut life = Life::new(&format!(r#"{{"restartPolicy":"{policy}","containers":[{{"name":"c"}}]}}"#));
        life.step();
        life.runtime.set(0, Container::Interrupted { may_run });
        life.runtime.log();
        life.step();
        assert_eq!(life.runtime.log(), "start-0-1", "{policy} {may_run}");
        assert_eq!((life.phase(), life.restarts(0)), ("Running", Some(1)));
    }
}

#[test]
fn a_pod_that_is_deleted_while_it_may_run_is_stopped_first() {
    for may_run in [true, false] {
        let mut life = Life::new(r#"{"containers":[{"name":"c"}]}"#);
        life.step();
        life.runtime.set(0, Container::Interrupted { may_run });
        life.runtime.log();
        life.delete(30);
        for again in [false, true] {
            let step = life.step();
            assert_eq!((step.delete, step.over), (!may_run, !may_run));
            assert_eq!(life.runtime.log(), if may_run && !again { "stop-30" } else { "" });
        }
        if may_run {
            life.runtime.exit(0, 137, life.now);
            let step = life.step();
            assert!(step.delete && step.over);
        }
    }
}

#[test]
fn an_init_container_that_is_lost_fails_a_pod_that_may_run_once() {
    for (policy, may_run, log) in [
        ("Never", true, "stop-30"),
        ("Never", false, "start-0-1"),
        ("OnFailure", true, "start-0-1"),
        ("Always", true, "start-0-1"),
    ] {
        let mut life = Life::new(&format!(
            r#"{{"restartPolicy":"{policy}","initContainers":[{{"name":"i"}}],"containers":[{{"name":"c"}}]}}"#
        ));
        life.step();
        life.runtime.log();
        life.runtime.set(0, Container::Interrupted { may_run });
        life.step();
        assert_eq!(life.runtime.log(), log, "{policy} {may_run}");
        if log == "stop-30" {
            assert!(!life.step().over);
            assert_eq!((&*life.runtime.log(), life.phase()), ("", "Pending"), "asked for once");
            life.runtime.exit(0, 137, life.now);
            assert!(life.step().over);
            assert_eq!((&*life.runtime.log(), life.phase()), ("", "Failed"));
        }
    }
}

#[test]
fn a_pod_that_lost_an_init_container_ends_however_that_one_did() {
    let mut life = Life::new(
        r#"{"restartPolicy":"Never","initContainers":[{"name":"s","restartPolicy":"Always"},{"name":"i"}],
            "containers":[{"name":"c"}]}"#,
    );
    life.step();
    life.runtime.set(1, Container::Interrupted { may_run: true });
    life.step();
    assert_eq!(life.runtime.log(), "create start-0-0 start-1-0 stop-30");
    // Nothing comes back that has ended by now.
    for index in 0..2 {
        life.runtime.exit(index, 0, life.now);
        life.step();
    }
    assert_eq!((&*life.runtime.log(), life.phase()), ("", "Failed"));
}

#[test]
fn a_pod_that_nobody_heard_of_is_taken_up() {
    let mut life = Life::new(PLAIN);
    life.step_unwritten();
    life.forget(&[]);
    life.step();
    assert_eq!(life.runtime.log(), "recover");
}

const INIT: &str =
    r#"{"initContainers":[{"name":"i"},{"name":"j"}],"containers":[{"name":"c"},{"name":"d"}]}"#;

fn initialized() -> Life {
    let mut life = Life::new(INIT);
    for index in 0..2 {
        life.step();
        life.runtime.exit(index, 0, life.now);
    }
    life.step();
    assert_eq!(life.phase(), "Running");
    life
}

#[test]
fn an_init_container_that_is_gone_has_done_its_part() {
    for told in [true, false] {
        let mut life = initialized();
        if !told {
            life.tree.map_at(&["status"]).remove("initContainerStatuses");
        }
        life.forget(&[0, 1]);
        life.step();
        assert_eq!((&*life.runtime.log(), life.phase()), ("recover", "Running"), "{told}");
        let ended = life.of("initContainerStatuses", 0, &["state", "terminated"]).unwrap();
        assert_eq!(ended.str_at(&["reason"]), Some("Completed"));
        assert_eq!(ended.str_at(&["containerID"]), told.then_some("id-0"));
        assert_eq!(life.says("Initialized"), Some("True"));
        assert_eq!(life.says("Ready"), Some("True"));
    }
}

#[test]
fn a_container_that_is_gone_is_restarted_and_counted() {
    let mut life = initialized();
    life.runtime.unready = true;
    life.forget(&[3]);
    for _ in 0..2 {
        life.step();
        let (_, status) = (life.phase(), life.of("containerStatuses", 1, &[]).unwrap());
        assert_eq!(status.str_at(&["state", "waiting", "reason"]), Some("PodInitializing"));
        let reason = status.str_at(&["lastState", "terminated", "reason"]);
        assert_eq!((reason, life.restarts(1)), (Some("ContainerStatusUnknown"), Some(1)));
        assert_eq!((life.phase(), life.restarts(0)), ("Running", Some(0)));
    }
    life.runtime.unready = false;
    life.step();
    assert_eq!(life.runtime.log(), "recover start-3-1");
    let last = life.of("containerStatuses", 1, &["lastState", "terminated", "exitCode"]);
    assert_eq!((last.and_then(Value::as_int), life.restarts(1)), (Some(137), Some(1)));
}

#[test]
fn a_pod_of_which_nothing_is_left_begins_anew() {
    let mut life = initialized();
    life.forget(&[0, 1, 2, 3]);
    life.runtime.created = false;
    life.step();
    assert_eq!(life.runtime.log(), "recover create start-0-1");
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-1-1");
    life.runtime.exit(1, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-2-1 start-3-1");
    life.step();
    assert_eq!((&*life.runtime.log(), life.phase()), ("", "Running"));
}

#[test]
fn a_pod_that_may_run_once_has_failed_when_it_is_gone() {
    let mut life = Life::new(r#"{"restartPolicy":"Never","containers":[{"name":"c"}]}"#);
    life.step();
    life.forget(&[0]);
    life.runtime.created = false;
    let step = life.step();
    assert_eq!((&*life.runtime.log(), life.phase(), step.over), ("recover", "Failed", true));
    let ended = |state: &str| life.of("containerStatuses", 0, &[state, "terminated", "exitCode"]);
    assert_eq!(ended("state").and_then(Value::as_int), Some(137));
    assert_eq!(ended("lastState").and_then(Value::as_int), Some(137));
    assert_eq!(life.restarts(0), Some(1));
    assert!(life.step().status.is_none(), "said once");
}

#[test]
fn an_end_that_was_told_counts_though_the_runtime_forgot_it() {
    let mut life = Life::new(r#"{"restartPolicy":"OnFailure","containers":[{"name":"c"},{"name":"d"}]}"#);
    life.step();
    life.runtime.exit(0, 0, life.now);
    life.step();
    life.forget(&[0]);
    life.step();
    assert_eq!((&*life.runtime.log(), life.phase()), ("recover", "Running"));
    let ended = life.of("containerStatuses", 0, &["state", "terminated", "containerID"]);
    assert_eq!(ended.and_then(Value::as_str), Some("id-0"));
}

#[test]
fn a_pod_that_ended_before_its_first_init_container_ran_has_lost_it() {
    let mut life = Life::new(INIT);
    life.runtime.unready = true;
    life.step();
    life.delete(30);
    life.step();
    let state = |index: usize| life.of("initContainerStatuses", index, &["state"]).unwrap();
    assert_eq!(state(0).str_at(&["terminated", "reason"]), Some("ContainerStatusUnknown"));
    assert!(state(1).at(&["waiting"]).is_some());
    assert!(life.of("containerStatuses", 0, &["state", "waiting"]).is_some());
    assert_eq!(life.phase(), "Failed");
}

#[test]
fn a_pod_that_was_initialized_stays_so() {
    let spec = r#"{"initContainers":[{"name":"s","restartPolicy":"Always"}],"containers":[{"name":"c"}]}"#;
    let mut life = Life::new(spec);
    life.step();
    assert_eq!(life.says("Initialized"), Some("True"));
    // Both keep ending, and wait.
    for _ in 0..2 {
        life.now += 1000;
        life.runtime.exit(1, 1, life.now);
        life.step();
    }
    life.runtime.exit(0, 1, life.now);
    life.step();
    life.runtime.exit(0, 1, life.now);
    life.step();
    assert_eq!(life.says("Initialized"), Some("True"));
}

#[test]
fn a_resize_is_over_when_the_restarts_it_asks_for_are() {
    let spec = |cpu: &str| {
        format!(
            r#"{{"containers":[{{"name":"c","resizePolicy":[{{"resourceName":"cpu","restartPolicy":"RestartContainer"}}],"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}"#
        )
    };
    let mut life = Life::new(&spec("1"));
    life.step();
    let wanted = codec::json::parse(spec("2").as_bytes(), None).unwrap();
    life.tree.make_map().set("spec", wanted);
    life.tree.map_at(&["metadata"]).set("generation", Value::Int(2));
    life.runtime.log();
    life.runtime.holds_starts = true;
    let reasons =
        |step: &SyncResult| step.events.iter().map(|event| event.reason.clone()).collect::<Vec<_>>();
    assert_eq!(reasons(&life.step()), ["ResizeStarted", "Killing"]);
    assert!(reasons(&life.step()).is_empty(), "asked for once, and not over");
    assert_eq!(life.runtime.log(), "start-0-1");
    // Its old run has ended, and the next one begins.
    life.runtime.there.get_mut(&0).unwrap().attempt = 1;
    assert_eq!(reasons(&life.step()), ["ResizeCompleted"]);
}

#[test]
fn a_container_that_ran_and_was_lost_is_not_run_again_by_another_process() {
    for (policy, log) in [("Never", "recover"), ("OnFailure", "recover start-0-1")] {
        let spec = format!(r#"{{"restartPolicy":"{policy}","containers":[{{"name":"c"}},{{"name":"d"}}]}}"#);
        let mut life = Life::new(&spec);
        life.step();
        // As the API has it when the runtime lost the first one, and before it is started anew.
        let exit =
            Exit { reason: "ContainerStatusUnknown".into(), ..Exit::new(137, 4, 5, "id-0".to_owned()) };
        life.runtime.set(0, Container::Exited(Exit { message: LOST.to_owned(), ..exit }));
        life.runtime.unready = true;
        life.step();
        let ended = life.of("containerStatuses", 0, &["state", "terminated"]).unwrap().clone();
        assert_eq!((ended.str_at(&["message"]), ended.str_at(&["containerID"])), (Some(LOST), Some("id-0")));
        life.runtime.unready = false;
        life.forget(&[0]);
        life.step();
        assert_eq!((&*life.runtime.log(), life.phase()), (log, "Running"));
        if policy == "Never" {
            assert_eq!(life.of("containerStatuses", 0, &["state", "terminated"]), Some(&ended));
        }
    }
}

#[test]
fn a_container_that_never_ran_has_no_run_for_another_process_either() {
    let mut life = Life::new(PLAIN);
    life.runtime.unready = true;
    life.step();
    life.delete(30);
    life.step();
    let ended = life.of("containerStatuses", 0, &["state", "terminated"]).unwrap();
    assert_eq!((ended.str_at(&["message"]), ended.str_at(&["containerID"])), (Some(LOST), None));
    life.forget(&[]);
    // Its sandbox stays until the object goes.
    life.runtime.created = true;
    assert!(life.step().status.is_none(), "its conditions stay");
}
