//! Runs containers on Linux: namespaces, mounts, cgroups, users, capabilities, and one small process for each pod.
//!
//! ```text
//!  agent ── socket pair ──> spawner ── fork ──> pod helper (one for each pod) ── clone ──> container
//!    └───────────── unix socket of the pod ────────^  │ logs, exit codes, exec, attach      └──> container …
//! ```
//! * The **spawner** is this program, executed once more before it has any thread: only a process of one thread can fork and go on
//!   running Rust. All pod helpers are its forks, so they share its memory; it ends with the agent.
//! * A **pod helper** holds the pod's namespaces (there is no pause container), is the parent of its containers, writes their logs,
//!   keeps how they ended, and outlives the agent. Mounts are made in its own mount namespace: nothing is left behind on the host.
//! * The agent talks to a helper in frames of JSON ([`wire`]), with file descriptors beside them for exec and attach.

pub mod cgroup;
pub mod config;
pub mod disk_usage;
pub mod helper;
pub mod mounts;
pub mod signal;
mod start;
mod sys;
pub mod tree;
pub mod wire;
