//! Admission plugins over whole requests: what they set, what they refuse, and the messages.

use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

const NS: &str = "/api/v1/namespaces/default";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, spec: Value) -> Value {
    let mut all = json!({"containers": [{"name": "c", "image": "x"}]});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": all})
}

/// The reason behind "... is forbidden: ".
async fn refused(cluster: &TestCluster, path: &str, body: Value) -> String {
    let status = cluster.post(path, body).await.ok(403);
    let message = status["message"].as_str().unwrap().to_owned();
    message.split_once(" is forbidden: ").unwrap_or_else(|| panic!("{message}")).1.to_owned()
}

async fn with_plugins(seed: u64, enable: &[&str], disable: &[&str]) -> TestCluster {
    let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect();
    let choice = apiserver::AdmissionChoice { enable: names(enable), disable: names(disable) };
    TestCluster::with(Env::simulated(seed), |config| config.admission = choice).await
}

#[tokio::test(start_paused = true)]
async fn a_plain_pod_is_completed_as_upstream_does() {
    let cluster = TestCluster::simulated(41).await;
    let made = cluster.post(PODS, pod("p", json!({}))).await.ok(201);
    let volume = made["spec"]["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-") && volume.len() == 21, "{volume}");
    let tolerated = |key: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    assert_eq!(
        made["spec"],
        json!({
            "volumes": [{"name": volume, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ]}}],
            "containers": [{
                "name": "c", "image": "x", "resources": {},
                "volumeMounts": [{"name": volume, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
            "schedulerName": "default-scheduler", "enableServiceLinks": true, "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [tolerated("not-ready"), tolerated("unreachable")],
        })
    );
    // What came back can be sent back.
    assert_eq!(cluster.put(format!("{PODS}/p"), made.clone()).await.ok(200), made);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_can_be_created_right_after_their_namespace() {
    let cluster = TestCluster::simulated(42).await;
    for n in 0..3 {
        let name = format!("n{n}");
        cluster.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.ok(201);
        cluster.post(format!("/api/v1/namespaces/{name}/pods"), pod("p", json!({}))).await.ok(201);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn service_accounts_decide_about_mounted_tokens_and_secrets() {
    let cluster = TestCluster::simulated(43).await;
    let accounts = format!("{NS}/serviceaccounts");
    cluster.post(&accounts, json!({"metadata": {"name": "quiet"}, "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "pull"}]})).await.ok(201);
    let strict = json!({"metadata": {"name": "strict", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}, "secrets": [{"name": "mine"}]});
    cluster.post(&accounts, strict).await.ok(201);

    let quiet = cluster.post(PODS, pod("quiet", json!({"serviceAccountName": "quiet"}))).await.ok(201);
    assert!(quiet["spec"]["volumes"].is_null());
    assert_eq!(quiet["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
    let asked = json!({"serviceAccountName": "quiet", "automountServiceAccountToken": true, "imagePullSecrets": [{"name": "own"}],
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}]});
    let asked = cluster.post(PODS, pod("asked", asked)).await.ok(201);
    assert_eq!(asked["spec"]["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(asked["spec"]["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
    assert_eq!(asked["spec"]["imagePullSecrets"], json!([{"name": "own"}]));

    let no = "is not allowed because service account strict does not reference that";
    let from = json!({"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
    let with = |list: &str, part: Value| {
        let mut container = json!({"name": "i", "image": "x"});
        for (key, value) in part.as_object().unwrap() {
            container[key] = value.clone();
        }
        json!({list: [container]})
    };
    for (spec, reason) in [
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            format!("volume with secret.secretName=\"s\" {no} secret"),
        ),
        (
            with("initContainers", json!({"env": [from]})),
            format!("init container i with envVar E referencing secret.secretName=\"s\" {no} secret"),
        ),
        (
            with("containers", json!({"env": [from]})),
            format!("container i with envVar E referencing secret.secretName=\"s\" {no} secret"),
        ),
        (
            with("containers", json!({"envFrom": [{"secretRef": {"name": "s"}}]})),
            format!("container i with envFrom referencing secret.secretName=\"s\" {no} secret"),
        ),
        (
            json!({"imagePullSecrets": [{"name": "s"}]}),
            format!("imagePullSecrets[0].name=\"s\" {no} imagePullSecret"),
        ),
    ] {
        let mut spec = spec;
        spec["serviceAccountName"] = json!("strict");
        assert_eq!(refused(&cluster, PODS, pod("p", spec)).await, reason);
    }
    let fine =
        json!({"serviceAccountName": "strict", "volumes": [{"name": "v", "secret": {"secretName": "mine"}}]});
    cluster.post(PODS, pod("fine", fine)).await.ok(201);
    // A name yet to be generated shows as its beginning.
    let body = json!({"metadata": {"generateName": "g-"}, "spec": {"serviceAccountName": "nope", "containers": [{"name": "c", "image": "x"}]}});
    let message = cluster.post(PODS, body).await.ok(403)["message"].clone();
    assert_eq!(
        message,
        json!(
            "pods \"g-\" is forbidden: error looking up service account default/nope: serviceaccount \"nope\" not found"
        )
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn mirror_pods_depend_on_nothing() {
    let cluster = TestCluster::simulated(44).await;
    let token = json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]);
    for (spec, reason) in [
        (json!({"serviceAccountName": "default"}), "a mirror pod may not reference service accounts"),
        (json!({"imagePullSecrets": [{"name": "s"}]}), "a mirror pod may not reference secrets"),
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            "a mirror pod may not reference secrets",
        ),
        (json!({"volumes": token}), "a mirror pod may not use ServiceAccountToken volume projections"),
    ] {
        let mut body = pod("m", spec);
        body["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        body["spec"]["nodeName"] = json!("n");
        assert_eq!(refused(&cluster, PODS, body).await, reason);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn priority_comes_from_classes() {
    let cluster = TestCluster::simulated(45).await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let high = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
    cluster.post(classes, high).await.ok(201);
    let made = cluster.post(PODS, pod("a", json!({"priorityClassName": "high"}))).await.ok(201);
    assert_eq!((&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]), (&json!(7), &json!("Never")));
    for (spec, reason) in [
        (json!({"priorityClassName": "no"}), "no PriorityClass with name no was found"),
        (
            json!({"priority": 3}),
            "the integer value of priority (3) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
        ),
        (
            json!({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}),
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name",
        ),
    ] {
        assert_eq!(refused(&cluster, PODS, pod("p", spec)).await, reason);
    }
    let usual = |name| json!({"metadata": {"name": name}, "value": 5, "globalDefault": true});
    cluster.post(classes, usual("usual")).await.ok(201);
    let made = cluster.post(PODS, pod("b", json!({}))).await.ok(201);
    assert_eq!((&made["spec"]["priority"], &made["spec"]["priorityClassName"]), (&json!(5), &json!("usual")));
    assert_eq!(
        refused(&cluster, classes, usual("other")).await,
        "PriorityClass usual is already marked as default. Only one default can exist"
    );
    let again = cluster.get(format!("{classes}/usual")).await.json();
    cluster.put(format!("{classes}/usual"), again).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn limit_ranges_set_defaults_and_limits() {
    let cluster = TestCluster::simulated(46).await;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m", "memory": "1Mi"},
         "min": {"cpu": "50m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "5"}},
        {"type": "Pod", "max": {"cpu": "2"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
    ]}});
    cluster.post(format!("{NS}/limitranges"), range).await.ok(201);
    let init =
        json!({"initContainers": [{"name": "i", "image": "x", "resources": {"requests": {"cpu": "200m"}}}]});
    let made = cluster.post(PODS, pod("p", init)).await.ok(201);
    let (c, i) =
        (&made["spec"]["containers"][0]["resources"], &made["spec"]["initContainers"][0]["resources"]);
    assert_eq!(*c, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m", "memory": "1Mi"}}));
    assert_eq!(*i, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "200m", "memory": "1Mi"}}));
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        json!(
            "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c; memory request for init container i; cpu limit for init container i"
        )
    );
    let sized = |request: &str, limit: &str| json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": request}, "limits": {"cpu": limit}}});
    let one = |request: &str, limit: &str| json!({"containers": [sized(request, limit)]});
    let several = |n: usize| {
        let named = |i: usize| {
            let mut container = sized("1", "1");
            container["name"] = json!(format!("c{i}"));
            container
        };
        json!({"containers": (0..n).map(named).collect::<Vec<_>>()})
    };
    for (spec, reason) in [
        (one("10m", "50m"), "minimum cpu usage per Container is 50m, but request is 10m"),
        (one("1", "2"), "maximum cpu usage per Container is 1, but limit is 2"),
        (
            one("100m", "800m"),
            "cpu max limit to request ratio per Container is 5, but provided ratio is 8.000000",
        ),
        (
            one("10m", "1"),
            "[minimum cpu usage per Container is 50m, but request is 10m, cpu max limit to request ratio per Container is 5, but provided ratio is 100.000000]",
        ),
        (several(3), "maximum cpu usage per Pod is 2, but limit is 3"),
    ] {
        assert_eq!(refused(&cluster, PODS, pod("q", spec)).await, reason);
    }
    let claims = format!("{NS}/persistentvolumeclaims");
    let claim = |size: &str| json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
    assert_eq!(
        refused(&cluster, &claims, claim("1Mi")).await,
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
    );
    assert_eq!(
        refused(&cluster, &claims, claim("3Gi")).await,
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    );
    cluster.post(&claims, claim("2Gi")).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn defaults_and_protection_of_storage_and_ingresses() {
    let cluster = TestCluster::simulated(47).await;
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let class = |name: &str| json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "a.example.com", "allowVolumeExpansion": true});
    cluster.post(classes, class("old")).await.ok(201);
    cluster.env().sleep(std::time::Duration::from_secs(2)).await;
    cluster.post(classes, class("new")).await.ok(201);
    let claims = format!("{NS}/persistentvolumeclaims");
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut made = cluster.post(&claims, claim.clone()).await.ok(201);
    assert_eq!(made["spec"]["storageClassName"], json!("new"));
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let mut none = claim;
    none["metadata"]["name"] = json!("none");
    none["spec"]["storageClassName"] = json!("");
    assert_eq!(cluster.post(&claims, none).await.ok(201)["spec"]["storageClassName"], json!(""));

    made["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    let message = cluster.put(format!("{claims}/c"), made).await;
    assert!(message.text().contains("bound"), "{}", message.text());

    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    let volume = cluster.post("/api/v1/persistentvolumes", volume).await.ok(201);
    assert_eq!(volume["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));

    let ingress_class = json!({"metadata": {"name": "i", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}, "spec": {"controller": "example.com/c"}});
    cluster.post("/apis/networking.k8s.io/v1/ingressclasses", ingress_class).await.ok(201);
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend = json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}});
    let ingress = cluster.post(ingresses, json!({"metadata": {"name": "a"}, "spec": backend})).await.ok(201);
    assert_eq!(ingress["spec"]["ingressClassName"], json!("i"));
    let annotated = json!({"metadata": {"name": "b", "annotations": {"kubernetes.io/ingress.class": "x"}}, "spec": backend});
    assert!(cluster.post(ingresses, annotated).await.ok(201)["spec"]["ingressClassName"].is_null());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_start_tainted_and_give_pods_their_zone() {
    let cluster = TestCluster::simulated(48).await;
    let labels =
        json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"});
    let node =
        cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n", "labels": labels}})).await.ok(201);
    assert_eq!(
        node["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
    let made = cluster.post(PODS, pod("p", json!({"nodeName": "n"}))).await.ok(201);
    assert_eq!(
        made["metadata"]["labels"],
        json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"})
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn runtime_classes_set_overhead_and_node_selection() {
    let cluster = TestCluster::simulated(49).await;
    let class = json!({"metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]}});
    cluster.post("/apis/node.k8s.io/v1/runtimeclasses", class).await.ok(201);
    let narrow = json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"});
    let spec = json!({"runtimeClassName": "r", "nodeSelector": {"c": "d"}, "tolerations": [narrow]});
    let made = cluster.post(PODS, pod("p", spec)).await.ok(201);
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "100m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"a": "b", "c": "d"}));
    let keys: Vec<&str> =
        made["spec"]["tolerations"].as_array().unwrap().iter().map(|t| t["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "k"]);
    for (spec, reason) in [
        (json!({"runtimeClassName": "no"}), "pod rejected: RuntimeClass \"no\" not found"),
        (
            json!({"runtimeClassName": "r", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "r", "nodeSelector": {"a": "x"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x",
        ),
    ] {
        assert_eq!(refused(&cluster, PODS, pod("q", spec)).await, reason);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn flags_choose_plugins() {
    let cluster =
        with_plugins(50, &["AlwaysPullImages"], &["ServiceAccount", "DefaultTolerationSeconds"]).await;
    let spec = json!({"containers": [{"name": "c", "image": "x", "imagePullPolicy": "Never"}]});
    let made = cluster.post(PODS, pod("p", spec)).await.ok(201);
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], json!("Always"));
    for absent in ["volumes", "tolerations", "serviceAccountName"] {
        assert!(made["spec"][absent].is_null(), "{absent}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn owners_are_only_set_by_those_who_may() {
    let cluster = with_plugins(51, &["OwnerReferencesPermissionEnforcement"], &[]).await;
    let grant =
        |verbs: Value, resources: Value| json!({"apiGroups": [""], "resources": resources, "verbs": verbs});
    let role = json!({"metadata": {"name": "r"}, "rules": [grant(json!(["create", "update", "get"]), json!(["configmaps"]))]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    cluster.post(format!("{rbac}/roles"), role).await.ok(201);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]});
    cluster.post(format!("{rbac}/rolebindings"), binding).await.ok(201);
    let eve = || auth::UserInfo::new("eve", &[auth::groups::AUTHENTICATED]);
    let maps = format!("{NS}/configmaps");
    let owner = |block: bool| json!([{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u", "blockOwnerDeletion": block}]);
    let body = |name: &str, owners: Value| json!({"metadata": {"name": name, "ownerReferences": owners}});
    let send = async |method: &str, path: String, body: Value| {
        cluster.request(method, path).json(&body).by(eve()).send().await
    };
    send("POST", maps.clone(), body("plain", owner(false))).await.ok(201);
    let blocked = send("POST", maps.clone(), body("blocking", owner(true))).await.ok(403);
    let words = blocked["message"].as_str().unwrap().to_owned();
    assert!(words.contains("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: "), "{words}");
    let changed = send("PUT", format!("{maps}/plain"), body("plain", json!([]))).await.ok(403);
    let words = changed["message"].as_str().unwrap().to_owned();
    assert!(words.contains("cannot set an ownerRef on a resource you can't delete: "), "{words}");
    cluster.post(&maps, body("admins", owner(true))).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn plugins_that_are_off_by_default_refuse_when_on() {
    let on = ["DenyServiceExternalIPs", "LimitPodHardAntiAffinityTopology"];
    let cluster = with_plugins(52, &on, &[]).await;
    let services = format!("{NS}/services");
    let service = |ips: Value| json!({"metadata": {"name": "s"}, "spec": {"externalIPs": ips, "ports": [{"port": 80}]}});
    assert_eq!(
        refused(&cluster, &services, service(json!(["192.0.2.1"]))).await,
        "Use of external IPs is denied by admission control"
    );
    cluster.post(&services, service(json!([]))).await.ok(201);
    let apart = |key: &str| {
        let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}});
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    assert_eq!(
        refused(&cluster, PODS, pod("p", apart("zone"))).await,
        "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"
    );
    cluster.post(PODS, pod("p", apart("kubernetes.io/hostname"))).await.ok(201);
    cluster.shutdown().await;
}
