//! A whole simulated server: every request gets an answer of the API, and never a 500.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Caller, serve_stream};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codec::{json, protobuf, yaml};
use fuzz::Fuzz;
use http::{HeaderName, HeaderValue, Method, Uri};
use testkit::{Reply, TestCluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::samples;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A cluster in virtual time, and its runtime.
struct World {
    runtime: Runtime,
    cluster: TestCluster,
}

impl World {
    fn new(seed: u64) -> World {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let cluster = runtime.block_on(async {
            let cluster = TestCluster::simulated(seed).await;
            for name in ["a", "b"] {
                cluster
                    .post(MAPS, serde_json::json!({"metadata": {"name": name}, "data": {"k": "v"}}))
                    .await
                    .ok(201);
            }
            let pod = serde_json::from_str(samples::POD).unwrap();
            let _ = cluster.post("/api/v1/namespaces/default/pods", pod).await;
            let service = serde_json::from_str(samples::SERVICE).unwrap();
            let _ = cluster.post("/api/v1/namespaces/default/services", service).await;
            cluster
        });
        World { runtime, cluster }
    }

    /// Sends one request; `None` if it is no valid HTTP request.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Option<Reply> {
        let valid = Method::from_bytes(method.as_bytes()).is_ok()
            && path.parse::<Uri>().is_ok_and(|uri| uri.authority().is_none() && path.starts_with('/'))
            && headers.iter().all(|(name, value)| {
                name.parse::<HeaderName>().is_ok() && HeaderValue::from_bytes(value.as_bytes()).is_ok()
            });
        if !valid {
            return None;
        }
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            return None;
        }
        let mut ask = self.cluster.request(method, path).typed("application/json", body.clone());
        for (name, value) in headers {
            ask = ask.header(name, value);
        }
        // A watch goes on for long, so only its head is read; an error is read to its end.
        let reply = self.runtime.block_on(async {
            if path.contains("watch") {
                let stream = ask.stream().await;
                if stream.status < 400 {
                    let headers = stream.headers.clone();
                    return Reply { status: stream.status, headers, bytes: Default::default() };
                }
                ask = self.cluster.request(method, path).typed("application/json", body);
                ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
            }
            ask.send().await
        });
        Some(reply)
    }
}

/// Every answer is one of the API; an error is a Status.
fn check(reply: &Reply, shown: &str) -> String {
    let said = reply.text();
    // Upstream's code for a watch from a revision that is no number.
    let expected = said.contains("resourceVersion: Invalid value");
    assert!((reply.status != 500 || expected) && reply.status >= 200, "{shown}: {}: {said}", reply.status);
    if reply.status < 400 {
        return words_of(reply.status);
    }
    let message = reply.json()["message"].as_str().unwrap_or(&said).to_owned();
    format!("{} {message}", words_of(reply.status))
}

/// Outcomes are distinguished by their letters only.
fn words_of(status: u16) -> String {
    status.to_string().bytes().map(|digit| (digit - b'0' + b'a') as char).collect()
}

