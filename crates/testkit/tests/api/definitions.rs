//! A resource that is registered, changed and removed at run time, on each engine: what a CustomResourceDefinition will do.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Name, Resource, ResourceDef, Selectable, Storage};
use env::Env;
use serde_json::{Value, json};
use store::{Commit, CommitError, DiskEngine, DiskOptions, Engine, Guard, MemoryEngine, Op};
use store_etcd::EtcdEngine;
use table::Table;
use testkit::{TestCluster, widgets};

const PATH: &str = "/apis/example.io/v1/namespaces/default/widgets";
const OLD: &str = "/registry/example.io/widgets/default/old";

/// Selectable by color, and served as v2 too.
fn changed() -> ResourceDef {
    let mut def = widgets();
    let storage = Storage::clone(def.storage.as_ref().unwrap());
    def.storage = Some(Arc::new(Storage { selectable: vec![Selectable::new("spec.color")], ..storage }));
    let second = Resource { version: Name::Static("v2"), ..Resource::clone(&def.served[0]) };
    def.served.push(Arc::new(second));
    def
}

/// Where the objects are stored, and outlive the server.
enum Kept {
    Memory(Arc<Table>, Arc<dyn Engine>),
    Disk(tempfile::TempDir),
    Etcd(EtcdProcess),
}

impl Kept {
    async fn engine(&self, env: &Env) -> (Arc<Table>, Arc<dyn Engine>) {
        let table = Table::new(Arc::new(Catalog::builtin()), env.clone());
        let engine: Arc<dyn Engine> = match self {
            Kept::Memory(table, engine) => return (table.clone(), engine.clone()),
            Kept::Disk(folder) => {
                DiskEngine::open(folder.path(), table.clone(), DiskOptions::default()).unwrap()
            }
            Kept::Etcd(etcd) => etcd.connect(env, table.clone()).await,
        };
        (table, engine)
    }

    async fn cluster(&self) -> TestCluster {
        let env = Env::machine();
        let (table, engine) = self.engine(&env).await;
        TestCluster::with(env, |config| (config.table, config.engine) = (table, engine)).await
    }
}

/// A real etcd; killed when dropped.
struct EtcdProcess {
    process: Child,
    endpoint: String,
    _folder: tempfile::TempDir,
}

