//! Hostile clients against the real program, with an honest one beside them.
//!
//! ```text
//!  honest client   write, read back, list, see the write in a watch ── again and again, on open connections ──>
//!  case            before ── attack ── after: memory, descriptors and threads as before, and two more honest rounds
//! ```
//! A case is a row of a family's table, one file a family. Its attack says what answer the bytes must get; the runner
//! looks at everything else. One server for all of them, so that what one case leaves behind spoils the next. With `SETPOINT_LONG=1` attacks
//! are as large as `times` says, and otherwise small.

mod bodies;
mod connections;
mod honest;
mod http1;
mod http2;
mod observe;
mod patches;
mod queries;
mod requests;
mod watches;

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::harness::*;
use crate::wire;
use honest::Honest;
use observe::Observed;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Bytes that no client library would send.
struct Case {
    name: &'static str,
    /// What the server's memory may grow by while it lasts, and still be grown by when it is over.
    take_mib: u64,
    keep_mib: u64,
    attack: for<'a> fn(&'a Proc) -> BoxFuture<'a, ()>,
}

/// A row for the table: `name` is the attack's function.
macro_rules! case {
    ($attack:ident) => {
        case!($attack, take 48, keep 24)
    };
    ($attack:ident, take $take:expr, keep $keep:expr) => {
        crate::hostile::Case {
            name: concat!(module_path!(), "::", stringify!($attack)),
            take_mib: $take,
            keep_mib: $keep,
            attack: |server| Box::pin($attack(server)),
        }
    };
}
use case;

/// Sizes: small in `make test`, whole with `SETPOINT_LONG=1`.
fn times(usual: usize, long: usize) -> usize {
    rounds(usual, long)
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_clients_are_refused_and_do_not_affect_others() {
    let folder = folder();
    let server = Proc::start(&folder.path().join("data"));
    let honest = Honest::start(&server).await;
    // What is made once is made: TLS, HTTP/2, OpenAPI are not what is measured.
    for mut stream in [wire::connect(&server).await, wire::connect(&server).await] {
        wire::exchange(&mut stream, "GET /openapi/v2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    }
    drop(wire::connect_http2(&server).await);
    honest.rounds(3).await;
    let first = Observed::of(&server);
    let only = std::env::var("SETPOINT_HOSTILE").unwrap_or_default();
    let families = [
        requests::CASES,
        connections::CASES,
        http1::CASES,
        http2::CASES,
        bodies::CASES,
        queries::CASES,
        patches::CASES,
        watches::CASES,
    ];
    for case in families.iter().copied().flatten().filter(|case| case.name.contains(&only)) {
        run(&server, &honest, case).await;
    }
    Observed::of(&server).settles_at(&server, first, 64, "all of them").await;
    honest.stop().await;
    assert!(!server.log().contains("panicked"), "{}", server.log());
    server.stop();
}

async fn run(server: &Proc, honest: &Honest, case: &Case) {
    let begun = std::time::Instant::now();
    let before = Observed::of(server);
    observe::forget_peak(server);
    // The honest client makes its way while the attack lasts, however long that is.
    let attack = async {
        let limit = PATIENCE * 5;
        tokio::time::timeout(limit, (case.attack)(server))
            .await
            .unwrap_or_else(|_| panic!("{}: it does not end", case.name));
    };
    tokio::join!(attack, honest.rounds(2));
    honest.rounds(2).await;
    let took = observe::peak_bytes(server).saturating_sub(before.resident_bytes) >> 20;
    println!("{}: {:.1} s, peak +{took} MiB", case.name, begun.elapsed().as_secs_f32());
    assert!(took <= case.take_mib, "{}: the server grew by {took} MiB, bound {}", case.name, case.take_mib);
    before.settles_at(server, before, case.keep_mib, case.name).await;
}

/// One request of its own connection: what was said, as it came. Whoever says nothing in five seconds says nothing.
async fn ask(server: &Proc, request: impl AsRef<str>) -> String {
    wire::exchange(&mut wire::connect(server).await, request.as_ref()).await
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

fn send_body(method: &str, path: &str, media: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn post(media: &str, body: &str) -> String {
    send_body("POST", &format!("{MAPS}?dryRun=All"), media, body)
}

/// Each request gets its status; all that do not are reported.
async fn check_codes(server: &Proc, table: Vec<(String, u16)>) {
    let mut wrong = Vec::new();
    for (request, wanted) in table {
        let shown: String = request.chars().take(160).collect();
        let answer = ask(server, &request).await;
        if code(&answer) != wanted {
            let head: String = answer.chars().take(600).collect();
            wrong.push(format!("{shown:?}: wanted {wanted}, got {}:\n{head}", code(&answer)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// For attacks that take their time: the only way to be slow.
async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
