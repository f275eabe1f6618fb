//! Lists: pages of one snapshot, and what each resourceVersion means.

use env::Env;
use serde_json::{Value, json};
use store::Revision;
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub async fn with_maps(cluster: &TestCluster, count: usize) {
    for n in 0..count {
        let body =
            json!({"metadata": {"name": format!("m{n:03}"), "labels": {"even": (n % 2 == 0).to_string()}}});
        cluster.post(MAPS, body).await.ok(201);
    }
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list has items");
    items.iter().map(|o| o["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_are_one_snapshot_whatever_is_written_meanwhile() {
    let cluster = TestCluster::simulated(10).await;
    with_maps(&cluster, 25).await;
    let whole = names(&cluster.get(MAPS).await.ok(200));
    let mut collected = Vec::new();
    let mut token = String::new();
    let mut version = String::new();
    loop {
        let page = cluster.get(format!("{MAPS}?limit=4&continue={token}")).await.ok(200);
        let here = page["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        assert!(version.is_empty() || version == here, "every page is of the same version");
        version = here;
        collected.extend(names(&page));
        let left = whole.len() - collected.len();
        token = page["metadata"]["continue"].as_str().unwrap_or("").to_owned();
        if token.is_empty() {
            assert_eq!((left, page["metadata"].get("remainingItemCount")), (0, None));
            break;
        }
        assert_eq!(page["metadata"]["remainingItemCount"], json!(left));
        // What happens between pages is not seen in them.
        cluster.post(MAPS, json!({"metadata": {"generateName": "between-"}})).await.ok(201);
        cluster.delete(format!("{MAPS}/{}", whole[whole.len() - collected.len().min(20)])).await;
    }
    assert_eq!(collected, whole);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_selected_page_does_not_say_how_many_remain() {
    let cluster = TestCluster::simulated(11).await;
    with_maps(&cluster, 10).await;
    let first = cluster.get(format!("{MAPS}?limit=2&labelSelector=even%3Dtrue")).await.ok(200);
    assert_eq!(names(&first), ["m000", "m002"]);
    assert_eq!(first["metadata"].get("remainingItemCount"), None);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest =
        cluster.get(format!("{MAPS}?limit=20&labelSelector=even%3Dtrue&continue={token}")).await.ok(200);
    assert_eq!(names(&rest), ["m004", "m006", "m008"]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_is_answered_with_one_that_works() {
    let cluster = TestCluster::simulated(12).await;
    with_maps(&cluster, 9).await;
    let first = cluster.get(format!("{MAPS}?limit=3")).await.ok(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    // The history is five minutes long; upkeep forgets what is older.
    cluster.delete(format!("{MAPS}/m004")).await.ok(200);
    cluster.env().sleep(std::time::Duration::from_secs(400)).await;

    let expired = cluster.get(format!("{MAPS}?limit=3&continue={token}")).await;
    let status = expired.ok(410);
    assert_eq!(status["reason"], json!("Expired"));
    let fresh = status["metadata"]["continue"].as_str().expect("a token to go on with").to_owned();
    let second = cluster.get(format!("{MAPS}?limit=3&continue={fresh}")).await.ok(200);
    assert_eq!(names(&second), ["m003", "m005", "m006"], "the list goes on in the present");
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = cluster.get(format!("{MAPS}?limit=3&continue={token}")).await.ok(200);
    assert_eq!(names(&third), ["m007", "m008"]);
    cluster.shutdown().await;
}

/// What a list is to be answered with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meant {
    Refused(u16),
    /// All of the present.
    Now,
    /// Two of the present, and where it goes on.
    NowPaged,
    /// All of the named past.
    Then,
    ThenPaged,
}

/// The whole table, as kube-apiserver v1.36.4 with its watch cache answers it: what `resourceVersion` means beside each
/// `resourceVersionMatch`, of a whole list, of a page (`limit=2`), and of either after a `continue`.
#[tokio::test(start_paused = true)]
async fn each_resource_version_has_its_meaning() {
    use Meant::{Now, NowPaged, Refused, Then, ThenPaged};
    let cluster = TestCluster::simulated(13).await;
    with_maps(&cluster, 4).await;
    let old = cluster.get(MAPS).await.version();
    cluster.delete(format!("{MAPS}/m001")).await.ok(200);
    let now = cluster.get(MAPS).await.version();
    assert_ne!(old, now);
    let floor: u64 = old.parse().unwrap();
    cluster.api().registry().table().compact(Revision(floor));
    let (gone, future) = ((floor - 1).to_string(), (floor + 1000).to_string());
    let begun = cluster.get(format!("{MAPS}?limit=1")).await.ok(200);
    let token = begun["metadata"]["continue"].as_str().unwrap();
    let (present, past) = (["m000", "m002", "m003"], ["m000", "m001", "m002", "m003"]);

    let table = [
        ("", "", [Now, NowPaged, Now, NowPaged]),
        ("", "Exact", [Refused(422); 4]),
        ("", "NotOlderThan", [Refused(422); 4]),
        // Who takes any version gets all of it, whatever the limit.
        ("0", "", [Now, Now, Now, Now]),
        ("0", "Exact", [Refused(422); 4]),
        ("0", "NotOlderThan", [Now, Now, Refused(422), Refused(422)]),
        // A page without a match means exactly that version.
        (&old, "", [Now, ThenPaged, Refused(400), Refused(400)]),
        (&old, "Exact", [Then, ThenPaged, Refused(422), Refused(422)]),
        (&old, "NotOlderThan", [Now, NowPaged, Refused(422), Refused(422)]),
        (&future, "", [Refused(504), Refused(504), Refused(400), Refused(400)]),
        (&future, "Exact", [Refused(504), Refused(504), Refused(422), Refused(422)]),
        (&future, "NotOlderThan", [Refused(504), Refused(504), Refused(422), Refused(422)]),
        (&gone, "", [Now, Refused(410), Refused(400), Refused(400)]),
        (&gone, "Exact", [Refused(410), Refused(410), Refused(422), Refused(422)]),
        (&gone, "NotOlderThan", [Now, NowPaged, Refused(422), Refused(422)]),
        ("1", "Nope", [Refused(422); 4]),
    ];
    for (version, matching, meant) in table {
        let ways = [("", ""), ("2", ""), ("", token), ("2", token)];
        for ((limit, after), meant) in ways.into_iter().zip(meant) {
            let mut query = String::new();
            for (name, value) in [
                ("resourceVersion", version),
                ("resourceVersionMatch", matching),
                ("limit", limit),
                ("continue", after),
            ] {
                if !value.is_empty() {
                    query += &format!("&{name}={value}");
                }
            }
            let reply = cluster.get(format!("{MAPS}?{query}")).await;
            let (all, at): (&[&str], _) = match meant {
                Refused(status) => {
                    assert_eq!(reply.status, status, "{query}: {}", reply.text());
                    if status == 410 {
                        let words = "The resourceVersion for the provided list is too old.";
                        let status = reply.json();
                        assert_eq!(
                            (&status["reason"], &status["message"]),
                            (&json!("Expired"), &json!(words))
                        );
                    }
                    continue;
                }
                Now | NowPaged => (&present, &now),
                Then | ThenPaged => (&past, &old),
            };
            // The token's page has handed out the first.
            let rest = if after.is_empty() { all } else { &all[1..] };
            let paged = matches!(meant, NowPaged | ThenPaged);
            let page = if paged { &rest[..2] } else { rest };
            let list = reply.ok(200);
            assert_eq!(names(&list), page, "{query}");
            assert_eq!(&reply.version(), at, "{query}");
            let more = list["metadata"]["continue"].as_str();
            assert_eq!(more.is_some(), page.len() < rest.len(), "{query}");
            if let Some(more) = more {
                let last = cluster.get(format!("{MAPS}?continue={more}")).await;
                assert_eq!(names(&last.ok(200)), rest[2..], "after {query}");
                assert_eq!(&last.version(), at, "after {query}");
            }
        }
    }
    cluster.shutdown().await;
}

/// Events are in no cache, and so a limit counts for them whatever the version.
#[tokio::test(start_paused = true)]
async fn events_of_any_version_come_in_pages() {
    let cluster = TestCluster::simulated(17).await;
    let events = "/api/v1/namespaces/default/events";
    for name in ["a", "b"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}});
        cluster.post(events, event).await.ok(201);
    }
    let page = cluster.get(format!("{events}?resourceVersion=0&limit=1")).await.ok(200);
    assert_eq!(names(&page), ["a"]);
    assert!(page["metadata"]["continue"].is_string());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_future_version_is_waited_for_and_then_refused() {
    let cluster = TestCluster::simulated(14).await;
    with_maps(&cluster, 1).await;
    let now: u64 = cluster.get(MAPS).await.version().parse().unwrap();
    let begun = cluster.env().monotonic();
    for query in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"] {
        let reply = cluster.get(format!("{MAPS}?resourceVersion={}{query}", now + 1000)).await;
        let status = reply.ok(504);
        assert_eq!(
            status["message"],
            json!(format!("Timeout: Too large resource version: {}, current: {now}", now + 1000))
        );
        assert_eq!(status["details"]["causes"][0]["reason"], json!("ResourceVersionTooLarge"));
        assert_eq!(reply.headers["retry-after"], "1");
    }
    assert_eq!(cluster.get(format!("{MAPS}/m000?resourceVersion={}", now + 1000)).await.status, 504);
    assert!((cluster.env().monotonic() - begun).as_secs() >= 12, "it waits three seconds each time");

    // One that comes in time is served.
    let (read, ()) = tokio::join!(cluster.get(format!("{MAPS}?resourceVersion={}", now + 1)), async {
        cluster.env().sleep(std::time::Duration::from_secs(1)).await;
        cluster.post(MAPS, json!({"metadata": {"name": "late"}})).await.ok(201);
    });
    assert_eq!(names(&read.ok(200)), ["late", "m000"]);
    cluster.shutdown().await;
}

/// Lists by label and field selectors agree with filtering by hand, for seeded labels and selectors.
#[tokio::test(start_paused = true)]
async fn selectors_agree_with_filtering_by_hand() {
    let seed = 15;
    let cluster = TestCluster::simulated(seed).await;
    let random = Env::simulated(seed);
    let mut all: Vec<(String, Option<u64>, bool)> = Vec::new();
    for n in 0..60 {
        let (name, tier, old) = (format!("p{n:02}"), random.random_below(4), random.random_below(2) == 0);
        let mut labels = json!({});
        let tier = (tier > 0).then_some(tier);
        if let Some(tier) = tier {
            labels["tier"] = json!(tier.to_string());
        }
        let body = json!({"metadata": {"name": name, "labels": labels}, "type": if old { "example.com/old" } else { "Opaque" }});
        cluster.post("/api/v1/namespaces/default/secrets", body).await.ok(201);
        all.push((name, tier, old));
    }
    type Keep = fn(Option<u64>) -> bool;
    let selectors: &[(&str, Keep)] = &[
        ("tier", |t| t.is_some()),
        ("!tier", |t| t.is_none()),
        ("tier=1", |t| t == Some(1)),
        ("tier==2", |t| t == Some(2)),
        ("tier!=1", |t| t != Some(1)),
        ("tier in (1,3)", |t| matches!(t, Some(1 | 3))),
        ("tier notin (1,3)", |t| !matches!(t, Some(1 | 3))),
        ("tier,tier!=2", |t| t.is_some() && t != Some(2)),
        ("tier>1", |t| t > Some(1)),
        ("tier<2", |t| t.is_some() && t < Some(2)),
    ];
    for (selector, keep) in selectors {
        for field in ["", "type=example.com/old", "type!=example.com/old"] {
            let encode = |text: &str| text.bytes().map(|b| format!("%{b:02x}")).collect::<String>();
            let path =
                format!("/api/v1/secrets?labelSelector={}&fieldSelector={}", encode(selector), encode(field));
            let wanted: Vec<String> = all
                .iter()
                .filter(|(_, tier, old)| keep(*tier) && (field.is_empty() || *old != field.contains("!=")))
                .map(|(name, ..)| name.clone())
                .collect();
            assert_eq!(names(&cluster.get(path).await.ok(200)), wanted, "{selector} {field} (seed {seed})");
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn large_lists_are_compressed_and_streamed() {
    let cluster = TestCluster::simulated(16).await;
    for n in 0..40 {
        let body = json!({"metadata": {"name": format!("big{n}")}, "data": {"k": "x".repeat(10_000)}});
        cluster.post(MAPS, body).await.ok(201);
    }
    let plain = cluster.get(MAPS).await;
    assert_eq!(plain.ok(200)["items"].as_array().unwrap().len(), 40);
    let packed = cluster.request("GET", MAPS).header("Accept-Encoding", "gzip").send().await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.bytes.starts_with(&[0x1f, 0x8b]) && packed.bytes.len() < plain.bytes.len() / 10);
    // So are the forms for people.
    for (path, accept) in [
        (format!("{MAPS}?pretty=true"), "application/json"),
        (MAPS.to_owned(), "application/yaml"),
        (format!("{MAPS}?pretty=true&includeObject=Object"), "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ] {
        let ask = || cluster.request("GET", &path).accept(accept);
        let plain = ask().send().await;
        let packed = ask().header("Accept-Encoding", "gzip").send().await;
        assert_eq!(packed.headers["content-encoding"], "gzip", "{path}");
        assert_eq!(packed.headers["vary"], "Accept-Encoding", "{path}");
        assert!(packed.bytes.starts_with(&[0x1f, 0x8b]) && packed.bytes.len() < plain.bytes.len() / 10);
    }
    let one = cluster.request("GET", format!("{MAPS}/big1")).header("Accept-Encoding", "gzip").send().await;
    assert!(!one.headers.contains_key("content-encoding"), "small answers are not worth it");
    cluster.shutdown().await;
}

/// Who wrote an event through the newer group has no `source`: the controller's name stands in for it.
#[tokio::test]
async fn events_are_found_by_source_whichever_group_wrote_them() {
    let cluster = TestCluster::start().await;
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let newer = json!({
        "metadata": {"name": "newer"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Do", "reason": "Test",
        "type": "Normal", "reportingController": "a", "reportingInstance": "n",
    });
    cluster.post(events, newer).await.ok(201);
    let older = json!({
        "metadata": {"name": "older"}, "involvedObject": {"namespace": "default"}, "source": {"component": "b"},
        "reportingComponent": "a",
    });
    cluster.post("/api/v1/namespaces/default/events", older).await.ok(201);
    for (path, found) in [
        ("/api/v1/namespaces/default/events?fieldSelector=source%3Da", vec!["newer"]),
        ("/api/v1/namespaces/default/events?fieldSelector=source%3Db", vec!["older"]),
        ("/api/v1/namespaces/default/events?fieldSelector=reportingComponent%3Da", vec!["newer", "older"]),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=reportingController%3Da",
            vec!["newer", "older"],
        ),
    ] {
        let list = cluster.get(path).await.ok(200);
        assert_eq!(names(&list), found, "{path}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_name_in_one_namespace_has_no_next_page() {
    let cluster = TestCluster::simulated(324).await;
    for namespace in ["ns1", "ns2"] {
        cluster.post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await.ok(201);
        for name in ["m1", "m2", "m3"] {
            let path = format!("/api/v1/namespaces/{namespace}/secrets");
            cluster.post(path, json!({"metadata": {"name": name}})).await.ok(201);
        }
    }
    let page = |path: &'static str| {
        let cluster = &cluster;
        async move {
            let list = cluster.get(path).await.ok(200);
            let items = list["items"].as_array().unwrap().iter();
            let names: Vec<String> = items
                .map(|item| {
                    format!(
                        "{}/{}",
                        item["metadata"]["namespace"].as_str().unwrap_or(""),
                        item["metadata"]["name"].as_str().unwrap()
                    )
                })
                .collect();
            (names.join(" "), list["metadata"].get("continue").is_some())
        }
    };
    for (path, names, more) in [
        ("/api/v1/namespaces?limit=1&fieldSelector=metadata.name=ns1", "/ns1", false),
        ("/api/v1/namespaces/ns1/secrets?limit=1&fieldSelector=metadata.name=m1", "ns1/m1", false),
        // In which namespace? There may be more.
        ("/api/v1/secrets?limit=1&fieldSelector=metadata.name=m1", "ns1/m1", true),
        ("/api/v1/secrets?limit=1&fieldSelector=metadata.name=m1,metadata.namespace=ns1", "ns1/m1", false),
        ("/api/v1/secrets?limit=3&fieldSelector=metadata.namespace=ns1", "ns1/m1 ns1/m2 ns1/m3", false),
        ("/api/v1/secrets?limit=1&fieldSelector=metadata.namespace=ns1", "ns1/m1", true),
        ("/api/v1/secrets?limit=1&fieldSelector=metadata.name=none,metadata.namespace=ns1", "", false),
    ] {
        assert_eq!(page(path).await, (names.to_owned(), more), "{path}");
    }
    // The next page begins where this one ended, in the same namespace.
    let path = "/api/v1/secrets?limit=2&fieldSelector=metadata.namespace=ns1";
    let first = cluster.get(path).await.ok(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = cluster.get(format!("{path}&continue={token}")).await.ok(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(rest["items"][0]["metadata"]["name"], "m3");
    assert_eq!(rest["metadata"].get("continue"), None);
    cluster.shutdown().await;
}

/// The words are recorded from v1.36.4, which names its own types.
#[tokio::test(start_paused = true)]
async fn metadata_of_a_list_for_an_object_and_the_reverse_are_not_acceptable() {
    let cluster = TestCluster::simulated(17).await;
    cluster.post(MAPS, json!({"metadata": {"name": "m"}})).await.ok(201);
    let one = format!("{MAPS}/m");
    let as_one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let as_list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    for (path, accept, message) in [
        (
            MAPS,
            as_one,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        ),
        (
            &one,
            as_list,
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
        ),
        (
            "/apis/apps/v1/deployments",
            as_one,
            "you requested PartialObjectMetadata, but the requested object is a list (*apps.DeploymentList)",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            as_one,
            "you requested PartialObjectMetadata, but the requested object is a list (*rbac.ClusterRoleList)",
        ),
        (
            "/apis/events.k8s.io/v1/events",
            as_one,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.EventList)",
        ),
        (
            "/api/v1/componentstatuses",
            as_one,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ComponentStatusList)",
        ),
    ] {
        let refused = cluster.request("GET", path).accept(accept).send().await.ok(406);
        assert_eq!((&refused["reason"], &refused["message"]), (&json!("NotAcceptable"), &json!(message)));
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn large_responses_are_compressed_for_clients_that_accept_it() {
    let cluster = TestCluster::start().await;
    let large = "x".repeat(200 << 10);
    cluster.post(MAPS, json!({"metadata": {"name": "large"}, "data": {"x": large}})).await.ok(201);
    let packed = async |path: &str, wanted: &str| {
        let reply = cluster.request("GET", path).header("Accept-Encoding", wanted).send().await;
        assert_eq!(reply.status, 200, "{path}");
        reply.headers.get("content-encoding").is_some_and(|e| e == "gzip")
    };
    let one = format!("{MAPS}/large");
    let documents = ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/metrics"];
    for path in documents.into_iter().chain([MAPS, one.as_str()]) {
        assert!(packed(path, "gzip").await, "{path}");
        assert!(packed(path, "deflate, gzip").await, "{path}");
        for unwanted in ["gzip;q=0", "gzip; q=0.0", "identity", ""] {
            assert!(!packed(path, unwanted).await, "{path} for {unwanted:?}");
        }
    }
    // Upstream takes a weight for a part of the name where objects are concerned, and only there.
    assert!(packed("/openapi/v2", "gzip;q=0.5").await);
    assert!(!packed(&one, "gzip;q=0.5").await);
    let plain = cluster.get("/openapi/v2").await.bytes.len();
    let small =
        cluster.request("GET", "/openapi/v2").header("Accept-Encoding", "gzip").send().await.bytes.len();
    assert!(small * 3 < plain, "{small} of {plain} bytes");
    cluster.shutdown().await;
}
