//! The life of a pod step by step, on a runtime the test moves by hand.

mod as_kubelet;
mod interrupted;
mod resize;
mod restart_all;

use std::collections::BTreeMap;

use object::Value;

use super::*;
use crate::allocation::Allocation;
use crate::container_runtime::{Exit, Health, Held, Running, Wake};
use crate::pod::Pod;

/// Does what it is told and notes it.
#[derive(Default)]
struct ByHand {
    there: BTreeMap<usize, Running>,
    created: bool,
    log: Vec<String>,
    events: Vec<PodEvent>,
    containers: usize,
    /// The missing image has come.
    found: bool,
    evicted: Option<Evicted>,
    refusal: Option<Rejection>,
    infeasible: Option<&'static str>,
    resizing: bool,
    resize_error: Option<String>,
    outlived: Vec<usize>,
    starts_again: Vec<usize>,
    /// Its sandbox is still being made.
    unready: bool,
    /// What is to be started waits for something.
    holds_starts: bool,
    user: Option<Box<crate::container_runtime::LinuxUser>>,
    /// As which object the pod of another process was taken over.
    recovered: Option<Value>,
    /// What is written down of what the pod was given; `None`: nothing ever is.
    records: Option<Records>,
}

#[derive(Default)]
struct Records {
    last: Option<Allocation>,
    full: bool,
}

impl ByHand {
    fn set(&mut self, index: usize, state: Container) {
        self.there.get_mut(&index).expect("it was started").state = state;
    }
    fn exit(&mut self, index: usize, code: i32, at: Millis) {
        self.set(index, Container::Exited(Exit::new(code, at, at, format!("id-{index}"))));
    }
    fn log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }
}

impl Runtime for ByHand {
    fn keeps_allocations(&self) -> bool {
        self.records.is_some()
    }
    fn allocated(&self, _: &Pod<'_>) -> Option<Allocation> {
        self.records.as_ref()?.last.clone()
    }
    fn allocate(&mut self, _: &Pod<'_>, to: &Allocation) -> Result<(), String> {
        let Some(records) = &mut self.records else { return Ok(()) };
        if records.full {
            return Err("No space left on device".to_owned());
        }
        records.last = Some(to.clone());
        Ok(())
    }
    fn wake_by(&mut self, _: Wake) {}
    fn list(&self) -> Vec<Held> {
        Vec::new()
    }
    fn take_events(&mut self, _: u128) -> Vec<PodEvent> {
        std::mem::take(&mut self.events)
    }
    fn node_changed(&mut self, _: &Value) -> Health {
        Health::Ready
    }
    fn refuses(&self, _: &Pod<'_>) -> Option<Rejection> {
        self.refusal.clone()
    }
    fn infeasible(&self, _: &Pod<'_>, _: &Pod<'_>) -> Option<String> {
        self.infeasible.map(str::to_owned)
    }
    fn recover(&mut self, pod: &Pod<'_>) {
        self.log.push("recover".to_owned());
        self.recovered = Some(pod.tree.clone());
    }
    fn look(&mut self, _: &Pod<'_>, _: Millis) -> Option<Sandbox> {
        let containers = (0..self.containers).map(|index| self.there.get(&index).cloned()).collect();
        self.created.then(|| Sandbox {
            ready: !self.unready,
            ips: vec!["10.0.0.9".to_owned()],
            containers,
            next: None,
            evicted: self.evicted.clone(),
            resizing: self.resizing,
            resize_error: self.resize_error.clone(),
            outlived: self.outlived.clone(),
            starts_again: self.starts_again.clone(),
        })
    }
    fn create(&mut self, _: &Pod<'_>, _: Millis) {
        self.created = true;
        self.log.push("create".to_owned());
    }
    fn start(&mut self, pod: &Pod<'_>, container: usize, attempt: u32, now: Millis) {
        if self.holds_starts {
            self.there.get_mut(&container).into_iter().for_each(|there| there.needs_restart = false);
            return self.log.push(format!("start-{container}-{attempt}"));
        }
        self.outlived.retain(|index| *index != container);
        self.starts_again.retain(|index| *index != container);
        let last = self.there.remove(&container).and_then(|c| match c.state {
            Container::Exited(exit) => Some(exit),
            _ => c.last,
        });
        let (id, image_id) = (format!("id-{container}"), String::new());
        let image = pod.containers[container].image;
        let state = if image.starts_with("missing") && !self.found {
            let volume_image = image.strip_prefix("missing-volume=").map(str::to_owned);
            let (reason, message) = ("ErrImagePull".into(), "not found".to_owned());
            Container::Failed(StartError { reason, message, at: now, volume_image })
        } else {
            self.log.push(format!("start-{container}-{attempt}"));
            self.events.push(PodEvent {
                severity: Severity::Normal,
                reason: "Started".to_owned(),
                message: String::new(),
                container: Some(container),
            });
            Container::Running { since: now, started: true, ready: true }
        };
        self.there.insert(
            container,
            Running {
                id,
                image_id,
                image: String::new(),
                outdated: false,
                needs_restart: false,
                user: self.user.clone(),
                attempt,
                state,
                last,
                replaced: false,
                hook_error: None,
            },
        );
    }
    fn kill(&mut self, _: &Pod<'_>, container: usize, _: Millis) {
        self.log.push(format!("kill-{container}"));
    }
    fn stop(&mut self, _: &Pod<'_>, grace_seconds: i64, _: Millis) {
        self.log.push(format!("stop-{grace_seconds}"));
    }
    fn release(&mut self, uid: u128) -> bool {
        self.remove(uid);
        true
    }
    fn remove(&mut self, _: u128) {
        self.created = false;
        self.there.clear();
    }
}

