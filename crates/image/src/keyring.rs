//! Which credentials may open which image: the docker configs of pull secrets, as kubelet matches them.
//!
//! ```text
//! Secret ── .dockerconfigjson / .dockercfg ── Keyring.add(source, …)
//! image  ── Keyring.find ── credentials, those of the longest path first
//! ```
//! A pod has a ring of its pull secrets, the node one of its own `config.json`: what the pod's ring finds comes first.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

const DEFAULT_REGISTRY: &str = "index.docker.io";

/// What a registry is shown.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Login {
    pub username: String,
    pub password: String,
    /// Exchanged for a token at the registry's token server.
    pub identity_token: String,
    /// Shown to the registry as it is.
    pub registry_token: String,
}

/// Secrets are not for logs.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?})", self.username)
    }
}

/// The Secret that credentials are from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretSource {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A login, and whose it is. Without a source every pod of the node has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credential {
    pub login: Login,
    pub source: Option<SecretSource>,
}

impl Credential {
    /// Tells two logins apart without telling what they are.
    pub fn hash(&self) -> String {
        let Login { username, password, identity_token, registry_token } = &self.login;
        let parts = [username, password, identity_token, registry_token];
        // With their lengths, so that no two lists of parts are one text.
        let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
        Digest::of(text.as_bytes()).hex().to_owned()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error occurred while trying to unmarshal json")]
pub struct KeyringError;

/// Credentials by where they may be used.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// Host (which may hold `*`), port and path, with all credentials for them.
    entries: BTreeMap<String, Vec<Credential>>,
}

/// An entry as people write it. What is `null` is not there.
#[derive(Deserialize)]
struct Entry {
    username: Option<String>,
    password: Option<String>,
    auth: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

#[derive(Deserialize)]
struct ConfigJson {
    auths: Option<BTreeMap<String, Option<Entry>>>,
}

impl Keyring {
    /// Adds the `.dockerconfigjson` of a Secret of type `kubernetes.io/dockerconfigjson`, or a node's `config.json`.
    pub fn add_config_json(
        &mut self,
        json: &[u8],
        source: Option<&SecretSource>,
    ) -> Result<(), KeyringError> {
        let config: ConfigJson = serde_json::from_slice(json).map_err(|_| KeyringError)?;
        self.add(config.auths.unwrap_or_default(), source)
    }

    /// Adds the `.dockercfg` of a Secret of type `kubernetes.io/dockercfg`.
    pub fn add_dockercfg(&mut self, json: &[u8], source: Option<&SecretSource>) -> Result<(), KeyringError> {
        self.add(serde_json::from_slice(json).map_err(|_| KeyringError)?, source)
    }

    fn add(
        &mut self,
        entries: BTreeMap<String, Option<Entry>>,
        source: Option<&SecretSource>,
    ) -> Result<(), KeyringError> {
        // All or nothing, as a Secret that cannot be read is none.
        let mut added = Vec::new();
        for (place, entry) in entries {
            let login = entry.map(login).transpose()?.unwrap_or_default();
            added.push((key(&place), Credential { login, source: source.cloned() }));
        }
        for (key, credential) in added {
            self.entries.entry(key).or_default().push(credential);
        }
        Ok(())
    }

    /// The credentials to try for an image, in order. `image` is the name without tag and digest, as the pod has it or normalised.
    pub fn find(&self, image: &str) -> Vec<Credential> {
        // Backwards: a longer path of the same host comes first.
        let found: Vec<Credential> = (self.entries.iter().rev())
            .filter(|(key, _)| matches(key, image))
            .flat_map(|(_, credentials)| credentials.iter().cloned())
            .collect();
        if found.is_empty() && is_default_registry(image) {
            return self.entries.get(DEFAULT_REGISTRY).cloned().unwrap_or_default();
        }
        found
    }
}

fn login(entry: Entry) -> Result<Login, KeyringError> {
    let mut login = Login {
        username: entry.username.unwrap_or_default(),
        password: entry.password.unwrap_or_default(),
        // Differs from kubelet, which drops the two: what `docker login` writes for some registries is nothing else.
        identity_token: entry.identitytoken.unwrap_or_default(),
        registry_token: entry.registrytoken.unwrap_or_default(),
    };
    let auth = entry.auth.unwrap_or_default();
    if !auth.is_empty() {
        let padding = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let engine = GeneralPurpose::new(&alphabet::STANDARD, padding);
        let breaks = |c: char| c == '\r' || c == '\n';
        let decoded = engine.decode(auth.replace(breaks, "")).map_err(|_| KeyringError)?;
        let text = String::from_utf8(decoded).map_err(|_| KeyringError)?;
        let (username, password) = text.split_once(':').ok_or(KeyringError)?;
        (login.username, login.password) = (username.to_owned(), password.to_owned());
    }
    Ok(login)
}

/// Host and path of a place. `/v1/` and `/v2/` in front of the path are the registry's own.
fn key(place: &str) -> String {
    let place = place.strip_prefix("https://").or_else(|| place.strip_prefix("http://")).unwrap_or(place);
    let (host, path) = split(place);
    let path = match path.strip_prefix("/v2/").or_else(|| path.strip_prefix("/v1/")) {
        Some(rest) => &path[path.len() - rest.len() - 1..],
        None => path,
    };
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// Host with port, and the path with its slash.
fn split(place: &str) -> (&str, &str) {
    let place = &place[..place.find(['?', '#']).unwrap_or(place.len())];
    place.split_at(place.find('/').unwrap_or(place.len()))
}

fn matches(key: &str, image: &str) -> bool {
    let ((glob, prefix), (host, path)) = (split(key), split(image));
    let ((glob, glob_port), (host, port)) = (split_port(glob), split_port(host));
    let (globs, parts) = (glob.split('.'), host.split('.'));
    glob_port == port
        && path.starts_with(prefix)
        && globs.clone().count() == parts.clone().count()
        && globs.zip(parts).all(|(glob, part)| glob_matches(glob.as_bytes(), part.as_bytes()))
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && (!name.contains(':') || name.ends_with(']')) => {
            (name, port)
        }
        _ => (host, ""),
    }
}

/// `*` and `?` of a shell's pattern, without looking back further than one star.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut g, mut t) = (0, 0);
    // Where to go on when what followed the last star did not fit.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g + 1, t));
                g += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => (g, t) = (g + 1, t + 1),
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (g, t) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|c| *c == b'*')
}

