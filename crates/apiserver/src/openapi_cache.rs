//! A cache of OpenAPI documents in the encodings they are sent in: each is built once, on the first request.
//!
//! A document takes up to tens of milliseconds to encode and as many to compress, and clients that start together ask for the
//! same few. A definition that comes, changes or goes replaces only documents it is in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// The size of the cache; the least recently used documents are evicted. All built-in documents compressed take about half of it.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A document in one of its encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form<'a> {
    /// Its path.
    pub name: &'a str,
    pub media: &'static str,
    pub gzipped: bool,
    /// What it is built from. One that was built from anything else is not this document.
    pub version: &'a str,
}

/// What a document of everything is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    pub catalog: u64,
    /// Of what other servers describe.
    pub others: u64,
}

impl fmt::Display for Generations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.catalog, self.others)
    }
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
    /// Of documents of built-in resources, by name: they stay the same while the process runs.
    built_in: Hashes,
    /// Of all documents of v3, as of that generation of the catalogue.
    v3: Option<(u64, Arc<Hashes>)>,
    /// By name, media type and whether it is compressed.
    forms: BTreeMap<(String, &'static str, bool), Document>,
    /// Of documents of everything, by name and media type, as of those generations; kept when a document is
    /// evicted, so that a conditional request does not rebuild it.
    hashes: BTreeMap<(String, &'static str), (Generations, String)>,
    /// Counts look-ups, for the age of documents.
    clock: u64,
    built: usize,
}

struct Document {
    bytes: Bytes,
    version: Box<str>,
    used: u64,
}

impl OpenApiCache {
    /// Bytes cached.
    pub fn bytes(&self) -> usize {
        let cached = self.cached.lock();
        let text = |(name, hash): (&String, &String)| name.capacity() + hash.capacity();
        let of_two: usize =
            cached.hashes.iter().map(|((name, _), (_, hash))| name.capacity() + hash.capacity()).sum();
        let of_v3: usize = cached.v3.iter().flat_map(|(_, v3)| v3.iter()).map(text).sum();
        cached.bytes() + of_two + of_v3 + cached.built_in.iter().map(text).sum::<usize>()
    }

    /// How many documents were built.
    pub fn built(&self) -> usize {
        self.cached.lock().built
    }

    /// A document, built by `make` unless it is cached.
    pub async fn form(&self, form: Form<'_>, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        if let Some(found) = self.cached.lock().find(form) {
            return found;
        }
        let _building = self.building.lock().await;
        // Another request may have built it meanwhile.
        if let Some(found) = self.cached.lock().find(form) {
            return found;
        }
        let bytes = Bytes::from(make());
        self.cached.lock().keep(form, bytes.clone());
        bytes
    }

    /// The hash of a document of built-in resources; `make` builds the document. Other tasks run in between two of them.
    pub async fn built_in_hash(&self, name: &str, make: impl FnOnce() -> String) -> String {
        let known = || self.cached.lock().built_in.get(name).cloned();
        if let Some(known) = known() {
            return known;
        }
        let _building = self.building.lock().await;
        if let Some(known) = known() {
            return known;
        }
        tokio::task::yield_now().await;
        let hash = make();
        self.cached.lock().built_in.insert(name.to_owned(), hash.clone());
        hash
    }

    /// The hashes of v3, if they were looked up at that generation of the catalogue.
    pub fn hashes(&self, generation: u64) -> Option<Arc<Hashes>> {
        let cached = self.cached.lock();
        cached.v3.as_ref().filter(|(of, _)| *of == generation).map(|(_, hashes)| hashes.clone())
    }

    pub fn set_hashes(&self, generation: u64, hashes: Arc<Hashes>) {
        self.cached.lock().v3 = Some((generation, hashes));
    }

    /// The hash of a document of everything, once it was built from those generations.
    pub fn hash(&self, of: Generations, name: &str, media: &'static str) -> Option<String> {
        let cached = self.cached.lock();
        let (known, hash) = cached.hashes.get(&(name.to_owned(), media))?;
        (*known == of).then(|| hash.clone())
    }

    pub fn set_hash(&self, of: Generations, name: &str, media: &'static str, hash: String) {
        self.cached.lock().hashes.insert((name.to_owned(), media), (of, hash));
    }
}