#[test]
fn request() {
    let world = World::new(11);
    let first = world.ask("GET", &format!("{MAPS}?limit=1"), &[], Vec::new()).unwrap().json();
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let forged = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .encode(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"default/a\u0000"}"#);
    let seeds = [
        format!("GET {MAPS}?limit=1&continue={token}"),
        format!("GET {MAPS}?continue={forged}"),
        "GET /api/v1/pods?labelSelector=a%3Db&fieldSelector=metadata.name%3Da&resourceVersion=1&resourceVersionMatch=Exact".into(),
        "GET /api/v1/namespaces/default/pods/a/log?tailLines=5".into(),
        "GET /apis/apps/v1/namespaces/default/deployments?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1".into(),
        "GET /api/v1/watch/namespaces/default/pods".into(),
        "DELETE /api/v1/namespaces/default/configmaps?dryRun=All&gracePeriodSeconds=1&propagationPolicy=Foreground".into(),
        "GET /openapi/v3/api/v1?hash=x\nAccept: application/com.github.proto-openapi.spec.v3@v1.0+protobuf\nAccept-Encoding: gzip".into(),
        "GET /api/v1/pods\nAccept: application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml;q=0.5".into(),
        "GET /api\nImpersonate-User: x\nImpersonate-Extra-a%2fb: c\nAuthorization: Bearer a.b.c".into(),
        "PUT /api/v1/namespaces/default/serviceaccounts/default/token?fieldManager=x&fieldValidation=Strict&dryRun=All".into(),
        "GET /metrics\nAccept: text/plain;version=0.0.4".into(),
        "HEAD /readyz?verbose&exclude=etcd".into(),
        "OPTIONS /version".into(),
        "GET /apis/metrics.k8s.io/v1beta1/nodes".into(),
        "GET /api/v1/namespaces/default/services/http:s:80/proxy/x?y".into(),
        "GET /.well-known/openid-configuration".into(),
        "GET /debug/controllers".into(),
    ];
    let tokens = &[
        "?watch=1",
        "&limit=",
        "&continue=",
        "&labelSelector=",
        "&fieldSelector=metadata.namespace%3D",
        "&resourceVersion=",
        "&resourceVersionMatch=Exact",
        "&timeoutSeconds=",
        "&dryRun=All",
        "&pretty=true",
        "&sendInitialEvents=true",
        "/api/v1/",
        "/apis/apps/v1/",
        "/namespaces/default/",
        "pods",
        "nodes",
        "/status",
        "/scale",
        "/eviction",
        "/binding",
        "%2f",
        "%00",
        "%ff",
        "+",
        ";",
        "\nAccept: ",
        "\nAuthorization: Bearer ",
        "\nImpersonate-User: ",
        "\nAccept-Encoding: gzip",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ];
    Fuzz::new("request")
        .seeds(seeds)
        .tokens(tokens)
        .max_len(1024)
        .holds_state()
        .allocates(64 << 20, 10_000)
        .inputs(300)
        .run(|input| {
            let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
            let mut lines = text.split('\n');
            let (method, path) = lines.next().unwrap_or("").split_once(' ').unwrap_or(("", ""));
            let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
            // Writes are dry runs, so that the state stays the same.
            if !matches!(method, "GET" | "HEAD" | "OPTIONS") && !path.contains("dryRun=All") {
                return "not tried".into();
            }
            match world.ask(method, path, &headers, Vec::new()) {
                Some(reply) => check(&reply, text),
                None => "no request".into(),
            }
        });
}

