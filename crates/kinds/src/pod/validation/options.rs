//! What an update tolerates because the stored object already has it: newer rules must not block updates of old objects.

use object::{Value, validate_text};

use super::{affinity, annotations, containers_of, resources, scheduling, security};
use crate::check::{Errors, Path, flag, items, member, text, texts};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// A pod, not the template of one.
    pub is_pod: bool,
    pub bad_deletion_cost: bool,
    /// Values of label selectors in affinities.
    pub bad_selector_values: bool,
    pub bad_node_affinity_values: bool,
    pub bad_spread_selectors: bool,
    pub bad_match_label_keys: bool,
    pub odd_huge_pages: bool,
    pub nonlocal_token_path: bool,
    pub host_sysctls: bool,
    pub any_selinux_change_policy: bool,
    pub restart_container_policy: bool,
    pub user_namespace_devices: bool,
    pub user_namespace_host_network: bool,
    pub comparison_operators: bool,
}

impl Options {
    pub(super) fn for_pod(old: Option<&Value>) -> Options {
        let mut options = old.map(Options::from_old).unwrap_or_default();
        options.is_pod = true;
        options
    }

    /// For the template of a workload.
    pub(crate) fn for_template(old: Option<&Value>) -> Options {
        old.map(Options::from_old).unwrap_or_default()
    }

    fn from_old(old: &Value) -> Options {
        let spec = old.get("spec").unwrap_or(&Value::Null);
        let at = Path::Root("");
        let fails = |rule: &dyn Fn(&mut Errors)| {
            let mut errors = Errors::default();
            rule(&mut errors);
            !errors.is_empty()
        };
        let spread = items(spec, "topologySpreadConstraints");
        let user_namespace = member(spec, "hostUsers").and_then(Value::as_bool) == Some(false);
        let annotations = old.at(&["metadata", "annotations"]);
        Options {
            is_pod: false,
            bad_deletion_cost: annotations::bad_deletion_cost(annotations).is_some(),
            bad_selector_values: affinity::has_bad_selector_values(spec),
            bad_node_affinity_values: affinity::has_bad_node_values(spec),
            bad_spread_selectors: spread
                .iter()
                .any(|c| fails(&|errors| errors.label_selector(&at, c.get("labelSelector")))),
            bad_match_label_keys: spread
                .iter()
                .any(|c| fails(&|errors| affinity::label_keys(c, &at, errors))),
            odd_huge_pages: containers_of(spec)
                .any(|(_, _, c)| resources::has_odd_huge_pages(c.get("resources").unwrap_or(&Value::Null))),
            nonlocal_token_path: has_nonlocal_token_path(spec),
            host_sysctls: fails(&|errors| security::host_sysctls(spec, &at, errors)),
            any_selinux_change_policy: spec.at(&["securityContext", "seLinuxChangePolicy"]).is_some(),
            restart_container_policy: items(spec, "initContainers").iter().any(|c| {
                text(c, "restartPolicy") != "Always"
                    && items(c, "resizePolicy").iter().any(|p| text(p, "restartPolicy") == "RestartContainer")
            }),
            user_namespace_devices: user_namespace
                && containers_of(spec).any(|(_, _, c)| !items(c, "volumeDevices").is_empty()),
            user_namespace_host_network: user_namespace && flag(spec, "hostNetwork"),
            comparison_operators: scheduling::compares(items(spec, "tolerations")),
        }
    }
}

fn has_nonlocal_token_path(spec: &Value) -> bool {
    let sources = items(spec, "volumes").iter().filter_map(|v| member(v, "projected"));
    sources.flat_map(|p| items(p, "sources")).filter_map(|s| member(s, "serviceAccountToken")).any(|token| {
        let path = text(token, "path");
        path.starts_with("..") || path.starts_with('/') || path.split('/').any(|part| part == "..")
    })
}

/// Whether an expression of a selector has an invalid label value.
pub(super) fn bad_values(selector: Option<&Value>) -> bool {
    let expressions = selector.map(|s| items(s, "matchExpressions")).unwrap_or_default();
    expressions.iter().any(|e| texts(e, "values").any(|v| !validate_text::label_value(v).is_empty()))
}
