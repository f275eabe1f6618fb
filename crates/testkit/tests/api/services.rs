//! What the server allocates for services: cluster IPs and node ports; and the `kubernetes` service.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Advertised, ClusterSettings, PortRange, ServiceRanges};
use auth::CaBundle;
use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

fn service(name: &str, spec: Value) -> Value {
    let mut body = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (member, value) in spec.as_object().unwrap() {
        body["spec"][member] = value.clone();
    }
    body
}

async fn cluster(seed: u64, ranges: &str, ports: &str) -> TestCluster {
    let services = ServiceRanges::new(ranges, PortRange::parse(ports).unwrap()).unwrap();
    let settings = ClusterSettings { services, ..ClusterSettings::default() };
    TestCluster::with(Env::simulated(seed), |config| config.cluster = settings).await
}

async fn create(cluster: &TestCluster, name: &str, spec: Value) -> Value {
    cluster.post(SERVICES, service(name, spec)).await.ok(201)
}

async fn refused(cluster: &TestCluster, name: &str, spec: Value, status: u16) -> String {
    let answer = cluster.post(SERVICES, service(name, spec)).await.ok(status);
    answer["message"].as_str().unwrap().to_owned()
}

async fn addresses(cluster: &TestCluster) -> Vec<String> {
    let list = cluster.get(ADDRESSES).await.ok(200);
    let items = list["items"].as_array().unwrap();
    items.iter().map(|o| o["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits, in virtual time, until something holds.
async fn until<F: Future<Output = bool>>(cluster: &TestCluster, what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        cluster.env().sleep(Duration::from_millis(100)).await;
    }
    panic!("a minute has passed and still not: {what}");
}

#[tokio::test(start_paused = true)]
async fn each_type_gets_what_it_needs() {
    let cluster = TestCluster::simulated(20).await;
    let plain = create(&cluster, "plain", json!({})).await;
    let ip = plain["spec"]["clusterIP"].as_str().unwrap();
    assert!(ip.starts_with("10.96."), "{ip}");
    assert_eq!(plain["spec"]["clusterIPs"], json!([ip]));
    assert_eq!(plain["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(plain["spec"]["ipFamilyPolicy"], "SingleStack");
    let address = cluster.get(format!("{ADDRESSES}/{ip}")).await.ok(200);
    let labels = json!({
        "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    assert_eq!(address["metadata"]["labels"], labels);
    let parent = json!({"resource": "services", "namespace": "default", "name": "plain"});
    assert_eq!(address["spec"]["parentRef"], parent);
    // One commit: the service and its address have one revision.
    assert_eq!(address["metadata"]["resourceVersion"], plain["metadata"]["resourceVersion"]);

    let headless = create(&cluster, "headless", json!({"clusterIP": "None", "selector": {"a": "b"}})).await;
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4"]));
    let free = create(&cluster, "free", json!({"clusterIP": "None"})).await;
    assert_eq!(free["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(free["spec"]["ipFamilyPolicy"], "RequireDualStack");
    let external = json!({"type": "ExternalName", "externalName": "example.com", "ports": null});
    let external = create(&cluster, "external", external).await;
    for absent in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(external["spec"].get(absent), None, "{absent}");
    }
    let node = create(&cluster, "node", json!({"type": "NodePort"})).await;
    let port = node["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    // Above the static band of 86 ports: 2768 / 32.
    assert!((30086..=32767).contains(&port), "{port}");
    let balanced =
        create(&cluster, "lb", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})).await;
    assert!(balanced["spec"]["healthCheckNodePort"].as_i64().unwrap() >= 30086);
    let without = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    let without = create(&cluster, "without", without).await;
    assert_eq!(without["spec"]["ports"][0].get("nodePort"), None);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_requested_address_is_allocated_once_and_then_refused() {
    let cluster = TestCluster::simulated(21).await;
    create(&cluster, "a", json!({"clusterIP": "10.96.0.10"})).await;
    let taken = refused(&cluster, "b", json!({"clusterIP": "10.96.0.10"}), 422).await;
    assert_eq!(
        taken,
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.10\"]: failed to allocate IP \
         10.96.0.10: provided IP is already allocated"
    );
    for outside in ["10.97.0.1", "10.96.0.0", "10.96.255.255"] {
        let message = refused(&cluster, "c", json!({"clusterIP": outside}), 422).await;
        assert!(message.ends_with("the provided network does not match the current range"), "{message}");
    }
    let broken = refused(&cluster, "d", json!({"clusterIP": "10.96.0"}), 422).await;
    assert!(broken.contains("spec.clusterIPs[0]: Invalid value: \"10.96.0\""), "{broken}");
    let two = json!({"clusterIP": "10.96.0.11", "clusterIPs": ["10.96.0.12"]});
    let two = refused(&cluster, "e", two, 422).await;
    assert!(two.contains("first value must match `clusterIP`"), "{two}");
    let dual = refused(&cluster, "f", json!({"ipFamilyPolicy": "RequireDualStack"}), 422).await;
    assert_eq!(
        dual,
        "Service \"f\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not \
         configured for dual-stack services"
    );
    let v6 = refused(&cluster, "g", json!({"ipFamilies": ["IPv6"]}), 422).await;
    assert!(
        v6.ends_with("spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"),
        "{v6}"
    );
    // Of what was refused nothing is left.
    assert_eq!(addresses(&cluster).await, ["10.96.0.1", "10.96.0.10"]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_frees_its_address_and_ports_at_once() {
    let cluster = TestCluster::simulated(22).await;
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.96.0.10", "ports": [{"port": 80, "nodePort": 30001}]});
    create(&cluster, "a", spec.clone()).await;
    let endpoints = json!({"metadata": {"name": "a"}});
    cluster.post("/api/v1/namespaces/default/endpoints", endpoints).await.ok(201);
    let taken =
        refused(&cluster, "b", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}), 422);
    assert_eq!(
        taken.await,
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"
    );
    cluster.delete(format!("{SERVICES}/a")).await.ok(200);
    assert_eq!(addresses(&cluster).await, ["10.96.0.1"]);
    cluster.get("/api/v1/namespaces/default/endpoints/a").await.ok(404);
    create(&cluster, "b", spec).await;
    // A finalizer keeps both until it goes.
    let path = format!("{SERVICES}/b");
    cluster.merge(path.as_str(), json!({"metadata": {"finalizers": ["example.com/keep"]}})).await.ok(200);
    cluster.delete(path.as_str()).await.ok(200);
    assert_eq!(addresses(&cluster).await, ["10.96.0.1", "10.96.0.10"]);
    cluster.merge(path.as_str(), json!({"metadata": {"finalizers": null}})).await.ok(200);
    cluster.get(path.as_str()).await.ok(404);
    assert_eq!(addresses(&cluster).await, ["10.96.0.1"]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_keeps_allocations_and_a_change_of_type_frees_them() {
    let cluster = TestCluster::simulated(23).await;
    let made = create(&cluster, "a", json!({"type": "NodePort"})).await;
    let (ip, port) = (&made["spec"]["clusterIP"], &made["spec"]["ports"][0]["nodePort"]);
    let path = format!("{SERVICES}/a");
    // What was sent at first, sent again.
    let again = cluster.put(path.as_str(), service("a", json!({"type": "NodePort"}))).await.ok(200);
    assert_eq!((&again["spec"]["clusterIP"], &again["spec"]["ports"][0]["nodePort"]), (ip, port));
    assert_eq!(again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);

    let plain = cluster.merge(path.as_str(), json!({"spec": {"type": "ClusterIP"}})).await.ok(200);
    assert_eq!(plain["spec"]["clusterIP"], *ip);
    assert_eq!(plain["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(plain["spec"].get("externalTrafficPolicy"), None);
    let wanted = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    create(&cluster, "takes-the-port", wanted).await;

    let to_name = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    let external = cluster.merge(path.as_str(), to_name).await.ok(200);
    assert_eq!(external["spec"].get("clusterIP"), None);
    cluster.get(format!("{ADDRESSES}/{}", ip.as_str().unwrap())).await.ok(404);
    let back = json!({"spec": {"type": "ClusterIP", "externalName": null}});
    let back = cluster.merge(path.as_str(), back).await.ok(200);
    let new = back["spec"]["clusterIP"].as_str().unwrap();
    assert_eq!(back["spec"]["ipFamilies"], json!(["IPv4"]));
    cluster.get(format!("{ADDRESSES}/{new}")).await.ok(200);
    let moved = cluster.merge(path.as_str(), json!({"spec": {"clusterIP": "10.96.0.77"}})).await.ok(422);
    assert!(moved["message"].as_str().unwrap().contains("may not change once set"), "{moved}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_gains_and_loses_its_second_ip_family() {
    let cluster = cluster(24, "10.96.0.0/16,fd00::/108", "30000-32767").await;
    let single = create(&cluster, "single", json!({})).await;
    assert_eq!(single["spec"]["ipFamilies"], json!(["IPv4"]));
    let dual = create(&cluster, "dual", json!({"ipFamilyPolicy": "RequireDualStack"})).await;
    assert_eq!(dual["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let second = dual["spec"]["clusterIPs"][1].as_str().unwrap();
    let address = cluster.get(format!("{ADDRESSES}/{second}")).await.ok(200);
    assert_eq!(address["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"], "IPv6");
    let v6 = json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]});
    let v6 = create(&cluster, "v6-first", v6).await;
    assert_eq!(v6["spec"]["ipFamilies"], json!(["IPv6", "IPv4"]));
    assert_eq!(v6["spec"]["clusterIP"], v6["spec"]["clusterIPs"][0]);

    // Up, down, and not down without saying so.
    let path = format!("{SERVICES}/single");
    let up =
        cluster.merge(path.as_str(), json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})).await.ok(200);
    assert_eq!(up["spec"]["clusterIPs"][0], single["spec"]["clusterIP"]);
    let second = up["spec"]["clusterIPs"][1].as_str().unwrap();
    cluster.get(format!("{ADDRESSES}/{second}")).await.ok(200);
    let reduced = json!({"spec": {"clusterIPs": [single["spec"]["clusterIP"]]}});
    let reduced = cluster.merge(path.as_str(), reduced).await.ok(422);
    let message = reduced["message"].as_str().unwrap();
    assert!(message.contains("must be 'SingleStack' to release the secondary cluster IP"), "{message}");
    let down = cluster.merge(path.as_str(), json!({"spec": {"ipFamilyPolicy": "SingleStack"}})).await.ok(200);
    assert_eq!(down["spec"]["clusterIPs"], json!([single["spec"]["clusterIP"]]));
    assert_eq!(down["spec"]["ipFamilies"], json!(["IPv4"]));
    cluster.get(format!("{ADDRESSES}/{second}")).await.ok(404);
    let wanted = json!({"spec": {"ipFamilyPolicy": "RequireDualStack",
        "clusterIPs": [single["spec"]["clusterIP"], "fd00::99"]}});
    let wanted = cluster.merge(path.as_str(), wanted).await.ok(200);
    assert_eq!(wanted["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    cluster.get(format!("{ADDRESSES}/fd00::99")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_range_refuses_until_another_is_added() {
    // 14 addresses; the first is the kubernetes service's.
    let cluster = cluster(25, "10.0.0.0/28", "30000-30003").await;
    for n in 0..13 {
        create(&cluster, &format!("s{n}"), json!({})).await;
    }
    let full = refused(&cluster, "one-more", json!({}), 500).await;
    assert_eq!(
        full,
        "Internal error occurred: failed to allocate a serviceIP for Service \"one-more\": range is full"
    );
    let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.0.1.0/28"]}});
    cluster.post(CIDRS, more).await.ok(201);
    let made = create(&cluster, "one-more", json!({})).await;
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.0.1."));
    let headless = json!({"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]});
    create(&cluster, "n0", headless.clone()).await;
    create(&cluster, "n1", headless.clone()).await;
    let full = refused(&cluster, "n2", headless, 500).await;
    assert_eq!(full, "Internal error occurred: failed to allocate a nodePort: range is full");
    // The refused one took no address.
    let before = addresses(&cluster).await.len();
    assert_eq!(before, 1 + 13 + 1 + 2);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn node_ports_are_shared_between_protocols_and_kept_by_name() {
    let cluster = TestCluster::simulated(26).await;
    let ports = json!([
        {"name": "tcp", "port": 53, "protocol": "TCP"}, {"name": "udp", "port": 53, "protocol": "UDP"},
        {"name": "web", "port": 80, "nodePort": 30005},
    ]);
    let made = create(&cluster, "a", json!({"type": "NodePort", "ports": ports})).await;
    let ports = &made["spec"]["ports"];
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
    assert_eq!(ports[2]["nodePort"], 30005);
    let path = format!("{SERVICES}/a");
    let fewer = json!({"spec": {"ports": [{"name": "web", "port": 8080}, {"name": "new", "port": 81}]}});
    let fewer = cluster.merge(path.as_str(), fewer).await.ok(200);
    assert_eq!(fewer["spec"]["ports"][0]["nodePort"], 30005);
    assert!(fewer["spec"]["ports"][1]["nodePort"].as_i64().unwrap() > 30085);
    let freed = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": ports[0]["nodePort"]}]});
    create(&cluster, "b", freed).await;
    let outside = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]});
    assert_eq!(
        refused(&cluster, "c", outside, 422).await,
        "Service \"c\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid \
         range. The range of valid ports is 30000-32767"
    );
    // The port of health checks comes from the same range and goes with its cause.
    let local =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30006});
    create(&cluster, "d", local.clone()).await;
    let message = refused(&cluster, "e", local.clone(), 500).await;
    assert!(
        message.ends_with(
            "failed to allocate requested HealthCheck NodePort 30006: provided port is already allocated"
        ),
        "{message}"
    );
    let path = format!("{SERVICES}/d");
    let changed = cluster.merge(path.as_str(), json!({"spec": {"healthCheckNodePort": 30007}})).await.ok(422);
    assert!(changed["message"].as_str().unwrap().ends_with("field is immutable"), "{changed}");
    let freed =
        cluster.merge(path.as_str(), json!({"spec": {"externalTrafficPolicy": "Cluster"}})).await.ok(200);
    assert_eq!(freed["spec"].get("healthCheckNodePort"), None);
    create(&cluster, "e", local).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_get_distinct_addresses_and_ports() {
    let cluster = std::sync::Arc::new(TestCluster::start().await);
    let mut writers = Vec::new();
    for writer in 0..20 {
        let cluster = cluster.clone();
        writers.push(cluster.clone().env().spawn("writer", async move {
            let mut made = Vec::new();
            for n in 0..10 {
                let body = service(&format!("s-{writer}-{n}"), json!({"type": "NodePort"}));
                made.push(cluster.post(SERVICES, body).await.ok(201));
            }
            made
        }));
    }
    let (mut ips, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for writer in writers {
        for made in writer.await.unwrap() {
            ips.insert(made["spec"]["clusterIP"].to_string());
            ports.insert(made["spec"]["ports"][0]["nodePort"].to_string());
        }
    }
    assert_eq!((ips.len(), ports.len()), (200, 200));
    assert_eq!(addresses(&cluster).await.len(), 201);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reserves_nothing() {
    let cluster = TestCluster::simulated(27).await;
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.96.0.10", "ports": [{"port": 80, "nodePort": 30001}]});
    let dry = format!("{SERVICES}?dryRun=All");
    for _ in 0..2 {
        let shown = cluster.post(dry.as_str(), service("a", spec.clone())).await.ok(201);
        assert_eq!(shown["spec"]["clusterIP"], "10.96.0.10");
    }
    let shown = cluster.post(dry.as_str(), service("b", json!({"type": "NodePort"}))).await.ok(201);
    assert_eq!(shown["spec"]["clusterIP"], "10.96.0.0");
    assert_eq!(shown["spec"]["ports"][0]["nodePort"], 32769);
    assert_eq!(addresses(&cluster).await, ["10.96.0.1"]);
    create(&cluster, "a", spec.clone()).await;
    let path = format!("{SERVICES}/a?dryRun=All");
    cluster
        .merge(path.as_str(), json!({"spec": {"type": "ExternalName", "externalName": "x.y"}}))
        .await
        .ok(200);
    cluster.delete(path.as_str()).await.ok(200);
    assert_eq!(addresses(&cluster).await, ["10.96.0.1", "10.96.0.10"]);
    let taken = cluster.post(dry.as_str(), service("c", spec)).await;
    assert_eq!(taken.status, 422);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_checks_node_ports_but_not_addresses() {
    let cluster = TestCluster::simulated(2701).await;
    let dry = format!("{SERVICES}?dryRun=All");
    cluster.post(dry.as_str(), service("a", json!({"clusterIP": "10.96.0.1"}))).await.ok(201);
    for ip in ["10.96.0.0", "10.96.255.255", "10.1.2.3"] {
        let refused = cluster.post(dry.as_str(), service("a", json!({"clusterIP": ip}))).await.ok(422);
        let told = refused["message"].as_str().unwrap();
        let words = format!(
            "failed to allocate IP {ip}: the provided IP ({ip}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
        );
        assert!(told.ends_with(&words), "{told}");
    }
    let ports = |ports: &[i64]| {
        let all: Vec<Value> = ports
            .iter()
            .enumerate()
            .map(|(i, p)| json!({"name": format!("p{i}"), "port": 80 + i, "nodePort": p}))
            .collect();
        service("b", json!({"type": "NodePort", "ports": all}))
    };
    cluster.post(dry.as_str(), ports(&[99])).await.ok(201);
    cluster.post(SERVICES, ports(&[99])).await.ok(422);
    let made = cluster.post(SERVICES, ports(&[30001])).await.ok(201);
    let mut other = ports(&[30001]);
    other["metadata"]["name"] = json!("c");
    cluster.post(dry.as_str(), other).await.ok(422);
    let path = format!("{SERVICES}/b?dryRun=All");
    let mut changed = made.clone();
    changed["spec"]["ports"][0]["nodePort"] = json!(40000);
    cluster.put(path.as_str(), changed).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_address_is_recreated_and_a_leaked_one_deleted() {
    let cluster = TestCluster::simulated(28).await;
    let made = create(&cluster, "a", json!({})).await;
    let path = format!("{ADDRESSES}/{}", made["spec"]["clusterIP"].as_str().unwrap());
    cluster.delete(path.as_str()).await.ok(200);
    until(&cluster, "the address is back", || async { cluster.get(path.as_str()).await.status == 200 }).await;
    let leaked = json!({
        "metadata": {"name": "10.96.0.99", "labels": {
            "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "nobody"}},
    });
    cluster.post(ADDRESSES, leaked).await.ok(201);
    cluster.env().sleep(Duration::from_secs(55)).await;
    cluster.get(format!("{ADDRESSES}/10.96.0.99")).await.ok(200);
    let gone = || async { cluster.get(format!("{ADDRESSES}/10.96.0.99")).await.status == 404 };
    until(&cluster, "the leaked address is gone", gone).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_cidr_is_ready_and_waits_for_its_addresses_to_go() {
    let cluster = TestCluster::simulated(29).await;
    let state = || async { cluster.get(format!("{CIDRS}/kubernetes")).await.ok(200) };
    let looked_at = || async {
        state().await["status"]["conditions"][0]["message"] == "Kubernetes Service CIDR is ready"
    };
    until(&cluster, "the controller has synced the default range", looked_at).await;
    let default = state().await;
    assert_eq!(default["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    assert_eq!(default["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(default["status"]["conditions"][0]["status"], "True");
    assert_eq!(default["metadata"]["finalizers"], json!(["networking.k8s.io/service-cidr-finalizer"]));

    let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.0.1.0/28"]}});
    cluster.post(CIDRS, more).await.ok(201);
    let path = format!("{CIDRS}/more");
    let state = || async { cluster.get(path.as_str()).await.json() };
    let ready = || async { state().await["status"]["conditions"][0]["status"] == "True" };
    until(&cluster, "the new range is ready", ready).await;
    assert_eq!(state().await["metadata"]["finalizers"], json!(["networking.k8s.io/service-cidr-finalizer"]));
    create(&cluster, "a", json!({"clusterIP": "10.0.1.5"})).await;
    cluster.delete(path.as_str()).await.ok(200);
    let blocked = || async { state().await["status"]["conditions"][0]["reason"] == "Terminating" };
    until(&cluster, "the range waits", blocked).await;
    // Nothing is given out of a range that goes.
    let message = refused(&cluster, "b", json!({"clusterIP": "10.0.1.6"}), 422).await;
    assert!(message.ends_with("the provided network does not match the current range"), "{message}");
    cluster.env().sleep(Duration::from_secs(30)).await;
    cluster.get(path.as_str()).await.ok(200);
    cluster.delete(format!("{SERVICES}/a")).await.ok(200);
    until(&cluster, "the range is gone", || async { cluster.get(path.as_str()).await.status == 404 }).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn without_its_controller_the_default_range_is_ready_and_has_no_finalizer() {
    let cluster = TestCluster::with_accounts(Env::simulated(2901), |_| {}).await;
    let default = cluster.get(format!("{CIDRS}/kubernetes")).await.ok(200);
    assert_eq!(default["metadata"].get("finalizers"), None);
    let ready = &default["status"]["conditions"][0];
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("True"), &json!("")));
    assert_eq!(ready["message"], "Kubernetes default Service CIDR is ready");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_kubernetes_service_has_the_live_servers_as_endpoints() {
    let advertised = Advertised { address: "192.0.2.7:6443".parse().unwrap(), host: "one".to_owned() };
    let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let settings = ClusterSettings {
        client_ca: Some(Arc::new(CaBundle::from_pem(pem.as_bytes()).unwrap())),
        ..Default::default()
    };
    let settings = ClusterSettings { advertised: Some(advertised), ..settings };
    let cluster = TestCluster::with(Env::simulated(30), |config| config.cluster = settings).await;
    let service = cluster.get(format!("{SERVICES}/kubernetes")).await.ok(200);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    let ports = json!([{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}]);
    assert_eq!(service["spec"]["ports"], ports);
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));

    let endpoints = || async { cluster.get("/api/v1/namespaces/default/endpoints/kubernetes").await.json() };
    let leads = || async { endpoints().await["subsets"][0]["addresses"] == json!([{"ip": "192.0.2.7"}]) };
    until(&cluster, "the endpoints are there", leads).await;
    let subset = json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}]);
    assert_eq!(endpoints().await["subsets"], subset);
    let slice =
        cluster.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await.ok(200);
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["endpoints"], json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}]));
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));

    // Another server comes, and goes without a word.
    let lease = json!({
        "metadata": {"name": "apiserver-other", "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
            "annotations": {"setpoint.dev/advertise-address": "192.0.2.8:6443"}},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600},
    });
    cluster.post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease).await.ok(201);
    let both = json!([{"ip": "192.0.2.7"}, {"ip": "192.0.2.8"}]);
    let merged = || async { endpoints().await["subsets"][0]["addresses"] == both };
    until(&cluster, "both servers are there", merged).await;
    until(&cluster, "the dead server is gone", leads).await;

    // What people take away comes back.
    cluster.delete(format!("{SERVICES}/kubernetes")).await.ok(200);
    until(&cluster, "the service is back", leads).await;
    let there = || async { cluster.get(format!("{SERVICES}/kubernetes")).await.status == 200 };
    until(&cluster, "the service is back", there).await;
    let trust = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let ca = cluster.get(trust).await.ok(200)["data"]["client-ca-file"].clone();
    assert!(ca.as_str().unwrap().contains("AA=="));
    cluster.delete(trust).await.ok(200);
    until(&cluster, "the trust is back", || async { cluster.get(trust).await.status == 200 }).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn bootstrap_objects_are_reconciled() {
    let cluster = TestCluster::simulated(31).await;
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let extra = json!({"verbs": ["get"], "nonResourceURLs": ["/extra"]});
    let role = |name: &str| format!("{ROLES}/system:{name}");
    let stripped = json!({"rules": [extra], "metadata": {"labels": null}});
    cluster.merge(role("discovery"), stripped.clone()).await.ok(200);
    let alone = json!({"rbac.authorization.kubernetes.io/autoupdate": "false"});
    let mut left = stripped;
    left["metadata"]["annotations"] = alone;
    cluster.merge(role("basic-user"), left).await.ok(200);
    cluster.merge(format!("{BINDINGS}/cluster-admin"), json!({"subjects": null})).await.ok(200);
    let level = |name: &str| format!("{LEVELS}/{name}");
    let changed = json!({"spec": {"limited": {"nominalConcurrencyShares": 77}}});
    // What every server needs cannot be changed; taken away it can be, and comes back.
    cluster.merge(level("catch-all"), changed.clone()).await.ok(422);
    cluster.delete(level("catch-all")).await.ok(200);
    cluster.merge(level("global-default"), changed.clone()).await.ok(200);
    let mut own = changed;
    own["metadata"] = json!({"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}});
    cluster.merge(level("workload-low"), own).await.ok(200);

    // As a server does that starts on this store.
    cluster.api().bootstrap().await.unwrap();
    let discovery = cluster.get(role("discovery")).await.ok(200);
    let rules = discovery["rules"].as_array().unwrap();
    assert_eq!(rules[0]["nonResourceURLs"], extra["nonResourceURLs"]);
    assert!(rules.len() > 1);
    assert_eq!(discovery["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
    assert_eq!(cluster.get(role("basic-user")).await.ok(200)["rules"], json!([extra]));
    let binding = cluster.get(format!("{BINDINGS}/cluster-admin")).await.ok(200);
    assert_eq!(binding["subjects"][0]["name"], "system:masters");
    let shares = |level: Value| level["spec"]["limited"]["nominalConcurrencyShares"].as_i64().unwrap();
    assert_eq!(shares(cluster.get(level("catch-all")).await.ok(200)), 5);
    assert_eq!(shares(cluster.get(level("global-default")).await.ok(200)), 20);
    assert_eq!(shares(cluster.get(level("workload-low")).await.ok(200)), 77);
    // A second look finds nothing to do.
    let before = cluster.api().registry().table().revision();
    cluster.api().bootstrap().await.unwrap();
    assert_eq!(cluster.api().registry().table().revision(), before);

    // A system namespace that goes comes back.
    let path = "/api/v1/namespaces/kube-node-lease";
    let mut going = cluster.delete(path).await.ok(200);
    let uid = going["metadata"]["uid"].clone();
    going["spec"]["finalizers"] = json!([]);
    cluster.put(format!("{path}/finalize"), going).await.ok(200);
    let back = || async {
        let now = cluster.get(path).await;
        now.status == 200 && now.json()["metadata"]["uid"] != uid
    };
    until(&cluster, "the namespace is back", back).await;
    cluster.shutdown().await;
}

/// As upstream: addresses are handed out before a service is judged.
#[tokio::test(start_paused = true)]
async fn a_full_range_is_reported_before_an_invalid_service() {
    let cluster = cluster(27, "10.0.0.0/28", "30000-30003").await;
    let broken = json!({"ports": [{"port": 0}]});
    let without_name = || async {
        let post = cluster.post(SERVICES, json!({"metadata": {}, "spec": {"ports": [{"port": 80}]}})).await;
        (post.status, post.json()["message"].as_str().unwrap().to_owned())
    };
    // With addresses left, only what can own one gets so far.
    let (code, message) = without_name().await;
    assert_eq!(code, 422);
    let before = "Service \"\" is invalid: spec.clusterIPs: Invalid value: [\"\"]: failed to allocate IP: IPAddress.networking.k8s.io \"10.0.0.";
    assert!(message.starts_with(before), "{message}");
    assert!(message.ends_with("\" is invalid: spec.parentRef.name: Required value"), "{message}");
    let slash = refused(&cluster, "a/b", json!({}), 422).await;
    assert!(slash.ends_with("spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'"), "{slash}");
    assert!(refused(&cluster, "x", broken.clone(), 422).await.contains("spec.ports[0].port"));
    for n in 0..13 {
        create(&cluster, &format!("s{n}"), json!({})).await;
    }
    let full = |name: &str| {
        format!(
            "Internal error occurred: failed to allocate a serviceIP for Service \"{name}\": range is full"
        )
    };
    assert_eq!(refused(&cluster, "x", broken, 500).await, full("x"));
    assert_eq!(refused(&cluster, "A_b", json!({}), 500).await, full("A_b"));
    assert_eq!(without_name().await, (500, full("")));
    cluster.shutdown().await;
}
