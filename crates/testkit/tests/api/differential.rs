//! Every case of `setpoint diff` against what kube-apiserver v1.36.4 answered when they were recorded.
//!
//! Cases that differ today stand in `known.tsv` with what differs; one that passes may not stand there. Each has its reason
//! in `diff/data/explained.tsv`, and no line there may be without a difference.
//! After a fix: `DIFF_KNOWN=prune cargo test -p testkit differential` takes out what passes now. New answers are recorded with
//! `setpoint diff --kubeconfig F --against G --record crates/diff/golden/answers.jsonl`; `DIFF_KNOWN=write` then makes the list anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use auth::{UserInfo, groups};
use diff::{Against, Answer, Difference, Explained, Player, Recorded, Request};
use env::Env;
use testkit::TestCluster;

const HEAD: &str = "# Cases that Setpoint answers otherwise than kube-apiserver today, and what differs first. Made by the test \
                    `differential` (crates/testkit/tests/api/differential.rs says how).\n";

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../diff/golden").join(name)
}

#[tokio::test(start_paused = true)]
async fn recorded_cases_are_answered_as_upstream_does() {
    let recorded = std::fs::read_to_string(golden("answers.jsonl")).unwrap();
    let recorded: BTreeMap<String, Recorded> = recorded
        .lines()
        .map(|line| diff::read_golden(line).unwrap_or_else(|| panic!("not a recorded answer: {line}")))
        .map(|answer| (answer.case.clone(), answer))
        .collect();
    let known_text = std::fs::read_to_string(golden("known.tsv")).unwrap();
    let known: BTreeMap<&str, &str> =
        known_text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once('\t')).collect();

    // The recording was made without kube-controller-manager.
    let cluster = TestCluster::with_accounts(Env::simulated(11), |_| {}).await;
    let mut played = 0;
    let mut failures = Vec::new();
    let mut new_known = String::from(HEAD);
    let mut explained = Explained::built_in(Against::Recorded).unwrap();
    for scenario in diff::scenarios(&cluster.catalog()) {
        let mut player = Player::new(&scenario, "dfreplay");
        for request in player.prepare() {
            ask(&cluster, &request).await;
        }
        while player.next().is_some() {
            if let Some(look) = player.refresh() {
                let answer = ask(&cluster, &look).await;
                player.refreshed(&answer);
            }
            let Some((step, request)) = player.next() else { break };
            let answer = ask(&cluster, &request).await;
            let Some(outcome) = player.answer(&request, &answer) else {
                cluster.env().sleep(std::time::Duration::from_millis(50)).await;
                continue;
            };
            if !diff::golden_keeps(&scenario, step) {
                continue;
            }
            let case = format!("{} / {}", scenario.name, step.name);
            let Some(recorded) = recorded.get(&case).filter(|r| r.request == step.fingerprint()) else {
                failures.push(format!("{case}: no answer to this request is recorded; record them anew"));
                continue;
            };
            played += 1;
            let difference = recorded.difference(&outcome);
            if let Some(difference) = &difference {
                let _ = writeln!(new_known, "{case}\t{}", short(difference));
                if explained.reason(&case, &difference.place).is_none() {
                    failures.push(format!("{case}: {}: no reason in explained.tsv", short(difference)));
                }
            }
            match (difference, known.get(case.as_str())) {
                (Some(d), None) => {
                    failures.push(format!("{case}: {}\n  {} {}", short(&d), request.method, request.path))
                }
                (Some(d), Some(was)) if place(&short(&d)) != place(was) => failures
                    .push(format!("{case}: differs otherwise than known: {} (known: {was})", short(&d))),
                (None, Some(_)) => failures.push(format!("{case}: passes, so it may not stand in known.tsv")),
                _ => {}
            }
        }
    }
    cluster.shutdown().await;
    if let Ok(mode) = std::env::var("DIFF_KNOWN") {
        let keep = |line: &&str| {
            line.starts_with('#')
                || mode == "write"
                || line.split_once('\t').is_some_and(|(case, _)| known.contains_key(case))
        };
        let text: String = new_known.lines().filter(keep).flat_map(|line| [line, "\n"]).collect();
        std::fs::write(golden("known.tsv"), text).unwrap();
        return;
    }
    assert!(played > 1000, "only {played} cases were compared");
    failures.extend(
        known
            .keys()
            .filter(|case| !recorded.contains_key(**case))
            .map(|case| format!("{case}: no such case, but it stands in known.tsv")),
    );
    failures.extend(explained.idle().map(|line| format!("explains no difference: {line}")));
    let shown: Vec<&str> = failures.iter().take(40).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {played} cases:\n{}", failures.len(), shown.join("\n"));
}

/// What differs; of a status also how. What is allotted by chance may be another value each time.
fn place(difference: &str) -> &str {
    if difference.starts_with("status: ") { difference } else { difference.split(": ").next().unwrap_or("") }
}

async fn ask(cluster: &TestCluster, request: &Request) -> Answer {
    // Who the recording was made by.
    let mut admin = UserInfo::new("admin", &[groups::MASTERS, groups::AUTHENTICATED]);
    admin.uid = "admin".to_owned();
    let mut ask = cluster.request(request.method, &request.path).by(admin).accept(&request.accept);
    // Who manages fields: as when the answers were recorded.
    ask = ask.header("user-agent", "setpoint");
    if let (Some(content_type), Some(body)) = (&request.content_type, &request.body) {
        ask = ask.typed(content_type, body.clone());
    }
    let reply = ask.send().await;
    // The recording was made over a network: what upstream writes by itself was there when the next request came.
    cluster.env().sleep(std::time::Duration::from_millis(5)).await;
    Answer {
        status: reply.status,
        content_type: reply.content_type().to_owned(),
        warnings: reply.warnings(),
        body: reply.bytes.to_vec(),
    }
}

/// What differs, on one line.
fn short(difference: &Difference) -> String {
    let cut = |text: &str| -> String {
        let text = text.replace(['\t', '\n'], " ");
        if text.chars().count() > 90 { text.chars().take(90).chain("...".chars()).collect() } else { text }
    };
    format!("{}: {} instead of {}", difference.place, cut(&difference.ours), cut(&difference.theirs))
}
