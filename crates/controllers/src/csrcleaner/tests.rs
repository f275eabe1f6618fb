use super::plan::is_old;

fn old_after(text: &str) -> Option<i64> {
    let csr = runtime::parse(text).expect("a request");
    let hours = [1, 24].map(|hours| hours * 3600);
    assert!(hours.iter().all(|seconds| !is_old(&csr, 0) || is_old(&csr, *seconds)));
    hours.into_iter().find(|seconds| is_old(&csr, seconds + 1) && !is_old(&csr, *seconds))
}

#[test]
fn requests_are_kept_for_an_hour_or_a_day() {
    const DAY: Option<i64> = Some(24 * 3600);
    const HOUR: Option<i64> = Some(3600);
    let at = |condition: &str, status: &str| {
        format!(
            "{{status: {{{status} conditions: [{{type: {condition}, lastUpdateTime: '1970-01-01T00:00:00Z'}}]}}}}"
        )
    };
    assert_eq!(old_after("{metadata: {creationTimestamp: '1970-01-01T00:00:00Z'}}"), DAY);
    assert_eq!(old_after(&at("Denied", "")), HOUR);
    assert_eq!(old_after(&at("Failed", "")), HOUR);
    assert_eq!(old_after(&at("Approved", "")), DAY);
    assert_eq!(old_after(&at("Approved", "certificate: QQ==,")), HOUR);
}
