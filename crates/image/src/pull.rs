//! Pulls: one download for all who wait for the same image with the same credentials.
//!
//! ```text
//! pull(reference, credentials) ── under way? ── wait with the others
//!   └ task: for each credential: resolve ── manifest ── config ── layers (3 at a time) ── unpacked in order ── entered in the store
//! ```
//! A pull goes on when nobody waits any more: whoever asked will ask again, and finds it done. It ends with the [`Puller`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::blocking::Blocking;
use crate::digest::Digest;
use crate::hosts::{self, HostsError};
use crate::keyring::Credential;
use crate::manifest::{self, Descriptor, Document, Manifest, ManifestError, Platform};
use crate::reference::Reference;
use crate::registry::{Connector, Fetched, Proxies, RegistryError, Session};
use crate::store::{Image, NewImage, PulledBy, Store, StoreError, chain_ids, parse_config};

/// Layers downloaded at the same time, as by containerd.
const PARALLEL: usize = 3;
/// Chunks between the network and the disk: a quarter of a megabyte for each download.
const QUEUE: usize = 4;
/// A layer that was there and is pruned by somebody else before the image is entered is fetched again.
const MAX_ROUNDS: usize = 3;
/// How often the log tells how far a pull is.
const REPORT_PERIOD: Duration = Duration::from_secs(10);
/// An index of an index is as deep as anybody goes.
const MAX_DEPTH: usize = 4;

/// Where and what to pull.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// Folders like `/etc/containerd/certs.d`; the first that knows a registry counts.
    pub certs: Vec<PathBuf>,
    pub platform: Platform,
    /// Pulls at the same time; the others wait. `serializeImagePulls` is 1, which is kubelet's default.
    pub parallel: usize,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PullError {
    #[error("failed to pull and unpack image {image:?}: failed to resolve reference {image:?}: {error}")]
    Resolve { image: String, error: RegistryError },
    #[error("failed to pull and unpack image {image:?}: failed to copy: {error}")]
    Fetch { image: String, error: RegistryError },
    #[error("failed to pull and unpack image {image:?}: {error}")]
    Manifest { image: String, error: ManifestError },
    #[error("failed to pull and unpack image {image:?}: {error}")]
    Store { image: String, error: Arc<StoreError> },
    #[error("failed to pull and unpack image {image:?}: {error}")]
    Hosts { image: String, error: HostsError },
    /// One for each credential that was tried.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    All(Vec<PullError>),
    #[error("the pull was cancelled")]
    Cancelled,
}

/// How far a pull is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Layers of the image, and those that are unpacked.
    pub layers: usize,
    pub layers_done: usize,
    /// Bytes to download, as far as known, and those that are here.
    pub bytes: u64,
    pub bytes_done: u64,
}

#[derive(Clone, Default)]
struct State {
    progress: Progress,
    /// How long the pull itself took.
    took: Duration,
    outcome: Option<Result<Image, PullError>>,
}

/// A pull under way.
pub struct Pull {
    state: watch::Receiver<State>,
}

impl Pull {
    pub fn progress(&self) -> Progress {
        self.state.borrow().progress
    }

    /// How long it took without waiting for its turn; zero before its end.
    pub fn took(&self) -> Duration {
        self.state.borrow().took
    }

    /// Waits until the progress is another than at the last call.
    pub async fn changed(&mut self) -> Progress {
        // At its end there is no more change: [`Pull::wait`] tells.
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.state.borrow_and_update().progress
    }

    pub async fn wait(&mut self) -> Result<Image, PullError> {
        match self.state.wait_for(|state| state.outcome.is_some()).await {
            Ok(state) => state.outcome.clone().unwrap_or(Err(PullError::Cancelled)),
            Err(_) => Err(PullError::Cancelled),
        }
    }
}

/// Pulls images into a store. Cheap to clone; pulls under way end with the last clone.
#[derive(Clone)]
pub struct Puller {
    shared: Arc<Shared>,
    /// Ends the tasks with the last handle.
    flights: Arc<Flights>,
}

struct Shared {
    store: Store,
    env: Env,
    blocking: Blocking,
    /// A permit for each pull.
    turns: Semaphore,
    options: PullOptions,
    proxies: Arc<Proxies>,
}

type Key = (Reference, Vec<Credential>);

#[derive(Default)]
struct Flights {
    /// Guards the pulls under way; held to look one up, to add one, to take one out.
    open: Mutex<BTreeMap<Key, Flight>>,
}

