//! Options of requests, and how invalid ones are refused.

use serde_json::json;
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// An empty value is neither a dry run nor a write: its sender probably meant a dry run.
#[tokio::test(start_paused = true)]
async fn an_empty_dry_run_is_refused_by_every_verb() {
    let cluster = TestCluster::simulated(300).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(PODS, pod).await.ok(201);
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    cluster.post(DEPLOYMENTS, deployment).await.ok(201);
    let before = cluster.get(MAPS).await.version();

    let merge = "application/merge-patch+json";
    let body = "application/json";
    let named = |name: &str| json!({"metadata": {"name": name}}).to_string();
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}}).to_string();
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}}).to_string();
    for (method, path, media, sent, kind) in [
        ("POST", MAPS.to_owned(), body, named("b"), "CreateOptions"),
        ("PUT", format!("{MAPS}/a"), body, named("a"), "UpdateOptions"),
        ("PATCH", format!("{MAPS}/a"), merge, r#"{"data":{"a":"b"}}"#.into(), "PatchOptions"),
        ("DELETE", format!("{MAPS}/a"), "", String::new(), "DeleteOptions"),
        ("DELETE", MAPS.to_owned(), "", String::new(), "DeleteOptions"),
        ("PUT", format!("{PODS}/p/status"), body, named("p"), "UpdateOptions"),
        (
            "PATCH",
            format!("{PODS}/p/status"),
            merge,
            r#"{"status":{"phase":"Failed"}}"#.into(),
            "PatchOptions",
        ),
        ("POST", format!("{PODS}/p/binding"), body, binding, "CreateOptions"),
        ("POST", format!("{PODS}/p/eviction"), body, named("p"), "CreateOptions"),
        ("PUT", format!("{DEPLOYMENTS}/d/scale"), body, scale, "UpdateOptions"),
        (
            "PATCH",
            format!("{DEPLOYMENTS}/d/scale"),
            merge,
            r#"{"spec":{"replicas":3}}"#.into(),
            "PatchOptions",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/default/token".into(),
            body,
            "{}".into(),
            "CreateOptions",
        ),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews".into(),
            body,
            "{}".into(),
            "CreateOptions",
        ),
    ] {
        for (query, shown) in [("dryRun=", r#"[""]"#), ("dryRun=All&dryRun=", r#"["All",""]"#)] {
            let ask = cluster.request(method, format!("{path}?{query}"));
            let ask = if media.is_empty() { ask } else { ask.typed(media, sent.clone()) };
            let reply = ask.send().await;
            let words = format!(
                "{kind}.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: {shown}: supported values: \"All\""
            );
            assert_eq!(reply.ok(422)["message"], json!(words), "{method} {path}");
        }
    }
    let options = json!({"dryRun": [""]}).to_string();
    for path in [format!("{MAPS}/a"), MAPS.to_owned()] {
        let reply = cluster.request("DELETE", path).typed(body, options.clone()).send().await;
        let words = r#"DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All""#;
        assert_eq!(reply.ok(422)["message"], json!(words));
    }
    assert_eq!(cluster.get(MAPS).await.version(), before, "nothing was written");
    cluster.shutdown().await;
}

