//! What an agent reads of a pod: borrowed from its tree, once a reconcile.

mod requests;
pub mod resources;

pub use requests::Requests;

use object::{Value, time};

/// A pod bound to the node.
pub struct Pod<'a> {
    pub tree: &'a Value,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub generation: i64,
    /// Being deleted, with this grace.
    pub deletion: Option<i64>,
    pub grace_seconds: i64,
    pub restart: Restart,
    /// Init containers first, in their order; those that come to a running pod last, so that nobody's place changes.
    pub containers: Vec<Container<'a>>,
    pub host_network: bool,
    /// Unix seconds of `status.startTime`: a node took the pod.
    pub started: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub phase: &'a str,
}

pub struct Container<'a> {
    pub spec: &'a Value,
    pub name: &'a str,
    pub image: &'a str,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next begins.
    Init,
    /// An init container that goes on beside the others.
    Sidecar,
    Main,
    /// Put into a pod that is there, to look at it; started once, and nothing waits for it.
    Ephemeral,
}

impl Role {
    pub fn is_init(self) -> bool {
        matches!(self, Role::Init | Role::Sidecar)
    }
    /// Where the pod's spec has them, and where its status does.
    pub fn lists(self) -> (&'static str, &'static str) {
        match self {
            Role::Init | Role::Sidecar => ("initContainers", "initContainerStatuses"),
            Role::Main => ("containers", "containerStatuses"),
            Role::Ephemeral => ("ephemeralContainers", "ephemeralContainerStatuses"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    fn read(text: Option<&str>) -> Option<Restart> {
        match text? {
            "Never" => Some(Restart::Never),
            "OnFailure" => Some(Restart::OnFailure),
            _ => Some(Restart::Always),
        }
    }
}

impl<'a> Pod<'a> {
    pub fn read(tree: &'a Value) -> Pod<'a> {
        let text = |path: &[&str]| tree.str_at(path).unwrap_or("");
        let int = |path: &[&str]| tree.at(path).and_then(Value::as_int);
        let of = |list: &str, role: fn(&Value) -> Role| {
            let all = tree.at(&["spec", list]).and_then(Value::as_list).unwrap_or_default();
            let read = move |spec: &'a Value| Container {
                spec,
                name: spec.str_at(&["name"]).unwrap_or(""),
                image: spec.str_at(&["image"]).unwrap_or(""),
                role: role(spec),
            };
            all.iter().map(read)
        };
        let init = |spec: &Value| match spec.str_at(&["restartPolicy"]) {
            Some("Always") => Role::Sidecar,
            _ => Role::Init,
        };
        let grace_seconds = int(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
        Pod {
            tree,
            namespace: text(&["metadata", "namespace"]),
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            generation: int(&["metadata", "generation"]).unwrap_or(0),
            deletion: tree
                .at(&["metadata", "deletionTimestamp"])
                .map(|_| int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(grace_seconds)),
            grace_seconds,
            restart: Restart::read(tree.str_at(&["spec", "restartPolicy"])).unwrap_or(Restart::Always),
            containers: of("initContainers", init)
                .chain(of("containers", |_| Role::Main))
                .chain(of("ephemeralContainers", |_| Role::Ephemeral))
                .collect(),
            host_network: tree.at(&["spec", "hostNetwork"]).and_then(Value::as_bool).unwrap_or(false),
            started: tree.str_at(&["status", "startTime"]).and_then(time::parse).map(|(seconds, _)| seconds),
            active_deadline_seconds: int(&["spec", "activeDeadlineSeconds"]),
            phase: text(&["status", "phase"]),
        }
    }

    /// Succeeded or failed, as the API says: it never runs again.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, "Succeeded" | "Failed")
    }

    pub fn annotations(&self) -> Option<&'a Value> {
        self.tree.at(&["metadata", "annotations"])
    }

    /// It comes from a file of the node, not from the API.
    pub fn is_static(&self) -> bool {
        let source = self.annotations().and_then(|all| all.str_at(&["kubernetes.io/config.source"]));
        source.is_some_and(|source| source != "api")
    }

    pub fn has_init_containers(&self) -> bool {
        self.containers.iter().any(|c| c.role.is_init())
    }

    /// Is there a container whose end may take all others along?
    pub fn may_restart_all(&self) -> bool {
        let asks = |rule: &Value| rule.str_at(&["action"]) == Some("RestartAllContainers");
        self.containers.iter().any(|container| container.rules().iter().any(asks))
    }

    /// `name_namespace(uid)`, as kubelet's messages have it.
    pub fn described(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }

    /// Is a container that ended so started again? Its own rules first, then its policy, then the pod's.
    pub fn restarts(&self, container: &Container<'_>, code: i32) -> bool {
        match container.role {
            Role::Sidecar => return true,
            Role::Ephemeral => return false,
            Role::Init | Role::Main => {}
        }
        if matches!(container.rule(code), Some("Restart" | "RestartAllContainers")) {
            return true;
        }
        match self.policy(container) {
            // An init container that is done is done.
            Restart::Always => container.role == Role::Main || code != 0,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        }
    }

    /// Is a container that the node ends, and that so has no exit code for its rules, started again?
    pub fn restarts_by_policy(&self, container: &Container<'_>) -> bool {
        self.policy(container) != Restart::Never
    }

    /// The container's own, or the pod's.
    pub fn policy(&self, container: &Container<'_>) -> Restart {
        Restart::read(container.spec.str_at(&["restartPolicy"])).unwrap_or(self.restart)
    }
}

impl<'a> Container<'a> {
    /// Does its end take all other containers along?
    pub fn restarts_all(&self, code: i32) -> bool {
        self.rule(code) == Some("RestartAllContainers")
    }

    /// What the first rule that is about such an end asks for.
    fn rule(&self, code: i32) -> Option<&'a str> {
        self.rules().iter().find(|rule| rule_applies(rule, code))?.str_at(&["action"])
    }

    fn rules(&self) -> &'a [Value] {
        self.spec.get("restartPolicyRules").and_then(Value::as_list).unwrap_or_default()
    }
}

fn rule_applies(rule: &Value, code: i32) -> bool {
    let Some(codes) = rule.get("exitCodes") else { return false };
    let values = codes.get("values").and_then(Value::as_list).unwrap_or_default();
    let listed = values.iter().any(|v| v.as_int() == Some(i64::from(code)));
    match codes.str_at(&["operator"]) {
        Some("In") => listed,
        Some("NotIn") => !listed,
        _ => false,
    }
}

/// A uid in sixteen bytes. Uids the API server made are UUIDs; others are folded, and as good as never meet.
pub fn short_uid(uid: &str) -> u128 {
    let digits: String = uid.chars().filter(|c| *c != '-').collect();
    if digits.len() == 32
        && let Ok(number) = u128::from_str_radix(&digits, 16)
    {
        return number;
    }
    // FNV-1a.
    uid.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
