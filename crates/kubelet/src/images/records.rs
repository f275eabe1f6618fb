//! Who may use an image that is here: kubelet's records of what was pulled, and with whose credentials.
//!
//! ```text
//! image_manager/pulling/sha256-…   a pull has begun; if the agent dies then, the image is known not to be for all
//! image_manager/pulled/sha256-…    by the runtime's id of the image: whose credentials opened it, by repository
//! ```
//! The same files and fields as kubelet's, so that either finds what the other has written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use image::{Credential, PulledBy, PulledSecret, Reference, SecretSource, Verification};
use object::time;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// More Secrets than this for one repository are not added while a pod is only let in.
const MAX_SECRETS: usize = 100;

pub struct Records {
    pulling: PathBuf,
    pulled: PathBuf,
    /// Guards the files, and counts pulls of an image under way. Held while a file is read or written.
    under_way: Mutex<BTreeMap<String, usize>>,
}

/// Of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub image_ref: String,
    /// Unix seconds.
    pub updated: i64,
    /// By repository.
    pub credentials: BTreeMap<String, PulledBy>,
}

impl Records {
    pub fn open(root: &Path) -> io::Result<Records> {
        let folder = |name: &str| -> io::Result<PathBuf> {
            let path = root.join("image_manager").join(name);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
            Ok(path)
        };
        Ok(Records { pulling: folder("pulling")?, pulled: folder("pulled")?, under_way: Mutex::default() })
    }

