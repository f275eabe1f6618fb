//! What other servers tell of themselves: discovery and OpenAPI, fetched in the background and kept until something newer comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use object::Value;
use parking_lot::Mutex;

/// By the name of the APIService.
#[derive(Default)]
pub(crate) struct Documents {
    discovered: ArcSwap<BTreeMap<String, Arc<Discovered>>>,
    specs: ArcSwap<Specs>,
    /// Held while one of them is replaced: one after the other.
    changing: Mutex<()>,
    /// Guards the last merged document of OpenAPI v2, of each form; held for a look.
    merged: Mutex<BTreeMap<&'static str, Merged>>,
}

/// The resources of a group version.
#[derive(Debug, Default)]
pub(crate) struct Discovered {
    /// APIResourceDiscovery.
    pub resources: Vec<Value>,
    /// False: its server could not be asked.
    pub current: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Specs {
    pub generation: u64,
    pub of: BTreeMap<String, Arc<Spec>>,
}

/// What a server describes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Spec {
    /// Documents of v3, with their hashes.
    pub v3: BTreeMap<String, String>,
    /// The one document of v3, in JSON, where the server has only v2.
    pub converted: Option<Bytes>,
    /// Of v2: the paths of its group version, and the definitions they need.
    pub v2: Option<Value>,
}

/// Of a generation of the catalogue, and one of the specs.
struct Merged {
    generations: (u64, u64),
    document: Bytes,
}

impl Documents {
    pub fn discovered(&self) -> Arc<BTreeMap<String, Arc<Discovered>>> {
        self.discovered.load_full()
    }

    /// `None`: there is no such server any more.
    pub fn set_discovered(&self, name: &str, now: Option<Discovered>) {
        let _changing = self.changing.lock();
        let mut all = BTreeMap::clone(&self.discovered.load());
        match now {
            Some(now) => _ = all.insert(name.to_owned(), Arc::new(now)),
            None if !all.contains_key(name) => return,
            None => _ = all.remove(name),
        }
        self.discovered.store(Arc::new(all));
    }

    pub fn specs(&self) -> Arc<Specs> {
        self.specs.load_full()
    }

    pub fn set_spec(&self, name: &str, now: Option<Spec>) {
        let _changing = self.changing.lock();
        let mut specs = Specs::clone(&self.specs.load());
        if specs.of.get(name).map(|spec| &**spec) == now.as_ref() {
            return;
        }
        specs.generation += 1;
        match now {
            Some(now) => _ = specs.of.insert(name.to_owned(), Arc::new(now)),
            None => _ = specs.of.remove(name),
        }
        self.specs.store(Arc::new(specs));
    }

    /// The merged document of v2 as this media type, made by `make` unless it is known.
    pub fn merged(
        &self,
        media: &'static str,
        generations: (u64, u64),
        make: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        let known = self
            .merged
            .lock()
            .get(media)
            .filter(|m| m.generations == generations)
            .map(|m| m.document.clone());
        known.unwrap_or_else(|| {
            let document = Bytes::from(make());
            self.merged.lock().insert(media, Merged { generations, document: document.clone() });
            document
        })
    }
}
