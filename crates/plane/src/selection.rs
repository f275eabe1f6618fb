//! Which controllers run: the words of kube-controller-manager's `--controllers`.

use controllers::{CONTROLLERS, OFF_BY_DEFAULT};

/// The scheduler is one of the controllers as far as choosing goes.
pub const SCHEDULER: &str = "scheduler";

/// The names kube-controller-manager had for them before, which manifests still use (kubeadm's above all).
const ALIASES: [(&str, &str); 36] = [
    ("bootstrapsigner", "bootstrap-signer-controller"),
    ("clusterrole-aggregation", "clusterrole-aggregation-controller"),
    ("cronjob", "cronjob-controller"),
    ("csrapproving", "certificatesigningrequest-approving-controller"),
    ("csrcleaner", "certificatesigningrequest-cleaner-controller"),
    ("csrsigning", "certificatesigningrequest-signing-controller"),
    ("daemonset", "daemonset-controller"),
    ("deployment", "deployment-controller"),
    ("disruption", "disruption-controller"),
    ("endpoint", "endpoints-controller"),
    ("endpointslice", "endpointslice-controller"),
    ("endpointslicemirroring", "endpointslice-mirroring-controller"),
    ("ephemeral-volume", "ephemeral-volume-controller"),
    ("garbagecollector", "garbage-collector-controller"),
    ("horizontalpodautoscaling", "horizontal-pod-autoscaler-controller"),
    ("job", "job-controller"),
    ("legacy-service-account-token-cleaner", "legacy-serviceaccount-token-cleaner-controller"),
    ("namespace", "namespace-controller"),
    ("nodeipam", "node-ipam-controller"),
    ("nodelifecycle", "node-lifecycle-controller"),
    ("persistentvolume-binder", "persistentvolume-binder-controller"),
    ("persistentvolume-expander", "persistentvolume-expander-controller"),
    ("podgc", "pod-garbage-collector-controller"),
    ("pv-protection", "persistentvolume-protection-controller"),
    ("pvc-protection", "persistentvolumeclaim-protection-controller"),
    ("replicaset", "replicaset-controller"),
    ("replicationcontroller", "replicationcontroller-controller"),
    ("resource-claim-controller", "resourceclaim-controller"),
    ("resourcequota", "resourcequota-controller"),
    ("root-ca-cert-publisher", "root-ca-certificate-publisher-controller"),
    ("serviceaccount", "serviceaccount-controller"),
    ("serviceaccount-token", "serviceaccount-token-controller"),
    ("statefulset", "statefulset-controller"),
    ("tokencleaner", "token-cleaner-controller"),
    ("ttl", "ttl-controller"),
    ("ttl-after-finished", "ttl-after-finished-controller"),
];

/// `*` turns all on but those that are off by default, `name` one, `-name` turns one off; of several words for one controller the first counts, and what no word names is off.
///
/// So `-name` alone runs nothing: all but one is `*,-name`. `-*` stands for none, where no other word says more.
// Differs from kube-controller-manager: that refuses `-*`, and has no other way to ask for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSelection(Vec<String>);

#[derive(Debug, PartialEq, Eq)]
pub struct UnknownController(pub String);

impl std::fmt::Display for UnknownController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: Vec<&str> = names().collect();
        write!(f, "unknown controller {:?}; known controllers: {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownController {}

impl Default for ControllerSelection {
    fn default() -> ControllerSelection {
        ControllerSelection(vec!["*".to_owned()])
    }
}

impl ControllerSelection {
    pub fn new(words: Vec<String>) -> Result<ControllerSelection, UnknownController> {
        let word = |word: String| {
            let (sign, name) = word.strip_prefix('-').map_or(("", &*word), |name| ("-", name));
            let known = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, known)| known);
            if known == "*" || names().any(|name| name == known) {
                Ok(format!("{sign}{known}"))
            } else {
                Err(UnknownController(name.to_owned()))
            }
        };
        words.into_iter().map(word).collect::<Result<_, _>>().map(ControllerSelection)
    }

    pub fn runs(&self, name: &str) -> bool {
        let said = self.0.iter().find_map(|word| match word.strip_prefix('-') {
            Some(off) => (off == name).then_some(false),
            None => (word == name).then_some(true),
        });
        let has = |wanted: &str| self.0.iter().any(|word| word == wanted);
        said.unwrap_or_else(|| has("*") && !has("-*") && !OFF_BY_DEFAULT.contains(&name))
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    CONTROLLERS.iter().map(|row| row.name).chain([SCHEDULER])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(words: &[&str]) -> ControllerSelection {
        ControllerSelection::new(words.iter().map(|word| (*word).to_owned()).collect()).unwrap()
    }

    #[test]
    fn the_controllers_flag_works_like_upstreams() {
        assert!(ControllerSelection::default().runs(SCHEDULER));
        assert!(!choice(&["*", "-scheduler"]).runs(SCHEDULER));
        assert!(!choice(&["-*"]).runs(SCHEDULER));
        assert!(choice(&["-*", "scheduler"]).runs(SCHEDULER));
        assert!(choice(&["scheduler"]).runs(SCHEDULER));
        let another = "deployment-controller";
        assert!(!choice(&["-scheduler"]).runs(another), "without * nothing runs by itself");
        assert!(choice(&["*", "-scheduler"]).runs(another));
        assert!(choice(&["scheduler", "-scheduler"]).runs(SCHEDULER), "the first word counts");
        assert!(!choice(&["-scheduler", "scheduler"]).runs(SCHEDULER));
        assert!(!choice(&["-scheduler", "*"]).runs(SCHEDULER), "wherever the * stands");
        assert!(!choice(&["scheduler"]).runs(another));
        assert!(!choice(&["*"]).runs("token-cleaner-controller"), "off by default");
        assert!(choice(&["*", "token-cleaner-controller"]).runs("token-cleaner-controller"));
        assert!(!choice(&["scheduler"]).runs("resourcequota-controller"));
        assert!(choice(&["scheduler", "resourcequota-controller"]).runs("resourcequota-controller"));
        // As kubeadm has it.
        let kubeadms = choice(&["*", "bootstrapsigner", "tokencleaner", "-deployment"]);
        assert!(kubeadms.runs("bootstrap-signer-controller") && kubeadms.runs("token-cleaner-controller"));
        assert!(!kubeadms.runs(another));
        for (alias, name) in ALIASES {
            assert!(names().any(|known| known == name), "{alias}: {name}");
        }
        assert_eq!(ControllerSelection::new(vec!["nobody".into()]), Err(UnknownController("nobody".into())));
    }
}
