//! Files that others replace while the program runs, such as a certificate and its key: looked at now and then, and taken when they
//! have changed.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use env::{Env, file};

/// Certificates are much smaller.
const MAX_BYTES: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
#[error("cannot read {file}: {source}", file = path.display())]
pub struct UnreadableFile {
    pub path: PathBuf,
    pub source: std::io::Error,
}

/// Files that are one value together.
pub struct FollowedFiles {
    /// For the log.
    what: &'static str,
    paths: Vec<PathBuf>,
    /// What was in them last, usable or not.
    contents: Vec<Vec<u8>>,
    /// Why they cannot be read: said once.
    unreadable: Option<String>,
}

impl FollowedFiles {
    /// Between two looks. Kubernetes promises a minute.
    pub const LOOK: Duration = Duration::from_secs(10);

    /// Reads them; `what` they are is for the log.
    pub fn open(what: &'static str, paths: &[&Path]) -> Result<FollowedFiles, UnreadableFile> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
        let contents = read(&paths)?;
        Ok(FollowedFiles { what, paths, contents, unreadable: None })
    }

    /// In the order of the paths.
    pub fn contents(&self) -> &[Vec<u8>] {
        &self.contents
    }

    /// Hands out what is in them if it was not the last time. What cannot be read, or that `take` refuses, is logged once, and what
    /// was taken before stays in use. Returns whether something was taken.
    pub fn reload(&mut self, mut take: impl FnMut(&[Vec<u8>]) -> Result<(), String>) -> bool {
        let read = read(&self.paths);
        self.take_read(read, &mut take)
    }

    fn take_read(
        &mut self,
        read: Result<Vec<Vec<u8>>, UnreadableFile>,
        take: &mut impl FnMut(&[Vec<u8>]) -> Result<(), String>,
    ) -> bool {
        let (what, files) = (self.what, self.names());
        let contents = match read {
            Ok(contents) => contents,
            Err(error) => {
                let why = error.to_string();
                if self.unreadable.as_ref() != Some(&why) {
                    tracing::error!(error = why, "{what}: what was read before stays in use");
                    self.unreadable = Some(why);
                }
                return false;
            }
        };
        self.unreadable = None;
        if self.contents == contents {
            return false;
        }
        // Half of a pair that is being replaced is refused here, and looked at again when the other half is there.
        self.contents = contents;
        match take(&self.contents) {
            Ok(()) => tracing::info!(files, "{what}: changed, in use from now on"),
            Err(error) => {
                tracing::error!(files, error, "{what}: cannot be used, what was read before stays in use");
                return false;
            }
        }
        true
    }

    /// Looks at them until `stop`, without holding up a thread that others need: they may be on a slow disk.
    #[expect(clippy::disallowed_methods, reason = "reading files blocks")]
    pub async fn follow(
        mut self,
        env: Env,
        stop: impl Future<Output = ()>,
        mut take: impl FnMut(&[Vec<u8>]) -> Result<(), String>,
    ) {
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = env.sleep(FollowedFiles::LOOK) => {}
            }
            let paths = self.paths.clone();
            let reading = tokio::task::spawn_blocking(move || read(&paths));
            let read = tokio::select! {
                biased;
                () = &mut stop => return,
                read = reading => read,
            };
            // Fails only if it panicked, which was reported.
            if let Ok(read) = read {
                self.take_read(read, &mut take);
            }
        }
    }

    fn names(&self) -> String {
        self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, UnreadableFile> {
    let one = |path: &PathBuf| {
        file::read_limited(path, MAX_BYTES).map_err(|source| UnreadableFile { path: path.clone(), source })
    };
    paths.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_or_read_changes_nothing_until_it_changes_again() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
        write(&first, "1");
        write(&second, "1");
        let mut files = FollowedFiles::open("a pair", &[&first, &second]).unwrap();
        assert_eq!(files.contents(), [b"1", b"1"]);
        let mut offered = Vec::new();
        let mut look = |files: &mut FollowedFiles| {
            files.reload(|contents| {
                let fits = contents[0] == contents[1];
                offered.push(fits);
                fits.then_some(()).ok_or_else(|| "halves of two".to_owned())
            })
        };
        assert!(!look(&mut files), "nothing has changed");
        write(&first, "2");
        assert!(!look(&mut files));
        assert!(!look(&mut files), "it is refused once");
        write(&second, "2");
        assert!(look(&mut files));
        std::fs::remove_file(&second).unwrap();
        assert!(!look(&mut files));
        write(&second, "2");
        assert!(!look(&mut files), "what is in use is there again");
        assert_eq!(offered, [false, true]);
        let missing = FollowedFiles::open("a pair", &[&first, &directory.path().join("no")]);
        assert!(missing.err().unwrap().to_string().starts_with("cannot read "));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_noticed_within_a_minute() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        std::fs::write(&path, "old").unwrap();
        let env = Env::simulated(1);
        let files = FollowedFiles::open("a CA", &[&path]).unwrap();
        let (told, mut taken) = tokio::sync::mpsc::unbounded_channel();
        let following = env.spawn("follow", {
            let env = env.clone();
            let stop = env.clone();
            async move {
                let stop = async move { stop.sleep(Duration::from_secs(300)).await };
                files
                    .follow(env, stop, |contents| told.send(contents[0].clone()).map_err(|e| e.to_string()))
                    .await;
            }
        });
        std::fs::write(&path, "new").unwrap();
        let begun = env.monotonic();
        assert_eq!(taken.recv().await.unwrap(), b"new");
        assert!(env.monotonic() - begun <= Duration::from_secs(60));
        following.await.unwrap();
    }
}
