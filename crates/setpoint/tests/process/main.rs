//! The real binary from a user's point of view: the command line, signals, crashes, TLS, real clients, a real etcd.
//!
//! Everything here runs in processes of its own, on the machine's clock, so the rules for the server's code about
//! time and tasks do not apply. What a test needs and the machine lacks is named in a line `skipped: …`.
// The harness unwraps like the tests it serves.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod aggregation;
mod apparmor;
mod architecture;
mod backups;
mod bench;
mod bridges;
mod certificates;
mod cgroup2;
mod cli;
mod connections;
mod containerd;
mod containers;
mod custom_resources;
mod debug;
mod detach;
mod diff_pods;
mod disk;
mod drain;
mod durability;
mod envtest;
mod etcd;
mod etcd_server;
mod etcd_tls;
mod foreign_etcd;
mod garbage;
mod harness;
mod hostile;
mod images;
mod join;
mod joined_nodes;
mod kube_rs;
mod kubectl;
mod kubectl_apps;
mod kubectl_custom;
mod kubectl_explain;
mod kubectl_server_side;
mod leaders;
mod make_up;
mod node_cluster;
mod other_clients;
mod pauses;
mod pod_features;
mod pod_troubles;
mod private_images;
mod quotas;
mod reboot;
mod refusals;
mod restart;
mod shutdown;
mod static_pods;
mod story;
mod sweep;
mod tls;
mod wire;
