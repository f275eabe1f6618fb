//! What holds for server-side apply and field ownership, whatever the object: smallest and rich objects of every kind, split and
//! changed at random. `SETPOINT_LONG=1`: many more rounds.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Resource, Verbs};
use env::Env;
use serde_json::{Map, Value, json};
use testkit::{Reply, TestCluster};

use crate::kinds::{NAMESPACE, collection, path};

const SAMPLES: [&str; 2] =
    [include_str!("../../../diff/data/minimal.jsonl"), include_str!("../../../diff/data/rich.jsonl")];

fn rounds() -> u64 {
    if std::env::var_os("SETPOINT_LONG").is_some() { 40 } else { 1 }
}

/// An object of a kind, by name.
#[derive(Clone)]
struct Sample {
    cluster: Arc<TestCluster>,
    resource: Arc<Resource>,
    row: String,
    /// Tells its names apart from those of all others.
    word: String,
    random: Random,
}

#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

impl Sample {
    /// The object of the sample called by that letter: path and configuration.
    fn object(&self, letter: char) -> (String, Value) {
        let word = format!("{}{letter}", self.word);
        let number =
            (self.word.bytes().fold(7, |n: u32, b| n * 31 % 240 + u32::from(b)) + letter as u32) % 240 + 2;
        let text = self.row.replace("$WORD", &word).replace("$NUMBER", &number.to_string());
        let text = text.replace("$RUN", "run").replace("$NS", NAMESPACE);
        let row: Value = serde_json::from_str(&text).unwrap();
        let mut config = row["body"].as_object().cloned().unwrap_or_default();
        let name = row["name"].as_str().unwrap_or(&word).to_owned();
        config.insert("apiVersion".into(), json!(self.resource.api_version()));
        config.insert("kind".into(), json!(self.resource.kind.as_str()));
        let metadata = config.entry("metadata").or_insert_with(|| json!({}));
        metadata["name"] = json!(name);
        // An object of which nothing is set has no managers, and the next apply makes it one of before the first apply.
        metadata["labels"]["x"] = json!("1");
        (path(&self.resource, &name), Value::Object(config))
    }

    async fn apply(&self, path: &str, manager: &str, config: &Value) -> Reply {
        let and = if path.contains('?') { '&' } else { '?' };
        let ask = self.cluster.request("PATCH", format!("{path}{and}fieldManager={manager}"));
        ask.typed("application/apply-patch+yaml", config.to_string()).send().await
    }

    /// The clock goes on, and controllers do what they have to.
    async fn later(&self) {
        self.cluster.env().sleep(Duration::from_secs(5)).await;
        crate::sweep::reconciled(&self.cluster, &self.resource).await;
    }

    async fn is_valid(&self) -> bool {
        let path = format!("{}?dryRun=All", collection(&self.resource));
        self.cluster.post(path, self.object('a').1).await.status == 201
    }

    async fn now(&self, path: &str) -> Value {
        self.cluster.get(path).await.ok(200)
    }
}

