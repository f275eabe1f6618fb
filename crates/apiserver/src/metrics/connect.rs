//! Requests that reach into nodes and pods.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{header, single};
use parking_lot::Mutex;

const SUBRESOURCES: [&str; 3] = ["attach", "exec", "portforward"];
const PROXY_TYPES: [&str; 2] = ["proxied_to_kubelet", "translated_at_apiserver"];
const USAGES: [&str; 2] = ["enforce_tls", "skip_tls_allowed"];

/// Who speaks WebSocket with the client.
#[derive(Clone, Copy)]
pub enum ProxyType {
    Kubelet,
    Translated,
}

#[derive(Default)]
pub struct ConnectMetrics {
    logs: [AtomicU64; USAGES.len()],
    log_tls_failures: AtomicU64,
    streaming: [[AtomicU64; PROXY_TYPES.len()]; SUBRESOURCES.len()],
    /// Guards the counts by code; one increment for each session.
    translated: Mutex<BTreeMap<u16, u64>>,
    tunnelled: Mutex<BTreeMap<u16, u64>>,
}

impl ConnectMetrics {
    pub fn log_requested(&self, skip_verify: bool) {
        self.logs[usize::from(skip_verify)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn log_tls_failed(&self) {
        self.log_tls_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub fn streaming_requested(&self, subresource: &str, proxy_type: ProxyType) {
        if let Some(at) = SUBRESOURCES.iter().position(|known| *known == subresource) {
            self.streaming[at][proxy_type as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn translated(&self, code: u16) {
        *self.translated.lock().entry(code).or_default() += 1;
    }

    pub fn tunnelled(&self, code: u16) {
        *self.tunnelled.lock().entry(code).or_default() += 1;
    }

    /// A family appears with its first request, as upstream's do.
    pub fn write(&self, out: &mut String) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        if self.logs.iter().any(|logs| count(logs) > 0) {
            let name = "kube_apiserver_pod_logs_insecure_backend_total";
            header(out, name, "counter", "Number of requests for pods/log, by how the kubelet was verified.");
            for (usage, logs) in USAGES.iter().zip(&self.logs).filter(|(_, logs)| count(logs) > 0) {
                let _ = writeln!(out, "{name}{{usage=\"{usage}\"}} {}", count(logs));
            }
            let name = "kube_apiserver_pod_logs_backend_tls_failure_total";
            let help =
                "Number of requests for pods/log that failed because the kubelet could not be verified.";
            single(out, name, "counter", help, count(&self.log_tls_failures));
        }
        let name = "apiserver_websocket_streaming_requests_total";
        let help = "Number of exec, attach and portforward requests, by who speaks WebSocket.";
        let mut begun = false;
        for (subresource, counts) in SUBRESOURCES.iter().zip(&self.streaming) {
            for (proxy_type, requests) in PROXY_TYPES.iter().zip(counts).filter(|(_, n)| count(n) > 0) {
                if !std::mem::replace(&mut begun, true) {
                    header(out, name, "counter", help);
                }
                let labels = format!("proxy_type=\"{proxy_type}\",subresource=\"{subresource}\"");
                let _ = writeln!(out, "{name}{{{labels}}} {}", count(requests));
            }
        }
        let by_code = [
            (
                "apiserver_stream_translator_requests_total",
                "Number of WebSocket sessions translated to SPDY, by code.",
                &self.translated,
            ),
            (
                "apiserver_stream_tunnel_requests_total",
                "Number of SPDY connections in a WebSocket, by code.",
                &self.tunnelled,
            ),
        ];
        for (name, help, counts) in by_code {
            let counts = counts.lock();
            if !counts.is_empty() {
                header(out, name, "counter", help);
            }
            for (code, count) in &*counts {
                let _ = writeln!(out, "{name}{{code=\"{code}\"}} {count}");
            }
        }
    }
}
