//! Authentication and authorization.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Histogram, header};

use super::bounds::{AUTH, EXPIRATION, FILTER};

/// Anonymous is a success, too; only invalid credentials are an error.
const RESULTS: [&str; 2] = ["success", "error"];
/// RBAC and the node authorizer never deny: they have no opinion.
const DECISIONS: [&str; 2] = ["allowed", "no-opinion"];
/// The timed layers of the chain.
const FILTERS: [&str; 2] = ["authentication", "authorization"];
/// Upstream's few names, so that users do not become series.
const USERS: [&str; 7] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
    "email_id",
    "other",
];

#[derive(Default)]
pub struct AuthMetrics {
    authentications: [Histogram<15>; RESULTS.len()],
    decisions: [Histogram<15>; DECISIONS.len()],
    users: [AtomicU64; USERS.len()],
    certificates: Histogram<14>,
    filters: [Histogram<13>; FILTERS.len()],
}

impl AuthMetrics {
    /// `user` is `None` if authentication failed.
    pub fn authenticated(&self, user: Option<&str>, took: Duration) {
        self.filters[0].took(&FILTER, took);
        self.authentications[usize::from(user.is_none())].took(&AUTH, took);
        if let Some(name) = user {
            let known = USERS[..5].iter().position(|u| *u == name);
            let at = known.unwrap_or_else(|| if name.contains('@') { 5 } else { 6 });
            self.users[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn authorized(&self, allowed: bool, took: Duration) {
        self.filters[1].took(&FILTER, took);
        self.decisions[usize::from(!allowed)].took(&AUTH, took);
    }

    /// A request came with a client certificate that expires in that many seconds.
    pub fn certificate(&self, seconds: u64) {
        self.certificates.observe(&EXPIRATION, seconds);
    }

    pub fn write(&self, out: &mut String) {
        let name = "authenticated_user_requests";
        header(out, name, "counter", "Number of authenticated requests, by a few well-known user names.");
        for (user, count) in USERS.iter().zip(&self.users) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let _ = writeln!(out, "{name}{{username=\"{user}\"}} {count}");
            }
        }
        results(
            out,
            "authentication_attempts",
            "authentication_duration_seconds",
            &RESULTS,
            &self.authentications,
        );
        results(
            out,
            "authorization_attempts_total",
            "authorization_duration_seconds",
            &DECISIONS,
            &self.decisions,
        );
        let name = "apiserver_request_filter_duration_seconds";
        header(out, name, "histogram", "Latency of the filters before a request's handler, in seconds.");
        for (filter, took) in FILTERS.iter().zip(&self.filters).filter(|(_, took)| took.count() > 0) {
            took.write(out, name, &format!("filter=\"{filter}\""), &FILTER, 0);
        }
        let name = "apiserver_client_certificate_expiration_seconds";
        let help = "Remaining lifetime of the client certificate of each request, in seconds.";
        header(out, name, "histogram", help);
        self.certificates.write(out, name, "", &EXPIRATION, 0);
    }
}

fn results(out: &mut String, attempts: &str, durations: &str, names: &[&str], all: &[Histogram<15>]) {
    let used = || names.iter().zip(all).filter(|(_, histogram)| histogram.count() > 0);
    header(out, attempts, "counter", "Number of attempts, by result.");
    for (result, histogram) in used() {
        let _ = writeln!(out, "{attempts}{{result=\"{result}\"}} {}", histogram.count());
    }
    header(out, durations, "histogram", "Latency of attempts in seconds, by result.");
    for (result, histogram) in used() {
        histogram.write(out, durations, &format!("result=\"{result}\""), &AUTH, 0);
    }
}
