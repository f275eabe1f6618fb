use std::sync::Arc;

use codec::json;

use super::{Limited, ResourceQuota, Selector};
use crate::{Attempt, Effects, Operation, Plugin, RequestContext};

#[test]
fn limited_resources_need_a_covering_quota() {
    let catalog = Arc::new(catalog::Catalog::builtin());
    let env = env::Env::machine();
    let table = table::Table::new(catalog.clone(), env.clone());
    let resource = catalog.find("", "v1", "pods").unwrap();
    let user = auth::UserInfo::anonymous();
    let request = RequestContext {
        namespace: "default",
        ..RequestContext::new(&user, &catalog, resource, catalog::Verbs::CREATE, env.monotonic())
    };
    let attempt = Attempt {
        request: &request,
        operation: Operation::Create,
        storage: resource.storage.as_ref().unwrap(),
        name: "p",
        generate_name: "",
        old: None,
        body: crate::Body::Resource,
        delete_options: None,
        versions: &(),
        dry_run: false,
        table: &table,
        env: &env,
    };
    let told = |limited: Limited, pod: &str| {
        let plugin = ResourceQuota { limited: vec![limited] };
        match plugin.validate(
            &attempt,
            Some(&json::parse(pod.as_bytes(), None).unwrap()),
            &mut Effects::default(),
        ) {
            Ok(()) => "allowed".to_owned(),
            Err(refusal) => refusal.status.message,
        }
    };
    let pods = || Limited { plural: "pods".into(), ..Limited::default() };
    let cpu = r#"{"spec":{"priorityClassName":"high","containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}"#;
    let names = Limited { names: vec!["cpu".into()], ..pods() };
    assert_eq!(
        told(names.clone(), cpu),
        "pods \"p\" is forbidden: insufficient quota to consume: cpu,requests.cpu"
    );
    assert_eq!(told(names, r#"{"spec":{"containers":[]}}"#), "allowed");
    let scope =
        Selector { scope: "PriorityClass".into(), operator: "In".into(), values: vec!["high".into()] };
    assert_eq!(
        told(Limited { scopes: vec![scope], ..pods() }, cpu),
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
    );
}
