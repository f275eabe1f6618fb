//! `PodSecurityConfiguration`: the policy of namespaces without labels, and whom none binds.

use object::{FieldError, FieldErrorKind, Value, quote, validate_text};

use super::policy::{LEVELS, Level, LevelVersion, Policy, VERSIONS, Version};

/// Defaults and exemptions. The default allows everything, to everybody.
#[derive(Clone, Debug, Default)]
pub struct PodSecurityConfiguration {
    pub(super) defaults: Policy,
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

impl PodSecurityConfiguration {
    /// Of `defaults` and `exemptions`; all that is wrong, in upstream's words.
    pub fn from_value(of: &Value) -> Result<PodSecurityConfiguration, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut defaults = Policy::default();
        let modes = [
            ("enforce", &mut defaults.enforce),
            ("warn", &mut defaults.warn),
            ("audit", &mut defaults.audit),
        ];
        for (mode, at) in modes {
            read_mode(of, mode, at, &mut errors);
        }
        let mut list = |name: &str, check: &dyn Fn(&str) -> Option<String>| {
            let mut found: Vec<String> = Vec::new();
            let listed = of.at(&["exemptions", name]).and_then(Value::as_list).unwrap_or_default();
            for (at, entry) in listed.iter().enumerate() {
                let (entry, path) = (entry.as_str().unwrap_or_default(), format!("exemptions.{name}[{at}]"));
                match check(entry) {
                    Some(wrong) => errors.push(FieldError::invalid(path, quote(entry), wrong)),
                    None if found.iter().any(|known| known == entry) => {
                        errors.push(FieldError {
                            kind: FieldErrorKind::Duplicate,
                            field: path,
                            bad_value: quote(entry),
                            detail: String::new(),
                        });
                    }
                    None => found.push(entry.to_owned()),
                }
            }
            found
        };
        let joined = |problems: Vec<String>| (!problems.is_empty()).then(|| problems.join(", "));
        let namespaces = list("namespaces", &|name| joined(validate_text::dns1123_label(name)));
        let runtime_classes = list("runtimeClasses", &|name| joined(validate_text::dns1123_subdomain(name)));
        let usernames =
            list("usernames", &|name| name.is_empty().then(|| "username must not be empty".to_owned()));
        match errors.is_empty() {
            true => Ok(PodSecurityConfiguration { defaults, usernames, namespaces, runtime_classes }),
            false => Err(errors),
        }
    }

    pub(super) fn is_exempt_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|exempt| exempt == name)
    }

    pub(super) fn is_exempt_user(&self, name: &str) -> bool {
        self.usernames.iter().any(|exempt| exempt == name)
    }

    /// By its runtime class: of a pod or a template.
    pub(super) fn is_exempt_pod(&self, pod: &Value) -> bool {
        !self.runtime_classes.is_empty()
            && pod
                .str_at(&["spec", "runtimeClassName"])
                .is_some_and(|class| self.runtime_classes.iter().any(|exempt| exempt == class))
    }
}

fn read_mode(of: &Value, mode: &str, into: &mut LevelVersion, errors: &mut Vec<FieldError>) {
    let text = |name: &str| of.str_at(&["defaults", name]).filter(|text| !text.is_empty());
    if let Some(level) = text(mode) {
        match Level::parse(level) {
            Some(level) => into.level = level,
            None => errors.push(FieldError::invalid(format!("defaults.{mode}"), quote(level), LEVELS)),
        }
    }
    let versioned = format!("{mode}-version");
    if let Some(version) = text(&versioned) {
        match Version::parse(version) {
            Some(version) => into.version = version,
            None => {
                errors.push(FieldError::invalid(format!("defaults.{versioned}"), quote(version), VERSIONS));
            }
        }
    }
}