/// A pod, its worker and its runtime.
struct Life {
    tree: Value,
    worker: PodWorker,
    runtime: ByHand,
    now: Millis,
    host_ips: Vec<String>,
}

const HOST_IP: &str = "172.16.0.1";

fn host(ips: &[String]) -> Host<'_> {
    Host { ips, recursive_read_only: true, unprepared: None, may_resize: true }
}

impl Life {
    fn new(spec: &str) -> Life {
        let text = format!(
            r#"{{"metadata":{{"name":"p","namespace":"d","uid":"u","generation":1}},"spec":{spec},"status":{{"phase":"Pending"}}}}"#
        );
        let tree = codec::json::parse(text.as_bytes(), None).expect("the tests write JSON");
        let (worker, containers) = {
            let pod = Pod::read(&tree);
            (PodWorker::new(&pod), pod.containers.len())
        };
        let runtime = ByHand { containers, ..ByHand::default() };
        Life { tree, worker, runtime, now: 1_000_000, host_ips: vec![HOST_IP.to_owned()] }
    }

    /// Takes a step, and lets the API have its status.
    fn step(&mut self) -> SyncResult {
        let mut step = self.step_unwritten();
        if let Some(status) = step.status.take() {
            self.tree.make_map().set("status", status);
            step.status = Some(Value::Null);
            if step.over {
                self.runtime.remove(0);
            }
        }
        step
    }

    fn step_unwritten(&mut self) -> SyncResult {
        let pod = Pod::read(&self.tree);
        let host = host(&self.host_ips);
        self.worker.step(&pod, &host, &mut |_, _| Ok(()), &mut self.runtime, self.now)
    }

    fn phase(&self) -> &str {
        self.tree.str_at(&["status", "phase"]).unwrap_or("")
    }
    fn delete(&mut self, grace: i64) {
        let metadata = self.tree.map_at(&["metadata"]);
        metadata.set("deletionTimestamp", "2026-01-01T00:00:00Z");
        metadata.set("deletionGracePeriodSeconds", Value::Int(grace));
    }
}

const PLAIN: &str = r#"{"restartPolicy":"Always","containers":[{"name":"b"},{"name":"a"}]}"#;

#[test]
fn a_pod_starts_once_and_then_nothing_is_written() {
    let mut life = Life::new(PLAIN);
    let step = life.step();
    assert_eq!(life.runtime.log(), "create start-0-0 start-1-0");
    assert!(step.status.is_some() && !step.delete && !step.over);
    assert_eq!(step.events.iter().map(|e| &*e.reason).collect::<Vec<_>>(), ["Started", "Started"]);
    assert_eq!(life.phase(), "Running");
    let statuses = life.tree.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap();
    let names: Vec<_> = statuses.iter().map(|s| s.str_at(&["name"]).unwrap()).collect();
    assert_eq!(names, ["a", "b"], "sorted by name, as kubelet does");
    life.now += 3_600_000;
    let step = life.step();
    assert!(step.status.is_none() && step.events.is_empty() && step.wake.is_none());
    assert_eq!(life.runtime.log(), "");
}

