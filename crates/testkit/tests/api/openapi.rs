//! /openapi/v3 and /openapi/v2: hashes, caching, and encodings.

use std::collections::BTreeSet;

use testkit::{Reply, TestCluster};

const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

fn header<'r>(reply: &'r Reply, name: &str) -> &'r str {
    reply.headers.get(name).map_or("", |v| v.to_str().unwrap())
}

/// Where the index says a document is.
async fn place_of(cluster: &TestCluster, document: &str) -> String {
    let index = cluster.get("/openapi/v3").await.json();
    index["paths"][document]["serverRelativeURL"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_document_has_a_hash_which_is_its_etag() {
    let cluster = TestCluster::start().await;
    let index = cluster.get("/openapi/v3").await.json();
    let paths = index["paths"].as_object().unwrap();
    let hashes: BTreeSet<&str> = paths
        .values()
        .map(|p| p["serverRelativeURL"].as_str().unwrap().split_once("?hash=").unwrap().1)
        .collect();
    assert_eq!(hashes.len(), paths.len());
    for document in ["api/v1", "apis/apps", "apis/apps/v1"] {
        let place = place_of(&cluster, document).await;
        let reply = cluster.get(&place).await;
        assert_eq!(reply.status, 200, "{document}");
        assert_eq!(reply.json()["info"]["version"], "1.36");
        assert_eq!(header(&reply, "etag"), format!("\"{}\"", place.split_once("?hash=").unwrap().1));
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_document_requested_by_its_hash_is_immutable() {
    let cluster = TestCluster::start().await;
    let place = place_of(&cluster, "apis/apps/v1").await;
    let reply = cluster.get(&place).await;
    assert_eq!(header(&reply, "cache-control"), "public, immutable");
    assert!(header(&reply, "expires").ends_with(" UTC"), "{}", header(&reply, "expires"));
    assert_eq!(header(&reply, "vary"), "Accept");

    let plain = cluster.get("/openapi/v3/apis/apps/v1").await;
    assert_eq!(header(&plain, "cache-control"), "no-cache, private");
    assert_eq!(plain.bytes, reply.bytes);

    let wrong = cluster.get("/openapi/v3/apis/apps/v1?hash=AB").await;
    assert_eq!((wrong.status, header(&wrong, "location")), (301, place.as_str()));

    let tag = header(&reply, "etag").to_owned();
    let again = cluster.request("GET", place).header("If-None-Match", &tag).send().await;
    assert_eq!((again.status, again.bytes.len()), (304, 0));
    cluster.shutdown().await;
}

#[tokio::test]
async fn encodings_are_negotiated_as_upstream_does() {
    let cluster = TestCluster::start().await;
    let v3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let v2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    for (path, accept, status, content_type) in [
        ("/openapi/v3/apis/apps/v1", PROTOBUF_V3, 200, v3),
        ("/openapi/v3/apis/apps/v1", v3, 200, v3),
        ("/openapi/v3/apis/apps/v1", "*/*", 200, "application/json"),
        ("/openapi/v3/apis/apps/v1", "text/html, application/json;q=0.5", 200, "application/json"),
        ("/openapi/v3/apis/apps/v1", "text/html", 406, ""),
        ("/openapi/v3/apis/apps/v1", "application/yaml", 406, ""),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 200, v2),
        ("/openapi/v2", "application/json", 200, "application/json"),
        ("/openapi/v2", PROTOBUF_V3, 406, ""),
        ("/openapi/v3", "text/html", 200, "text/plain; charset=utf-8"),
    ] {
        let reply = cluster.request("GET", path).accept(accept).send().await;
        assert_eq!((reply.status, header(&reply, "content-type")), (status, content_type), "{path} {accept}");
        assert_eq!(reply.bytes.is_empty(), status == 406, "{path} {accept}");
    }
    cluster.shutdown().await;
}

/// The documents are megabytes: none is made before it is asked for, and what is kept of them is bounded.
#[tokio::test]
async fn openapi_documents_take_no_memory_until_the_first_request() {
    let cluster = TestCluster::start().await;
    for path in ["/api", "/apis", "/apis/apps/v1", "/api/v1/namespaces", "/version"] {
        assert_eq!(cluster.get(path).await.status, 200, "{path}");
    }
    let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(cluster.post("/api/v1/namespaces/default/configmaps", map).await.status, 201);
    assert_eq!(cluster.api().openapi_cache_bytes(), 0, "after requests for other things");

    for path in every_document(&cluster).await {
        for accept in ["application/json", PROTOBUF_V2, PROTOBUF_V3] {
            for encoding in ["gzip", "identity"] {
                let ask = cluster.request("GET", &path).accept(accept).header("accept-encoding", encoding);
                let reply = ask.send().await;
                assert!(matches!(reply.status, 200 | 406), "{path} {accept}");
                // Some documents of a group are too small to be packed.
                let packed = header(&reply, "content-encoding") == "gzip";
                assert!(!packed || encoding == "gzip", "{path} {accept}");
                assert!(packed || encoding != "gzip" || reply.bytes.len() < 1400, "{path} {accept}");
            }
        }
    }
    assert!(
        (1..5 << 20).contains(&cluster.api().openapi_cache_bytes()),
        "{}",
        cluster.api().openapi_cache_bytes()
    );
    cluster.shutdown().await;
}

async fn every_document(cluster: &TestCluster) -> Vec<String> {
    let index = cluster.get("/openapi/v3").await.json();
    let groups = index["paths"].as_object().unwrap().keys().map(|name| format!("/openapi/v3/{name}"));
    ["/openapi/v2", "/openapi/v3"].map(str::to_owned).into_iter().chain(groups).collect()
}

/// A fleet that starts at once: each document is made and packed by one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[allow(clippy::disallowed_methods)] // Threads are what the test is about.
async fn a_document_is_built_once_for_all_clients() {
    let cluster = std::sync::Arc::new(TestCluster::start().await);
    let before = cluster.api().openapi_documents_built();
    let asked: Vec<_> = (0..100)
        .map(|i| {
            let path = ["/openapi/v2", "/openapi/v3/api/v1"][i % 2];
            let ask = cluster.request("GET", path).header("accept-encoding", "gzip");
            tokio::spawn(async move { ask.send().await })
        })
        .collect();
    let mut bodies = BTreeSet::new();
    for reply in asked {
        let reply = reply.await.unwrap();
        assert_eq!((reply.status, header(&reply, "content-encoding")), (200, "gzip"));
        bodies.insert((header(&reply, "etag").to_owned(), reply.bytes));
    }
    assert_eq!(bodies.len(), 2);
    assert_eq!(cluster.api().openapi_documents_built() - before, 2);
    // A client that has it gets a 304, and nothing is built for that.
    for (tag, _) in &bodies {
        let replies = ["/openapi/v2", "/openapi/v3/api/v1"].map(|path| {
            cluster.request("GET", path).header("if-none-match", tag).header("accept-encoding", "gzip").send()
        });
        let mut statuses = Vec::new();
        for reply in replies {
            statuses.push(reply.await.status);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 304]);
    }
    assert_eq!(cluster.api().openapi_documents_built() - before, 2);
}
