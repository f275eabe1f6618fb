//! An image's config: what it says about the containers made of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::digest::Digest;

/// What a container is started with if its pod does not say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Config {
    #[serde(deserialize_with = "or_default")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub cmd: Vec<String>,
    /// `NAME=value`.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub working_dir: String,
    /// `user`, `uid`, `user:group` or `uid:gid`; empty for root.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    #[serde(deserialize_with = "keys")]
    pub volumes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub stop_signal: String,
    /// `80/tcp`.
    #[serde(deserialize_with = "keys")]
    pub exposed_ports: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
}

/// The user of an image as CRI tells it: a number, or a name that only the image's own `/etc/passwd` resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    Uid(i64),
    Name(String),
}

impl Config {
    /// The user without the group; nothing means root.
    pub fn user(&self) -> User {
        let user = self.user.split(':').next().unwrap_or_default();
        match user.parse() {
            _ if user.is_empty() => User::Uid(0),
            Ok(uid) => User::Uid(uid),
            Err(_) => User::Name(user.to_owned()),
        }
    }
}

/// The whole config blob, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ConfigBlob {
    #[serde(default, deserialize_with = "or_default")]
    pub config: Config,
    #[serde(default)]
    pub rootfs: RootFs,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct RootFs {
    /// The digests of the layers as plain tar, the lowest first.
    #[serde(default, deserialize_with = "or_default")]
    pub diff_ids: Vec<Digest>,
}

/// Go writes empty lists and maps as `null`.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A set, which Go writes as a map of empty objects, and this crate as a list.
fn keys<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Set {
        Map(BTreeMap<String, serde::de::IgnoredAny>),
        List(Vec<String>),
    }
    Ok(match Option::deserialize(from)? {
        Some(Set::Map(map)) => map.into_keys().collect(),
        Some(Set::List(list)) => list,
        None => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_read_with_or_without_its_parts() {
        let blob: ConfigBlob = serde_json::from_str(
            r#"{"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/bin/sh"], "Cmd": null,
                "Env": ["PATH=/bin"], "WorkingDir": "/w", "User": "1000:2000", "Volumes": {"/data": {}}, "StopSignal": "SIGQUIT",
                "ExposedPorts": {"80/tcp": {}, "53/udp": {}}, "Labels": {"a": "b"}, "OnBuild": null, "Healthcheck": {"Test": ["x"]}},
                "rootfs": {"type": "layers", "diff_ids": null}, "history": []}"#,
        )
        .unwrap();
        let config = Config {
            entrypoint: vec!["/bin/sh".into()],
            cmd: vec![],
            env: vec!["PATH=/bin".into()],
            working_dir: "/w".into(),
            user: "1000:2000".into(),
            volumes: vec!["/data".into()],
            stop_signal: "SIGQUIT".into(),
            exposed_ports: vec!["53/udp".into(), "80/tcp".into()],
            labels: [("a".to_owned(), "b".to_owned())].into(),
        };
        assert_eq!(blob.config, config);
        assert_eq!(config.user(), User::Uid(1000));
        // As the store writes and reads it.
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
        for empty in ["{}", r#"{"config": null}"#] {
            assert_eq!(serde_json::from_str::<ConfigBlob>(empty).unwrap().config, Config::default());
        }
    }

    #[test]
    fn a_user_is_a_number_or_a_name() {
        for (user, is) in [
            ("", User::Uid(0)),
            ("0", User::Uid(0)),
            ("65532:65532", User::Uid(65532)),
            ("nobody", User::Name("nobody".into())),
            ("www:www", User::Name("www".into())),
        ] {
            assert_eq!(Config { user: user.into(), ..Config::default() }.user(), is);
        }
    }
}