#[test]
fn a_deleted_pod_is_stopped_once_reported_and_then_deleted() {
    let mut life = Life::new(PLAIN);
    life.step();
    life.runtime.log();
    life.delete(30);
    let step = life.step();
    assert_eq!(life.runtime.log(), "stop-30");
    assert_eq!(step.events.len(), 2);
    assert!(!step.delete);
    let step = life.step();
    assert!(life.runtime.log().is_empty() && step.events.is_empty());
    // A shorter grace is passed on.
    life.delete(1);
    life.step();
    assert_eq!(life.runtime.log(), "stop-1");
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "");
    life.runtime.exit(1, 137, life.now);
    let step = life.step();
    assert!(step.delete && step.over && step.status.is_some());
    assert_eq!(life.phase(), "Failed");
    assert_eq!(life.runtime.log(), "", "nothing is restarted");
    // Should the deletion have failed, it is asked for again, and nothing else.
    let step = life.step();
    assert!(step.delete && step.status.is_none());
}

#[test]
fn an_unwritten_status_is_retried() {
    let mut life = Life::new(r#"{"restartPolicy":"Never","containers":[{"name":"c"}]}"#);
    life.step();
    life.runtime.exit(0, 4, life.now);
    let first = life.step_unwritten();
    let again = life.step_unwritten();
    assert_eq!(first.status, again.status);
    assert_eq!(again.status.unwrap().str_at(&["phase"]), Some("Failed"));
}

#[test]
fn a_pod_deleted_before_it_ever_ran_has_failed() {
    let mut life = Life::new(PLAIN);
    life.delete(30);
    let step = life.step();
    assert!(step.delete);
    assert_eq!(life.runtime.log(), "");
    assert_eq!(life.phase(), "Failed");
}

#[test]
fn restart_policies_decide_what_comes_after_an_exit() {
    for (policy, code, log, phase) in [
        ("Always", 0, "start-0-1", "Running"),
        ("Always", 1, "start-0-1", "Running"),
        ("OnFailure", 0, "", "Succeeded"),
        ("OnFailure", 1, "start-0-1", "Running"),
        ("Never", 0, "", "Succeeded"),
        ("Never", 1, "", "Failed"),
    ] {
        let mut life = Life::new(&format!(r#"{{"restartPolicy":"{policy}","containers":[{{"name":"c"}}]}}"#));
        life.step();
        life.runtime.log();
        life.runtime.exit(0, code, life.now);
        life.step();
        assert_eq!((life.runtime.log().as_str(), life.phase()), (log, phase), "{policy} {code}");
    }
}

#[test]
fn a_containers_own_rules_come_first() {
    let rules = r#"[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]"#;
    let spec = format!(
        r#"{{"restartPolicy":"Always","containers":[{{"name":"c","restartPolicy":"Never","restartPolicyRules":{rules}}}]}}"#
    );
    let mut life = Life::new(&spec);
    life.step();
    life.runtime.log();
    life.runtime.exit(0, 42, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-0-1");
    life.runtime.exit(0, 1, life.now);
    life.step();
    assert_eq!(life.phase(), "Failed");
}

#[test]
fn a_container_that_keeps_failing_waits_and_says_so_once() {
    let mut life = Life::new(r#"{"containers":[{"name":"c"}]}"#);
    life.step();
    life.runtime.exit(0, 1, life.now);
    life.step();
    life.runtime.exit(0, 1, life.now);
    life.runtime.log();
    let step = life.step();
    assert_eq!(step.wake, Some(life.now + 10_000));
    assert_eq!(step.events.len(), 1);
    assert_eq!(step.events[0].message, "Back-off restarting failed container c in pod p_d(u)");
    let waiting = life.tree.at(&["status", "containerStatuses"]).unwrap().as_list().unwrap()[0]
        .at(&["state", "waiting"]);
    assert_eq!(waiting.unwrap().str_at(&["reason"]), Some("CrashLoopBackOff"));
    assert!(life.step().events.is_empty());
    life.now += 10_000;
    life.step();
    assert_eq!(life.runtime.log(), "start-0-2");
}

#[test]
fn a_container_that_keeps_failing_is_started_at_once_with_another_image() {
    let mut life = Life::new(r#"{"containers":[{"name":"c","image":"broken"}]}"#);
    life.step();
    for _ in 0..2 {
        life.now += 1000;
        life.runtime.exit(0, 1, life.now);
        life.step();
    }
    life.runtime.log();
    assert!(life.step().wake.is_some());
    assert_eq!(life.runtime.log(), "");
    let Some(Value::List(containers)) = life.tree.map_at(&["spec"]).get_mut("containers") else { panic!() };
    containers[0].make_map().set("image", "mended");
    life.step();
    assert_eq!(life.runtime.log(), "start-0-2");
    // And if that was no remedy, the waits begin anew.
    life.runtime.exit(0, 1, life.now);
    assert_eq!(life.step().wake, Some(life.now + 10_000));
}

#[test]
fn init_containers_run_one_by_one_and_once() {
    let spec = r#"{"initContainers":[{"name":"i"},{"name":"s","restartPolicy":"Always"},{"name":"j"}],"containers":[{"name":"c"}]}"#;
    let mut life = Life::new(spec);
    life.step();
    assert_eq!(life.runtime.log(), "create start-0-0");
    assert_eq!(life.phase(), "Pending");
    life.runtime.exit(0, 1, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-0-1");
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-1-0 start-2-0");
    life.runtime.exit(2, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-3-0");
    assert_eq!(life.phase(), "Running");
    // The sidecar is kept up, and its fall is no fall of the pod.
    life.runtime.exit(1, 1, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-1-1");
    assert_eq!(life.phase(), "Running");
}

#[test]
fn init_containers_run_again_in_another_sandbox() {
    let spec = r#"{"initContainers":[{"name":"i"},{"name":"j"}],"containers":[{"name":"c"},{"name":"d"}]}"#;
    let mut life = Life::new(spec);
    for index in 0..2 {
        life.step();
        life.runtime.exit(index, 0, life.now);
    }
    life.step();
    assert_eq!(life.runtime.log(), "create start-0-0 start-1-0 start-2-0 start-3-0");
    // The machine was rebooted.
    for index in 2..4 {
        life.runtime.exit(index, 255, life.now);
    }
    life.runtime.outlived = vec![0, 1, 2, 3];
    life.step();
    assert_eq!(life.runtime.log(), "start-0-1");
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-1-1");
    life.runtime.exit(1, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-2-1 start-3-1");
    life.step();
    assert_eq!(life.runtime.log(), "", "once");
}

#[test]
fn another_sandbox_starts_what_it_is_to_whatever_the_policy() {
    let spec = r#"{"restartPolicy":"Always","containers":[{"name":"c","restartPolicy":"Never"}]}"#;
    let mut life = Life::new(spec);
    life.step();
    assert_eq!(life.runtime.log(), "create start-0-0");
    // It was ended with the sandbox before, and the next one is being made.
    life.runtime.exit(0, 137, life.now);
    (life.runtime.unready, life.runtime.starts_again) = (true, vec![0]);
    let step = life.step();
    assert_eq!((&*life.runtime.log(), life.phase(), step.over), ("", "Running", false));
    (life.runtime.unready, life.runtime.outlived) = (false, vec![0]);
    life.step();
    assert_eq!((&*life.runtime.log(), life.phase()), ("start-0-1", "Running"));
    life.runtime.exit(0, 0, life.now);
    let step = life.step();
    assert_eq!((&*life.runtime.log(), life.phase(), step.over), ("", "Succeeded", true));
}

#[test]
fn a_pod_past_its_active_deadline_fails() {
    let mut life = Life::new(
        r#"{"activeDeadlineSeconds":5,"terminationGracePeriodSeconds":7,"containers":[{"name":"c"}]}"#,
    );
    let step = life.step();
    assert_eq!(step.wake, Some(life.now + 5000));
    life.runtime.log();
    life.now += 5000;
    life.step();
    assert_eq!(life.runtime.log(), "stop-7");
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.phase(), "Failed");
    assert_eq!(life.tree.str_at(&["status", "reason"]), Some("DeadlineExceeded"));
}

fn not_started() -> Container {
    Container::Running { since: 0, started: false, ready: false }
}

#[test]
fn what_all_ended_waits_for_the_last_sidecar_to_be_up_again() {
    let spec = r#"{"restartPolicy":"Always","initContainers":[{"name":"i"},{"name":"s","restartPolicy":"Always"}],
        "containers":[{"name":"c"},{"name":"d"}]}"#;
    let mut life = Life::new(spec);
    life.step();
    life.runtime.exit(0, 0, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "create start-0-0 start-1-0 start-2-0 start-3-0");
    // One of them goes on: the other is in nobody's way.
    life.runtime.set(1, not_started());
    life.runtime.exit(2, 1, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-2-1");
    life.now += 60_000;
    life.runtime.exit(2, 1, life.now);
    life.runtime.exit(3, 1, life.now);
    life.now += 60_000;
    life.step();
    assert_eq!((&*life.runtime.log(), life.phase()), ("", "Running"));
    life.runtime.set(1, Container::Running { since: 0, started: true, ready: true });
    life.step();
    assert_eq!(life.runtime.log(), "start-2-2 start-3-1");
}

#[test]
fn what_all_ended_does_not_wait_for_a_sidecar_before_the_last_init_container() {
    let spec = r#"{"restartPolicy":"Always","initContainers":[{"name":"s","restartPolicy":"Always"},{"name":"i"}],
        "containers":[{"name":"c"}]}"#;
    let mut life = Life::new(spec);
    life.step();
    life.runtime.exit(1, 0, life.now);
    life.step();
    life.runtime.log();
    life.runtime.set(0, not_started());
    life.runtime.exit(2, 1, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "start-2-1");
}

#[test]
fn a_pod_in_a_new_sandbox_is_pending_until_its_sidecar_has_started() {
    let spec = r#"{"restartPolicy":"Always","initContainers":[{"name":"s","restartPolicy":"Always"}],
        "containers":[{"name":"c"}]}"#;
    let mut life = Life::new(spec);
    life.step();
    life.runtime.set(0, not_started());
    life.step();
    assert_eq!(life.phase(), "Running");
    life.runtime.exit(1, 137, life.now);
    life.runtime.outlived = vec![1];
    life.step();
    assert_eq!(life.phase(), "Pending");
}

#[test]
fn sidecars_are_stopped_once_when_the_others_are_done() {
    let mut life = Life::new(
        r#"{"restartPolicy":"Never","initContainers":[{"name":"s","restartPolicy":"Always"}],"containers":[{"name":"c"}]}"#,
    );
    life.step();
    life.runtime.log();
    life.runtime.exit(1, 0, life.now);
    let step = life.step();
    assert_eq!(life.runtime.log(), "stop-30");
    assert_eq!(step.events[0].message, "Stopping container s");
    assert_eq!(life.phase(), "Running");
    assert!(life.step().events.is_empty() && life.runtime.log().is_empty());
    life.runtime.exit(0, 137, life.now);
    let step = life.step();
    assert_eq!((life.phase(), step.over), ("Succeeded", true));
    assert_eq!(life.runtime.log(), "");
}

#[test]
fn containers_have_at_least_a_second_to_end() {
    for grace in [-5, 0, 1] {
        let mut life = Life::new(&format!(
            r#"{{"activeDeadlineSeconds":5,"terminationGracePeriodSeconds":{grace},"containers":[{{"name":"c"}}]}}"#
        ));
        life.step();
        life.runtime.log();
        life.now += 5000;
        life.step();
        assert_eq!(life.runtime.log(), "stop-1", "{grace}");
    }
}

#[test]
fn a_pod_failed_by_others_is_stopped_and_keeps_their_reason() {
    let mut life = Life::new(PLAIN);
    life.step();
    life.runtime.log();
    let status = life.tree.map_at(&["status"]);
    status.set("phase", "Failed");
    status.set("reason", "NodeLost");
    life.step();
    assert_eq!(life.runtime.log(), "stop-30");
    life.runtime.exit(0, 0, life.now);
    life.runtime.exit(1, 0, life.now);
    let step = life.step();
    assert!(step.over && !step.delete);
    assert_eq!(life.phase(), "Failed");
    assert_eq!(life.tree.str_at(&["status", "reason"]), Some("NodeLost"));
}

#[test]
fn a_refused_pod_is_failed_and_never_started() {
    let mut life = Life::new(PLAIN);
    let no = || Rejection { reason: "OutOfcpu".to_owned(), message: "no room".to_owned() };
    let pod = Pod::read(&life.tree);
    let ips = [HOST_IP.to_owned()];
    let host = host(&ips);
    let step = life.worker.step(&pod, &host, &mut |_, _| Err(no()), &mut life.runtime, life.now);
    assert_eq!(step.events[0].reason, "OutOfcpu");
    let status = step.status.unwrap();
    assert_eq!(status.str_at(&["message"]), Some("Pod was rejected: no room"));
    assert_eq!(life.runtime.log(), "");
    // Room that comes later does not change a refusal.
    let step = life.worker.step(&pod, &host, &mut |_, _| Ok(()), &mut life.runtime, life.now);
    assert_eq!(step.status.unwrap().str_at(&["phase"]), Some("Failed"));
}

#[test]
fn containers_behind_a_failed_init_container_stay_waiting() {
    let spec = r#"{"restartPolicy":"Never","initContainers":[{"name":"i"}],"containers":[{"name":"c"}]}"#;
    let mut life = Life::new(spec);
    life.step();
    life.runtime.exit(0, 1, life.now);
    life.step();
    assert_eq!(life.phase(), "Failed");
    let status = life.tree.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap();
    assert_eq!(status[0].str_at(&["state", "waiting", "reason"]), Some("PodInitializing"));
}

#[test]
fn an_ephemeral_container_is_started_once_and_blocks_nothing() {
    let mut life = Life::new(PLAIN);
    life.step();
    life.runtime.log();
    let debugger = codec::json::parse(br#"[{"name":"debugger","image":"busybox"}]"#, None).unwrap();
    life.tree.map_at(&["spec"]).set("ephemeralContainers", debugger);
    life.runtime.containers += 1;
    let step = life.step();
    assert_eq!(life.runtime.log(), "start-2-0");
    assert_eq!(step.events[0].container, Some(2));
    let statuses = life.tree.at(&["status", "ephemeralContainerStatuses"]).and_then(Value::as_list).unwrap();
    assert_eq!(statuses[0].str_at(&["name"]), Some("debugger"));
    assert!(statuses[0].at(&["state", "running"]).is_some());
    // Its end changes nothing for the pod, and it is not started again.
    life.runtime.exit(2, 1, life.now);
    life.step();
    assert_eq!(life.runtime.log(), "");
    assert_eq!(life.phase(), "Running");
    let conditions = life.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let ready = conditions.iter().find(|c| c.str_at(&["type"]) == Some("Ready")).unwrap();
    assert_eq!(ready.str_at(&["status"]), Some("True"));
}

#[test]
fn a_volumes_image_that_is_missing_is_named() {
    let mut life = Life::new(r#"{"containers":[{"name":"a","image":"missing-volume=data:1"}]}"#);
    life.step();
    life.now += 1000;
    let step = life.step();
    assert_eq!(step.events[0].message, "Back-off pulling image \"data:1\"");
    let statuses = life.tree.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap();
    let message = statuses[0].str_at(&["state", "waiting", "message"]);
    assert_eq!(message, Some("Back-off pulling image \"data:1\": ErrImagePull: not found"));
}

#[test]
fn an_image_that_is_missing_is_asked_for_again_and_again() {
    let mut life = Life::new(
        r#"{"restartPolicy":"Always","containers":[{"name":"a","image":"missing"},{"name":"b","image":"there"}]}"#,
    );
    let reason = |life: &Life| {
        let statuses = life.tree.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap();
        statuses[0].str_at(&["state", "waiting", "reason"]).unwrap_or("").to_owned()
    };
    let events = |step: &SyncResult| {
        let about = step.events.iter().filter(|event| event.container == Some(0));
        about.map(|event| event.message.clone()).collect::<Vec<_>>()
    };
    let step = life.step();
    assert_eq!((reason(&life).as_str(), life.phase()), ("ErrImagePull", "Pending"));
    assert_eq!(life.runtime.log(), "create start-1-0", "the other one does not wait");
    assert_eq!(events(&step), Vec::<String>::new(), "the runtime tells of the pull itself");
    assert_eq!(step.wake, Some(life.now + 1000));
    life.now += 1000;
    let step = life.step();
    assert_eq!(reason(&life), "ImagePullBackOff");
    assert_eq!(events(&step), ["Back-off pulling image \"missing\"", "Error: ImagePullBackOff"]);
    assert_eq!(step.wake, Some(life.now + 9000));
    assert_eq!(events(&life.step()), Vec::<String>::new(), "said once");
    life.now += 9000;
    assert_eq!(events(&life.step()), Vec::<String>::new());
    assert_eq!(reason(&life), "ErrImagePull");
    life.now += 19_999;
    life.runtime.found = true;
    life.step();
    assert_eq!(reason(&life), "ImagePullBackOff", "twice as long");
    life.now += 1;
    life.step();
    assert_eq!(life.runtime.log(), "start-0-0");
    assert_eq!(life.phase(), "Running");
}

#[test]
fn an_evicted_pod_ends_with_the_grace_of_its_eviction_and_says_why() {
    let mut life = Life::new(r#"{"containers":[{"name":"a","image":"i"}]}"#);
    life.step();
    life.step();
    assert_eq!(life.phase(), "Running");
    life.runtime.log();
    let message = "The node was low on resource: memory. ".to_owned();
    life.runtime.evicted = Some(Evicted {
        reason: "Evicted".into(),
        message: message.clone(),
        grace_seconds: 1,
        disruption: Some(message.clone()),
    });
    life.step();
    assert_eq!(life.runtime.log(), "stop-1");
    assert_eq!(life.phase(), "Running", "not over while it runs");
    assert_eq!(life.tree.str_at(&["status", "reason"]), None);
    // It may well end in peace.
    life.runtime.exit(0, 0, life.now);
    let step = life.step();
    assert!(step.over && !step.delete);
    assert_eq!(life.phase(), "Failed");
    let said = |field: &str| life.tree.str_at(&["status", field]).map(str::to_owned);
    assert_eq!((said("reason"), said("message")), (Some("Evicted".to_owned()), Some(message.clone())));
    let conditions = life.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let last = conditions.last().unwrap();
    let of = |field: &str| last.str_at(&[field]).unwrap_or("");
    assert_eq!((of("type"), of("status")), ("DisruptionTarget", "True"));
    assert_eq!((of("reason"), of("message")), ("TerminationByKubelet", &*message));
    assert!(life.step().status.is_none(), "said once");
}

#[test]
fn a_pod_over_its_own_limit_is_evicted_without_the_condition() {
    let mut life = Life::new(r#"{"containers":[{"name":"a","image":"i"}]}"#);
    life.step();
    life.delete(30);
    let message = "Usage of EmptyDir volume \"x\" exceeds the limit \"1Mi\". ".to_owned();
    life.runtime.evicted =
        Some(Evicted { reason: "Evicted".into(), message, grace_seconds: 1, disruption: None });
    life.runtime.log();
    life.step();
    assert_eq!(life.runtime.log(), "stop-1", "the shorter grace counts for one that is deleted as well");
    life.runtime.exit(0, 137, life.now);
    let step = life.step();
    assert!(step.over && step.delete);
    assert_eq!((life.phase(), life.tree.str_at(&["status", "reason"])), ("Failed", Some("Evicted")));
    let conditions = life.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    assert!(conditions.iter().all(|c| c.str_at(&["type"]) != Some("DisruptionTarget")));
}

#[test]
fn a_node_under_pressure_refuses_new_pods() {
    let mut life = Life::new(r#"{"containers":[{"name":"a","image":"i"}]}"#);
    let message = "The node had condition: [MemoryPressure]. ".to_owned();
    life.runtime.refusal = Some(Rejection { reason: "Evicted".to_owned(), message: message.clone() });
    let step = life.step();
    assert_eq!(step.events[0].message, message);
    assert_eq!((life.phase(), life.tree.str_at(&["status", "reason"])), ("Failed", Some("Evicted")));
    let told = life.tree.str_at(&["status", "message"]);
    assert_eq!(told, Some("Pod was rejected: The node had condition: [MemoryPressure]. "));
    assert_eq!(life.runtime.log(), "");
}

#[test]
fn a_status_has_both_addresses_of_a_node_and_pods_on_its_network_have_them_too() {
    let both = r#"[{"ip":"172.16.0.1"},{"ip":"fd00::1"}]"#;
    let of_pod = r#"[{"ip":"10.0.0.9"}]"#;
    for (spec, pod_ips) in [
        (r#"{"hostNetwork":true,"containers":[{"name":"c"}]}"#, both),
        (r#"{"containers":[{"name":"c"}]}"#, of_pod),
    ] {
        let mut life = Life::new(spec);
        life.host_ips.push("fd00::1".to_owned());
        life.step();
        let at = |name: &str| codec::json::to_vec(life.tree.at(&["status", name]).unwrap());
        assert_eq!(String::from_utf8(at("hostIPs")).unwrap(), both);
        assert_eq!(String::from_utf8(at("podIPs")).unwrap(), pod_ips);
        assert_eq!(life.tree.str_at(&["status", "hostIP"]), Some(HOST_IP));
    }
}

#[test]
fn a_container_shows_as_whom_it_runs() {
    let mut life = Life::new(PLAIN);
    life.runtime.user = Some(Box::new(crate::container_runtime::LinuxUser {
        uid: 1000,
        gid: 0,
        supplemental_groups: vec![0, 2000],
    }));
    life.step();
    let all = life.tree.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap();
    let user = codec::json::to_vec(all[0].get("user").unwrap());
    let expected = r#"{"linux":{"uid":1000,"gid":0,"supplementalGroups":[0,2000]}}"#;
    assert_eq!(String::from_utf8(user).unwrap(), expected);
}

#[test]
fn recursive_read_only_is_reported_as_it_is_mounted() {
    for (mount, supported, reported) in [
        (r#""readOnly":true,"recursiveReadOnly":"IfPossible""#, true, Some("Enabled")),
        (r#""readOnly":true,"recursiveReadOnly":"IfPossible""#, false, Some("Disabled")),
        (r#""readOnly":true,"recursiveReadOnly":"Enabled","mountPropagation":"None""#, true, Some("Enabled")),
        (r#""readOnly":true,"recursiveReadOnly":"Enabled""#, false, Some("Disabled")),
        (
            r#""readOnly":true,"recursiveReadOnly":"IfPossible","mountPropagation":"HostToContainer""#,
            true,
            Some("Disabled"),
        ),
        (r#""readOnly":true"#, true, Some("Disabled")),
        (r#""mountPath":"/m""#, true, None),
    ] {
        let spec = format!(r#"{{"containers":[{{"name":"c","volumeMounts":[{{"name":"v",{mount}}}]}}]}}"#);
        let mut life = Life::new(&spec);
        let ips = [HOST_IP.to_owned()];
        let host = Host { recursive_read_only: supported, ..host(&ips) };
        let pod = Pod::read(&life.tree);
        let step = life.worker.step(&pod, &host, &mut |_, _| Ok(()), &mut life.runtime, life.now);
        let status = step.status.unwrap();
        let all = status.get("containerStatuses").and_then(Value::as_list).unwrap();
        let mounts = all[0].get("volumeMounts").and_then(Value::as_list).unwrap();
        assert_eq!(mounts[0].str_at(&["recursiveReadOnly"]), reported, "{mount} {supported}");
    }
}

#[test]
fn the_last_words_of_containers_share_twelve_kibibytes() {
    let mut life = Life::new(
        r#"{"restartPolicy":"Never","initContainers":[{"name":"i"}],"containers":[{"name":"c"},{"name":"d"}]}"#,
    );
    life.step();
    let exit = |index: usize, message: String| {
        Container::Exited(Exit { message, ..Exit::new(0, 1, 2, format!("id-{index}")) })
    };
    life.runtime.set(0, exit(0, "x".repeat(5000)));
    life.step();
    life.runtime.set(1, exit(1, "short".to_owned()));
    // Not cut within a character.
    life.runtime.set(2, exit(2, "€".repeat(2000)));
    life.step();
    let message = |list: &str, index: usize| {
        let all = life.tree.at(&["status", list]).and_then(Value::as_list).unwrap();
        all[index].str_at(&["state", "terminated", "message"]).unwrap().to_owned()
    };
    assert_eq!(message("initContainerStatuses", 0).len(), 4096);
    assert_eq!(message("containerStatuses", 0), "short");
    assert_eq!(message("containerStatuses", 1).len(), 4095);
}
