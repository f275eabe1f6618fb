//! The file of `--admission-control-config-file`: an `AdmissionConfiguration` and what its plugins are told.
//!
//! ```text
//! AdmissionConfiguration ── plugins[]: path or configuration ──┬─ PodSecurity: defaults, exemptions
//!                                                              ├─ ResourceQuota: limitedResources
//!                                                              └─ webhooks: kubeConfigFile ── who this server is to them
//! ```
//! It is read once, when the server starts, and everything in it is checked then: a server that ran without a rule somebody wrote
//! down would be worse than one that does not start. What kubeconfigs name (tokens, certificates) may change while the server runs.

mod shape;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admission::resource_quota::Limited;
use admission::{NOT_BUILT, PluginSettings, PodSecurityConfiguration, plugin_names};
use kinds::resourcequota::usage::Selector;
use object::{FieldError, Value, quote};
use webhook::Kubeconfig;

use crate::rule::texts;
use shape::Shape;

/// Larger than any configuration, so that a wrong path does not fill the memory.
const MAX_BYTES: u64 = 4 << 20;

/// What plugins are told. The default is what a server without a configuration does.
#[derive(Clone, Default)]
pub struct AdmissionConfiguration {
    pub plugins: PluginSettings,
    /// Who this server is to mutating webhooks; without one nobody.
    pub mutating_webhooks: Option<Arc<Kubeconfig>>,
    pub validating_webhooks: Option<Arc<Kubeconfig>>,
}

/// What was wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigurationError(String);

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigurationError {}

const ADMISSION: [(&str, &str); 2] = [
    ("apiserver.config.k8s.io/v1", "AdmissionConfiguration"),
    ("apiserver.k8s.io/v1alpha1", "AdmissionConfiguration"),
];
const POD_SECURITY: [(&str, &str); 3] = [
    ("pod-security.admission.config.k8s.io/v1", "PodSecurityConfiguration"),
    ("pod-security.admission.config.k8s.io/v1beta1", "PodSecurityConfiguration"),
    ("pod-security.admission.config.k8s.io/v1alpha1", "PodSecurityConfiguration"),
];
const QUOTA: [(&str, &str); 3] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];
const WEBHOOKS: [(&str, &str); 1] = [("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration")];
const VALIDATING_POLICIES: [(&str, &str); 1] =
    [("apiserver.config.k8s.io/v1", "ValidatingAdmissionPolicyConfiguration")];
const MUTATING_POLICIES: [(&str, &str); 1] =
    [("apiserver.config.k8s.io/v1", "MutatingAdmissionPolicyConfiguration")];

impl AdmissionConfiguration {
    pub fn load(path: &Path) -> Result<AdmissionConfiguration, ConfigurationError> {
        let wrong = |problem: String| ConfigurationError(format!("{}: {problem}", path.display()));
        let text = read_file(path).map_err(|error| {
            let shown = quote(&path.display().to_string());
            ConfigurationError(format!(
                "unable to read admission control configuration from {shown} [{error}]"
            ))
        })?;
        let document = decode(&text, &ADMISSION, &shape::ADMISSION).map_err(&wrong)?;
        let mut out = AdmissionConfiguration::default();
        let plugins = document.get("plugins").and_then(Value::as_list).unwrap_or_default();
        let known = plugin_names();
        let mut seen: Vec<&str> = Vec::new();
        for (at, plugin) in plugins.iter().enumerate() {
            let name = plugin.str_at(&["name"]).unwrap_or_default();
            if NOT_BUILT.contains(&name) {
                return Err(wrong(format!(
                    "plugins[{at}].name: the admission plugin {name} is not part of this version of setpoint: remove its entry"
                )));
            }
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(wrong(format!(
                    "plugins[{at}].name: unknown admission plugin: {}; there are: {known}",
                    quote(name)
                )));
            }
            // Upstream uses the first and does not say so.
            if seen.contains(&name) {
                return Err(wrong(format!("plugins[{at}].name: Duplicate value: {}", quote(name))));
            }
            seen.push(name);
            out.read_plugin(name, plugin, path).map_err(|(source, problem)| {
                let place = match source {
                    Some(file) => file.display().to_string(),
                    None => format!("{}: plugins[{at}].configuration", path.display()),
                };
                ConfigurationError(format!(
                    "couldn't init admission plugin {}: {place}: {problem}",
                    quote(name)
                ))
            })?;
        }
        Ok(out)
    }

    /// An error says in which file, if in one of its own, and what.
    fn read_plugin(
        &mut self,
        name: &str,
        plugin: &Value,
        base: &Path,
    ) -> Result<(), (Option<PathBuf>, String)> {
        let (source, text) = match plugin.get("configuration").filter(|inline| !inline.is_null()) {
            Some(inline) => (None, codec::json::to_vec(inline)),
            None => match plugin.str_at(&["path"]).filter(|path| !path.is_empty()) {
                Some(path) => {
                    let path = base.parent().unwrap_or(Path::new("")).join(path);
                    match read_file(&path) {
                        Ok(text) => (Some(path), text),
                        Err(error) => return Err((Some(path), error)),
                    }
                }
                // Nothing is said about it.
                None => return Ok(()),
            },
        };
        self.read(name, &text).map_err(|problem| (source, problem))
    }

    fn read(&mut self, name: &str, text: &[u8]) -> Result<(), String> {
        match name {
            "PodSecurity" => {
                let value = decode(text, &POD_SECURITY, &shape::POD_SECURITY)?;
                self.plugins.pod_security = PodSecurityConfiguration::from_value(&value).map_err(listed)?;
            }
            "ResourceQuota" => {
                let value = decode(text, &QUOTA, &shape::QUOTA)?;
                self.plugins.limited_resources = limited_resources(&value).map_err(listed)?;
            }
            "MutatingAdmissionWebhook" => self.mutating_webhooks = webhooks(text)?,
            "ValidatingAdmissionWebhook" => self.validating_webhooks = webhooks(text)?,
            "ValidatingAdmissionPolicy" => {
                check_manifests(&decode(text, &VALIDATING_POLICIES, &shape::POLICIES)?)?;
            }
            "MutatingAdmissionPolicy" => {
                check_manifests(&decode(text, &MUTATING_POLICIES, &shape::POLICIES)?)?;
            }
            // Upstream's plugins of these names do not read what is said to them.
            _ => tracing::warn!(plugin = name, "the admission plugin takes no configuration: ignored"),
        }
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    env::file::read_limited(path, MAX_BYTES).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("open {}: no such file or directory", path.display()),
        ErrorKind::FileTooLarge => format!("{} is larger than {} MiB", path.display(), MAX_BYTES >> 20),
        _ => format!("open {}: {error}", path.display()),
    })
}

