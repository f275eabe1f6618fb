//! The list of scenarios, and what one is. A new one is a file beside these and a row in `ALL`.

mod admission;
mod apply;
mod containers;
mod create;
mod custom;
mod exec;
mod get;
mod hold;
mod list;
mod memory;
mod node_watches;
mod objects;
mod overload;
mod pages;
mod patch;
mod schedule;
mod watch;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use crate::drive::Phase;
use crate::error::BenchError;
use crate::site::Site;
use crate::tally::Tally;

use admission::{Admission, By};
use containers::Containers;
use create::Create;
use custom::{Custom, Verb};
use list::List;
use schedule::Schedule;
use watch::FanOut;
use workloads::Workloads;

const CREATE: Create = Create { sequential: false, what: create::What::ConfigMaps };
const PATCH: patch::Patch = patch::Patch { status: false };
const APPLY: apply::Apply = apply::Apply { changed: true };

pub const ALL: &[Row] = &[
    row("create", "1 KB ConfigMaps", &CREATE),
    row(
        "create-sequential",
        "the same over one connection",
        &Create { sequential: true, what: create::What::ConfigMaps },
    ),
    row(
        "create-pods",
        "pods, through every admission plugin",
        &Create { sequential: false, what: create::What::Pods },
    ),
    row("create-custom", "custom resources of 1 KB", &Custom { verb: Verb::Create }),
    row("cel", "the same, each held against a CEL rule", &Custom { verb: Verb::CreateWithRule }),
    row(
        "create-webhook",
        "create, each asked of a validating webhook in this process; runs only when named",
        &Admission { by: By::Webhook, writes: &CREATE },
    )
    .only_when_named(),
    row(
        "create-policies",
        "create, each held against ten ValidatingAdmissionPolicies of five validations; runs only when named",
        &Admission { by: By::Policies, writes: &CREATE },
    )
    .only_when_named(),
    row(
        "create-unconcerned",
        "create with 100 webhooks and 100 policies about something else; runs only when named",
        &Admission { by: By::Nobody, writes: &CREATE },
    )
    .only_when_named(),
    row(
        "patch-unconcerned",
        "patch with the same; runs only when named",
        &Admission { by: By::Nobody, writes: &PATCH },
    )
    .only_when_named(),
    row(
        "apply-unconcerned",
        "apply with the same; runs only when named",
        &Admission { by: By::Nobody, writes: &APPLY },
    )
    .only_when_named(),
    row("get", "one of 1,000 ConfigMaps of 1 KB", &get::Get),
    row("list", "5,000 pods of 2.5 KB (12.7 MB), 2 connections", &List { what: list::What::Pods }),
    row(
        "watch",
        "100 watchers of one namespace, creates as fast as they follow; rate and lag of events",
        &FanOut { pace: None },
    ),
    row("watch-paced", "the same at 4,000 creates/s", &FanOut { pace: Some(4_000) }),
    row("patch", "strategic merge of a label of one of 1,000 pods", &PATCH),
    row("apply", "server-side apply of a change to one of 1,000 Deployments", &APPLY),
    row("apply-unchanged", "the same without a change", &apply::Apply { changed: false }),
    row(
        "patch-status",
        "a node's report on one of 1,000 pods; runs only when named",
        &patch::Patch { status: true },
    )
    .only_when_named(),
    row("get-custom", "get with custom resources; runs only when named", &Custom { verb: Verb::Get })
        .only_when_named(),
    row(
        "list-configmaps",
        "list with 5,000 ConfigMaps of 1 KB; runs only when named",
        &List { what: list::What::ConfigMaps },
    )
    .only_when_named(),
    row(
        "list-custom",
        "the same with custom resources; runs only when named",
        &Custom { verb: Verb::List },
    )
    .only_when_named(),
    row("watch-custom", "watch with custom resources; runs only when named", &Custom { verb: Verb::Watch })
        .only_when_named(),
    row(
        "crd-install",
        "1,000 small CustomResourceDefinitions; deletes all there are afterwards, runs only when named",
        &custom::InstallDefinitions,
    )
    .only_when_named(),
    row(
        "memory",
        "resident memory with 100,000 ConfigMaps of 1 KB; needs --pids, runs only when named",
        &memory::Memory,
    )
    .only_when_named(),
    row(
        "schedule",
        "5,000 pods created and bound on 1,000 nodes; needs a scheduler, runs only when named",
        &Schedule { what: schedule::What::Pods },
    )
    .only_when_named(),
    row(
        "deploy",
        "ten Deployments of 500 replicas until every pod is bound; needs controllers, runs only when named",
        &Schedule { what: schedule::What::Deployments },
    )
    .only_when_named(),
    row(
        "statefulset",
        "100 StatefulSets of 10 pods, parallel, on 1,000 nodes; needs controllers, runs only when named",
        &Workloads { what: workloads::What::StatefulSets },
    )
    .only_when_named(),
    row(
        "daemonset",
        "one DaemonSet on 1,000 nodes; needs controllers, runs only when named",
        &Workloads { what: workloads::What::DaemonSet },
    )
    .only_when_named(),
    row(
        "jobs",
        "500 Jobs of 10 pods until all are active; needs controllers, runs only when named",
        &Workloads { what: workloads::What::Jobs },
    )
    .only_when_named(),
    row(
        "cronjobs",
        "1,000 CronJobs due in the same minute until every Job is there; needs controllers, runs only when named",
        &Workloads { what: workloads::What::CronJobs },
    )
    .only_when_named(),
    row(
        "claims",
        "2,000 claims until each is bound to a volume that is there; needs controllers, runs only when named",
        &Workloads { what: workloads::What::Claims },
    )
    .only_when_named(),
    row(
        "hold",
        "--pods pods Running and idle: memory, latency of single requests, writes; needs nodes that run pods, runs only when named",
        &hold::Hold,
    )
    .only_when_named(),
    row(
        "pod-start",
        "one pod after the other until it is Running; needs nodes and --image, runs only when named",
        &Containers { what: containers::What::Start },
    )
    .only_when_named(),
    row(
        "pod-churn",
        "100 pods (--pods) at once until all are Running, then deleted until the node has ended them; needs nodes and --image whose process ends on SIGTERM, runs only when named",
        &Containers { what: containers::What::Churn },
    )
    .only_when_named(),
    row(
        "node-idle",
        "a minute with 100 pods that run: CPU, PSS, writes; needs nodes, --image and --pids, runs only when named",
        &Containers { what: containers::What::Idle },
    )
    .only_when_named(),
    row(
        "exec",
        "`true` in a running container, one after the other, each on a new connection; needs nodes and --image, runs only when named",
        &exec::Exec,
    )
    .only_when_named(),
    row(
        "node-watches",
        "100, 1,000 and 10,000 watches by spec.nodeName, 1,000 creates/s of bound pods: CPU per create; runs only when named",
        &node_watches::NodeWatches,
    )
    .only_when_named(),
    row(
        "pages",
        "list 200,000 ConfigMaps of 1 KB in pages of 500, with a write between pages; runs only when named",
        &pages::Pages,
    )
    .only_when_named(),
    row(
        "overload",
        "600 connections of 40 users without pause: latency of health checks, an administrator and nodes; runs only when named",
        &overload::Overload,
    )
    .only_when_named(),
];

