//! The table and the JSON, from made-up tallies.

use std::time::Duration;

use super::*;
use crate::endpoint::Endpoint;
use crate::meters::Processes;
use crate::scenario::find;

fn tally(requests: u64, cpu_seconds: u64) -> Tally {
    let mut tally = Tally::new();
    tally.seconds = 2.0;
    tally.requests = requests;
    tally.bytes = 4_000_000;
    for _ in 0..requests {
        tally.latency.record(100_000);
    }
    tally.server_cpu = Some(Duration::from_secs(cpu_seconds));
    tally.server_rss_peak = Some(40_000_000);
    tally
}

fn targets(count: usize) -> Vec<Target> {
    let processes = || Processes::new(Vec::new(), "--pids").unwrap();
    ["A", "B"][..count]
        .iter()
        .map(|label| Target { label, endpoint: Endpoint::for_tests(), processes: processes() })
        .collect()
}

#[test]
fn table_shows_rate_and_cpu_of_all_rounds() {
    let rounds = vec![vec![tally(10_000, 1), tally(30_000, 1)]];
    let text = table(&targets(1), &[Measured { scenario: find("create").unwrap(), rounds }]);
    assert!(text.starts_with("scenario  per second"), "{text}");
    for cell in ["10,000", "2.0", "50.0 us", "40 MB"] {
        assert!(text.contains(cell), "{cell} is not in\n{text}");
    }
}

#[test]
fn comparison_shows_the_ratio_and_its_spread() {
    let rounds = vec![vec![tally(20_000, 1), tally(40_000, 1)], vec![tally(2_000, 1), tally(2_000, 1)]];
    let text = table(&targets(2), &[Measured { scenario: find("get").unwrap(), rounds }]);
    assert!(text.contains("15.00x rate (10.00 to 20.00), 0.07x CPU"), "{text}");
}

#[test]
fn failures_are_shown_by_code() {
    let mut failing = tally(10, 1);
    failing.failures.insert(409, 3);
    failing.failures.insert(BROKEN, 1);
    failing.first_failure = Some("409: no".to_string());
    let text =
        table(&targets(1), &[Measured { scenario: find("patch").unwrap(), rounds: vec![vec![failing]] }]);
    assert!(
        text.contains("4 (broken: 1, 409: 3)") && text.contains("the first failure was 409: no"),
        "{text}"
    );
}

#[test]
fn json_row_holds_raw_figures_and_quotes_text() {
    let mut target = targets(1).remove(0);
    target.endpoint.server = "https://\"x\"\n".to_string();
    let row = json_row(find("create").unwrap(), &target, 1, &tally(4, 2));
    assert!(row.contains(r#""server":"https://\"x\"\u000a""#), "{row}");
    assert!(
        row.contains(r#""server_cpu_nanos_each":500000000"#) && row.contains(r#""lag_nanos":{"p50":null"#),
        "{row}"
    );
}

#[test]
fn numbers_are_grouped() {
    assert_eq!(thousands(1_234_567.4), "1,234,567");
    assert_eq!(thousands(999.6), "1,000");
    assert_eq!(thousands(8.3), "8.3");
}