/// Runs `fact` for every sample of every kind; all failures are reported.
async fn for_every_sample<F, Fut>(seed: u64, fact: F)
where
    F: Fn(Sample) -> Fut,
    Fut: Future<Output = Result<(), String>>,
{
    // Nobody here takes the protection of volumes away again, and a taint that was added would be taken away by the next apply.
    let off = ["StorageObjectInUseProtection", "TaintNodesByCondition"].map(str::to_owned).to_vec();
    let cluster = TestCluster::with(Env::simulated(seed), |config| config.admission.disable = off).await;
    let cluster = Arc::new(cluster);
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await.ok(201);
    cluster.settled().await;
    let catalog = cluster.catalog();
    let mut failures = Vec::new();
    let (mut count, mut invalid) = (0, 0);
    for round in 0..rounds() {
        for row in SAMPLES.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with('{')) {
            let head: Value = serde_json::from_str(row).unwrap();
            let (api_version, plural) = head["resource"].as_str().unwrap().split_once(' ').unwrap();
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let resource = catalog.find(group, version, plural).unwrap().clone();
            if !resource.verbs.contains(Verbs::PATCH) {
                continue;
            }
            count += 1;
            let sample = Sample {
                cluster: cluster.clone(),
                resource,
                row: row.to_owned(),
                word: format!("p{count}"),
                random: Random(seed.wrapping_mul(1_000_003).wrapping_add(round * 100_003 + count)),
            };
            if !sample.is_valid().await {
                invalid += 1;
                continue;
            }
            if let Err(why) = fact(sample.clone()).await {
                failures.push(format!("{} {}, round {round}: {why}", head["resource"], head["label"]));
            }
            // Limits and quotas would stand in the way of others.
            for letter in ['a', 'b', 'c'] {
                let path = sample.object(letter).0;
                cluster.delete(format!("{path}?propagationPolicy=Background&gracePeriodSeconds=0")).await;
            }
            sample.later().await;
        }
    }
    assert!(
        count - invalid > 100 * rounds() && invalid < 3 * rounds(),
        "{count} samples, {invalid} of them invalid"
    );
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

/// The fields of a manager.
fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    entries.iter().find(|entry| entry["manager"] == manager).map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

/// What identifies a manager, and its fields, in order of the name.
fn who_has_what(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<String> = entries
        .iter()
        .map(|e| format!("{} {} {} {}", e["manager"], e["operation"], e["subresource"], e["fieldsV1"]))
        .collect();
    all.sort();
    all
}

type Paths = BTreeSet<Vec<String>>;

/// The paths that `FieldsV1` has.
fn paths(fields: &Value) -> Paths {
    fn walk(fields: &Value, at: &mut Vec<String>, out: &mut Paths) {
        let Some(map) = fields.as_object() else { return };
        if map.is_empty() || map.contains_key(".") {
            out.insert(at.clone());
        }
        for (element, below) in map.iter().filter(|(element, _)| *element != ".") {
            at.push(element.clone());
            walk(below, at, out);
            at.pop();
        }
    }
    let mut out = Paths::new();
    walk(fields, &mut Vec::new(), &mut out);
    out.remove(&Vec::new());
    out
}

/// The item of a list that an element means.
fn item<'a>(items: &'a [Value], element: &str) -> Option<&'a Value> {
    let (form, text) = element.split_once(':')?;
    let wanted: Value = serde_json::from_str(text).ok()?;
    match form {
        "k" => {
            let keys = wanted.as_object()?;
            let tcp = json!("TCP");
            let default = |name: &str| (name == "protocol").then_some(&tcp);
            let is =
                |item: &Value, name: &str, value: &Value| item.get(name).or(default(name)) == Some(value);
            items.iter().find(|item| keys.iter().all(|(name, value)| is(item, name, value)))
        }
        "v" => items.iter().find(|item| **item == wanted),
        "i" => items.get(wanted.as_u64()? as usize),
        _ => None,
    }
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, element| match value {
        Value::Object(map) => map.get(element.strip_prefix("f:")?),
        Value::Array(items) => item(items, element),
        _ => None,
    })
}

/// Whether a list on the path has its item twice: then both belong to who made it so.
fn is_repeated(object: &Value, path: &[String]) -> bool {
    (0..path.len()).any(|i| {
        let is = |value: &&Value| item(std::slice::from_ref(*value), &path[i]).is_some();
        at(object, &path[..i])
            .and_then(Value::as_array)
            .is_some_and(|items| items.iter().filter(is).count() > 1)
    })
}

/// What `fields` mean of an object: who applies it changes nothing.
fn extract(value: &Value, fields: &Value) -> Value {
    let Some(elements) = fields.as_object().filter(|elements| elements.keys().any(|element| element != "."))
    else {
        return value.clone();
    };
    match value {
        Value::Object(members) => {
            let own = members.iter().filter_map(|(name, value)| {
                Some((name.clone(), extract(value, elements.get(&format!("f:{name}"))?)))
            });
            Value::Object(own.collect())
        }
        Value::Array(items) => {
            let own = items.iter().filter_map(|value| {
                let of = |element: &str| item(std::slice::from_ref(value), element).is_some();
                let (element, below) = elements.iter().find(|(element, _)| of(element))?;
                let mut own = extract(value, below);
                let keys =
                    element.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Value>(keys).ok());
                for (name, key) in keys.iter().filter_map(Value::as_object).flatten() {
                    own[name] = key.clone();
                }
                Some(own)
            });
            Value::Array(own.collect())
        }
        other => other.clone(),
    }
}