struct Flight {
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

impl Drop for Flights {
    fn drop(&mut self) {
        for flight in self.open.lock().values() {
            flight.task.abort();
        }
    }
}

impl Puller {
    /// With the proxies of this process' environment.
    pub fn new(store: &Store, env: &Env, blocking: Blocking, options: PullOptions) -> Puller {
        Puller::with_proxies(store, env, blocking, options, Proxies::from_environment())
    }

    pub fn with_proxies(
        store: &Store,
        env: &Env,
        blocking: Blocking,
        options: PullOptions,
        proxies: Proxies,
    ) -> Puller {
        let turns = Semaphore::new(options.parallel.max(1));
        let (store, env, proxies) = (store.clone(), env.clone(), Arc::new(proxies));
        let shared = Shared { store, env, blocking, turns, options, proxies };
        Puller { shared: Arc::new(shared), flights: Arc::default() }
    }

    /// Starts a pull, or joins the one under way. Credentials are tried in order; without any, the registry is asked anonymously.
    /// To be called within the runtime, as the pull is a task of its own.
    pub fn pull(&self, reference: &Reference, credentials: Vec<Credential>) -> Pull {
        let key = (reference.pulled(), credentials);
        let mut open = self.flights.open.lock();
        if let Some(flight) = open.get(&key).filter(|flight| !flight.task.is_finished()) {
            return Pull { state: flight.state.clone() };
        }
        let (sender, state) = watch::channel(State::default());
        let told = state.clone();
        let (shared, flights, own) = (self.shared.clone(), Arc::downgrade(&self.flights), key.clone());
        let task = self.shared.env.spawn("image-pull", async move {
            let (reference, credentials) = &own;
            let turn = shared.turns.acquire().await;
            let start = shared.env.monotonic();
            let pulling = shared.pull(reference, credentials, &sender);
            let outcome = report(&shared.env, reference, &told, pulling).await;
            let took = start.elapsed();
            drop(turn);
            // Out of the list before the outcome is told: who asks after that wants another pull.
            if let Some(flights) = flights.upgrade() {
                flights.open.lock().remove(&own);
            }
            let pulled = outcome.is_ok();
            sender.send_modify(|state| (state.took, state.outcome) = (took, Some(outcome)));
            if pulled {
                shared.sync().await;
            }
        });
        open.insert(key, Flight { state: state.clone(), task });
        Pull { state }
    }
}

/// Says in the log how far a pull is that takes long.
async fn report<T>(
    env: &Env,
    reference: &Reference,
    state: &watch::Receiver<State>,
    pulling: impl Future<Output = T>,
) -> T {
    let mut pulling = std::pin::pin!(pulling);
    loop {
        tokio::select! {
            biased;
            outcome = &mut pulling => return outcome,
            () = env.sleep(REPORT_PERIOD) => {
                let Progress { layers, layers_done, bytes, bytes_done } = state.borrow().progress;
                tracing::info!(image = %reference, layers, layers_done, bytes, bytes_done, "pulling image");
            }
        }
    }
}

/// What one pull knows on its way.
struct Attempt<'a> {
    shared: &'a Shared,
    session: Session,
    image: String,
    state: &'a watch::Sender<State>,
}

impl Shared {
    async fn pull(
        &self,
        reference: &Reference,
        credentials: &[Credential],
        state: &watch::Sender<State>,
    ) -> Result<Image, PullError> {
        if credentials.is_empty() {
            return self.attempt(reference, None, state).await;
        }
        let mut errors = Vec::new();
        for credential in credentials {
            match self.attempt(reference, Some(credential), state).await {
                Ok(image) => return Ok(image),
                Err(error) => errors.push(error),
            }
        }
        match errors.pop() {
            Some(only) if errors.is_empty() => Err(only),
            Some(last) => {
                errors.push(last);
                Err(PullError::All(errors))
            }
            None => Err(PullError::Cancelled),
        }
    }

