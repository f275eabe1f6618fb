//! ReplicationControllers: ReplicaSets under their older name, kept by the same controller.

use client::resources::REPLICATION_CONTROLLERS;
use tokio::task::JoinHandle;

use crate::Context;
use crate::replicaset::{SetKind, start_kind};

const REPLICATION_CONTROLLER: SetKind = SetKind {
    resource: &REPLICATION_CONTROLLERS,
    api_version: "v1",
    kind: "ReplicationController",
    name: "replicationcontroller-controller",
    account: "replication-controller",
    concurrency: "concurrent-rc-syncs",
    counts_terminating: false,
};

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    start_kind(context, REPLICATION_CONTROLLER)
}
