use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::plan::{Plan, failed, issued, plan};

fn csr(usage: &str, spec: &str, status: &str) -> Value {
    let request = auth::pki::new_request("jane", &[], &[]).expect("a request").1;
    let text = format!(
        "{{spec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [{usage}], {spec} request: {}}}, status: {{{status}}}}}",
        STANDARD.encode(request)
    );
    runtime::parse(&text).expect("a request")
}

const APPROVED: &str = "conditions: [{type: Approved}]";

#[test]
fn approved_requests_are_signed_for_ten_minutes_to_a_year() {
    for (asked, given) in [
        ("", 365 * 24 * 3600),
        ("expirationSeconds: 3600,", 3600),
        ("expirationSeconds: 1,", 600),
        ("expirationSeconds: 999999999,", 365 * 24 * 3600),
    ] {
        let planned = plan(&csr("client auth", asked, APPROVED));
        let Plan::Sign { lifetime_seconds, .. } = planned else { panic!("{planned:?}") };
        assert_eq!(lifetime_seconds, given, "{asked:?}");
    }
}

#[test]
fn what_is_not_approved_or_is_done_stays() {
    for status in [
        "",
        "conditions: [{type: Approved}, {type: Failed}]",
        "conditions: [{type: Approved}, {type: Denied}]",
        "certificate: QQ==, conditions: [{type: Approved}]",
    ] {
        assert!(matches!(plan(&csr("client auth", "", status)), Plan::Nothing), "{status}");
    }
}

#[test]
fn a_refusal_says_why_and_when() {
    let csr = csr("server auth", "", APPROVED);
    let Plan::Refuse(why) = plan(&csr) else { panic!("no client needs that") };
    assert_eq!(why, "invalid usage for client certificate: server auth");
    let written = failed(&csr, &why, 0);
    let condition = written.at(&["status", "conditions"]).and_then(Value::as_list).map(|all| all[1].clone());
    let wanted = "{type: Failed, status: 'True', reason: SignerValidationFailure, message: 'invalid usage for client certificate: server auth', lastUpdateTime: '1970-01-01T00:00:00Z'}";
    assert_eq!(condition, Some(runtime::parse(wanted).expect("a condition")));
    assert_eq!(issued(&csr, "A").str_at(&["status", "certificate"]), Some("QQ=="));
}
