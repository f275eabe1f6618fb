//! A node of the cluster: an agent core like kubelet's, and a simulated runtime behind it.
//!
//! ```text
//!  API ── informers ── Fleet ── Agent (one per node) ── PodWorker (one per pod) ── dyn Runtime ── containers, or a pretence
//!                       │ timers    │ lease, status, admission   │ pure steps: start, stop, restart, status
//!                       └───────────┴── writes as system:node:NAME ──> API
//! ```
//! * [`worker`]: the life of one pod, synchronous, given the time.
//! * [`agent`]: one node: registration, lease, heartbeats, what fits ([`admit`]), reconciles of its pods.
//! * [`allocation`]: what the node gave a pod, which outlives the process.
//! * [`fleet`]: all agents of a process behind two informers and two queues; no task per node or pod.
//! * [`container_runtime`]: the trait a runtime implements.
//! * [`static_pods`]: pods of the machine's own files, and their mirrors.
//! * [`simulated`]: nodes without machines, for `--simulated-nodes`, benchmarks and tests.

pub mod admit;
pub mod agent;
pub mod allocation;
pub mod container_runtime;
pub mod events;
pub mod fleet;
pub mod machine;
pub mod pod;
pub mod simulated;
pub mod static_pods;
pub mod worker;
