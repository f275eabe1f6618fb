//! The node's own logins at registries: what `docker login` wrote on this machine, looked for where kubelet does.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use image::Keyring;
use parking_lot::Mutex;
use tokio::time::Instant;

/// A file that is longer is none.
const MAX_BYTES: u64 = 1 << 20;
/// How long what was read counts, as with kubelet.
const FRESH: Duration = Duration::from_secs(300);

/// Where they may be, and what was read there last.
#[derive(Default)]
pub struct NodeLogins {
    /// Folders with a `config.json`, and folders with a `.dockercfg`; the first that can be read counts.
    config_json: Vec<PathBuf>,
    dockercfg: Vec<PathBuf>,
    /// Guards what was read, and when; held while files are read.
    read: Mutex<Option<(Instant, Keyring)>>,
}

impl NodeLogins {
    pub fn of(root_directory: &Path, home: Option<&Path>) -> NodeLogins {
        let home = home.filter(|home| home.is_absolute());
        let folders = |name: &str| {
            let of_home = home.map(|home| home.join(name));
            // Differs from kubelet, which looks in its working directory too: people start this program anywhere.
            let all = [Some(root_directory.to_owned()), of_home, Some(Path::new("/").join(name))];
            all.into_iter().flatten().collect()
        };
        NodeLogins { config_json: folders(".docker"), dockercfg: folders(""), read: Mutex::default() }
    }

    /// Reads the file again if it was read long ago.
    pub fn keyring(&self, now: Instant) -> Keyring {
        let mut read = self.read.lock();
        match &*read {
            Some((at, keyring)) if now.saturating_duration_since(*at) < FRESH => keyring.clone(),
            _ => {
                let keyring = self.find();
                *read = Some((now, keyring.clone()));
                keyring
            }
        }
    }

    fn find(&self) -> Keyring {
        let of_json = self.config_json.iter().map(|folder| (folder.join("config.json"), true));
        let of_old = self.dockercfg.iter().map(|folder| (folder.join(".dockercfg"), false));
        of_json.chain(of_old).find_map(|(path, json)| read(&path, json)).unwrap_or_default()
    }
}

fn read(path: &Path, json: bool) -> Option<Keyring> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|of| of.is_file()))?;
    let mut keyring = Keyring::default();
    let result = match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Err(error) => Err(error.to_string()),
        Ok(_) if bytes.len() as u64 > MAX_BYTES => Err("it is too long".to_owned()),
        Ok(_) if json => keyring.add_config_json(&bytes, None).map_err(|error| error.to_string()),
        Ok(_) => keyring.add_dockercfg(&bytes, None).map_err(|error| error.to_string()),
    };
    match result {
        Ok(()) => Some(keyring),
        Err(error) => {
            tracing::warn!(path = %path.display(), error, "cannot use the node's logins");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_file_that_can_be_read_counts_for_five_minutes() {
        let env = env::Env::simulated(1);
        let (root, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let logins = NodeLogins::of(root.path(), Some(home.path()));
        let user = || {
            let found = logins.keyring(env.monotonic()).find("r.test/app");
            found.into_iter().map(|credential| credential.login.username).collect::<Vec<_>>()
        };
        let auths = |user: &str| format!(r#"{{"auths": {{"r.test": {{"username": "{user}"}}}}}}"#);
        let docker = home.path().join(".docker");
        std::fs::create_dir(&docker).unwrap();
        std::fs::write(home.path().join(".dockercfg"), r#"{"r.test": {"username": "old"}}"#).unwrap();
        assert_eq!(user(), ["old"]);
        std::fs::write(docker.join("config.json"), auths("home")).unwrap();
        assert_eq!(user(), ["old"], "not read again at once");
        env.sleep(FRESH).await;
        assert_eq!(user(), ["home"]);
        std::fs::write(root.path().join("config.json"), "{").unwrap();
        env.sleep(FRESH).await;
        assert_eq!(user(), ["home"], "a broken file is passed over");
        std::fs::write(root.path().join("config.json"), auths("root")).unwrap();
        env.sleep(FRESH).await;
        assert_eq!(user(), ["root"]);
        std::fs::write(root.path().join("config.json"), vec![b' '; (2 << 20) as usize]).unwrap();
        env.sleep(FRESH).await;
        assert_eq!(user(), ["home"], "so is one without end");
    }
}
