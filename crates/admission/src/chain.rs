//! Which plugins run, and in which order.

use std::sync::Arc;

use auth::{Attributes, Decision, UserInfo};
use catalog::Storage;
use object::{Status, Value};

use crate::always_pull_images::AlwaysPullImages;
use crate::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use crate::default_class::{DefaultIngressClass, DefaultStorageClass};
use crate::default_toleration_seconds::DefaultTolerationSeconds;
use crate::deny_service_external_ips::DenyServiceExternalIPs;
use crate::idle::Idle;
use crate::limit_pod_hard_anti_affinity::LimitPodHardAntiAffinityTopology;
use crate::limit_ranger::LimitRanger;
use crate::namespace_lifecycle::NamespaceLifecycle;
use crate::node_restriction::NodeRestriction;
use crate::owner_references::OwnerReferencesPermissionEnforcement;
use crate::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use crate::pod_resize::{NodeDeclaredFeatureValidator, PodResizeValidator};
use crate::pod_security::{PodSecurity, PodSecurityConfiguration};
use crate::pod_topology_labels::PodTopologyLabels;
use crate::priority::Priority;
use crate::resource_quota::{Limited, ResourceQuota};
use crate::runtime_class::RuntimeClass;
use crate::service_account::ServiceAccount;
use crate::storage_object_in_use_protection::StorageObjectInUseProtection;
use crate::taint_nodes_by_condition::TaintNodesByCondition;
use crate::{
    Allocator, Attempt, Effects, Extension, Invocations, Observer, Operation, Phase, Plugin, Refusal, changes,
};
use store::BoxFuture;
use tokio::time::Instant;

/// May they? For plugins that ask on someone's behalf.
pub type Authorize = Arc<dyn Fn(&UserInfo, &Attributes<'_>) -> Decision + Send + Sync>;

/// What the flags say, by plugin name.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub enable: Vec<String>,
    pub disable: Vec<String>,
}

impl Choice {
    /// What there is to say of names that are none.
    fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        let flags =
            [("enable-admission-plugins", &self.enable), ("disable-admission-plugins", &self.disable)];
        let all = flags.into_iter().flat_map(|(flag, names)| names.iter().map(move |name| (flag, name)));
        let unknown = all.filter(|(_, name)| !is_known(name));
        unknown.map(|(flag, name)| format!("{flag} plugin {} is unknown", object::quote(name))).collect()
    }

    /// Names that stand in both flags, each once, sorted.
    fn overlap(&self) -> Vec<&str> {
        let mut both: Vec<&str> =
            self.enable.iter().filter(|name| self.disable.contains(name)).map(String::as_str).collect();
        both.sort_unstable();
        both.dedup();
        both
    }
}

/// Configurations without a rule about a request that are named; more are counted.
const MAX_NAMED: usize = 20;

/// What the plugins of an admission configuration are told.
#[derive(Clone, Debug, Default)]
pub struct PluginSettings {
    pub pod_security: PodSecurityConfiguration,
    /// `limitedResources` of ResourceQuota.
    pub limited_resources: Vec<Limited>,
}

/// What the flags may not say.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadChoice {
    /// Upstream's words for each of them.
    #[error("{unknown}; there are: {known}")]
    Unknown { unknown: String, known: String },
    /// Upstream's words.
    #[error("[{names}] in enable-admission-plugins and disable-admission-plugins overlapped")]
    Overlapped { names: String },
    /// To run without a rule somebody relies on would be worse than not to run.
    #[error(
        "the admission plugin {name} is not part of this version of setpoint: it can be disabled, not enabled"
    )]
    NotBuilt { name: String },
}

