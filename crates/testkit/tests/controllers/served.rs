//! Resources that come and go while controllers run: the served resources are looked up on each use.

use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use client::{Client, Clients};
use parking_lot::Mutex;
use serde_json::json;
use testkit::TestCluster;
use testkit::forward::{Forward, Wrapping};

use crate::garbage_collector::{COLLECTOR, at, cluster, create, delete, gone, is_there, map, reference};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Nothing but config maps and namespaces.
const FEW: &str = "\
resource core/v1 namespaces core.v1.Namespace cluster singular=namespace verbs=all
  storage /registry/namespaces/

resource core/v1 configmaps core.v1.ConfigMap namespaced singular=configmap verbs=all
  storage /registry/configmaps/

type core.v1.Namespace gvk=/v1/Namespace
  1 metadata meta.v1.ObjectMeta omitempty value

type core.v1.ConfigMap gvk=/v1/ConfigMap
  1 metadata meta.v1.ObjectMeta omitempty value

type meta.v1.ObjectMeta
  1 name string omitempty
";

/// The discovery that controllers see; swapped by the test.
type Served = Arc<Mutex<Arc<Catalog>>>;

struct Serving {
    inner: Arc<dyn Client>,
    served: Served,
}

impl Forward for Serving {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn catalog(&self) -> Arc<Catalog> {
        self.served.lock().clone()
    }
}

/// Clients that know few resources at first; and both catalogues.
fn clients(cluster: &TestCluster) -> (Arc<dyn Clients>, Served, [Arc<Catalog>; 2]) {
    let few = Arc::new(Catalog::parse(&[("few.cat", FEW)]).expect("a catalogue"));
    let served: Served = Arc::new(Mutex::new(few.clone()));
    let told = served.clone();
    let wrap = move |inner| Serving { inner, served: told.clone() };
    let clients = Arc::new(Wrapping { inner: cluster.local_clients(), wrap });
    (clients, served, [few, cluster.catalog().clone()])
}

#[tokio::test(start_paused = true)]
async fn the_collector_follows_the_served_resources() {
    let cluster = cluster(11).await;
    let (clients, served, [few, all]) = clients(&cluster);
    let plane = cluster.controllers(clients, COLLECTOR);
    let owned = async |name: &str| {
        let owner = map(&cluster, name, json!([])).await;
        let secret = json!({"metadata": {"name": name, "ownerReferences": [reference(&owner, true)]}});
        create(&cluster, SECRETS, secret).await;
        delete(&cluster, &at(name), "Background").await;
        format!("{SECRETS}/{name}")
    };
    let minutes = || cluster.env().sleep(Duration::from_secs(120));

    let first = owned("first").await;
    minutes().await;
    assert!(is_there(&cluster, &first).await, "secrets are not known to be served");

    *served.lock() = all.clone();
    gone(&cluster, &first).await;

    *served.lock() = few;
    minutes().await;
    let second = owned("second").await;
    minutes().await;
    assert!(is_there(&cluster, &second).await, "nobody watches secrets any more");

    *served.lock() = all;
    gone(&cluster, &second).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_emptied_of_the_served_resources() {
    let cluster = cluster(12).await;
    let (clients, served, [_, all]) = clients(&cluster);
    let plane = cluster.controllers(clients, &["namespace-controller"]);
    create(&cluster, NAMESPACES, json!({"metadata": {"name": "n"}})).await;
    cluster.settled().await;
    let secrets = format!("{NAMESPACES}/n/secrets");
    create(&cluster, &secrets, json!({"metadata": {"name": "s"}})).await;
    *served.lock() = all;
    delete(&cluster, &format!("{NAMESPACES}/n"), "Background").await;
    gone(&cluster, &format!("{NAMESPACES}/n")).await;
    // Nothing is left for a namespace of the same name.
    create(&cluster, NAMESPACES, json!({"metadata": {"name": "n"}})).await;
    assert!(!is_there(&cluster, &format!("{secrets}/s")).await);
    plane.stop().await;
    cluster.shutdown().await;
}
