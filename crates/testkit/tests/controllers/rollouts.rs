//! `kubectl rollout` with our controllers: over a socket, in real time.

use std::process::Command;
use std::time::Duration;

use testkit::TestCluster;

use crate::workloads::{make_all_ready, start};

/// Runs kubectl while every pod that appears becomes ready.
async fn kubectl(cluster: &TestCluster, config: &str, arguments: &str) -> String {
    let words: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let config = config.to_owned();
    // Another process is waited for: there is no other way than a thread.
    #[allow(clippy::disallowed_methods)]
    let mut running = tokio::task::spawn_blocking(move || {
        Command::new("kubectl").arg("--kubeconfig").arg(config).args(words).output().expect("kubectl runs")
    });
    loop {
        tokio::select! {
            biased;
            output = &mut running => {
                let output = output.expect("kubectl ends");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{arguments}: {text}{}", String::from_utf8_lossy(&output.stderr));
                return text;
            }
            () = cluster.env().sleep(Duration::from_millis(20)) => make_all_ready(cluster).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_follows_undoes_pauses_and_resumes_a_rollout() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.expect("a socket");
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config");
    std::fs::write(&config, &served.kubeconfig).expect("a file");
    let config = config.to_str().expect("a plain path").to_owned();
    let plane = start(&cluster);
    let run = async |arguments: &str| kubectl(&cluster, &config, arguments).await;
    let status = "rollout status deployment/web --timeout=60s";

    run("create deployment web --image=a:1 --replicas=3").await;
    assert!(run(status).await.contains("deployment \"web\" successfully rolled out"));
    run("set image deployment/web a=a:2").await;
    assert!(run(status).await.contains("successfully rolled out"));
    let revisions = |history: &str| {
        let numbers = history.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u32>().ok());
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(revisions(&run("rollout history deployment/web").await), [1, 2]);
    assert!(run("rollout history deployment/web --revision=1").await.contains("a:1"));

    run("rollout undo deployment/web").await;
    assert!(run(status).await.contains("successfully rolled out"));
    assert_eq!(revisions(&run("rollout history deployment/web").await), [2, 3]);
    let image = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(run(image).await, "a:1");

    run("rollout pause deployment/web").await;
    run("set image deployment/web a=a:4").await;
    let pods = "get pods -o jsonpath={.items[*].spec.containers[0].image}";
    assert_eq!(run(pods).await, "a:1 a:1 a:1");
    run("rollout resume deployment/web").await;
    assert!(run(status).await.contains("successfully rolled out"));
    assert_eq!(run(pods).await, "a:4 a:4 a:4");
    run("scale deployment/web --replicas=1").await;
    assert!(run(status).await.contains("successfully rolled out"));
    assert!(run("describe deployment web").await.contains("NewReplicaSetAvailable"));

    plane.stop().await;
    cluster.shutdown().await;
}
