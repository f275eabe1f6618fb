//! The environment of a container.
//!
//! ```text
//!  envFrom ──> env, in its order: value with $(NAME), fields, resources, keys ──> services where nothing else has the name
//! ```

mod env_file;
mod field;
mod resource_field;
mod services;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use crate::generate::read::{flag, list, present, text};
use crate::generate::{ContainerInputs, expansion};

pub use field::{format_map, metadata_field};
pub use resource_field::{container_value, named};
pub use services::service_variables;

/// Names and values; a value need not be text.
pub type Environment = BTreeMap<String, Vec<u8>>;

/// The objects and files that variables come from, of the pod's namespace. Errors are in words for the pod's status.
pub trait EnvSources {
    /// `None`: there is none of that name.
    fn config_map(&self, name: &str) -> Result<Option<Arc<Value>>, String>;
    fn secret(&self, name: &str) -> Result<Option<Arc<Value>>, String>;
    /// What a file of a volume says; its path cannot leave the volume.
    fn file(&self, volume: &Path, path: &str) -> Result<String, String>;
    /// All Services of a namespace. An error as long as they were never read: containers would start without them.
    fn services(&self, namespace: &str) -> Result<Vec<Arc<Value>>, String>;
}

pub(super) fn environment(inputs: &ContainerInputs<'_>) -> Result<Environment, String> {
    let services = services::of_pod(inputs)?;
    let mut objects = Objects { inputs, config_maps: BTreeMap::new(), secrets: BTreeMap::new() };
    let mut env = Environment::new();
    let mut budget = expansion::Budget::default();
    for from in list(inputs.container, &["envFrom"]) {
        let prefix = text(from, &["prefix"]);
        for (key, value) in objects.all_of(from)? {
            budget.take(prefix.len() + key.len() + value.len()).map_err(|error| error.to_string())?;
            env.insert(format!("{prefix}{key}"), value);
        }
    }
    for variable in list(inputs.container, &["env"]) {
        let literal = text(variable, &["value"]);
        let value = if !literal.is_empty() {
            let known = |name: &[u8]| {
                let name = std::str::from_utf8(name).ok()?;
                env.get(name).cloned().or_else(|| services.get(name).map(|v| v.clone().into_bytes()))
            };
            let lookup = |name: &[u8]| known(name).unwrap_or_else(|| expansion::unresolved(name));
            let whole = expansion::expand(literal.as_bytes(), &mut budget, lookup);
            Some(whole.map_err(|error| error.to_string())?)
        } else {
            let value = match present(variable, &["valueFrom"]) {
                Some(source) => objects.resolved(source)?,
                None => Some(Vec::new()),
            };
            budget.take(value.as_ref().map_or(0, Vec::len)).map_err(|error| error.to_string())?;
            value
        };
        // An optional key that is not there leaves what was there before.
        if let Some(value) = value {
            env.insert(text(variable, &["name"]).to_owned(), value);
        }
    }
    for (name, value) in services {
        env.entry(name).or_insert_with(|| value.into_bytes());
    }
    Ok(env)
}

/// ConfigMaps and Secrets, each read once, so that one container never sees two states of them.
struct Objects<'a> {
    inputs: &'a ContainerInputs<'a>,
    config_maps: BTreeMap<String, Arc<Value>>,
    secrets: BTreeMap<String, Arc<Value>>,
}

#[derive(Clone, Copy)]
enum Kind {
    ConfigMap,
    Secret,
}

