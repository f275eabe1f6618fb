//! Which requests a webhook or policy is asked about: rules, equivalent resources, and selectors of namespaces and objects.

use std::sync::Arc;

use admission::{Attempt, Operation};
use catalog::Resource;
use object::selector::LabelSelector;
use object::{About, Status, Value};

use crate::rule::Rule;

/// What is asked, and in which version of the resource.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub resource: Arc<Resource>,
}

#[derive(Clone, Debug)]
pub enum Match {
    Yes(Invocation),
    No(Mismatch),
}

/// Why a request is not theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    Rules,
    NamespaceSelector,
    ObjectSelector,
}

impl Mismatch {
    /// For people.
    pub fn why(self) -> &'static str {
        match self {
            Mismatch::Rules => "no rule matches",
            Mismatch::NamespaceSelector => "the namespace does not match namespaceSelector",
            Mismatch::ObjectSelector => "the object does not match objectSelector",
        }
    }
}

/// Those of a webhook, or `matchConstraints` of a policy and `matchResources` of a binding.
pub struct MatchCriteria {
    /// Of a binding without rules: about all that its policy is about.
    all: bool,
    rules: Vec<Rule>,
    exclude: Vec<Rule>,
    /// `matchPolicy: Equivalent`: other groups and versions of a resource count too.
    equivalent: bool,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
}