impl EtcdProcess {
    /// `None` where there is no etcd.
    fn start() -> Option<EtcdProcess> {
        let folder = tempfile::tempdir().unwrap();
        let port = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (endpoint, peer) =
            (format!("http://127.0.0.1:{}", port()), format!("http://127.0.0.1:{}", port()));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path())
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(EtcdProcess { process, endpoint, _folder: folder })
    }

    async fn connect(&self, env: &Env, table: Arc<Table>) -> Arc<dyn Engine> {
        for _ in 0..600 {
            let endpoints = vec![self.endpoint.clone()];
            match EtcdEngine::connect(endpoints, "/registry/".into(), env.clone(), table.clone()).await {
                Ok(engine) => return engine,
                // It has only just been started.
                Err(_) => env.sleep(Duration::from_millis(100)).await,
            }
        }
        panic!("etcd does not answer")
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_comes_changes_and_goes_in_memory() {
    let env = Env::machine();
    let table = Table::new(Arc::new(Catalog::builtin()), env);
    let engine = MemoryEngine::open(table.clone());
    story(Kept::Memory(table, engine)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_comes_changes_and_goes_on_disk() {
    story(Kept::Disk(tempfile::tempdir().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_comes_changes_and_goes_on_etcd() {
    match EtcdProcess::start() {
        Some(etcd) => story(Kept::Etcd(etcd)).await,
        None => println!("skipped: there is no etcd here (`make setup` installs it)"),
    }
}

async fn story(kept: Kept) {
    stored_before(&kept).await;
    let cluster = kept.cluster().await;
    let registry = cluster.api().registry();
    unknown(&cluster).await;

    let generation = registry.catalog().generation();
    registry.define(widgets()).unwrap();
    assert!(registry.catalog().generation() > generation);
    assert_eq!(registry.table().unclaimed(), 0);
    let mut watch = cluster.watch(format!("{PATH}?watch=1&resourceVersion=0&timeoutSeconds=60")).await;
    let first = watch.next().await.expect("the state first");
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("old")));
    served(&cluster).await;
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("DELETED b") {
        let event = watch.next().await.expect("an event of what was done");
        let (kind, name) =
            (event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap());
        seen.push(format!("{kind} {name}"));
    }
    assert_eq!(seen, ["ADDED a", "MODIFIED a", "MODIFIED a", "MODIFIED a", "ADDED b", "DELETED b"]);

    registry.define(changed()).unwrap();
    let end = watch.next().await.expect("a word that it ends");
    assert_eq!((&end["type"], &end["object"]["code"]), (&json!("ERROR"), &json!(410)), "{end}");
    served_otherwise(&cluster).await;

    let mut watch = cluster.watch(format!("{PATH}?watch=1&timeoutSeconds=60")).await;
    assert_eq!(watch.next().await.expect("the state")["object"]["metadata"]["name"], json!("a"));
    assert_eq!(watch.next().await.expect("the state")["object"]["metadata"]["name"], json!("old"));
    registry.undefine("example.io", "widgets").unwrap();
    assert_eq!(watch.next().await.expect("its end")["object"]["code"], json!(410));
    unknown(&cluster).await;
    assert_eq!(registry.table().unclaimed(), 2, "what is stored stays");
    cluster.shutdown().await;
    if matches!(kept, Kept::Memory(..)) {
        return;
    }
    let again = kept.cluster().await;
    again.api().registry().define(widgets()).unwrap();
    assert_eq!(names(&again.get(PATH).await.ok(200)), ["a", "old"]);
    again.shutdown().await;
}

/// An object in the store before anybody knows what it is; and a create that would overwrite it.
async fn stored_before(kept: &Kept) {
    let (table, engine) = kept.engine(&Env::machine()).await;
    let old = json!({"kind": "Widget", "apiVersion": "example.io/v1",
        "metadata": {"name": "old", "namespace": "default", "uid": "u"}, "spec": {"color": "grey"}});
    let put = || Op::Put { value: serde_json::to_vec(&old).unwrap().into(), expires_at: None };
    let absent = || Commit {
        guards: vec![(OLD.into(), Guard::Absent)],
        ops: vec![(OLD.into(), put())],
        removal: false,
    };
    engine.commit(absent()).await.unwrap();
    assert!(matches!(engine.commit(absent()).await, Err(CommitError::Conflict { .. })));
    assert_eq!(table.unclaimed(), 1);
    if !matches!(kept, Kept::Memory(..)) {
        engine.close().await;
    }
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

async fn unknown(cluster: &TestCluster) {
    assert_eq!(cluster.get(PATH).await.status, 404);
    assert_eq!(cluster.get("/apis/example.io/v1").await.status, 404);
    let groups = cluster.get("/apis").await.ok(200);
    assert!(groups["groups"].as_array().unwrap().iter().all(|group| group["name"] != "example.io"));
    let documents = cluster.get("/openapi/v3").await.ok(200);
    assert!(documents["paths"]["apis/example.io/v1"].is_null());
}

async fn served(cluster: &TestCluster) {
    let resources = cluster.get("/apis/example.io/v1").await.ok(200);
    let found: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(found, ["widgets", "widgets/status"]);
    let documents = cluster.get("/openapi/v3").await.ok(200);
    assert!(documents["paths"]["apis/example.io/v1"].is_object(), "the index follows the catalogue");

    let list = cluster.get(PATH).await.ok(200);
    assert_eq!((list["kind"].as_str(), names(&list)), (Some("WidgetList"), vec!["old"]));
    let taken = cluster.post(PATH, json!({"metadata": {"name": "old"}})).await;
    assert_eq!(taken.status, 409);

    let mut made = cluster
        .post(
            PATH,
            json!({"metadata": {"name": "a"}, "spec": {"color": "red", "size": 1}, "status": {"phase": "x"}}),
        )
        .await
        .ok(201);
    assert_eq!(made["metadata"]["generation"], 1);
    made["spec"]["color"] = json!("blue");
    let stale = made["metadata"]["resourceVersion"].clone();
    let put = cluster.put(format!("{PATH}/a"), made.clone()).await.ok(200);
    assert_eq!((&put["spec"]["color"], &put["metadata"]["generation"]), (&json!("blue"), &json!(2)));
    made["metadata"]["resourceVersion"] = stale;
    assert_eq!(cluster.put(format!("{PATH}/a"), made).await.status, 409);
    let patch = cluster.merge(format!("{PATH}/a"), json!({"spec": {"size": 3}}));
    assert_eq!(patch.await.ok(200)["spec"], json!({"color": "blue", "size": 3}));
    let status =
        cluster.merge(format!("{PATH}/a/status"), json!({"status": {"phase": "Ready"}, "spec": {"size": 9}}));
    let status = status.await.ok(200);
    assert_eq!((&status["status"]["phase"], &status["spec"]["size"]), (&json!("Ready"), &json!(3)));
    cluster.post(PATH, json!({"metadata": {"name": "b"}})).await.ok(201);
    cluster.delete(format!("{PATH}/b")).await.ok(200);
    assert_eq!(cluster.get(format!("{PATH}/b")).await.status, 404);
}

async fn served_otherwise(cluster: &TestCluster) {
    let second = "/apis/example.io/v2/namespaces/default/widgets";
    let a = cluster.get(format!("{second}/a")).await.ok(200);
    assert_eq!((&a["apiVersion"], &a["spec"]["color"]), (&json!("example.io/v2"), &json!("blue")));
    let first = cluster.get(format!("{PATH}/a")).await.ok(200);
    assert_eq!(first["apiVersion"], "example.io/v1");
    assert_eq!(names(&cluster.get(format!("{PATH}?fieldSelector=spec.color=grey")).await.ok(200)), ["old"]);
    assert_eq!(cluster.get(format!("{PATH}?fieldSelector=spec.size=3")).await.status, 400);
}