/// The configuration of a manager, as the object has it now.
fn applied_by(object: &Value, manager: &str) -> Value {
    named_as(Some(extract(object, fields(object, manager))), object)
}

/// The values of an object that `fields` do not have, as paths.
fn not_covered(value: &Value, fields: &Value, at: &mut Vec<String>, out: &mut Vec<String>) {
    let Some(map) = fields.as_object() else {
        out.push(at.join("."));
        return;
    };
    match value {
        // What is owned as a whole, or is a scalar.
        _ if map.is_empty() => {}
        Value::Object(members) => {
            for (name, value) in members {
                at.push(name.clone());
                not_covered(value, map.get(&format!("f:{name}")).unwrap_or(&Value::Null), at, out);
                at.pop();
            }
        }
        Value::Array(items) => {
            for value in items {
                let own =
                    map.iter().find(|(element, _)| item(std::slice::from_ref(value), element).is_some());
                at.push(value.to_string());
                not_covered(value, own.map_or(&Value::Null, |(_, below)| below), at, out);
                at.pop();
            }
        }
        _ => {}
    }
}

/// Nobody owns these.
fn without_identity(mut config: Value) -> Value {
    let map = config.as_object_mut().unwrap();
    map.remove("apiVersion");
    map.remove("kind");
    let metadata = map["metadata"].as_object_mut().unwrap();
    metadata.retain(|name, _| {
        !matches!(
            name.as_str(),
            "name"
                | "namespace"
                | "uid"
                | "resourceVersion"
                | "creationTimestamp"
                | "generation"
                | "managedFields"
        )
    });
    if metadata.is_empty() {
        map.remove("metadata");
    }
    config
}

/// The configuration of nothing but a name.
fn nothing_of(config: &Value) -> Value {
    json!({"apiVersion": config["apiVersion"], "kind": config["kind"],
        "metadata": {"name": config["metadata"]["name"]}})
}

#[tokio::test(start_paused = true)]
async fn applying_twice_is_applying_once_and_what_was_read_may_be_written_back() {
    for_every_sample(21, |sample| async move {
        let (path, config) = sample.object('a');
        let made = sample.apply(&path, "base", &config).await;
        same!(made.status, 201, "apply: {}", made.text());
        sample.later().await;
        let before = sample.cluster.get(&*path).await;
        let again = sample.apply(&path, "base", &config).await;
        same!(again.text(), before.text(), "applied twice");
        let forced = sample.apply(&format!("{path}?force=true"), "base", &config).await;
        same!(forced.text(), before.text(), "applied with force");
        let stored = before.json();
        if sample.resource.verbs.contains(Verbs::UPDATE) {
            let back = sample.cluster.put(format!("{path}?fieldManager=u"), stored.clone()).await;
            same!(back.text(), before.text(), "written back");
            let mut without = stored.clone();
            without["metadata"].as_object_mut().unwrap().remove("managedFields");
            let back = sample.cluster.put(format!("{path}?fieldManager=u"), without).await;
            same!(back.text(), before.text(), "written back without managers");
        }
        let patched = sample.cluster.merge(format!("{path}?fieldManager=u"), json!({})).await;
        same!(patched.text(), before.text(), "an empty patch");
        // Text becomes data, a list of tolerations replaces those that admission added, and an empty list that is stored as null is a
        // change.
        let empty = |(name, value): (&String, &Value)| *value == json!([]) && stored[name].is_null();
        if config.get("stringData").is_none()
            && sample.resource.kind != "Pod"
            && !config.as_object().unwrap().iter().any(empty)
        {
            let ask = sample.cluster.request("PATCH", format!("{path}?fieldManager=u"));
            let patch = without_identity(config.clone()).to_string();
            let patched = ask.typed("application/strategic-merge-patch+json", patch).send().await;
            same!(patched.text(), before.text(), "a patch with what is there");
        }

        let mut missing = Vec::new();
        let mut wanted = without_identity(config.clone());
        let own = fields(&stored, "base");
        if sample.resource.kind == "CertificateSigningRequest" {
            // An update of a request resets its spec, and so nobody owns it.
            wanted.as_object_mut().unwrap().remove("spec");
        }
        not_covered(&wanted, own, &mut Vec::new(), &mut missing);
        missing.retain(|path| !path.is_empty());
        check!(missing.is_empty(), "base does not own {missing:?}: {own}");
        let written =
            |path: &Vec<String>| ![Some(&json!("")), Some(&json!(false))].contains(&at(&config, path));
        let lost: Vec<_> =
            paths(own).into_iter().filter(|path| at(&stored, path).is_none() && written(path)).collect();
        check!(
            lost.is_empty() || config.get("stringData").is_some(),
            "base owns what is not there: {lost:?}"
        );
        Ok(())
    })
    .await;
}

