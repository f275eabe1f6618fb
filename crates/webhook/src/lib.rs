//! Calls webhooks: those that convert custom resources, and those of admission.
//!
//! ```text
//! ClientConfig ── a URL, or a Service that a ServiceResolver turns into endpoints; whom to trust
//!   │ WebhookClient::post(body, timeout)
//!   v
//! Server (one for each authority, CA bundle and credentials) ── pooled connections ── POST, HTTP/2 or HTTP/1.1
//!   │
//!   │<── Answer ── review::decode ── the review, of the kind and version that was asked for
//!   │<── CallError, in the words of a Go client
//!   v
//! Converter ── ConversionReview out; the answer judged; metadata restored
//! ```
//! Building and judging reviews is pure; only `WebhookClient` waits. A webhook is not trusted: the size of its answer, its time and
//! the calls under way are bounded, and redirects are not followed.

mod client;
mod config;
pub mod connection;
pub mod conversion;
pub mod dial;
mod error;
mod go_errors;
mod kubeconfig;
mod metrics;
mod path;
mod refusal;
pub mod review;
mod server;
mod service;
mod this_server;
pub mod tls;

pub use client::{Answer, Call, Clock, WebhookClient};
pub use config::{ClientConfig, ConfigError, Credentials, ServiceReference, Target};
pub use conversion::{ConversionError, Converter};
pub use error::{CallError, Cause};
pub use go_errors::{Ends, broken_body, no_answer};
pub use kubeconfig::{Authenticated, CredentialsError, Kubeconfig, KubeconfigError};
pub use metrics::{ConversionMetrics, FailureType};
pub use server::places;
pub use service::{HostPort, ResolveError, ServiceResolver, endpoints};
pub use this_server::ThisServer;
