//! What a pod asks for changes while it runs.

use super::*;

fn spec(resources: &str, policy: &str) -> String {
    format!(
        r#"{{"containers":[{{"name":"c","resizePolicy":[{policy}],"resources":{resources}}},{{"name":"d"}}]}}"#
    )
}

const ONE: &str = r#"{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}"#;
const TWO: &str = r#"{"requests":{"cpu":"2"},"limits":{"cpu":"2"}}"#;

impl Life {
    fn ask_for(&mut self, spec: &str) {
        let spec = codec::json::parse(spec.as_bytes(), None).unwrap();
        self.tree.make_map().set("spec", spec);
        let metadata = self.tree.map_at(&["metadata"]);
        let generation = metadata.get("generation").and_then(Value::as_int).unwrap();
        metadata.set("generation", Value::Int(generation + 1));
    }

    fn step_with(&mut self, fits: bool) -> SyncResult {
        let pod = Pod::read(&self.tree);
        let host = host(&self.host_ips);
        let message = "Node didn't have enough resource: cpu, requested: 2000, used: 0, capacity: 1000";
        let no = || Rejection { reason: "OutOfcpu".to_owned(), message: message.to_owned() };
        let admit = &mut |_: &Pod<'_>, _: Requests| if fits { Ok(()) } else { Err(no()) };
        let step = self.worker.step(&pod, &host, admit, &mut self.runtime, self.now);
        if let Some(status) = &step.status {
            self.tree.make_map().set("status", status.clone());
        }
        step
    }

    fn condition(&self, kind: &str) -> Option<&Value> {
        let all = self.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        all.iter().find(|c| c.str_at(&["type"]) == Some(kind))
    }

    fn given(&self) -> (&str, &str) {
        let all = self.tree.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap();
        let c = &all[0];
        let text = |path: &[&str]| c.at(path).and_then(Value::as_str).unwrap_or("");
        (text(&["allocatedResources", "cpu"]), text(&["resources", "limits", "cpu"]))
    }
}

fn events(step: &SyncResult) -> Vec<(&str, &str)> {
    step.events.iter().map(|event| (&*event.reason, &*event.message)).collect()
}

#[test]
fn what_fits_is_given_and_told() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    assert_eq!(life.given(), ("1", "1"));
    life.ask_for(&spec(TWO, ""));
    life.runtime.resizing = true;
    life.runtime.log();
    let step = life.step_with(true);
    let resources = r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"2"}}},{"name":"d","resources":{}}],"generation":2}"#;
    assert_eq!(events(&step), [("ResizeStarted", &*format!("Pod resize started: {resources}"))]);
    assert_eq!(life.given(), ("2", "1"), "allocated, and not there yet");
    assert_eq!(life.worker.requests.cpu_milli, 2000);
    let condition = life.condition("PodResizeInProgress").unwrap();
    assert_eq!(condition.get("observedGeneration").and_then(Value::as_int), Some(2));
    assert!(life.step_with(true).events.is_empty());
    life.runtime.resizing = false;
    let step = life.step_with(true);
    assert_eq!(events(&step), [("ResizeCompleted", &*format!("Pod resize completed: {resources}"))]);
    assert!(life.condition("PodResizeInProgress").is_none());
    assert_eq!(life.given(), ("2", "2"));
    assert_eq!(life.runtime.log(), "", "nothing was restarted");
}

