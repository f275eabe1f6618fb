//! The fuzz targets: every parser of untrusted bytes. See the documentation of `fuzz` for how a run works.
//!
//! | target | bytes |
//! |---|---|
//! | `json`, `yaml`, `protobuf` | bodies |
//! | `json_patch`, `merge_patch`, `strategic_patch` | patches, on canonical objects |
//! | `label_selector`, `field_selector` | the query's |
//! | `quantity`, `time`, `duration`, `names` | strings in objects |
//! | `jwt`, `bootstrap_token`, `static_tokens` | bearer tokens |
//! | `certificate`, `signing_request`, `pem` | certificates and certificate signing requests |
//! | `impersonation` | headers |
//! | `kubeconfig`, `url` | the configuration of a client |
//! | `stored_value` | values that another server may have written to etcd |
//! | `backup`, `disk_log` | files of the store |
//! | `request` | method, path, query and headers, through the whole chain |
//! | `field` | strings in objects of many kinds (schedules, CIDRs, certificates, …), through the whole chain |
//! | `body` | bodies of any type and patches, through the whole chain |
//! | `large_object` | objects with thousands of members: their cost grows with their size |
//! | `connection`, `websocket` | HTTP/1.1 and HTTP/2 as bytes; frames |
//!
//! The target of etcd's messages is in `store-etcd`, those of `managedFields` and configurations to apply in `managed-fields`.
// Tests unwrap.
#![allow(clippy::unwrap_used)]

mod bodies;
mod credentials;
mod files;
mod patches;
mod samples;
mod server;
mod text;
