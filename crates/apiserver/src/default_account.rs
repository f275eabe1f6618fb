//! Every namespace has a service account `default`: the one pods run as that name none.

use std::sync::Arc;

use object::Value;

use crate::chain::Api;
use crate::per_namespace::PerNamespace;

pub async fn run(api: Arc<Api>) {
    let mut fresh = Value::map();
    fresh.map_at(&["metadata"]).set("name", "default");
    let kept = PerNamespace {
        controller: "service-account-controller",
        plural: "serviceaccounts",
        name: "default",
        fresh,
        // What people make of it is theirs.
        mended: Box::new(|_| None),
    };
    kept.keep(api).await;
}
