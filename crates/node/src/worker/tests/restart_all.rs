//! One container's end restarts all.

use super::*;

const SPEC: &str = r#"{"restartPolicy":"Never",
    "initContainers":[{"name":"i"},{"name":"s","restartPolicy":"Always"}],
    "containers":[{"name":"a","restartPolicy":"Never","restartPolicyRules":[
        {"action":"Restart","exitCodes":{"operator":"In","values":[7]}},
        {"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[7,42]}}]},{"name":"b"}]}"#;

fn condition(life: &Life) -> Option<(String, String)> {
    let all = life.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let found = all.iter().find(|c| c.str_at(&["type"]) == Some("AllContainersRestarting"))?;
    let text = |name: &str| found.str_at(&[name]).unwrap_or("").to_owned();
    Some((text("status"), text("reason")))
}

fn status(life: &Life, list: &str, name: &str) -> Value {
    let all = life.tree.at(&["status", list]).and_then(Value::as_list).unwrap_or_default();
    all.iter().find(|c| c.str_at(&["name"]) == Some(name)).cloned().unwrap_or(Value::Null)
}

fn restarts(life: &Life) -> Vec<i64> {
    let of =
        |(list, name)| status(life, list, name).get("restartCount").and_then(Value::as_int).unwrap_or(-1);
    let (init, main) = ("initContainerStatuses", "containerStatuses");
    [(init, "i"), (init, "s"), (main, "a"), (main, "b")].into_iter().map(of).collect()
}

fn running() -> Life {
    let mut life = Life::new(SPEC);
    life.step();
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "create start-0-0 start-1-0 start-2-0 start-3-0");
    assert_eq!(condition(&life), Some(("False".to_owned(), String::new())));
    life
}

#[test]
fn an_end_that_asks_for_it_restarts_all_from_the_init_containers_on() {
    let mut life = running();
    life.runtime.exit(2, 42, life.now);
    let step = life.step();
    assert_eq!(life.runtime.log(), "kill-1 kill-3");
    let told: Vec<_> = step.events.iter().map(|e| (&*e.reason, &*e.message, e.container)).collect();
    assert_eq!(told, [("Killing", "killing", Some(1)), ("Killing", "killing", Some(3))]);
    assert_eq!(condition(&life), Some(("True".to_owned(), "RestartAllContainersStarted".to_owned())));
    assert_eq!(step.wake, Some(life.now), "it goes on at once");
    // Nothing starts before all have ended, and nobody is told twice.
    assert!(life.step().events.is_empty());
    assert_eq!(life.runtime.log(), "kill-1 kill-3");
    life.runtime.exit(1, 137, life.now);
    life.runtime.exit(3, 137, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-0-1");
    assert_eq!(condition(&life), Some(("False".to_owned(), String::new())));
    assert_eq!((life.phase(), restarts(&life)), ("Pending", vec![1, 1, 1, 1]));
    let b = status(&life, "containerStatuses", "b");
    assert_eq!(b.str_at(&["state", "waiting", "reason"]), Some("RestartingAllContainers"));
    assert_eq!(b.str_at(&["lastState", "terminated", "reason"]), Some("RestartingAllContainers"));
    assert_eq!(b.at(&["lastState", "terminated", "exitCode"]).and_then(Value::as_int), Some(137));
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-1-1 start-2-1 start-3-1");
    assert_eq!((life.phase(), restarts(&life)), ("Running", vec![1, 1, 1, 1]));
    let a = status(&life, "containerStatuses", "a");
    assert_eq!(a.str_at(&["lastState", "terminated", "reason"]), Some("RestartingAllContainers"));
    assert!(life.step().status.is_none());
    // And again, without back-off.
    life.runtime.exit(2, 42, life.now);
    life.step();
    life.runtime.exit(1, 137, life.now);
    life.runtime.exit(3, 137, life.now);
    life.runtime.log();
    life.step();
    assert_eq!((life.runtime.log().as_str(), restarts(&life)), ("start-0-2", vec![2, 2, 2, 2]));
}

#[test]
fn what_may_run_is_ended_before_all_are_restarted() {
    for may_run in [true, false] {
        let mut life = running();
        life.runtime.set(3, Container::Interrupted { may_run });
        life.runtime.exit(2, 42, life.now);
        life.step();
        assert_eq!(life.runtime.log(), if may_run { "kill-1 kill-3" } else { "kill-1" });
        life.runtime.exit(1, 137, life.now);
        life.step();
        assert_eq!(life.runtime.log(), if may_run { "kill-3" } else { "start-0-1" });
    }
}

#[test]
fn the_first_rule_that_matches_counts() {
    let mut life = running();
    life.runtime.exit(2, 7, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-2-1", "only that one");
    life.runtime.exit(2, 1, life.now);
    life.runtime.exit(3, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "stop-30", "no rule: it stays ended, and the sidecar goes");
    life.runtime.exit(1, 0, life.now);
    life.step();
    assert_eq!(life.phase(), "Failed");
    assert_eq!(condition(&life), Some(("False".to_owned(), "PodFailed".to_owned())));
}

#[test]
fn a_process_that_comes_later_goes_on_where_the_other_was() {
    let mut life = running();
    life.runtime.exit(2, 42, life.now);
    life.step();
    life.runtime.exit(1, 137, life.now);
    life.runtime.exit(3, 137, life.now);
    life.runtime.log();
    // All have ended, and none was begun.
    life.worker = PodWorker::new(&Pod::read(&life.tree));
    life.step();
    life.step();
    assert_eq!(life.runtime.log(), "recover start-0-1");
    // The init container runs: the others wait for it still.
    life.worker = PodWorker::new(&Pod::read(&life.tree));
    life.step();
    assert_eq!(life.runtime.log(), "recover");
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-1-1 start-2-1 start-3-1");
    assert_eq!((life.phase(), restarts(&life)), ("Running", vec![1, 1, 1, 1]));
}

#[test]
fn a_container_that_a_probe_ended_is_restarted_alone_unless_it_has_to_wait() {
    let rules = r#""restartPolicyRules":[{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[137]}}]"#;
    for (policy, alone) in [("Always", true), ("OnFailure", true), ("Never", false)] {
        let mut life = Life::new(&format!(
            r#"{{"restartPolicy":"Never","containers":[{{"name":"a","restartPolicy":"{policy}",{rules}}},{{"name":"b"}}]}}"#
        ));
        life.step();
        life.runtime.log();
        let probed = |life: &mut Life| {
            life.now += 2000;
            life.runtime.exit(0, 137, life.now);
            life.runtime.there.get_mut(&0).unwrap().replaced = true;
            life.step();
            life.runtime.log()
        };
        assert_eq!(probed(&mut life), if alone { "start-0-1" } else { "kill-1" }, "{policy}");
        if alone {
            assert_eq!(probed(&mut life), "start-0-2");
            assert_eq!(probed(&mut life), "kill-1", "it had to wait, and was seen to have ended");
        }
    }
}

#[test]
fn pods_without_such_a_rule_have_no_such_condition() {
    let mut life = Life::new(PLAIN);
    life.step();
    assert_eq!(condition(&life), None);
}