/// Objects in which `@` is replaced by the input.
const FIELDS: &[(&str, &str)] = &[
    (
        "/apis/batch/v1/namespaces/default/cronjobs",
        r#"{"metadata":{"name":"a"},"spec":{"schedule":"@","timeZone":"UTC","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"#,
    ),
    (
        "/apis/batch/v1/namespaces/default/cronjobs",
        r#"{"metadata":{"name":"a"},"spec":{"schedule":"* * * * *","timeZone":"@","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"#,
    ),
    ("/apis/networking.k8s.io/v1/servicecidrs", r#"{"metadata":{"name":"a"},"spec":{"cidrs":["@"]}}"#),
    (
        "/apis/networking.k8s.io/v1/ipaddresses",
        r#"{"metadata":{"name":"@"},"spec":{"parentRef":{"resource":"services","name":"a"}}}"#,
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        r#"{"metadata":{"name":"a"},"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"@","except":["@"]}}]}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/services",
        r#"{"metadata":{"name":"a"},"spec":{"clusterIP":"@","ports":[{"port":80,"targetPort":"@"}],"loadBalancerSourceRanges":["@"],"externalIPs":["@"]}}"#,
    ),
    (
        "/api/v1/namespaces/default/pods",
        r#"{"metadata":{"name":"a","labels":{"@":"@"},"annotations":{"@":"@"}},"spec":{"containers":[{"name":"@","image":"@","resources":{"limits":{"cpu":"@","@":"1"}},"env":[{"name":"@","value":"$(@)"}]}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/pods",
        r#"{"metadata":{"name":"a"},"spec":{"hostname":"@","dnsConfig":{"nameservers":["@"]},"hostAliases":[{"ip":"@"}],"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"@","subPathExpr":"@"}]}],"volumes":[{"name":"v","hostPath":{"path":"@"}}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"@","operator":"Gt","values":["@"]}]}]}}}}}"#,
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        r#"{"metadata":{"name":"a"},"spec":{"rules":[{"host":"@","http":{"paths":[{"path":"@","pathType":"Prefix","backend":{"service":{"name":"@","port":{"name":"@"}}}}]}}]}}"#,
    ),
    (
        "/api/v1/nodes",
        r#"{"metadata":{"name":"a"},"spec":{"podCIDR":"@","podCIDRs":["@"],"taints":[{"key":"@","value":"@","effect":"NoSchedule"}]},"status":{"addresses":[{"type":"InternalIP","address":"@"}]}}"#,
    ),
    (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        r#"{"metadata":{"name":"a"},"addressType":"IPv6","endpoints":[{"addresses":["@"],"hostname":"@"}]}"#,
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        r#"{"metadata":{"name":"ws.x.io"},"spec":{"group":"x.io","names":{"kind":"W","plural":"ws"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string","pattern":"@","default":"@"}},"x-kubernetes-validations":[{"rule":"@"}]}},"additionalPrinterColumns":[{"name":"c","type":"string","jsonPath":"@"}]}]}}"#,
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        r#"{"metadata":{"name":"a"},"webhooks":[{"name":"a.b.c","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"@","caBundle":"QUFB"},"matchConditions":[{"name":"@","expression":"@"}],"rules":[{"apiGroups":["@"],"apiVersions":["@"],"resources":["@"],"operations":["CREATE"]}]}]}"#,
    ),
    (
        "/apis/resource.k8s.io/v1/deviceclasses",
        r#"{"metadata":{"name":"a"},"spec":{"selectors":[{"cel":{"expression":"@"}}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/resourcequotas",
        r#"{"metadata":{"name":"a"},"spec":{"hard":{"@":"@","cpu":"@"},"scopes":["@"]}}"#,
    ),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        r#"{"metadata":{"name":"a"},"spec":{"minAvailable":"@","selector":{"matchExpressions":[{"key":"@","operator":"In","values":["@"]}]}}}"#,
    ),
    (
        "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
        r#"{"metadata":{"name":"a"},"storageClassName":"@","capacity":"@"}"#,
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        r#"{"metadata":{"name":"a"},"spec":{"renewTime":"@","holderIdentity":"@"}}"#,
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        r#"{"metadata":{"name":"a"},"spec":{"matchingPrecedence":1,"priorityLevelConfiguration":{"name":"@"},"rules":[{"subjects":[{"kind":"User","user":{"name":"@"}}],"nonResourceRules":[{"verbs":["@"],"nonResourceURLs":["@"]}]}]}}"#,
    ),
    ("/apis/authentication.k8s.io/v1/tokenreviews", r#"{"spec":{"token":"@","audiences":["@"]}}"#),
    (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        r#"{"spec":{"user":"@","resourceAttributes":{"labelSelector":{"rawSelector":"@"},"fieldSelector":{"rawSelector":"@"}}}}"#,
    ),
    // The following take base64.
    (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        r#"{"metadata":{"name":"a"},"spec":{"signerName":"a.b/c","usages":["client auth"],"request":"<64>"}}"#,
    ),
    (
        "/api/v1/namespaces/default/secrets",
        r#"{"metadata":{"name":"a"},"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"<64>"}}"#,
    ),
    (
        "/api/v1/namespaces/default/secrets",
        r#"{"metadata":{"name":"a"},"type":"kubernetes.io/tls","data":{"tls.crt":"<64>","tls.key":"<64>"}}"#,
    ),
];

#[test]
fn field() {
    let world = World::new(12);
    let (_, csr) = auth::pki::new_request("system:node:n", &["system:nodes".into()], &["a".into()]).unwrap();
    let texts = [
        "*/5 0-12/2 1,15 JAN-DEC MON",
        "@every 1h",
        "@hourly",
        "TZ=UTC * * * * *",
        "Europe/Zurich",
        "10.0.0.0/24",
        "fd00::/108",
        "::ffff:1.2.3.4",
        "1.2.3.4",
        "001.2.3.4",
        "25%",
        "100m",
        "1Gi",
        "2024-05-01T10:00:00.000000Z",
        "a.example.com/b",
        "^a+(b|c)*$",
        "self.a == 'b' && self.c.all(x, x > 1)",
        ".spec.a[*].b",
        "https://a.b:1/c",
        "{\"auths\":{\"a\":{\"auth\":\"eDp5\"}}}",
        "$(A)",
        "/a/../b",
    ];
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for row in 0..FIELDS.len() {
        let each = texts.iter().skip(row % 3).step_by(3);
        seeds.extend(each.map(|text| [&[row as u8], text.as_bytes()].concat()));
    }
    seeds.push([&[21], csr.as_bytes()].concat());
    seeds.push([&[23], csr.replace("CERTIFICATE REQUEST", "CERTIFICATE").as_bytes()].concat());
    let tokens = &[
        "*/",
        "-",
        ",",
        "?",
        "L",
        "@every ",
        "TZ=",
        "CRON_TZ=",
        "::",
        "/0",
        "/33",
        "/129",
        "0x",
        "%",
        ".",
        "..",
        "(",
        "(?",
        "[",
        "{1000}",
        "\\",
        "-----BEGIN CERTIFICATE REQUEST-----\n",
        "self",
        " == ",
        "'",
        "$(",
        ")",
        "\u{0}",
    ];
    Fuzz::new("field")
        .seeds(seeds)
        .tokens(tokens)
        .max_len(2048)
        .holds_state()
        .allocates(32 << 20, 40_000)
        .inputs(500)
        .run(|input| {
            let Some((row, text)) = input.split_first() else { return "empty".to_owned() };
            let (path, template) = FIELDS[usize::from(*row) % FIELDS.len()];
            let encoded = STANDARD.encode(text);
            let Ok(text) = std::str::from_utf8(text) else { return "no text".into() };
            let quoted = serde_json::to_string(text).unwrap();
            let body = template.replace("<64>", &encoded).replace('@', &quoted[1..quoted.len() - 1]);
            match world.ask("POST", &format!("{path}?dryRun=All"), &[], body.into_bytes()) {
                Some(reply) => check(&reply, text),
                None => "no request".into(),
            }
        });
}

const BODIES: &[(&str, &str, &str)] = &[
    ("POST", MAPS, "application/json"),
    ("POST", "/api/v1/namespaces/default/pods", "application/json"),
    ("POST", "/api/v1/namespaces/default/pods", "application/yaml"),
    ("POST", "/api/v1/namespaces/default/pods", "application/vnd.kubernetes.protobuf"),
    ("POST", "/apis/apps/v1/namespaces/default/deployments", "application/yaml"),
    ("POST", "/apis/apps/v1/namespaces/default/deployments", "application/vnd.kubernetes.protobuf"),
    ("PUT", "/api/v1/namespaces/default/services/s", "application/json"),
    ("PATCH", "/api/v1/namespaces/default/services/s", "application/json-patch+json"),
    ("PATCH", "/api/v1/namespaces/default/services/s", "application/merge-patch+json"),
    ("PATCH", "/api/v1/namespaces/default/services/s", "application/strategic-merge-patch+json"),
    ("PATCH", "/api/v1/namespaces/default/services/s/status", "application/strategic-merge-patch+json"),
    ("DELETE", "/api/v1/namespaces/default/configmaps/a", "application/json"),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "application/json"),
    ("POST", "/api/v1/namespaces/default/pods/a/eviction", "application/json"),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml"),
];

