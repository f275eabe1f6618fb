//! What the files of config maps, secrets, the downward API and their projections hold.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::downward;
use crate::objects::{ObjectError, ObjectKind, Objects, TokenWanted};

/// One file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub data: Vec<u8>,
    pub mode: u32,
    /// Its owner, if it is not root.
    pub user: Option<u32>,
}

/// Files by their path in the volume.
pub type Payload = BTreeMap<String, File>;

/// Who reads the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    /// The user of all containers of the pod, if they have the same.
    pub user: Option<u32>,
    pub fs_group: Option<u32>,
}

const DEFAULT_MODE: u32 = 0o644;

/// Gathers the files of one volume; `source` is its `configMap`, `secret`, `downwardAPI` or `projected`.
pub struct Gather<'a> {
    pub objects: &'a Objects,
    pub pod: &'a Value,
    /// `status.allocatable` of the node.
    pub allocatable: &'a Value,
    pub readers: Readers,
}

impl Gather<'_> {
    pub async fn config_map(&self, source: &Value) -> Result<Payload, String> {
        self.object(ObjectKind::ConfigMap, source.str_at(&["name"]), source, mode_of(source, "defaultMode"))
            .await
    }

    pub async fn secret(&self, source: &Value) -> Result<Payload, String> {
        let mode = mode_of(source, "defaultMode");
        self.object(ObjectKind::Secret, source.str_at(&["secretName"]), source, mode).await
    }

    pub fn downward(&self, source: &Value) -> Result<Payload, String> {
        downward::files(source, self.pod, self.allocatable, mode_of(source, "defaultMode"))
    }

    /// All sources are tried, so that one message names all that is missing. Where two have the same path the later one counts.
    pub async fn projected(&self, source: &Value) -> Result<Payload, String> {
        let mode = mode_of(source, "defaultMode");
        let (mut payload, mut errors) = (Payload::new(), Vec::new());
        for part in source.get("sources").and_then(Value::as_list).unwrap_or_default() {
            match self.part(part, mode).await {
                Ok(files) => payload.extend(files),
                Err(error) => errors.push(error),
            }
        }
        match aggregate(errors) {
            Some(error) => Err(error),
            None => Ok(payload),
        }
    }

    async fn part(&self, part: &Value, mode: u32) -> Result<Payload, String> {
        if let Some(secret) = part.get("secret") {
            return self.object(ObjectKind::Secret, secret.str_at(&["name"]), secret, mode).await;
        }
        if let Some(map) = part.get("configMap") {
            return self.object(ObjectKind::ConfigMap, map.str_at(&["name"]), map, mode).await;
        }
        if let Some(downward) = part.get("downwardAPI") {
            return downward::files(downward, self.pod, self.allocatable, mode);
        }
        if let Some(token) = part.get("serviceAccountToken") {
            return self.token(token, mode).await;
        }
        for gated in ["clusterTrustBundle", "podCertificate"] {
            if part.get(gated).is_some() {
                return Err(format!("projected volume source {gated} is not supported by this node"));
            }
        }
        Ok(Payload::new())
    }

    async fn token(&self, source: &Value, mode: u32) -> Result<Payload, String> {
        let text = |path: &[&str]| self.pod.str_at(path).unwrap_or_default();
        let wanted = TokenWanted {
            namespace: text(&["metadata", "namespace"]),
            account: text(&["spec", "serviceAccountName"]),
            pod_name: text(&["metadata", "name"]),
            pod_uid: text(&["metadata", "uid"]),
            audience: source.str_at(&["audience"]).unwrap_or_default(),
            expiration_seconds: source.get("expirationSeconds").and_then(Value::as_int),
        };
        let token = self.objects.token(&wanted).await.map_err(|error| error.to_string())?;
        // A group that is to read it is let in with all files of the volume.
        let private = self.readers.user.is_some() || self.readers.fs_group.is_some();
        let file = File {
            data: token.into_bytes(),
            mode: if private { 0o600 } else { mode },
            user: self.readers.user,
        };
        let path = source.str_at(&["path"]).unwrap_or_default();
        Ok(Payload::from([(path.to_owned(), file)]))
    }

    async fn object(
        &self,
        kind: ObjectKind,
        name: Option<&str>,
        source: &Value,
        mode: u32,
    ) -> Result<Payload, String> {
        let namespace = self.pod.str_at(&["metadata", "namespace"]).unwrap_or_default();
        let optional = source.get("optional").and_then(Value::as_bool).unwrap_or(false);
        let object = match self.objects.get(kind, namespace, name.unwrap_or_default()).await {
            Ok(obj) => runtime::tree(&obj),
            Err(ObjectError::NotFound { .. }) if optional => Value::map(),
            Err(error) => return Err(error.to_string()),
        };
        let items = source.get("items").and_then(Value::as_list).unwrap_or_default();
        files(kind, &object, items, mode, optional)
    }
}