#[test]
fn what_does_not_fit_waits_and_the_pod_keeps_what_it_has() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    let step = life.step_with(false);
    let (reason, message) = events(&step)[0];
    assert_eq!(reason, "ResizeDeferred");
    assert!(message.starts_with(r#"Pod resize OutOfcpu: {"containers":[{"name":"c","#), "{message}");
    let error = r#""generation":2,"error":"Node didn't have enough resource: cpu, requested: 2000, used: 0, capacity: 1000"}"#;
    assert!(message.ends_with(error), "{message}");
    assert_eq!((life.given(), life.worker.requests.cpu_milli), (("1", "1"), 1000));
    let condition = life.condition("PodResizePending").unwrap();
    assert_eq!(condition.str_at(&["reason"]), Some("Deferred"));
    assert!(life.worker.waits_for_room() && step.wake.is_some());
    let step = life.step_with(false);
    assert!(step.events.is_empty() && step.status.is_none(), "said once");
    // Another process goes by what the status says.
    life.worker = PodWorker::new(&Pod::read(&life.tree));
    assert!(life.step_with(false).events.is_empty());
    assert_eq!((life.given(), life.worker.requests.cpu_milli), (("1", "1"), 1000));
    // There is room now.
    let step = life.step_with(true);
    assert_eq!(events(&step).iter().map(|e| e.0).collect::<Vec<_>>(), ["ResizeStarted", "ResizeCompleted"]);
    assert_eq!(life.given(), ("2", "2"));
    assert!(life.condition("PodResizePending").is_none() && !life.worker.waits_for_room());
}

#[test]
fn a_resize_that_is_taken_back_is_forgotten() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    life.step_with(false);
    life.ask_for(&spec(ONE, ""));
    let step = life.step_with(false);
    assert!(step.events.is_empty());
    assert!(life.condition("PodResizePending").is_none());
}

#[test]
fn a_container_is_restarted_where_its_policy_says_so() {
    let cpu = r#"{"resourceName":"cpu","restartPolicy":"RestartContainer"}"#;
    let memory = r#"{"resourceName":"memory","restartPolicy":"RestartContainer"}"#;
    for (policy, log) in [(cpu, "start-0-1"), (memory, "")] {
        let mut life = Life::new(&spec(ONE, policy));
        life.step();
        life.runtime.log();
        life.ask_for(&spec(TWO, policy));
        let step = life.step_with(true);
        assert_eq!(life.runtime.log(), log);
        let told = step.events.iter().any(|e| e.message == "Container c resize requires restart");
        assert_eq!(told, !log.is_empty());
        life.step_with(true);
        assert_eq!((life.runtime.log().as_str(), life.given()), ("", ("2", "2")));
    }
}

#[test]
fn what_a_process_before_failed_to_set_is_tried_again() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.runtime.resize_error = Some("no".to_owned());
    let step = life.step_with(true);
    assert_eq!((step.events, step.wake), (Vec::new(), Some(life.now + 10_000)));
}

#[test]
fn a_failure_is_told_until_it_passes() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    life.runtime.resize_error = Some("no".to_owned());
    let step = life.step_with(true);
    assert_eq!(step.events.iter().map(|e| &*e.reason).collect::<Vec<_>>(), ["ResizeStarted", "ResizeError"]);
    let condition = life.condition("PodResizeInProgress").unwrap();
    assert_eq!((condition.str_at(&["reason"]), condition.str_at(&["message"])), (Some("Error"), Some("no")));
    assert!(step.wake.is_some() && life.step_with(true).events.is_empty());
    assert_eq!(life.given(), ("2", "1"), "the limit is still what it was");
    // Another process tries it again, and tells nobody.
    life.worker = PodWorker::new(&Pod::read(&life.tree));
    let step = life.step_with(true);
    assert_eq!(step.events.iter().map(|e| &*e.reason).collect::<Vec<_>>(), ["ResizeError"]);
    life.runtime.resize_error = None;
    let step = life.step_with(true);
    assert_eq!(step.events[0].reason, "ResizeCompleted");
}

#[test]
fn pods_have_resources_of_their_own() {
    let of = |cpu: &str| {
        format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}},"containers":[{{"name":"c"}}]}}"#)
    };
    let mut life = Life::new(&of("1"));
    life.step();
    assert_eq!(life.tree.str_at(&["status", "allocatedResources", "cpu"]), Some("1"));
    life.ask_for(&of("2"));
    life.step_with(false);
    assert_eq!(life.tree.str_at(&["status", "resources", "requests", "cpu"]), Some("1"));
    assert!(life.condition("PodResizePending").is_some());
    life.step_with(true);
    assert_eq!(life.tree.str_at(&["status", "allocatedResources", "cpu"]), Some("2"));
}

