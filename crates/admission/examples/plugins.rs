//! What all plugins together cost a new pod: `cargo run --release -p admission --example plugins`.

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempt, Chain, Choice, Effects, Operation, PluginSettings, RequestContext};
use auth::{Decision, UserInfo};
use catalog::{Catalog, Storage};
use codec::json;
use env::Env;
use store::{Commit, MemoryEngine, Op};
use table::Table;

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"name":"c","image":"x"}],"restartPolicy":"Always"}}"#;
const TURNS: u32 = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let catalog = Arc::new(Catalog::builtin());
    let env = Env::machine();
    let table = Table::new(catalog.clone(), env.clone());
    let engine = MemoryEngine::open(table.clone());
    let stored = |group: &str, plural: &str| -> &Storage {
        catalog
            .storages()
            .iter()
            .find(|s| s.group == *group && s.plural == *plural)
            .expect("a stored resource")
    };
    let put = async |group: &str, plural: &str, key: (&str, &str), value: String| {
        let key = stored(group, plural).key(key.0, key.1).into();
        let ops = vec![(key, Op::Put { value: value.into(), expires_at: None })];
        engine.commit(Commit { guards: Vec::new(), ops, removal: false }).await.expect("memory takes it");
    };
    let object = |kind: &str, version: &str, metadata: &str, rest: &str| {
        format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"uid":"u",{metadata}}}{rest}}}"#)
    };
    let labels = r#""name":"n","labels":{"kubernetes.io/metadata.name":"n"}"#;
    put("", "namespaces", ("", "n"), object("Namespace", "v1", labels, r#","spec":{}"#)).await;
    let account = object("ServiceAccount", "v1", r#""name":"default","namespace":"n""#, "");
    put("", "serviceaccounts", ("n", "default"), account).await;
    let class = object("PriorityClass", "scheduling.k8s.io/v1", r#""name":"c""#, r#","value":1"#);
    put("scheduling.k8s.io", "priorityclasses", ("", "c"), class).await;

    let allow: admission::Authorize = Arc::new(|_, _| Decision { allowed: true, reason: String::new() });
    let chain = Chain::new(&Choice::default(), &PluginSettings::default(), &allow, Vec::new())
        .expect("the default plugins exist");
    let user = UserInfo::new("u", &[]);
    let pods = catalog.find("", "v1", "pods").expect("pods");
    let request = RequestContext {
        namespace: "n",
        ..RequestContext::new(&user, &catalog, pods, catalog::Verbs::CREATE, env.monotonic())
    };
    let attempt = Attempt {
        request: &request,
        operation: Operation::Create,
        storage: stored("", "pods"),
        name: "p",
        generate_name: "",
        old: None,
        body: admission::Body::Resource,
        delete_options: None,
        versions: &(),
        dry_run: false,
        table: &table,
        env: &env,
    };
    let sent = json::parse(POD.as_bytes(), None).expect("the sample is JSON");
    let mut whole = sent.clone();
    chain
        .mutate_built_in(&attempt, &mut whole, &mut Effects::default())
        .unwrap_or_else(|r| panic!("{}", r.status.message));
    for (what, pod) in [("as sent", &sent), ("already complete", &whole)] {
        let begun = busy();
        for _ in 0..TURNS {
            drop(pod.clone());
        }
        let cloning = (busy() - begun) / TURNS;
        let begun = busy();
        for _ in 0..TURNS {
            let mut new = pod.clone();
            chain.mutate_built_in(&attempt, &mut new, &mut Effects::default()).expect("it passes");
            drop(new);
        }
        let mutating = ((busy() - begun) / TURNS).saturating_sub(cloning);
        let begun = busy();
        for _ in 0..TURNS {
            chain.validate_built_in(&attempt, Some(&whole), &mut Effects::default()).expect("it passes");
        }
        println!("{what}: mutate {mutating:?}, validate {:?} a pod", (busy() - begun) / TURNS);
    }
}

/// How long this thread has run: what else the machine does must not count.
fn busy() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}
