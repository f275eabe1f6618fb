//! `/metrics`: upstream's families, and values that move as they should.

use std::collections::{BTreeMap, BTreeSet};

use env::Env;
use serde_json::json;
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LATENCY: &str = "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 +Inf";
const SLI: &str = "0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 +Inf";
const IDENTITY: &str =
    "0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384 +Inf";
const ADMISSION: &str = "0.005 0.025 0.1 0.5 1 2.5 +Inf";
const CEL: &str = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf";
const FLOW: &str = "flow_schema priority_level";
const WAIT: &str = "0 0.005 0.02 0.05 0.1 0.2 0.5 1 2 5 10 15 30 +Inf";
const ROUTE: &str = "component group resource scope subresource verb version";

/// What kube-apiserver v1.36.4 serves under these names: type, labels, buckets.
const RECORDED: [(&str, &str, &str, &str); 76] = [
    (
        "apiserver_request_total",
        "counter",
        "code component dry_run group resource scope subresource verb version",
        "",
    ),
    (
        "apiserver_request_duration_seconds",
        "histogram",
        "component dry_run group resource scope subresource verb version",
        LATENCY,
    ),
    ("apiserver_request_sli_duration_seconds", "histogram", ROUTE, SLI),
    ("apiserver_response_sizes", "histogram", ROUTE, "1000 10000 100000 1e+06 1e+07 1e+08 1e+09 +Inf"),
    ("apiserver_current_inflight_requests", "gauge", "request_kind", ""),
    ("apiserver_longrunning_requests", "gauge", ROUTE, ""),
    (
        "apiserver_request_terminations_total",
        "counter",
        "code component group resource scope subresource verb version",
        "",
    ),
    ("apiserver_flowcontrol_rejected_requests_total", "counter", "flow_schema priority_level reason", ""),
    ("apiserver_flowcontrol_dispatched_requests_total", "counter", FLOW, ""),
    ("apiserver_flowcontrol_request_dispatch_no_accommodation_total", "counter", FLOW, ""),
    ("apiserver_flowcontrol_current_inqueue_requests", "gauge", FLOW, ""),
    ("apiserver_flowcontrol_current_inqueue_seats", "gauge", FLOW, ""),
    ("apiserver_flowcontrol_current_executing_requests", "gauge", FLOW, ""),
    ("apiserver_flowcontrol_current_executing_seats", "gauge", FLOW, ""),
    (
        "apiserver_flowcontrol_request_queue_length_after_enqueue",
        "histogram",
        FLOW,
        "0 10 25 50 100 250 500 1000 +Inf",
    ),
    (
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "histogram",
        "execute flow_schema priority_level",
        WAIT,
    ),
    ("apiserver_flowcontrol_request_execution_seconds", "histogram", "flow_schema priority_level type", WAIT),
    ("apiserver_flowcontrol_work_estimated_seats", "histogram", FLOW, "1 2 4 8 16 32 64 100 +Inf"),
    ("apiserver_flowcontrol_watch_count_samples", "histogram", FLOW, "0 1 10 100 1000 10000 +Inf"),
    ("apiserver_flowcontrol_nominal_limit_seats", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_lower_limit_seats", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_upper_limit_seats", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_current_limit_seats", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_current_r", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_demand_seats_high_watermark", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_demand_seats_average", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_demand_seats_stdev", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_demand_seats_smoothed", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_target_seats", "gauge", "priority_level", ""),
    ("apiserver_flowcontrol_seat_fair_frac", "gauge", "", ""),
    ("apiserver_watch_events_total", "counter", "group resource version", ""),
    (
        "apiserver_watch_events_sizes",
        "histogram",
        "group resource version",
        "1024 2048 4096 8192 16384 32768 65536 131072 +Inf",
    ),
    ("apiserver_resource_objects", "gauge", "group resource", ""),
    ("apiserver_storage_objects", "gauge", "resource", ""),
    ("apiserver_storage_size_bytes", "gauge", "storage_cluster_id", ""),
    ("etcd_request_duration_seconds", "histogram", "group operation resource", LATENCY),
    ("etcd_requests_total", "counter", "group operation resource", ""),
    ("etcd_request_errors_total", "counter", "group operation resource", ""),
    (
        "apiserver_admission_controller_admission_duration_seconds",
        "histogram",
        "name operation rejected type",
        ADMISSION,
    ),
    (
        "apiserver_admission_step_admission_duration_seconds",
        "histogram",
        "operation rejected type",
        ADMISSION,
    ),
    ("apiserver_admission_step_admission_duration_seconds_summary", "summary", "operation rejected type", ""),
    (
        "apiserver_admission_match_condition_evaluation_seconds",
        "histogram",
        "kind name operation type",
        "0.001 0.005 0.01 0.025 0.1 0.2 0.25 +Inf",
    ),
    (
        "apiserver_admission_match_condition_evaluation_errors_total",
        "counter",
        "kind name operation type",
        "",
    ),
    ("apiserver_admission_match_condition_exclusions_total", "counter", "kind name operation type", ""),
    ("apiserver_cel_compilation_duration_seconds", "histogram", "", CEL),
    ("apiserver_cel_evaluation_duration_seconds", "histogram", "", CEL),
    ("authentication_attempts", "counter", "result", ""),
    ("authentication_duration_seconds", "histogram", "result", IDENTITY),
    ("authenticated_user_requests", "counter", "username", ""),
    ("authorization_attempts_total", "counter", "result", ""),
    ("authorization_duration_seconds", "histogram", "result", IDENTITY),
    (
        "apiserver_client_certificate_expiration_seconds",
        "histogram",
        "",
        "0 1800 3600 7200 21600 43200 86400 172800 345600 604800 2.592e+06 7.776e+06 1.5552e+07 3.1104e+07 +Inf",
    ),
    (
        "apiserver_request_filter_duration_seconds",
        "histogram",
        "filter",
        "0.0001 0.0003 0.001 0.003 0.01 0.03 0.1 0.3 1 5 10 15 30 +Inf",
    ),
    (
        "apiserver_requested_deprecated_apis",
        "gauge",
        "group removed_release resource subresource version",
        "",
    ),
    ("apiserver_cache_list_total", "counter", "group index resource", ""),
    ("apiserver_cache_list_returned_objects_total", "counter", "group resource", ""),
    ("apiserver_tls_handshake_errors_total", "counter", "", ""),
    (
        "kubernetes_build_info",
        "gauge",
        "build_date compiler git_commit git_tree_state git_version go_version major minor platform",
        "",
    ),
    ("process_cpu_seconds_total", "counter", "", ""),
    ("process_max_fds", "gauge", "", ""),
    ("process_open_fds", "gauge", "", ""),
    ("process_resident_memory_bytes", "gauge", "", ""),
    ("process_start_time_seconds", "gauge", "", ""),
    ("process_virtual_memory_bytes", "gauge", "", ""),
    ("process_virtual_memory_max_bytes", "gauge", "", ""),
    (
        "apiserver_admission_webhook_admission_duration_seconds",
        "histogram",
        "name operation rejected type",
        "0.005 0.025 0.1 0.5 1 2.5 10 25 +Inf",
    ),
    ("apiserver_admission_webhook_fail_open_count", "counter", "name type", ""),
    (
        "apiserver_admission_webhook_rejection_count",
        "counter",
        "error_type name operation rejection_code type",
        "",
    ),
    ("apiserver_admission_webhook_request_total", "counter", "code name operation rejected type", ""),
    (
        "apiserver_mutating_admission_policy_check_duration_seconds",
        "histogram",
        "error_type policy policy_binding",
        "5e-07 0.001 0.01 0.1 1 +Inf",
    ),
    ("apiserver_mutating_admission_policy_check_total", "counter", "error_type policy policy_binding", ""),
    (
        "apiserver_validating_admission_policy_check_duration_seconds",
        "histogram",
        "enforcement_action error_type policy policy_binding",
        "5e-07 0.001 0.01 0.1 1 +Inf",
    ),
    (
        "apiserver_validating_admission_policy_check_total",
        "counter",
        "enforcement_action error_type policy policy_binding",
        "",
    ),
    (
        "apiserver_conversion_webhook_duration_seconds",
        "histogram",
        "failure_type result",
        "0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 45 60 +Inf",
    ),
    ("apiserver_conversion_webhook_request_total", "counter", "failure_type result", ""),
    (
        "apiserver_crd_conversion_webhook_duration_seconds",
        "histogram",
        "crd_name from_version succeeded to_version",
        "0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384 +Inf",
    ),
];

/// One scrape, read as Prometheus reads it.
#[derive(Default)]
struct Scrape {
    types: BTreeMap<String, String>,
    /// By name and labels: the line's value.
    series: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Scrape {
    async fn of(cluster: &TestCluster) -> Scrape {
        Scrape::read(&cluster.get("/metrics").await.text())
    }

    fn read(text: &str) -> Scrape {
        let mut scrape = Scrape::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(scrape.types.insert(name.into(), kind.into()).is_none(), "{name} stands twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
                let labels = labels.strip_suffix('}').unwrap().split("\",").filter(|l| !l.is_empty());
                let labels = labels.map(|label| {
                    let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
                    (name.to_owned(), value.trim_end_matches('"').to_owned())
                });
                let key = (name.to_owned(), labels.collect());
                assert!(scrape.series.insert(key, value.parse().unwrap()).is_none(), "{line} stands twice");
            }
        }
        scrape
    }

    /// The family a line's name belongs to.
    fn family<'a>(&self, name: &'a str) -> &'a str {
        let stripped = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        stripped
            .filter(|base| self.types.get(*base).is_some_and(|t| t == "histogram" || t == "summary"))
            .unwrap_or(name)
    }

    /// The sum of all series that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits =
            |of: &BTreeMap<String, String>| labels.iter().all(|(n, v)| of.get(*n).is_some_and(|o| o == v));
        self.series.iter().filter(|((n, of), _)| n == name && fits(of)).map(|(_, value)| *value).sum()
    }
}

