//! The objects that scenarios send: ConfigMaps of 1 KB and pods of 2.5 KB.

use crate::error::BenchError;
use crate::request::{Body, SLOT, STAMP};
use crate::site::Site;
use crate::stamps::STAMP_KEY;

const CONFIG_MAP_BYTES: usize = 1024;
/// 5,000 pods of this size are the list of 12.7 MB that upstream was measured with.
const POD_BYTES: usize = 2540;

/// A ConfigMap whose JSON has 1,024 bytes, with the moment of sending inside.
pub fn config_map(name: &str) -> String {
    let text = |padding: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{{STAMP_KEY}{STAMP}","padding":"{padding}"}}}}"#
        )
    };
    text(&"x".repeat(CONFIG_MAP_BYTES.saturating_sub(text("").len())))
}

/// A label that changes with every number, as a strategic merge patch.
pub const LABEL: Body<'_> = Body {
    content_type: "application/strategic-merge-patch+json",
    text: r#"{"metadata":{"labels":{"bench":"<-NUMBER->"}}}"#,
};

/// What a node says of a pod that runs, with a message that changes with every number.
pub const STATUS: Body<'_> = Body {
    content_type: "application/strategic-merge-patch+json",
    text: r#"{"status":{"phase":"Running","hostIP":"10.0.0.1","podIP":"10.1.0.1","podIPs":[{"ip":"10.1.0.1"}],"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","message":"<-NUMBER->"},{"type":"ContainersReady","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],"containerStatuses":[{"name":"web","image":"registry.example/web:1.2.3","imageID":"sha256:1","ready":true,"restartCount":0,"started":true,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"lastState":{}}]}}"#,
};

/// Creates pods `pod-<slot>`, padded so that each has 2,540 bytes in this server's answers: servers differ in what they add
/// (managedFields, defaults), and megabytes a second should not depend on it.
pub fn create_pods(site: &mut Site<'_>, count: u64) -> Result<(), BenchError> {
    let probe = site.create_one("pods", &pod("probe-pod0", "", false))?;
    let path = format!("{}/probe-pod0", site.path("pods"));
    let padding = POD_BYTES.saturating_sub(probe.trim_ascii().len());
    site.delete(&format!("{path}?gracePeriodSeconds=0"))?;
    site.create_all("pods", &pod(&format!("pod-{SLOT}"), &"x".repeat(padding), false), count)
}

/// It asks for a scheduler that does not exist, so that no node starts it where the server has nodes.
pub fn pod(name: &str, padding: &str, token: bool) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"web","tier":"front","bench":"0000000000"}},"annotations":{{"setpoint-bench/padding":"{padding}"}}}},"spec":{{"automountServiceAccountToken":{token},"schedulerName":"nobody","restartPolicy":"Always","containers":[{{"name":"web","image":"registry.example/web:1.2.3","command":["/bin/web","--listen=:8080"],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"MODE","value":"production"}},{{"name":"REGION","value":"north"}}],"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}},"limits":{{"cpu":"500m","memory":"128Mi"}}}},"readinessProbe":{{"httpGet":{{"path":"/ready","port":8080}},"periodSeconds":10}}}}]}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::NUMBER;

    #[test]
    fn config_map_has_one_kilobyte() {
        let text = config_map(&format!("c-{NUMBER}"));
        assert_eq!(text.len(), CONFIG_MAP_BYTES);
        assert!(text.contains(&format!("{STAMP_KEY}{STAMP}\"")));
    }

    #[test]
    fn each_label_has_a_number() {
        assert!(LABEL.text.contains(NUMBER) && STATUS.text.contains(NUMBER));
    }

    #[test]
    fn pod_leaves_room_for_what_servers_add() {
        assert!(pod("pod-000000", "", false).len() < POD_BYTES / 2);
    }
}
