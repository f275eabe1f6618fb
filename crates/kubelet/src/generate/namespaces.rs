//! Which namespaces the containers of a pod share, with each other or with the host.

use cri::NamespaceMode;
use object::Value;

use crate::generate::NodeView;
use crate::generate::read::{flag, text};

/// Users of the host that stand for those of a pod, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    pub host_id: u32,
    pub length: u32,
}

/// Gives each pod a range of its own, the same one as long as it lives.
pub trait UserNamespaces: Send + Sync {
    fn range(&self, pod_uid: &str) -> Result<IdRange, String>;
}

pub(super) fn namespace_options(pod: &Value, node: &NodeView<'_>) -> Result<cri::NamespaceOption, String> {
    let host = |name: &str| flag(pod, &["spec", name]).unwrap_or(false);
    let pod_or_node = |name: &str| if host(name) { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = if host("hostPID") {
        NamespaceMode::Node
    } else if host("shareProcessNamespace") {
        NamespaceMode::Pod
    } else {
        NamespaceMode::Container
    };
    Ok(cri::NamespaceOption {
        network: pod_or_node("hostNetwork") as i32,
        pid: pid as i32,
        ipc: pod_or_node("hostIPC") as i32,
        target_id: String::new(),
        userns_options: Some(user_namespace(pod, node)?),
    })
}

/// The pod is not to have the users of the host.
pub fn has_own_users(pod: &Value) -> bool {
    !flag(pod, &["spec", "hostUsers"]).unwrap_or(true)
}

fn user_namespace(pod: &Value, node: &NodeView<'_>) -> Result<cri::UserNamespace, String> {
    if !has_own_users(pod) {
        return Ok(cri::UserNamespace { mode: NamespaceMode::Node as i32, ..Default::default() });
    }
    let Some(ranges) = node.user_namespaces else {
        let who = match node.runtime_handler {
            "" => "runtime".to_owned(),
            handler => format!("RuntimeClass handler {}", object::quote(handler)),
        };
        return Err(format!("can't set `spec.hostUsers: false`, {who} does not support user namespaces"));
    };
    let range = ranges.range(text(pod, &["metadata", "uid"]));
    let range = range.map_err(|error| format!("create user namespace: {error}"))?;
    let mapping = vec![cri::IDMapping { host_id: range.host_id, container_id: 0, length: range.length }];
    Ok(cri::UserNamespace { mode: NamespaceMode::Pod as i32, uids: mapping.clone(), gids: mapping })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::{config, pod, resolv};

    struct Ranges;
    impl UserNamespaces for Ranges {
        fn range(&self, pod_uid: &str) -> Result<IdRange, String> {
            assert_eq!(pod_uid, "1234");
            Ok(IdRange { host_id: 65_536, length: 65_536 })
        }
    }

    #[test]
    fn containers_share_what_the_pod_says() {
        let (config, resolv) = (config(), resolv());
        let node = NodeView::new(&config, &resolv);
        use NamespaceMode::{Container, Node, Pod};
        for (spec, network, pid, ipc) in [
            ("{}", Pod, Container, Pod),
            (r#"{"hostNetwork":true}"#, Node, Container, Pod),
            (r#"{"hostIPC":true}"#, Pod, Container, Node),
            (r#"{"hostPID":true,"shareProcessNamespace":true}"#, Pod, Node, Pod),
            (r#"{"shareProcessNamespace":true}"#, Pod, Pod, Pod),
            (r#"{"hostUsers":true}"#, Pod, Container, Pod),
        ] {
            let options = namespace_options(&pod(spec), &node).unwrap();
            assert_eq!(
                (options.network, options.pid, options.ipc),
                (network as i32, pid as i32, ipc as i32),
                "{spec}"
            );
            assert_eq!(options.userns_options.unwrap().mode, Node as i32, "{spec}");
        }
    }

    #[test]
    fn users_of_its_own_need_a_runtime_that_has_them() {
        let (config, resolv) = (config(), resolv());
        let own = pod(r#"{"hostUsers":false}"#);
        assert_eq!(
            namespace_options(&own, &NodeView::new(&config, &resolv)),
            Err("can't set `spec.hostUsers: false`, runtime does not support user namespaces".to_owned())
        );
        let node = NodeView { runtime_handler: "kata", ..NodeView::new(&config, &resolv) };
        let told = "can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces";
        assert_eq!(namespace_options(&own, &node), Err(told.to_owned()));
        let node = NodeView { user_namespaces: Some(&Ranges), ..NodeView::new(&config, &resolv) };
        let users = namespace_options(&own, &node).unwrap().userns_options.unwrap();
        assert_eq!((users.mode, users.uids[0].host_id, users.gids[0].length), (0, 65_536, 65_536));
    }
}
