//! The API of any cluster over HTTP, behind the same trait controllers use in process.
//!
//! ```text
//! Config ── a kubeconfig, or the files of a pod
//!   │ HttpClient::new
//!   v
//! HttpClient: Client ── request (path, query, body) ── Pool ── TLS socket, HTTP/2 or HTTP/1.1
//!   │                                                            │
//!   │<── Arc<Obj>, List, Watch <── objects (tree -> Obj) <───────┤ 2xx
//!   │<── object::Status        <── refusal (JSON or not) <───────┘ the rest, and no answer at all
//!   v
//! HttpClients: Clients ── one identity for each controller, by impersonation or all as oneself
//! ```
//! Custom resources are looked up in the server's discovery when they are used first, and again when the server does not know
//! them any more. What no server answered is a `Status` too: 503 when the request was never sent, 504 when nobody knows what became of it.

mod call;
mod client;
mod clients;
mod config;
mod credentials;
mod dial;
mod discovery;
mod exchange;
mod exec;
mod objects;
mod pool;
mod process;
mod proxy;
mod refusal;
mod request;
mod rotation;
mod served;
pub mod tls;
mod url;
mod watch;

pub use client::HttpClient;
pub use clients::{HttpClients, Identities};
pub use config::{Config, ConfigError};
pub use credentials::{Credentials, Impersonate};
pub use dial::{Dial, Dialled, Wire};
pub use exchange::{ApiRequest, Exchange, OpenAnswer};
pub use exec::{Exec, Given, Plugin};
pub use proxy::Proxy;
pub use refusal::of_answer as status_of_answer;
pub use rotation::CertificateRotation;
pub use served::Served;
pub use url::Url;