/// Labels and buckets of every family, as they are in the scrape.
fn shapes(scrape: &Scrape) -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let mut shapes: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for (name, labels) in scrape.series.keys() {
        let (names, buckets) = shapes.entry(scrape.family(name).to_owned()).or_default();
        let own = labels.keys().filter(|label| *label != "le");
        names.insert(own.cloned().collect::<Vec<_>>().join(" "));
        buckets.extend(labels.get("le").cloned());
    }
    shapes
}

#[tokio::test]
async fn families_have_upstreams_names_types_labels_and_buckets() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = TestCluster::with(Env::machine(), |config| {
        config.engine =
            store::DiskEngine::open(directory.path(), config.table.clone(), store::DiskOptions::default())
                .unwrap();
    })
    .await;
    let served = cluster.serve().await.unwrap();
    // No TLS: the handshake fails and the connection ends.
    let mut plain = tokio::net::TcpStream::connect(served.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let _ = plain.read_to_end(&mut Vec::new()).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    cluster.post(maps, json!({"metadata": {"name": "a"}})).await.ok(201);
    drop(cluster.watch(format!("{maps}?watch=1")).await.next().await);
    cluster.get(maps).await.ok(200);
    cluster.get("/api/v1/componentstatuses").await.ok(200);

    let scrape = Scrape::of(&cluster).await;
    let shapes = shapes(&scrape);
    for (name, kind, labels, buckets) in RECORDED {
        assert_eq!(scrape.types.get(name).map(String::as_str), Some(kind), "{name}");
        let Some((ours, le)) = shapes.get(name) else {
            // Nothing was refused for want of room, the store did not fail, nothing was converted, and no webhook or policy was asked.
            let unused = [
                "apiserver_admission_webhook_admission_duration_seconds",
                "apiserver_admission_webhook_fail_open_count",
                "apiserver_admission_webhook_rejection_count",
                "apiserver_admission_webhook_request_total",
                "apiserver_admission_match_condition_evaluation_errors_total",
                "apiserver_admission_match_condition_evaluation_seconds",
                "apiserver_admission_match_condition_exclusions_total",
                "apiserver_mutating_admission_policy_check_duration_seconds",
                "apiserver_mutating_admission_policy_check_total",
                "apiserver_validating_admission_policy_check_duration_seconds",
                "apiserver_validating_admission_policy_check_total",
                "apiserver_conversion_webhook_duration_seconds",
                "apiserver_conversion_webhook_request_total",
                "apiserver_crd_conversion_webhook_duration_seconds",
                "apiserver_request_terminations_total",
                "apiserver_flowcontrol_rejected_requests_total",
                "etcd_request_errors_total",
            ];
            assert!(unused.contains(&name), "{name}");
            continue;
        };
        assert_eq!(ours.iter().map(String::as_str).collect::<Vec<_>>(), [labels], "labels of {name}");
        let wanted: BTreeSet<String> = buckets.split_whitespace().map(str::to_owned).collect();
        assert_eq!(*le, wanted, "buckets of {name}");
    }
    // Families of this process' controllers are upstream's too, but of other programs.
    let ours = scrape.types.keys().filter(|name| name.starts_with("apiserver_") || name.starts_with("auth"));
    for name in ours {
        assert!(
            RECORDED.iter().any(|(known, ..)| known == name),
            "{name} is not among the recorded families"
        );
    }
    assert_eq!(scrape.sum("apiserver_tls_handshake_errors_total", &[]), 1.0);
    assert!(scrape.sum("apiserver_storage_size_bytes", &[]) > 0.0);
    assert!(scrape.sum("process_open_fds", &[]) > 1.0);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_is_counted_once_by_what_it_was() {
    let cluster = TestCluster::simulated(700).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"k": "v"}});
    let before = Scrape::of(&cluster).await;
    cluster.post(maps, map("a")).await.ok(201);
    cluster.post(format!("{maps}?dryRun=All"), map("b")).await.ok(201);
    cluster.post(format!("{maps}?dryRun=Some"), map("b")).await;
    cluster.get(format!("{maps}/a")).await.ok(200);
    cluster.get(format!("{maps}/none")).await.ok(404);
    let mut listed = 0.0;
    for list in [maps, "/api/v1/configmaps"] {
        listed += cluster.get(list).await.ok(200)["items"].as_array().unwrap().len() as f64;
    }
    cluster.merge(format!("{maps}/a"), json!({"data": {"k": "w"}})).await.ok(200);
    let apply =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}});
    let apply = serde_json::to_vec(&apply).unwrap();
    let ask = cluster.request("PATCH", format!("{maps}/a?fieldManager=me"));
    let applied = ask.typed("application/apply-patch+yaml", apply).send().await.status;
    let (apply_code, applied) = (applied.to_string(), f64::from(u8::from(applied == 200)));
    cluster.get("/api/v1/namespaces/default/pods/none/log").await.ok(404);
    cluster.delete(maps).await.ok(200);
    // What never reaches a verb is not counted: upstream counts routes.
    cluster.request("GET", maps).unproven().send().await.ok(403);
    let refused = cluster.request("GET", maps).unproven().header("authorization", "Bearer nonsense");
    refused.send().await.ok(401);
    cluster.get("/api/v1/nonesuch").await;
    cluster.request("OPTIONS", maps).send().await;
    cluster.get("/version").await.ok(200);
    cluster.get("/readyz").await;
    let after = Scrape::of(&cluster).await;

    let more = |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    let lists = [("group", ""), ("resource", "configmaps")];
    assert_eq!(more("apiserver_cache_list_total", &lists), 2.0);
    assert_eq!(more("apiserver_cache_list_returned_objects_total", &lists), listed);
    assert_eq!(after.sum("apiserver_requested_deprecated_apis", &[]), 0.0);
    let total = "apiserver_request_total";
    let of_maps = [("resource", "configmaps"), ("group", ""), ("version", "v1"), ("component", "apiserver")];
    let expected = [
        ("POST", "201", "resource", "", 1.0),
        ("POST", "201", "resource", "All", 1.0),
        ("GET", "200", "resource", "", 1.0),
        ("GET", "404", "resource", "", 1.0),
        ("LIST", "200", "namespace", "", 1.0),
        ("LIST", "200", "cluster", "", 1.0),
        ("PATCH", "200", "resource", "", 1.0),
        ("APPLY", apply_code.as_str(), "resource", "", 1.0),
        ("DELETE", "200", "namespace", "", 1.0),
    ];
    for (verb, code, scope, dry_run, count) in expected {
        let mut labels = of_maps.to_vec();
        labels.extend([("verb", verb), ("code", code), ("scope", scope), ("dry_run", dry_run)]);
        assert_eq!(more(total, &labels), count, "{verb} {code} {scope} {dry_run}");
        let labels = [&of_maps[..], &[("verb", verb), ("scope", scope), ("dry_run", dry_run)]].concat();
        assert!(more("apiserver_request_duration_seconds_count", &labels) >= count, "{verb}");
    }
    assert_eq!(more(total, &[("resource", "configmaps"), ("dry_run", "invalid")]), 1.0);
    assert_eq!(more(total, &[("resource", "configmaps")]), expected.len() as f64 + 1.0, "and nothing else");
    let connect = [("verb", "CONNECT"), ("resource", "pods"), ("subresource", "log"), ("code", "404")];
    assert_eq!(more(total, &connect), 1.0);
    assert_eq!(more(total, &[("subresource", "/readyz"), ("resource", ""), ("component", "")]), 1.0);
    assert_eq!(more(total, &[]), expected.len() as f64 + 3.0);
    // Dry runs are no service level.
    let sli = "apiserver_request_sli_duration_seconds_count";
    assert_eq!(more(sli, &of_maps), expected.len() as f64 - 1.0);
    let sizes = "apiserver_response_sizes";
    assert_eq!(more(&format!("{sizes}_count"), &of_maps), 4.0, "reads only");
    assert!(more(&format!("{sizes}_sum"), &[("verb", "LIST"), ("scope", "cluster")]) > 100.0);

    let result = |name: &str, result: &str| more(name, &[("result", result)]);
    assert_eq!(result("authentication_attempts", "error"), 1.0);
    assert_eq!(result("authorization_attempts_total", "no-opinion"), 1.0);
    let asked = result("authentication_attempts", "success");
    assert_eq!(result("authorization_attempts_total", "allowed"), asked - 1.0);
    assert_eq!(more("authenticated_user_requests", &[("username", "other")]), asked);
    assert_eq!(result("authentication_duration_seconds_count", "success"), asked);

    let stored = [("group", ""), ("resource", "configmaps")];
    let operation = |of: &str| more("etcd_requests_total", &[&stored[..], &[("operation", of)]].concat());
    assert_eq!((operation("create"), operation("update"), operation("delete")), (1.0, 1.0 + applied, 1.0));
    assert_eq!(more("apiserver_resource_objects", &stored), 0.0, "made and gone");
    let step = "apiserver_admission_step_admission_duration_seconds_count";
    let created = [("operation", "CREATE"), ("type", "admit"), ("rejected", "false")];
    assert_eq!(more(step, &created), 2.0, "one of them dry");
    let plugin = "apiserver_admission_controller_admission_duration_seconds_count";
    assert_eq!(more(plugin, &[&created[..], &[("name", "LimitRanger")]].concat()), 2.0);
    assert_eq!(after.sum(plugin, &[("name", "NoEscalation")]), 0.0, "no plugin of upstream");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_counted_while_open_and_when_it_ends() {
    let cluster = TestCluster::simulated(701).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let labels = [("resource", "configmaps"), ("verb", "WATCH"), ("scope", "namespace")];
    let open = async || Scrape::of(&cluster).await.sum("apiserver_longrunning_requests", &labels);
    let told = async |name: &str| Scrape::of(&cluster).await.sum(name, &[("resource", "configmaps")]);
    let ended = async || Scrape::of(&cluster).await.sum("apiserver_request_total", &labels);
    assert_eq!(open().await, 0.0);
    cluster.post(maps, json!({"metadata": {"name": "first"}})).await.ok(201);
    let mut first = cluster.watch(format!("{maps}?watch=1&resourceVersion=0")).await;
    let initial = first.next().await.expect("what is there");
    let events = told("apiserver_watch_events_total").await;
    assert_eq!((open().await, initial["type"].clone()), (1.0, json!("ADDED")));
    let second = cluster.watch(format!("{maps}?watch=1")).await;
    assert_eq!((open().await, ended().await), (2.0, 0.0));
    let bytes = told("apiserver_watch_events_sizes_sum").await;
    cluster.post(maps, json!({"metadata": {"name": "a"}})).await.ok(201);
    first.next().await.unwrap();
    assert_eq!(told("apiserver_watch_events_total").await, events + 1.0);
    assert!(told("apiserver_watch_events_sizes_sum").await > bytes + 100.0);
    drop(second);
    assert_eq!((open().await, ended().await), (1.0, 1.0));
    drop(first);
    assert_eq!((open().await, ended().await), (0.0, 2.0));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_maximum_in_flight_is_kept_for_a_second() {
    let cluster = TestCluster::simulated(702).await;
    // Reads of a version that is yet to come wait for it, and hold their seats meanwhile.
    let path = "/api/v1/namespaces/default/configmaps?resourceVersion=100000";
    let wait = || cluster.request("GET", path).send();
    let waiting: Vec<_> = (0..400).map(|_| cluster.env().spawn("waiting", wait())).collect();
    cluster.env().sleep(std::time::Duration::from_millis(1)).await;
    let scrape = Scrape::of(&cluster).await;
    let reading = [("request_kind", "readOnly")];
    assert!(scrape.sum("apiserver_current_inflight_requests", &reading) >= 401.0);
    for task in waiting {
        assert_eq!(task.await.unwrap().status, 504, "it never came");
    }
    let scrape = Scrape::of(&cluster).await;
    assert_eq!(scrape.sum("apiserver_current_inflight_requests", &reading), 1.0, "this scrape");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn health_checks_are_counted_by_result() {
    let cluster = TestCluster::simulated(703).await;
    let slis = async || Scrape::read(&cluster.get("/metrics/slis").await.text());
    assert!(slis().await.series.keys().all(|(name, _)| !name.starts_with("kubernetes_")), "nobody asked yet");
    cluster.get("/readyz").await;
    cluster.get("/livez/ping").await;
    let scrape = slis().await;
    assert_eq!(scrape.types["kubernetes_healthcheck"], "gauge");
    assert_eq!(scrape.types["kubernetes_healthchecks_total"], "counter");
    let of = |name, kind| [("name", name), ("type", kind)];
    assert_eq!(scrape.sum("kubernetes_healthcheck", &of("etcd", "readyz")), 1.0);
    assert_eq!(scrape.sum("kubernetes_healthchecks_total", &of("ping", "livez")), 1.0);
    assert_eq!(scrape.sum("kubernetes_healthchecks_total", &of("etcd", "livez")), 0.0);
    cluster.api().begin_shutdown();
    cluster.get("/readyz").await;
    let scrape = slis().await;
    assert_eq!(scrape.sum("kubernetes_healthcheck", &of("shutdown", "readyz")), 0.0);
    let errors = [("name", "shutdown"), ("type", "readyz"), ("status", "error")];
    assert_eq!(scrape.sum("kubernetes_healthchecks_total", &errors), 1.0);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn rules_of_schemas_are_measured_where_they_are_compiled_and_evaluated() {
    let cluster = TestCluster::simulated(710).await;
    let counts = async || {
        let scrape = Scrape::of(&cluster).await;
        ["compilation", "evaluation"]
            .map(|what| scrape.sum(&format!("apiserver_cel_{what}_duration_seconds_count"), &[]))
    };
    assert_eq!(counts().await, [0.0, 0.0]);
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rules.example.io"},
        "spec": {"group": "example.io", "scope": "Cluster", "names": {"plural": "rules", "kind": "Rule"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"size": {"type": "integer",
                    "x-kubernetes-validations": [{"rule": "self > 0"}, {"rule": "self < 10"}]}}}}}]}});
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.ok(201);
    let [compiled, evaluated] = counts().await;
    assert!(compiled >= 1.0, "when it is written");
    assert_eq!(evaluated, 0.0);
    let rule = |name: &str, size: u8| json!({"apiVersion": "example.io/v1", "kind": "Rule", "metadata": {"name": name}, "size": size});
    cluster.post("/apis/example.io/v1/rules", rule("a", 1)).await.ok(201);
    cluster.post("/apis/example.io/v1/rules", rule("b", 11)).await.ok(422);
    assert_eq!(counts().await, [compiled + 1.0, 2.0], "both rules of the node once, for all objects");
    cluster.shutdown().await;
}
