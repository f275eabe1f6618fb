use tokio::sync::mpsc;

use super::testing::{Fake, Server, response};
use super::*;

/// Probes in virtual time, and what they told.
struct World {
    env: Env,
    probes: Probes,
    told: Arc<Mutex<Vec<Outcome>>>,
}

impl World {
    fn new() -> World {
        let env = Env::simulated(7);
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = told.clone();
        let probes = Probes::new(&env, Arc::new(move |outcome| list.lock().push(outcome)));
        World { env, probes, told }
    }

    /// Container `c` of pod `u`, started now.
    fn set(&self, pod: &Value, id: &str, target: Arc<dyn Target>) {
        let now = i64::try_from(self.env.now_nanos()).unwrap();
        self.probes.set("u", pod, "c", id, now, target);
    }

    async fn pass(&self, seconds: u64) {
        // A little after the full second: what is due then has happened.
        self.env.sleep(Duration::from_millis(seconds * 1000 + 1)).await;
    }

    fn results(&self) -> Probed {
        self.probes.results("u", "c")
    }

    fn told(&self) -> Vec<String> {
        let said = |outcome| match outcome {
            Outcome::Changed { uid, container } => format!("{uid}/{container} changed"),
            Outcome::Event { reason, message, .. } => format!("{reason}: {message}"),
            Outcome::Kill { kill, .. } => format!("kill {}: {}", kill.container_id, kill.message),
        };
        std::mem::take(&mut *self.told.lock()).into_iter().map(said).collect()
    }
}

fn pod(probes: &str) -> Value {
    pod_with(probes, "{}", r#""restartPolicy":"Always","#)
}

fn pod_with(probes: &str, status: &str, spec: &str) -> Value {
    let text = format!(
        r#"{{"metadata":{{"name":"p","namespace":"ns","uid":"u"}},"status":{status},
            "spec":{{{spec}"containers":[{{"name":"c",{probes}}}]}}}}"#
    );
    codec::json::parse(text.as_bytes(), None).unwrap()
}

/// Commands answer with what this is set to.
fn switch() -> (Arc<Mutex<i32>>, Arc<Fake>) {
    let code = Arc::new(Mutex::new(0));
    let read = code.clone();
    (code, Fake::new(move |_| Ok(Executed { code: *read.lock(), ..Executed::default() })))
}

const READY: &str = r#""readinessProbe":{"exec":{"command":["r"]},"periodSeconds":5}"#;
const LIVE: &str = r#""livenessProbe":{"exec":{"command":["l"]},"terminationGracePeriodSeconds":7}"#;

