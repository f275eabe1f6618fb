//! What `kube-root-ca.crt` must hold, and what it takes to get there.

use object::Value;

pub const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

#[derive(Debug, PartialEq)]
pub enum Plan {
    Nothing,
    Create(Value),
    Update(Value),
}

/// People may describe the ConfigMap in their own words, but hold nothing else in it.
pub fn plan(there: Option<Value>, pem: &str) -> Plan {
    let Some(mut map) = there else {
        let mut map = Value::map();
        map.map_at(&["metadata"]).set("name", NAME);
        complete(&mut map, pem);
        return Plan::Create(map);
    };
    let data = map.get("data").and_then(Value::as_map);
    let right = data.is_some_and(|d| d.len() == 1 && d.get("ca.crt").and_then(Value::as_str) == Some(pem));
    let described = map.str_at(&["metadata", "annotations", DESCRIPTION]).is_some_and(|d| !d.is_empty());
    if right && described {
        return Plan::Nothing;
    }
    complete(&mut map, pem);
    Plan::Update(map)
}

fn complete(map: &mut Value, pem: &str) {
    map.map_at(&["metadata", "annotations"]).set(DESCRIPTION, DESCRIBED);
    let data = map.map_at(&["data"]);
    data.retain(|_, _| false);
    data.set("ca.crt", pem);
}
