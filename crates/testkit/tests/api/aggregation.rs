//! Group versions that another server serves, through this one: APIServices, availability, proxying, discovery and OpenAPI.

use std::time::Duration;

use auth::UserInfo;
use env::Env;
use http::Request;
use serde_json::{Value, json};
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::aggregated_server::{
    API_SERVICE, API_SERVICES, AggregatedServer, FLUNDERS, GROUP, METRICS, Mode, ROOT, SLICES, add_endpoint,
    add_service, aggregating, aggregating_by, api_service, condition,
};
use crate::test_kubelet::{HttpClient, upgraded};

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The versions of a group in the document of all resources.
async fn discovered(cluster: &TestCluster, group: &str) -> Option<Value> {
    let document = cluster.request("GET", "/apis").accept(DISCOVERY).send().await.ok(200);
    let groups = document["items"].as_array().unwrap();
    groups.iter().find(|g| g["metadata"]["name"] == group).map(|g| g["versions"].clone())
}

async fn until(cluster: &TestCluster, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..10_000 {
        if holds().await {
            return;
        }
        cluster.env().sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_built_in_group_version_is_registered_with_upstreams_priorities() {
    let cluster = TestCluster::simulated(1).await;
    let list = cluster.get(API_SERVICES).await.ok(200);
    let number = |item: &Value, name: &str| item["spec"][name].as_i64().unwrap();
    let found: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let condition = &item["status"]["conditions"][0];
            assert_eq!(
                (condition["type"].as_str(), condition["status"].as_str()),
                (Some("Available"), Some("True"))
            );
            assert_eq!(condition["reason"], "Local");
            assert_eq!(condition["message"], "Local APIServices are always available");
            assert_eq!(item["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "onstart");
            let name = item["metadata"]["name"].as_str().unwrap();
            format!("{name} {} {}", number(item, "groupPriorityMinimum"), number(item, "versionPriority"))
        })
        .collect();
    let recorded = include_str!("../golden/apiservices.txt");
    assert_eq!(found, recorded.lines().collect::<Vec<_>>());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn custom_group_versions_are_registered_while_they_are_served() {
    let cluster = TestCluster::simulated(2).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let crd = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema},
            {"name": "v2", "served": false, "storage": false, "schema": schema},
        ]},
    });
    cluster.post(path, crd).await.ok(201);
    let (first, second) =
        (format!("{API_SERVICES}/v1.example.com"), format!("{API_SERVICES}/v2.example.com"));
    let served = async |path: &str| cluster.get(path).await.status == 200;
    until(&cluster, "v1 is registered", async || served(&first).await).await;
    let service = cluster.get(&*first).await.ok(200);
    assert_eq!(service["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
    assert_eq!(
        service["spec"],
        json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    assert_eq!(service["status"]["conditions"][0]["reason"], "Local");
    assert!(!served(&second).await);

    cluster.delete(&*first).await.ok(200);
    until(&cluster, "a deleted one comes back", async || served(&first).await).await;
    cluster.merge(&*first, json!({"spec": {"versionPriority": 7}})).await.ok(200);
    let priority = async || cluster.get(&*first).await.json()["spec"]["versionPriority"].clone();
    until(&cluster, "a changed one is restored", async || priority().await == 100).await;

    let definition = format!("{path}/things.example.com");
    cluster.redefine(&definition, |spec| spec["versions"][1]["served"] = json!(true)).await;
    until(&cluster, "v2 is registered", async || served(&second).await).await;
    cluster.delete(definition).await.ok(200);
    until(&cluster, "both are gone", async || !served(&first).await && !served(&second).await).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_built_in_one_that_is_deleted_or_changed_is_left_alone() {
    let cluster = TestCluster::simulated(3).await;
    cluster.delete(format!("{API_SERVICES}/v1.batch")).await.ok(200);
    cluster.merge(format!("{API_SERVICES}/v1.apps"), json!({"spec": {"versionPriority": 7}})).await.ok(200);
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.get(format!("{API_SERVICES}/v1.batch")).await.status, 404);
    let apps = cluster.get(format!("{API_SERVICES}/v1.apps")).await.ok(200);
    assert_eq!(apps["spec"]["versionPriority"], 7);
    // They are written again when a server starts.
    cluster.api().bootstrap().await.unwrap();
    assert_eq!(cluster.get(format!("{API_SERVICES}/v1.batch")).await.status, 200);
    let apps = cluster.get(format!("{API_SERVICES}/v1.apps")).await.ok(200);
    assert_eq!(apps["spec"]["versionPriority"], 15);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn availability_follows_the_service_its_endpoints_and_the_server() {
    let server = AggregatedServer::new(&Env::simulated(4), "api.wardle.svc");
    let cluster = server.cluster().await;
    cluster.post(API_SERVICES, api_service(&server)).await.ok(201);
    let told = async |reason: &str| {
        let condition = condition(&cluster, API_SERVICE, reason).await;
        format!("{}: {}", condition["status"].as_str().unwrap(), condition["message"].as_str().unwrap())
    };
    assert_eq!(told("ServiceNotFound").await, "False: service/api in \"wardle\" is not present");
    let refused = cluster.get(FLUNDERS).await;
    assert_eq!((refused.status, refused.text().as_str()), (503, "service unavailable\n"));
    assert_eq!(refused.content_type(), "text/plain; charset=utf-8");

    add_service(&cluster).await;
    assert_eq!(
        told("EndpointsNotFound").await,
        "False: cannot find endpointslices for service/api in \"wardle\""
    );
    let port = "/api/v1/namespaces/wardle/services/api";
    cluster.merge(port, json!({"spec": {"ports": [{"name": "https", "port": 444}]}})).await.ok(200);
    assert_eq!(
        told("ServicePortError").await,
        "False: service/api in \"wardle\" is not listening on port 443"
    );
    cluster.merge(port, json!({"spec": {"ports": [{"name": "https", "port": 443}]}})).await.ok(200);
    told("EndpointsNotFound").await;
    server.set(Mode::Fails(404));
    add_endpoint(&cluster).await;
    let url = "https://10.1.2.3:8443/apis/wardle.example.com/v1alpha1";
    let expected = format!("False: failing or missing response from {url}: bad status from {url}: 404");
    assert_eq!(told("FailedDiscoveryCheck").await, expected);
    server.set(Mode::Serves);
    assert_eq!(told("Passed").await, "True: all checks passed");
    let since = condition(&cluster, API_SERVICE, "Passed").await["lastTransitionTime"].clone();

    // Nothing tells that a server is gone, so that it is asked every 30 seconds.
    server.set(Mode::Refuses);
    let expected = format!(
        "False: failing or missing response from {url}: Get \"{url}\": dial tcp 10.1.2.3:8443: connect: connection refused"
    );
    assert_eq!(told("FailedDiscoveryCheck").await, expected);
    server.set(Mode::Hangs);
    let expected = format!(
        "failing or missing response from {url}: Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    );
    until(&cluster, "it hangs", async || {
        cluster.get(API_SERVICE).await.json()["status"]["conditions"][0]["message"] == expected.as_str()
    })
    .await;
    server.set(Mode::Serves);
    let again = condition(&cluster, API_SERVICE, "Passed").await["lastTransitionTime"].clone();
    assert_ne!(since, again);

    cluster
        .merge(
            format!("{SLICES}/api-1"),
            json!({"endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": false}}]}),
        )
        .await
        .ok(200);
    assert_eq!(
        told("MissingEndpoints").await,
        "False: endpointslices for service/api in \"wardle\" have no addresses with port name \"https\""
    );
    let metrics = cluster.get("/metrics").await.text();
    for line in [
        "aggregator_unavailable_apiservice{name=\"v1.apps\"} 0",
        "aggregator_unavailable_apiservice{name=\"v1alpha1.wardle.example.com\"} 1",
        "aggregator_unavailable_apiservice_total{name=\"v1alpha1.wardle.example.com\",reason=\"MissingEndpoints\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    cluster.delete(API_SERVICE).await.ok(200);
    until(&cluster, "it is forgotten", async || {
        !cluster.get("/metrics").await.text().contains("apiservice{name=\"v1alpha1.wardle")
    })
    .await;
    assert_eq!(cluster.get(FLUNDERS).await.status, 404);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_passed_on_in_the_users_name_and_with_the_front_proxys_certificate() {
    let (cluster, server) = aggregating(5).await;
    let mut user = UserInfo::new("jane", &["devs", "system:masters"]);
    user.uid = "u-7".to_owned();
    user.extra.insert("example.org/scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
    let list = cluster
        .request("GET", format!("{FLUNDERS}?limit=5"))
        .by(user)
        .header("authorization", "Bearer secret")
        .header("x-remote-user", "root")
        .header("x-remote-group", "forged")
        .header("x-remote-extra-forged", "x")
        .header("x-mine", "kept")
        // Nothing that is said of a user is for one connection only.
        .header(
            "connection",
            "close, x-remote-user, X-Remote-Group, x-remote-uid, X-Remote-Extra-Example.org%2fscopes",
        )
        .header("connection", "x-forwarded-proto, host, x-for-you")
        .header("x-for-you", "alone")
        .send()
        .await;
    assert_eq!(list.ok(200)["items"][0]["metadata"]["name"], "a");
    let asked = server.asked(FLUNDERS).pop().unwrap();
    assert_eq!((asked.uri.as_str(), asked.by_proxy), (format!("{FLUNDERS}?limit=5").as_str(), true));
    assert_eq!(asked.header("x-remote-user"), "jane");
    assert_eq!(asked.header("x-remote-uid"), "u-7");
    assert_eq!(asked.all("x-remote-group"), ["devs", "system:masters", "system:authenticated"]);
    assert_eq!(asked.all("x-remote-extra-example.org%2fscopes"), ["a", "b"]);
    assert_eq!(asked.header("x-mine"), "kept");
    assert_eq!(asked.header("host"), "10.1.2.3:8443");
    assert_eq!((asked.header("x-forwarded-uri"), asked.header("x-forwarded-proto")), (FLUNDERS, "https"));
    for gone in ["authorization", "x-remote-extra-forged", "connection", "x-for-you"] {
        assert!(!asked.headers.contains_key(gone), "{gone}");
    }
    let made = cluster.post(FLUNDERS, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(
        (made.ok(201)["metadata"]["name"].as_str(), made.headers["x-wardle"].to_str().unwrap()),
        (Some("b"), "made")
    );
    assert_eq!(cluster.get(format!("{ROOT}/nothing")).await.text(), "404 page not found\n");
    // The group version's own document is the other server's.
    assert_eq!(cluster.get(ROOT).await.ok(200)["resources"][0]["name"], "flunders");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_may_not_is_refused_before_the_other_server_hears_of_it() {
    let (cluster, server) = aggregating(6).await;
    let refused = cluster.request("GET", FLUNDERS).by(UserInfo::new("jane", &[])).send().await;
    assert_eq!(refused.status, 403);
    assert!(
        refused
            .text()
            .contains("cannot list resource \\\"flunders\\\" in API group \\\"wardle.example.com\\\""),
        "{}",
        refused.text()
    );
    assert_eq!(cluster.request("GET", FLUNDERS).unproven().send().await.status, 403);
    assert!(server.asked(FLUNDERS).is_empty());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_streamed_as_it_comes_and_outlives_the_deadline() {
    let (cluster, server) = aggregating(7).await;
    let mut watch = cluster.watch(format!("{FLUNDERS}?watch=1")).await;
    assert_eq!(watch.status, 200);
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    cluster.env().sleep(Duration::from_secs(300)).await;
    server.tell(json!({"type": "MODIFIED"})).await;
    assert_eq!(watch.next().await.unwrap()["type"], "MODIFIED");
    cluster.api().begin_shutdown();
    assert!(watch.next().await.is_none(), "it ends with the server");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_is_passed_through() {
    let (cluster, server) = aggregating(8).await;
    let request = Request::builder()
        .method("POST")
        .uri(format!("{FLUNDERS}/a/exec?command=x"))
        .header("connection", "Upgrade, X-Remote-User, X-Remote-Group")
        .header("upgrade", "SPDY/3.1")
        .header("x-remote-user", "forged");
    let response = HttpClient::new(&cluster).await.send_with(request, "beforehand").await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["x-body"].as_bytes()),
        (101, &b"beforehand"[..])
    );
    let mut io = upgraded(response).await;
    io.write_all(b"hello").await.unwrap();
    let mut back = Vec::new();
    io.read_to_end(&mut back).await.unwrap();
    assert_eq!(back, b"olleh");
    let asked = server.asked(&format!("{FLUNDERS}/a/exec")).pop().unwrap();
    assert_eq!((asked.header("x-remote-user"), asked.header("upgrade")), ("kubernetes-admin", "SPDY/3.1"));
    // Whoever stands between is not told to take our headers away either.
    assert_eq!(asked.all("connection"), ["Upgrade"]);
    assert!(asked.uri.ends_with("?command=x") && asked.by_proxy);
    cluster.shutdown().await;
}

/// After the 101 the client could speak in anybody's name, on a connection with the front proxy's certificate.
#[tokio::test(start_paused = true)]
async fn an_upgrade_to_h2c_is_a_request_like_others() {
    let (cluster, server) = aggregating(34).await;
    let request = Request::builder()
        .method("POST")
        .uri(FLUNDERS)
        .header("connection", "Upgrade, HTTP2-Settings")
        .header("upgrade", "h2c")
        .header("http2-settings", "AAMAAABk");
    let response = HttpClient::new(&cluster).await.send_with(request, "{}").await;
    assert_eq!(response.status().as_u16(), 201);
    let asked = server.asked(FLUNDERS).pop().unwrap();
    assert_eq!(asked.header("x-remote-user"), "kubernetes-admin");
    for name in ["connection", "upgrade", "http2-settings"] {
        assert_eq!(asked.all(name), [""; 0], "{name}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_or_fails_disturbs_nobody_else() {
    let (cluster, server) = aggregating(9).await;
    server.set(Mode::Hangs);
    let begun = cluster.env().monotonic();
    let hanging = cluster.request("GET", FLUNDERS).send();
    let discovery = async {
        // From the snapshot: nobody is asked.
        let groups = cluster.get("/apis").await.ok(200);
        assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == GROUP));
        assert!(discovered(&cluster, GROUP).await.is_some());
        cluster.get("/openapi/v3").await.ok(200);
        cluster.get("/api/v1/pods").await.ok(200);
        assert_eq!(cluster.env().monotonic(), begun, "virtual time stands still while nobody waits");
        // The other server's own document is given five seconds.
        let document = cluster.get(ROOT).await;
        assert_eq!(document.status, 503);
        assert_eq!(document.text(), "error trying to reach service: context deadline exceeded\n");
    };
    let (hanging, ()) = tokio::join!(hanging, discovery);
    assert_eq!(hanging.status, 504, "{}", hanging.text());
    condition(&cluster, API_SERVICE, "FailedDiscoveryCheck").await;
    until(&cluster, "its resources are stale", async || {
        discovered(&cluster, GROUP).await == Some(json!([{"version": "v1alpha1", "freshness": "Stale"}]))
    })
    .await;
    assert_eq!(cluster.get(FLUNDERS).await.text(), "service unavailable\n");

    server.set(Mode::Serves);
    condition(&cluster, API_SERVICE, "Passed").await;
    cluster.get(FLUNDERS).await.ok(200);
    server.set(Mode::Closes);
    let closed = cluster.get(FLUNDERS).await;
    assert_eq!((closed.status, closed.text().as_str()), (503, "error trying to reach service: EOF\n"));
    server.set(Mode::Refuses);
    let refused = cluster.get(FLUNDERS).await;
    assert_eq!(
        refused.text(),
        "error trying to reach service: dial tcp 10.1.2.3:8443: connect: connection refused\n"
    );
    server.set(Mode::Fails(500));
    assert_eq!(
        (cluster.get(FLUNDERS).await.status, cluster.get(FLUNDERS).await.text()),
        (500, "oh\n".to_owned())
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_redirect_of_another_server_is_not_passed_on() {
    let (cluster, server) = aggregating(21).await;
    for code in [301, 302, 307, 308] {
        server.set(Mode::Redirects(code, "https://elsewhere.example.com/"));
        let answer = cluster.get(FLUNDERS).await;
        assert_eq!(answer.status, 502, "{code}");
        assert_eq!(answer.headers.get("location"), None, "{code}");
        let text = "the backend attempted to redirect this request, which is not permitted";
        assert_eq!(answer.text(), text, "{code}");
    }
    // Without a place to go to it is an answer like any other.
    server.set(Mode::Redirects(302, ""));
    let answer = cluster.get(FLUNDERS).await;
    assert_eq!((answer.status, answer.text().as_str()), (302, "over there\n"));
    server.set(Mode::Serves);
    cluster.get(FLUNDERS).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_is_believed_by_its_bundle_and_its_name() {
    let server = AggregatedServer::new(&Env::simulated(10), "other.wardle.svc");
    let cluster = server.cluster().await;
    add_service(&cluster).await;
    add_endpoint(&cluster).await;
    cluster.post(API_SERVICES, api_service(&server)).await.ok(201);
    let message = condition(&cluster, API_SERVICE, "FailedDiscoveryCheck").await["message"].clone();
    let expected = "tls: failed to verify certificate: x509: certificate is valid for other.wardle.svc, not api.wardle.svc";
    assert!(message.as_str().unwrap().ends_with(expected), "{message}");
    let other = AggregatedServer::new(&Env::simulated(10), "api.wardle.svc");
    let bundle = json!({"spec": {"caBundle": other.ca_bundle()}});
    cluster.merge(API_SERVICE, bundle).await.ok(200);
    until(&cluster, "it is not trusted", async || {
        let message = cluster.get(API_SERVICE).await.json()["status"]["conditions"][0]["message"].clone();
        message.as_str().unwrap().ends_with("x509: certificate signed by unknown authority")
    })
    .await;
    let any = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    cluster.merge(API_SERVICE, any).await.ok(200);
    condition(&cluster, API_SERVICE, "Passed").await;
    cluster.get(FLUNDERS).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn discovery_of_both_forms_has_the_other_servers_resources() {
    for (seed, mode) in [(11, Mode::Serves), (12, Mode::Legacy)] {
        let server = AggregatedServer::new(&Env::simulated(seed), "api.wardle.svc");
        server.set(mode);
        let cluster = server.cluster().await;
        add_service(&cluster).await;
        add_endpoint(&cluster).await;
        cluster.post(API_SERVICES, api_service(&server)).await.ok(201);
        until(&cluster, "its resources are known", async || {
            let versions = discovered(&cluster, GROUP).await.unwrap_or_default();
            versions[0]["freshness"] == "Current" && versions[0]["resources"][0]["resource"] == "flunders"
        })
        .await;
        let groups = cluster.get("/apis").await.ok(200);
        let names: Vec<&str> = groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["name"].as_str().unwrap())
            .collect();
        assert_eq!(names[0], "apiregistration.k8s.io");
        let at = |name: &str| names.iter().position(|known| *known == name).unwrap();
        assert!(at("flowcontrol.apiserver.k8s.io") < at(GROUP), "{names:?}");
        let group = cluster.get(format!("/apis/{GROUP}")).await.ok(200);
        assert_eq!(
            group["preferredVersion"],
            json!({"groupVersion": "wardle.example.com/v1alpha1", "version": "v1alpha1"})
        );
        assert_eq!(group["kind"], "APIGroup");
        let paths = cluster.get("/").await.ok(200)["paths"].clone();
        assert!(paths.as_array().unwrap().contains(&json!(ROOT)));
        cluster.delete(API_SERVICE).await.ok(200);
        until(&cluster, "it is gone", async || discovered(&cluster, GROUP).await.is_none()).await;
        assert_eq!(cluster.get(format!("/apis/{GROUP}")).await.status, 404);
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn openapi_has_the_other_servers_documents() {
    let (cluster, server) = aggregating(13).await;
    let path = "/openapi/v3/apis/wardle.example.com/v1alpha1";
    until(&cluster, "its documents are listed", async || {
        let index = cluster.get("/openapi/v3").await.json();
        index["paths"]["apis/wardle.example.com/v1alpha1"]["serverRelativeURL"]
            == format!("{path}?hash=AB12").as_str()
    })
    .await;
    let index = cluster.get("/openapi/v3").await.ok(200);
    assert_ne!(index["paths"]["apis"]["serverRelativeURL"], "/openapi/v3/apis?hash=CD", "ours comes first");
    assert!(index["paths"]["api/v1"].is_object());
    assert_eq!(cluster.get(format!("{path}?hash=AB12")).await.ok(200)["info"]["title"], "wardle");
    assert_eq!(server.asked(path).pop().unwrap().header("x-remote-user"), "kubernetes-admin");
    // What both have is ours, also while the other cannot be asked.
    for mode in [Mode::Serves, Mode::Hangs, Mode::Refuses] {
        server.set(mode);
        if mode == Mode::Refuses {
            condition(&cluster, API_SERVICE, "FailedDiscoveryCheck").await;
        }
        for name in ["apis", "api/v1"] {
            let url = index["paths"][name]["serverRelativeURL"].as_str().unwrap();
            assert_eq!(cluster.get(url).await.ok(200)["openapi"], "3.0.0", "{url} {mode:?}");
            let asked = server.asked("/openapi/v3/api");
            assert!(!asked.iter().any(|asked| asked.uri.starts_with(url)), "{url} {mode:?}");
        }
    }
    server.set(Mode::Serves);
    condition(&cluster, API_SERVICE, "Passed").await;
    until(&cluster, "its paths are in the document of all", async || {
        let document = cluster.get("/openapi/v2").await.json();
        document["paths"]["/apis/wardle.example.com/v1alpha1/"].is_object()
    })
    .await;
    let document = cluster.get("/openapi/v2").await.ok(200);
    assert!(document["definitions"]["com.example.wardle.Flunder"].is_object());
    assert!(document["definitions"]["com.example.wardle.Other"].is_null(), "nothing refers to it");
    assert!(document["paths"]["/api/v1/pods"].is_object());
    let tag = cluster.get("/openapi/v2").await.headers["etag"].clone();
    let again =
        cluster.request("GET", "/openapi/v2").header("if-none-match", tag.to_str().unwrap()).send().await;
    assert_eq!(again.status, 304);
    for media in ["spec.v2.v1.0+protobuf", "spec.v2@v1.0+protobuf"] {
        let media = format!("application/com.github.proto-openapi.{media}");
        let protobuf = cluster.request("GET", "/openapi/v2").header("accept", &media).send().await;
        assert_eq!(
            protobuf.headers["content-type"],
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        );
        for name in ["com.example.wardle.Flunder", "/apis/wardle.example.com/v1alpha1/", "/api/v1/pods"] {
            let found = protobuf.bytes.windows(name.len()).any(|window| window == name.as_bytes());
            assert!(found, "{name}");
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_only_openapi_v2_has_a_converted_document() {
    let server = AggregatedServer::new(&Env::simulated(20), "api.wardle.svc");
    server.set(Mode::Legacy);
    let (cluster, server) = aggregating_by(server).await;
    let entry = async || {
        let index = cluster.get("/openapi/v3").await.ok(200);
        index["paths"]["apis/wardle.example.com/v1alpha1"]["serverRelativeURL"].as_str().map(str::to_owned)
    };
    until(&cluster, "its document is listed", async || entry().await.is_some()).await;
    let asked = server.asked("/openapi").len();
    let url = entry().await.unwrap();
    let document = cluster.get(&*url).await;
    assert_eq!(document.headers["cache-control"], "public, immutable");
    let document = document.ok(200);
    let path = &document["paths"]["/apis/wardle.example.com/v1alpha1/"]["get"]["responses"]["200"];
    assert_eq!(
        path["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/com.example.wardle.Flunder"
    );
    assert!(document["components"]["schemas"]["com.example.wardle.Flunder"].is_object());
    let media = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let protobuf = cluster.request("GET", &*url).header("accept", media).send().await;
    assert_eq!((protobuf.status, protobuf.content_type()), (200, media));
    for name in ["3.0.0", "/apis/wardle.example.com/v1alpha1/", "com.example.wardle.Flunder"] {
        let found = protobuf.bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(found, "{name}");
    }
    let moved = cluster.get("/openapi/v3/apis/wardle.example.com/v1alpha1?hash=0").await;
    assert_eq!((moved.status, moved.headers["location"].to_str().unwrap()), (301, url.as_str()));
    assert_eq!(server.asked("/openapi").len(), asked, "it is ours to serve");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn resources_of_a_server_that_is_unavailable_are_stale_though_it_tells_them() {
    let (cluster, server) = aggregating(22).await;
    let current = async || discovered(&cluster, GROUP).await.unwrap_or_default()[0]["freshness"] == "Current";
    until(&cluster, "its resources are known", current).await;
    server.set(Mode::FailsAt(ROOT));
    condition(&cluster, API_SERVICE, "FailedDiscoveryCheck").await;
    until(&cluster, "its resources are stale", async || !current().await).await;
    let documents = || server.asked("/apis").iter().filter(|asked| asked.uri == "/apis").count();
    let asked = documents();
    cluster.env().sleep(Duration::from_secs(300)).await;
    assert_eq!(
        discovered(&cluster, GROUP).await,
        Some(json!([{"version": "v1alpha1", "freshness": "Stale"}]))
    );
    assert_eq!(documents(), asked, "nobody asks it for more");
    assert_eq!(cluster.get(FLUNDERS).await.status, 503);
    server.set(Mode::Serves);
    condition(&cluster, API_SERVICE, "Passed").await;
    until(&cluster, "its resources are known again", current).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_server_comes_to_says_nothing_of_those_that_moved_to_another_meanwhile() {
    let (cluster, server) = aggregating(41).await;
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "TCP"});
    let ports = json!([port("https", 443), port("other", 444)]);
    cluster.merge("/api/v1/namespaces/wardle/services/api", json!({"spec": {"ports": ports}})).await.ok(200);
    let ports = json!([port("https", 8443), port("other", 8443)]);
    cluster.merge(format!("{SLICES}/api-1"), json!({"ports": ports})).await.ok(200);
    let current = async || discovered(&cluster, GROUP).await.unwrap_or_default()[0]["freshness"] == "Current";
    until(&cluster, "its resources are known", current).await;
    let documents = || server.asked("/apis").iter().filter(|asked| asked.uri == "/apis").count();
    server.set(Mode::HangsAt("/apis"));
    let before = documents();
    until(&cluster, "it is asked and does not answer", async || documents() > before).await;
    server.set(Mode::Serves);
    cluster.merge(API_SERVICE, json!({"spec": {"service": {"port": 444}}})).await.ok(200);
    until(&cluster, "the other one is asked", async || documents() > before + 1).await;
    until(&cluster, "its resources are known again", current).await;
    // It is asked again after a minute.
    for _ in 0..200 {
        cluster.env().sleep(Duration::from_millis(250)).await;
        assert!(current().await, "the first one failed now");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn openapi_of_one_version_is_served_though_the_other_fails() {
    let in_v2 = async |cluster: &TestCluster| {
        let document = cluster.get("/openapi/v2").await.json();
        document["paths"]["/apis/wardle.example.com/v1alpha1/"].is_object()
    };
    let in_v3 = async |cluster: &TestCluster| {
        let index = cluster.get("/openapi/v3").await.json();
        index["paths"]["apis/wardle.example.com/v1alpha1"].is_object()
    };
    for (seed, path) in [(23, "/openapi/v2"), (24, "/openapi/v3")] {
        let server = AggregatedServer::new(&Env::simulated(seed), "api.wardle.svc");
        server.set(Mode::FailsAt(path));
        let (cluster, server) = aggregating_by(server).await;
        until(&cluster, "the other version is there", async || match path {
            "/openapi/v2" => in_v3(&cluster).await,
            _ => in_v2(&cluster).await,
        })
        .await;
        assert!(!(in_v2(&cluster).await && in_v3(&cluster).await), "{path}");
        server.set(Mode::Serves);
        until(&cluster, "both are there", async || in_v2(&cluster).await && in_v3(&cluster).await).await;
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_merged_document_is_built_once_for_all_clients() {
    let (cluster, _server) = aggregating(25).await;
    until(&cluster, "its paths are in the document of all", async || {
        let document = cluster.get("/openapi/v2").await.json();
        document["paths"]["/apis/wardle.example.com/v1alpha1/"].is_object()
    })
    .await;
    let ask = || cluster.request("GET", "/openapi/v2").header("accept-encoding", "gzip");
    let before = cluster.api().openapi_documents_built();
    let replies = futures_util::future::join_all((0..100).map(|_| ask().send())).await;
    let tag = replies[0].headers["etag"].clone();
    for reply in &replies {
        assert_eq!(
            (reply.status, &reply.headers["content-encoding"], &reply.headers["etag"]),
            (200, &http::HeaderValue::from_static("gzip"), &tag)
        );
    }
    assert_eq!(ask().header("if-none-match", tag.to_str().unwrap()).send().await.status, 304);
    assert_eq!(cluster.api().openapi_documents_built() - before, 1);
    cluster.delete(API_SERVICE).await.ok(200);
    until(&cluster, "its paths are gone", async || {
        let document = cluster.get("/openapi/v2").await.json();
        document["paths"]["/apis/wardle.example.com/v1alpha1/"].is_null()
    })
    .await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_once_for_all_its_group_versions_and_only_for_what_changed() {
    let (cluster, server) = aggregating(26).await;
    let mut beta = api_service(&server);
    beta["metadata"]["name"] = json!("v1beta1.wardle.example.com");
    beta["spec"]["version"] = json!("v1beta1");
    cluster.post(API_SERVICES, beta).await.ok(201);
    condition(&cluster, &format!("{API_SERVICES}/v1beta1.wardle.example.com"), "Passed").await;
    let documents = ["/apis", "/openapi/v2", "/openapi/v3"];
    let asked = |path: &str| {
        let all = server.asked(path).into_iter().filter(|asked| asked.uri == path);
        all.map(|asked| asked.header("if-none-match").to_owned()).collect::<Vec<_>>()
    };
    // Both are known by then.
    cluster.env().sleep(Duration::from_secs(90)).await;
    let before = documents.map(|path| asked(path).len());
    cluster.env().sleep(Duration::from_secs(600)).await;
    for (path, before) in documents.into_iter().zip(before) {
        let later = asked(path).split_off(before);
        assert!((9..=11).contains(&later.len()), "every minute: {path} {later:?}");
        assert!(
            later.iter().all(|tag| *tag == format!("\"{}\"", path.replace('/', "-"))),
            "{path} {later:?}"
        );
    }
    let versions = discovered(&cluster, GROUP).await.unwrap();
    assert_eq!(versions[0]["version"], "v1beta1");
    assert_eq!(versions[1]["resources"][0]["resource"], "flunders");
    assert_eq!(
        (&versions[0]["freshness"], &versions[1]["freshness"]),
        (&json!("Current"), &json!("Current"))
    );
    cluster.get("/openapi/v3").await.ok(200)["paths"]["apis/wardle.example.com/v1alpha1"]
        .as_object()
        .unwrap();
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn extension_servers_are_told_whom_to_believe() {
    let (cluster, server) = aggregating(14).await;
    let map = cluster
        .get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        .await
        .ok(200);
    assert_eq!(map["data"]["requestheader-client-ca-file"], server.front_proxy.ca_pem());
    assert_eq!(map["data"]["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    assert_eq!(map["data"]["requestheader-username-headers"], "[\"X-Remote-User\"]");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_extension_servers_are_told_is_mended() {
    let server = AggregatedServer::new(&Env::simulated(43), "api.wardle.svc");
    let cluster = server.cluster().await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = async || cluster.get(path).await.json()["data"].clone();
    let good = data().await;
    let authority = |from: u64| auth::pki::Issuer::in_memory(from).unwrap().ca_pem().to_owned();
    let now = cluster.env().now_seconds();
    let (expired, other) = (authority(now - 11 * 366 * 86_400), authority(now));
    let proxies = "requestheader-client-ca-file";
    cluster.merge(path, json!({"data": {proxies: format!("{expired}{other}")}})).await.ok(200);
    let expected = format!("{other}{}", server.front_proxy.ca_pem());
    until(&cluster, "the expired one is gone", async || data().await[proxies] == *expected).await;
    // So many that ours find no room.
    let many = auth::pki::certificates_to_pem(&[vec![0; 774_000].into()]);
    assert!(many.len() < 1 << 20 && many.len() + good.to_string().len() > 1 << 20, "{}", many.len());
    let mut full: Value = good.as_object().unwrap().keys().map(|key| (key.clone(), Value::Null)).collect();
    full["client-ca-file"] = json!(many);
    cluster.merge(path, json!({"data": full})).await.ok(200);
    until(&cluster, "it is begun anew", async || data().await == good).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_all_api_services_has_the_users_own() {
    let (cluster, _server) = aggregating(15).await;
    let list = cluster.get(API_SERVICES).await.ok(200);
    assert!(names(&list).contains(&"v1alpha1.wardle.example.com".to_owned()));
    let table = cluster
        .request("GET", API_SERVICE)
        .accept("application/json;as=Table;g=meta.k8s.io;v=v1")
        .send()
        .await;
    assert_eq!(
        table.ok(200)["rows"][0]["cells"].as_array().unwrap()[..3],
        [json!("v1alpha1.wardle.example.com"), json!("wardle/api"), json!("True")]
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_a_server_that_cannot_be_asked_and_says_why() {
    let (cluster, server) = aggregating(16).await;
    let controllers = cluster.controllers(cluster.local_clients(), &["namespace-controller"]);
    let path = "/api/v1/namespaces/going";
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "going"}})).await.ok(201);
    server.set(Mode::Refuses);
    until(&cluster, "its resources are not known", async || {
        discovered(&cluster, GROUP).await.unwrap()[0]["freshness"] == "Stale"
    })
    .await;
    cluster.delete(path).await.ok(200);
    let told = async || {
        let namespace = cluster.get(path).await.json();
        let all = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|c| c["type"] == "NamespaceDeletionDiscoveryFailure").unwrap_or_default()
    };
    until(&cluster, "it says so", async || told().await["status"] == "True").await;
    let condition = told().await;
    assert_eq!(condition["reason"], "DiscoveryFailed");
    assert_eq!(
        condition["message"],
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
         wardle.example.com/v1alpha1: stale GroupVersion discovery: wardle.example.com/v1alpha1"
    );
    server.set(Mode::Serves);
    until(&cluster, "it is gone", async || cluster.get(path).await.status == 404).await;
    let deleted = server
        .asked("/apis/wardle.example.com/v1alpha1/namespaces/going/flunders?propagationPolicy=Background");
    assert_eq!(deleted[0].header("x-remote-user"), "system:serviceaccount:kube-system:namespace-controller");
    controllers.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_metrics_api_of_a_users_own_replaces_ours() {
    let env = Env::simulated(17);
    let table = table::Table::new(std::sync::Arc::new(catalog::Catalog::with_metrics()), env.clone());
    let engine = store::MemoryEngine::open(table.clone());
    let server = AggregatedServer::new(&env, "api.wardle.svc");
    let cluster = server.cluster_with(|config| (config.table, config.engine) = (table, engine)).await;
    let path = format!("{API_SERVICES}/v1beta1.metrics.k8s.io");
    let ours = cluster.get(&*path).await.ok(200);
    assert_eq!(
        ours["spec"],
        json!({"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100})
    );
    assert_eq!(ours["status"]["conditions"][0]["reason"], "Local");
    assert_eq!(cluster.get(METRICS).await.ok(200)["items"], json!([]));
    add_service(&cluster).await;
    add_endpoint(&cluster).await;
    let theirs = json!({"spec": {"service": {"namespace": "wardle", "name": "api", "port": 443}, "insecureSkipTLSVerify": true}});
    cluster.merge(&*path, theirs).await.ok(200);
    condition(&cluster, &path, "Passed").await;
    assert_eq!(cluster.get(METRICS).await.ok(200)["items"][0]["metadata"]["name"], "theirs");
    // For autoscaling too.
    let clients = cluster.local_clients();
    let autoscaler = clients.user("jane", &["system:masters"]);
    let nodes = autoscaler.get_raw(METRICS).await.unwrap();
    assert_eq!(nodes.get("items").and_then(object::Value::as_list).map(<[_]>::len), Some(1));
    server.set(Mode::Refuses);
    condition(&cluster, &path, "FailedDiscoveryCheck").await;
    assert_eq!(
        autoscaler.get_raw(METRICS).await.unwrap_err().message,
        "the server is currently unable to handle the request"
    );
    // A start does not take it back; its deletion does.
    cluster.api().bootstrap().await.unwrap();
    assert_eq!(cluster.get(&*path).await.ok(200)["spec"]["service"]["name"], "api");
    cluster.delete(&*path).await.ok(200);
    until(&cluster, "ours is back", async || cluster.get(METRICS).await.status == 200).await;
    assert!(cluster.get(&*path).await.ok(200)["spec"]["service"].is_null());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_server_that_hangs_are_limited() {
    let (cluster, server) = aggregating(18).await;
    server.set(Mode::Hangs);
    // A quarter of all connections to other servers, nodes and pods, of which there are an eighth of those of clients.
    let most = apiserver::MAX_CONNECTIONS / 8 / 4;
    let ask = || cluster.request("GET", FLUNDERS).send();
    let replies = futures_util::future::join_all((0..most + 10).map(|_| ask())).await;
    let count = |status: u16| replies.iter().filter(|reply| reply.status == status).count();
    // The availability check may have some.
    assert!(count(429) >= 10 && count(504) + 10 >= most, "{} {}", count(429), count(504));
    assert_eq!(count(429) + count(504), most + 10);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_may_read_parameters_of_another_server_may_refer_to_their_kind() {
    let (cluster, _server) = aggregating(40).await;
    until(&cluster, "its resources are known", async || {
        let versions = discovered(&cluster, GROUP).await.unwrap_or_default();
        versions[0]["resources"][0]["resource"] == "flunders"
    })
    .await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rule = |group: &str, resource: &str, verb: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
    let role = |rules: Value| json!({"metadata": {"name": "eve"}, "rules": rules});
    let writes = rule("admissionregistration.k8s.io", "*", "*");
    cluster.post(format!("{rbac}/clusterroles"), role(json!([writes]))).await.ok(201);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "eve"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "eve"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "eve"}]});
    cluster.post(format!("{rbac}/clusterrolebindings"), binding).await.ok(201);
    let create = async |name: &str, kind: &str| {
        let policy = json!({"metadata": {"name": name}, "spec": {
            "paramKind": {"apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind},
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "object != params"}]}});
        let eve = UserInfo::new("eve", &[auth::groups::AUTHENTICATED]);
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        cluster.request("POST", path).json(&policy).by(eve).send().await
    };
    create("a", "Flunder").await.ok(422);
    let rules = json!([writes, rule(GROUP, "flunders", "get")]);
    cluster.put(format!("{rbac}/clusterroles/eve"), role(rules)).await.ok(200);
    create("a", "Flunder").await.ok(201);
    // A kind nobody knows may be any resource.
    create("b", "Other").await.ok(422);
    let rules = json!([writes, rule(GROUP, "*", "get")]);
    cluster.put(format!("{rbac}/clusterroles/eve"), role(rules)).await.ok(200);
    create("b", "Other").await.ok(201);
    cluster.shutdown().await;
}