#[test]
fn what_a_pod_did_not_have_before_has_to_fit_too() {
    let of = |requests: &str, limits: &str| {
        format!(
            r#"{{"resources":{{"requests":{{"cpu":"1"{requests}}}{limits}}},"containers":[{{"name":"c"}}]}}"#
        )
    };
    for (requests, limits) in [(r#","memory":"1Gi""#, ""), ("", r#","limits":{"cpu":"2"}"#)] {
        let mut life = Life::new(&of("", ""));
        life.step();
        life.ask_for(&of(requests, limits));
        life.step_with(false);
        assert!(life.condition("PodResizePending").is_some(), "{requests}{limits}");
        assert_eq!(life.tree.at(&["status", "resources", "requests", "memory"]), None);
        assert_eq!(life.tree.at(&["status", "resources", "limits"]), None);
        let step = life.step_with(true);
        assert_eq!(step.events[0].reason, "ResizeStarted");
        assert!(life.step_with(true).events.is_empty(), "{requests}{limits}");
    }
}

#[test]
fn a_limit_of_the_pod_is_that_of_containers_without_one() {
    let of = |limit: &str| {
        let policy = r#""resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]"#;
        let own = r#""resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}"#;
        format!(
            r#"{{"resources":{{"requests":{{"cpu":"2"}},"limits":{{"cpu":"{limit}"}}}},
                "containers":[{{"name":"none",{policy}}},{{"name":"own",{policy},{own}}},{{"name":"stays"}}]}}"#
        )
    };
    let mut life = Life::new(&of("2"));
    life.step();
    life.runtime.log();
    for (limit, log) in [("3", "start-0-1"), ("2", "start-0-2"), ("2", "")] {
        life.ask_for(&of(limit));
        let step = life.step_with(true);
        assert_eq!(life.runtime.log(), log, "{limit}");
        let told = step.events.iter().any(|e| e.message == "Container none resize requires restart");
        assert_eq!(told, !log.is_empty());
        life.step_with(true);
        assert_eq!(life.runtime.log(), "");
        assert_eq!(life.tree.str_at(&["status", "resources", "limits", "cpu"]), Some(limit));
    }
}

#[test]
fn a_resize_that_failed_can_be_taken_back() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    life.runtime.resize_error = Some("no".to_owned());
    life.step_with(true);
    life.ask_for(&spec(ONE, ""));
    life.runtime.resize_error = None;
    let step = life.step_with(true);
    assert_eq!(events(&step).iter().map(|e| e.0).collect::<Vec<_>>(), ["ResizeStarted", "ResizeCompleted"]);
    assert!(events(&step)[0].1.ends_with(r#""generation":3}"#));
    assert_eq!(life.given(), ("1", "1"));
    assert!(life.condition("PodResizeInProgress").is_none());
    assert!(life.step_with(true).events.is_empty());
}

#[test]
fn a_status_that_is_read_late_begins_no_resize() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    let before = life.tree.clone();
    assert_eq!(life.step_with(true).events.len(), 2);
    life.tree = before;
    assert!(life.step_with(true).events.is_empty());
    assert_eq!(life.given(), ("2", "2"));
}

