//! A range of the host's users for each pod that has users of its own, kept in the pod's directory as long as that is there.
//!
//! ```text
//! ROOT/pods/UID/userns <── /var/lib/setpoint/user-ranges/N      the Nth range is this pod's, for all agents of the machine
//! ```
//! A link that leads nowhere claims nothing: who removes a pod's directory gives its range back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use object::Value;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::config::Config;
use crate::directories;
use crate::generate::read::{int, list, pod_directory};
use crate::generate::{IdRange, UserNamespaces};

const LENGTH: u32 = 65_536;
/// As many ranges as there are; the first is the host's own users.
const SLOTS: u32 = u32::MAX / LENGTH;
const FILE: &str = "userns";
/// Which ranges are used by pods of any agent.
pub const CLAIMS: &str = "/var/lib/setpoint/user-ranges";

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
        let ranges = UserRanges { config: config.clone(), used: Mutex::default() };
        if !used.is_empty() {
            let locked = Claims::lock(&config.user_ranges_directory)?;
            // What another agent has by now its pod is not started with.
            used.retain(|slot, uid| locked.claim(*slot, &ranges.path(uid)).unwrap_or(false));
            *ranges.used.lock() = used;
        }
        Ok(ranges)
    }

    /// The pod is gone, with its directory.
    pub fn release(&self, pod_uid: &str) {
        let mut used = self.used.lock();
        let slots = used.extract_if(.., |_, uid| uid == pod_uid).map(|(slot, _)| slot);
        let slots: Vec<u32> = slots.collect();
        if slots.is_empty() {
            return;
        }
        let path = self.path(pod_uid);
        let given_up = Claims::lock(&self.config.user_ranges_directory)
            .and_then(|claims| slots.iter().try_for_each(|slot| claims.give_up(*slot, &path)));
        if let Err(error) = given_up {
            tracing::debug!(pod = pod_uid, %error, "a claim to a range of users is left, and leads nowhere");
        }
    }

    fn claims(&self) -> Result<Claims<'_>, String> {
        let directory = &self.config.user_ranges_directory;
        Claims::lock(directory).map_err(|error| format!("{}: {error}", directory.display()))
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
            let is_ours = match used.get(&slot) {
                Some(uid) => uid == pod_uid,
                None => self.claims()?.claim(slot, &path).map_err(|error| error.to_string())?,
            };
            if !is_ours {
                return Err(format!("range picked for pod {} already taken", object::quote(pod_uid)));
            }
            used.insert(slot, pod_uid.to_owned());
            return Ok(range);
        }
        // Held until the file is there.
        let claims = self.claims()?;
        for slot in (1..=SLOTS).filter(|slot| !used.contains_key(slot)) {
            if !claims.claim(slot, &path).map_err(|error| error.to_string())? {
                continue;
            }
            let range = IdRange { host_id: slot * LENGTH, length: LENGTH };
            write(&path, range).map_err(|error| error.to_string())?;
            used.insert(slot, pod_uid.to_owned());
            return Ok(range);
        }
        Err("could not find an empty slot to allocate a user namespace".to_owned())
    }
}

/// Gives back what pods of this node have; they and their processes are gone. `root`: the node's own directory.
pub fn forget(root: &Path) -> io::Result<()> {
    forget_in(root, Path::new(CLAIMS))
}

fn forget_in(root: &Path, claims: &Path) -> io::Result<()> {
    if !claims.is_dir() {
        return Ok(());
    }
    let locked = Claims::lock(claims)?;
    for entry in fs::read_dir(claims)? {
        let link = entry?.path();
        if fs::read_link(&link).is_ok_and(|of| of.starts_with(root)) {
            fs::remove_file(&link)?;
        }
    }
    drop(locked);
    Ok(())
}

/// Which ranges pods of all agents have; no other agent looks or claims as long as this is there.
struct Claims<'a> {
    directory: &'a Path,
    _lock: File,
}