#[tokio::test(start_paused = true)]
async fn a_container_without_probes_is_ready_while_it_runs() {
    let world = World::new();
    assert_eq!(world.results(), Probed::default());
    world.set(&pod(r#""image":"i""#), "1", Fake::exits(0, "", ""));
    assert_eq!(world.results(), Probed { started: true, ready: true, kill: None });
    world.probes.stop("u", "c");
    assert_eq!(world.results(), Probed::default());
}

#[tokio::test(start_paused = true)]
async fn readiness_comes_and_goes() {
    let world = World::new();
    let (code, target) = switch();
    world.set(&pod(READY), "1", target);
    assert!(!world.results().ready);
    world.pass(0).await;
    assert!(world.results().ready);
    assert_eq!(world.told(), ["u/c changed"]);
    *code.lock() = 1;
    world.pass(14).await;
    assert!(world.results().ready, "two failures are not three");
    world.pass(1).await;
    assert!(!world.results().ready);
    let failed = "Unhealthy: Readiness probe failed: ";
    assert_eq!(world.told(), [failed, failed, failed, "u/c changed"]);
    // Another container begins anew, and answers about the old one are nobody's.
    *code.lock() = 0;
    world.set(&pod(READY), "2", Fake::exits(0, "", ""));
    world.pass(0).await;
    assert!(world.results().ready);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_alive_is_killed_once() {
    let world = World::new();
    world.set(&pod(LIVE), "1", Fake::exits(1, "no", ""));
    world.pass(20).await;
    let failed = "Unhealthy: Liveness probe failed: no";
    let kill = "kill 1: Container c failed liveness probe, will be restarted";
    assert_eq!(world.told(), [failed, failed, failed, kill]);
    let kill = world.results().kill.unwrap();
    assert_eq!((kill.probe, kill.grace_seconds), (Kind::Liveness, Some(7)));
    world.pass(100).await;
    assert!(world.told().is_empty(), "it is left alone until it is another");
    world.set(&pod(LIVE), "2", Fake::exits(0, "", ""));
    assert_eq!(world.results().kill, None);
    let never = pod_with(LIVE, "{}", r#""restartPolicy":"Never","#);
    world.set(&never, "3", Fake::exits(1, "", ""));
    world.pass(20).await;
    assert_eq!(world.results().kill.unwrap().message, "Container c failed liveness probe");
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_is_an_init_container() {
    let world = World::new();
    let text = r#"{"spec":{"initContainers":[{"name":"c","restartPolicy":"Always",
        "startupProbe":{"exec":{},"failureThreshold":1}}]}}"#;
    let pod = codec::json::parse(text.as_bytes(), None).unwrap();
    world.set(&pod, "1", Fake::exits(1, "", ""));
    world.pass(0).await;
    assert_eq!(world.results().kill.unwrap().message, "Init container c failed startup probe");
}

#[tokio::test(start_paused = true)]
async fn startup_comes_first() {
    let world = World::new();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let list = asked.clone();
    let target = Fake::new(move |command| {
        let mut asked = list.lock();
        asked.push(command[0].clone());
        Ok(Executed { code: if asked.len() < 3 { 1 } else { 0 }, ..Executed::default() })
    });
    let startup = r#""startupProbe":{"exec":{"command":["s"]}}"#;
    world.set(&pod(&format!("{startup},{READY},{LIVE}")), "1", target);
    world.pass(19).await;
    assert_eq!(*asked.lock(), ["s", "s"]);
    assert!(!world.results().started);
    world.pass(1).await;
    assert_eq!(*asked.lock(), ["s", "s", "s", "r", "l"]);
    assert_eq!(world.results(), Probed { started: true, ready: true, kill: None });
    world.pass(30).await;
    assert_eq!(asked.lock().iter().filter(|command| *command == "s").count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_cannot_be_made_changes_nothing() {
    let world = World::new();
    world.set(&pod(LIVE), "1", Fake::errs(cri::Code::Unknown, "broken"));
    world.pass(50).await;
    let said = "Unhealthy: Liveness probe errored and resulted in unknown state: rpc error: code = Unknown desc = broken";
    assert_eq!(world.told(), vec![said; 6]);
    assert_eq!(world.results(), Probed { started: true, ready: true, kill: None });
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_asked_for_readiness_only() {
    let world = World::new();
    let (code, target) = switch();
    world.set(&pod(&format!("{READY},{LIVE}")), "1", target);
    world.pass(0).await;
    world.probes.terminate("u");
    *code.lock() = 1;
    world.told();
    world.pass(60).await;
    assert_eq!(world.results(), Probed { started: true, ready: false, kill: None });
    assert!(world.told().iter().all(|said| !said.contains("Liveness")));
    world.probes.remove("u");
    world.told();
    world.pass(60).await;
    assert!(world.told().is_empty());
    assert_eq!(world.probes.shared.state.lock().timers.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_container_from_before_the_agent_stays_ready() {
    let world = World::new();
    let status = r#"{"conditions":[{"type":"Ready","status":"True"}],
        "containerStatuses":[{"name":"c","containerID":"x://1","started":true}]}"#;
    let pod = pod_with(READY, status, "");
    let old = i64::try_from(world.env.now_nanos()).unwrap() - 60_000_000_000;
    world.probes.set("u", &pod, "c", "1", old, Fake::exits(1, "", ""));
    assert!(world.results().ready);
    world.pass(15).await;
    assert!(!world.results().ready);
    assert_eq!(world.told().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_container_is_not_asked_any_more() {
    let world = World::new();
    world.set(&pod(LIVE), "1", Fake::exits(1, "", ""));
    world.pass(10).await;
    world.probes.stop("u", "c");
    world.told();
    world.pass(100).await;
    assert!(world.told().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_probes_need_no_task_each() {
    let world = World::new();
    let asked = Arc::new(Mutex::new(0u64));
    let counted = asked.clone();
    let target = Fake::new(move |_| {
        *counted.lock() += 1;
        Ok(Executed::default())
    });
    let pod = pod(READY);
    let now = i64::try_from(world.env.now_nanos()).unwrap();
    for at in 0..10_000 {
        world.probes.set(&format!("u{at}"), &pod, "c", "1", now, target.clone());
    }
    world.pass(9).await;
    assert_eq!(*asked.lock(), 20_000);
    assert!((0..10_000).all(|at| world.probes.results(&format!("u{at}"), "c").ready));
}

#[tokio::test(start_paused = true)]
async fn only_so_many_of_a_pod_run_at_once_and_no_other_pod_waits_for_them() {
    struct Hanging(Arc<Mutex<usize>>);
    impl Target for Hanging {
        fn exec(&self, _: Vec<String>, _: Duration) -> BoxFuture<'_, Result<Executed, cri::Error>> {
            *self.0.lock() += 1;
            Box::pin(std::future::pending())
        }
        fn pod_ip(&self) -> Option<String> {
            None
        }
    }
    let world = World::new();
    let running = Arc::new(Mutex::new(0));
    let target = Arc::new(Hanging(running.clone()));
    let names: Vec<String> = (0..MAX_RUNNING + 10).map(|at| format!("c{at}")).collect();
    let all: Vec<String> = names.iter().map(|name| format!(r#"{{"name":"{name}",{READY}}}"#)).collect();
    let text = format!(
        r#"{{"metadata":{{"name":"h","namespace":"ns","uid":"h"}},"spec":{{"containers":[{}]}}}}"#,
        all.join(",")
    );
    let hanging = codec::json::parse(text.as_bytes(), None).unwrap();
    for name in &names {
        world.probes.set("h", &hanging, name, "1", 0, target.clone());
    }
    world.set(&pod(READY), "1", Fake::exits(0, "", ""));
    world.pass(20).await;
    assert_eq!(*running.lock(), MAX_RUNNING);
    assert!(world.results().ready, "of another pod");
    // A container that goes makes room for the pod's next.
    world.probes.stop("h", &names[0]);
    world.pass(1).await;
    assert_eq!(*running.lock(), MAX_RUNNING + 1);
}

#[tokio::test(start_paused = true)]
async fn answers_are_counted_over_restarts() {
    let world = World::new();
    let (code, target) = switch();
    world.set(&pod(READY), "1", target.clone());
    world.pass(4).await;
    *code.lock() = 1;
    world.set(&pod(READY), "2", target);
    world.pass(5).await;
    let mut out = String::new();
    world.probes.write_metrics(&mut out);
    let series = |result: &str, count: u32| {
        format!(
            "prober_probe_total{{container=\"c\",namespace=\"ns\",pod=\"p\",pod_uid=\"u\",probe_type=\"Readiness\",\
             result=\"{result}\"}} {count}\n"
        )
    };
    assert!(out.contains(&series("successful", 1)), "{out}");
    assert!(out.contains(&series("failed", 2)), "{out}");
}

#[tokio::test]
async fn a_probe_that_is_sent_to_another_host_succeeds_and_warns() {
    let env = Env::machine();
    let elsewhere = |_: &str| response(302, "Location: http://localhost:1/\r\n", "over there");
    let server = Server::start(&env, elsewhere).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let probes = Probes::new(&env, Arc::new(move |outcome| drop(tell.send(outcome))));
    let probe = format!(r#""readinessProbe":{{"httpGet":{{"port":{}}},"timeoutSeconds":30}}"#, server.port);
    probes.set("u", &pod(&probe), "c", "1", i64::MAX, Fake::exits(1, "", ""));
    let Some(Outcome::Event { reason, message, .. }) = told.recv().await else { panic!("it is told first") };
    assert_eq!(reason, "ProbeWarning");
    let warning = "Readiness probe warning: Probe terminated redirects, Response body: over there";
    assert_eq!(message, warning);
    assert!(matches!(told.recv().await, Some(Outcome::Changed { .. })) && probes.results("u", "c").ready);
}
