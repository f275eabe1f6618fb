//! What a node beside upstream's kubelet was seen to do otherwise (`setpoint diff-pods`).

use super::*;

impl Life {
    fn container_status(&self, list: &str) -> &Value {
        &self.tree.at(&["status", list]).and_then(Value::as_list).unwrap()[0]
    }

    fn waits_for(&self) -> Option<&str> {
        self.container_status("containerStatuses").str_at(&["state", "waiting", "reason"])
    }

    fn said_of(&self, condition: &str) -> Option<&str> {
        let all = self.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
        all.iter().find(|c| c.str_at(&["type"]) == Some(condition))?.str_at(&["reason"])
    }

    fn running(&mut self) -> &mut Running {
        self.runtime.there.get_mut(&0).unwrap()
    }
}

const ONE: &str = r#"{"restartPolicy":"Always","containers":[{"name":"c","image":"busybox"}]}"#;

fn told(step: &SyncResult) -> Vec<&str> {
    step.events.iter().map(|event| event.reason.as_str()).collect()
}

#[test]
fn a_container_that_failed_a_probe_waits_from_the_third_time_on() {
    let mut life = Life::new(ONE);
    life.step();
    for log in ["start-0-1", "start-0-2", ""] {
        life.runtime.log();
        life.now += 2000;
        life.runtime.exit(0, 137, life.now);
        life.running().replaced = true;
        life.step();
        assert_eq!(life.runtime.log(), log);
    }
    assert_eq!(life.waits_for(), Some("CrashLoopBackOff"));
}

#[test]
fn a_container_that_failed_a_probe_is_restarted_though_it_ended_well() {
    for (policy, log) in [("OnFailure", "start-0-1"), ("Always", "start-0-1"), ("Never", "")] {
        let mut life = Life::new(&ONE.replace("Always", policy));
        life.step();
        life.runtime.log();
        life.runtime.exit(0, 0, life.now);
        life.running().replaced = true;
        if log.is_empty() {
            life.step();
            assert_eq!(life.phase(), "Succeeded");
            continue;
        }
        // Its successor takes a while.
        life.running().state = Container::Restarting(Exit::new(0, life.now, life.now, "id-0".to_owned()));
        life.step();
        assert_eq!(life.phase(), "Running");
        life.runtime.exit(0, 0, life.now);
        life.step();
        assert_eq!((&*life.runtime.log(), life.phase()), (log, "Running"), "{policy}");
    }
}

#[test]
fn a_container_whose_successor_is_on_its_way_is_shown_as_it_ended() {
    let mut life = Life::new(ONE);
    life.step();
    let exit = Exit::new(3, life.now, life.now, "id-0".to_owned());
    life.running().state = Container::Restarting(exit.clone());
    life.step();
    let status = life.container_status("containerStatuses");
    assert_eq!(status.at(&["state", "terminated", "exitCode"]).and_then(Value::as_int), Some(3));
    assert_eq!(life.phase(), "Running");
    assert_eq!(life.runtime.log(), "create start-0-0", "it is not started twice");
    // One that people were told to wait for waits until it runs.
    let error = StartError {
        reason: "PostStartHookError".into(),
        message: "no".to_owned(),
        at: life.now,
        volume_image: None,
    };
    life.running().hook_error = Some(Box::new(error));
    life.step();
    assert_eq!(life.waits_for(), Some("PostStartHookError"));
    life.running().hook_error = None;
    assert!(life.step().status.is_none());
}

#[test]
fn a_pod_past_its_deadline_says_so_when_its_containers_are_stopped() {
    let mut life = Life::new(r#"{"activeDeadlineSeconds":5,"containers":[{"name":"c"}]}"#);
    life.step();
    life.now += 6000;
    assert_eq!(told(&life.step()), ["DeadlineExceeded", "Killing"]);
    life.runtime.exit(0, 137, life.now);
    assert_eq!(told(&life.step()), Vec::<&str>::new());
}

#[test]
fn a_pod_that_never_ran_was_not_ready_because_of_its_containers() {
    let mut life = Life::new(PLAIN);
    life.delete(30);
    life.step();
    assert_eq!(life.phase(), "Failed");
    assert_eq!(life.said_of("Ready"), Some("ContainersNotReady"));
}

#[test]
fn statuses_have_the_runtimes_name_of_an_image_and_ephemeral_containers_never_start() {
    let mut life = Life::new(
        r#"{"containers":[{"name":"c","image":"busybox"}],"ephemeralContainers":[{"name":"e","image":"busybox"}]}"#,
    );
    life.step();
    assert_eq!(life.container_status("containerStatuses").str_at(&["image"]), Some("busybox"));
    life.running().image = "docker.io/library/busybox:latest".to_owned();
    life.step();
    let status = life.container_status("containerStatuses");
    assert_eq!(status.str_at(&["image"]), Some("docker.io/library/busybox:latest"));
    assert_eq!(status.get("started").and_then(Value::as_bool), Some(true));
    assert_eq!(life.container_status("ephemeralContainerStatuses").get("started"), None);
}

#[test]
fn the_image_of_a_volume_is_waited_for_by_the_pod() {
    for (volume_image, whose) in [(None, Some(0)), (Some("other:1".to_owned()), None)] {
        let mut life = Life::new(ONE);
        life.step();
        let error = StartError {
            reason: "ErrImagePull".into(),
            message: "no".to_owned(),
            at: life.now,
            volume_image,
        };
        life.running().state = Container::Failed(error);
        life.step();
        life.now += 1000;
        let step = life.step();
        assert_eq!(told(&step), ["BackOff", "Failed"]);
        assert_eq!(step.events[0].container, whose);
        assert_eq!(step.events[1].container, Some(0));
    }
}
