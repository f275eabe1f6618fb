//! Measures the cost of flow control per request: `cargo run --release -p flowcontrol --example cost`.

// A benchmark needs the real clock.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Instant;

use auth::UserInfo;
use env::Env;
use flowcontrol::{
    About, Flow, FlowControl, FlowSchema, Limits, PriorityLevel, RequestDigest, ResourceDigest, WorkEstimate,
};

const REQUESTS: u32 = 2_000_000;

/// The FlowSchemas of a new cluster: name, precedence, level, subjects.
const SCHEMAS: [(&str, u32, &str, &str); 7] = [
    ("exempt", 1, "exempt", r#"{"kind":"Group","group":{"name":"system:masters"}}"#),
    ("system-nodes", 500, "system", r#"{"kind":"Group","group":{"name":"system:nodes"}}"#),
    (
        "kube-controller-manager",
        800,
        "high",
        r#"{"kind":"User","user":{"name":"system:kube-controller-manager"}}"#,
    ),
    ("kube-scheduler", 800, "high", r#"{"kind":"User","user":{"name":"system:kube-scheduler"}}"#),
    (
        "kube-system",
        900,
        "high",
        r#"{"kind":"ServiceAccount","serviceAccount":{"namespace":"kube-system","name":"*"}}"#,
    ),
    ("service-accounts", 9000, "low", r#"{"kind":"Group","group":{"name":"system:serviceaccounts"}}"#),
    ("global-default", 9900, "default", r#"{"kind":"Group","group":{"name":"system:authenticated"}}"#),
];

fn main() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let control = runtime.block_on(async { FlowControl::new(&Env::machine(), Limits::default()) });
    let parse = |text: String| codec::json::parse(text.as_bytes(), None).expect("it is JSON");
    let all =
        r#"[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"namespaces":["*"],"clusterScope":true}]"#;
    let schemas = SCHEMAS.map(|(name, precedence, level, subject)| {
        FlowSchema::read(&parse(format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"matchingPrecedence":{precedence},"distinguisherMethod":{{"type":"ByUser"}},
            "priorityLevelConfiguration":{{"name":"{level}"}},"rules":[{{"subjects":[{subject}],"resourceRules":{all}}}]}}}}"#
        )))
    });
    let levels = ["system", "high", "low", "default"].map(|name| {
        let queuing = r#"{"queues":128,"handSize":6,"queueLengthLimit":50}"#;
        PriorityLevel::read(&parse(format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"Limited","limited":{{"nominalConcurrencyShares":40,
            "limitResponse":{{"type":"Queue","queuing":{queuing}}}}}}}}}"#
        )))
    });
    control.configure(schemas.to_vec(), levels.into_iter().flatten().collect());
    for (who, groups) in [("an administrator", "system:masters"), ("a user", "system:authenticated")] {
        let user = Arc::new(UserInfo::new("jane", &[groups]));
        let resource =
            ResourceDigest { group: "", resource: "configmaps", subresource: "", namespace: "default" };
        let request =
            RequestDigest { user: &user, verb: "get", resource: Some(resource), path: "/api/v1/configmaps" };
        let begun = Instant::now();
        for _ in 0..REQUESTS {
            let classified = control.classify(&request);
            let about = About { user: user.clone(), verb: "get", uri: None, flow: Flow::All };
            let seat = control.start(&classified, &request, about, WorkEstimate::ONE, false);
            assert!(matches!(seat, Ok(Ok(_))), "there is room");
        }
        println!("{who}: {} ns a request", begun.elapsed().as_nanos() / u128::from(REQUESTS));
    }
}