/// Numbers and pairs of a query, refused or read as Go does.
#[tokio::test(start_paused = true)]
async fn query_numbers_are_parsed_as_go_does() {
    let cluster = TestCluster::simulated(301).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let huge = "99999999999999999999";
    for (method, path, status, words) in [
        ("GET", format!("{MAPS}?limit="), 400, "strconv.ParseInt: parsing \"\": invalid syntax".to_owned()),
        ("GET", format!("{MAPS}?timeoutSeconds="), 400, "strconv.ParseInt: parsing \"\": invalid syntax".into()),
        ("GET", format!("{MAPS}?limit={huge}"), 400, format!("strconv.ParseInt: parsing \"{huge}\": value out of range")),
        ("DELETE", format!("{MAPS}/a?gracePeriodSeconds={huge}"), 400, format!("strconv.ParseInt: parsing \"{huge}\": value out of range")),
        ("GET", format!("{MAPS}?resourceVersion={huge}"), 400, format!("invalid resource version: resourceVersion: Invalid value: \"{huge}\": strconv.ParseUint: parsing \"{huge}\": value out of range")),
        ("GET", format!("{MAPS}?resourceVersion=%2B5"), 400, "invalid resource version: resourceVersion: Invalid value: \"+5\": strconv.ParseUint: parsing \"+5\": invalid syntax".into()),
        ("GET", format!("{MAPS}/a?resourceVersion={huge}"), 500, format!("resourceVersion: Invalid value: \"{huge}\": strconv.ParseUint: parsing \"{huge}\": value out of range")),
    ] {
        let reply = cluster.request(method, path.clone()).send().await;
        assert_eq!(reply.ok(status)["message"], json!(words), "{method} {path}");
    }
    let body = json!({"metadata": {"name": "a", "resourceVersion": huge}});
    let words = format!("strconv.ParseUint: parsing \"{huge}\": value out of range");
    assert_eq!(cluster.put(format!("{MAPS}/a"), body).await.ok(500)["message"], json!(words));
    // The pair that is none is left out, those beside it count.
    let page = cluster.get(format!("{MAPS}?labelSelector=zz;a=b&limit=1&continue=%zz")).await.ok(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    cluster.shutdown().await;
}

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// What a Table's rows shall carry is looked at when it is made: after the deed.
#[tokio::test(start_paused = true)]
async fn an_unknown_include_object_is_refused() {
    let cluster = TestCluster::simulated(302).await;
    let words = "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be 'Metadata', 'Object', 'None', or empty";
    let made =
        cluster.request("POST", format!("{MAPS}?includeObject=x")).json(&json!({"metadata": {"name": "a"}}));
    assert_eq!(made.accept(TABLE).send().await.ok(400)["message"], json!(words));
    for path in [
        MAPS.to_owned(),
        format!("{MAPS}/a"),
        format!("{MAPS}?watch=1&timeoutSeconds=1"),
        "/api/v1/componentstatuses".into(),
        "/api/v1/componentstatuses/etcd-0".into(),
    ] {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}includeObject=x");
        let reply = cluster.request("GET", path.clone()).accept(TABLE).send().await;
        assert_eq!(reply.ok(400)["message"], json!(words), "{path}");
    }
    // It is nothing to those who want no Table.
    cluster.get(format!("{MAPS}/a?includeObject=x")).await.ok(200);
    cluster.get(format!("{MAPS}?includeObject=x")).await.ok(200);
    cluster.shutdown().await;
}

/// The older version of the views: the same under another name, all the way down.
#[tokio::test(start_paused = true)]
async fn views_come_in_the_requested_version() {
    let cluster = TestCluster::simulated(303).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    for version in ["v1", "v1beta1"] {
        let of = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v={version}");
        let wanted = json!(format!("meta.k8s.io/{version}"));
        for path in [MAPS.to_owned(), format!("{MAPS}/a")] {
            let table = cluster.request("GET", path).accept(&of("Table")).send().await.ok(200);
            assert_eq!((&table["apiVersion"], &table["rows"][0]["object"]["apiVersion"]), (&wanted, &wanted));
        }
        let one = cluster
            .request("GET", format!("{MAPS}/a"))
            .accept(&of("PartialObjectMetadata"))
            .send()
            .await
            .ok(200);
        assert_eq!(one["apiVersion"], wanted);
        for (path, first) in [(MAPS, "a"), ("/api/v1/componentstatuses", "controller-manager")] {
            let list =
                cluster.request("GET", path).accept(&of("PartialObjectMetadataList")).send().await.ok(200);
            assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &wanted));
            assert_eq!(list["items"][0]["apiVersion"], wanted);
            assert_eq!(list["items"][0]["metadata"]["name"], json!(first));
        }
        for kind in ["Table", "PartialObjectMetadata"] {
            let watch =
                cluster.request("GET", format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1"));
            let events = watch.accept(&of(kind)).stream().await.rest().await;
            assert_eq!(events.len(), 2, "{events:?}");
            assert!(events.iter().all(|e| e["object"]["apiVersion"] == wanted), "{events:?}");
        }
        // A protobuf envelope names it too.
        let protobuf = format!(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v={version}"
        );
        let bytes = cluster.request("GET", MAPS).accept(&protobuf).send().await.bytes;
        let name = format!("meta.k8s.io/{version}\x12");
        assert!(bytes.windows(name.len()).any(|w| w == name.as_bytes()), "{bytes:?}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn views_of_empty_lists_are_upstreams() {
    let cluster = TestCluster::simulated(304).await;
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for path in [MAPS, "/api/v1/componentstatuses?labelSelector=a"] {
        let list = cluster.request("GET", path).accept(metadata).send().await.ok(200);
        assert_eq!(list.get("items"), Some(&json!(null)), "{path}");
        let list = cluster.get(path).await.ok(200);
        assert_eq!(list["items"], json!([]), "{path}");
    }
    let unknown = cluster.get("/api/v1/componentstatuses?fieldSelector=a%3Db").await.ok(400);
    let words = "\"a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    assert_eq!(unknown["message"], json!(words));
    // What a dry run would create has no version, as a Table neither.
    let dry = cluster.request("POST", format!("{MAPS}?dryRun=All")).json(&json!({"metadata": {"name": "a"}}));
    assert_eq!(dry.accept(TABLE).send().await.ok(201)["metadata"], json!({}));
    cluster.shutdown().await;
}