    async fn attempt(
        &self,
        reference: &Reference,
        credential: Option<&Credential>,
        state: &watch::Sender<State>,
    ) -> Result<Image, PullError> {
        let image = reference.to_string();
        let (folders, domain) = (self.options.certs.clone(), reference.domain().to_owned());
        let proxies = self.proxies.clone();
        let servers = self.block(move || {
            let endpoints = hosts::endpoints(&folders, &domain)?;
            let connect = |endpoint| Ok((Connector::new(&endpoint, &proxies)?, endpoint));
            endpoints.into_iter().map(connect).collect::<Result<Vec<_>, HostsError>>()
        });
        let servers = servers.await?.map_err(|error| PullError::Hosts { image: image.clone(), error })?;
        let mut settled = Vec::new();
        for (mut connector, endpoint) in servers {
            connector.settle(&self.env, &endpoint).await;
            settled.push((endpoint, connector));
        }
        let login = credential.map(|credential| credential.login.clone());
        let session = Session::new(&self.env, settled, reference, login);
        let by = PulledBy::from_credential(credential);
        Attempt { shared: self, session, image, state }.run(reference, by).await
    }

    /// Nobody waits for the disk: what a power cut takes is pulled again.
    async fn sync(&self) {
        let store = self.store.clone();
        if let Ok(Err(error)) = self.block(move || store.sync_layers()).await {
            tracing::warn!(%error, "the layers of an image may not survive a power cut");
        }
    }

    /// Runs a job on a thread that may block.
    async fn block<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PullError> {
        let (sender, receiver) = oneshot::channel();
        (self.blocking)(Box::new(move || {
            // Nobody waits any more: then nobody needs it.
            let _ = sender.send(job());
        }));
        receiver.await.map_err(|_| PullError::Cancelled)
    }
}