/// Two configurations that together are `config`: every value is in one of them, some in both. `fields` says which lists have keys.
fn split(config: &Value, fields: &Value, random: &mut Random) -> (Option<Value>, Option<Value>) {
    match config {
        Value::Object(members)
            if !members.is_empty() && fields.as_object().is_some_and(|f| !f.is_empty()) =>
        {
            let (mut one, mut two) = (Map::new(), Map::new());
            for (name, value) in members {
                let (a, b) = split(value, &fields[&format!("f:{name}")], random);
                a.map(|a| one.insert(name.clone(), a));
                b.map(|b| two.insert(name.clone(), b));
            }
            let some = |map: Map<String, Value>| (!map.is_empty()).then_some(Value::Object(map));
            (some(one), some(two))
        }
        Value::Array(items) if fields.as_object().is_some_and(|f| !f.is_empty()) => {
            let (mut one, mut two) = (Vec::new(), Vec::new());
            for value in items {
                let element = fields.as_object().into_iter().flatten();
                let element = element.map(|(e, f)| (e.as_str(), f));
                let found = element.clone().find(|(e, _)| item(std::slice::from_ref(value), e).is_some());
                let (element, below) = found.unwrap_or(("", &Value::Null));
                let (mut a, mut b) = split(value, below, random);
                let keys =
                    element.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Value>(keys).ok());
                for (name, key) in keys.iter().filter_map(Value::as_object).flatten() {
                    a.iter_mut().chain(&mut b).for_each(|item| item[name] = key.clone());
                }
                one.extend(a);
                two.extend(b);
            }
            let some = |list: Vec<Value>| (!list.is_empty()).then_some(Value::Array(list));
            (some(one), some(two))
        }
        _ => match random.below(5) {
            0 | 1 => (Some(config.clone()), None),
            2 | 3 => (None, Some(config.clone())),
            _ => (Some(config.clone()), Some(config.clone())),
        },
    }
}

/// A part of a configuration is of the same object.
fn named_as(part: Option<Value>, config: &Value) -> Value {
    let mut part = part.unwrap_or_else(|| json!({}));
    for name in ["apiVersion", "kind"] {
        part[name] = config[name].clone();
    }
    part["metadata"]["name"] = config["metadata"]["name"].clone();
    part
}

/// What the user asked for and what came of it, without what differs between any two objects.
fn content(object: &Value) -> Value {
    let mut content = without_identity(object.clone());
    // Controllers write these.
    content.as_object_mut().map(|content| content.remove("status"));
    if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("finalizers");
        if metadata.is_empty() {
            content.as_object_mut().map(|content| content.remove("metadata"));
        }
    }
    if let Some(spec) = content.get_mut("spec").and_then(Value::as_object_mut) {
        for allotted in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            spec.remove(allotted);
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    content
}

