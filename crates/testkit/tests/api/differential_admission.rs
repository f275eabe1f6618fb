//! The cases of `setpoint diff --admission` against what kube-apiserver v1.36.4 answered, and asked of webhooks, when they were
//! recorded.
//!
//! New answers are recorded with `setpoint diff --kubeconfig F --against G --admission --record crates/diff/golden/admission.jsonl`.
//! Differences that are meant stand in `diff/data/explained-admission.tsv`.

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::{UserInfo, groups};
use diff::{Against, Answer, Explained, Player, Recorded, Request, Webhook};
use env::Env;
use testkit::TestCluster;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../diff/golden/admission.jsonl");

#[tokio::test]
async fn webhooks_are_asked_what_upstream_asks_them() {
    replay(|name| name.starts_with("admission rules") || name.starts_with("admission behaviours")).await;
}

#[tokio::test]
async fn policies_are_applied_as_upstream_applies_them() {
    replay(|name| !name.starts_with("admission rules") && !name.starts_with("admission behaviours")).await;
}

async fn replay(chosen: impl Fn(&str) -> bool) {
    let recorded = std::fs::read_to_string(RECORDED).unwrap();
    let recorded: BTreeMap<String, Recorded> = recorded
        .lines()
        .map(|line| diff::read_golden(line).unwrap_or_else(|| panic!("not a recorded answer: {line}")))
        .map(|answer| (answer.case.clone(), answer))
        .collect();
    let webhook = Arc::new(Webhook::default());
    let answers = webhook.clone();
    let server = bench::WebhookServer::start(Arc::new(move |path, body| answers.answer(path, body))).unwrap();
    // Webhooks are real sockets, so time is real too.
    let cluster = TestCluster::with_accounts(Env::machine(), |_| {}).await;
    let mut explained = Explained::of_admission(Against::Recorded).unwrap();
    let (mut played, mut failures) = (0, Vec::new());
    for scenario in diff::admission_scenarios().iter().filter(|scenario| chosen(&scenario.name)) {
        let mut player = Player::new(scenario, "dfreplay").with_webhooks(server.url(), server.ca_bundle());
        for request in player.prepare() {
            ask(&cluster, &request).await;
        }
        while let Some((step, request)) = player.next() {
            webhook.take();
            let answer = ask(&cluster, &request).await;
            let calls = webhook.take();
            let Some(mut outcome) = player.answer(&request, &answer) else {
                cluster.env().sleep(std::time::Duration::from_millis(20)).await;
                continue;
            };
            outcome.calls = player.called(step, &request, calls);
            if !diff::golden_keeps(scenario, step) {
                continue;
            }
            let case = format!("{} / {}", scenario.name, step.name);
            let Some(recorded) = recorded.get(&case).filter(|r| r.request == step.fingerprint()) else {
                failures.push(format!("{case}: no answer to this request is recorded; record them anew"));
                continue;
            };
            played += 1;
            if let Some(difference) = recorded.difference(&outcome)
                && explained.reason(&case, &difference.place).is_none()
            {
                let diff::Difference { place, ours, theirs } = difference;
                failures.push(format!("{case}: {place}: {ours} instead of {theirs}"));
            }
        }
    }
    cluster.shutdown().await;
    let kept = recorded.keys().filter(|case| chosen(case)).count();
    assert_eq!(played, kept, "every recorded answer is compared");
    let shown: Vec<&str> = failures.iter().take(40).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {played} cases:\n{}", failures.len(), shown.join("\n"));
}

async fn ask(cluster: &TestCluster, request: &Request) -> Answer {
    // Who the recording was made by.
    let mut admin = UserInfo::new("admin", &[groups::MASTERS, groups::AUTHENTICATED]);
    admin.uid = "admin".to_owned();
    let mut ask = cluster.request(request.method, &request.path).by(admin).accept(&request.accept);
    ask = ask.header("user-agent", "setpoint");
    if let (Some(content_type), Some(body)) = (&request.content_type, &request.body) {
        ask = ask.typed(content_type, body.clone());
    }
    let reply = ask.send().await;
    Answer {
        status: reply.status,
        content_type: reply.content_type().to_owned(),
        warnings: reply.warnings(),
        body: reply.bytes.to_vec(),
    }
}