/// The entries of a config map or secret that `items` choose; all of them if they choose none.
pub fn files(
    kind: ObjectKind,
    object: &Value,
    items: &[Value],
    mode: u32,
    optional: bool,
) -> Result<Payload, String> {
    let entries = entries(kind, object)?;
    if items.is_empty() {
        return Ok(entries.into_iter().map(|(name, data)| (name, File { data, mode, user: None })).collect());
    }
    let mut payload = Payload::new();
    for item in items {
        let text = |name: &str| item.str_at(&[name]).unwrap_or_default();
        let Some(data) = entries.get(text("key")) else {
            if optional {
                continue;
            }
            return Err(match kind {
                ObjectKind::ConfigMap => {
                    format!("configmap references non-existent config key: {}", text("key"))
                }
                ObjectKind::Secret => format!("references non-existent secret key: {}", text("key")),
            });
        };
        let mode = item.get("mode").and_then(Value::as_int).map_or(mode, file_mode);
        payload.insert(text("path").to_owned(), File { data: data.clone(), mode, user: None });
    }
    Ok(payload)
}

fn entries(kind: ObjectKind, object: &Value) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let (plain, encoded) = match kind {
        ObjectKind::ConfigMap => ("data", "binaryData"),
        ObjectKind::Secret => ("", "data"),
    };
    let members = |name: &str| object.get(name).and_then(Value::as_map);
    let mut all = BTreeMap::new();
    for (name, value) in members(plain).into_iter().flat_map(|map| map.iter()) {
        all.insert(name.to_string(), value.as_str().unwrap_or_default().as_bytes().to_vec());
    }
    for (name, value) in members(encoded).into_iter().flat_map(|map| map.iter()) {
        let data = STANDARD.decode(value.as_str().unwrap_or_default());
        all.insert(name.to_string(), data.map_err(|error| format!("{encoded}[{name}]: {error}"))?);
    }
    Ok(all)
}

/// A mode of the source; API servers fill it in, files of static pods may lack it.
fn mode_of(source: &Value, name: &str) -> u32 {
    source.get(name).and_then(Value::as_int).map_or(DEFAULT_MODE, file_mode)
}

pub(super) fn file_mode(mode: i64) -> u32 {
    u32::try_from(mode).unwrap_or(DEFAULT_MODE) & 0o777
}

/// Several errors as one, as Go's libraries put it.
pub fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut unique: Vec<String> = Vec::new();
    for error in errors {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    match unique.len() {
        0 => None,
        1 => unique.pop(),
        _ => Some(format!("[{}]", unique.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        runtime::parse(text).unwrap_or_else(|_| panic!("{text}"))
    }

    fn texts(payload: &Payload) -> Vec<(&str, &str, u32)> {
        let text = |file: &File| std::str::from_utf8(&file.data).unwrap().to_owned();
        payload.iter().map(|(path, file)| (path.as_str(), &*text(file).leak(), file.mode)).collect()
    }

    #[test]
    fn all_entries_are_files_unless_items_choose() {
        let map = parse("{data: {a: text}, binaryData: {b: aGk=}}");
        let all = files(ObjectKind::ConfigMap, &map, &[], 0o640, false).unwrap();
        assert_eq!(texts(&all), [("a", "text", 0o640), ("b", "hi", 0o640)]);
        let items = parse("[{key: b, path: dir/b, mode: 256}, {key: a, path: a}]");
        let some = files(ObjectKind::ConfigMap, &map, items.as_list().unwrap(), 0o644, false).unwrap();
        assert_eq!(texts(&some), [("a", "text", 0o644), ("dir/b", "hi", 0o400)]);
        let secret = parse("{data: {token: dA==}, stringData: {never: read}}");
        let all = files(ObjectKind::Secret, &secret, &[], 0o644, false).unwrap();
        assert_eq!(texts(&all), [("token", "t", 0o644)]);
    }

    #[test]
    fn a_missing_key_is_told_in_kubelets_words_unless_it_is_optional() {
        let items = parse("[{key: gone, path: a}]");
        let items = items.as_list().unwrap();
        let said = |kind| files(kind, &Value::map(), items, 0o644, false).unwrap_err();
        assert_eq!(said(ObjectKind::ConfigMap), "configmap references non-existent config key: gone");
        assert_eq!(said(ObjectKind::Secret), "references non-existent secret key: gone");
        assert_eq!(files(ObjectKind::Secret, &Value::map(), items, 0o644, true), Ok(Payload::new()));
    }

    #[test]
    fn errors_are_gathered_as_go_does() {
        let many = |errors: &[&str]| aggregate(errors.iter().map(|e| (*e).to_owned()).collect());
        assert_eq!(many(&[]), None);
        assert_eq!(many(&["a"]).as_deref(), Some("a"));
        assert_eq!(many(&["a", "b", "a"]).as_deref(), Some("[a, b]"));
    }
}
