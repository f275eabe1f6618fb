//! OpenAPI documents in the forms they are sent in: each made once, by one of those who ask for it, and shared by all.
//!
//! A document takes tens of milliseconds to write and as many to pack. A hundred clients that start together ask for the same few.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Bytes of documents that are kept; the ones asked for longest ago make room. All documents packed have about half of it.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A document in one of its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form<'a> {
    /// Its path.
    pub name: &'a str,
    pub media: &'static str,
    pub gzipped: bool,
}

/// What stays in memory, made on first use.
#[derive(Default)]
pub struct OpenApiCache {
    /// Guards what is kept, for a look-up at a time.
    cached: Mutex<Cached>,
    /// Guards nothing: who makes a document has it. Those who wait for one find it kept, or make it one after the other.
    building: tokio::sync::Mutex<()>,
}

/// The hash of every document of v3, by what the index calls it: `apis/apps/v1`.
pub type Hashes = BTreeMap<String, String>;

#[derive(Default)]
struct Cached {
    /// Of the catalogue that everything kept is made from.
    generation: u64,
    /// Made by the first who asks.
    v3: Arc<OnceCell<Arc<Hashes>>>,
    /// By name, media type and whether it is packed.
    forms: BTreeMap<(String, &'static str, bool), Entry>,
    /// Of documents that are not v3's, by name and media type; they stay when a document makes room, so that who has it hears so without another.
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
    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        let cached = self.cached.lock();
        let of_two = cached.hashes.iter().map(|((name, _), hash)| name.capacity() + hash.capacity());
        let of_v3 = cached.v3.get().into_iter().flat_map(|v3| v3.iter());
        cached.bytes()
            + of_two.chain(of_v3.map(|(name, hash)| name.capacity() + hash.capacity())).sum::<usize>()
    }

    /// How many times a form was made.
    pub fn built(&self) -> usize {
        self.cached.lock().built
    }

    /// A form, made by `make` unless it is kept.
    pub async fn form(&self, generation: u64, form: Form<'_>, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        if let Some(found) = self.at(generation).find(form) {
            return found;
        }
        let _building = self.building.lock().await;
        // Whoever had the turn before may have made it.
        if let Some(found) = self.at(generation).find(form) {
            return found;
        }
        let bytes = Bytes::from(make());
        self.at(generation).keep(form, bytes.clone());
        bytes
    }

    /// The hashes of v3. To know them, `make` makes every document once: others get their turn on this thread in between.
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

    /// The hash of another document, once somebody made it.
    pub fn hash(&self, generation: u64, name: &str, media: &'static str) -> Option<String> {
        self.at(generation).hashes.get(&(name.to_owned(), media)).cloned()
    }

    pub fn set_hash(&self, generation: u64, name: &str, media: &'static str, hash: String) {
        self.at(generation).hashes.insert((name.to_owned(), media), hash);
    }

    /// What is kept of the catalogue of that generation; another one's is forgotten. Two that alternate, while a definition
    /// comes and requests from before are still under way, only make things twice.
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
    async fn a_form_is_made_by_one_of_those_who_ask() {
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
    async fn what_was_asked_for_longest_ago_makes_room() {
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
        // What is larger than all that may be kept is made for each.
        documents.form(0, form("large"), || vec![0; MAX_BYTES + 1]).await;
        documents.form(0, form("d"), || panic!("kept")).await;
    }
}
