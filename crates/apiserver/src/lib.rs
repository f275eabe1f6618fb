//! The API over HTTP: the chain every request takes, discovery, health, and the sockets.
//!
//! Read `chain.rs` first: it is the path of a request, top down. `server.rs` is what stands before it (TLS,
//! connections), `verbs.rs` what comes after it (the registry's verbs as HTTP answers).

mod address_repair;
mod aggregation;
mod api;
mod attributes;
mod authenticate;
mod authorize;
mod body;
mod bootstrap;
mod bulk;
mod certificates;
mod chain;
mod component_statuses;
mod config;
mod connect;
mod connection;
mod connections;
mod deadline;
mod discovery;
mod documents;
mod flow_control;
mod flow_schemas;
mod follow;
mod frames;
mod gzip;
mod health;
mod http2;
mod identity;
mod impersonate;
mod inspect;
mod kubernetes_service;
mod ledger;
mod list_body;
mod local;
mod malformed;
mod metrics;
mod negotiate;
mod node_relations;
mod non_resource;
mod open_api;
mod openid;
mod own;
mod pools;
mod quotas;
mod renewal;
mod request_info;
mod request_metrics;
mod respond;
mod sending;
mod server;
mod service_cidrs;
mod shutdown;
mod trust;
mod upkeep;
mod verbs;
mod views;
mod warnings;
mod watch_body;
mod websocket;
mod wire;

pub use admission::Choice as AdmissionChoice;
pub use admission::service_addresses::{PortRange, ServiceRanges};
pub use api::{Api, Inspect};
pub use authenticate::Caller;
pub use body::{Body, RequestBody};
pub use config::{ApiConfig, CONTROLLERS, ClusterSettings};
pub use connections::MAX_CONNECTIONS;
pub use flowcontrol::Limits;
pub use kubernetes_service::Advertised;
pub use local::{LocalClient, LocalClients};
pub use pools::Pools;
pub use renewal::{Renewal, WriteKubeconfig};
pub use server::{Door, Server, ServerError, Tls, serve_stream};

/// What `/version` and `--version` say beside our own version: the API spoken here.
pub const KUBERNETES_VERSION: &str = "v1.36.4";
