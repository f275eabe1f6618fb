//! The API over whole requests: one cluster a test, no socket unless the test is about sockets.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod facts;

mod account_tokens;
mod admission;
mod admission_webhooks;
mod aggregated_server;
mod aggregation;
mod apply;
mod apply_behaviours;
mod apply_faults;
mod apply_properties;
mod apply_schemas;
mod apply_versions;
mod bad_input;
mod bookmarks;
mod certificates;
mod clients;
mod concurrency;
mod conversion_hook;
mod conversion_webhooks;
mod custom_resources;
mod deep_bodies;
mod definition_lifecycle;
mod definitions;
mod determinism;
mod device_status;
mod differential;
mod flow_control;
mod flow_schemas;
mod generated_names;
mod golden_admission;
mod golden_errors;
mod golden_watches;
mod identity;
mod idle_connections;
mod kinds;
mod kubeconfigs;
mod large_lists;
mod lists;
mod malformed;
mod memory_limits;
mod metrics;
mod namespace_objects;
mod nodes;
mod openapi;
mod openapi_custom;
mod options;
mod patch_errors;
mod pod_changes;
mod pod_logs;
mod pod_security;
mod pod_sessions;
mod protobuf;
mod proxies;
mod quotas;
mod rbac;
mod refusal_order;
mod refusals;
mod renewal;
mod resource_metrics;
mod reviews;
mod routes;
mod server_controllers;
mod services;
mod signing_requests;
mod subresources;
mod surface;

mod sweep;
mod test_kubelet;
mod text;
mod unread_responses;
mod updates;
mod upstream_quirks;
mod warnings;
mod watches;
mod watches_compacted;
mod webhook_server;
mod websockets;
