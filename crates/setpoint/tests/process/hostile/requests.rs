//! Strange requests, each whole: upstream's status, and nothing else happens.

use super::*;

pub(super) const CASES: &[Case] = &[case!(strange_requests_get_upstreams_status)];

async fn strange_requests_get_upstreams_status(server: &Proc) {
    let long = "n".repeat(254);
    let table: Vec<(String, u16)> = vec![
        (get(&format!("{MAPS}/..")), 400),
        (get(&format!("{MAPS}/a%2fb")), 404),
        (get(&format!("{MAPS}/a%00b")), 404),
        (get(&format!("{MAPS}/%zz")), 400),
        (get(&format!("{MAPS}/%ff%fe")), 404),
        (get(&format!("{MAPS}/{long}")), 404),
        // Upstream takes a limit below one for none at all.
        (get(&format!("{MAPS}?limit=-1")), 200),
        (get(&format!("{MAPS}?labelSelector=a%3D%3D%3Db")), 400),
        (get(&format!("{MAPS}?fieldSelector=spec.nothing%3Da")), 400),
        (get(&format!("{MAPS}?resourceVersion=abc")), 400),
        (get(&format!("{MAPS}?watch=1&resourceVersion=999999999&timeoutSeconds=1")), 200),
        (get("//api//v1//namespaces"), 404),
        (get("/apis/no.such.group/v1/things"), 404),
        (get(&format!("/{}", "x".repeat(60_000))), 404),
        (post("application/json", "{"), 400),
        (post("application/json", ""), 400),
        (post("application/json", "null"), 422),
        (post("text/plain", "{}"), 415),
        (post("application/json", r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}"#), 400),
        (post("application/json", r#"{"apiVersion":"v1","kind":"Broom","metadata":{"name":"a"}}"#), 400),
        (post("application/json", r#"{"metadata":{"name":"a/b"}}"#), 422),
        ("GET / HTTP/9.9\r\n\r\n".into(), 505),
        ("\r\n\r\nnonsense\r\n\r\n".into(), 400),
        (format!("GET {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n"), 400),
    ];
    check_codes(server, table).await;
}
