//! Any input gets kube-apiserver's answer; nothing makes the server panic.

use std::time::Duration;

use env::Env;
use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

use crate::kinds::{NAMESPACE, collection, name, object, path};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn post(cluster: &TestCluster, media: &str, body: impl Into<Vec<u8>>) -> Reply {
    cluster.request("POST", MAPS).typed(media, body.into()).send().await
}

#[tokio::test(start_paused = true)]
async fn broken_bodies_get_upstreams_status() {
    let cluster = TestCluster::simulated(40).await;
    let nested = |depth: usize| {
        format!("{{\"metadata\":{{\"name\":\"n\"}},\"data\":{}{}}}", "[".repeat(depth), "]".repeat(depth))
    };
    let json = "application/json";
    let whole = json!({"metadata": {"name": "whole"}, "data": {"a": "b", "text": "ä\u{0}\"\\"}}).to_string();
    for cut in 0..whole.len() {
        assert_eq!(post(&cluster, json, &whole.as_bytes()[..cut]).await.status, 400, "cut at {cut}");
    }
    for (body, status) in [
        (whole.clone() + "}", 400),
        (whole.clone() + "{}", 400),
        // An object without a name.
        ("null".into(), 422),
        ("\"x\"".into(), 400),
        ("{\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"\\ud800\"}}".into(), 201),
        ("{\"metadata\":{\"name\":\"dup\"},\"metadata\":{\"name\":\"dup2\"}}".into(), 201),
        ("{\"metadata\":{\"name\":1}}".into(), 400),
        ("{\"metadata\":{\"name\":\"x\",\"labels\":[]}}".into(), 400),
        ("{\"metadata\":{\"name\":\"x\",\"creationTimestamp\":\"yesterday\"}}".into(), 400),
        ("{\"metadata\":{\"name\":\"x\",\"generation\":1e400}}".into(), 400),
        (nested(5), 400),
        (nested(100_000), 400),
    ] {
        let reply = post(&cluster, json, body.clone()).await;
        assert_eq!(reply.status, status, "{}: {}", &body[..body.len().min(100)], reply.text());
    }
    let huge = format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(3 << 20));
    assert_eq!(post(&cluster, json, huge).await.status, 413);
    assert_eq!(post(&cluster, json, vec![0xff, 0xfe, 0x00]).await.status, 400);
    assert_eq!(post(&cluster, json, vec![b'['; 3 << 20]).await.status, 400);

    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x,x]\n");
    for (this, last) in ('b'..='j').zip('a'..='i') {
        bomb += &format!("{this}: &{this} [{}]\n", vec![format!("*{last}"); 10].join(","));
    }
    for body in [
        bomb,
        "a: &a [*a]\n".into(),
        "{".repeat(5000),
        "- ".repeat(200_000),
        "a: b: c".into(),
        "\t".into(),
        "!!binary x: y".into(),
    ] {
        let reply = post(&cluster, "application/yaml", body.clone()).await;
        assert_eq!(reply.status, 400, "{}: {}", &body[..body.len().min(60)], reply.text());
    }
    for media in [
        "text/plain",
        "application/xml",
        "application/jsonx",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
    ] {
        assert_eq!(post(&cluster, media, "{}").await.status, 415, "{media}");
    }
    assert_eq!(
        post(&cluster, "application/json; charset=utf-8", "{\"metadata\":{\"name\":\"charset\"}}")
            .await
            .status,
        201
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn odd_names_get_upstreams_status() {
    let cluster = TestCluster::simulated(41).await;
    let long = "a".repeat(254);
    for (name, status) in [
        ("..", 400),
        (".", 400),
        ("%2e%2e", 400),
        ("a%2fb", 404),
        ("a%252fb", 400),
        ("a%00b", 404),
        (&long, 404),
        ("%20", 404),
        ("%ff", 404),
        ("A_B", 404),
    ] {
        for method in ["GET", "DELETE"] {
            let reply = cluster.request(method, format!("{MAPS}/{name}")).send().await;
            assert_eq!(reply.status, status, "{method} {name}: {}", reply.text());
        }
    }
    for name in ["a/b", "..", ".", "a%b", "a\u{0}b", "", "-a", "a.", "UPPER", "ä", &long] {
        let reply = cluster.post(MAPS, json!({"metadata": {"name": name}})).await;
        assert_eq!(reply.ok(422)["reason"], json!("Invalid"), "{name:?}");
    }
    let fits = "a".repeat(253);
    cluster.post(MAPS, json!({"metadata": {"name": fits}})).await.ok(201);
    cluster.delete(format!("{MAPS}/{fits}")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn odd_parameters_get_upstreams_status() {
    let cluster = TestCluster::simulated(42).await;
    let token = |text: &str| {
        // base64url by hand: three bytes to four letters.
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        text.as_bytes()
            .chunks(3)
            .map(|c| {
                let n = c.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - c.len()));
                (0..=c.len()).map(|i| LETTERS[(n >> (18 - 6 * i) & 63) as usize] as char).collect::<String>()
            })
            .collect::<String>()
    };
    let forged = |text: &str| format!("limit=1&continue={}", token(text));
    for (query, status) in [
        ("limit=x".to_owned(), 400),
        ("limit=1.5".into(), 400),
        ("limit=-5".into(), 200),
        ("limit=99999999999999999999".into(), 400),
        ("timeoutSeconds=x".into(), 400),
        ("resourceVersion=-1".into(), 400),
        ("resourceVersion=1x".into(), 400),
        ("labelSelector=a%20b".into(), 400),
        ("labelSelector=,".into(), 400),
        ("labelSelector=a%20in".into(), 400),
        ("labelSelector=a%20in%20(".into(), 400),
        ("labelSelector=a%3Db%00%00%3D".into(), 200),
        ("labelSelector=-a%3Db".into(), 400),
        ("fieldSelector=nope".into(), 400),
        ("fieldSelector=spec.nope%3Da".into(), 400),
        ("fieldSelector=metadata.name%3Da%5C".into(), 400),
        ("continue=%25%25".into(), 400),
        ("continue=e30".into(), 400),
        (forged("{\"v\":\"meta.k8s.io/v1\",\"rv\":0,\"start\":\"a\"}"), 400),
        (forged("{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"\"}"), 400),
        (forged("{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"../../secrets/a\"}"), 400),
        (forged("{\"v\":\"v9\",\"rv\":1,\"start\":\"a\"}"), 400),
        (forged("{\"v\":\"meta.k8s.io/v1\",\"rv\":\"1\",\"start\":\"a\"}"), 400),
        (forged("[]"), 400),
        ("sendInitialEvents=true".into(), 422),
        ("watch=1&sendInitialEvents=true&timeoutSeconds=1".into(), 422),
        ("watch=1&resourceVersion=x&timeoutSeconds=1".into(), 500),
        ("watch=1&resourceVersion=-1&timeoutSeconds=1".into(), 500),
        ("watch=1&resourceVersion=x&labelSelector=,".into(), 400),
        ("watch=1&resourceVersion=99999&timeoutSeconds=1".into(), 200),
        ("watch=1&continue=abc".into(), 422),
        ("limit=".into(), 400),
        ("timeoutSeconds=".into(), 400),
        // A pair that is none is left out.
        ("labelSelector=%zz".into(), 200),
        ("labelSelector=,;a=b".into(), 200),
        ("limit=x%&timeoutSeconds=1".into(), 200),
        ("limit=x%&timeoutSeconds=x".into(), 400),
        ("unknown=parameter&&&=&%".into(), 200),
    ] {
        let reply = cluster.get(format!("{MAPS}?{query}")).await;
        assert_eq!(reply.status, status, "{query}: {}", reply.text());
    }
    for (path, status) in [
        ("/apis/nope/v1/things", 404),
        ("/api/v2/pods", 404),
        ("/api/v1/nopes", 404),
        ("/api/v1/namespaces/default/pods/a/b/c/d", 404),
        ("//api//v1//namespaces", 404),
        ("/api//v1/namespaces", 404),
        ("/api/v1//namespaces", 404),
        ("//api/v1/namespaces", 404),
        ("//healthz", 404),
        ("/healthz/", 404),
        ("/readyz/", 404),
        ("/metrics/", 404),
        ("/api/v1/namespaces/", 200),
        ("/version/", 200),
        ("/readyz/informer-sync", 200),
        ("/livez/informer-sync", 404),
        ("/healthz/log", 200),
        // A client that was given no namespace asks like this.
        ("/api/v1/namespaces//configmaps", 200),
        ("/api/v1/namespaces//configmaps/a0", 400),
    ] {
        assert_eq!(cluster.get(path).await.status, status, "{path}");
    }
    cluster.post(MAPS, json!({"metadata": {"name": "a0"}})).await.ok(201);
    let everywhere = cluster.get("/api/v1/namespaces//configmaps").await.ok(200);
    let all = cluster.get("/api/v1/configmaps").await.ok(200);
    assert_eq!(everywhere["items"], all["items"]);
    let nowhere = json!({"metadata": {"name": "nowhere"}});
    assert_eq!(cluster.post("/api/v1/namespaces//configmaps", nowhere).await.status, 400);
    for method in ["DELETE", "POST", "PUT"] {
        let reply = cluster.request(method, "/version").send().await;
        assert_eq!(
            (reply.status, reply.json()["reason"].as_str()),
            (405, Some("MethodNotAllowed")),
            "{method}"
        );
    }
    // A path that leads nowhere is refused by the right to what it begins with.
    let jane = auth::UserInfo::new("jane", &[]);
    let reply = cluster.request("GET", format!("{MAPS}/a0/../../secrets")).by(jane).send().await;
    assert_eq!(reply.status, 403, "{}", reply.text());
    cluster.shutdown().await;
}

/// A seeded storm over methods, paths, parameters, media types, bodies and patches. The seed is in every message.
#[tokio::test(start_paused = true)]
async fn no_input_makes_the_server_fail() {
    // More of them on request: SETPOINT_STORMS=200 takes about a minute.
    let storms = std::env::var("SETPOINT_STORMS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    for seed in 50..50 + storms {
        storm(seed, 5000).await;
    }
}

async fn storm(seed: u64, requests: usize) {
    let cluster = TestCluster::simulated(seed).await;
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await.ok(201);
    let catalog = cluster.catalog().clone();
    let dice = Dice(Env::simulated(seed ^ 0xdead));
    for resource in catalog.resources().iter().filter(|r| r.storage.is_some()) {
        for n in 0..2 {
            cluster.post(collection(resource), object(resource, &name(resource, n))).await;
        }
    }
    let mut succeeded = 0;
    for round in 0..requests {
        let resource = &catalog.resources()[dice.below(catalog.resources().len())];
        let name = if dice.one_in(8) { dice.text(12) } else { name(resource, dice.below(3)) };
        // Methods that make sense there, most of the time.
        let whole = dice.one_in(3);
        let (mut target, fitting) = if whole {
            (collection(resource), &["GET", "POST", "POST", "POST", "DELETE"])
        } else {
            (path(resource, &encoded(&name)), &["GET", "PUT", "PATCH", "PATCH", "DELETE"])
        };
        let odd = &["HEAD", "OPTIONS", "NOPE", "POST", "PUT", "PATCH"];
        let method = if dice.one_in(8) { *dice.pick(odd) } else { *dice.pick(fitting) };
        if dice.one_in(5) {
            let below =
                ["/status", "/scale", "/finalize", "/nope", "/", "/approval", "//status", "/status/x"];
            target += *dice.pick(&below);
        }
        target += &dice.query();
        let valid = object(resource, &name);
        let (media, body) = dice.body(method, &valid);
        let told = format!(
            "seed {seed}, round {round}: {method} {target} {media} {:?}",
            String::from_utf8_lossy(&body[..body.len().min(300)])
        );

        let mut ask = cluster.request(method, target).typed(media, body);
        if dice.one_in(3) {
            let accepted = [
                "application/yaml",
                "*/*",
                "text/html",
                "application/json;as=Table;g=meta.k8s.io;v=v1",
                ";;,",
                "application/json;as=Nope",
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                "application/vnd.kubernetes.protobuf",
                "a/b;q=0.1,*/*;q=x",
            ];
            let media: &str = dice.pick::<&str>(&accepted);
            ask = ask.accept(media);
        }
        // Watches without a timeout last for hours of virtual time; a few seconds of any are enough.
        let Ok(reply) = cluster.env().timeout(Duration::from_secs(5), ask.send()).await else { continue };
        if reply.status < 300 {
            succeeded += 1;
        }
        // Upstream says so when addresses or ports cannot be had, and these storms delete the ranges they are in.
        let used_up = reply.text().contains("failed to allocate ");
        let failed = reply.status == 500 && reply.text().contains("Internal error occurred") && !used_up;
        assert!(!failed, "{told}\n{}", reply.text());
    }
    assert!(succeeded > requests / 12, "seed {seed}: only {succeeded} of {requests} requests got through");
    // What was stored can be read, in every form.
    for resource in catalog.resources().iter().filter(|r| r.storage.is_some()) {
        let list = cluster.get(collection(resource)).await.ok(200);
        assert!(list["items"].is_array(), "seed {seed}: {}", resource.plural);
        let yaml = cluster.request("GET", collection(resource)).accept("application/yaml").send().await;
        assert_eq!(yaml.status, 200);
    }
    cluster.shutdown().await;
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b == b'.' || b == b'-' {
                (b as char).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

struct Dice(Env);

impl Dice {
    fn below(&self, bound: usize) -> usize {
        self.0.random_below(bound as u64) as usize
    }
    fn one_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
    fn text(&self, most: usize) -> String {
        let letters =
            ['a', 'z', '0', '-', '.', '/', '%', '\0', 'Ä', '"', '\\', '\n', '=', ',', ' ', '😀', '{', '['];
        (0..self.below(most + 1)).map(|_| *self.pick(&letters)).collect()
    }

    fn query(&self) -> String {
        let mut pairs = Vec::new();
        for _ in 0..self.below(6).saturating_sub(3) {
            let names = [
                "limit",
                "continue",
                "resourceVersion",
                "resourceVersionMatch",
                "labelSelector",
                "fieldSelector",
                "watch",
                "timeoutSeconds",
                "allowWatchBookmarks",
                "sendInitialEvents",
                "dryRun",
                "fieldValidation",
                "fieldManager",
                "pretty",
                "propagationPolicy",
                "gracePeriodSeconds",
                "orphanDependents",
                "force",
                "includeObject",
            ];
            let values = [
                "",
                "0",
                "1",
                "-1",
                "9223372036854775807",
                "99999999999999999999",
                "true",
                "false",
                "All",
                "Strict",
                "Warn",
                "Ignore",
                "Exact",
                "NotOlderThan",
                "a%3Db",
                "a%20in%20(b,c)",
                "!a",
                "metadata.name%3Da",
                "Orphan",
                "Background",
                "Foreground",
                "Metadata",
                "None",
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
            ];
            let value =
                if self.one_in(6) { encoded(&self.text(10)) } else { (*self.pick(&values)).to_owned() };
            pairs.push(format!("{}={value}", self.pick(&names)));
        }
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    fn body(&self, method: &str, valid: &Value) -> (&'static str, Vec<u8>) {
        if method == "PATCH" {
            let media = *self.pick(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ]);
            let patch = if media.contains("json-patch") { self.json_patch() } else { self.partial(valid) };
            return (media, self.damaged(patch.to_string().into_bytes()));
        }
        let mut value = valid.clone();
        for _ in 0..self.below(3) {
            self.mutate(&mut value, 0);
        }
        match self.below(10) {
            0 => ("application/yaml", self.damaged(value.to_string().into_bytes())),
            1 => ("application/yaml", self.text(200).into_bytes()),
            2 => ("application/json", (0..self.below(64)).map(|_| self.below(256) as u8).collect()),
            3 => ("application/json", Vec::new()),
            4 => (
                "application/json",
                json!({"preconditions": {"uid": self.text(5)}, "gracePeriodSeconds": self.below(100)})
                    .to_string()
                    .into_bytes(),
            ),
            5 => (
                "application/vnd.kubernetes.protobuf",
                (0..self.below(64)).map(|_| self.below(256) as u8).collect(),
            ),
            _ => ("application/json", self.damaged(value.to_string().into_bytes())),
        }
    }

    /// Mostly whole; sometimes cut, doubled or with a byte changed.
    fn damaged(&self, mut body: Vec<u8>) -> Vec<u8> {
        match self.below(12) {
            0 => body.truncate(self.below(body.len() + 1)),
            1 => body.extend_from_within(..),
            2 if !body.is_empty() => {
                let at = self.below(body.len());
                body[at] = self.below(256) as u8;
            }
            _ => {}
        }
        body
    }

    fn odd(&self) -> Value {
        let odd = [
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1.5),
            json!(1e300),
            json!(""),
            json!([]),
            json!({}),
            json!([null]),
            json!({"": null}),
            json!("2026-01-01T00:00:00Z"),
            json!("1Gi"),
            json!({"$patch": "delete"}),
            json!({"$patch": "replace"}),
            json!({"$retainKeys": ["a"]}),
            json!([{"$patch": "merge", "name": "c"}]),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
        ];
        if self.one_in(4) { json!(self.text(20)) } else { self.pick(&odd).clone() }
    }

    /// Changes something somewhere in the tree.
    fn mutate(&self, value: &mut Value, depth: usize) {
        if depth > 6 || self.one_in(5) {
            *value = self.odd();
            return;
        }
        match value {
            Value::Object(map) if !map.is_empty() => {
                let key = map.keys().nth(self.below(map.len())).cloned().unwrap_or_default();
                match self.below(6) {
                    0 => drop(map.remove(&key)),
                    1 => drop(map.insert(self.text(6), self.odd())),
                    _ => {
                        if let Some(inner) = map.get_mut(&key) {
                            self.mutate(inner, depth + 1);
                        }
                    }
                }
            }
            Value::Array(items) if !items.is_empty() => {
                let at = self.below(items.len());
                match self.below(4) {
                    0 => drop(items.remove(at)),
                    1 => items.push(self.odd()),
                    _ => self.mutate(&mut items[at], depth + 1),
                }
            }
            other => *other = self.odd(),
        }
    }

    fn partial(&self, valid: &Value) -> Value {
        let mut patch = match self.below(4) {
            0 => json!({"metadata": {"labels": {self.text(5): self.text(5)}}}),
            1 => json!({"metadata": {"finalizers": self.odd(), "annotations": self.odd()}}),
            2 => json!({"spec": self.odd(), "data": self.odd(), "status": self.odd(), "$patch": "merge"}),
            _ => valid.clone(),
        };
        self.mutate(&mut patch, 0);
        patch
    }

    fn json_patch(&self) -> Value {
        let op = || {
            let ops = ["add", "remove", "replace", "move", "copy", "test", "nope", ""];
            let paths = [
                "",
                "/",
                "/metadata",
                "/metadata/name",
                "/metadata/labels",
                "/metadata/labels/a~1b",
                "/metadata/labels/a~2",
                "/metadata/finalizers/-",
                "/metadata/finalizers/0",
                "/metadata/finalizers/99999999999",
                "/metadata/finalizers/-1",
                "/spec",
                "/spec/containers/0/name",
                "/data/x",
                "/kind",
                "/apiVersion",
                "/metadata/resourceVersion",
                "/metadata/uid",
                "metadata",
                "/a/b/c",
                "//",
            ];
            json!({"op": self.pick(&ops), "path": self.pick(&paths), "from": self.pick(&paths), "value": self.odd()})
        };
        let mut patch: Vec<Value> = (0..self.below(5)).map(|_| op()).collect();
        if self.one_in(6) {
            patch.push(self.odd());
        }
        Value::Array(patch)
    }
}
