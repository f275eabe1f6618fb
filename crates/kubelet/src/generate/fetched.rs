//! What the environment of a container needs from elsewhere, and what came of fetching it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::Value;

use crate::generate::EnvSources;
use crate::generate::read::{list, text};

/// The names of what must be fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    pub config_maps: BTreeSet<&'a str>,
    pub secrets: BTreeSet<&'a str>,
    /// Volumes and paths in them.
    pub files: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Wanted<'a> {
    pub fn of(container: &'a Value) -> Wanted<'a> {
        let mut wanted = Wanted::default();
        let from = list(container, &["envFrom"]).iter();
        let keys = list(container, &["env"]).iter().filter_map(|variable| variable.get("valueFrom"));
        for source in from.chain(keys) {
            let name = |member: &str| source.str_at(&[member, "name"]);
            wanted.config_maps.extend(["configMapRef", "configMapKeyRef"].into_iter().filter_map(name));
            wanted.secrets.extend(["secretRef", "secretKeyRef"].into_iter().filter_map(name));
            if let Some(file) = source.get("fileKeyRef") {
                wanted.files.insert((text(file, &["volumeName"]), text(file, &["path"])));
            }
        }
        wanted
    }
}

/// What came of it, by name; `None`: it does not exist. What nobody fetched does not, either.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    pub config_maps: BTreeMap<String, Result<Option<Arc<Value>>, String>>,
    pub secrets: BTreeMap<String, Result<Option<Arc<Value>>, String>>,
    /// By the volume's directory and the path in it: see [`crate::generate::files::read_volume_file`].
    pub files: BTreeMap<(PathBuf, String), Result<String, String>>,
    /// By namespace: the pod's, and `default` for the API server's own. `None`: they were never read.
    pub services: Option<BTreeMap<String, Vec<Arc<Value>>>>,
}

impl EnvSources for Fetched {
    fn config_map(&self, name: &str) -> Result<Option<Arc<Value>>, String> {
        self.config_maps.get(name).cloned().unwrap_or(Ok(None))
    }
    fn secret(&self, name: &str) -> Result<Option<Arc<Value>>, String> {
        self.secrets.get(name).cloned().unwrap_or(Ok(None))
    }
    fn file(&self, volume: &Path, path: &str) -> Result<String, String> {
        let read = self.files.get(&(volume.to_owned(), path.to_owned()));
        read.cloned().unwrap_or_else(|| Err("the file was not read".to_owned()))
    }
    fn services(&self, namespace: &str) -> Result<Vec<Arc<Value>>, String> {
        match &self.services {
            Some(all) => Ok(all.get(namespace).cloned().unwrap_or_default()),
            None => Err("services have not yet been read at least once, cannot construct envvars".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::env::environment;
    use crate::generate::testing::{Fixture, pod, value};

    const CONTAINER: &str = r#"{"name":"c",
        "envFrom":[{"configMapRef":{"name":"a"}},{"secretRef":{"name":"b"}}],
        "env":[{"name":"X","valueFrom":{"configMapKeyRef":{"name":"c","key":"k"}}},
               {"name":"Y","valueFrom":{"secretKeyRef":{"name":"d","key":"k"}}},
               {"name":"Z","valueFrom":{"fileKeyRef":{"volumeName":"data","path":"e","key":"k"}}},
               {"name":"W","value":"w"}]}"#;

    #[test]
    fn what_a_container_names_is_listed() {
        let container = value(CONTAINER);
        let wanted = Wanted::of(&container);
        assert_eq!(wanted.config_maps, BTreeSet::from(["a", "c"]));
        assert_eq!(wanted.secrets, BTreeSet::from(["b", "d"]));
        assert_eq!(wanted.files, BTreeSet::from([("data", "e")]));
    }

    #[test]
    fn what_was_fetched_makes_the_environment() {
        let data = |json: &str| Ok(Some(Arc::new(value(&format!(r#"{{"data":{json}}}"#)))));
        let mut fetched = Fetched {
            config_maps: [("a".to_owned(), data(r#"{"A":"1"}"#)), ("c".to_owned(), data(r#"{"k":"2"}"#))]
                .into(),
            secrets: [("b".to_owned(), data("{}")), ("d".to_owned(), data(r#"{"k":"Mw=="}"#))].into(),
            files: [(("/volumes/data".into(), "e".to_owned()), Ok("k='4'".to_owned()))].into(),
            services: None,
        };
        let fixture = Fixture::new();
        let (pod, container) = (pod("{}"), value(CONTAINER));
        let node = fixture.node();
        let env = |fetched: &Fetched| {
            let inputs = fixture.inputs(&node, &pod, &container);
            environment(&crate::generate::ContainerInputs { sources: fetched, ..inputs })
        };
        let never = "services have not yet been read at least once, cannot construct envvars";
        assert_eq!(env(&fetched), Err(never.to_owned()));
        fetched.services = Some(BTreeMap::new());
        let made: Vec<String> =
            env(&fetched).unwrap().into_values().map(|v| String::from_utf8(v).unwrap()).collect();
        assert_eq!(made, ["1", "w", "2", "3", "4"]);
        let failure = "failed to sync secret cache: timed out waiting for the condition";
        fetched.secrets.insert("d".to_owned(), Err(failure.to_owned()));
        assert_eq!(env(&fetched), Err(failure.to_owned()));
        fetched.secrets.remove("d");
        assert_eq!(env(&fetched), Err(r#"secret "d" not found"#.to_owned()));
    }
}
