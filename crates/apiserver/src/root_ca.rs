//! Every namespace has a ConfigMap `kube-root-ca.crt`: whom its pods must trust to reach this server.

use std::sync::Arc;

use object::Value;

use crate::chain::Api;
use crate::per_namespace::PerNamespace;

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

pub async fn run(api: Arc<Api>, pem: String) {
    let mut fresh = Value::map();
    fresh.map_at(&["metadata"]).set("name", NAME);
    complete(&mut fresh, &pem);
    let kept = PerNamespace {
        controller: "root-ca-certificate-publisher",
        plural: "configmaps",
        name: NAME,
        fresh,
        mended: Box::new(move |there| mended(there, &pem)),
    };
    kept.keep(api).await;
}

/// People may describe it in their own words, but hold nothing else in it.
fn mended(there: &Value, pem: &str) -> Option<Value> {
    let data = there.get("data").and_then(Value::as_map);
    let right = data.is_some_and(|d| d.len() == 1 && d.get("ca.crt").and_then(Value::as_str) == Some(pem));
    let described = there.str_at(&["metadata", "annotations", DESCRIPTION]).is_some_and(|d| !d.is_empty());
    if right && described {
        return None;
    }
    let mut mended = there.clone();
    complete(&mut mended, pem);
    Some(mended)
}

fn complete(map: &mut Value, pem: &str) {
    map.map_at(&["metadata", "annotations"]).set(DESCRIPTION, DESCRIBED);
    let data = map.map_at(&["data"]);
    data.retain(|_, _| false);
    data.set("ca.crt", pem);
}
