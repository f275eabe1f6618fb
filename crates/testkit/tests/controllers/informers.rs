//! An informer as a view of the server's table, and a controller on it.

use std::sync::Arc;
use std::time::Duration;

use client::resources::CONFIG_MAPS;
use client::{Client, Patch, WriteOptions};
use futures_util::future::BoxFuture;
use object::{Map, Value};
use runtime::{Action, Controller, Failure, Informer, Reconcile, ReconcileRequest};
use serde_json::json;
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Every map in `default` gets the label it should have.
struct Labelled {
    maps: Arc<Informer>,
    client: Arc<dyn Client>,
}

impl Reconcile for Labelled {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(map) = self.maps.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            if map.label("held") == Some("yes") || map.namespace() != "default" {
                return Ok(Action::AwaitChange);
            }
            let mut patch = Value::map();
            let mut labels = Map::default();
            labels.set("held", "yes");
            patch.map_at(&["metadata"]).set("labels", Value::Map(labels));
            self.client.patch(CONFIG_MAPS.of(&map), Patch::Merge(patch), WriteOptions::default()).await?;
            Ok(Action::AwaitChange)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_keeps_every_config_map_labelled() {
    let cluster = TestCluster::simulated(1).await;
    let mut plane = cluster.bare_control_plane(cluster.local_clients());
    let context = plane.context.clone();
    let maps = context.informers.of(&CONFIG_MAPS);
    let client = context.clients.user("kubernetes-admin", &["system:masters"]);
    let controllers = Controller::new(&context.env, "labelled").owns_keys_of(&maps).start(
        &context.controllers,
        Arc::new(Labelled { maps: maps.clone(), client }),
        context.stop.clone(),
    );
    plane.own(controllers);

    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let held = || async {
        for _ in 0..1000 {
            let map = cluster.get(&format!("{MAPS}/a")).await.json();
            if map["metadata"]["labels"]["held"] == "yes" {
                return true;
            }
            cluster.env().sleep(Duration::from_millis(10)).await;
        }
        false
    };
    assert!(held().await, "the label never came");
    cluster.merge(&format!("{MAPS}/a"), json!({"metadata": {"labels": null}})).await.ok(200);
    assert!(held().await, "the label never came back");
    // The informer holds the server's own object, not a copy.
    let informed = maps.store().get("default", "a").unwrap();
    let catalog = cluster.catalog();
    let storage = catalog.find_storage("", "configmaps").unwrap();
    let served = cluster.api().registry().table().get(storage.id, &storage.key("default", "a")).unwrap();
    assert!(Arc::ptr_eq(&informed, &served));
    plane.stop().await;
    cluster.shutdown().await;
}