    /// A pull begins: should the agent die, the image that may be there then is not for all.
    pub fn begin(&self, image: &str) -> io::Result<()> {
        let mut under_way = self.under_way.lock();
        let intent = json!({"kind": "ImagePullIntent", "apiVersion": API_VERSION, "image": image});
        write(&self.pulling, image, &intent)?;
        *under_way.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    pub fn failed(&self, image: &str) -> io::Result<()> {
        self.end(&mut self.under_way.lock(), image)
    }

    /// The image is here, opened by this credential. If that cannot be written down, the beginning stays.
    pub fn succeeded(&self, image: &str, image_ref: &str, by: &PulledBy, now: i64) -> io::Result<()> {
        let mut under_way = self.under_way.lock();
        self.add(image, image_ref, Some(by), now)?;
        self.end(&mut under_way, image)
    }

    fn end(&self, under_way: &mut BTreeMap<String, usize>, image: &str) -> io::Result<()> {
        if let Some(count) = under_way.get_mut(image).filter(|count| **count > 1) {
            *count -= 1;
            return Ok(());
        }
        remove(&self.pulling, image)?;
        under_way.remove(image);
        Ok(())
    }

    /// Whether a pod with these credentials must pull an image that is here, to show that it may have it.
    pub fn must_pull(
        &self,
        image: &str,
        image_ref: &str,
        credentials: &[Credential],
        policy: &Verification,
        now: i64,
    ) -> io::Result<bool> {
        let under_way = self.under_way.lock();
        let record = self.get(image_ref)?;
        let ours = record.is_some() || under_way.contains_key(image) || exists(&self.pulling, image);
        let Ok(repository) = Reference::parse(image).map(|reference| reference.name()) else {
            return Ok(true);
        };
        let verify = match policy {
            Verification::NeverVerify => false,
            Verification::NeverVerifyPreloadedImages => ours,
            Verification::NeverVerifyAllowlistedImages(list) => !allowed(list, &repository),
            Verification::AlwaysVerify => true,
        };
        if !verify {
            return Ok(false);
        }
        let known = match record.as_ref().and_then(|record| record.credentials.get(&repository)) {
            None => return Ok(true),
            Some(PulledBy::Node) => return Ok(false),
            Some(PulledBy::Secrets(known)) => known,
        };
        for (credential, source) in credentials.iter().filter_map(|c| Some((c, c.source.as_ref()?))) {
            let hash = credential.hash();
            for secret in known {
                let same_hash = !hash.is_empty() && secret.credential_hash == hash;
                let (same_source, room) = (secret.source == *source, known.len() < MAX_SECRETS);
                if !(same_hash || (same_source && room)) {
                    continue;
                }
                // The same login in another Secret, or a Secret whose login was renewed: good from now on as well.
                if same_hash != same_source && room {
                    self.add(image, image_ref, Some(&PulledBy::from_credential(Some(credential))), now)?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Images whose pull was cut off and that are here all the same become known, for nobody yet. `images` are names by id.
    pub fn recover(&self, images: &[(String, Vec<String>)], now: i64) -> io::Result<()> {
        let _under_way = self.under_way.lock();
        for intent in read_all(&self.pulling)? {
            let Some(image) = intent["image"].as_str() else { continue };
            let full = Reference::parse(image).map(|reference| reference.to_string()).unwrap_or_default();
            let named = |names: &[String]| names.iter().any(|name| name == image || *name == full);
            if let Some((id, _)) = images.iter().find(|(_, names)| named(names)) {
                self.add(image, id, None, now)?;
                remove(&self.pulling, image)?;
            }
        }
        Ok(())
    }

    /// Forgets images that are not here any more, unless they came after `before`.
    pub fn prune(&self, here: &[String], before: i64) -> io::Result<()> {
        let _under_way = self.under_way.lock();
        for json in read_all(&self.pulled)? {
            let Some(record) = Record::read(&json) else { continue };
            if record.updated < before && !here.contains(&record.image_ref) {
                remove(&self.pulled, &record.image_ref)?;
            }
        }
        Ok(())
    }

    pub fn get(&self, image_ref: &str) -> io::Result<Option<Record>> {
        match fs::read(self.pulled.join(file_name(image_ref))) {
            Ok(bytes) => {
                // A record that cannot be read is one all the same: the image is not for all.
                let json = serde_json::from_slice(&bytes).unwrap_or(Json::Null);
                let empty =
                    Record { image_ref: image_ref.to_owned(), updated: 0, credentials: BTreeMap::new() };
                Ok(Some(Record::read(&json).unwrap_or(empty)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn add(&self, image: &str, image_ref: &str, by: Option<&PulledBy>, now: i64) -> io::Result<()> {
        let repository =
            Reference::parse(image).map(|reference| reference.name()).map_err(io::Error::other)?;
        let old = self.get(image_ref)?;
        let mut record = old.clone().unwrap_or(Record {
            image_ref: image_ref.to_owned(),
            updated: now,
            credentials: BTreeMap::new(),
        });
        if let Some(by) = by {
            record.credentials.entry(repository).or_insert_with(|| by.clone()).merge(by);
        }
        if old.as_ref() == Some(&record) {
            return Ok(());
        }
        record.updated = now;
        write(&self.pulled, image_ref, &record.to_json())
    }
}

fn allowed(list: &[String], repository: &str) -> bool {
    list.iter().any(|pattern| match pattern.strip_suffix("/*") {
        Some(prefix) => repository.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')),
        None => {
            pattern == repository || Reference::parse(pattern).is_ok_and(|full| full.name() == repository)
        }
    })
}

impl Record {
    fn read(json: &Json) -> Option<Record> {
        let text = |of: &Json, name: &str| of[name].as_str().unwrap_or_default().to_owned();
        let secret = |secret: &Json| PulledSecret {
            source: SecretSource {
                namespace: text(secret, "namespace"),
                name: text(secret, "name"),
                uid: text(secret, "uid"),
            },
            credential_hash: text(secret, "credentialHash"),
        };
        let by = |entry: &Json| match entry["nodePodsAccessible"].as_bool() {
            Some(true) => PulledBy::Node,
            _ => PulledBy::Secrets(
                entry["kubernetesSecrets"].as_array().into_iter().flatten().map(secret).collect(),
            ),
        };
        let mapping = json["credentialMapping"].as_object().into_iter().flatten();
        Some(Record {
            image_ref: json["imageRef"].as_str()?.to_owned(),
            updated: json["lastUpdatedTime"].as_str().and_then(time::parse).map_or(0, |(seconds, _)| seconds),
            credentials: mapping.map(|(repository, entry)| (repository.clone(), by(entry))).collect(),
        })
    }

    fn to_json(&self) -> Json {
        let secret = |secret: &PulledSecret| {
            json!({
                "uid": secret.source.uid,
                "namespace": secret.source.namespace,
                "name": secret.source.name,
                "credentialHash": secret.credential_hash,
            })
        };
        let by = |by: &PulledBy| match by {
            PulledBy::Node => json!({"nodePodsAccessible": true}),
            PulledBy::Secrets(secrets) => {
                json!({"kubernetesSecrets": secrets.iter().map(secret).collect::<Vec<_>>()})
            }
        };
        let mapping: BTreeMap<&str, Json> =
            self.credentials.iter().map(|(repository, entry)| (repository.as_str(), by(entry))).collect();
        json!({
            "kind": "ImagePulledRecord",
            "apiVersion": API_VERSION,
            "lastUpdatedTime": time::format_seconds(self.updated),
            "imageRef": self.image_ref,
            "credentialMapping": mapping,
        })
    }
}

fn file_name(of: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, of.as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256-{hex}")
}

fn exists(folder: &Path, name: &str) -> bool {
    folder.join(file_name(name)).exists()
}

/// All or nothing, also if the machine stops.
fn write(folder: &Path, name: &str, json: &Json) -> io::Result<()> {
    let (path, new) = (folder.join(file_name(name)), folder.join(format!("{}.tmp", file_name(name))));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    io::Write::write_all(&mut file, json.to_string().as_bytes())?;
    file.sync_data()?;
    fs::rename(new, path)
}

fn remove(folder: &Path, name: &str) -> io::Result<()> {
    env::file::unless_missing(fs::remove_file(folder.join(file_name(name))))
}

fn read_all(folder: &Path) -> io::Result<Vec<Json>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().ends_with(b".tmp") {
            all.extend(fs::read(entry.path()).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use image::Login;

    use super::*;

    fn credential(secret: &str, password: &str) -> Credential {
        let login = Login { username: "u".into(), password: password.into(), ..Login::default() };
        let source = SecretSource { namespace: "default".into(), name: secret.into(), uid: secret.into() };
        Credential { login, source: Some(source) }
    }

    struct Case {
        folder: tempfile::TempDir,
        records: Records,
    }

    impl Case {
        fn new() -> Case {
            let folder = tempfile::tempdir().unwrap();
            let records = Records::open(folder.path()).unwrap();
            Case { folder, records }
        }
        fn pulled(&self, image: &str, by: Option<&Credential>) {
            self.records.begin(image).unwrap();
            self.records.succeeded(image, "id", &PulledBy::from_credential(by), 10).unwrap();
        }
        fn must(&self, image: &str, credentials: &[Credential]) -> bool {
            let policy = Verification::default();
            self.records.must_pull(image, "id", credentials, &policy, 20).unwrap()
        }
    }

    #[test]
    fn a_preloaded_image_is_for_all_and_one_pulled_without_secrets_too() {
        let case = Case::new();
        assert!(!case.must("r.io/app:1", &[]));
        case.pulled("r.io/app:1", None);
        assert!(!case.must("r.io/app:1", &[]));
        assert!(case.must("r.io/other:1", &[]), "the same image from another repository must be shown");
    }

    #[test]
    fn an_image_pulled_with_a_secret_is_for_those_who_have_it() {
        let case = Case::new();
        case.pulled("r.io/app:1", Some(&credential("a", "p")));
        assert!(case.must("r.io/app:1", &[]));
        assert!(case.must("r.io/app:1", &[credential("b", "other")]));
        assert!(!case.must("r.io/app:2", &[credential("a", "p")]), "whatever its tag");
        assert!(!case.must("r.io/app:1", &[credential("b", "p")]), "the same login in another secret");
        assert!(!case.must("r.io/app:1", &[credential("b", "renewed")]), "which is known from now on");
        case.pulled("r.io/app:1", None);
        assert!(!case.must("r.io/app:1", &[]), "what anybody can pull is for all");
        // Kubelet's own file.
        let record = case.records.get("id").unwrap().unwrap();
        assert_eq!(record.credentials, BTreeMap::from([("r.io/app".to_owned(), PulledBy::Node)]));
        assert_eq!(fs::read_dir(case.folder.path().join("image_manager/pulling")).unwrap().count(), 0);
    }

    #[test]
    fn a_pull_that_was_cut_off_leaves_an_image_for_nobody() {
        let case = Case::new();
        case.records.begin("r.io/app:1").unwrap();
        let again = Case { records: Records::open(case.folder.path()).unwrap(), folder: case.folder };
        assert!(again.must("r.io/app:1", &[]), "the intent alone says that it is not preloaded");
        let images = [("id".to_owned(), vec!["r.io/app:1".to_owned()])];
        again.records.recover(&images, 30).unwrap();
        assert!(again.must("r.io/app:1", &[]));
        assert_eq!(again.records.get("id").unwrap().unwrap().credentials, BTreeMap::new());
        again.records.prune(&["id".to_owned()], 100).unwrap();
        assert!(again.records.get("id").unwrap().is_some());
        again.records.prune(&[], 30).unwrap();
        assert!(again.records.get("id").unwrap().is_some(), "not older than the look at what is here");
        again.records.prune(&[], 31).unwrap();
        assert!(again.records.get("id").unwrap().is_none());
    }

    #[test]
    fn a_broken_record_lets_nobody_in() {
        let case = Case::new();
        case.pulled("r.io/app:1", None);
        fs::write(case.folder.path().join("image_manager/pulled").join(file_name("id")), "{").unwrap();
        assert!(case.must("r.io/app:1", &[]));
    }

    #[test]
    fn an_intent_stays_while_others_pull_the_same() {
        let case = Case::new();
        case.records.begin("r.io/app:1").unwrap();
        case.records.begin("r.io/app:1").unwrap();
        case.records.failed("r.io/app:1").unwrap();
        assert!(exists(&case.records.pulling, "r.io/app:1"));
        case.records.failed("r.io/app:1").unwrap();
        assert!(!exists(&case.records.pulling, "r.io/app:1"));
    }
}
