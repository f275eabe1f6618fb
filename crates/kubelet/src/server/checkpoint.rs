//! `/checkpoint`: the state of a container that runs, as an archive among the node's files. Not every runtime can write one.

use cri::CheckpointContainerRequest;
use http::StatusCode;
use object::{Map, Value, time};

use super::answer::{self, Answer};
use super::query::Query;
use super::routes::ContainerPath;
use super::{Context, containers};

/// Below the node's directory.
pub const DIRECTORY: &str = "checkpoints";

pub async fn checkpoint(context: &Context, path: &ContainerPath, query: &Query) -> Answer {
    let ContainerPath { namespace, pod: name, container, .. } = path;
    let missing = |message: String| answer::text(StatusCode::NOT_FOUND, message);
    let Some(pod) = context.node.find(namespace, name) else {
        return missing("pod does not exist".to_owned());
    };
    if containers::spec_of(&pod, container).is_none() {
        return missing(format!("container {container} does not exist"));
    }
    // Of several the last counts.
    let timeout = match query.all("timeout").last().map(str::parse::<i64>) {
        None => 0,
        Some(Ok(seconds)) => seconds,
        Some(Err(_)) => return missing("cannot parse value of timeout parameter".to_owned()),
    };
    let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
    match write(context, &ContainerPath { uid: uid.to_owned(), ..path.clone() }, timeout).await {
        Ok(location) => {
            let mut written = Map::with_capacity(1);
            written.set("items", vec![Value::from(location)]);
            answer::json(&Value::Map(written))
        }
        Err(why) => {
            let message = format!("checkpointing of {namespace}/{name}/{container} failed ({why})");
            answer::text(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
    }
}

/// Where it is.
async fn write(context: &Context, path: &ContainerPath, timeout: i64) -> Result<String, String> {
    let told = |error: cri::Error| error.to_string();
    let ContainerPath { namespace, pod, container, .. } = path;
    let runtime = context.node.runtime();
    let id = containers::running(&*runtime, path).await.map_err(told)?;
    let container_id = id.ok_or_else(|| format!("container {container} not found"))?;
    if timeout < 0 {
        return Err("CheckpointContainer requires the timeout value to be > 0".to_owned());
    }
    let now = time::format_seconds(i64::try_from(context.env.now_seconds()).unwrap_or(0));
    let file = format!("checkpoint-{pod}_{namespace}-{container}-{now}.tar");
    let location = context.node.root_directory().join(DIRECTORY).join(file).display().to_string();
    let request = CheckpointContainerRequest { container_id, location: location.clone(), timeout };
    runtime.checkpoint_container(request).await.map_err(told)?;
    Ok(location)
}
