//! The pods of a Job, made from its template.

use object::{Map, Obj, Value};

use super::plan::New;
use super::pods::{FAILURES, FINALIZER, IGNORED_FAILURES, INDEX};

/// Longer names leave no room for the suffix the server adds.
const LONGEST_PREFIX: usize = 58;

/// What all pods of one reconcile have in common.
pub struct Template {
    job: String,
    pod: Value,
}

impl Template {
    pub fn of(job: &Obj) -> Template {
        let tree = runtime::tree(job);
        let empty = Value::map();
        let template = tree.at(&["spec", "template"]).unwrap_or(&empty);
        let mut metadata = Map::default();
        for name in ["labels", "annotations"] {
            if let Some(map) = template.at(&["metadata", name]) {
                metadata.set(name, map.clone());
            }
        }
        let listed = template.at(&["metadata", "finalizers"]).and_then(Value::as_list);
        let mut finalizers = listed.unwrap_or_default().to_vec();
        if !finalizers.iter().any(|f| f.as_str() == Some(FINALIZER)) {
            finalizers.push(FINALIZER.into());
        }
        metadata.set("finalizers", finalizers);
        metadata.set("generateName", format!("{}-", job.name()));
        let owner = runtime::owners::controller_ref("batch/v1", "Job", job);
        metadata.set("ownerReferences", vec![owner]);
        let mut spec = template.get("spec").cloned().unwrap_or_else(Value::map);
        if tree.str_at(&["spec", "completionMode"]) == Some("Indexed") {
            tell_index(&mut spec);
        }
        let mut pod = Value::map();
        pod.make_map().set("metadata", Value::Map(metadata));
        pod.make_map().set("spec", spec);
        Template { job: job.name().to_owned(), pod }
    }

    pub fn pod(&self, new: &New) -> Value {
        let mut pod = self.pod.clone();
        let Some(index) = new.index else { return pod };
        pod.map_at(&["metadata", "annotations"]).set(INDEX, index.to_string());
        pod.map_at(&["metadata", "labels"]).set(INDEX, index.to_string());
        pod.map_at(&["metadata"]).set("generateName", prefix(&self.job, index));
        pod.map_at(&["spec"]).set("hostname", format!("{}-{index}", self.job));
        if let Some((failures, ignored)) = new.failures {
            let annotations = pod.map_at(&["metadata", "annotations"]);
            annotations.set(FAILURES, failures.to_string());
            if ignored > 0 {
                annotations.set(IGNORED_FAILURES, ignored.to_string());
            }
        }
        pod
    }
}

/// The name of the Job gives way to the index, not the other way round.
pub fn prefix(job: &str, index: u32) -> String {
    let end = format!("-{index}-");
    let room = LONGEST_PREFIX - end.len();
    // Names are ASCII.
    format!("{}{end}", job.get(..room).unwrap_or(job))
}

/// Containers learn their index from the environment, unless they have something of that name.
fn tell_index(spec: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    for list in ["initContainers", "containers"] {
        let Some(Value::List(containers)) = spec.make_map().get_mut(list) else { continue };
        for container in containers {
            let env = container.make_map().entry("env".into());
            let mut variables = env.as_list().unwrap_or_default().to_vec();
            if !variables.iter().any(|v| v.str_at(&["name"]) == Some(NAME)) {
                let mut variable = Value::map();
                variable.make_map().set("name", NAME);
                let field = variable.map_at(&["valueFrom", "fieldRef"]);
                field.set("fieldPath", format!("metadata.labels['{INDEX}']"));
                variables.push(variable);
            }
            *env = Value::List(variables);
        }
    }
}
