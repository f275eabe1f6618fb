//! kube-rs over HTTPS: typed, dynamic and custom objects, watches, patches, conflicts.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ResourceQuota, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::*;

fn from(value: serde_json::Value) -> ConfigMap {
    serde_json::from_value(value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_objects_are_created_patched_watched_and_deleted() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let client = server.client().await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");

    let made = maps.create(&PostParams::default(), &from(config_map("a", "1"))).await.unwrap();
    let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut stale = made.clone();
    for (value, patch) in [
        ("2", Patch::Merge(json!({"data": {"value": "2"}}))),
        ("3", Patch::Strategic(json!({"data": {"value": "3"}}))),
    ] {
        let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(patched.data.unwrap()["value"], value);
    }
    stale.data = Some([("value".to_owned(), "4".to_owned())].into());
    code(maps.replace("a", &PostParams::default(), &stale).await, 409);
    code(maps.create(&PostParams::default(), &made_again(&made)).await, 409);
    code(maps.get("missing").await, 404);
    code(maps.create(&PostParams::default(), &from(config_map("Not A Name", "1"))).await, 422);
    let elsewhere: Api<ConfigMap> = Api::namespaced(client, "nowhere");
    code(elsewhere.create(&PostParams::default(), &from(config_map("a", "1"))).await, 404);
    maps.delete("a", &DeleteParams::default()).await.unwrap();

    let mut seen = Vec::new();
    let mut events = maps.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    while seen.len() < 3 {
        match events.next().await.unwrap().unwrap() {
            WatchEvent::Modified(map) => seen.push(("modified", map.data.unwrap()["value"].clone())),
            WatchEvent::Deleted(map) => seen.push(("deleted", map.data.unwrap()["value"].clone())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, [("modified", "2".into()), ("modified", "3".into()), ("deleted", "3".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamic_objects_and_selectors_work() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let client = server.client().await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "Role"));
    let roles: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    for (name, tier) in [("a", "front"), ("b", "back")] {
        let role = DynamicObject::new(name, &kind).data(json!({"rules": []}));
        let mut role = roles.create(&PostParams::default(), &role).await.unwrap();
        role.labels_mut().insert("tier".into(), tier.into());
        roles.replace(name, &PostParams::default(), &role).await.unwrap();
    }
    let named = |list: kube::core::ObjectList<DynamicObject>| -> Vec<String> {
        list.into_iter().map(|role| role.name_any()).collect()
    };
    assert_eq!(named(roles.list(&ListParams::default().labels("tier=back")).await.unwrap()), ["b"]);
    assert_eq!(named(roles.list(&ListParams::default().fields("metadata.name=a")).await.unwrap()), ["a"]);
    let page = roles.list(&ListParams::default().limit(1)).await.unwrap();
    let token = page.metadata.continue_.clone().unwrap();
    assert_eq!(named(page), ["a"]);
    assert_eq!(
        named(roles.list(&ListParams::default().limit(1).continue_token(&token)).await.unwrap()),
        ["b"]
    );
    roles.delete_collection(&DeleteParams::default(), &ListParams::default().labels("tier")).await.unwrap();
    assert!(roles.list(&ListParams::default()).await.unwrap().items.is_empty());

    let namespaces: Api<Namespace> = Api::all(client);
    let names: Vec<String> =
        namespaces.list(&ListParams::default()).await.unwrap().into_iter().map(|n| n.name_any()).collect();
    assert!(names.contains(&"kube-system".to_owned()), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_services_jobs_and_quotas_are_defaulted_allocated_and_counted() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let client = server.client().await;
    let post = PostParams::default();
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "default");
    let hard = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    quotas.create(&post, &typed(hard)).await.unwrap();

    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let containers = json!([{"name": "c", "image": "nginx"}]);
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    let made = pods.create(&post, &typed(pod("p"))).await.unwrap();
    let spec = made.spec.unwrap();
    assert_eq!(spec.service_account_name.as_deref(), Some("default"));
    assert!(spec.volumes.unwrap().iter().any(|v| v.name.starts_with("kube-api-access-")));
    code(pods.create(&post, &typed(pod("over"))).await, 403);
    let used = quotas.get("q").await.unwrap().status.unwrap().used.unwrap();
    assert_eq!(used["pods"].0, "1");

    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let spec = services.create(&post, &typed(service)).await.unwrap().spec.unwrap();
    assert!(spec.cluster_ip.unwrap().starts_with("10.96."));
    assert!(spec.ports.unwrap()[0].node_port.unwrap() >= 30000);

    let jobs: Api<Job> = Api::namespaced(client, "default");
    let template = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template}});
    assert_eq!(jobs.create(&post, &typed(job)).await.unwrap().spec.unwrap().completions, Some(1));

    pods.evict("p", &EvictParams::default()).await.unwrap();
    code(pods.get("p").await, 404);
}

/// A resource with types for its spec and status, from its definition to its end.
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_defined_written_watched_and_gone() {
    type Gear = kube::core::Object<BTreeMap<String, i64>, BTreeMap<String, bool>>;
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let client = server.client().await;
    let (post, delete) = (PostParams::default(), DeleteParams::default());
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let field = |kind: &str| json!({"type": "object", "additionalProperties": {"type": kind}});
    let schema =
        json!({"type": "object", "properties": {"spec": field("integer"), "status": field("boolean")}});
    let crd = json!({
        "metadata": {"name": "gears.example.io"},
        "spec": {
            "group": "example.io", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    });
    crds.create(&post, &typed(crd)).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.io", "v1", "Gear"));
    let gears: Api<Gear> = Api::namespaced_with(client, "default", &kind);
    let start = loop {
        match gears.list(&ListParams::default()).await {
            Ok(list) => break list.metadata.resource_version.unwrap(),
            Err(kube::Error::Api(status)) if status.code == 404 => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    let mut gear = Gear::new("a", &kind, [("teeth".to_owned(), 12)].into());
    gear.metadata.finalizers = Some(vec!["example.io/brake".to_owned()]);
    let mut made = gears.create(&post, &gear).await.unwrap();
    assert_eq!((made.spec["teeth"], made.metadata.generation), (12, Some(1)));
    made.status = Some([("turns".to_owned(), true)].into());
    let turning = gears.replace_status("a", &post, &made).await.unwrap();
    assert_eq!((turning.status.unwrap()["turns"], turning.metadata.generation), (true, Some(1)));
    code(gears.replace("a", &post, &made).await, 409);
    let broken = Patch::Merge(json!({"spec": {"teeth": "many"}}));
    code(gears.patch("a", &PatchParams::default(), &broken).await, 422);

    // The definition waits for its objects, and they for their finalizers.
    crds.delete("gears.example.io", &delete).await.unwrap();
    let mut events = gears.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    let mut seen = Vec::new();
    loop {
        let (event, gear) = match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(gear) => ("added", gear),
            WatchEvent::Modified(gear) => ("modified", gear),
            WatchEvent::Deleted(gear) => ("deleted", gear),
            other => panic!("{other:?}"),
        };
        seen.push(event);
        if event == "modified" && gear.metadata.deletion_timestamp.is_some() {
            let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            gears.patch("a", &PatchParams::default(), &release).await.unwrap();
        }
        if event == "deleted" {
            break;
        }
    }
    assert_eq!(seen, ["added", "modified", "modified", "deleted"]);
    while crds.get_opt("gears.example.io").await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    // What is served follows the definition.
    let refused = loop {
        match gears.list(&ListParams::default()).await {
            Ok(_) => tokio::task::yield_now().await,
            // It went during the request.
            Err(kube::Error::Api(status)) if status.code == 503 => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    code::<()>(Err(refused), 404);
}

/// Server-side apply: typed, dynamic, of a status and of a scale.
#[tokio::test(flavor = "multi_thread")]
async fn patches_are_applied_under_their_managers() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let client = server.client().await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let web = |replicas: i32| {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec =
            json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let made = deployments.patch("web", &one, &Patch::Apply(web(1))).await.unwrap();
    let again = deployments.patch("web", &one, &Patch::Apply(web(1))).await.unwrap();
    assert_eq!(again, made, "nothing changed, nothing was written");
    match deployments.patch("web", &two, &Patch::Apply(web(2))).await {
        Err(kube::Error::Api(status)) => {
            let said = "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas";
            assert_eq!((status.code, &*status.message), (409, said));
        }
        other => panic!("{other:?}"),
    }
    let forced = deployments.patch("web", &two.clone().force(), &Patch::Apply(web(2))).await.unwrap();
    assert_eq!(forced.spec.unwrap().replicas, Some(2));
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 3}});
    code(deployments.patch_scale("web", &one, &Patch::Apply(&scale)).await, 409);
    let scaled = deployments.patch_scale("web", &one.clone().force(), &Patch::Apply(&scale)).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(3));
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 3}});
    let stated =
        deployments.patch_status("web", &PatchParams::apply("node"), &Patch::Apply(status)).await.unwrap();
    let managers = stated.metadata.managed_fields.unwrap();
    let mut who: Vec<String> = managers
        .into_iter()
        .map(|m| format!("{} {}", m.manager.unwrap_or_default(), m.subresource.unwrap_or_default()))
        .collect();
    who.sort();
    assert_eq!(who, ["node status", "one ", "one scale", "two "]);
    code(
        deployments
            .patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": -1}})))
            .await,
        422,
    );

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let maps: Api<DynamicObject> = Api::namespaced_with(client, "default", &kind);
    let map = DynamicObject::new("m", &kind).data(json!({"data": {"k": "1"}}));
    let made = maps.patch("m", &one, &Patch::Apply(&map)).await.unwrap();
    assert_eq!(made.data["data"], json!({"k": "1"}));
}

fn typed<T: k8s_openapi::serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn made_again(map: &ConfigMap) -> ConfigMap {
    let mut again = map.clone();
    again.metadata.resource_version = None;
    again.metadata.uid = None;
    again
}

fn code<T: std::fmt::Debug>(result: kube::Result<T>, code: u16) {
    match result {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, code, "{status:?}"),
        other => panic!("wanted {code}, got {other:?}"),
    }
}