/// Upstream's plugins that are off unless a flag names them, and that nobody has built here.
pub const NOT_BUILT: [&str; 8] = [
    "AlwaysDeny",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// The plugins of one cluster in upstream's order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
    /// By group and plural of the stored resource.
    allocators: Vec<(&'static str, &'static str, Box<dyn Allocator>)>,
    /// With the place each has among `plugins`, where something idle stands for it.
    extensions: Vec<(usize, Box<dyn Extension>)>,
    /// Plugins from here on judge after the validating extensions.
    after_extensions: usize,
    observer: Option<Box<dyn Observer>>,
    /// How many of `plugins` are upstream's; rules nobody can switch off follow.
    named: usize,
    authorize: Authorize,
}

/// One row a plugin: how it is made, and whether it runs unless a flag says otherwise.
struct Row {
    plugin: Box<dyn Plugin>,
    by_default: bool,
}

fn on(plugin: impl Plugin + 'static) -> Row {
    Row { plugin: Box::new(plugin), by_default: true }
}

fn off(plugin: impl Plugin + 'static) -> Row {
    Row { plugin: Box::new(plugin), by_default: false }
}

/// Every plugin there is, in the order they run (upstream's).
fn rows(authorize: &Authorize, settings: &PluginSettings) -> Vec<Row> {
    vec![
        off(Idle("AlwaysAdmit")),
        on(NamespaceLifecycle),
        off(LimitPodHardAntiAffinityTopology),
        on(LimitRanger::default()),
        on(ServiceAccount::default()),
        // Upstream leaves it to a flag that every installer sets.
        on(NodeRestriction(authorize.clone())),
        on(TaintNodesByCondition),
        off(AlwaysPullImages),
        on(PodSecurity(settings.pod_security.clone())),
        on(Priority::default()),
        on(DefaultTolerationSeconds),
        on(DefaultStorageClass::default()),
        on(StorageObjectInUseProtection),
        on(Idle("PodGroupProtection")),
        off(OwnerReferencesPermissionEnforcement::new(authorize)),
        on(PersistentVolumeClaimResize),
        on(RuntimeClass),
        on(CertificateApproval(authorize.clone())),
        on(CertificateSigning(authorize.clone())),
        on(Idle("ClusterTrustBundleAttest")),
        on(CertificateSubjectRestriction),
        on(DefaultIngressClass::default()),
        off(DenyServiceExternalIPs),
        on(PodTopologyLabels),
        on(Idle("PodGroupWorkloadExists")),
        on(NodeDeclaredFeatureValidator),
        on(Idle("JobValidation")),
        on(PodResizeValidator),
        // Their places: they come with `extend_with`.
        on(Idle("MutatingAdmissionPolicy")),
        on(Idle("MutatingAdmissionWebhook")),
        on(Idle("ValidatingAdmissionPolicy")),
        on(Idle("ValidatingAdmissionWebhook")),
        // The last word: what it charges must not be refused afterwards.
        on(ResourceQuota { limited: settings.limited_resources.clone() }),
    ]
}

/// The names of all plugins there are, in the order they run.
pub fn plugin_names() -> Vec<&'static str> {
    let nobody: Authorize = Arc::new(|_, _| Decision::default());
    rows(&nobody, &PluginSettings::default()).iter().map(|row| row.plugin.name()).collect()
}

