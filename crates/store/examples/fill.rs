//! Fills a store with pods, to measure a start on it: `fill DIR COUNT`. A server finds them with `--data-dir` of DIR's parent, if
//! DIR is called `store`. See docs/performance.md.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use store::{Change, Commit, DiskEngine, DiskOptions, Entry, Key, Op, Reload, Revision, State};

const WRITERS: u64 = 256;

/// Remembers nothing: nobody asks, for no commit has guards.
struct Forgetful;

impl State for Forgetful {
    fn current(&self, _: &str) -> Option<Revision> {
        None
    }
    fn reload(&self) -> Box<dyn Reload + '_> {
        Box::new(Forgetful)
    }
    fn publish(&self, _: Vec<Change>, _: Revision) {}
}

impl Reload for Forgetful {
    fn add(&mut self, _: Entry) {}
    fn finish(self: Box<Self>, _: Revision) {}
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let count: u64 = args[2].parse().expect("a number of pods");
    let engine = DiskEngine::open(Path::new(&args[1]), Arc::new(Forgetful), DiskOptions::default())
        .expect("a usable directory");
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let engine = engine.clone();
        tasks.spawn(async move {
            for n in (writer..count).step_by(WRITERS as usize) {
                let (key, value) = pod(n);
                let ops = vec![(key, Op::Put { value, expires_at: None })];
                let commit = Commit { guards: vec![], ops, removal: false };
                engine.commit(commit).await.expect("a usable disk");
            }
        });
    }
    tasks.join_all().await;
    engine.close().await;
}

/// As the server stores it: pending, of a scheduler nobody is, so that no controller touches it. Names come in no order.
fn pod(n: u64) -> (Key, Bytes) {
    let id = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (namespace, name) = (format!("fill-{:02}", id % 50), format!("web-{id:016x}"));
    let uid = format!("{:08x}-0000-4000-8000-{:012x}", id >> 32, n);
    let value = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","generation":1,"creationTimestamp":"2026-11-17T03:00:44Z","labels":{{"app":"web","pod-template-hash":"bc596bf4b"}}}},"spec":{{"volumes":[{{"name":"kube-api-access-tmxbz","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}],"containers":[{{"name":"web","image":"nginx:1.27","ports":[{{"containerPort":80,"protocol":"TCP"}}],"resources":{{"limits":{{"memory":"128Mi"}},"requests":{{"cpu":"100m","memory":"64Mi"}}}},"volumeMounts":[{{"name":"kube-api-access-tmxbz","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","securityContext":{{}},"schedulerName":"nobody","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Pending","qosClass":"Burstable"}}}}"#
    );
    (format!("/registry/pods/{namespace}/{name}").into(), value.into())
}