impl Cached {
    fn bytes(&self) -> usize {
        self.forms.values().map(|document| document.bytes.len()).sum()
    }

    fn find(&mut self, form: Form<'_>) -> Option<Bytes> {
        self.clock += 1;
        let document = self.forms.get_mut(&(form.name.to_owned(), form.media, form.gzipped))?;
        if *document.version != *form.version {
            return None;
        }
        document.used = self.clock;
        Some(document.bytes.clone())
    }

    fn keep(&mut self, form: Form<'_>, bytes: Bytes) {
        self.built += 1;
        let key = (form.name.to_owned(), form.media, form.gzipped);
        self.forms.remove(&key);
        if bytes.len() > MAX_BYTES {
            return;
        }
        while self.bytes() + bytes.len() > MAX_BYTES {
            let oldest = self.forms.iter().min_by_key(|(_, document)| document.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.forms.remove(&oldest);
        }
        self.forms.insert(key, Document { bytes, version: form.version.into(), used: self.clock });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(name: &str) -> Form<'_> {
        Form { name, media: "text/plain", gzipped: true, version: "1" }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    #[allow(clippy::disallowed_methods)] // Threads are what the test is about.
    async fn a_document_is_built_once_for_concurrent_requests() {
        let documents = std::sync::Arc::new(OpenApiCache::default());
        let asked = (0..100).map(|i| {
            let documents = documents.clone();
            tokio::spawn(async move {
                let name = if i % 2 == 0 { "even" } else { "odd" };
                documents.form(form(name), || vec![i as u8 % 2; 1000]).await
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
            documents.form(form(name), third).await;
        }
        assert!(documents.bytes() <= MAX_BYTES);
        // Only "b" went.
        documents.form(form("a"), || panic!("kept")).await;
        documents.form(form("c"), || panic!("kept")).await;
        assert_eq!(documents.built(), 4);
        // A document larger than the cache is built for each request.
        documents.form(form("large"), || vec![0; MAX_BYTES + 1]).await;
        documents.form(form("d"), || panic!("kept")).await;
    }

    #[tokio::test]
    async fn a_document_of_another_version_replaces_the_one_cached() {
        let documents = OpenApiCache::default();
        let second = Form { version: "2", ..form("a") };
        documents.form(form("a"), || vec![1; 1000]).await;
        documents.form(form("b"), || vec![1; 1000]).await;
        assert_eq!(documents.form(second, || vec![2; 1000]).await[0], 2);
        assert_eq!(documents.bytes(), 2000, "nothing is kept of the first");
        documents.form(second, || panic!("kept")).await;
        documents.form(form("b"), || panic!("kept")).await;
    }

    #[tokio::test]
    async fn hashes_of_built_in_documents_outlive_generations() {
        let documents = OpenApiCache::default();
        assert_eq!(documents.built_in_hash("api/v1", || "A".into()).await, "A");
        documents.set_hashes(1, Arc::default());
        let of = |catalog, others| Generations { catalog, others };
        documents.set_hash(of(1, 1), "v2", "text/plain", "B".into());
        assert!(documents.hashes(2).is_none());
        assert_eq!(documents.hash(of(2, 1), "v2", "text/plain"), None);
        assert_eq!(documents.hash(of(1, 2), "v2", "text/plain"), None);
        assert_eq!(documents.hash(of(1, 1), "v2", "text/plain").as_deref(), Some("B"));
        assert_eq!(documents.built_in_hash("api/v1", || panic!("kept")).await, "A");
    }
}