/// YAML or JSON of one of these kinds, strictly.
fn decode(text: &[u8], kinds: &[(&str, &str)], shape: &Shape) -> Result<Value, String> {
    let document = codec::yaml::parse_document(text).map_err(|error| error.to_string())?;
    let (api_version, kind) = match (document.value.str_at(&["apiVersion"]), document.value.str_at(&["kind"]))
    {
        (_, None | Some("")) => return Err(format!("Object 'Kind' is missing: write `{}`", heading(kinds))),
        (None | Some(""), _) => {
            return Err(format!("Object 'apiVersion' is missing: write `{}`", heading(kinds)));
        }
        (Some(api_version), Some(kind)) => (api_version, kind),
    };
    if !kinds.contains(&(api_version, kind)) {
        return Err(format!(
            "no kind {} is registered for version {} here: write `{}`",
            quote(kind),
            quote(api_version),
            heading(kinds)
        ));
    }
    let mut problems: Vec<String> = document.duplicates.into_iter().collect();
    shape.check(&document.value, "", &mut problems);
    match problems.is_empty() {
        true => Ok(document.value),
        false => Err(format!("strict decoding error: {}", problems.join(", "))),
    }
}

/// How the newest of the kinds begins.
fn heading(kinds: &[(&str, &str)]) -> String {
    kinds.first().map_or_else(String::new, |(version, kind)| format!("apiVersion: {version}, kind: {kind}"))
}

fn listed(errors: Vec<FieldError>) -> String {
    let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn limited_resources(of: &Value) -> Result<Vec<Limited>, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut out = Vec::new();
    let entries = of.get("limitedResources").and_then(Value::as_list).unwrap_or_default();
    for (at, entry) in entries.iter().enumerate() {
        let text = |name: &str| entry.str_at(&[name]).unwrap_or_default().to_owned();
        if text("resource").is_empty() {
            errors.push(FieldError::required(format!("limitedResources[{at}].resource"), ""));
        }
        let scopes = entry.get("matchScopes").and_then(Value::as_list).unwrap_or_default();
        out.push(Limited {
            group: text("apiGroup"),
            plural: text("resource"),
            names: texts(entry, "matchContains"),
            scopes: scopes.iter().map(selector).collect(),
        });
    }
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

fn selector(of: &Value) -> Selector {
    let text = |name: &str| of.str_at(&[name]).unwrap_or_default().to_owned();
    Selector { scope: text("scopeName"), operator: text("operator"), values: texts(of, "values") }
}

fn webhooks(text: &[u8]) -> Result<Option<Arc<Kubeconfig>>, String> {
    let value = decode(text, &WEBHOOKS, &shape::WEBHOOKS)?;
    check_manifests(&value)?;
    let Some(path) = value.str_at(&["kubeConfigFile"]).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    if !Path::new(path).is_absolute() {
        let wrong = FieldError::invalid("kubeConfigFile", quote(path), "must be an absolute file path");
        return Err(wrong.to_string());
    }
    let kubeconfig = Kubeconfig::load(Path::new(path)).map_err(|error| format!("kubeConfigFile: {error}"))?;
    Ok(Some(Arc::new(kubeconfig)))
}

/// The feature gate is off in this version, and cannot be switched on here.
fn check_manifests(of: &Value) -> Result<(), String> {
    match of.str_at(&["staticManifestsDir"]).filter(|folder| !folder.is_empty()) {
        None => Ok(()),
        Some(_) => Err(FieldError::forbidden(
            "staticManifestsDir",
            "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled",
        )
        .to_string()),
    }
}