impl Attempt<'_> {
    async fn run(&self, reference: &Reference, by: PulledBy) -> Result<Image, PullError> {
        let resolved = self.session.resolve().await;
        let resolved = resolved.map_err(|error| PullError::Resolve { image: self.image.clone(), error })?;
        let mut names = vec![reference.at(&resolved.digest)];
        if reference.digest().is_none() {
            names.push(reference.clone());
        }
        let (document, manifest) = self.choose(resolved).await?;
        let config = self.config(&manifest.config).await?;
        let diff_ids = parse_config(&config).map_err(|error| self.store(error))?.rootfs.diff_ids;
        if diff_ids.len() != manifest.layers.len() {
            return Err(
                self.store(StoreError::Layers { layers: manifest.layers.len(), diff_ids: diff_ids.len() })
            );
        }
        for round in 1.. {
            match self.layers(&manifest, &diff_ids).await {
                Err(PullError::Store { error, .. })
                    if round < MAX_ROUNDS && matches!(*error, StoreError::Missing(_)) =>
                {
                    continue;
                }
                done => done?,
            }
            let store = self.shared.store.clone();
            let (content, config, names) = (document.content.clone(), config.clone(), names.clone());
            let (digest, repository, by) = (document.digest.clone(), reference.name(), by.clone());
            let sizes = manifest.layers.iter().map(|layer| layer.size);
            let content_bytes = sizes.fold(manifest.config.size, u64::saturating_add);
            let entered = self.shared.block(move || {
                store.put_blob(&content)?;
                store.enter(NewImage {
                    config_blob: &config,
                    manifest: Some(&digest),
                    names: &names,
                    content_bytes,
                    pulled_by: Some((repository, by)),
                })
            });
            match entered.await? {
                Ok(image) => return Ok(image),
                Err(StoreError::Missing(_)) if round < MAX_ROUNDS => {}
                Err(error) => return Err(self.store(error)),
            }
        }
        Err(PullError::Cancelled)
    }

    /// The manifest for this platform.
    async fn choose(&self, mut document: Fetched) -> Result<(Fetched, Manifest), PullError> {
        let wrong = |error| PullError::Manifest { image: self.image.clone(), error };
        for _ in 0..MAX_DEPTH {
            let entries = match manifest::parse(&document.content, &document.media_type).map_err(wrong)? {
                Document::Manifest(manifest) => return Ok((document, manifest)),
                Document::Index(entries) => entries,
            };
            let chosen = manifest::choose(&entries, &self.shared.options.platform).map_err(wrong)?;
            let fetched = self.session.manifest(&chosen.digest, &chosen.media_type).await;
            document = fetched.map_err(|error| self.fetch(error))?;
        }
        Err(wrong(ManifestError::Syntax("its indexes are nested too deep".to_owned())))
    }

    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, PullError> {
        let (store, digest) = (self.shared.store.clone(), descriptor.digest.clone());
        let here = self
            .shared
            .block(move || store.has_blob(&digest).then(|| store.read_blob(&digest).ok()).flatten());
        match here.await? {
            Some(config) => Ok(config),
            None => self.session.document(descriptor).await.map_err(|error| self.fetch(error)),
        }
    }

    /// Downloads and unpacks what is missing: downloads beside each other, layers on top of each other.
    async fn layers(&self, manifest: &Manifest, diff_ids: &[Digest]) -> Result<(), PullError> {
        let (store, chain) = (self.shared.store.clone(), chain_ids(diff_ids));
        let here = self.shared.block(move || {
            // Whatever is above a missing layer is needed too, but perhaps it is there: layers are removed one by one.
            chain.iter().map(|chain| store.has_layer(chain)).collect::<Vec<bool>>()
        });
        let here = here.await?;
        let missing: Vec<usize> = (0..here.len()).filter(|at| !here[*at]).collect();
        let bytes = missing.iter().fold(0u64, |sum, at| sum.saturating_add(manifest.layers[*at].size));
        let layers = here.len();
        self.state.send_modify(|state| {
            state.progress = Progress { layers, layers_done: layers - missing.len(), bytes, bytes_done: 0 };
        });
        let (sender, mut downloaded) = mpsc::channel::<usize>(layers.max(1));
        let downloads = async {
            let fetch = |at: usize| async move { self.download(&manifest.layers[at]).await.map(|()| at) };
            let mut stream = futures_util::stream::iter(missing).map(fetch).buffered(PARALLEL);
            while let Some(at) = stream.next().await {
                // As many places as layers: it never waits, and fails only if unpacking did.
                let _ = sender.send(at?).await;
            }
            drop(sender);
            Ok(())
        };
        let unpacks = async {
            while let Some(at) = downloaded.recv().await {
                self.unpack(&manifest.layers[at], diff_ids, at).await?;
                self.state.send_modify(|state| state.progress.layers_done += 1);
            }
            Ok(())
        };
        tokio::try_join!(downloads, unpacks)?;
        // Unpacked, the archives are not needed any more, and would double what an image takes. Not one by one: an image may
        // have the same layer twice.
        let (store, layers) = (self.shared.store.clone(), manifest.layers.clone());
        let removed = self
            .shared
            .block(move || layers.iter().try_for_each(|layer| store.remove_blob(&layer.digest).map(|_| ())));
        removed.await?.map_err(|error| self.store(error))
    }

    async fn download(&self, layer: &Descriptor) -> Result<(), PullError> {
        let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
        let (store, descriptor) = (self.shared.store.clone(), layer.clone());
        let state = self.state.clone();
        // Whether it is here already is said before the first byte is asked for.
        let (tell, needed) = oneshot::channel();
        let writing = self.shared.block(move || {
            if store.has_blob(&descriptor.digest) {
                state.send_modify(|state| state.progress.bytes_done += descriptor.size);
                return Ok(());
            }
            let mut writer = store.write_descriptor(&descriptor)?;
            let _ = tell.send(());
            let mut written = 0;
            while let Some(chunk) = receiver.blocking_recv() {
                writer.write(&chunk)?;
                written += chunk.len() as u64;
                state.send_modify(|state| state.progress.bytes_done += chunk.len() as u64);
            }
            // The download failed, and says why.
            if written == descriptor.size { writer.finish() } else { Ok(()) }
        });
        let sending = async {
            match needed.await {
                Ok(()) => self.session.blob(layer, sender).await,
                Err(_) => Ok(()),
            }
        };
        let (written, sent) = tokio::join!(writing, sending);
        // A full disk stops the download; the disk is the reason then.
        written?.map_err(|error| self.store(error))?;
        sent.map_err(|error| self.fetch(error))
    }

    async fn unpack(&self, layer: &Descriptor, diff_ids: &[Digest], at: usize) -> Result<(), PullError> {
        let store = self.shared.store.clone();
        let (below, diff_id, layer) = (diff_ids[..at].to_vec(), diff_ids[at].clone(), layer.clone());
        let unpacked = self.shared.block(move || {
            // Another pull that shares it may have unpacked and removed it.
            let blob =
                store.open_blob(&layer.digest).map_err(|_| StoreError::Missing(layer.digest.clone()))?;
            store.unpack_layer(&below, &diff_id, blob, layer.size).map(|_| ())
        });
        unpacked.await?.map_err(|error| self.store(error))
    }

    fn store(&self, error: StoreError) -> PullError {
        PullError::Store { image: self.image.clone(), error: Arc::new(error) }
    }

    fn fetch(&self, error: RegistryError) -> PullError {
        PullError::Fetch { image: self.image.clone(), error }
    }
}

#[cfg(test)]
mod tests;