impl Chain {
    /// The default plugins, with what the flags change, and `always` at the end: rules nobody can switch off.
    pub fn new(
        choice: &Choice,
        settings: &PluginSettings,
        authorize: &Authorize,
        always: Vec<Box<dyn Plugin>>,
    ) -> Result<Chain, BadChoice> {
        let rows = rows(authorize, settings);
        let known: Vec<&str> = rows.iter().map(|row| row.plugin.name()).collect();
        let unknown = choice.unknown(|name| known.contains(&name) || NOT_BUILT.contains(&name));
        if !unknown.is_empty() {
            return Err(BadChoice::Unknown { unknown: unknown.join(", "), known: known.join(", ") });
        }
        let both = choice.overlap();
        if !both.is_empty() {
            return Err(BadChoice::Overlapped { names: both.join(" ") });
        }
        if let Some(name) = choice.enable.iter().find(|name| NOT_BUILT.contains(&name.as_str())) {
            return Err(BadChoice::NotBuilt { name: name.clone() });
        }
        let named = |names: &[String], row: &Row| names.iter().any(|n| n == row.plugin.name());
        let chosen = rows
            .into_iter()
            .filter(|row| named(&choice.enable, row) || (row.by_default && !named(&choice.disable, row)));
        let mut plugins: Vec<Box<dyn Plugin>> = chosen.map(|row| row.plugin).collect();
        let named = plugins.len();
        plugins.extend(always);
        let quota = plugins.iter().position(|plugin| plugin.name() == "ResourceQuota");
        Ok(Chain {
            plugins,
            allocators: Vec::new(),
            extensions: Vec::new(),
            after_extensions: quota.unwrap_or(named),
            observer: None,
            named,
            authorize: authorize.clone(),
        })
    }

    /// Adds an extension, unless a flag disables it.
    pub fn extend_with(mut self, extension: impl Extension + 'static) -> Chain {
        let place = self.plugins[..self.named].iter().position(|plugin| plugin.name() == extension.name());
        self.extensions.extend(place.map(|place| (place, Box::new(extension) as Box<dyn Extension>)));
        self.extensions.sort_by_key(|(place, _)| *place);
        self
    }

