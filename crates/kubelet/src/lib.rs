//! A node with real containers: what stands between the agent core (`node`) and a container runtime (`cri`).
//!
//! ```text
//!  API ── node::Agent ── node::PodWorker ── pods ──┬── volumes    directories, config maps, tokens
//!                                                  ├── images     pull policies, secrets
//!                                                  ├── generate   what CRI is asked for: environment, mounts, users, limits
//!                                                  ├── hooks, probes
//!                                                  └── dyn cri::Runtime ── embedded, or a socket
//!  files ── static_pods ── node::Agent                └ the same for pods of the machine's own
//!  API server ── server (HTTPS): logs, exec, attach, port-forward, stats
//! ```

pub mod admit;
mod blocking;
pub mod certificates;
pub mod config;
pub mod directories;
pub mod eviction;
pub mod feature_gates;
pub mod generate;
mod health_port;
pub mod hooks;
pub mod images;
pub mod machine;
pub mod node_metrics;
pub mod objects;
pub mod pod_logs;
pub mod pods;
mod preflight;
pub mod probes;
pub mod run;
mod runtime_metrics;
pub mod runtime_state;
pub mod server;
pub mod shutdown;
pub mod static_pods;
mod statuses;
pub mod volumes;
