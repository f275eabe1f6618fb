//! Microseconds per document: `cargo run --release -p codec --example documents`.

use catalog::{Catalog, Schema, TypeId};
use codec::json;
use object::normalise::{Strict, normalise};

fn main() {
    let catalog = Catalog::builtin();
    let config_map = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{{METADATA}}},"data":{{{}}}}}"#,
        data()
    );
    let pod = pod();
    for (ty, text) in [("core.v1.ConfigMap", config_map), ("core.v1.Pod", pod)] {
        let id = catalog.schema().find(ty).expect("a type of the catalogue");
        measure(ty, catalog.schema(), id, text.as_bytes());
    }
}

fn measure(name: &str, schema: &Schema, ty: TypeId, sent: &[u8]) {
    let hint = Some((schema, ty));
    let fresh = json::parse(sent, hint).expect("the sample is JSON");
    let mut canonical = fresh.clone();
    normalise(schema, ty, &mut canonical, &mut Strict::off()).expect("the sample fits its type");
    let stored = json::to_vec(&canonical);
    println!("{name}: {} bytes sent, {} stored", sent.len(), stored.len());
    report("parse, as sent", &mut || drop(json::parse(sent, hint)));
    report("parse, as stored", &mut || drop(json::parse(&stored, hint)));
    report("parse, no hint", &mut || drop(json::parse(&stored, None)));
    report("clone (part of the next two)", &mut || drop(fresh.clone()));
    report("clone + normalise, as sent", &mut || {
        let mut value = fresh.clone();
        let _ = normalise(schema, ty, &mut value, &mut Strict::on());
    });
    report("clone + normalise, canonical", &mut || {
        let mut value = canonical.clone();
        let _ = normalise(schema, ty, &mut value, &mut Strict::on());
    });
    let mut out = Vec::with_capacity(stored.len());
    report("write", &mut || {
        out.clear();
        json::write(&canonical, &mut out);
    });
}

/// The best of many short rounds, because the machine is shared.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn report(what: &str, work: &mut dyn FnMut()) {
    const ROUND: u32 = 50;
    let round = |_| {
        let start = std::time::Instant::now();
        for _ in 0..ROUND {
            work();
        }
        start.elapsed() / ROUND
    };
    let best = (0..400).map(round).min().unwrap_or_default();
    println!("  {what:<30} {:>8.2} us", best.as_nanos() as f64 / 1000.0);
}

const METADATA: &str = r#""name":"web","namespace":"shop","uid":"9b2c1f6e-5a1d-4c7b-8e0f-0123456789ab","creationTimestamp":"2026-11-15T08:00:00Z","labels":{"app.kubernetes.io/name":"web","app.kubernetes.io/part-of":"shop","tier":"front"},"annotations":{"example.com/owner":"team-a"}"#;

fn data() -> String {
    (0..8)
        .map(|i| {
            format!(
                r#""setting-{i}.properties":"color=purple\nspeed={i}\nallow.textmode=true\nhow.nice=very""#
            )
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// As kubectl sends one: keys of structs sorted, not in declaration order.
pub fn pod() -> String {
    let env = (0..8)
        .map(|i| format!(r#"{{"name":"SETTING_{i}","valueFrom":{{"configMapKeyRef":{{"key":"setting-{i}","name":"web"}}}}}}"#))
        .collect::<Vec<_>>()
        .join(",");
    let container = |name: &str| {
        format!(
            r#"{{"args":["--listen=:8080","--log=json"],"env":[{env}],"image":"registry.example.com/shop/{name}:1.27.3","imagePullPolicy":"IfNotPresent","livenessProbe":{{"failureThreshold":3,"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"initialDelaySeconds":5,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1}},"name":"{name}","ports":[{{"containerPort":8080,"name":"http","protocol":"TCP"}}],"readinessProbe":{{"httpGet":{{"path":"/readyz","port":"http","scheme":"HTTP"}},"periodSeconds":10}},"resources":{{"limits":{{"cpu":"500m","memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"securityContext":{{"allowPrivilegeEscalation":false,"capabilities":{{"drop":["ALL"]}},"runAsNonRoot":true}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{{"mountPath":"/etc/web","name":"config","readOnly":true}},{{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-x7k2p","readOnly":true}}]}}"#
        )
    };
    let containers = [container("web"), container("proxy"), container("metrics")].join(",");
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|c| format!(r#"{{"lastProbeTime":null,"lastTransitionTime":"2026-11-15T08:00:05Z","status":"True","type":"{c}"}}"#))
        .join(",");
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{METADATA},"ownerReferences":[{{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"web-6d4cf56db6","uid":"1f6e9b2c-5a1d-4c7b-8e0f-ba9876543210"}}]}},"spec":{{"containers":[{containers}],"dnsPolicy":"ClusterFirst","nodeName":"node-17","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{{}},"serviceAccountName":"default","terminationGracePeriodSeconds":30,"tolerations":[{{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}}],"volumes":[{{"configMap":{{"defaultMode":420,"name":"web"}},"name":"config"}},{{"name":"kube-api-access-x7k2p","projected":{{"defaultMode":420,"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"items":[{{"key":"ca.crt","path":"ca.crt"}}],"name":"kube-root-ca.crt"}}}}]}}}}]}},"status":{{"conditions":[{conditions}],"hostIP":"10.0.0.17","phase":"Running","podIP":"10.244.3.9","podIPs":[{{"ip":"10.244.3.9"}}],"qosClass":"Burstable","startTime":"2026-11-15T08:00:00Z"}}}}"#
    )
}
