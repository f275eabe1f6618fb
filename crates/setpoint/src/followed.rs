//! Files given by flags, which others renew: read again while the server runs.

use apiserver::Shutdown;
use auth::FollowedFiles;
use env::Env;

type Install = Box<dyn FnMut(&[Vec<u8>]) -> Result<(), String> + Send>;

/// Files, and what becomes of a new content; an error of that leaves everything as it was.
pub struct Followed {
    files: FollowedFiles,
    install: Install,
}

impl Followed {
    pub fn new(
        files: FollowedFiles,
        install: impl FnMut(&[Vec<u8>]) -> Result<(), String> + Send + 'static,
    ) -> Followed {
        Followed { files, install: Box::new(install) }
    }

    /// Until the server stops.
    pub async fn follow(self, env: Env, mut shutdown: Shutdown) {
        let Followed { files, install } = self;
        files.follow(env, async move { shutdown.begun().await }, install).await;
    }

    #[cfg(test)]
    pub fn reload(&mut self) -> bool {
        self.files.reload(&mut self.install)
    }
}
