//! A quota holds on two servers that share one etcd.

use serde_json::{Value, json};

use crate::etcd_server::Etcd;
use crate::harness::*;

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const ROOM: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_never_exceed_one_quota() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let server = |name: &str| Proc::start_with(&folder.path().join(name), &["--store", &etcd.store()]);
    let (one, two) = (server("one"), server("two"));
    let clients = [one.client().await, two.client().await];
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": ROOM.to_string()}}});
    assert_eq!(call(&clients[0], "POST", QUOTAS, Some(quota)).await.0, 201);
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let client = clients[number % 2].clone();
            tokio::spawn(async move {
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p-{number}")},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}});
                call(&client, "POST", PODS, Some(pod)).await
            })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        match task.await.unwrap() {
            (201, _) => created += 1,
            (403, answer) => {
                let told = answer["message"].as_str().unwrap().to_owned();
                assert!(
                    told.contains("exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10"),
                    "{told}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(created, ROOM);
    for client in &clients {
        let (_, pods) = call(client, "GET", PODS, None).await;
        assert_eq!(pods["items"].as_array().unwrap().len(), ROOM);
        let (_, quota) = call(client, "GET", &format!("{QUOTAS}/q"), None).await;
        assert_eq!(quota["status"]["used"], json!({"pods": "10"}));
    }
    // What goes on one server is free on the other.
    let (_, pods) = call(&clients[0], "GET", PODS, None).await;
    let name = pods["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let gone = call(&clients[0], "DELETE", &format!("{PODS}/{name}?gracePeriodSeconds=0"), None).await;
    assert_eq!(gone.0, 200, "{}", gone.1);
    for _ in 0..500 {
        let (_, quota): (u16, Value) = call(&clients[1], "GET", &format!("{QUOTAS}/q"), None).await;
        if quota["status"]["used"]["pods"] == "9" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the deleted pod stays charged");
}