#[test]
fn body() {
    let world = World::new(13);
    let catalog = world.cluster.catalog().clone();
    let patches = [
        r#"[{"op":"replace","path":"/spec/ports/0/port","value":81}]"#,
        r#"{"spec":{"ports":[{"port":80,"$patch":"delete"}],"$setElementOrder/ports":[{"port":81}]}}"#,
        r#"{"metadata":{"labels":{"a":null}},"gracePeriodSeconds":0,"preconditions":{"uid":"x"},"spec":{"audiences":["a"],"expirationSeconds":600}}"#,
    ];
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (row, (method, _, media)) in BODIES.iter().enumerate() {
        let texts: &[&str] = if *method == "PATCH" { &patches } else { &samples::ALL };
        for text in texts {
            let mut bytes = text.as_bytes().to_vec();
            let value = json::parse(&bytes, None).unwrap();
            match *media {
                "application/yaml" => {
                    bytes.clear();
                    yaml::write(&value, &mut bytes);
                }
                "application/vnd.kubernetes.protobuf" => {
                    let (ty, value) = samples::canonical(&catalog, text);
                    let (version, kind) =
                        (value.str_at(&["apiVersion"]).unwrap(), value.str_at(&["kind"]).unwrap());
                    bytes.clear();
                    protobuf::encode(catalog.schema(), ty, version, kind, &value, &mut bytes);
                }
                _ => {}
            }
            seeds.push([&[row as u8], bytes.as_slice()].concat());
        }
    }
    Fuzz::new("body")
        .seeds(seeds)
        .tokens(samples::WORDS)
        .holds_state()
        .allocates(64 << 20, 40_000)
        .inputs(400)
        .run(|input| {
            let Some((row, body)) = input.split_first() else { return "empty".to_owned() };
            let (method, path, media) = BODIES[usize::from(*row) % BODIES.len()];
            let ask = world.cluster.request(method, format!("{path}?dryRun=All")).typed(media, body.to_vec());
            let reply = world.runtime.block_on(ask.send());
            check(&reply, &format!("{method} {path} {media}"))
        });
}