impl MatchCriteria {
    /// `rules` is where they stand: `rules` of a webhook, `resourceRules` of a policy.
    pub fn from_value(of: &Value, rules: &str) -> MatchCriteria {
        let list = |name| of.get(name).and_then(Value::as_list).unwrap_or_default();
        let selector = |name| match of.get(name) {
            Some(selector) if !selector.is_null() => LabelSelector::from_label_selector(selector),
            _ => Ok(LabelSelector::everything()),
        };
        MatchCriteria {
            all: rules == "resourceRules" && list(rules).is_empty(),
            rules: list(rules).iter().map(Rule::from_value).collect(),
            exclude: list("excludeResourceRules").iter().map(Rule::from_value).collect(),
            equivalent: of.get("matchPolicy").and_then(Value::as_str) == Some("Equivalent"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Whether a rule may be about requests like this one, whatever names and selectors say: the same for all with its operation,
    /// resource and subresource.
    pub fn may_concern(&self, attempt: &Attempt<'_>) -> bool {
        let is_excluded =
            |resource: &Resource| self.exclude.iter().any(|rule| rule.is_about_all(attempt, resource));
        if is_excluded(attempt.resource)
            || self.equivalent && equivalents(attempt).any(|other| is_excluded(other))
        {
            return false;
        }
        let is_about =
            |resource: &Resource| self.rules.iter().any(|rule| rule.is_about_some(attempt, resource));
        self.all
            || is_about(attempt.resource)
            || self.equivalent && equivalents(attempt).any(|other| is_about(other))
    }

    /// Whether a rule is about the request, whatever selectors say. The cheap half.
    pub fn find(&self, attempt: &Attempt<'_>) -> Option<Invocation> {
        if self.exclude.iter().any(|rule| rule.matches(attempt, attempt.resource))
            || self.equivalent && self.is_equivalent_excluded(attempt)
        {
            return None;
        }
        if self.all || self.rules.iter().any(|rule| rule.matches(attempt, attempt.resource)) {
            return Some(Invocation { resource: attempt.resource.clone() });
        }
        if !self.equivalent {
            return None;
        }
        // Earlier rules count first.
        let found = self
            .rules
            .iter()
            .find_map(|rule| equivalents(attempt).find(|resource| rule.matches(attempt, resource)));
        found.map(|resource| Invocation { resource: resource.clone() })
    }

    fn is_equivalent_excluded(&self, attempt: &Attempt<'_>) -> bool {
        !self.exclude.is_empty()
            && equivalents(attempt)
                .any(|resource| self.exclude.iter().any(|rule| rule.matches(attempt, resource)))
    }

    /// Whether, and in which version, the request is theirs. An error counts only where a rule is about it.
    pub fn matches(&self, attempt: &Attempt<'_>, new: Option<&Value>) -> Result<Match, Status> {
        let Some(invocation) = self.find(attempt) else { return Ok(Match::No(Mismatch::Rules)) };
        let namespaces = self.is_namespace_selected(attempt, new);
        if let Ok(false) = namespaces {
            return Ok(Match::No(Mismatch::NamespaceSelector));
        }
        let objects = self.is_object_selected(attempt, new);
        if let Ok(false) = objects {
            return Ok(Match::No(Mismatch::ObjectSelector));
        }
        namespaces?;
        objects?;
        Ok(Match::Yes(invocation))
    }

    fn is_namespace_selected(&self, attempt: &Attempt<'_>, new: Option<&Value>) -> Result<bool, Status> {
        let of_namespaces = &*attempt.resource.plural == "namespaces";
        if namespace(attempt).is_empty() && !of_namespaces {
            // What is in no namespace is never exempt.
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let writes = matches!(attempt.operation, Operation::Create | Operation::Update);
        if of_namespaces && attempt.subresource.is_none() && writes {
            return Ok(selector.matches_map(new.and_then(|new| new.at(&["metadata", "labels"]))));
        }
        let name = namespace(attempt);
        let about = About { group: "", resource: "namespaces" };
        let found = attempt.find("", "namespaces", "", name).ok_or_else(|| Status::not_found(about, name))?;
        Ok(selector.matches(&|label| found.label(label)))
    }

    /// The new object or the old one.
    fn is_object_selected(&self, attempt: &Attempt<'_>, new: Option<&Value>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let selected = |object: &Value| {
            object.get("metadata").is_some() && selector.matches_map(object.at(&["metadata", "labels"]))
        };
        Ok(new.is_some_and(selected) || attempt.old.is_some_and(selected))
    }
}

/// The namespace of the request: a Namespace is in its own.
pub fn namespace<'a>(attempt: &Attempt<'a>) -> &'a str {
    match attempt.resource.group.is_empty() && &*attempt.resource.plural == "namespaces" {
        true => attempt.name,
        false => attempt.request.namespace,
    }
}

/// Other groups and versions of the same objects. Those of a custom resource come in the order of its definition, and need not
/// be served: what names an old version counts until the definition has it no more.
fn equivalents<'a>(attempt: &Attempt<'a>) -> impl Iterator<Item = &'a Arc<Resource>> {
    let (own, subresource) = (attempt.resource, attempt.request.subresource);
    let catalog = attempt.request.catalog;
    // What is only answered stands for another resource, and is equivalent to none.
    let storage = attempt.resource.storage.as_ref().map(|_| attempt.storage);
    let versions = storage
        .into_iter()
        .flat_map(|storage| &storage.versions)
        .map(|version| catalog.find(&version.group, &version.version, &version.plural).unwrap_or(version));
    let built_in = storage.filter(|storage| storage.versions.is_empty());
    let served = built_in.into_iter().flat_map(|storage| catalog.served_by(storage));
    versions.chain(served).filter(move |resource| {
        (&resource.group, &resource.version) != (&own.group, &own.version)
            && subresource.is_none_or(|name| resource.subresource(name).is_some())
    })
}

/// Upstream's exemption of policies: they are not about each other, nor about reviews of who may do what. They are about the
/// configurations of webhooks.
pub fn is_exempt_from_policies(attempt: &Attempt<'_>) -> bool {
    const POLICIES: [&str; 4] = [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    ];
    match attempt.resource.group.as_str() {
        "admissionregistration.k8s.io" => POLICIES.contains(&attempt.resource.plural.as_str()),
        "authentication.k8s.io" | "authorization.k8s.io" => attempt.resource.storage.is_none(),
        _ => false,
    }
}

/// Upstream's exemption: nobody is asked about the configuration of admission itself, so that it can always be mended.
pub fn is_exempt(attempt: &Attempt<'_>) -> bool {
    const KINDS: [&str; 6] = [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ];
    let (group, _, kind) = attempt.kind();
    group == "admissionregistration.k8s.io" && KINDS.contains(&kind)
}
