use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::plan::recognized;

fn csr(user: &str, common_name: &str, more: &str) -> Value {
    let request =
        auth::pki::new_request(common_name, &["system:nodes".to_owned()], &[]).expect("a request").1;
    let text = format!(
        "{{spec: {{username: '{user}', groups: [a], signerName: kubernetes.io/kube-apiserver-client-kubelet, usages: [client auth, digital signature], request: {}}}, status: {{{more}}}}}",
        STANDARD.encode(request)
    );
    runtime::parse(&text).expect("a request")
}

fn names(csr: &Value) -> Vec<&'static str> {
    recognized(csr).iter().map(|permission| permission.subresource).collect()
}

#[test]
fn a_kubelet_may_renew_its_own_certificate_or_ask_for_a_first_one() {
    assert_eq!(names(&csr("system:node:n", "system:node:n", "")), ["selfnodeclient", "nodeclient"]);
    assert_eq!(names(&csr("bootstrap", "system:node:n", "")), ["nodeclient"]);
    assert!(names(&csr("jane", "jane", "")).is_empty(), "it is not a kubelet's");
}

#[test]
fn what_is_decided_stays() {
    for more in ["certificate: QQ==", "conditions: [{type: Approved}]", "conditions: [{type: Denied}]"] {
        assert!(names(&csr("bootstrap", "system:node:n", more)).is_empty(), "{more}");
    }
}

#[test]
fn the_review_is_about_the_requester() {
    let csr = csr("bootstrap", "system:node:n", "");
    let review = recognized(&csr)[0].review(&csr);
    let wanted = "{spec: {user: bootstrap, groups: [a], resourceAttributes: {group: certificates.k8s.io, resource: certificatesigningrequests, verb: create, subresource: nodeclient, version: '*'}}}";
    assert_eq!(review, runtime::parse(wanted).expect("a review"));
}
