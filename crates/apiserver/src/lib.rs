//! The API over HTTP: the chain every request takes, discovery, health, and the sockets.
//!
//! Read `chain.rs` first: it is the path of a request, top down. The modules below are in the order of that path.

// The API without its sockets, and its configuration.
mod api;
mod config;

// Sockets: TLS, HTTP/1.1 and HTTP/2, connections and what they hold.
mod acceptor;
mod accounting;
mod body;
mod connection;
mod connection_io;
mod connections;
mod frame_monitor;
mod http2;
mod malformed;
mod pools;
mod proxied_body;
mod response_body;
mod run_queue;
mod serve_connection;
mod server;
mod service_endpoints;
mod shutdown;
mod source_address;
mod upgrade;
mod websocket;

// The chain, and its layers.
mod attributes;
mod authenticate;
mod authorize;
mod chain;
mod deadline;
mod flow_control;
mod impersonate;
mod node_relations;
mod request_info;
mod request_metrics;
mod token_authenticator;

// Resources: the verbs, and the forms of their answers.
mod component_statuses;
mod connect;
mod decode;
mod gzip;
mod list_body;
mod negotiate;
mod resource_metrics;
mod respond;
mod verbs;
mod views;
mod warnings;
mod watch_body;
mod watch_framing;

// API groups that other servers serve.
mod aggregation;

// Everything that is no resource.
mod debug_admission;
mod debug_controllers;
mod discovery;
mod health;
mod metrics;
mod non_resource;
mod openapi_cache;
mod openapi_endpoints;
mod openid;

// Clients of this process, and what the server does by itself.
mod bootstrap;
mod certificate_rotation;
mod controllers;
mod conversion;
mod custom_resources;
mod effects;
mod local;
mod loopback;

pub use acceptor::{Acceptor, Tls};
pub use admission::Choice as AdmissionChoice;
pub use admission::service_addresses::{PortRange, ServiceRanges};
pub use aggregation::certificate::ProxyClientCertificate;
pub use api::{Api, ControllerStatus};
pub use authenticate::Caller;
pub use body::{Body, RequestBody};
pub use bootstrap::Bootstrap;
pub use certificate_rotation::{CertificateRotation, WriteKubeconfig};
pub use config::{ApiConfig, Authorization, AuthorizationMode, ClusterSettings};
pub use connect::{Dialer, KubeletClient, KubeletClientCertificate, KubeletClientConfig};
pub use connections::MAX_CONNECTIONS;
pub use controllers::Advertised;
pub use dynamic_admission::{AdmissionConfiguration, ConfigurationError as AdmissionConfigurationError};
pub use flowcontrol::Limits;
pub use local::{LocalClient, LocalClients};
pub use pools::Pools;
pub use resource_metrics::{KubeletScraper, NodeEndpoint, NodeScraper, PodUsage};
pub use serve_connection::serve_stream;
pub use server::{Server, ServerError};
pub use shutdown::Shutdown;
pub use webhook::HostPort;

/// What `/version` and `--version` say beside our own version: the API spoken here.
pub const KUBERNETES_VERSION: &str = "v1.36.4";