#[test]
fn a_container_that_was_not_started_keeps_what_it_was_admitted_with() {
    for (at_first, had) in [(spec(ONE, ""), Some("1")), (spec("{}", ""), None)] {
        let mut life = Life::new(&at_first);
        life.runtime.unready = true;
        life.step();
        assert_eq!(life.tree.str_at(&["status", "phase"]), Some("Pending"));
        life.ask_for(&spec(TWO, ""));
        let step = life.step_with(false);
        assert_eq!(events(&step)[0].0, "ResizeDeferred");
        assert_eq!(life.condition("PodResizePending").and_then(|c| c.str_at(&["reason"])), Some("Deferred"));
        let cpu_milli = if had.is_some() { 1000 } else { 0 };
        assert_eq!(life.worker.requests.cpu_milli, cpu_milli, "{at_first}");
        life.runtime.unready = false;
        life.step_with(false);
        assert_eq!(life.given(), (had.unwrap_or(""), had.unwrap_or("")), "it starts with what it has");
        assert!(life.condition("PodResizePending").is_some());
        life.step_with(true);
        assert_eq!(life.given(), ("2", "2"));
        assert!(life.condition("PodResizePending").is_none());
    }
}

#[test]
fn a_resize_before_the_start_that_fits_is_given() {
    let mut life = Life::new(&spec(ONE, ""));
    life.runtime.unready = true;
    life.step();
    life.ask_for(&spec(TWO, ""));
    let step = life.step_with(true);
    assert_eq!(events(&step).iter().map(|e| e.0).collect::<Vec<_>>(), ["ResizeStarted", "ResizeCompleted"]);
    assert_eq!(life.worker.requests.cpu_milli, 2000);
    assert!(life.step_with(true).events.is_empty());
    life.runtime.unready = false;
    life.step_with(true);
    assert_eq!(life.given(), ("2", "2"));
}

impl Life {
    /// Of a node that writes down what it gives.
    fn recorded(spec: &str) -> Life {
        let mut life = Life::new(spec);
        life.runtime.records = Some(Records::default());
        life
    }

    /// The process is killed, and another one comes.
    fn killed(&mut self) {
        self.worker = PodWorker::new(&Pod::read(&self.tree));
        self.runtime.log();
        self.runtime.events.clear();
    }
}

fn reasons(step: &SyncResult) -> Vec<&str> {
    step.events.iter().map(|event| &*event.reason).collect()
}

#[test]
fn what_was_given_is_given_after_a_kill_though_there_is_no_room_any_more() {
    for told in [true, false] {
        let mut life = Life::recorded(&spec(ONE, ""));
        life.step();
        life.ask_for(&spec(TWO, ""));
        let before = life.tree.clone();
        life.runtime.resizing = true;
        life.step_with(true);
        assert!(life.condition("PodResizeInProgress").is_some());
        if !told {
            // Nor did the API hear of it.
            life.tree = before;
        }
        life.killed();
        let step = life.step_with(false);
        assert_eq!(reasons(&step), [] as [&str; 0]);
        assert_eq!(life.worker.requests.cpu_milli, 2000);
        assert_eq!(life.given(), ("2", "1"), "allocated, and not known to be there");
        assert!(life.condition("PodResizePending").is_none());
        let condition = life.condition("PodResizeInProgress").unwrap();
        assert_eq!(condition.get("observedGeneration").and_then(Value::as_int), Some(2));
        life.runtime.resizing = false;
        assert_eq!(reasons(&life.step_with(false)), ["ResizeCompleted"]);
        assert_eq!(life.runtime.log(), "recover");
        assert_eq!(life.given(), ("2", "2"));
        assert!(life.step_with(false).events.is_empty());
    }
}

#[test]
fn what_waits_for_room_waits_after_a_kill() {
    let mut life = Life::recorded(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    life.step_with(false);
    let since = life.condition("PodResizePending").unwrap().clone();
    life.now += 60_000;
    life.killed();
    let step = life.step_with(false);
    assert!(step.events.is_empty() && step.status.is_none() && step.wake.is_some());
    assert_eq!(life.condition("PodResizePending"), Some(&since));
    // Not even for a moment does the runtime hear of what it asks for.
    let recovered = life.runtime.recovered.take().unwrap();
    assert_eq!(
        recovered.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0].str_at(&[
            "resources",
            "limits",
            "cpu"
        ]),
        Some("1")
    );
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted", "ResizeCompleted"]);
    assert_eq!(life.given(), ("2", "2"));
}