impl Claims<'_> {
    fn lock(directory: &Path) -> io::Result<Claims<'_>> {
        directories::make(directory)?;
        let lock = File::open(directory)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Claims { directory, _lock: lock })
    }

    /// `false`: it is another pod's, for all that is known: what cannot be looked at counts as taken.
    fn claim(&self, slot: u32, of: &Path) -> io::Result<bool> {
        let link = self.directory.join(slot.to_string());
        match fs::read_link(&link) {
            Ok(claimed) if claimed == of => return Ok(true),
            Ok(claimed) if fs::exists(&claimed).unwrap_or(true) => return Ok(false),
            Ok(_) => fs::remove_file(&link)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return Ok(false),
        }
        symlink(of, &link)?;
        Ok(true)
    }

    fn give_up(&self, slot: u32, of: &Path) -> io::Result<()> {
        let link = self.directory.join(slot.to_string());
        if fs::read_link(&link).is_ok_and(|claimed| claimed == of) { fs::remove_file(link) } else { Ok(()) }
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
    directories::make(directory)?;
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

    fn config(name: &str, root: PathBuf, claims: &Path) -> Config {
        Config { user_ranges_directory: claims.to_owned(), ..Config::new(name, root) }
    }

    #[test]
    fn each_pod_has_a_range_that_it_keeps() {
        let directory = tempfile::tempdir().unwrap();
        let config = config("n", directory.path().to_owned(), &directory.path().join("claims"));
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
    fn agents_of_one_machine_give_pods_different_users() {
        let machine = tempfile::tempdir().unwrap();
        let claims = machine.path().join("claims");
        let agent = |name: &str| UserRanges::load(&config(name, machine.path().join(name), &claims)).unwrap();
        let (one, two) = (agent("one"), agent("two"));
        let slot = |range: Result<IdRange, String>| range.map(|range| range.host_id / LENGTH);
        assert_eq!((slot(one.range("a")), slot(two.range("b")), slot(one.range("c"))), (Ok(1), Ok(2), Ok(3)));
        // The machine was started anew: what pods have is theirs before any new pod comes.
        drop((one, two));
        let two = agent("two");
        assert_eq!((slot(two.range("d")), slot(two.range("b"))), (Ok(4), Ok(2)));
        // With its claim lost, as with a directory that comes from elsewhere.
        let one = agent("one");
        fs::create_dir_all(machine.path().join("one/pods/e")).unwrap();
        fs::copy(machine.path().join("two/pods/b/userns"), machine.path().join("one/pods/e/userns")).unwrap();
        assert_eq!(one.range("e").unwrap_err(), r#"range picked for pod "e" already taken"#);
        assert_eq!(agent("one").range("e").unwrap_err(), r#"range picked for pod "e" already taken"#);
        // Gone, with or without its agent.
        fs::remove_dir_all(machine.path().join("one/pods/a")).unwrap();
        one.release("a");
        fs::remove_dir_all(machine.path().join("one/pods/c")).unwrap();
        assert_eq!((slot(two.range("f")), slot(two.range("g"))), (Ok(1), Ok(3)));
        forget_in(&machine.path().join("two"), &claims).unwrap();
        let left: Vec<_> = fs::read_dir(&claims).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn a_claim_that_cannot_be_looked_at_is_left_alone() {
        let machine = tempfile::tempdir().unwrap();
        let claims = machine.path().join("claims");
        fs::create_dir_all(&claims).unwrap();
        let file = machine.path().join("file");
        fs::write(&file, "").unwrap();
        symlink(file.join("pods/a/userns"), claims.join("1")).unwrap();
        fs::write(claims.join("2"), "no link").unwrap();
        let ranges = UserRanges::load(&config("n", machine.path().join("n"), &claims)).unwrap();
        assert_eq!(ranges.range("b").unwrap().host_id, 3 * LENGTH);
        assert!(claims.join("1").is_symlink() && claims.join("2").is_file());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let config = config("n", directory.path().to_owned(), &directory.path().join("claims"));
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
