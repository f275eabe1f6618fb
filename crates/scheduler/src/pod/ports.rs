//! Ports of the node a pod takes for itself.

use object::Value;

use crate::read::{int, list, text};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// `0.0.0.0` is every address.
    pub ip: String,
    pub protocol: String,
    pub port: i64,
}

const ALL: &str = "0.0.0.0";

/// Those of the containers, and of init containers that keep running.
pub fn host_ports(spec: Option<&Value>) -> Vec<HostPort> {
    let sidecars = list(spec, "initContainers").iter().filter(|c| text(c, "restartPolicy") == "Always");
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    sidecars
        .chain(list(spec, "containers"))
        .flat_map(|c| list(Some(c), "ports"))
        .filter_map(|p| {
            let port = int(p, "hostPort").filter(|port| *port > 0)?;
            Some(HostPort { ip: or(text(p, "hostIP"), ALL), protocol: or(text(p, "protocol"), "TCP"), port })
        })
        .collect()
}

/// Whether one of the wanted ports is taken.
pub fn conflict<'a>(wanted: &[HostPort], used: impl Iterator<Item = &'a HostPort> + Clone) -> bool {
    wanted.iter().any(|want| {
        used.clone().any(|have| {
            want.port == have.port
                && want.protocol == have.protocol
                && (want.ip == ALL || have.ip == ALL || want.ip == have.ip)
        })
    })
}