#[test]
fn a_container_that_was_not_started_keeps_what_it_was_admitted_with_after_a_kill() {
    for at_first in [spec(ONE, ""), spec("{}", "")] {
        let mut life = Life::recorded(&at_first);
        life.runtime.unready = true;
        life.step();
        // It changes while nobody looks.
        life.ask_for(&spec(TWO, ""));
        life.killed();
        let step = life.step_with(false);
        assert_eq!(reasons(&step), ["ResizeDeferred"]);
        let had = if at_first == spec(ONE, "") { 1000 } else { 0 };
        assert_eq!(life.worker.requests.cpu_milli, had);
    }
}

#[test]
fn a_pod_whose_admission_nobody_heard_of_comes_with_what_it_was_given() {
    let mut life = Life::recorded(&spec(ONE, ""));
    let before = life.tree.clone();
    life.step();
    life.tree = before;
    life.ask_for(&spec(TWO, ""));
    life.killed();
    let step = life.step_with(true);
    assert_eq!((life.worker.requests.cpu_milli, step.wake), (1000, Some(life.now)));
    assert_eq!(reasons(&life.step_with(false)), ["ResizeDeferred"]);
}

#[test]
fn a_container_is_restarted_for_a_resize_once_whatever_process_does_it() {
    let policy = r#"{"resourceName":"cpu","restartPolicy":"RestartContainer"}"#;
    for restarted in [false, true] {
        let mut life = Life::recorded(&spec(ONE, policy));
        life.step();
        life.ask_for(&spec(TWO, policy));
        let (tree, before) = (life.tree.clone(), life.runtime.there.clone());
        life.step_with(true);
        assert_eq!(life.runtime.records.as_ref().unwrap().last.as_ref().unwrap().restarts["c"], 0);
        // What the API knows is of before; the restart was asked for, or not even that.
        life.tree = tree;
        if !restarted {
            life.runtime.there = before;
        }
        life.killed();
        let step = life.step_with(true);
        assert_eq!(reasons(&step).contains(&"Killing"), !restarted);
        life.step_with(true);
        assert_eq!(life.runtime.log(), if restarted { "recover" } else { "recover start-0-1" });
        life.step_with(true);
        assert_eq!(life.given(), ("2", "2"));
        assert!(life.condition("PodResizeInProgress").is_none());
    }
}

