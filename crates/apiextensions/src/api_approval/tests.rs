use object::Value;

use super::plan;
use crate::tests::{AT, json};

fn said(group: &str, annotation: &str) -> Option<(String, String, String)> {
    let definition = json(&format!(
        r#"{{"metadata":{{"annotations":{{"api-approved.kubernetes.io":"{annotation}"}}}},"spec":{{"group":"{group}"}}}}"#
    ));
    let status = plan(&definition, AT)?;
    let condition = status.get("conditions").and_then(Value::as_list)?.first()?.clone();
    let text = |name| condition.str_at(&[name]).unwrap_or_default().to_owned();
    assert_eq!(text("type"), "KubernetesAPIApprovalPolicyConformant");
    let mut again = definition;
    again.map_at(&[]).set("status", status);
    assert_eq!(plan(&again, AT), None, "said once");
    Some((text("status"), text("reason"), text("message")))
}

#[test]
fn groups_of_the_project_say_whether_they_are_approved() {
    assert_eq!(said("example.com", ""), None);
    assert_eq!(said("notk8s.io", ""), None);
    let invalid = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";
    let missing = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
    for (annotation, status, reason, message) in [
        ("", "False", "MissingAnnotation", missing),
        (
            "unapproved, testing-only",
            "False",
            "UnapprovedAnnotation",
            "not approved: \"unapproved, testing-only\"",
        ),
        ("https://x.org/pull/1", "True", "ApprovedAnnotation", "approved in https://x.org/pull/1"),
        ("https://x.org/a#b", "True", "ApprovedAnnotation", "approved in https://x.org/a#b"),
        ("https://x#b/a", "False", "InvalidAnnotation", invalid),
        ("approved", "False", "InvalidAnnotation", invalid),
        ("/path", "False", "InvalidAnnotation", invalid),
        ("https:///path", "False", "InvalidAnnotation", invalid),
        ("https://x.org/%zz", "False", "InvalidAnnotation", invalid),
    ] {
        let wanted = Some((status.to_owned(), reason.to_owned(), message.to_owned()));
        assert_eq!(said("k8s.io", annotation), wanted, "{annotation}");
        assert_eq!(said("x.kubernetes.io", annotation), wanted, "{annotation}");
    }
}
