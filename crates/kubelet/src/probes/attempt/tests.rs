use super::super::spec::HttpGet;
use super::super::testing::{Fake, Server, response};
use super::*;

fn probe(handler: Handler) -> Probe {
    let timing = super::super::state::Timing {
        initial_delay: Duration::ZERO,
        period: Duration::from_secs(10),
        success_threshold: 1,
        failure_threshold: 3,
    };
    Probe { timing, timeout: Duration::from_secs(30), grace_seconds: None, handler }
}

async fn run(handler: Handler, target: Arc<Fake>) -> Result<Answered, Errored> {
    let env = Env::machine();
    let prober = Prober { env: env.clone(), http: http::Client::new(&env) };
    let target: Arc<dyn Target> = target;
    prober.run(&probe(handler), &target, "p_ns(uid):c").await
}

fn exec() -> Handler {
    Handler::Exec(vec!["cat".to_owned(), "/tmp/healthy".to_owned()])
}

fn here() -> Arc<Fake> {
    Fake::exits(0, "", "")
}

#[tokio::test]
async fn exit_codes_decide() {
    assert_eq!(run(exec(), Fake::exits(0, "OK", "")).await, Ok(Answered::Success));
    let failed = run(exec(), Fake::exits(1, "out,", "err")).await;
    assert_eq!(failed, Ok(Answered::Failure("out,err".to_owned())));
    let Ok(Answered::Failure(long)) = run(exec(), Fake::exits(1, &"x".repeat(20_000), "")).await else {
        panic!("a failure")
    };
    assert_eq!(long.len(), 10 << 10);
}

#[tokio::test]
async fn a_command_that_takes_too_long_failed() {
    let late = run(exec(), Fake::errs(cri::Code::DeadlineExceeded, "late")).await;
    let said = r#"command timed out: "cat /tmp/healthy" timed out after 30s"#;
    assert_eq!(late, Ok(Answered::Failure(said.to_owned())));
}

#[tokio::test]
async fn a_runtime_that_fails_is_asked_three_times() {
    let tries = Arc::new(parking_lot::Mutex::new(0));
    let counted = tries.clone();
    let target = Fake::new(move |_| {
        *counted.lock() += 1;
        Err(cri::Error::new(cri::Code::NotFound, "no such container"))
    });
    let errored = run(exec(), target).await.unwrap_err();
    assert_eq!(errored.state, "unknown");
    assert_eq!(errored.why, "rpc error: code = NotFound desc = no such container");
    assert_eq!(*tries.lock(), 3);
}

#[tokio::test]
async fn http_statuses_decide() {
    let env = Env::machine();
    let server = Server::start(&env, |head| {
        let status = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        response(status, "Location: http://localhost/\r\n", "a secret")
    })
    .await;
    let get = |status: u16| {
        Handler::HttpGet(HttpGet {
            https: false,
            host: None,
            port: Ok(server.port),
            path: format!("/{status}"),
            headers: Vec::new(),
        })
    };
    for status in [200, 204, 299] {
        assert_eq!(run(get(status), here()).await, Ok(Answered::Success), "{status}");
    }
    for status in [300, 302, 304, 399] {
        let body = if status == 304 { "" } else { "a secret" };
        let warning = format!("Probe terminated redirects, Response body: {body}");
        assert_eq!(run(get(status), here()).await, Ok(Answered::Warning(warning)), "{status}");
    }
    for status in [400, 404, 500, 503] {
        let failed = format!("HTTP probe failed with statuscode: {status}");
        assert_eq!(run(get(status), here()).await, Ok(Answered::Failure(failed)), "{status}");
    }
}

#[tokio::test]
async fn tcp_asks_only_for_a_connection() {
    let server = Server::start(&Env::machine(), |_| None).await;
    let tcp = |port| Handler::Tcp { host: None, port };
    assert_eq!(run(tcp(Ok(server.port)), here()).await, Ok(Answered::Success));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(run(tcp(Ok(port)), here()).await, Ok(Answered::Failure(refused)));
    let errored = run(tcp(Err("invalid port number: 0".to_owned())), here()).await.unwrap_err();
    assert_eq!(errored, Errored { state: "unknown", why: "invalid port number: 0".to_owned() });
}

#[tokio::test]
async fn a_probe_without_a_handler_is_an_error() {
    let errored = run(Handler::Missing, here()).await.unwrap_err();
    assert_eq!(errored.why, "missing probe handler for p_ns(uid):c");
}
