//! A range of the host's users for each pod that has users of its own, kept in the pod's directory as long as that is there.
//!
//! Agents of one machine do not know of each other's ranges: a machine for more than tests has one agent.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use object::Value;
use parking_lot::Mutex;

use crate::config::Config;
use crate::generate::read::{int, list, pod_directory};
use crate::generate::{IdRange, UserNamespaces};

const LENGTH: u32 = 65_536;
/// As many ranges as there are; the first is the host's own users.
const SLOTS: u32 = u32::MAX / LENGTH;
const FILE: &str = "userns";

pub struct UserRanges {
    config: Config,
    /// Guards which range is whose; held while a pod's file is written, which is once in its life.
    used: Mutex<BTreeMap<u32, String>>,
}

impl UserRanges {
    /// Reads back what the pods that are here have.
    pub fn load(config: &Config) -> io::Result<UserRanges> {
        let mut used = BTreeMap::new();
        let pods = config.root_directory.join("pods");
        let entries = match fs::read_dir(&pods) {
            Ok(entries) => Some(entries),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        for entry in entries.into_iter().flatten() {
            let entry = entry?;
            let Ok(uid) = entry.file_name().into_string() else { continue };
            match read(&entry.path().join(FILE)) {
                Ok(Some(range)) => {
                    used.insert(range.host_id / LENGTH, uid);
                }
                Ok(None) => {}
                // Its pod will be told when it is looked at.
                Err(error) => tracing::warn!(pod = uid, error, "failed to read a pod's user namespace"),
            }
        }
        Ok(UserRanges { config: config.clone(), used: Mutex::new(used) })
    }

    /// The pod is gone, with its directory.
    pub fn release(&self, pod_uid: &str) {
        self.used.lock().retain(|_, uid| uid != pod_uid);
    }

    fn path(&self, pod_uid: &str) -> PathBuf {
        pod_directory(&self.config, pod_uid).join(FILE)
    }
}

impl UserNamespaces for UserRanges {
    fn range(&self, pod_uid: &str) -> Result<IdRange, String> {
        let mut used = self.used.lock();
        let path = self.path(pod_uid);
        if let Some(range) = read(&path)? {
            let slot = range.host_id / LENGTH;
            if used.get(&slot).is_some_and(|uid| uid != pod_uid) {
                return Err(format!("range picked for pod {} already taken", object::quote(pod_uid)));
            }
            used.insert(slot, pod_uid.to_owned());
            return Ok(range);
        }
        let free = (1..=SLOTS).find(|slot| !used.contains_key(slot));
        let slot = free.ok_or("could not find an empty slot to allocate a user namespace")?;
        let range = IdRange { host_id: slot * LENGTH, length: LENGTH };
        write(&path, range).map_err(|error| error.to_string())?;
        used.insert(slot, pod_uid.to_owned());
        Ok(range)
    }
}

/// `None`: the pod has none.
fn read(path: &Path) -> Result<Option<IdRange>, String> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let tree = codec::json::parse(&content, None)
        .map_err(|error| format!("invalid user namespace mappings file: {error}"))?;
    let invalid = |why: &str| Err(format!("invalid user namespace configuration: {why}"));
    let (users, groups) = (list(&tree, &["uidMappings"]), list(&tree, &["gidMappings"]));
    let [user] = users else { return invalid("no more than one mapping allowed.") };
    if users != groups {
        return invalid("GID and UID mappings should be identical.");
    }
    let number = |name: &str| int(user, &[name]).and_then(|number| u32::try_from(number).ok());
    if number("containerId") != Some(0) {
        return invalid("UID 0 must be mapped");
    }
    match (number("hostId"), number("length")) {
        (_, length) if length != Some(LENGTH) => {
            Err(format!("wrong user namespace length {}", length.unwrap_or(0)))
        }
        (Some(host_id), _) if host_id % LENGTH == 0 && host_id > 0 => {
            Ok(Some(IdRange { host_id, length: LENGTH }))
        }
        (host_id, _) => Err(format!("wrong user namespace offset specified {}", host_id.unwrap_or(0))),
    }
}

/// On the disk before anything uses it: after a crash, nobody else may get the range while the pod's processes have it.
fn write(path: &Path, range: IdRange) -> io::Result<()> {
    let mut mapping = Value::map();
    let members = mapping.make_map();
    members.set("hostId", i64::from(range.host_id));
    members.set("containerId", 0);
    members.set("length", i64::from(range.length));
    let mut tree = Value::map();
    tree.make_map().set("uidMappings", vec![mapping.clone()]);
    tree.make_map().set("gidMappings", vec![mapping]);
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let unfinished = path.with_extension("tmp");
    let mut file = fs::File::create(&unfinished)?;
    file.write_all(&codec::json::to_vec(&tree))?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pod_has_a_range_that_it_keeps() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::new("n", directory.path().to_owned());
        let ranges = UserRanges::load(&config).unwrap();
        let (a, b) = (ranges.range("a").unwrap(), ranges.range("b").unwrap());
        assert_eq!((a.host_id, b.host_id, b.length), (65_536, 131_072, 65_536));
        assert_eq!(ranges.range("a"), Ok(a));
        let written = fs::read_to_string(directory.path().join("pods/a/userns")).unwrap();
        let one = r#"[{"hostId":65536,"containerId":0,"length":65536}]"#;
        assert_eq!(written, format!(r#"{{"uidMappings":{one},"gidMappings":{one}}}"#));

        let again = UserRanges::load(&config).unwrap();
        assert_eq!(again.range("c").unwrap().host_id, 196_608);
        assert_eq!(again.range("b"), Ok(b));
        fs::remove_dir_all(directory.path().join("pods/a")).unwrap();
        again.release("a");
        assert_eq!(again.range("d").unwrap().host_id, 65_536);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::new("n", directory.path().to_owned());
        let ranges = UserRanges::load(&config).unwrap();
        let error = |json: &str| {
            fs::create_dir_all(directory.path().join("pods/a")).unwrap();
            fs::write(directory.path().join("pods/a/userns"), json).unwrap();
            ranges.range("a").unwrap_err()
        };
        let with = |mapping: &str| format!(r#"{{"uidMappings":[{mapping}],"gidMappings":[{mapping}]}}"#);
        let prefix = "invalid user namespace configuration:";
        assert!(error("{").starts_with("invalid user namespace mappings file: "));
        assert_eq!(error("{}"), format!("{prefix} no more than one mapping allowed."));
        let uneven = r#"{"uidMappings":[{"containerId":0}],"gidMappings":[]}"#;
        assert_eq!(error(uneven), format!("{prefix} GID and UID mappings should be identical."));
        assert_eq!(error(&with(r#"{"containerId":1}"#)), format!("{prefix} UID 0 must be mapped"));
        let short = with(r#"{"hostId":65536,"containerId":0,"length":7}"#);
        assert_eq!(error(&short), "wrong user namespace length 7");
        let odd = with(r#"{"hostId":7,"containerId":0,"length":65536}"#);
        assert_eq!(error(&odd), "wrong user namespace offset specified 7");
        ranges.range("b").unwrap();
        let taken = fs::read_to_string(directory.path().join("pods/b/userns")).unwrap();
        assert_eq!(error(&taken), r#"range picked for pod "a" already taken"#);
    }
}
