//! Which controllers run: the words of kube-controller-manager's `--controllers`.

use controllers::{CONTROLLERS, OFF_BY_DEFAULT};

/// The scheduler is one of the controllers as far as choosing goes.
pub const SCHEDULER: &str = "scheduler";

/// Upstream's controllers that are not here, and why. Their names are known, so that manifests work; nothing runs for them.
const ABSENT: [(&str, &str); 11] = [
    ("cloud-node-lifecycle-controller", "there is no cloud provider"),
    (
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "the feature gate ClusterTrustBundle is off",
    ),
    ("node-route-controller", "there is no cloud provider"),
    ("persistentvolume-attach-detach-controller", "no volume is attached to nodes yet"),
    ("podcertificaterequest-cleaner-controller", "the feature gate PodCertificateRequest is off"),
    ("podgroup-protection-controller", "the feature gate GenericWorkload is off"),
    ("resourcepoolstatusrequest-controller", "the feature gate DRAResourcePoolStatus is off"),
    ("selinux-warning-controller", "it is off by default and not implemented"),
    ("service-lb-controller", "there is no cloud provider"),
    ("storage-version-migrator-controller", "the feature gate StorageVersionMigrator is off"),
    ("storageversion-garbage-collector-controller", "the feature gate StorageVersionAPI is off"),
];

/// The names kube-controller-manager had for them before, which manifests still use (kubeadm's above all).
const ALIASES: [(&str, &str); 42] = [
    ("attachdetach", "persistentvolume-attach-detach-controller"),
    ("bootstrapsigner", "bootstrap-signer-controller"),
    ("cloud-node-lifecycle", "cloud-node-lifecycle-controller"),
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
    ("route", "node-route-controller"),
    ("service", "service-lb-controller"),
    ("serviceaccount", "serviceaccount-controller"),
    ("serviceaccount-token", "serviceaccount-token-controller"),
    ("statefulset", "statefulset-controller"),
    ("storage-version-gc", "storageversion-garbage-collector-controller"),
    ("svm", "storage-version-migrator-controller"),
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
            let absent = || ABSENT.iter().any(|(name, _)| *name == known);
            if known == "*" || names().any(|name| name == known) || absent() {
                Ok(format!("{sign}{known}"))
            } else {
                Err(UnknownController(name.to_owned()))
            }
        };
        words.into_iter().map(word).collect::<Result<_, _>>().map(ControllerSelection)
    }

    /// Controllers asked for by name that are not here, and why.
    pub fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        ABSENT.into_iter().filter(|(name, _)| self.0.iter().any(|word| word == name)).collect()
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
            let known = names().chain(ABSENT.map(|(name, _)| name)).any(|known| known == name);
            assert!(known, "{alias}: {name}");
        }
        let absent = choice(&["*", "attachdetach", "-route", "selinux-warning-controller"]);
        let named: Vec<&str> = absent.without_effect().iter().map(|(name, _)| *name).collect();
        assert_eq!(named, ["persistentvolume-attach-detach-controller", "selinux-warning-controller"]);
        assert_eq!(ControllerSelection::default().without_effect(), []);
        // All that kube-controller-manager of v1.36 knows, and what is ours alone.
        let ours = [SCHEDULER, crate::KUBELET_SERVING_APPROVER, crate::LOCAL_PROVISIONER];
        assert_eq!(names().filter(|name| !ours.contains(name)).count() + ABSENT.len(), 52);
        assert_eq!(ControllerSelection::new(vec!["nobody".into()]), Err(UnknownController("nobody".into())));
    }
}