#[tokio::test(start_paused = true)]
async fn managers_of_different_fields_come_in_any_order_and_keep_what_others_give_up() {
    for_every_sample(22, |sample| async move {
        let mut seen = Vec::new();
        for letter in ['a', 'b'] {
            // The same parts of two objects.
            let mut random = sample.random.clone();
            let (path, config) = sample.object(letter);
            let whole = sample.apply(&path, "base", &config).await;
            same!(whole.status, 201, "apply: {}", whole.text());
            let whole = whole.json();
            let own = fields(&whole, "base");
            let (one, two) = split(&extract(&whole, own), own, &mut random);
            let parts = [("one", named_as(one, &config)), ("two", named_as(two, &config))];
            let order = if letter == 'a' { [0, 1] } else { [1, 0] };
            for (manager, part) in order.map(|i| &parts[i]) {
                sample.later().await;
                let reply = sample.apply(&path, manager, part).await;
                same!(reply.status, 200, "{manager} applies {part}: {}", reply.text());
            }
            let given_up = sample.apply(&path, "base", &nothing_of(&config)).await;
            same!(given_up.status, 200, "base gives up: {}", given_up.text());
            let now = given_up.json();
            same!(content(&now), content(&whole), "one and two have everything: {parts:?}");
            check!(fields(&now, "base").is_null(), "base is gone: {}", fields(&now, "base"));
            same!(now["metadata"]["generation"], whole["metadata"]["generation"], "nothing changed");
            seen.push((now, path, config, parts));
        }
        let texts: Vec<String> = seen
            .iter()
            .map(|(now, _, config, _)| {
                let name = config["metadata"]["name"].as_str().unwrap();
                who_has_what(now).join("\n").replace(name, "NAME")
            })
            .collect();
        same!(texts[0], texts[1], "in another order");

        // What the second gives up goes, as if it had never been there.
        let (now, path, config, parts) = seen.swap_remove(0);
        let gone = sample.apply(&path, "two", &nothing_of(&config)).await;
        if gone.status != 200 {
            same!(gone.status, 422, "two gives up: {}", gone.text());
            same!(sample.now(&path).await, now, "what is refused changes nothing");
            return Ok(());
        }
        let gone = gone.json();
        check!(fields(&gone, "two").is_null(), "two is gone: {gone}");
        same!(fields(&gone, "one"), fields(&now, "one"), "one has what it had");
        // What is filled in for these depends on how they came to be.
        if ["DaemonSet", "Job", "PersistentVolumeClaim", "Service"].contains(&sample.resource.kind.as_str()) {
            return Ok(());
        }
        let (other, alone) = sample.object('c');
        let alone = named_as(Some(parts[0].1.clone()), &alone);
        let reply = sample.apply(&other, "one", &alone).await;
        if reply.status == 201 {
            let [gone, other] = [&gone, &reply.json()].map(|object| {
                let name = object["metadata"]["name"].as_str().unwrap();
                let text = content(object).to_string().replace(name, "NAME");
                match text.split_once("kube-api-access-").and_then(|(_, rest)| rest.get(..5)) {
                    Some(random) => text.replace(random, "RANDOM"),
                    None => text,
                }
            });
            same!(gone, other, "as if two had never been there: {alone}");
        }
        Ok(())
    })
    .await;
}

/// All scalars of a value, by JSON pointer.
fn scalars(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut below = |name: &str, value: &Value| {
        scalars(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), out)
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| below(&i.to_string(), value)),
        _ => out.push(at.to_owned()),
    }
}

