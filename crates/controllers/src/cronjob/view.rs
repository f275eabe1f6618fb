//! A CronJob as its controller reads it: made once per revision from the object, its status written back into a tree.

use std::sync::Arc;

use object::{Obj, Value, time};

#[derive(Clone, Debug, PartialEq)]
pub struct CronJob {
    pub name: String,
    pub namespace: String,
    /// Unix seconds, as all times here.
    pub created: i64,
    pub deleting: bool,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub schedule: String,
    pub time_zone: Option<String>,
    pub starting_deadline_seconds: Option<i64>,
    pub policy: Policy,
    pub suspend: bool,
    pub successful_limit: Option<i64>,
    pub failed_limit: Option<i64>,
}

/// What to do when a Job is due and another still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Allow,
    Forbid,
    Replace,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    pub active: Vec<ActiveJob>,
    pub last_schedule: Option<i64>,
    pub last_successful: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ActiveJob {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// As it stands in the status, with whatever else somebody wrote there.
    reference: Value,
}

/// The view of a CronJob's object, shared until its next revision.
pub fn cron_job_view(obj: &Obj) -> Arc<CronJob> {
    obj.view(|obj| CronJob::read(&runtime::tree(obj)))
}

impl CronJob {
    pub fn read(tree: &Value) -> CronJob {
        let text = |path: &[&str]| tree.str_at(path).unwrap_or("").to_owned();
        let empty = Value::map();
        CronJob {
            name: text(&["metadata", "name"]),
            namespace: text(&["metadata", "namespace"]),
            created: moment(tree.at(&["metadata", "creationTimestamp"])).unwrap_or(time::ZERO_SECONDS),
            deleting: tree.at(&["metadata", "deletionTimestamp"]).is_some_and(|at| !at.is_null()),
            spec: Spec::read(tree.get("spec").unwrap_or(&empty)),
            status: Status::read(tree.get("status").unwrap_or(&empty)),
        }
    }
}

impl Spec {
    fn read(spec: &Value) -> Spec {
        let int = |name: &str| spec.get(name).and_then(Value::as_int);
        Spec {
            schedule: spec.str_at(&["schedule"]).unwrap_or("").to_owned(),
            time_zone: spec.str_at(&["timeZone"]).map(str::to_owned),
            starting_deadline_seconds: int("startingDeadlineSeconds"),
            policy: match spec.str_at(&["concurrencyPolicy"]) {
                Some("Forbid") => Policy::Forbid,
                Some("Replace") => Policy::Replace,
                _ => Policy::Allow,
            },
            suspend: spec.get("suspend").and_then(Value::as_bool).unwrap_or(false),
            successful_limit: int("successfulJobsHistoryLimit"),
            failed_limit: int("failedJobsHistoryLimit"),
        }
    }
}

impl Status {
    fn read(status: &Value) -> Status {
        let active = status.get("active").and_then(Value::as_list).unwrap_or_default();
        Status {
            active: active.iter().map(ActiveJob::read).collect(),
            last_schedule: moment(status.get("lastScheduleTime")),
            last_successful: moment(status.get("lastSuccessfulTime")),
        }
    }

    /// Into the tree of the CronJob it is of.
    pub fn write(&self, tree: &mut Value) {
        let status = tree.map_at(&["status"]);
        let active = self.active.iter().map(|job| job.reference.clone()).collect();
        status.set("active", Value::List(active));
        for (name, at) in
            [("lastScheduleTime", self.last_schedule), ("lastSuccessfulTime", self.last_successful)]
        {
            if let Some(at) = at {
                status.set(name, time::format_seconds(at));
            }
        }
    }

    pub fn is_active(&self, uid: &str) -> bool {
        self.active.iter().any(|job| job.uid == uid)
    }
}

impl ActiveJob {
    /// Of a Job that was made.
    pub fn of(job: &Obj) -> ActiveJob {
        let mut reference = Value::map();
        let fields = reference.make_map();
        for (name, value) in [
            ("kind", "Job"),
            ("namespace", job.namespace()),
            ("name", job.name()),
            ("uid", job.uid()),
            ("apiVersion", "batch/v1"),
        ] {
            fields.set(name, value);
        }
        fields.set("resourceVersion", job.revision().to_string());
        ActiveJob::read(&reference)
    }

    pub fn read(reference: &Value) -> ActiveJob {
        let text = |name: &str| reference.str_at(&[name]).unwrap_or("").to_owned();
        ActiveJob {
            uid: text("uid"),
            namespace: text("namespace"),
            name: text("name"),
            reference: reference.clone(),
        }
    }
}

fn moment(value: Option<&Value>) -> Option<i64> {
    value.and_then(Value::as_str).and_then(time::parse).map(|(seconds, _)| seconds)
}
