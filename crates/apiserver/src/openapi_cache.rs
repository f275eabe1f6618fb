//! A cache of OpenAPI documents in the encodings they are sent in: each is built once, on the first request.
//!
//! A document takes tens of milliseconds to encode and as many to compress, and clients that start together ask for the same few.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// The size of the cache; the least recently used documents are evicted. All documents compressed take about half of it.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A document in one of its encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form<'a> {
    /// Its path.
    pub name: &'a str,
    pub media: &'static str,
    pub gzipped: bool,
}

/// Cached documents, built on first use.
#[derive(Default)]
pub struct OpenApiCache {
    /// Guards the entries, for one look-up at a time.
    cached: Mutex<Cached>,
    /// Held while a document is built: one at a time, and those who wait find it cached.
    building: tokio::sync::Mutex<()>,
}

/// The hash of every document of v3, by its name in the index: `apis/apps/v1`.
pub type Hashes = BTreeMap<String, String>;

#[derive(Default)]
struct Cached {
    /// The generation of the catalogue that the entries are built from.
    generation: u64,
    /// Built on the first request.
    v3: Arc<OnceCell<Arc<Hashes>>>,
    /// By name, media type and whether it is compressed.
    forms: BTreeMap<(String, &'static str, bool), Entry>,
    /// Of other documents, by name and media type; kept when a document is evicted, so that a conditional request does not rebuild it.
    hashes: BTreeMap<(String, &'static str), String>,
    /// Counts look-ups, for the age of entries.
    clock: u64,
    built: usize,
}

struct Entry {
    bytes: Bytes,
    used: u64,
}

impl OpenApiCache {
    /// Bytes cached.
    pub fn bytes(&self) -> usize {
        let cached = self.cached.lock();
        let of_two = cached.hashes.iter().map(|((name, _), hash)| name.capacity() + hash.capacity());
        let of_v3 = cached.v3.get().into_iter().flat_map(|v3| v3.iter());
        cached.bytes()
            + of_two.chain(of_v3.map(|(name, hash)| name.capacity() + hash.capacity())).sum::<usize>()
    }

    /// How many documents were built.
    pub fn built(&self) -> usize {
        self.cached.lock().built
    }

    /// A document, built by `make` unless it is cached.
    pub async fn form(&self, generation: u64, form: Form<'_>, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        if let Some(found) = self.at(generation).find(form) {
            return found;
        }
        let _building = self.building.lock().await;
        // Another request may have built it meanwhile.
        if let Some(found) = self.at(generation).find(form) {
            return found;
        }
        let bytes = Bytes::from(make());
        self.at(generation).keep(form, bytes.clone());
        bytes
    }

    /// The hashes of v3. `make` builds every document once; other tasks run in between.
    pub async fn v3_hashes(
        &self,
        generation: u64,
        names: impl FnOnce() -> Vec<String>,
        make: impl Fn(&str) -> Option<String>,
    ) -> Arc<Hashes> {
        let first = async || {
            let _building = self.building.lock().await;
            let mut hashes = Hashes::new();
            for name in names() {
                if let Some(hash) = make(&name) {
                    hashes.insert(name, hash);
                }
                tokio::task::yield_now().await;
            }
            Arc::new(hashes)
        };
        let v3 = self.at(generation).v3.clone();
        v3.get_or_init(first).await.clone()
    }

    /// The hash of another document, once it was built.
    pub fn hash(&self, generation: u64, name: &str, media: &'static str) -> Option<String> {
        self.at(generation).hashes.get(&(name.to_owned(), media)).cloned()
    }

    pub fn set_hash(&self, generation: u64, name: &str, media: &'static str, hash: String) {
        self.at(generation).hashes.insert((name.to_owned(), media), hash);
    }

    /// What is kept of the catalogue of that generation; another one's is forgotten. Two that alternate, while a definition
    /// comes and requests from before are still in flight, only build documents twice.
    fn at(&self, generation: u64) -> parking_lot::MutexGuard<'_, Cached> {
        let mut cached = self.cached.lock();
        if cached.generation != generation {
            *cached = Cached { generation, clock: cached.clock, built: cached.built, ..Cached::default() };
        }
        cached
    }
}

impl Cached {
    fn bytes(&self) -> usize {
        self.forms.values().map(|entry| entry.bytes.len()).sum()
    }

    fn find(&mut self, form: Form<'_>) -> Option<Bytes> {
        self.clock += 1;
        let entry = self.forms.get_mut(&(form.name.to_owned(), form.media, form.gzipped))?;
        entry.used = self.clock;
        Some(entry.bytes.clone())
    }

    fn keep(&mut self, form: Form<'_>, bytes: Bytes) {
        self.built += 1;
        if bytes.len() > MAX_BYTES {
            return;
        }
        while self.bytes() + bytes.len() > MAX_BYTES {
            let oldest = self.forms.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.forms.remove(&oldest);
        }
        let entry = Entry { bytes, used: self.clock };
        self.forms.insert((form.name.to_owned(), form.media, form.gzipped), entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(name: &str) -> Form<'_> {
        Form { name, media: "text/plain", gzipped: true }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    #[allow(clippy::disallowed_methods)] // Threads are what the test is about.
    async fn a_document_is_built_once_for_concurrent_requests() {
        let documents = std::sync::Arc::new(OpenApiCache::default());
        let asked = (0..100).map(|i| {
            let documents = documents.clone();
            tokio::spawn(async move {
                let name = if i % 2 == 0 { "even" } else { "odd" };
                documents.form(0, form(name), || vec![i as u8 % 2; 1000]).await
            })
        });
        for (i, answer) in asked.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(answer.await.unwrap()[..], vec![i as u8 % 2; 1000]);
        }
        assert_eq!(documents.built(), 2);
    }

    #[tokio::test]
    async fn the_least_recently_used_document_is_evicted() {
        let documents = OpenApiCache::default();
        let third = || vec![0; MAX_BYTES / 3];
        for name in ["a", "b", "c", "a", "d"] {
            documents.form(0, form(name), third).await;
        }
        assert!(documents.bytes() <= MAX_BYTES);
        // Only "b" went.
        documents.form(0, form("a"), || panic!("kept")).await;
        documents.form(0, form("c"), || panic!("kept")).await;
        assert_eq!(documents.built(), 4);
        // A document larger than the cache is built for each request.
        documents.form(0, form("large"), || vec![0; MAX_BYTES + 1]).await;
        documents.form(0, form("d"), || panic!("kept")).await;
    }
}