/// Another value of the same type, perhaps a valid one.
fn changed(value: &Value) -> Value {
    match value {
        Value::Bool(on) => json!(!on),
        Value::Number(n) => n.as_i64().map_or(json!(1.5), |n| json!(n + 1)),
        Value::String(text) => match text.parse::<i64>() {
            Ok(n) => json!((n + 1).to_string()),
            Err(_) => json!(format!("{text}x")),
        },
        other => other.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_takes_what_it_changes_and_nothing_else() {
    for_every_sample(23, |mut sample| async move {
        let (path, mut config) = sample.object('a');
        config["metadata"]["annotations"]["x"] = json!("1");
        let made = sample.apply(&path, "base", &config).await;
        same!(made.status, 201, "apply: {}", made.text());
        let config = applied_by(&made.json(), "base");
        let mut leaves = Vec::new();
        scalars(&without_identity(config.clone()), "", &mut leaves);
        let mut taken = 0;
        for i in 0..4 {
            let pointer = match i {
                0 => "/metadata/labels/x".to_owned(),
                _ => leaves[sample.random.below(leaves.len() as u64) as usize].clone(),
            };
            sample.later().await;
            let before = sample.now(&path).await;
            let Some(now) = before.pointer(&pointer) else { continue };
            // A template's type is not kept.
            if pointer.starts_with("/spec/volumeClaimTemplates") {
                continue;
            }
            let wanted = changed(now);
            let mut new = before.clone();
            *new.pointer_mut(&pointer).unwrap() = wanted.clone();
            let how = ["PUT", "force", "apply"][sample.random.below(if i == 0 { 2 } else { 3 }) as usize];
            let reply = match how {
                "PUT" => sample.cluster.put(format!("{path}?fieldManager=other"), new.clone()).await,
                _ => {
                    let mut config = without_identity(config.clone());
                    *config.pointer_mut(&pointer).unwrap() = wanted;
                    let config = named_as(Some(config), &before);
                    let query = if how == "force" { "?force=true" } else { "" };
                    sample.apply(&format!("{path}{query}"), "other", &config).await
                }
            };
            let after = sample.now(&path).await;
            if reply.status != 200 {
                check!(
                    [400, 405, 409, 422, 500].contains(&reply.status),
                    "{how} {pointer}: {}",
                    reply.text()
                );
                let internal = reply.json()["reason"].is_string();
                check!(reply.status != 500 || !internal, "{how} {pointer}: {}", reply.text());
                same!(after, before, "a refused {how} of {pointer} changed something");
                continue;
            }
            if !crate::sweep::has_a_controller(&sample.resource) {
                same!(reply.json(), after, "{how} {pointer}");
            }
            taken += 1;
            let [had, has] = [&before, &after].map(|object| paths(fields(object, "base")));
            let [other_had, other_has] = [&before, &after].map(|object| {
                let entries = object["metadata"]["managedFields"].as_array().unwrap();
                let of = |operation: &str| {
                    let entry =
                        entries.iter().find(|e| e["manager"] == "other" && e["operation"] == operation);
                    paths(entry.map_or(&Value::Null, |entry| &entry["fieldsV1"]))
                };
                (of("Apply"), of("Update"))
            });
            check!(has.is_subset(&had), "base got more by a {how} of {pointer}");
            for lost in had.difference(&has) {
                check!(at(&before, lost) != at(&after, lost), "{how} {pointer}: base lost {lost:?}");
                let owner = if how == "PUT" { &other_has.1 } else { &other_has.0 };
                check!(
                    owner.contains(lost) || at(&after, lost).is_none(),
                    "{how} {pointer}: nobody has {lost:?}"
                );
            }
            for kept in &has {
                check!(
                    at(&before, kept) == at(&after, kept)
                        || at(&after, kept).is_some_and(|v| v.is_object() || v.is_array()),
                    "{how} {pointer}: base keeps {kept:?}, which changed"
                );
            }
            if how == "PUT" {
                for got in other_has.1.difference(&other_had.1) {
                    let changed = at(&before, got) != at(&after, got) || is_repeated(&after, got);
                    check!(changed, "{pointer}: other took {got:?} by a PUT");
                }
            }
            sample.later().await;
            let after = sample.now(&path).await;
            let same = sample.cluster.put(format!("{path}?fieldManager=third"), after.clone()).await;
            same!(same.json(), after, "written back");
        }
        check!(taken > 0, "nothing was taken");
        Ok(())
    })
    .await;
}
