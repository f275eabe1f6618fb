//! Queries and headers that ask for much.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

pub(super) const CASES: &[Case] = &[
    case!(long_selectors),
    case!(thousands_of_parameters),
    case!(forged_continue_tokens_are_refused),
    case!(numbers_out_of_range),
    case!(accept_lists_everything, take 64, keep 24),
];

async fn long_selectors(server: &Proc) {
    let list = |selector: &str| get(&format!("{MAPS}?labelSelector={selector}"));
    let terms: String = (0..4000).map(|i| format!("k{i}%3Dv,")).collect();
    let values: String = (0..9000).map(|i| format!("v{i},")).collect();
    let fields: String = (0..1500).map(|_| "metadata.name%3Da,").collect();
    let table = vec![
        (list(&format!("{terms}z%3D1")), 200),
        (list(&format!("a%20in%20({values}z)")), 200),
        (list(&format!("a%3D{}", "x".repeat(60_000))), 400),
        (list(&"(".repeat(60_000)), 400),
        (list(&"!".repeat(60_000)), 400),
        (list(&",".repeat(60_000)), 400),
        (get(&format!("{MAPS}?fieldSelector={fields}metadata.namespace%3Ddefault")), 200),
        (get(&format!("{MAPS}?fieldSelector=metadata.name%3D{}", "%5C%2C".repeat(9000))), 200),
    ];
    check_codes(server, table).await;
    // The length of a target is bounded, whatever is in it.
    let answer = ask(server, list(&"x".repeat(100_000))).await;
    assert!(matches!(code(&answer), 400 | 414 | 431), "{answer}");
    // And as a watch, which keeps its selector.
    for _ in 0..times(20, 1000) {
        let mut stream = wire::connect(server).await;
        let watch = format!("GET {MAPS}?watch=1&labelSelector={terms}z%3D1 HTTP/1.1\r\nhost: x\r\n\r\n");
        wire::send(&mut stream, &watch).await;
    }
}

async fn thousands_of_parameters(server: &Proc) {
    let many = |name: &str| (0..6000).map(|i| format!("{name}{i}=1&")).collect::<String>();
    let table = vec![
        (get(&format!("{MAPS}?{}limit=1", many("x"))), 200),
        (get(&format!("{MAPS}?{}", "limit=1&".repeat(7000))), 200),
        (get(&format!("{MAPS}?{}", "&".repeat(60_000))), 200),
        (get(&format!("{MAPS}?{}", "%".repeat(60_000))), 200),
        (get(&format!("{MAPS}?{}", "dryRun=All&".repeat(5000))), 200),
    ];
    check_codes(server, table).await;
}

async fn forged_continue_tokens_are_refused(server: &Proc) {
    let forge = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let list = |token: &str| get(&format!("{MAPS}?continue={token}"));
    let token = |revision: &str, start: &str| {
        list(&forge(&format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":"{start}"}}"#)))
    };
    let table = vec![
        (list("forged"), 400),
        (list(&"A".repeat(50_000)), 400),
        (list(&forge(&"[".repeat(40_000))), 400),
        (list(&forge("{}")), 400),
        (token("1", "../secrets/a"), 400),
        (token("1", "a//b"), 400),
        (token("0", "a"), 400),
        (token("1.5", "a"), 400),
        // Of a revision that the history has, and of none at all.
        (token("1", "default/a\\u0000"), 200),
        (token("-1", "default/a\\u0000"), 200),
        (token("-1", "zzz/never\\u0000"), 200),
        (
            get(&format!(
                "{MAPS}?continue={}&resourceVersion=5",
                forge(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a"}"#)
            )),
            400,
        ),
    ];
    check_codes(server, table).await;
    // A revision that nobody has seen is not waited for without end, and not taken for the present.
    for revision in ["999999999", "9223372036854775807"] {
        let answer = ask(server, token(revision, "default/a\\u0000")).await;
        assert!((400..600).contains(&code(&answer)), "{revision}: {answer}");
    }
}

async fn numbers_out_of_range(server: &Proc) {
    let mut asked = Vec::new();
    for (name, value) in [
        ("limit", "9223372036854775807"),
        ("limit", "9223372036854775808"),
        ("limit", "-9223372036854775808"),
        ("limit", "1e3"),
        ("timeoutSeconds", "9223372036854775807"),
        ("timeoutSeconds", "-1"),
        ("resourceVersion", "18446744073709551615"),
        ("resourceVersion", "18446744073709551616"),
        ("resourceVersion", "-1"),
        ("resourceVersionMatch", "Sometimes"),
    ] {
        for watch in ["", "&watch=1&timeoutSeconds=1"] {
            // The first of a name counts, so the watch stays short unless it is what is asked.
            if name == "timeoutSeconds" && !watch.is_empty() {
                continue;
            }
            asked.push(async move {
                let answer = ask(server, get(&format!("{MAPS}?{name}={value}{watch}"))).await;
                assert!((200..600).contains(&code(&answer)), "{name}={value}{watch}: {answer}");
            });
        }
    }
    futures_util::future::join_all(asked).await;
}

/// Sorting what is wanted most must not cost more than the answer.
async fn accept_lists_everything(server: &Proc) {
    let entries: String = (0..3000).map(|i| format!("a/b;q=0.{i:04},")).collect();
    let lines: String =
        (0..60).map(|_| format!("accept: {}\r\n", "a/b;q=0.1,*/*;q=0.2,a/*,".repeat(40))).collect();
    for headers in [format!("accept: {entries}*/*\r\n"), lines] {
        for _ in 0..times(2, 20) {
            let answer =
                ask(server, get("/version").replace("connection", &format!("{headers}connection"))).await;
            assert!(matches!(code(&answer), 200 | 406 | 431), "{answer}");
            let answer = ask(server, get(MAPS).replace("connection", &format!("{headers}connection"))).await;
            assert!(matches!(code(&answer), 200 | 406 | 431), "{answer}");
        }
    }
}
