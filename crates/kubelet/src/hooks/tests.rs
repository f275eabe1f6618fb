use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::probes::testing::{Fake, Server, response};

struct Ran {
    outcome: Result<(), String>,
    events: Vec<(&'static str, String)>,
}

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn pod() -> Value {
    json(r#"{"metadata":{"name":"p","namespace":"ns","uid":"u"}}"#)
}

fn container(hooks: &str) -> Value {
    json(&format!(r#"{{"name":"c","lifecycle":{hooks}}}"#))
}

async fn post_start(handler: &str, target: Arc<Fake>) -> Ran {
    let env = Env::machine();
    let (pod, container) = (pod(), container(&format!(r#"{{"postStart":{handler}}}"#)));
    let events = Mutex::new(Vec::new());
    let tell = |event: HookEvent| events.lock().push((event.reason, event.message));
    let hook = Hook { pod: &pod, container: &container, target: &*target, events: &tell };
    let outcome = Hooks::new(&env).post_start(hook).await.map_err(|error| error.message);
    Ran { outcome, events: events.into_inner() }
}

fn here() -> Arc<Fake> {
    Fake::exits(0, "", "")
}

#[tokio::test]
async fn a_command_that_fails_is_told_whole_to_the_status_and_not_to_events() {
    let exec = r#"{"exec":{"command":["sh","-c","x"]}}"#;
    assert_eq!(post_start(exec, here()).await.outcome, Ok(()));
    let ran = post_start(exec, Fake::exits(3, "out\n", "err")).await;
    let said = r#"Exec lifecycle hook ([sh -c x]) for Container "c" in Pod "p_ns(u)" failed - error: command 'sh -c x' exited with 3: err, message: "out\nerr""#;
    assert_eq!(ran.outcome, Err(said.to_owned()));
    assert_eq!(ran.events, [("FailedPostStartHook", "PostStartHook failed".to_owned())]);
    let ran = post_start(exec, Fake::errs(cri::Code::Unknown, "gone")).await;
    let said = r#"Exec lifecycle hook ([sh -c x]) for Container "c" in Pod "p_ns(u)" failed - error: rpc error: code = Unknown desc = gone, message: """#;
    assert_eq!(ran.outcome, Err(said.to_owned()));
}

#[tokio::test]
async fn any_http_answer_will_do() {
    let server = Server::start(&Env::machine(), |head| {
        assert!(head.contains("User-Agent: kube-lifecycle/1.36"), "{head}");
        response(500, "", "")
    })
    .await;
    let handler = format!(r#"{{"httpGet":{{"port":{},"path":"/x"}}}}"#, server.port);
    assert_eq!(post_start(&handler, here()).await.outcome, Ok(()));
    let handler = r#"{"httpGet":{"port":"nope","path":"/x"}}"#;
    let said = r#"HTTP lifecycle hook (/x) for Container "c" in Pod "p_ns(u)" failed - error: strconv.Atoi: parsing "nope": invalid syntax"#;
    assert_eq!(post_start(handler, here()).await.outcome, Err(said.to_owned()));
}

#[tokio::test]
async fn a_server_without_tls_is_asked_again_in_plain() {
    let server = Server::start(&Env::machine(), |_| response(200, "", "")).await;
    let handler = format!(r#"{{"httpGet":{{"port":{},"scheme":"HTTPS"}}}}"#, server.port);
    let ran = post_start(&handler, here()).await;
    assert_eq!(ran.outcome, Ok(()));
    let said = format!(
        "request to HTTPS lifecycle hook 127.0.0.1:{} got HTTP response, retry with HTTP succeeded",
        server.port
    );
    assert_eq!(ran.events, [("LifecycleHTTPFallback", said)]);
}

#[tokio::test]
async fn tcp_sockets_are_no_hooks() {
    let said = |socket: &str| {
        let all = format!("&LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{socket},Sleep:nil,}}");
        Err(format!("Cannot run handler: invalid handler: {all}"))
    };
    let ran = post_start(r#"{"tcpSocket":{"port":80}}"#, here()).await;
    assert_eq!(ran.outcome, said("&TCPSocketAction{Port:80,Host:,}"));
    assert_eq!(post_start("{}", here()).await.outcome, said("nil"));
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_takes_is_taken_from_the_grace() {
    let env = Env::simulated(1);
    let hooks = Hooks::new(&env);
    let pod = pod();
    let events = Mutex::new(Vec::new());
    let tell = |event: HookEvent| events.lock().push((event.reason, event.message));
    for (handlers, target, grace, left) in [
        ("{}", here(), 30, 30),
        (r#"{"preStop":{"sleep":{"seconds":12}}}"#, here(), 30, 18),
        (r#"{"preStop":{"sleep":{"seconds":100}}}"#, here(), 30, 0),
        (r#"{"preStop":{"sleep":{"seconds":100}}}"#, here(), 0, 0),
        (r#"{"preStop":{"exec":{"command":["x"]}}}"#, Fake::exits(1, "", ""), 5, 5),
    ] {
        let container = container(handlers);
        let hook = Hook { pod: &pod, container: &container, target: &*target, events: &tell };
        assert_eq!(hooks.pre_stop(hook, grace).await, left, "{handlers}");
    }
    // One that was cut off has not failed.
    assert_eq!(events.into_inner(), [("FailedPreStopHook", "PreStopHook failed".to_owned())]);
}
