//! Which run of a container has the log that is asked for, by the pod's status.

use object::Value;

/// Its id, as the status has it; otherwise why there is no log.
pub fn container_id(pod: &Value, container: &str, previous: bool) -> Result<String, String> {
    let name = pod.str_at(&["metadata", "name"]).unwrap_or_default();
    let of = format!("container {container:?} in pod {name:?}");
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let status = lists.iter().find_map(|list| {
        let statuses = pod.at(&["status", list])?.as_list()?;
        statuses.iter().find(|status| status.str_at(&["name"]) == Some(container))
    });
    let status = status.ok_or_else(|| format!("{of} is not available"))?;
    let state = |path: &[&str]| status.at(path).filter(|state| state.as_map().is_some());
    let id = |state: Option<&Value>| {
        let id = state.and_then(|state| state.str_at(&["containerID"])).unwrap_or_default();
        (!id.is_empty()).then(|| id.to_owned())
    };
    let (last, terminated) = (state(&["lastState", "terminated"]), state(&["state", "terminated"]));
    let is_terminated = || format!("{of} is terminated");
    if previous {
        let missing = || format!("previous terminated container {container:?} in pod {name:?} not found");
        return id(last).ok_or_else(missing);
    }
    if state(&["state", "running"]).is_some() {
        return Ok(status.str_at(&["containerID"]).unwrap_or_default().to_owned());
    }
    if terminated.is_some() {
        // The next run could not be started: the log is that of the one before.
        return id(terminated).or_else(|| id(last)).ok_or_else(is_terminated);
    }
    if last.is_some() {
        return id(last).ok_or_else(is_terminated);
    }
    let Some(waiting) = state(&["state", "waiting"]) else {
        return Err(format!("{of} is waiting to start - no logs yet"));
    };
    let why = match waiting.str_at(&["reason"]).unwrap_or_default() {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    };
    Err(format!("{of} is waiting to start: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn which(status: &str, previous: bool) -> Result<String, String> {
        let text = format!(
            r#"{{"metadata":{{"name":"p"}},"status":{{"containerStatuses":[{{"name":"c","containerID":"x://now",{status}}}]}}}}"#
        );
        container_id(&codec::json::parse(text.as_bytes(), None).unwrap(), "c", previous)
    }

    #[test]
    fn the_state_tells_which_run_has_the_log() {
        let last = r#""lastState":{"terminated":{"containerID":"x://before"}}"#;
        let running = format!(r#""state":{{"running":{{}}}},{last}"#);
        assert_eq!(which(&running, false).unwrap(), "x://now");
        assert_eq!(which(&running, true).unwrap(), "x://before");
        let ended = r#""state":{"terminated":{"containerID":"x://now"}}"#;
        assert_eq!(which(ended, false).unwrap(), "x://now");
        let crashing = format!(r#""state":{{"waiting":{{"reason":"CrashLoopBackOff"}}}},{last}"#);
        assert_eq!(which(&crashing, false).unwrap(), "x://before");
        let not_started = format!(r#""state":{{"terminated":{{"containerID":""}}}},{last}"#);
        assert_eq!(which(&not_started, false).unwrap(), "x://before");
    }

    #[test]
    fn without_a_run_the_reason_is_told() {
        let waiting =
            |reason: &str| which(&format!(r#""state":{{"waiting":{{"reason":"{reason}"}}}}"#), false);
        let of = r#"container "c" in pod "p" is "#;
        assert_eq!(
            waiting("ErrImagePull").unwrap_err(),
            format!("{of}waiting to start: image can't be pulled")
        );
        assert_eq!(
            waiting("ImagePullBackOff").unwrap_err(),
            format!("{of}waiting to start: trying and failing to pull image")
        );
        assert_eq!(waiting("PodInitializing").unwrap_err(), format!("{of}waiting to start: PodInitializing"));
        assert_eq!(which(r#""state":{}"#, false).unwrap_err(), format!("{of}waiting to start - no logs yet"));
        assert_eq!(which(r#""state":{"terminated":{}}"#, false).unwrap_err(), format!("{of}terminated"));
        assert_eq!(
            which(r#""state":{"running":{}}"#, true).unwrap_err(),
            r#"previous terminated container "c" in pod "p" not found"#
        );
        let none = codec::json::parse(br#"{"metadata":{"name":"p"}}"#, None).unwrap();
        assert_eq!(container_id(&none, "c", false).unwrap_err(), format!("{of}not available"));
    }
}
