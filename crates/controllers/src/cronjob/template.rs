//! The Job a CronJob makes for a time.

use object::{Obj, Value, time};
use timezone::Zone;

use super::plan::job_name;
use super::view::CronJob;

/// When the Job was due, in the CronJob's zone.
pub const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub fn job(obj: &Obj, cron: &CronJob, at: i64) -> Value {
    let tree = runtime::tree(obj);
    let template = |path: &[&str]| tree.at(&["spec", "jobTemplate"]).and_then(|template| template.at(path));
    let mut job = Value::map();
    let metadata = job.map_at(&["metadata"]);
    metadata.set("name", job_name(cron, at));
    for name in ["labels", "annotations"] {
        if let Some(value) = template(&["metadata", name]) {
            metadata.set(name, value.clone());
        }
    }
    let owner = runtime::owners::controller_ref("batch/v1", "CronJob", obj);
    metadata.set("ownerReferences", vec![owner]);
    let zone = cron.spec.time_zone.as_deref().and_then(|zone| Zone::load(zone).ok());
    let scheduled = rfc3339(zone.unwrap_or(Zone::UTC), at);
    job.map_at(&["metadata", "annotations"]).set(SCHEDULED, scheduled);
    if let Some(spec) = template(&["spec"]) {
        job.make_map().set("spec", spec.clone());
    }
    job
}

/// `2006-01-02T15:04:05+02:00`, or with a `Z` where the clocks show UTC.
pub fn rfc3339(zone: Zone, unix: i64) -> String {
    let offset = zone.offset(unix);
    let mut text = time::format_seconds(unix + offset);
    if offset != 0 {
        text.pop();
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
        text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    }
    text
}
