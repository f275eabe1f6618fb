//! The range of the pods' addresses, where the cluster gives it to the node.

use std::sync::Arc;
use std::time::Duration;

use object::Value;

use super::Shared;

const AGAIN: Duration = Duration::from_secs(10);

/// Passes a new range on to the runtime. Returns at once.
pub fn node_changed(shared: &Arc<Shared>, node: &Value) {
    if !shared.parts.config.pod_cidr.is_empty() {
        return;
    }
    let Some(cidr) = of_node(node) else { return };
    if std::mem::replace(&mut *shared.pod_cidr.lock(), cidr.clone()) == cidr {
        return;
    }
    let (env, weak) = (shared.parts.env.clone(), Arc::downgrade(shared));
    env.spawn("pod CIDR", async move {
        // Until it is done, or another one is asked for.
        while let Some(shared) = weak.upgrade().filter(|shared| *shared.pod_cidr.lock() == cidr) {
            let network_config = Some(cri::NetworkConfig { pod_cidr: cidr.clone() });
            let runtime_config = Some(cri::RuntimeConfig { network_config });
            let request = cri::UpdateRuntimeConfigRequest { runtime_config };
            match shared.parts.cri.update_runtime_config(request).await {
                Ok(_) => {
                    shared.parts.runtime_state.ask_now();
                    return tracing::info!(cidr, "pods get their addresses from the node's range");
                }
                Err(error) => tracing::error!(cidr, %error, "failed to set the range of the pods' addresses"),
            }
            let env = shared.parts.env.clone();
            drop(shared);
            env.sleep(AGAIN).await;
        }
    });
}

/// All ranges, one of each family, as CRI has them in one text.
fn of_node(node: &Value) -> Option<String> {
    let all = node.at(&["spec", "podCIDRs"]).and_then(Value::as_list).unwrap_or_default();
    let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
    let first = || node.str_at(&["spec", "podCIDR"]).map(str::to_owned);
    let cidr = if all.is_empty() { first() } else { Some(all.join(",")) };
    cidr.filter(|cidr| !cidr.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_names_its_ranges() {
        let of = |spec: &str| of_node(&runtime::parse(&format!("{{spec: {spec}}}")).unwrap());
        assert_eq!(of("{}"), None);
        assert_eq!(of("{podCIDR: ''}"), None);
        assert_eq!(of("{podCIDR: 10.0.0.0/24}"), Some("10.0.0.0/24".to_owned()));
        let dual = of("{podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24, 'fd00::/64']}");
        assert_eq!(dual, Some("10.0.0.0/24,fd00::/64".to_owned()));
    }
}
