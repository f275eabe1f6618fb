//! Where pods find the API server: the `kubernetes` Service has an address that is nowhere, and leads to one of the server's.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use client::resources::SERVICES;
use env::Env;
use runtime::Stop;

use crate::local_node::{Containers, Redirect};

/// A server or resolver that takes longer to answer counts as away.
const ASK: Duration = Duration::from_secs(5);
/// A server that moved is followed after this time.
const PERIOD: Duration = Duration::from_secs(30);

/// The Service's address.
const KUBERNETES: &str = "kubernetes-address";
/// The server's name, and the address that was used last.
const SERVER: &str = "server-address";

/// What is known of both addresses, also while nobody answers.
pub struct ApiAddress {
    directory: PathBuf,
    client: Arc<dyn Client>,
    /// Of the server: `host:port`.
    authority: String,
    /// It never changes.
    kubernetes: Option<IpAddr>,
    redirect: Option<Redirect>,
}

impl ApiAddress {
    /// `directory`: the node's own.
    pub fn new(directory: &Path, client: Arc<dyn Client>, server: &str) -> ApiAddress {
        let authority = authority(server).unwrap_or_default();
        ApiAddress { directory: directory.to_owned(), client, authority, kubernetes: None, redirect: None }
    }

    /// As it is now; what was found before where nobody answers.
    pub async fn find(&mut self, env: &Env) -> Option<Redirect> {
        if self.kubernetes.is_none() {
            self.kubernetes = self.ask_kubernetes(env).await;
        }
        let found = self.resolve(env).await;
        self.choose(&found)
    }

    /// Empty: there is no answer.
    async fn resolve(&self, env: &Env) -> Vec<SocketAddr> {
        match env.timeout(ASK, tokio::net::lookup_host(&self.authority)).await {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(error)) => {
                tracing::debug!(server = self.authority, %error, "failed to resolve");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    /// Among the server's addresses. The one in use stays as long as it is one of them.
    fn choose(&mut self, found: &[SocketAddr]) -> Option<Redirect> {
        let kubernetes = self.kubernetes?;
        let alike: Vec<Redirect> = found
            .iter()
            .map(|api| Redirect { kubernetes, api: *api })
            .filter(Redirect::is_possible)
            .collect();
        let before = self.redirect.or_else(|| {
            let api = self.saved()?;
            Some(Redirect { kubernetes, api }).filter(Redirect::is_possible)
        });
        // A resolver may be away, or have no answer for one family at the moment.
        let stays = before.filter(|before| alike.is_empty() || alike.contains(before));
        let chosen = stays.or(alike.first().copied());
        if let Some(Redirect { api, .. }) = chosen.filter(|chosen| self.saved() != Some(chosen.api)) {
            self.save(SERVER, &format!("{} {api}\n", self.authority));
        }
        self.redirect = chosen;
        chosen
    }

    /// Has the rules of the embedded runtime follow the server.
    pub async fn follow(mut self, env: Env, containers: Containers, stop: Stop) {
        if !containers.are_embedded() {
            return;
        }
        let mut applied = self.redirect;
        loop {
            tokio::select! {
                () = stop.stopped() => return,
                () = env.sleep(PERIOD) => {}
            }
            let Some(found) = self.find(&env).await.filter(|found| applied != Some(*found)) else { continue };
            let Redirect { kubernetes, api } = found;
            match containers.set_redirect(found).await {
                Ok(()) => {
                    tracing::info!(%kubernetes, %api, "pods find the API server at another address");
                    applied = Some(found);
                }
                Err(error) => tracing::warn!(%kubernetes, %api, %error, "failed to redirect pods"),
            }
        }
    }

    async fn ask_kubernetes(&self, env: &Env) -> Option<IpAddr> {
        let asked = env.timeout(ASK, self.client.get(SERVICES.at("default", "kubernetes"))).await;
        let Ok(Ok(service)) = asked else { return self.read(KUBERNETES)?.trim().parse().ok() };
        let address = runtime::tree(&service).str_at(&["spec", "clusterIP"]).unwrap_or_default().to_owned();
        self.save(KUBERNETES, &address);
        address.parse().ok()
    }

    /// Of a server of that name only.
    fn saved(&self) -> Option<SocketAddr> {
        let saved = self.read(SERVER)?;
        let (authority, address) = saved.trim().split_once(' ')?;
        address.parse().ok().filter(|_| authority == self.authority)
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.join(name)).ok()
    }

    fn save(&self, name: &str, text: &str) {
        let file = self.directory.join(name);
        let written = kubelet::directories::make(&self.directory).and_then(|()| std::fs::write(&file, text));
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), %error, "failed to write");
        }
    }
}