#[test]
fn without_a_record_the_status_tells_what_was_given() {
    let mut life = Life::recorded(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    life.runtime.resizing = true;
    life.step_with(true);
    assert_eq!(life.given(), ("2", "1"));
    // The file is broken.
    life.runtime.records = Some(Records::default());
    life.killed();
    life.step_with(false);
    assert_eq!((life.worker.requests.cpu_milli, life.given()), (2000, ("2", "1")));
    assert!(life.runtime.records.as_ref().unwrap().last.is_some(), "it is written anew");
    // What it asks for by now is something else: it keeps what was allocated, with the limit that goes with it.
    life.runtime.records = Some(Records::default());
    life.ask_for(&spec(r#"{"requests":{"cpu":"3"},"limits":{"cpu":"3"}}"#, ""));
    life.killed();
    assert_eq!(reasons(&life.step_with(false)), ["ResizeDeferred"]);
    let given = life.runtime.records.as_ref().unwrap().last.as_ref().unwrap().containers["c"].clone();
    assert_eq!(given, codec::json::parse(TWO.as_bytes(), None).ok());
}

#[test]
fn a_pod_that_is_over_and_has_no_record_gets_none() {
    // It was rejected, or ended under a version that wrote none.
    for phase in ["Failed", "Succeeded"] {
        let mut life = Life::recorded(&spec(ONE, ""));
        let status = format!(r#"{{"phase":"{phase}","startTime":"2026-01-01T00:00:00Z"}}"#);
        life.tree.make_map().set("status", codec::json::parse(status.as_bytes(), None).unwrap());
        life.step();
        assert!(life.runtime.records.as_ref().unwrap().last.is_none());
    }
}

#[test]
fn a_pod_that_is_over_shows_what_it_was_given_whatever_process_says_so() {
    for recorded in [true, false] {
        let mut life = Life::recorded(&spec(ONE, ""));
        life.step();
        life.ask_for(&spec(TWO, ""));
        life.step_with(false);
        life.tree.map_at(&["status"]).set("phase", "Failed");
        for index in 0..2 {
            life.runtime.exit(index, 1, life.now);
        }
        life.step_with(false);
        if !recorded {
            life.runtime.records = Some(Records::default());
        }
        life.killed();
        let step = life.step_with(false);
        assert_eq!((life.given(), step.over), (("1", "1"), true));
    }
}

#[test]
fn what_cannot_be_written_down_is_not_given() {
    let mut life = Life::recorded(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    life.runtime.records.as_mut().unwrap().full = true;
    let step = life.step_with(true);
    assert!(step.events.is_empty() && step.wake.is_some());
    assert_eq!((life.given(), life.worker.requests.cpu_milli), (("1", "1"), 1000));
    life.runtime.records.as_mut().unwrap().full = false;
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted", "ResizeCompleted"]);
}

#[test]
fn a_node_that_is_short_of_something_gives_nothing_more() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    let message = "The node had condition: [MemoryPressure]. ".to_owned();
    life.runtime.refusal = Some(Rejection { reason: "Evicted".to_owned(), message: message.clone() });
    assert_eq!(reasons(&life.step_with(true)), ["ResizeDeferred"]);
    let pending = life.condition("PodResizePending").unwrap();
    assert_eq!((pending.str_at(&["message"]), life.given()), (Some(&*message), ("1", "1")));
    life.runtime.refusal = None;
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted", "ResizeCompleted"]);
}

#[test]
fn room_goes_first_to_those_that_ask_for_none_then_by_priority_class_and_time() {
    let waiting = |priority: i64, class: &str, cpu: &str, now: Millis| {
        let mut life = Life::new(&spec(ONE, ""));
        life.tree.map_at(&["status"]).set("qosClass", class.to_owned());
        life.tree.map_at(&["spec"]).set("priority", Value::Int(priority));
        life.worker = PodWorker::new(&Pod::read(&life.tree));
        life.now = now;
        life.step();
        life.ask_for(&spec(&format!(r#"{{"requests":{{"cpu":"{cpu}"}},"limits":{{"cpu":"3"}}}}"#), ""));
        life.step_with(false);
        assert!(life.worker.waits_for_room());
        life.worker
    };
    let order = [
        waiting(0, "Burstable", "1", 9000),
        waiting(7, "Burstable", "2", 8000),
        waiting(5, "Guaranteed", "2", 7000),
        waiting(5, "Burstable", "2", 3000),
        waiting(5, "Burstable", "2", 4000),
    ];
    assert!(order.is_sorted_by(|a, b| a.room_order() < b.room_order()));
}

#[test]
fn a_run_that_began_with_something_else_is_restarted_before_the_resize_is_over() {
    let policy = r#"{"resourceName":"cpu","restartPolicy":"RestartContainer"}"#;
    let mut life = Life::new(&spec(ONE, policy));
    life.step();
    // When it was given more, its image was being pulled, for a run with less.
    life.runtime.set(0, Container::Created);
    life.ask_for(&spec(TWO, policy));
    life.runtime.log();
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted"]);
    life.runtime.set(0, Container::Running { since: life.now, started: true, ready: true });
    life.runtime.there.get_mut(&0).unwrap().needs_restart = true;
    life.runtime.holds_starts = true;
    let step = life.step_with(true);
    assert_eq!(reasons(&step), ["Killing"]);
    assert_eq!(life.runtime.log(), "start-0-1");
    assert_eq!(life.given(), ("2", "1"));
    assert!(reasons(&life.step_with(true)).is_empty(), "not over");
    life.runtime.there.get_mut(&0).unwrap().attempt = 1;
    assert_eq!(reasons(&life.step_with(true)), ["ResizeCompleted"]);
    assert_eq!((life.runtime.log().as_str(), life.given()), ("", ("2", "2")));
}

#[test]
fn a_resize_is_not_over_while_the_successor_of_a_run_is_on_its_way() {
    let policy = r#"{"resourceName":"cpu","restartPolicy":"RestartContainer"}"#;
    let mut life = Life::new(&spec(ONE, policy));
    life.step();
    life.runtime.holds_starts = true;
    life.ask_for(&spec(TWO, policy));
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted", "Killing"]);
    // What the run has that is being ended.
    life.ask_for(&spec(ONE, policy));
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted"]);
    life.runtime.there.get_mut(&0).unwrap().attempt = 1;
    assert_eq!(reasons(&life.step_with(true)), ["ResizeCompleted"]);
}

#[test]
fn what_is_infeasible_is_said_and_waits_for_no_room() {
    let mut life = Life::new(&spec(ONE, ""));
    life.step();
    life.ask_for(&spec(TWO, ""));
    life.runtime.infeasible = Some("not with swap");
    let step = life.step_with(true);
    let (reason, message) = events(&step)[0];
    assert_eq!(reason, "ResizeInfeasible");
    assert!(message.starts_with(r#"Pod resize Infeasible: {"containers":["#), "{message}");
    assert!(message.ends_with(r#""generation":2,"error":"not with swap"}"#), "{message}");
    let condition = life.condition("PodResizePending").unwrap();
    let told = (condition.str_at(&["reason"]), condition.str_at(&["message"]));
    assert_eq!(told, (Some("Infeasible"), Some("not with swap")));
    assert_eq!((life.given(), step.wake), (("1", "1"), None));
    // Room is nothing that it waits for.
    life.worker.retry_resize();
    assert!(!life.worker.waits_for_room());
    life.now += 1_000_000;
    assert!(!life.worker.queue_resize(&Pod::read(&life.tree), &mut life.runtime, life.now));
    // Another process tries it once, and tells nobody.
    life.killed();
    let step = life.step_with(true);
    assert!(step.events.is_empty() && step.status.is_none());
    // It asks for something else.
    life.ask_for(&spec(TWO, ""));
    assert!(life.worker.queue_resize(&Pod::read(&life.tree), &mut life.runtime, life.now));
    assert!(life.worker.waits_for_room());
    assert_eq!(reasons(&life.step_with(true)), ["ResizeInfeasible"]);
    life.runtime.infeasible = None;
    assert_eq!(reasons(&life.step_with(false)), ["ResizeDeferred"]);
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted", "ResizeCompleted"]);
}

#[test]
fn a_restart_that_is_on_its_way_gets_what_is_given_meanwhile() {
    let policy = r#"{"resourceName":"cpu","restartPolicy":"RestartContainer"}"#;
    let mut life = Life::new(&spec(ONE, policy));
    life.step();
    life.runtime.log();
    life.runtime.holds_starts = true;
    life.ask_for(&spec(TWO, policy));
    life.step_with(true);
    assert_eq!(life.runtime.log(), "start-0-1");
    life.ask_for(&spec(r#"{"requests":{"cpu":"3"},"limits":{"cpu":"3"}}"#, policy));
    assert_eq!(reasons(&life.step_with(true)), ["ResizeStarted"]);
    assert_eq!(life.runtime.log(), "");
    life.runtime.there.get_mut(&0).unwrap().attempt = 1;
    assert_eq!(reasons(&life.step_with(true)), ["ResizeCompleted"]);
}
