//! What is written on sandboxes and containers: how an agent that comes back, and whoever looks at the runtime, knows what is what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::Value;

use crate::generate::read::{int, list, present, string_map, text};

pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
const HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";

/// Of a container, read back from what is written on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerInfo {
    pub hash: u64,
    pub restart_count: u32,
    pub deletion_grace_seconds: Option<i64>,
    pub termination_grace_seconds: Option<i64>,
    pub termination_message_path: String,
    pub termination_message_policy: String,
    pub pre_stop: Option<Value>,
    pub ports: Option<Value>,
}

impl ContainerInfo {
    /// What is missing or cannot be read is left at its default: the container may be another's, or of another time.
    pub fn read(annotations: &BTreeMap<String, String>) -> ContainerInfo {
        let get = |name: &str| annotations.get(name).map(String::as_str);
        let tree = |name: &str| codec::json::parse(get(name)?.as_bytes(), None).ok();
        let number = |name: &str| get(name)?.parse::<i64>().ok();
        ContainerInfo {
            hash: get(HASH).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0),
            restart_count: get(RESTART_COUNT).and_then(|text| text.parse().ok()).unwrap_or(0),
            deletion_grace_seconds: number(DELETION_GRACE),
            termination_grace_seconds: number(TERMINATION_GRACE),
            termination_message_path: get(MESSAGE_PATH).unwrap_or("").to_owned(),
            termination_message_policy: get(MESSAGE_POLICY).unwrap_or("").to_owned(),
            pre_stop: tree(PRE_STOP),
            ports: tree(PORTS),
        }
    }
}

/// Changes with what a running container must be replaced for: its image. (FNV-1a of name and image.)
pub fn container_hash(container: &Value) -> u64 {
    let parts = [text(container, &["name"]), "\0", text(container, &["image"])];
    let bytes = parts.iter().flat_map(|part| part.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u64::from(hash)
}

/// Those of the pod, and who it is.
pub fn of_sandbox(pod: &Value) -> BTreeMap<String, String> {
    let mut labels = string_map(pod, &["metadata", "labels"]);
    labels.extend(identity(pod));
    labels
}

pub fn of_container(pod: &Value, container: &Value) -> BTreeMap<String, String> {
    let mut labels = identity(pod);
    labels.insert(CONTAINER_NAME.to_owned(), text(container, &["name"]).to_owned());
    labels
}

/// `more` is what devices ask for; the agent's own come first.
pub fn annotations_of_container(
    pod: &Value,
    container: &Value,
    restart_count: u32,
    more: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut all = more.clone();
    let mut set = |name: &str, value: String| {
        all.insert(name.to_owned(), value);
    };
    set(HASH, format!("{:x}", container_hash(container)));
    set(RESTART_COUNT, restart_count.to_string());
    set(MESSAGE_PATH, text(container, &["terminationMessagePath"]).to_owned());
    set(MESSAGE_POLICY, text(container, &["terminationMessagePolicy"]).to_owned());
    if let Some(grace) = int(pod, &["metadata", "deletionGracePeriodSeconds"]) {
        set(DELETION_GRACE, grace.to_string());
    }
    if let Some(grace) = int(pod, &["spec", "terminationGracePeriodSeconds"]) {
        set(TERMINATION_GRACE, grace.to_string());
    }
    let json = |value: &Value| String::from_utf8_lossy(&codec::json::to_vec(value)).into_owned();
    if let Some(hook) = present(container, &["lifecycle", "preStop"]) {
        set(PRE_STOP, json(hook));
    }
    if let Some(ports) = container.get("ports").filter(|_| !list(container, &["ports"]).is_empty()) {
        set(PORTS, json(ports));
    }
    all
}

/// `NAMESPACE_NAME_UID` below the directory of all logs.
pub fn log_directory(logs: &Path, pod: &Value) -> PathBuf {
    let meta = |name: &str| text(pod, &["metadata", name]);
    logs.join(format!("{}_{}_{}", meta("namespace"), meta("name"), meta("uid")))
}

/// Below the pod's own: one file for each run.
pub fn log_path(container: &str, restart_count: u32) -> String {
    format!("{container}/{restart_count}.log")
}

fn identity(pod: &Value) -> BTreeMap<String, String> {
    let meta = |name: &str| text(pod, &["metadata", name]).to_owned();
    [(POD_NAME, meta("name")), (POD_NAMESPACE, meta("namespace")), (POD_UID, meta("uid"))]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::{pod, value};

    #[test]
    fn a_sandbox_has_the_pods_labels_and_its_identity() {
        let labels = of_sandbox(&pod("{}"));
        let all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            all,
            [
                "app=web",
                "io.kubernetes.pod.name=web",
                "io.kubernetes.pod.namespace=shop",
                "io.kubernetes.pod.uid=1234"
            ]
        );
    }

    #[test]
    fn a_container_is_known_again_by_its_annotations() {
        let mut pod = pod(r#"{"terminationGracePeriodSeconds":5}"#);
        pod.map_at(&["metadata"]).set("deletionGracePeriodSeconds", 7);
        let container = value(
            r#"{"name":"c","image":"i","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
                "lifecycle":{"preStop":{"exec":{"command":["bye"]}}},"ports":[{"containerPort":80,"protocol":"TCP"}]}"#,
        );
        let more =
            BTreeMap::from([("vendor".to_owned(), "x".to_owned()), (HASH.to_owned(), "lie".to_owned())]);
        let annotations = annotations_of_container(&pod, &container, 3, &more);
        assert_eq!(annotations["vendor"], "x");
        assert_eq!(annotations[PRE_STOP], r#"{"exec":{"command":["bye"]}}"#);
        assert_eq!(
            ContainerInfo::read(&annotations),
            ContainerInfo {
                hash: container_hash(&container),
                restart_count: 3,
                deletion_grace_seconds: Some(7),
                termination_grace_seconds: Some(5),
                termination_message_path: "/dev/termination-log".to_owned(),
                termination_message_policy: "File".to_owned(),
                pre_stop: Some(value(r#"{"exec":{"command":["bye"]}}"#)),
                ports: Some(value(r#"[{"containerPort":80,"protocol":"TCP"}]"#)),
            }
        );
        assert_eq!(of_container(&pod, &container)[CONTAINER_NAME], "c");
    }

    #[test]
    fn what_is_not_ours_reads_as_nothing() {
        let strange =
            BTreeMap::from([(HASH.to_owned(), "zz".to_owned()), (PORTS.to_owned(), "{".to_owned())]);
        assert_eq!(ContainerInfo::read(&strange), ContainerInfo::default());
    }

    #[test]
    fn the_hash_is_of_name_and_image_only() {
        let hash = |json: &str| container_hash(&value(json));
        let before = hash(r#"{"name":"c","image":"i:1"}"#);
        assert_eq!(hash(r#"{"name":"c","image":"i:1","env":[{"name":"A","value":"b"}]}"#), before);
        assert_ne!(hash(r#"{"name":"c","image":"i:2"}"#), before);
        assert_ne!(hash(r#"{"name":"d","image":"i:1"}"#), before);
    }

    #[test]
    fn logs_have_a_directory_for_each_pod_and_a_file_for_each_run() {
        assert_eq!(
            log_directory(Path::new("/var/log/pods"), &pod("{}")),
            Path::new("/var/log/pods/shop_web_1234")
        );
        assert_eq!(log_path("c", 2), "c/2.log");
    }
}
