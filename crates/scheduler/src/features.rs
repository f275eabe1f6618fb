//! Features of nodes that pods need: what a pod's spec asks for, and what a node declares.

use object::Value;

use crate::read::{list, text};

/// Features a pod can ask for, a bit each in this order.
const NAMES: [&str; 2] = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"];
const RESTART_ALL: u8 = 1;
const USER_NAMESPACES_HOST_NETWORK: u8 = 2;

/// A set of [`NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(u8);

impl Features {
    /// What a pod with this spec needs of its node.
    pub fn needed(spec: Option<&Value>) -> Features {
        let restarts_all = |container: &Value| {
            let mut rules = list(Some(container), "restartPolicyRules").iter();
            rules.any(|rule| text(rule, "action") == "RestartAllContainers")
        };
        let mut containers = list(spec, "containers").iter().chain(list(spec, "initContainers"));
        let flag = |name: &str| spec.and_then(|s| s.get(name)).and_then(Value::as_bool);
        let mut bits = 0;
        if containers.any(restarts_all) {
            bits |= RESTART_ALL;
        }
        if flag("hostNetwork") == Some(true) && flag("hostUsers") == Some(false) {
            bits |= USER_NAMESPACES_HOST_NETWORK;
        }
        Features(bits)
    }

    /// Those of the declared ones that pods can need.
    pub fn declared<'a>(names: impl Iterator<Item = &'a str>) -> Features {
        let bit = |name: &str| NAMES.iter().position(|known| *known == name).map_or(0, |at| 1 << at);
        Features(names.fold(0, |bits, name| bits | bit(name)))
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn within(self, declared: Features) -> bool {
        self.0 & !declared.0 == 0
    }
}