/// Whether the name means Docker Hub.
fn is_default_registry(image: &str) -> bool {
    match image.split_once('/') {
        None => !image.is_empty(),
        Some(("docker.io" | "index.docker.io", _)) => true,
        Some((first, _)) => !first.is_empty() && !first.contains(['.', ':']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(places: &[&str]) -> Keyring {
        let auths: BTreeMap<&str, _> = places
            .iter()
            .map(|place| (*place, serde_json::json!({"username": place, "password": "p"})))
            .collect();
        let mut ring = Keyring::default();
        let json = serde_json::json!({ "auths": auths }).to_string();
        ring.add_config_json(json.as_bytes(), None).unwrap();
        ring
    }

    fn found(ring: &Keyring, image: &str) -> Vec<String> {
        ring.find(image).into_iter().map(|credential| credential.login.username).collect()
    }

    #[test]
    fn a_place_matches_its_host_and_the_paths_below() {
        for (place, image, fits) in [
            ("quay.io", "quay.io/coreos/etcd", true),
            ("https://quay.io", "quay.io/coreos/etcd", true),
            ("http://quay.io/v1/", "quay.io/coreos/etcd", true),
            ("quay.io/v2/", "quay.io/coreos/etcd", true),
            ("quay.io/coreos", "quay.io/coreos/etcd", true),
            ("quay.io/v1/coreos", "quay.io/coreos/etcd", true),
            ("quay.io/core", "quay.io/coreos/etcd", true),
            ("quay.io/other", "quay.io/coreos/etcd", false),
            ("quay.io:443", "quay.io/coreos/etcd", false),
            ("*.io", "quay.io/coreos/etcd", true),
            ("*.quay.io", "quay.io/coreos/etcd", false),
            ("*.kubernetes.io", "prefix.kubernetes.io/app", true),
            ("*.*.io", "a.b.io/app", true),
            ("p*x.io:5000", "prefix.io:5000/app", true),
            ("p*x.io", "prefix.io:5000/app", false),
            ("[::1]:5000", "[::1]:5000/app", true),
            ("[::1]", "[::1]:5000/app", false),
            ("https://index.docker.io/v1/", "docker.io/library/busybox", true),
            ("https://index.docker.io/v1/", "busybox", true),
            ("https://index.docker.io/v1/", "me/app", true),
            ("https://index.docker.io/v1/", "quay.io/app", false),
            ("docker.io", "docker.io/library/busybox", true),
        ] {
            assert_eq!(!found(&ring(&[place]), image).is_empty(), fits, "{place} for {image}");
        }
    }

    #[test]
    fn longer_paths_come_first() {
        let ring = ring(&["quay.io", "quay.io/a", "quay.io/a/b"]);
        assert_eq!(found(&ring, "quay.io/a/b/c"), ["quay.io/a/b", "quay.io/a", "quay.io"]);
    }

    #[test]
    fn auth_is_user_and_password_in_base64() {
        // With padding, without, with a colon in the password, in both forms of the file.
        for (auth, user, password) in
            [("dTpw", "u", "p"), ("dTpwdw==", "u", "pw"), ("dTpwdw", "u", "pw"), ("dTpwOnc=", "u", "p:w")]
        {
            let entry = format!(r#"{{"r.io": {{"auth": "{auth}", "username": "other"}}}}"#);
            let mut ring = Keyring::default();
            ring.add_dockercfg(entry.as_bytes(), None).unwrap();
            ring.add_config_json(format!(r#"{{"auths": {entry}}}"#).as_bytes(), None).unwrap();
            let found = ring.find("r.io/app");
            assert_eq!(found.len(), 2);
            for Credential { login, .. } in found {
                assert_eq!((login.username.as_str(), login.password.as_str()), (user, password));
            }
        }
    }

    #[test]
    fn a_broken_secret_adds_nothing() {
        let mut ring = Keyring::default();
        for json in [
            "",
            "[]",
            "{",
            r#"{"auths": {"a.io": {"auth": "!"}}}"#,
            r#"{"auths": {"a.io": {"auth": "dXA="}}}"#,
        ] {
            assert!(ring.add_config_json(json.as_bytes(), None).is_err(), "{json}");
        }
        assert!(ring.add_config_json(br#"{"auths": null}"#, None).is_ok());
        assert!(ring.find("a.io/x").is_empty());
    }

    #[test]
    fn logins_are_told_apart_and_not_shown() {
        let credential = |username: &str, password: &str| Credential {
            login: Login { username: username.into(), password: password.into(), ..Login::default() },
            source: None,
        };
        assert_ne!(credential("ab", "c").hash(), credential("a", "bc").hash());
        assert_eq!(credential("a", "b").hash(), credential("a", "b").hash());
        assert!(!format!("{:?}", credential("user", "hunter2")).contains("hunter2"));
    }
}