    /// The plugins in the order they run, without the rules nobody can switch off.
    pub fn names(&self) -> Vec<&'static str> {
        self.plugins[..self.named].iter().map(|plugin| plugin.name()).collect()
    }

    /// Who is told how long everything takes.
    pub fn observe(mut self, observer: impl Observer + 'static) -> Chain {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Gives one stored resource its allocator.
    pub fn allocate_with(
        mut self,
        group: &'static str,
        plural: &'static str,
        by: impl Allocator + 'static,
    ) -> Chain {
        self.allocators.push((group, plural, Box::new(by)));
        self
    }

    /// Whether an extension may be asked in a phase: then the state should be the newest before, and nothing be held.
    pub fn is_extended(&self, attempt: &Attempt<'_>, phase: Phase) -> bool {
        self.concerned(attempt, phase).next().is_some()
    }

    fn concerned<'c>(
        &'c self,
        attempt: &Attempt<'_>,
        phase: Phase,
    ) -> impl Iterator<Item = (usize, &'c dyn Extension)> {
        let of_phase = self.extensions.iter().filter(move |(_, extension)| extension.phase() == phase);
        of_phase
            .filter(|(_, extension)| extension.concerns(attempt))
            .map(|(place, extension)| (*place, &**extension))
    }

    /// The plugins, then the extensions.
    pub async fn mutate(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        self.mutate_as(attempt, attempt, new, effects).await
    }

    /// The same where extensions see the request as another one, `asked`.
    pub async fn mutate_as(
        &self,
        attempt: &Attempt<'_>,
        asked: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let answer = async {
            self.complete(attempt, new, effects)?;
            self.mutate_extensions(asked, new, effects).await
        };
        self.step(asked, Phase::Admit, answer).await
    }

    /// One phase of a request, however many are asked in it. `attempt` is as extensions see it.
    pub async fn step(
        &self,
        attempt: &Attempt<'_>,
        phase: Phase,
        answer: impl Future<Output = Result<(), Refusal>>,
    ) -> Result<(), Refusal> {
        self.note_unmatched(attempt, phase);
        let begun = self.begin(attempt);
        let answer = answer.await;
        self.end(begun, phase, attempt, answer)
    }

    /// The plugins alone.
    pub fn mutate_built_in(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let begun = self.begin(attempt);
        let answer = self.complete(attempt, new, effects);
        self.end(begun, Phase::Admit, attempt, answer)
    }

    /// What the plugins do in the mutating phase, as a part of a step.
    pub fn complete(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let mut before = attempt.is_traced_in_full().then(|| new.clone());
        self.each(Phase::Admit, 0..self.plugins.len(), attempt, effects, |plugin, effects| {
            let Some(before) = &mut before else { return plugin.mutate(attempt, new, effects) };
            let begun = attempt.env.monotonic();
            let answer = plugin.mutate(attempt, new, effects);
            let took = attempt.env.monotonic() - begun;
            if let Some(changed) = changes(before, new) {
                before.clone_from(new);
                attempt.note(Phase::Admit, plugin.name(), "", format!("changed: {changed}"), Some(took));
            }
            answer
        })
    }

    /// The mutating extensions; once more, after the built-in plugins, if one of them changed something.
    pub async fn mutate_extensions(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let concerned = self.concerned(attempt, Phase::Admit);
        let mut extensions: Vec<_> =
            concerned.map(|(place, extension)| (place, extension, Invocations::default())).collect();
        for (place, extension, invocations) in &mut extensions {
            let asked = extension.mutate(attempt, Some(&mut *new), invocations, effects);
            self.timed(*place, attempt, asked).await?;
            invocations.ended(Some(new));
        }
        if !extensions.iter().any(|(_, _, invocations)| invocations.needs_reinvocation) {
            return Ok(());
        }
        if attempt.operation != Operation::Connect {
            self.complete(attempt, new, effects)?;
        }
        for (place, extension, invocations) in &mut extensions {
            invocations.begin_reinvocation(Some(new));
            let asked = extension.mutate(attempt, Some(&mut *new), invocations, effects);
            self.timed(*place, attempt, asked).await?;
        }
        Ok(())
    }

    /// The mutating phase of a request that has no object to change, a deletion: who is asked may refuse it.
    pub async fn mutate_deletion(&self, attempt: &Attempt<'_>, effects: &mut Effects) -> Result<(), Refusal> {
        let answer = async {
            for (place, extension) in self.concerned(attempt, Phase::Admit) {
                let mut invocations = Invocations::default();
                let asked = extension.mutate(attempt, None, &mut invocations, effects);
                self.timed(place, attempt, asked).await?;
            }
            Ok(())
        };
        self.step(attempt, Phase::Admit, answer).await
    }

    /// The same where nobody is asked.
    pub fn pass_deletion(&self, attempt: &Attempt<'_>) {
        let begun = self.begin(attempt);
        let _ = self.end(begun, Phase::Admit, attempt, Ok(()));
    }

    /// A request into a node or a pod: no built-in plugin has rules for those, extensions may change their options and refuse them.
    pub async fn connect(
        &self,
        attempt: &Attempt<'_>,
        options: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        self.step(attempt, Phase::Admit, self.mutate_extensions(attempt, options, effects)).await?;
        self.step(attempt, Phase::Validate, self.validate_extensions(attempt, Some(options), effects)).await
    }

    /// The answer of an extension, which is final, and how long it took.
    async fn timed(
        &self,
        place: usize,
        attempt: &Attempt<'_>,
        asked: BoxFuture<'_, Result<(), Status>>,
    ) -> Result<(), Refusal> {
        let begun = attempt.env.monotonic();
        let answer = asked.await;
        if let Some(observer) = &self.observer
            && let Some((_, extension)) = self.extensions.iter().find(|(at, _)| *at == place)
        {
            let took = attempt.env.monotonic() - begun;
            observer.plugin(place, extension.phase(), attempt.operation, took, answer.is_err());
        }
        answer.map_err(|status| Refusal { status, may_pass_soon: false, is_final: true })
    }

    /// Asks whether a user may do something.
    pub fn authorize(&self) -> &Authorize {
        &self.authorize
    }

    /// A PUT that creates its object was let in as an update. Whether its user may create is asked where upstream asks: once the
    /// object is complete and valid, before the plugins that judge it.
    pub fn authorize_create(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        if attempt.request.name.is_empty() {
            return Ok(());
        }
        let wanted = attempt.attributes("create", attempt.request.name);
        let decision = (self.authorize)(attempt.user, &wanted);
        if decision.allowed { Ok(()) } else { Err(auth::forbidden(attempt.user, &wanted, &decision.reason)) }
    }

    /// The plugins, then the extensions, then the quotas, which charge what nobody refuses any more; and last what must still hold
    /// at the commit.
    pub async fn validate(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        self.validate_as(attempt, new, (attempt, new), effects).await
    }

    /// The same where extensions see another request and another object.
    pub async fn validate_as(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        (asked, shown): (&Attempt<'_>, Option<&Value>),
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let answer = async {
            self.judge(0..self.after_extensions, attempt, new, effects)?;
            self.validate_extensions(asked, shown, effects).await?;
            self.judge(self.after_extensions..self.plugins.len(), attempt, new, effects)
        };
        self.step(asked, Phase::Validate, answer).await?;
        self.guard(attempt, effects)
    }

    /// The plugins alone, and the guards.
    pub fn validate_built_in(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let begun = self.begin(attempt);
        let answer = self.judge(0..self.plugins.len(), attempt, new, effects);
        self.end(begun, Phase::Validate, attempt, answer)?;
        self.guard(attempt, effects)
    }

    /// A phase begins; nobody looks at the clock where nobody is told.
    fn begin(&self, attempt: &Attempt<'_>) -> Option<Instant> {
        if attempt.is_traced_in_full() {
            attempt.name_trace();
        }
        self.observer.as_ref().map(|_| attempt.env.monotonic())
    }

    /// Says, of a dry run, who is configured and has nothing to do with it.
    pub fn note_unmatched(&self, attempt: &Attempt<'_>, phase: Phase) {
        if !attempt.is_traced_in_full() {
            return;
        }
        for (_, extension) in self.extensions.iter().filter(|(_, extension)| extension.phase() == phase) {
            let others = extension.unmatched(attempt);
            if !others.is_empty() {
                let (named, count) = (others.iter().take(MAX_NAMED), others.len());
                let mut text = named.map(String::as_str).collect::<Vec<_>>().join("; ");
                if count > MAX_NAMED {
                    text.push_str(&format!(" and {} more", count - MAX_NAMED));
                }
                attempt.note_passed_over(phase, extension.name(), "", format!("no rule matches: {text}"));
            }
        }
    }

    fn end(
        &self,
        begun: Option<Instant>,
        phase: Phase,
        attempt: &Attempt<'_>,
        answer: Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if let (Some(observer), Some(begun)) = (&self.observer, begun) {
            let took = attempt.env.monotonic() - begun;
            observer.step(phase, attempt.operation, took, answer.is_err());
        }
        answer
    }

    fn judge(
        &self,
        which: std::ops::Range<usize>,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        self.each(Phase::Validate, which, attempt, effects, |plugin, effects| {
            plugin.validate(attempt, new, effects)
        })
    }

    fn guard(&self, attempt: &Attempt<'_>, effects: &mut Effects) -> Result<(), Refusal> {
        self.plugins.iter().try_for_each(|plugin| plugin.guard(attempt, effects))
    }

    /// The validating extensions alone.
    pub async fn validate_extensions(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        for (place, extension) in self.concerned(attempt, Phase::Validate) {
            self.timed(place, attempt, extension.validate(attempt, new, effects)).await?;
        }
        Ok(())
    }

    fn each(
        &self,
        phase: Phase,
        which: std::ops::Range<usize>,
        attempt: &Attempt<'_>,
        effects: &mut Effects,
        mut ask: impl FnMut(&dyn Plugin, &mut Effects) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut ask = |plugin: &dyn Plugin, effects: &mut Effects| {
            ask(plugin, effects).inspect_err(|refusal| {
                attempt.note_refusal(phase, plugin.name(), &refusal.status);
            })
        };
        let Some(observer) = &self.observer else {
            return self.plugins[which].iter().try_for_each(|plugin| ask(&**plugin, effects));
        };
        let mut last = attempt.env.monotonic();
        for at in which {
            effects.passed_over = false;
            let answer = ask(&*self.plugins[at], effects);
            // One look at the clock for each plugin that did something: the end of one is the start of the next.
            if !effects.passed_over {
                let now = attempt.env.monotonic();
                observer.plugin(at, phase, attempt.operation, now - last, answer.is_err());
                last = now;
            }
            answer?;
        }
        Ok(())
    }

    /// Who allocates something to objects of this resource.
    pub fn allocator(&self, storage: &Storage) -> Option<&dyn Allocator> {
        let found = self
            .allocators
            .iter()
            .find(|(group, plural, _)| storage.plural == *plural && storage.group == *group);
        found.map(|(_, _, allocator)| &**allocator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream's order of the plugins that are on by default and need no webhook.
    const ORDER: [&str; 19] = [
        "NamespaceLifecycle",
        "LimitRanger",
        "ServiceAccount",
        "TaintNodesByCondition",
        "PodSecurity",
        "Priority",
        "DefaultTolerationSeconds",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PodGroupProtection",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "ClusterTrustBundleAttest",
        "DefaultIngressClass",
        "PodTopologyLabels",
        "PodGroupWorkloadExists",
        "NodeDeclaredFeatureValidator",
        "JobValidation",
        "PodResizeValidator",
    ];

    fn chain(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, BadChoice> {
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect();
        let choice = Choice { enable: names(enable), disable: names(disable) };
        let authorize: Authorize = Arc::new(|_, _| Decision::default());
        let chain = Chain::new(&choice, &PluginSettings::default(), &authorize, Vec::new())?;
        Ok(chain.plugins.iter().map(|plugin| plugin.name()).collect())
    }

    #[test]
    fn plugins_run_in_upstreams_order() {
        let known = chain(&[], &[]).expect("the default");
        let ours: Vec<&str> = known.iter().copied().filter(|name| ORDER.contains(name)).collect();
        assert_eq!(ours, ORDER);
    }

    #[test]
    fn flags_add_and_remove() {
        let names = chain(&["OwnerReferencesPermissionEnforcement"], &["Priority"]).expect("known names");
        assert!(names.contains(&"OwnerReferencesPermissionEnforcement") && !names.contains(&"Priority"));
        let error = chain(&["Nope", "Priority", ""], &["No"]).expect_err("no such plugins").to_string();
        let words = "enable-admission-plugins plugin \"Nope\" is unknown, enable-admission-plugins plugin \"\" is unknown, \
                     disable-admission-plugins plugin \"No\" is unknown; there are: AlwaysAdmit, ";
        assert!(error.starts_with(words), "{error}");
    }

    #[test]
    fn a_plugin_in_both_flags_gets_upstreams_error() {
        for both in ["Priority", "MutatingAdmissionWebhook", "EventRateLimit"] {
            let error = chain(&["AlwaysPullImages", both], &[both]).expect_err("in both").to_string();
            let words = "in enable-admission-plugins and disable-admission-plugins overlapped";
            assert_eq!(error, format!("[{both}] {words}"));
        }
    }

    #[test]
    fn extensions_stand_between_the_plugins_and_the_quota() {
        let names = chain(&[], &["ValidatingAdmissionWebhook"]).expect("known names");
        let extensions = ["MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy"];
        assert_eq!(names[names.len() - 4..], [&extensions[..], &["ResourceQuota"]].concat());
    }

    #[test]
    fn a_plugin_that_is_not_built_can_only_be_disabled() {
        for name in NOT_BUILT {
            assert_eq!(chain(&[name], &[]), Err(BadChoice::NotBuilt { name: name.to_owned() }));
            assert_eq!(chain(&[], &[name]), chain(&[], &[]));
        }
    }
}