impl Objects<'_> {
    /// Everything in the object an `envFrom` names.
    fn all_of(&mut self, from: &Value) -> Result<Vec<(String, Vec<u8>)>, String> {
        let (kind, reference) = match (from.get("configMapRef"), from.get("secretRef")) {
            (Some(reference), _) if !reference.is_null() => (Kind::ConfigMap, reference),
            (_, Some(reference)) => (Kind::Secret, reference),
            _ => return Ok(Vec::new()),
        };
        let Some(object) = self.object(kind, reference)? else { return Ok(Vec::new()) };
        let data = object.get("data").and_then(Value::as_map);
        let pairs = data.into_iter().flat_map(|data| data.iter());
        Ok(pairs.filter_map(|(key, value)| Some((key.as_str().to_owned(), content(kind, value)?))).collect())
    }

    /// `None`: it is optional, and not there.
    fn resolved(&mut self, source: &Value) -> Result<Option<Vec<u8>>, String> {
        let given = |name: &str| present(source, &[name]);
        if let Some(field) = given("fieldRef") {
            return field::value(self.inputs, field).map(|value| Some(value.into_bytes()));
        }
        if let Some(field) = given("resourceFieldRef") {
            return resource_field::value(self.inputs, field).map(|value| Some(value.into_bytes()));
        }
        if let Some(reference) = given("configMapKeyRef") {
            return self.key(Kind::ConfigMap, reference);
        }
        if let Some(reference) = given("secretKeyRef") {
            return self.key(Kind::Secret, reference);
        }
        match given("fileKeyRef") {
            Some(reference) => self.file_key(reference),
            None => Ok(Some(Vec::new())),
        }
    }

    fn key(&mut self, kind: Kind, reference: &Value) -> Result<Option<Vec<u8>>, String> {
        let Some(object) = self.object(kind, reference)? else { return Ok(None) };
        let key = text(reference, &["key"]);
        let found = object.at(&["data", key]).and_then(|value| content(kind, value));
        if found.is_some() || flag(reference, &["optional"]) == Some(true) {
            return Ok(found);
        }
        let namespace = text(self.inputs.pod, &["metadata", "namespace"]);
        let name = text(reference, &["name"]);
        let kind = match kind {
            Kind::ConfigMap => "ConfigMap",
            Kind::Secret => "Secret",
        };
        Err(format!("couldn't find key {key} in {kind} {namespace}/{name}"))
    }

    fn file_key(&self, reference: &Value) -> Result<Option<Vec<u8>>, String> {
        let (name, path, key) =
            (text(reference, &["volumeName"]), text(reference, &["path"]), text(reference, &["key"]));
        let volume = self.inputs.volumes.get(name).filter(|volume| volume.device.is_none());
        let volume = volume.ok_or_else(|| {
            format!("cannot find the volume {} referenced by FileKeyRef", object::quote(name))
        })?;
        let read = self.inputs.sources.file(&volume.host_path, path);
        let value = read.and_then(|content| env_file::value(&content, key)).map_err(|error| {
            // What a file of the host says is not for everyone to read.
            tracing::info!(volume = name, path, error, "failed to parse env file");
            "couldn't parse env file".to_owned()
        })?;
        if !value.is_empty() {
            return Ok(Some(value.into_bytes()));
        }
        if flag(reference, &["optional"]) == Some(true) {
            return Ok(None);
        }
        let whole = volume.host_path.join(path.trim_start_matches('/'));
        let (key, whole) = (object::quote(key), object::quote(&whole.to_string_lossy()));
        Err(format!("environment variable key {key} not found in file {whole}"))
    }

    /// `None`: it is optional, and not there.
    fn object(&mut self, kind: Kind, reference: &Value) -> Result<Option<Arc<Value>>, String> {
        let name = text(reference, &["name"]);
        let (known, resource) = match kind {
            Kind::ConfigMap => (&mut self.config_maps, "configmap"),
            Kind::Secret => (&mut self.secrets, "secret"),
        };
        if let Some(object) = known.get(name) {
            return Ok(Some(object.clone()));
        }
        let found = match kind {
            Kind::ConfigMap => self.inputs.sources.config_map(name)?,
            Kind::Secret => self.inputs.sources.secret(name)?,
        };
        match found {
            Some(object) => {
                known.insert(name.to_owned(), object.clone());
                Ok(Some(object))
            }
            None if flag(reference, &["optional"]) == Some(true) => Ok(None),
            None => Err(format!("{resource} {} not found", object::quote(name))),
        }
    }
}

fn content(kind: Kind, value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    match kind {
        Kind::ConfigMap => Some(text.as_bytes().to_vec()),
        Kind::Secret => STANDARD.decode(text).ok(),
    }
}

#[cfg(test)]
mod tests;