/// `host:port` of a URL.
fn authority(url: &str) -> Option<String> {
    let authority = url.strip_prefix("https://")?.split('/').next()?;
    let has_port = authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    Some(if has_port { authority.to_owned() } else { format!("{authority}:443") })
}

#[cfg(test)]
mod tests {
    use catalog::Catalog;
    use client_http::{Config, HttpClient};

    use super::*;

    fn address(directory: &Path, server: &str, kubernetes: &str) -> ApiAddress {
        let config = Config { server: server.to_owned(), ..Config::default() };
        let client = HttpClient::new(Env::simulated(1), Arc::new(Catalog::builtin()), &config).unwrap();
        let mut address = ApiAddress::new(directory, Arc::new(client), server);
        address.kubernetes = Some(kubernetes.parse().unwrap());
        address
    }

    fn chosen(address: &mut ApiAddress, found: &[&str]) -> Option<String> {
        let found: Vec<SocketAddr> = found.iter().map(|text| text.parse().unwrap()).collect();
        address.choose(&found).map(|redirect| redirect.api.to_string())
    }

    const URL: &str = "https://api.example:6443/";
    const ONE: &str = "192.0.2.1:6443";
    const TWO: &str = "192.0.2.2:6443";
    const SIX: &str = "[2001:db8::1]:6443";

    #[test]
    fn pods_are_led_to_an_address_of_the_services_family() {
        let folder = tempfile::tempdir().unwrap();
        let dir = |name: &str| folder.path().join(name);
        let four = |dir: &Path| address(dir, URL, "10.96.0.1");
        assert_eq!(chosen(&mut four(&dir("a")), &[SIX, ONE, TWO]).as_deref(), Some(ONE));
        assert_eq!(chosen(&mut four(&dir("b")), &[SIX]), None);
        let mut six = address(&dir("c"), URL, "fd00::1");
        assert_eq!(chosen(&mut six, &[ONE, SIX]).as_deref(), Some(SIX));
    }

    #[test]
    fn a_server_that_moves_is_followed_and_the_last_address_outlasts_its_resolver() {
        let folder = tempfile::tempdir().unwrap();
        let mut running = address(folder.path(), URL, "10.96.0.1");
        assert_eq!(chosen(&mut running, &[]), None);
        assert_eq!(chosen(&mut running, &[ONE]).as_deref(), Some(ONE));
        assert_eq!(chosen(&mut running, &[TWO, ONE]).as_deref(), Some(ONE), "their order means nothing");
        assert_eq!(chosen(&mut running, &[]).as_deref(), Some(ONE));
        assert_eq!(chosen(&mut running, &[TWO]).as_deref(), Some(TWO));
        let mut restarted = address(folder.path(), URL, "10.96.0.1");
        assert_eq!(chosen(&mut restarted, &[]).as_deref(), Some(TWO));
        let mut elsewhere = address(folder.path(), "https://other.example:6443", "10.96.0.1");
        assert_eq!(chosen(&mut elsewhere, &[]), None, "it was another server's");
    }

    #[test]
    fn the_port_of_https_is_443() {
        for (url, told) in [
            ("https://api.example", Some("api.example:443")),
            ("https://api.example:6443/x", Some("api.example:6443")),
            ("https://[fd00::1]", Some("[fd00::1]:443")),
            ("https://[fd00::1]:6443", Some("[fd00::1]:6443")),
            ("http://api.example", None),
        ] {
            assert_eq!(authority(url).as_deref(), told);
        }
    }
}