/// Sends a client's bytes over a connection, until it ends, in virtual time.
fn converse(world: &World, bytes: &[u8], http2: bool, half_closed: bool) -> Vec<u8> {
    world.runtime.block_on(async {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (api, admin) = (world.cluster.api().clone(), Arc::new(testkit::admin().authenticated()));
        let caller = move |_| Caller::Known(admin.clone());
        let served = world
            .cluster
            .env()
            .spawn("connection", async move { serve_stream(api, far, http2, caller).await });
        let (mut reader, mut writer) = tokio::io::split(near);
        let mut answer = Vec::new();
        let talk = async {
            let _ = writer.write_all(bytes).await;
            if half_closed {
                let _ = writer.shutdown().await;
            }
            let _ = reader.read_to_end(&mut answer).await;
        };
        // A watch would go on for an hour, but nobody is there to read it.
        let _ = world.cluster.env().timeout(Duration::from_secs(90), talk).await;
        drop((reader, writer));
        if let Err(error) = served.await {
            panic!("the connection's task: {error}");
        }
        answer
    })
}

#[test]
fn connection() {
    let world = World::new(14);
    let seeds: &[&[u8]] = &[
        b"1GET /version HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"1POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"1POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
        b"1GET /api/v1/pods?watch=1&timeoutSeconds=1 HTTP/1.0\r\n\r\n",
        b"3GET /version HTTP/1.1\r\nHost: x\r\n\r\n",
        b"2PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"2PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x0c\x01\x05\0\0\0\x01\x82\x87\x04\x08/version\x41\x01x",
        b"2PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff\0\0\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ];
    let tokens = &[
        "\r\n",
        "\r\n\r\n",
        " HTTP/1.1\r\n",
        "Host: x\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        "fffffffff\r\n",
        "Connection: close\r\n",
        "Upgrade: h2c\r\n",
        "Content-Encoding: gzip\r\n",
        "\0\0\0\x04\x01\0\0\0\0",
        "\0\0\x04\x08\0\0\0\0\0\0\0\0\x01",
        "\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
        "\0\0\x01\x09\x04\0\0\0\x01\x40",
    ];
    Fuzz::new("connection")
        .seeds(seeds)
        .tokens(tokens)
        .holds_state()
        .allocates(64 << 20, 10_000)
        .inputs(300)
        .run(|input| {
            let Some((which, bytes)) = input.split_first() else { return "empty".to_owned() };
            let http2 = *which == b'2';
            let answer = converse(&world, bytes, http2, *which == b'3');
            if http2 {
                // The kinds of frames, in order.
                let (mut rest, mut kinds) = (answer.as_slice(), String::new());
                while let [a, b, c, kind, tail @ ..] = rest {
                    kinds.push((b'a' + kind % 16) as char);
                    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                    rest = tail.get(5 + length..).unwrap_or_default();
                }
                return kinds;
            }
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", answer.escape_ascii());
            let text = String::from_utf8_lossy(&answer).into_owned();
            let codes: Vec<&str> =
                text.split("HTTP/1.1 ").skip(1).filter_map(|head| head.get(4..16)).collect();
            assert!(
                !text.starts_with("HTTP/1.1 500")
                    || bytes.windows(7).any(|w| w.eq_ignore_ascii_case(b"chunked")),
                "{text}"
            );
            codes.concat()
        });
}

#[test]
fn websocket() {
    let world = World::new(15);
    let head = format!(
        "GET {MAPS}?watch=1&timeoutSeconds=30 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://x\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    let seeds: &[&[u8]] = &[
        b"\x89\x84\0\0\0\0ping\x88\x80\0\0\0\0",
        b"\x81\x85\x01\x02\x03\x04hello",
        b"\x82\xfe\0\x10\0\0\0\0abcdefghijklmnop",
        b"\x82\xff\0\0\0\0\x02\0\0\0\0\0\0\0",
        b"\x89\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
        b"\x89\xfe\x01\0\0\0\0\0",
        b"\x01\x80\0\0\0\0\x80\x80\0\0\0\0",
        b"\x88\x02\x03\xe8",
    ];
    Fuzz::new("websocket").seeds(seeds).holds_state().allocates(4 << 20, 1000).inputs(300).run(|input| {
        let answer = converse(&world, &[head.as_bytes(), input].concat(), false, false);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", answer.escape_ascii());
        // Frames, whole ones, of the kinds a server sends.
        let (mut rest, mut kinds) = (&answer[end..], String::new());
        while !rest.is_empty() {
            assert!(matches!(rest[0], 0x81 | 0x88 | 0x8a), "{}", rest.escape_ascii());
            let (length, skip) = match rest[1] {
                126 => (usize::from(u16::from_be_bytes([rest[2], rest[3]])), 4),
                127 => panic!("nothing here is as long"),
                short => (usize::from(short), 2),
            };
            kinds.push((b'a' + (rest[0] & 0xf)) as char);
            rest = &rest[skip + length..];
        }
        kinds
    });
}

/// Objects with as many members as fit, in the places that are compared with others.
const LARGE: &[(&str, &str, &str, &str)] = &[
    (
        "/api/v1/namespaces/default/pods",
        r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"#,
        r#""a.b/r{i}":"1","#,
        r#""a.b/z":"1"}}}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/limitranges",
        r#"{"metadata":{"name":"a"},"spec":{"limits":[{"type":"Container","max":{"#,
        r#""a.b/r{i}":"1","#,
        r#""a.b/z":"1"},"min":{"a.b/z":"1"}}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/pods",
        r#"{"metadata":{"name":"a"},"spec":{"containers":["#,
        r#"{"name":"c{i}","image":"i"},"#,
        r#"{"name":"z","image":"i"}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/services",
        r#"{"metadata":{"name":"a"},"spec":{"clusterIP":"None","ports":["#,
        r#"{"name":"p{i}","port":{i}},"#,
        r#"{"name":"z","port":1}]}}"#,
    ),
];

#[test]
fn large_object() {
    let world = World::new(16);
    for (row, (path, before, unit, after)) in LARGE.iter().enumerate() {
        let before = format!("{row}{before}");
        let growth = [fuzz::Growth::new(&before, unit, after, 8000)];
        Fuzz::new("large_object").grows(&growth).inputs(0).holds_state().run(|input| {
            // Only these: `body` has all others.
            let Some((_, body)) = input.split_first() else { return "empty".to_owned() };
            match world.ask("POST", &format!("{path}?dryRun=All"), &[], body.to_vec()) {
                Some(reply) => check(&reply, path),
                None => "no request".into(),
            }
        });
    }
}
