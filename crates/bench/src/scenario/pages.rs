//! pages: a list of 200,000 ConfigMaps in pages of 500, from the first to the last, with a write between any two.

use std::time::{Duration, Instant};

use super::objects::config_map;
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::report::duration;
use crate::request::SLOT;
use crate::site::Site;
use crate::tally::Tally;

const OBJECTS: u64 = 200_000;
const PAGE: u64 = 500;
/// How many pages at either end are compared.
const ENDS: usize = 20;

pub struct Pages;

impl Scenario for Pages {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        site.create_all("configmaps", &config_map(&format!("p-{SLOT}")), OBJECTS)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let collection = site.path("configmaps");
        let mut tally = Tally::new();
        let (mut first, mut last) = (Histogram::new(), Histogram::new());
        let (began, cpu) = (Instant::now(), site.cpu()?);
        // Whole lists only.
        while tally.requests == 0 || began.elapsed() < settings.measured {
            let mut times = Vec::new();
            let mut token = String::new();
            loop {
                site.merge(
                    &format!("{collection}/p-000000"),
                    &format!(r#"{{"data":{{"at":"{}"}}}}"#, times.len()),
                )?;
                let at = Instant::now();
                let page = site.get(&format!("{collection}?limit={PAGE}&continue={token}"))?;
                times.push(at.elapsed());
                tally.bytes += page.len() as u64;
                match continue_token(&page) {
                    Some(next) => token = next,
                    None => break,
                }
            }
            let nanos = |time: &Duration| time.as_nanos() as u64;
            tally.requests += times.len() as u64;
            times.iter().for_each(|time| tally.latency.record(nanos(time)));
            times.iter().take(ENDS).for_each(|time| first.record(nanos(time)));
            times.iter().rev().take(ENDS).for_each(|time| last.record(nanos(time)));
        }
        tally.seconds = began.elapsed().as_secs_f64();
        tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after.saturating_sub(before));
        tally.server_rss_peak = site.rss()?;
        tally.notes.push(format!(
            "the first {ENDS} pages: p50 {}; the last {ENDS}: p50 {}",
            duration(first.quantile(0.5)),
            duration(last.quantile(0.5))
        ));
        Ok(tally)
    }
}

/// Where the list goes on; in its metadata, before its items.
fn continue_token(page: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\"continue\":\"";
    let head = &page[..page.len().min(2048)];
    let at = memchr::memmem::find(head, KEY)? + KEY.len();
    let end = at + memchr::memchr(b'"', &head[at..])?;
    Some(String::from_utf8_lossy(&head[at..end]).into_owned()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_found_where_there_is_one() {
        assert_eq!(
            continue_token(br#"{"metadata":{"resourceVersion":"1","continue":"abc"},"items":[]}"#).unwrap(),
            "abc"
        );
        assert_eq!(continue_token(br#"{"metadata":{"resourceVersion":"1"},"items":[]}"#), None);
    }
}