/// A scenario as the command line knows it.
pub struct Row {
    pub name: &'static str,
    /// Half a line for the help.
    pub about: &'static str,
    /// Whether it runs when none is named; one that takes long does not.
    pub runs_by_default: bool,
    pub how: &'static dyn Scenario,
}

const fn row(name: &'static str, about: &'static str, how: &'static dyn Scenario) -> Row {
    Row { name, about, runs_by_default: true, how }
}

impl Row {
    const fn only_when_named(self) -> Row {
        Row { runs_by_default: false, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Requests,
    Events,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub connections: usize,
    pub warmup: Duration,
    pub measured: Duration,
    /// How many are held, or started, unless each scenario has its own number.
    pub pods: Option<u64>,
    /// Of containers that are really started.
    pub image: String,
    pub overload: OverloadSettings,
}

/// Who overloads.
#[derive(Debug, Clone)]
pub struct OverloadSettings {
    pub users: usize,
    pub connections: usize,
    /// In each user's namespace before the start.
    pub objects: u64,
    /// Users and nodes with static tokens; `None`: service accounts.
    pub token_file: Option<PathBuf>,
}

impl Settings {
    pub fn phase(&self) -> Phase {
        Phase { name: "measuring", warmup: self.warmup, measured: self.measured }
    }
}

pub trait Scenario: Sync {
    /// What the rate, the times and the CPU are counted by.
    fn unit(&self) -> Unit {
        Unit::Requests
    }

    /// Once for each server, before the rounds.
    fn prepare(&self, _site: &mut Site<'_>) -> Result<(), BenchError> {
        Ok(())
    }

    /// One round. It leaves the site as it found it.
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError>;
}

pub fn find(name: &str) -> Option<&'static Row> {
    ALL.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, row) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != row.name));
            assert!(find(row.name).is_some());
        }
        assert!(find("nothing").is_none());
    }
}
